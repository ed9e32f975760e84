//! Closures and destructors that panic, memory that runs out, and what else goes wrong.

use crate::common::alive::{Alive, Value};
use crate::ordered::{Collided, Hashed, List, Structure};
use percolog::collections::map::{AddReason, ChangeError, MapBuilder};
use percolog::collections::{Map, OrderedList};
use percolog::reclaim::Domain;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

fn a_panic_poisons_one_entry<S: Structure<AtomicU64>>() {
    let domain = Domain::new();
    let subject = S::make(&domain);
    for key in 0..3 {
        subject
            .add(key, AtomicU64::new(key))
            .expect("there is memory");
    }
    let spoil = || {
        assert!(panics(|| subject.modify(1, |value| {
            value.store(99, Ordering::Relaxed);
            panic!("in the middle");
        })));
        assert_eq!(subject.modify(1, |_| ()), Err(ChangeError::Poisoned));
        assert_eq!(
            subject.update(1, |_| unreachable!("it is poisoned")),
            Err(ChangeError::Poisoned)
        );
    };
    let look = |key| subject.observe(key, |value| value.load(Ordering::Relaxed));

    spoil();
    assert_eq!(look(1), Some(99), "observers see what there is");
    assert!(subject.clear_poison(1) && !subject.clear_poison(1) && !subject.clear_poison(7));
    assert_eq!(subject.modify(1, |_| 5), Ok(5));

    spoil();
    assert_eq!(subject.put(1, AtomicU64::new(1)).ok(), Some(true));
    assert_eq!(subject.modify(1, |_| 6), Ok(6));

    assert!(panics(|| subject.update(1, |_| panic!("no new value"))));
    assert_eq!(
        (look(1), subject.modify(1, |_| ())),
        (Some(1), Err(ChangeError::Poisoned))
    );
    // Its neighbours come and go as ever.
    for key in [0, 2] {
        assert!(subject.delete(key));
        subject
            .add(key, AtomicU64::new(key))
            .expect("there is memory");
        assert_eq!(subject.modify(key, |_| ()), Ok(()));
    }
    assert!(subject.delete(1));
    subject.add(1, AtomicU64::new(1)).expect("there is memory");
    assert_eq!(subject.modify(1, |_| ()), Ok(()));

    assert!(panics(|| subject.delete_if(1, |_| panic!("undecided"))));
    assert_eq!(
        (look(1), subject.modify(1, |_| ())),
        (Some(1), Err(ChangeError::Poisoned))
    );
    assert!(panics(
        || subject.delete_with::<()>(1, |_| panic!("too late"))
    ));
    assert_eq!((look(1), subject.len()), (None, 2));
}

#[test]
fn a_panic_poisons_one_entry_of_a_list() {
    a_panic_poisons_one_entry::<List<AtomicU64>>();
}

#[test]
fn a_panic_poisons_one_entry_of_a_map() {
    a_panic_poisons_one_entry::<Hashed<AtomicU64>>();
    a_panic_poisons_one_entry::<Collided<AtomicU64>>();
}

/// A key whose comparison panics when it is told to.
#[derive(Debug, Clone)]
struct Touchy<'a>(u64, &'a AtomicBool);

static PANICS: AtomicBool = AtomicBool::new(false);

impl PartialEq for Touchy<'_> {
    fn eq(&self, other: &Self) -> bool {
        assert!(!self.1.load(Ordering::Relaxed), "touched");
        self.0 == other.0
    }
}

impl Eq for Touchy<'_> {}

impl Hash for Touchy<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 % 2).hash(state);
    }
}

#[test]
fn a_comparison_that_panics_changes_nothing() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let map: Map<'_, Touchy<'static>, Value> = Map::new(&domain);
    let key = |number| Touchy(number, &PANICS);
    for number in 0..10 {
        assert!(map.add(key(number), alive.value(number)).is_ok());
    }
    PANICS.store(true, Ordering::Relaxed);
    assert!(panics(|| map.add(key(10), alive.value(10))));
    assert!(panics(|| map.put(key(1), alive.value(1))));
    assert!(panics(|| map.delete(&key(1))));
    assert!(panics(|| map.modify(&key(1), |_| ())));
    PANICS.store(false, Ordering::Relaxed);
    assert_eq!((map.len(), alive.count()), (10, 10));
    for number in 0..10 {
        assert_eq!(map.modify(&key(number), Value::number), Ok(number));
        assert!(map.delete(&key(number)));
    }
    drop(map);
    drop(domain);
    assert_eq!(alive.count(), 0);
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Explosive(bool);

impl Drop for Explosive {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        assert!(!self.0, "explodes");
    }
}

#[test]
fn a_destructor_that_panics_loses_no_other() {
    let domain = Domain::new();
    let list = OrderedList::new(&domain);
    for key in 0..5 {
        assert!(list.add(key, Explosive(key % 2 == 0)).is_ok());
    }
    assert!(panics(|| drop(list)), "it is told");
    assert_eq!(DROPPED.load(Ordering::Relaxed), 5);

    // One that was deleted explodes where nobody is told.
    let map = Map::new(&domain);
    for key in 0..5 {
        assert!(map.add(key, Explosive(key == 2)).is_ok());
    }
    map.clear();
    drop(map);
    drop(domain);
    assert_eq!(DROPPED.load(Ordering::Relaxed), 10);
}

#[test]
fn memory_that_runs_out_is_an_error_and_comes_back() {
    const LIMIT: usize = 200_000;
    let (domain, alive) = (Domain::new(), Alive::default());
    let map: Map<'_, u64, Value> = MapBuilder::new().limit(LIMIT).map(&domain);
    let mut full = 0;
    let refused = loop {
        match map.add(full, alive.value(full)) {
            Ok(()) => full += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.reason, AddReason::Exhausted { limit: Some(LIMIT) });
    assert_eq!(refused.to_string(), "the limit of 200000 bytes is reached");
    assert_eq!((refused.key, refused.value.number()), (full, full));
    drop(refused);
    assert!(full > 100);
    assert!((LIMIT / 2..2 * LIMIT).contains(&map.memory_usage()));

    // Nothing is lost, and nothing else stops.
    assert_eq!((map.len(), alive.count()), (full as usize, full as usize));
    let update = map.update(&0, |_| alive.value(0));
    assert_eq!(update, Err(ChangeError::Exhausted { limit: Some(LIMIT) }));
    assert_eq!(map.modify(&0, Value::number), Ok(0), "not poisoned by that");
    let put = map
        .put(0, alive.value(7))
        .expect_err("there is no memory for it");
    assert_eq!((put.key, put.value.number()), (0, 7));
    drop(put);
    let exists = map.add(0, alive.value(8)).expect_err("it is there");
    assert_eq!(
        exists.reason,
        AddReason::Exists,
        "which needs no memory to see"
    );
    drop(exists);
    assert!(
        alive.count() <= full as usize,
        "what is handed back is dropped once"
    );

    for key in 0..full {
        assert_eq!(map.delete_with(&key, Value::number), Some(key));
    }
    for key in 0..full {
        assert!(
            map.add(key, alive.value(key)).is_ok(),
            "what was deleted makes room"
        );
    }
}

/// Uses the entry of which it was to be the value.
struct Nosy;

static NOSY_DOMAIN: Domain = Domain::new();
static NOSY: OrderedList<'static, u64, Nosy> = MapBuilder::new().limit(20_000).list(&NOSY_DOMAIN);
static LOOKED: AtomicUsize = AtomicUsize::new(0);

impl Drop for Nosy {
    fn drop(&mut self) {
        let looked = NOSY.modify(&0, |_| LOOKED.fetch_add(1, Ordering::Relaxed));
        assert!(looked.is_ok());
    }
}

#[test]
fn what_there_is_no_memory_for_is_destroyed_under_no_lock() {
    let refused = (0..).find_map(|key| NOSY.add(key, Nosy).err());
    assert!(refused.is_some_and(|refused| refused.key > 100));
    let before = LOOKED.load(Ordering::Relaxed);
    let update = NOSY.update(&0, |_| Nosy);
    assert!(matches!(update, Err(ChangeError::Exhausted { .. })));
    assert_eq!(LOOKED.load(Ordering::Relaxed), before + 1);
}

#[test]
fn a_section_of_another_domain_is_refused() {
    let (domain, other) = (Domain::new(), Domain::new());
    let (list, map) = (OrderedList::new(&domain), Map::new(&domain));
    list.add(1, 1).expect("there is memory");
    map.add(1, 1).expect("there is memory");
    let wrong = other.enter();
    assert!(panics(|| list.get(&wrong, &1).copied()));
    assert!(panics(|| list.iter(&wrong).count()));
    assert!(panics(|| list.range(&wrong, 0..).count()));
    assert!(panics(|| map.get(&wrong, &1).copied()));
    assert!(panics(|| map.iter(&wrong).count()));
    assert!(panics(|| list.get_or_add(&wrong, 1, || 1).copied().is_ok()));
    assert!(panics(|| map.get_or_add(&wrong, 1, || 1).copied().is_ok()));
}

/// A reader outlives everything but the section.
#[test]
fn what_a_section_has_found_is_there_after_everything_was_deleted() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let map = Map::new(&domain);
    for key in 0..100 {
        assert!(map.add(key, alive.value(key)).is_ok());
    }
    let section = domain.enter();
    let found: Vec<&Value> = (0..100).filter_map(|key| map.get(&section, &key)).collect();
    let mut iter = map.iter(&section);
    assert!(iter.next().is_some());
    map.clear();
    for _ in 0..10 {
        map.collect();
    }
    assert_eq!(map.get(&section, &5).map(Value::number), None);
    assert!((0..100).eq(found.iter().map(|value| value.number())));
    // On a way that nobody else can take any more.
    assert!(iter.all(|(key, value)| value.number() == *key));
    drop(section);
    while alive.count() != 0 {
        map.collect();
    }
}
