//! Ids that are none, limits, and code of users that does what it should not.

use crate::common::alive::Alive;
use percolog::namespace::{Id, InsertReason, Namespace, NamespaceBuilder};
use percolog::reclaim::{Domain, DomainOptions, GracePeriod};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn numbers_that_are_no_ids_name_nothing() {
    let domain = Domain::new();
    let names = Namespace::new(&domain);
    let section = domain.enter();
    let forged = [
        1,
        3,
        u64::MAX,
        1 << 32 | 1,
        (1 << 41) | 3,
        u64::from(u32::MAX),
    ];
    for bits in forged {
        let id = Id::from_bits(bits).expect("it is odd");
        assert!(names.get(&section, id).is_err());
        assert!(names.remove(id).is_err());
    }
    let id = names.insert(5).expect("there are ids");
    for bits in forged {
        let other = Id::from_bits(bits).expect("it is odd");
        assert!(other == id || names.get(&section, other).is_err());
    }
    assert_eq!(Id::<u8>::from_bits(id.to_bits() & !1), None);
    assert_eq!(Id::<u8>::from_bits(0), None);
    assert_eq!(size_of::<Option<Id<String>>>(), 8);
}

#[test]
#[should_panic(expected = "another domain")]
fn a_section_of_another_domain_is_refused() {
    let (domain, other) = (Domain::new(), Domain::new());
    let names = Namespace::new(&domain);
    let id = names.insert(1).expect("there are ids");
    let _ = names.get(&other.enter(), id);
}

/// Lookups go on finding everything in a section that is older than what they are asked for.
#[test]
fn what_is_inserted_during_lookups_is_found() {
    let domain = Domain::new();
    let names = Namespace::new(&domain);
    let section = domain.enter();
    let lookup = names.within(&section);
    let ids: Vec<_> = (0..300_000)
        .map(|number| {
            let id = names.insert(number).expect("there are ids");
            assert_eq!(lookup.get(id), Ok(&number));
            id
        })
        .collect();
    let later = names.within(&section);
    for (number, id) in ids.iter().enumerate().step_by(97) {
        assert_eq!(
            (lookup.get(*id), later.get(*id)),
            (Ok(&number), Ok(&number))
        );
    }
}

#[test]
fn an_open_section_keeps_ids_and_the_error_says_so() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let names = NamespaceBuilder::new().max_ids(3).build(&domain);
    let ids: Vec<_> = (0..3)
        .map(|number| names.insert(alive.value(number)).expect("there are three"))
        .collect();
    let section = domain.enter();
    let found = names.get(&section, ids[0]).expect("it is there");
    assert_eq!(names.remove(ids[0]).expect("it is there").number(), 0);
    let refused = names
        .insert(alive.value(9))
        .expect_err("one is still looked at");
    assert_eq!(refused.value.number(), 9);
    assert_eq!(
        refused.reason,
        InsertReason::NoIds {
            limit: 3,
            in_use: 2,
            waiting: 1
        }
    );
    assert_eq!(found.number(), 0);
    drop(section);
    assert!(names.insert(refused.value).is_ok());
    assert_eq!(alive.count(), 3);
}

/// An id is used again when its domain's own grace period has elapsed as well.
#[test]
fn a_grace_period_keeps_ids_too() {
    struct Flag(AtomicBool);
    impl GracePeriod for Flag {
        fn elapsed(&self, _ticket: u64) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
    static FLAG: Flag = Flag(AtomicBool::new(false));
    let (domain, alive) = (
        Domain::with(DomainOptions::new().grace(&FLAG)),
        Alive::default(),
    );
    let names = NamespaceBuilder::new().max_ids(1).build(&domain);
    let id = names.insert(alive.value(1)).expect("there is one");
    assert!(names.remove(id).is_ok());
    assert_eq!(names.collect(), 0);
    assert!(names.insert(alive.value(2)).is_err());
    assert_eq!(
        alive.count(),
        1,
        "the one that waits; the other came back and was dropped"
    );
    FLAG.0.store(true, Ordering::Relaxed);
    assert_eq!(names.collect(), 1);
    assert_eq!(alive.count(), 0);
    assert!(names.insert(alive.value(3)).is_ok());
}

#[test]
fn an_extent_that_is_not_made_leaves_nothing_behind() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let names = NamespaceBuilder::new().max_ids(128).build(&domain);
    for _ in 0..10 {
        let made = catch_unwind(AssertUnwindSafe(|| {
            names.insert_extent(100, |offset| {
                assert!(offset < 70, "on purpose");
                alive.value(offset.into())
            })
        }));
        assert!(made.is_err());
        assert_eq!((alive.count(), names.len()), (0, 0));
    }
    assert_eq!(names.stats().inserted, 0);
    let extent = names
        .insert_extent(128, |offset| alive.value(offset.into()))
        .expect("all ids are there");
    assert_eq!(names.remove_extent(extent), Ok(128));
    assert!(names.remove_extent(extent).is_err());
    assert!(names.insert_extent(129, |_| alive.value(0)).is_err());
    assert!(names.insert_extent(u32::MAX, |_| alive.value(0)).is_err());
    drop(names);
    assert_eq!(alive.count(), 0);
}

#[test]
fn destructors_of_an_extent_that_is_not_made_panic() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let domain = Domain::new();
    let names = NamespaceBuilder::new().max_ids(64).build(&domain);
    let made = catch_unwind(AssertUnwindSafe(|| {
        names.insert_extent(40, |offset| {
            assert!(offset < 30, "on purpose");
            Panics
        })
    }));
    assert!(made.is_err());
    let stats = names.stats();
    assert_eq!((stats.panics, stats.inserted, stats.free), (30, 0, 64));
    // Each value is dropped by itself.
    let extent = names.insert_extent(64, |_| Panics).expect("all are free");
    assert_eq!(names.remove_extent(extent), Ok(64));
    assert_eq!(names.collect(), 64);
    assert_eq!(names.stats().panics, 30 + 64);
    assert!(names.insert_extent(64, |_| Panics).is_ok());
}

/// What a destructor removes, inserts, and looks up is done, and one that panics harms nobody.
#[test]
fn destructors_use_the_namespace_and_panic() {
    struct Node {
        names: Arc<NodeNames>,
        next: Option<Id<Node>>,
        panics: bool,
    }
    #[derive(Default)]
    struct NodeNames {
        dropped: AtomicUsize,
    }
    static DOMAIN: Domain = Domain::new();
    static NAMES: Namespace<'static, Node> = Namespace::new(&DOMAIN);
    impl Drop for Node {
        fn drop(&mut self) {
            self.names.dropped.fetch_add(1, Ordering::Relaxed);
            if let Some(next) = self.next {
                assert!(NAMES.remove(next).is_ok());
                NAMES.collect();
            }
            assert!(!self.panics, "on purpose");
        }
    }
    let shared = Arc::new(NodeNames::default());
    let mut next = None;
    for number in 0..100 {
        let node = Node {
            names: shared.clone(),
            next,
            panics: number % 10 == 3,
        };
        next = NAMES.insert(node).ok();
        let bits = next.expect("there are ids").to_bits() ^ 2;
        let never = Id::from_bits(bits).expect("it is odd");
        assert!(NAMES.remove(never).is_err());
    }
    let last = next.expect("there are ids");
    assert!(NAMES.remove(last).is_ok());
    while NAMES.collect() != 0 {}
    assert_eq!(shared.dropped.load(Ordering::Relaxed), 100);
    assert_eq!(NAMES.len(), 0);
    let stats = NAMES.stats();
    assert_eq!((stats.panics, stats.waiting), (10, 0));
    assert_eq!((stats.inserted, stats.removed), (100, 100));
}

#[test]
fn a_namespace_drops_what_is_in_it_and_what_waits() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let names = Namespace::new(&domain);
    let ids: Vec<_> = (0..1000)
        .map(|number| names.insert(alive.value(number)).expect("there are ids"))
        .collect();
    let section = domain.enter();
    for id in &ids[..500] {
        assert!(names.remove(*id).is_ok());
    }
    assert_eq!(alive.count(), 1000);
    drop(section);
    drop(names);
    assert_eq!(alive.count(), 0);
}
