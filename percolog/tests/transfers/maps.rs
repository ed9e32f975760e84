//! What a map moves whose entries are looked up without locks: nothing while nobody writes; and with changes what is changed.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use percolog::collections::Map;
use percolog::collections::map::MapBuilder;
use percolog::reclaim::Domain;

use super::collections::{Collection, KEYS, between, key, sustained};
use super::{FEW_CORES, SHARED_LINE, breaks, keeps, keeps_on};

type Table<V> = Map<'static, u64, V, BuildHasherDefault<DefaultHasher>>;

/// So many buckets that different threads' keys are hardly ever in one, or in one line: what is counted is what an operation
/// moves, not whom it meets.
const BUCKETS: usize = 1 << 20;

/// What a modification may move. (Keys of two threads do meet here and there.)
const CHANGE: f64 = 0.05;

/// What deleting and adding may move. What was deleted cannot be used again before sections have ended, so a thread that does
/// nothing else takes new memory all the time at first, a chunk for some hundreds of entries; all of them count their chunks in one
/// word of the slab, and here they all need one at the same moment. Besides, the domain looks at its threads now and then.
const COMING_AND_GOING: f64 = 1.0;

/// On a line of its own: what lies beside it in the slab is another key's, and perhaps another thread's.
#[repr(align(128))]
struct Value(AtomicU64);

fn table<V: Send + Sync + 'static>() -> Table<V> {
    static DOMAIN: Domain = Domain::new();
    MapBuilder::new()
        .capacity(BUCKETS)
        .map_with_hasher(&DOMAIN, BuildHasherDefault::new())
}

fn add(table: &Table<Value>, key: u64) {
    let added = table.add(key, Value(AtomicU64::new(0)));
    assert!(added.is_ok(), "there is memory, and no such key");
}

/// Lookups of the same keys on all cores.
struct Observed(Table<Value>);

impl Collection for Observed {
    fn new(_threads: usize) -> Self {
        let table = table();
        (0..KEYS).for_each(|key| add(&table, key));
        percolog_roi::label(&table, "Map");
        Self(table)
    }

    fn make_use(&self, _thread: usize, number: u64) {
        let found = self
            .0
            .observe(&(number % KEYS), |value| value.0.load(Ordering::Relaxed));
        assert_eq!(found, Some(0));
    }

    fn collect(&self) {}

    fn check(&self, _threads: usize, _uses: u64) {
        assert_eq!(self.0.len() as u64, KEYS);
    }
}

/// The same behind a lock.
struct Locked(Mutex<std::collections::HashMap<u64, u64>>);

impl Collection for Locked {
    fn new(_threads: usize) -> Self {
        Self(Mutex::new((0..KEYS).map(|key| (key, 0)).collect()))
    }

    fn make_use(&self, _thread: usize, number: u64) {
        let table = self.0.lock().expect("no panic");
        assert_eq!(table.get(&(number % KEYS)), Some(&0));
    }

    fn collect(&self) {}

    fn check(&self, _threads: usize, _uses: u64) {}
}

/// Each thread modifies keys of its own.
struct Modified(Table<Value>);

impl Collection for Modified {
    fn new(_threads: usize) -> Self {
        Self(table())
    }

    fn make_use(&self, thread: usize, number: u64) {
        let key = key(thread, number, KEYS);
        if number < KEYS {
            add(&self.0, key);
        }
        let modified = self
            .0
            .modify(&key, |value| value.0.fetch_add(1, Ordering::Relaxed));
        assert_eq!(modified, Ok(number / KEYS));
    }

    fn collect(&self) {}

    fn check(&self, threads: usize, _uses: u64) {
        assert_eq!(self.0.len() as u64, threads as u64 * KEYS);
    }
}

/// Each thread deletes keys of its own, and adds them again.
struct Changed(Table<u64>);

impl Collection for Changed {
    fn new(_threads: usize) -> Self {
        Self(table())
    }

    fn make_use(&self, thread: usize, number: u64) {
        let key = key(thread, number, KEYS);
        assert_eq!(self.0.delete(&key), number >= KEYS);
        assert!(self.0.add(key, number).is_ok(), "there is memory");
    }

    fn collect(&self) {}

    fn check(&self, threads: usize, _uses: u64) {
        assert_eq!(self.0.len() as u64, threads as u64 * KEYS);
    }
}

#[test]
fn lookups_in_a_map() {
    keeps(sustained::<Observed>, 0.0);
}

#[test]
fn lookups_behind_a_lock() {
    breaks(between::<Locked>, 0.0, SHARED_LINE);
}

#[test]
fn modifications_of_different_keys() {
    keeps_on(FEW_CORES, sustained::<Modified>, CHANGE);
}

#[test]
fn different_keys_that_come_and_go() {
    keeps_on(FEW_CORES, sustained::<Changed>, COMING_AND_GOING);
}
