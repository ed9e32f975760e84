//! Counts by label, a few of which are hot: in a [`CounterMap`], and in sharded maps of atomics.
//!
//! The peers get a hash function that costs next to nothing; `CounterMap` pays for its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use dashmap::DashMap;
use percolog::reduce::CounterMap;

use crate::host;
use crate::reducers::{Fold, HOT};
use percolog_validation::hash::BuildIdHasher;

/// Each thread has a table.
#[derive(Debug)]
pub struct PercologLabels(CounterMap<u64>);

impl Fold for PercologLabels {
    const NAME: &'static str = "CounterMap";

    type Handle = ();

    fn new() -> Self {
        Self(CounterMap::new(1000))
    }

    fn handle(&self) {}

    #[inline]
    fn fold(&self, (): &mut (), number: u64) {
        self.0.increment(&(number % HOT));
    }

    fn folded(&self) -> u64 {
        self.0.read().total()
    }
}

/// `DashMap` of atomics: a label that is there is found under a shard's lock that readers share.
#[derive(Debug)]
pub struct DashLabels(DashMap<u64, AtomicU64, BuildIdHasher>);

impl Fold for DashLabels {
    const NAME: &'static str = "DashMap of AtomicU64";

    type Handle = ();

    fn new() -> Self {
        Self(DashMap::with_hasher_and_shard_amount(
            BuildIdHasher::default(),
            host::shards(),
        ))
    }

    fn handle(&self) {}

    #[inline]
    fn fold(&self, (): &mut (), number: u64) {
        let label = number % HOT;
        // Relaxed, as programs count: the final read is ordered by joining the threads.
        if let Some(count) = self.0.get(&label) {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            let count = self.0.entry(label).or_default();
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn folded(&self) -> u64 {
        let counts = self.0.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

const SHARDS: usize = 64;

/// One shard: a map behind a lock.
type Shard = RwLock<HashMap<u64, AtomicU64, BuildIdHasher>>;

/// The same by hand: 64 maps, each behind a `RwLock`, on lines of their own.
#[derive(Debug)]
pub struct ShardedLabels(Vec<Alone>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone(Shard);

impl Fold for ShardedLabels {
    const NAME: &'static str = "64 RwLock<HashMap> of AtomicU64";

    type Handle = ();

    fn new() -> Self {
        Self((0..SHARDS).map(|_| Alone::default()).collect())
    }

    fn handle(&self) {}

    #[inline]
    fn fold(&self, (): &mut (), number: u64) {
        let label = number % HOT;
        let shard = &self.0[label as usize % SHARDS].0;
        // Relaxed: as above.
        if let Some(count) = shard
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&label)
        {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        *shard.entry(label).or_default().get_mut() += 1;
    }

    fn folded(&self) -> u64 {
        self.0
            .iter()
            .map(|shard| {
                let shard = shard.0.read().unwrap_or_else(PoisonError::into_inner);
                let counts = shard.values();
                counts
                    .map(|count| count.load(Ordering::Relaxed))
                    .sum::<u64>()
            })
            .sum()
    }
}
