//! Elements of a hash table that all threads look up and change all the time; and requests that are counted while they are under way.

use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use dashmap::DashMap;
use percolog::dhash::{DHash, Partitioned};
use percolog::requests::Requests;
use percolog_validation::hash::BuildIdHasher;

/// Elements that everybody uses.
const HOT: u64 = 64;

/// Lookups of a thread in a sample.
const LOOKUPS: usize = 400_000;

/// Nanoseconds for each of so many operations of each thread, all at the same time.
fn each(threads: usize, operations: usize, pass: impl Fn(usize) + Sync) -> f64 {
    let start = Barrier::new(threads);
    let sum: f64 = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, pass) = (&start, &pass);
                scope.spawn(move || {
                    // What is made at first use.
                    pass(HOT as usize * 4);
                    start.wait();
                    let started = Instant::now();
                    pass(operations + thread % 2);
                    started.elapsed().as_secs_f64() * 1e9 / operations as f64
                })
            })
            .collect();
        all.into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    sum / threads as f64
}

/// Hot keys in an order that nobody guesses.
fn keys() -> Vec<u64> {
    let hasher = BuildIdHasher::default();
    (0..1024_u64).map(|at| hasher.hash_one(at) % HOT).collect()
}

/// A table of counts.
pub trait Counts: Sync {
    /// How figures call it.
    const NAME: &'static str;
    /// With all hot keys in it.
    fn new() -> Self;
    /// Locks the element, and changes it.
    fn change(&self, key: u64);
}

impl Counts for DHash<u64, (), u64, BuildIdHasher> {
    const NAME: &'static str = "DHash";

    fn new() -> Self {
        Self::with_hasher(|_, ()| 0, BuildIdHasher::default())
    }

    #[inline]
    fn change(&self, key: u64) {
        let found = self.find_or_allocate_and_lock(&key, |_| ());
        *found.expect("no guard is out") += 1;
    }
}

/// [`Partitioned`], as the K42 file cache takes it: the lower bits say which table.
#[derive(Debug)]
pub struct OurPartitioned(Partitioned<u64, u64, BuildIdHasher>);

impl Counts for OurPartitioned {
    const NAME: &'static str = "Partitioned";

    fn new() -> Self {
        Self(Partitioned::with_hasher(
            16,
            |key| *key,
            BuildIdHasher::default(),
        ))
    }

    #[inline]
    fn change(&self, key: u64) {
        let found = self.0.find_or_allocate_and_lock(&key, |_| 0);
        *found.expect("no guard is out") += 1;
    }
}

impl Counts for DashMap<u64, u64, BuildIdHasher> {
    const NAME: &'static str = "dashmap, get_mut";

    fn new() -> Self {
        let table = Self::with_hasher(BuildIdHasher::default());
        for key in 0..HOT {
            table.insert(key, 0);
        }
        table
    }

    #[inline]
    fn change(&self, key: u64) {
        *self.get_mut(&key).expect("it is there") += 1;
    }
}

/// `dashmap` with counts that need no lock: it is only read.
pub struct Atomics(DashMap<u64, AtomicU64, BuildIdHasher>);

impl std::fmt::Debug for Atomics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Atomics").finish_non_exhaustive()
    }
}

impl Counts for Atomics {
    const NAME: &'static str = "dashmap, get and an atomic";

    fn new() -> Self {
        let table = DashMap::with_hasher(BuildIdHasher::default());
        for key in 0..HOT {
            table.insert(key, AtomicU64::new(0));
        }
        Self(table)
    }

    #[inline]
    fn change(&self, key: u64) {
        let found = self.0.get(&key).expect("it is there");
        found.fetch_add(1, Ordering::Relaxed);
    }
}

/// Nanoseconds for a change of an element of a set that all threads use.
#[must_use]
pub fn changes<C: Counts>(threads: usize) -> f64 {
    let table = C::new();
    let keys = keys();
    each(threads, LOOKUPS, |operations| {
        for key in keys.iter().cycle().take(operations) {
            table.change(*key);
        }
    })
}

/// Nanoseconds for entering and leaving.
///
/// # Panics
/// If a thread could not be started.
#[must_use]
pub fn entered<C: Requests + Default + Sync>(threads: usize) -> f64 {
    let requests = C::default();
    each(threads, LOOKUPS, |operations| {
        for _ in 0..operations {
            drop(black_box(requests.enter().expect("nobody refuses")));
        }
    })
}

/// Nanoseconds for adding to an atomic and taking away again: what counting requests takes at least where there is one count.
#[must_use]
pub fn added(threads: usize) -> f64 {
    let count = AtomicU64::new(0);
    each(threads, LOOKUPS, |operations| {
        for _ in 0..operations {
            count.fetch_add(1, Ordering::AcqRel);
            black_box(&count);
            count.fetch_sub(1, Ordering::AcqRel);
        }
    })
}
