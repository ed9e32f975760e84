//! Requests to a cache, from all cores: Figures 7 and 8 of the paper on parallel sections.
//!
//! Q. Wang, T. Stamler, G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*, EuroSys 2016, §5.2: memcached is asked in
//! its own process, without a network. Keys of 16 bytes and values of 32, chosen as YCSB does (Zipf 0.99); some requests set, all others
//! get; there is room for all. The caches are those of the paper: memcached as it was, with one lock for the least recently used order
//! and one for each bucket; the same with queue locks and CLOCK; ours; and ours without any replacement.

mod memcached;
mod parallel;

use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;

use super::crew::{self, CrewError, Shift, Work};
use crate::hash::mix;
use crate::zipf::Zipf;
use memcached::{Memcached, Queue, Recency, Spin};
use parallel::{Endless, Percolog};

/// A key of 16 bytes.
pub type Key = [u64; 2];

/// A value of 32 bytes.
pub type Value = [u64; 4];

pub use parallel::Hashed;

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// memcached 1.4: spin locks, references counted in items, and each hit moves its item to the front of a list under one lock.
    Stock,
    /// The same where an item moves once a minute at most, as later versions have it: never, in the time that is simulated.
    StockOnceAMinute,
    /// The same with queue locks and CLOCK: a hit marks its item if that has no mark.
    QueueLocks,
    /// `percolog::collections::Cache`.
    Percolog,
    /// A table with percolog's sections, slab and locks that replaces nothing.
    Endless,
}

/// YCSB's.
const SKEW: f64 = 0.99;

/// Requests that a thread makes before it begins from the start.
const TRACE: usize = 1 << 14;

/// In a trace: this request sets.
const SETS: u32 = 1 << 31;

/// What all caches do.
pub trait Cache: Sync {
    /// The value, if there is one.
    fn get(&self, thread: usize, key: &Key) -> Option<Value>;

    /// Puts a value in. Says whether there was room.
    fn set(&self, thread: usize, key: Key, value: Value) -> bool;
}

/// The key of a number.
fn key(number: u64) -> Key {
    [number, !number]
}

/// A value for a key, which says whose it is.
fn value(number: u64, version: u64) -> Value {
    [
        number,
        version,
        number.wrapping_mul(3) ^ version,
        version.rotate_left(7),
    ]
}

/// Whether a value is one that was set for the key, and whole.
fn is_of(found: &Value, number: u64) -> bool {
    *found == value(number, found[1])
}

/// Of all requests `sets` in a hundred set.
///
/// # Errors
/// A thread could not be started, or a request did not find what it should have found.
pub fn run(shift: Shift, kind: CacheKind, keys: u64, sets: u64) -> Result<Work, CrewError> {
    let threads = shift.threads;
    match kind {
        CacheKind::Stock => {
            let cache = Memcached::<Spin>::new(threads, keys, Recency::Exact);
            drive(shift, &cache, keys, sets)
        }
        CacheKind::StockOnceAMinute => {
            let cache = Memcached::<Spin>::new(threads, keys, Recency::WhenSet);
            drive(shift, &cache, keys, sets)
        }
        CacheKind::QueueLocks => {
            let cache = Memcached::<Queue>::new(threads, keys, Recency::Clock);
            drive(shift, &cache, keys, sets)
        }
        CacheKind::Percolog => drive(shift, &Percolog::new(keys), keys, sets),
        CacheKind::Endless => drive(shift, &Endless::new(keys), keys, sets),
    }
}

/// The same of any cache, in which so many keys have room.
///
/// # Errors
/// As [`run`].
pub fn drive(shift: Shift, cache: &impl Cache, keys: u64, sets: u64) -> Result<Work, CrewError> {
    let wrong = AtomicU64::new(0);
    for number in 0..keys {
        if !cache.set(0, key(number), value(number, 0)) {
            wrong.fetch_add(1, Ordering::Relaxed);
        }
    }
    let zipf = Zipf::new(usize::try_from(keys).unwrap_or(usize::MAX), SKEW);
    let (mut work, latencies) = crew::run_watched(shift, latencies, |thread| {
        let trace = trace(&zipf, thread as u64, sets);
        let (wrong, mut at, mut version) = (&wrong, 0, (thread as u64 + 1) << 40);
        // A thread's first set makes what is its own in a cache and its allocator, which is not what is measured.
        if sets > 0 {
            let number = thread as u64 % keys;
            if !cache.set(thread, key(number), value(number, version)) {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
        move || {
            let request = trace[at];
            at = (at + 1) % TRACE;
            let number = u64::from(request & !SETS);
            let right = if request & SETS == 0 {
                cache
                    .get(thread, &key(number))
                    .is_some_and(|found| is_of(&found, number))
            } else {
                version += 1;
                cache.set(thread, key(number), value(number, version))
            };
            if !right {
                // Relaxed: looked at when all threads have ended.
                wrong.fetch_add(1, Ordering::Relaxed);
            }
            1
        }
    })?;
    work.p99 = latencies
        .into_iter()
        .reduce(|mut all, own| {
            all += own;
            all
        })
        .map(|all| all.value_at_quantile(0.99));
    work.checked(wrong.into_inner(), 0)
}

/// Cycles, to one part in a hundred.
fn latencies() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, 1 << 40, 2);
    made.unwrap_or_else(|_| unreachable!("the bounds and the digits are possible ones"))
}

/// A thread's requests: numbers of keys, some of them with [`SETS`].
fn trace(zipf: &Zipf, thread: u64, sets: u64) -> Vec<u32> {
    let lookups = zipf.lookups(thread, TRACE);
    let requests = lookups.into_iter().enumerate().map(|(at, key)| {
        // Which requests set has nothing to do with their keys.
        let sets_now = mix(at as u64 ^ (thread << 32)) % 100 < sets;
        key as u32 | if sets_now { SETS } else { 0 }
    });
    requests.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIFT: Shift = Shift {
        threads: 3,
        warm_up: 20_000,
        cycles: 2_000_000,
    };

    /// With room for 64 items.
    pub(super) fn follows_a_map(cache: &impl Cache) {
        let mut model = std::collections::HashMap::new();
        for step in 0..10_000 {
            let number = mix(step) % 64;
            if mix(step + 1).is_multiple_of(3) {
                assert!(cache.set(0, key(number), value(number, step)));
                model.insert(number, step);
            }
            let expected = model.get(&number).map(|version| value(number, *version));
            assert_eq!(cache.get(0, &key(number)), expected);
        }
    }

    /// A cache that loses what it should keep, or gives out another's value.
    struct Wrong<C>(C, fn(u64) -> u64);

    impl<C: Cache> Cache for Wrong<C> {
        fn get(&self, thread: usize, key: &Key) -> Option<Value> {
            self.0.get(thread, &super::key((self.1)(key[0])))
        }

        fn set(&self, thread: usize, key: Key, value: Value) -> bool {
            self.0.set(thread, key, value)
        }
    }

    #[test]
    fn what_is_lost_or_anothers_is_an_error() {
        let right = |wrong| {
            let cache = Wrong(
                Memcached::<Spin>::new(SHIFT.threads, 100, Recency::Exact),
                wrong,
            );
            drive(SHIFT, &cache, 100, 20).map(|work| work.p99.is_some())
        };
        assert!(right(|number| number).expect("nothing is lost"));
        assert!(right(|number| number / 2).is_err());
        assert!(right(|number| number + 50).is_err());
    }

    #[test]
    fn a_trace_sets_as_often_as_was_asked_for() {
        let zipf = Zipf::new(1000, SKEW);
        for sets in [0, 10, 20, 50] {
            let count = trace(&zipf, 3, sets)
                .iter()
                .filter(|request| *request & SETS != 0)
                .count() as u64;
            let wanted = sets * TRACE as u64 / 100;
            assert!(count.abs_diff(wanted) <= wanted / 10, "{sets}: {count}");
        }
    }
}
