//! The caches that stand beside each other.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use percolog::collections;
use percolog::reclaim::Domain;
use quick_cache::sync::DefaultLifecycle;
use quick_cache::{OptionsBuilder, UnitWeighter};

use super::{Cache, Key, Value};
use crate::hash::BuildIdHasher;
use crate::host;

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
pub struct LockedCache(Mutex<LeastRecent>);

/// A hash map whose entries are in a list, the one used last first.
#[derive(Debug)]
struct LeastRecent {
    capacity: usize,
    places: HashMap<Key, usize, BuildIdHasher>,
    /// The first one is no entry: it comes before the one used last, and after the one used longest ago.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    item: Option<(Key, Value)>,
    before: usize,
    after: usize,
}

impl LeastRecent {
    fn unlink(&mut self, at: usize) {
        let Entry { before, after, .. } = self.entries[at];
        self.entries[before].after = after;
        self.entries[after].before = before;
    }

    fn link_first(&mut self, at: usize) {
        let first = self.entries[0].after;
        self.entries[at].before = 0;
        self.entries[at].after = first;
        self.entries[first].before = at;
        self.entries[0].after = at;
    }

    fn get(&mut self, key: Key) -> Option<Value> {
        let at = *self.places.get(&key)?;
        self.unlink(at);
        self.link_first(at);
        self.entries[at].item.map(|(_, value)| value)
    }

    fn set(&mut self, key: Key, value: Value) {
        let at = if let Some(at) = self.places.get(&key) {
            let at = *at;
            self.unlink(at);
            at
        } else if self.entries.len() <= self.capacity {
            self.entries.push(Entry {
                item: None,
                before: 0,
                after: 0,
            });
            self.entries.len() - 1
        } else {
            let last = self.entries[0].before;
            self.unlink(last);
            if let Some((evicted, _)) = self.entries[last].item {
                self.places.remove(&evicted);
            }
            last
        };
        self.places.insert(key, at);
        self.entries[at].item = Some((key, value));
        self.link_first(at);
    }
}

impl Cache for LockedCache {
    const NAME: &'static str = "Mutex<LRU>";

    fn new(items: usize) -> Self {
        Self(Mutex::new(LeastRecent {
            capacity: items.max(1),
            places: HashMap::default(),
            entries: vec![Entry {
                item: None,
                before: 0,
                after: 0,
            }],
        }))
    }

    #[inline]
    fn get(&self, key: Key) -> Option<Value> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key)
    }

    #[inline]
    fn set(&self, key: Key, value: Value) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.set(key, value);
    }
}
