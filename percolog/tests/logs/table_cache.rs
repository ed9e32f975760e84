//! `TableCache`: what a lookup returns is what the central table says, whatever copies there are.
#![cfg(not(percolog_loom))]

use crate::common::history::{is_linearizable, record, together};
use crate::common::machine::{Machine, be_moved, stand_on};
use crate::common::model::{Act, Model, Sequential};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::TableCache;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

type Hashing = BuildHasherDefault<DefaultHasher>;

/// The last one is in the second table of places.
const SLOTS: [u32; 4] = [0, 1, 2, 64];

fn table<K, V>() -> TableCache<K, V, Hashing, Machine> {
    TableCache::new_in(Hashing::default(), Machine::exact(&SLOTS))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Get(u8),
    Insert(u8),
    Remove(u8),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        12 => (0..8u8).prop_map(Step::Get),
        4 => (0..8u8).prop_map(Step::Insert),
        2 => (0..8u8).prop_map(Step::Remove),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec((0..SLOTS.len(), step), 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(300) as u32))]

    #[test]
    fn lookups_say_what_a_plain_table_says(steps in steps(), bound in 1..10usize) {
        let (table, mut model) = (table().copies_per_core(bound), HashMap::new());
        for (number, (slot, step)) in steps.into_iter().enumerate() {
            stand_on(SLOTS[slot]);
            match step {
                Step::Get(key) => prop_assert_eq!(table.get(&key), model.get(&key).copied()),
                Step::Insert(key) => {
                    prop_assert_eq!(table.insert(key, number), model.insert(key, number));
                }
                Step::Remove(key) => prop_assert_eq!(table.remove(&key), model.remove(&key)),
                Step::Clear => {
                    table.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(table.len(), model.len());
            prop_assert!(table.copies() <= SLOTS.len() * bound.min(model.len()));
        }
        let mut all = HashMap::new();
        table.for_each(|key, value| {
            all.insert(*key, *value);
        });
        prop_assert_eq!(all, model);
    }
}

/// Clones that are counted, by the thread that makes them.
#[derive(Debug, PartialEq)]
struct Counted(u32);

thread_local! {
    static CLONES: Cell<u32> = const { Cell::new(0) };
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        CLONES.set(CLONES.get() + 1);
        Self(self.0)
    }
}

/// A miss clones once for the core and once for the caller, a hit once: so it is seen which of them a lookup was.
fn clones(f: impl FnOnce()) -> u32 {
    let before = CLONES.get();
    f();
    CLONES.get() - before
}

#[test]
fn the_second_lookup_on_a_core_finds_a_copy_until_somebody_updates() {
    let table = table();
    table.insert("a", Counted(1));
    table.insert("b", Counted(2));
    for slot in SLOTS {
        stand_on(slot);
        assert_eq!(clones(|| assert_eq!(table.get("a"), Some(Counted(1)))), 2);
        assert_eq!(clones(|| assert_eq!(table.get("a"), Some(Counted(1)))), 1);
        assert_eq!(clones(|| assert_eq!(table.get("b"), Some(Counted(2)))), 2);
    }
    assert_eq!(table.copies(), 2 * SLOTS.len());
    assert_eq!(table.insert("a", Counted(3)), Some(Counted(1)));
    assert_eq!(table.copies(), SLOTS.len());
    for slot in SLOTS {
        stand_on(slot);
        assert_eq!(clones(|| assert_eq!(table.get("a"), Some(Counted(3)))), 2);
        // Another key's update has left this one's copies alone.
        assert_eq!(clones(|| assert_eq!(table.get("b"), Some(Counted(2)))), 1);
    }
    // Absent: no copies, and none to be taken away.
    assert_eq!(clones(|| assert_eq!(table.get("c"), None)), 0);
    assert_eq!(table.insert("c", Counted(4)), None);
    assert_eq!(table.get("c"), Some(Counted(4)));
}

struct Register;

impl Model for Register {
    type State = Option<u8>;
    type Update = Option<u8>;
    fn apply(update: &Option<u8>, state: &mut Option<u8>) {
        *state = *update;
    }
}

/// Keys do not matter to each other, so a history of one is enough.
#[test]
fn lookups_and_updates_are_linearizable() {
    const THREADS: usize = 3;
    const KEY: u8 = 0;
    let mut chance = fastrand::Rng::with_seed(seed());
    let table = &table();
    for window in 0..share(150) {
        let mut history = Vec::new();
        record(0, &mut history, || Some(Act::Start(table.get(&KEY))));
        history.extend(together(THREADS, &mut chance, |process, chance, mine| {
            stand_on(SLOTS[process]);
            be_moved(chance.u64(..));
            for _ in 0..4 {
                let value = chance.u8(..);
                record(process, mine, || match chance.u8(..8) {
                    0..5 => Some(Act::Read(table.get(&KEY))),
                    5..7 => {
                        table.insert(KEY, value);
                        Some(Act::Update(Some(value)))
                    }
                    _ => {
                        table.remove(&KEY);
                        Some(Act::Update(None))
                    }
                });
            }
        }));
        record(0, &mut history, || Some(Act::Read(table.get(&KEY))));
        assert!(
            is_linearizable::<Sequential<Register>>(&history),
            "window {window} has no explanation: {history:#?}"
        );
    }
}

/// Each writer's numbers only grow: no reader sees one of them go back, on whatever slots it looks, and none is late.
#[test]
fn no_reader_sees_a_value_go_back() {
    let seed = seed();
    let (table, updated) = (&table(), &AtomicUsize::new(0));
    table.insert(0u8, 0usize);
    let updates = share(3000);
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                be_moved(seed.wrapping_add(thread));
                let mut seen = 0;
                while seen < updates {
                    let at_least = updated.load(Ordering::Acquire).max(seen);
                    seen = table.get(&0).expect("it is never removed");
                    assert!(seen >= at_least, "{seen} after {at_least}");
                }
            });
        }
        for number in 1..=updates {
            table.insert(0, number);
            updated.store(number, Ordering::Release);
        }
    });
}

/// A key whose comparison panics when it is told to.
#[derive(Clone, Debug)]
struct Moody(u8);

thread_local! {
    static PANICS_IN: Cell<u32> = const { Cell::new(u32::MAX) };
}

impl PartialEq for Moody {
    fn eq(&self, other: &Self) -> bool {
        let left = PANICS_IN.get();
        PANICS_IN.set(left.wrapping_sub(1));
        assert_ne!(left, 0, "in a mood");
        self.0 == other.0
    }
}

impl Eq for Moody {}

impl Hash for Moody {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

#[test]
fn a_panic_leaves_no_old_copy_and_no_lock_taken() {
    for panics_in in 0..12 {
        let table = table();
        table.insert(Moody(1), "old");
        for slot in SLOTS {
            stand_on(slot);
            assert_eq!(table.get(&Moody(1)), Some("old"));
        }
        PANICS_IN.set(panics_in);
        let inserted = catch_unwind(AssertUnwindSafe(|| table.insert(Moody(1), "new")));
        PANICS_IN.set(u32::MAX);
        let expected = if inserted.is_ok() { "new" } else { "old" };
        for slot in SLOTS {
            stand_on(slot);
            assert_eq!(table.get(&Moody(1)), Some(expected));
        }
        assert_eq!(table.insert(Moody(1), "newest"), Some(expected));
        for slot in SLOTS {
            stand_on(slot);
            assert_eq!(table.get(&Moody(1)), Some("newest"));
        }
    }
}

/// A key whose hash panics when it is told to; those below 200 have the same one.
#[derive(Clone, PartialEq, Eq)]
struct Shy(u32);

impl Hash for Shy {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let left = PANICS_IN.get();
        PANICS_IN.set(left.wrapping_sub(1));
        assert_ne!(left, 0, "not now");
        (self.0 >= 200).then_some(self.0).hash(hasher);
    }
}

#[test]
fn a_hash_that_panics_loses_no_entry() {
    stand_on(0);
    for panics_in in 1..8 {
        let table = table();
        // As many as there is room for in 128 places, in a row: those that are removed leave marks in theirs. Whoever comes next
        // and wants one of the places that were never used has the table tidied up in place.
        let mut there: Vec<u32> = (0..112).collect();
        for &number in &there {
            assert_eq!(table.insert(Shy(number), number), None);
        }
        for number in there.drain(20..) {
            assert_eq!(table.remove(&Shy(number)), Some(number));
        }
        for number in 200..230 {
            PANICS_IN.set(panics_in);
            let inserted = catch_unwind(AssertUnwindSafe(|| table.insert(Shy(number), number)));
            PANICS_IN.set(u32::MAX);
            if inserted.is_ok() {
                there.push(number);
            }
            let mut found = Vec::new();
            table.for_each(|key, _| found.push(key.0));
            found.sort_unstable();
            assert_eq!(found, there);
        }
    }
}

/// A key that looks into its table when it is dropped, which takes the table's locks.
#[derive(Clone)]
struct Peeking(u8, Weak<TableCache<Peeking, u8, Hashing, Machine>>);

impl PartialEq for Peeking {
    fn eq(&self, other: &Self) -> bool {
        Moody(self.0) == Moody(other.0)
    }
}

impl Eq for Peeking {}

impl Hash for Peeking {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl Drop for Peeking {
    fn drop(&mut self) {
        if let Some(table) = self.1.upgrade() {
            assert!(table.len() <= 2);
        }
    }
}

#[test]
fn what_is_replaced_is_dropped_under_no_lock() {
    for panics_in in 0..12 {
        let table = Arc::new(table());
        let key = |number| Peeking(number, Arc::downgrade(&table));
        stand_on(0);
        PANICS_IN.set(panics_in);
        for number in [1, 2, 1, 2] {
            let call = |f: &dyn Fn()| _ = catch_unwind(AssertUnwindSafe(f));
            call(&|| _ = table.insert(key(number), 1));
            call(&|| _ = table.get(&key(number)));
            call(&|| _ = table.insert(key(number), 2));
            if number == 2 {
                call(&|| _ = table.get(&key(1)));
                call(&|| _ = table.remove(&key(1)));
            }
        }
        PANICS_IN.set(u32::MAX);
    }
}

#[test]
fn every_value_and_every_copy_is_dropped_once() {
    let value = Arc::new(());
    let table = table().copies_per_core(2);
    for key in 0..8u8 {
        table.insert(key, value.clone());
    }
    thread::scope(|scope| {
        for slot in SLOTS {
            let table = &table;
            scope.spawn(move || {
                stand_on(slot);
                (0..100).for_each(|turn| drop(table.get(&(turn % 8)).expect("it is there")));
            });
        }
    });
    assert!(table.copies() <= 2 * SLOTS.len());
    assert_eq!(Arc::strong_count(&value), 1 + 8 + table.copies());
    drop(table.remove(&7));
    table.clear();
    assert_eq!((table.copies(), Arc::strong_count(&value)), (0, 1));
    table.insert(0, value.clone());
    assert_eq!(table.get(&0).as_ref().map(Arc::strong_count), Some(4));
    drop(table);
    assert_eq!(Arc::strong_count(&value), 1);
}
