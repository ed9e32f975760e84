//! Tables of values by key, and short lists in the order of their keys: looked up most of the time, and changed on every thread.

use std::fmt;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_skiplist::SkipMap;
use dashmap::DashMap;
use percolog::collections::{Map, OrderedList};
use percolog::reclaim::Domain;

/// Keys that operations on a map are spread over. Half of them are there at a time.
pub const KEYS: u64 = 1 << 17;

/// The same for a list: what it is made for.
pub const FEW_KEYS: u64 = 64;

/// A table that threads share.
pub trait Table: Sync + Sized {
    /// How figures call it.
    const NAME: &'static str;

    /// An empty table.
    fn new() -> Self;

    /// The value of a key.
    fn get(&self, key: u64) -> Option<u64>;

    /// Adds an entry, or replaces its value.
    fn put(&self, key: u64, value: u64);

    /// Deletes an entry.
    fn delete(&self, key: u64) -> bool;

    /// How many entries there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

static DOMAIN: Domain = Domain::new();

/// [`Map`], with a section for each operation.
#[derive(Debug)]
pub struct OurMap(Map<'static, u64, u64>);

impl Table for OurMap {
    const NAME: &'static str = "Map";

    fn new() -> Self {
        Self(Map::new(&DOMAIN))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.observe(&key, |value| *value)
    }

    #[inline]
    fn put(&self, key: u64, value: u64) {
        self.0.put(key, value).expect("there is memory");
    }

    #[inline]
    fn delete(&self, key: u64) -> bool {
        self.0.delete(&key)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// [`OrderedList`], with a section for each operation.
#[derive(Debug)]
pub struct OurList(OrderedList<'static, u64, u64>);

impl Table for OurList {
    const NAME: &'static str = "OrderedList";

    fn new() -> Self {
        Self(OrderedList::new(&DOMAIN))
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.observe(&key, |value| *value)
    }

    #[inline]
    fn put(&self, key: u64, value: u64) {
        self.0.put(key, value).expect("there is memory");
    }

    #[inline]
    fn delete(&self, key: u64) -> bool {
        self.0.delete(&key)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The ordered map of many threads that programs reach for.
pub struct SkipTable(SkipMap<u64, u64>);

impl fmt::Debug for SkipTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkipTable").finish_non_exhaustive()
    }
}

impl Table for SkipTable {
    const NAME: &'static str = "crossbeam-skiplist";

    fn new() -> Self {
        Self(SkipMap::new())
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|entry| *entry.value())
    }

    #[inline]
    fn put(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    #[inline]
    fn delete(&self, key: u64) -> bool {
        self.0.remove(&key).is_some()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The map that most programs reach for: shards, each behind a lock of its own.
pub struct DashTable(DashMap<u64, u64>);

impl fmt::Debug for DashTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DashTable").finish_non_exhaustive()
    }
}

impl Table for DashTable {
    const NAME: &'static str = "dashmap";

    fn new() -> Self {
        Self(DashMap::new())
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|value| *value)
    }

    #[inline]
    fn put(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    #[inline]
    fn delete(&self, key: u64) -> bool {
        self.0.remove(&key).is_some()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Nanoseconds for an operation on so many keys, of which so many in a hundred look a key up, and the others put and delete in
/// turns.
///
/// # Panics
/// If a table shows what nobody has put there.
#[must_use]
pub fn mixed<T: Table>(keys: u64, threads: usize, reads: u64, operations: usize) -> f64 {
    let table = T::new();
    for key in (0..keys).step_by(2) {
        table.put(key, !key);
    }
    let table = black_box(table);
    let start = Barrier::new(threads);
    let times: Vec<Duration> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads as u64)
            .map(|thread| {
                let (table, start) = (&table, &start);
                scope.spawn(move || {
                    let mut state = 88_172_645_463_325_252_u64.wrapping_mul(2 * thread + 1);
                    start.wait();
                    let started = Instant::now();
                    for number in 0..operations {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        let key = (state >> 20) % keys;
                        if state % 100 < reads {
                            if let Some(value) = table.get(key) {
                                assert_eq!(value, !key);
                            }
                        } else if number.is_multiple_of(2) {
                            table.put(key, !key);
                        } else {
                            black_box(table.delete(key));
                        }
                    }
                    started.elapsed()
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(table.len() as u64 <= keys, "each key is there once");
    let time: Duration = times.iter().sum();
    time.as_secs_f64() * 1e9 / (threads * operations) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does_what_a_table_does<T: Table>() {
        let table = T::new();
        assert!(table.is_empty());
        table.put(1, 2);
        table.put(1, 3);
        assert_eq!(
            (table.get(1), table.get(2), table.len()),
            (Some(3), None, 1)
        );
        assert!(table.delete(1) && !table.delete(1));
        assert!(mixed::<T>(FEW_KEYS, 2, 50, 1000) > 0.0);
    }

    #[test]
    fn every_table_does_what_a_table_does() {
        does_what_a_table_does::<OurMap>();
        does_what_a_table_does::<DashTable>();
        does_what_a_table_does::<OurList>();
        does_what_a_table_does::<SkipTable>();
    }
}
