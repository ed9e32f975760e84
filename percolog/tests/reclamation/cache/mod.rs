//! Caches: one thread at a time beside a map, many at once, and whatever can go wrong.
#![cfg(not(percolog_loom))]

mod clock;
mod differential;
#[cfg(unix)]
mod forked;
mod histories;
mod misuse;
mod threads;

use crate::common::alive::Alive;
use crate::common::eventually::eventually;
use percolog::collections::Cache;
use percolog::collections::cache::{CacheBuilder, TimeSource};
use percolog::reclaim::Domain;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// Time that moves when a test says so.
#[derive(Default)]
struct ByHand(AtomicU64);

impl ByHand {
    fn pass(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl TimeSource for ByHand {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Hashes of a test: those of the library, or ones that collide.
#[derive(Clone, Copy)]
struct Hashes {
    /// So many different hashes there are.
    different: u64,
}

impl BuildHasher for Hashes {
    type Hasher = Sum;

    fn build_hasher(&self) -> Sum {
        Sum(0, self.different)
    }
}

struct Sum(u64, u64);

impl Hasher for Sum {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(31).wrapping_add(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0 % self.1
    }
}

/// Collects until so many values are left: what threads that are ending have retired is taken over when they have.
fn collect_until(domain: &Domain, alive: &Alive, left: usize) {
    eventually(|| {
        while domain.collect() != 0 {}
        alive.count() == left
    });
    assert_eq!(alive.count(), left, "what was taken out is dropped");
}

/// A cache with room for so many of these items.
fn room_for<K, V>(items: usize) -> CacheBuilder<K, V> {
    Cache::<K, V>::builder(items * Cache::<K, V>::ITEM_BYTES)
}
