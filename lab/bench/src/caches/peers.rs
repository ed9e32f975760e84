//! The caches that stand beside each other.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use percolog::collections;
use percolog::reclaim::Domain;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::{OptionsBuilder, UnitWeighter};

use super::least_recent::LeastRecent;
use super::{Cache, Key, Value};
use crate::host;
use percolog_validation::hash::BuildIdHasher;

static DOMAIN: Domain = Domain::new();

/// `percolog::collections::Cache`.
#[derive(Debug)]
pub struct OurCache(collections::Cache<'static, Key, Value, BuildIdHasher>);

impl Cache for OurCache {
    const NAME: &'static str = "Cache";

    fn new(items: usize) -> Self {
        type Items = collections::Cache<'static, Key, Value>;
        let builder = Items::builder(items * Items::ITEM_BYTES).hasher(BuildIdHasher::default());
        Self(builder.build(&DOMAIN).expect("there is memory"))
    }

    #[inline]
    fn get(&self, key: Key) -> Option<Value> {
        self.0.observe(&key, |value| *value)
    }

    #[inline]
    fn set(&self, key: Key, value: Value) {
        self.0.set(key, value).expect("there is memory");
    }
}

/// `quick_cache` 0.7: shards with a lock each, which a lookup takes for readers.
pub struct QuickCache(quick_cache::sync::Cache<Key, Value, UnitWeighter, BuildIdHasher>);

impl fmt::Debug for QuickCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuickCache").finish_non_exhaustive()
    }
}

impl Cache for QuickCache {
    const NAME: &'static str = "quick_cache";

    fn new(items: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(host::shards())
            .estimated_items_capacity(items)
            .weight_capacity(items as u64)
            .build();
        Self(quick_cache::sync::Cache::with_options(
            options.expect("both capacities are set"),
            UnitWeighter,
            BuildIdHasher::default(),
            DefaultLifecycle::default(),
        ))
    }

    #[inline]
    fn get(&self, key: Key) -> Option<Value> {
        self.0.get(&key)
    }

    #[inline]
    fn set(&self, key: Key, value: Value) {
        self.0.insert(key, value);
    }
}

/// `moka` 0.12: a concurrent map whose order and admission are brought up to date from queues of what happened.
pub struct Moka(moka::sync::Cache<Key, Value, BuildIdHasher>);

impl fmt::Debug for Moka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moka").finish_non_exhaustive()
    }
}

impl Cache for Moka {
    const NAME: &'static str = "moka";

    fn new(items: usize) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(items as u64);
        Self(builder.build_with_hasher(BuildIdHasher::default()))
    }

    #[inline]
    fn get(&self, key: Key) -> Option<Value> {
        self.0.get(&key)
    }

    #[inline]
    fn set(&self, key: Key, value: Value) {
        self.0.insert(key, value);
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

/// The exact order of use behind one lock: what most programs begin with.
#[derive(Debug)]
pub struct LockedCache(Mutex<LeastRecent<Key, Value, BuildIdHasher>>);

impl Cache for LockedCache {
    const NAME: &'static str = "Mutex<LRU>";

    fn new(items: usize) -> Self {
        Self(Mutex::new(LeastRecent::new(items)))
    }

    #[inline]
    fn get(&self, key: Key) -> Option<Value> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(&key).copied()
    }

    #[inline]
    fn set(&self, key: Key, value: Value) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.set(key, value);
    }
}
