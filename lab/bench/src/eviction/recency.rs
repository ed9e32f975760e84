//! The key used longest ago is evicted: by a plain structure, and by percolog's, touched on several cores.

use std::collections::{BTreeMap, HashMap, HashSet};

use percolog::collections::Lru;
use percolog::cpu::{self, CoreId};

use super::Cache;

/// Exact order, kept by one thread: when each key was used last.
#[derive(Debug)]
pub struct Plain {
    capacity: usize,
    now: u64,
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
}

impl Plain {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            now: 0,
            used: HashMap::new(),
            order: BTreeMap::new(),
        }
    }
}

impl Cache for Plain {
    fn access(&mut self, key: u64) -> bool {
        self.now += 1;
        let before = self.used.insert(key, self.now);
        before.map(|time| self.order.remove(&time));
        self.order.insert(self.now, key);
        if self.used.len() > self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }
}

/// How a [`Recency`] is used.
#[derive(Debug, Clone, Copy)]
pub struct Eviction {
    /// One after the other, lookups are made on so many cores.
    pub cores: u32,
    /// How many keys are evicted at a time.
    pub at_a_time: usize,
    /// So many of each hundred hits do not touch: as if they had been discarded.
    pub discarded: u64,
}

/// percolog's exact order.
#[derive(Debug)]
pub struct Recency {
    capacity: usize,
    eviction: Eviction,
    lookups: u64,
    keys: HashSet<u64>,
    recent: Lru<u64>,
}

impl Recency {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize, eviction: Eviction) -> Self {
        Self {
            capacity,
            eviction,
            lookups: 0,
            keys: HashSet::new(),
            recent: Lru::new(),
        }
    }

    /// Touches that were discarded because somebody else had the order, which nobody had.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.recent.stats().discarded
    }
}

impl Cache for Recency {
    fn access(&mut self, key: u64) -> bool {
        self.lookups += 1;
        // Some hundred lookups on one core, then on the next one.
        let core = (self.lookups / 300 % u64::from(self.eviction.cores)) as u32;
        cpu::bind(CoreId::new(core));
        if self.keys.contains(&key) {
            // Spread evenly, and not in step with anything in the trace.
            if self.lookups * 37 % 100 >= self.eviction.discarded {
                self.recent.touch(key);
            }
            return true;
        }
        if self.keys.len() >= self.capacity {
            for evicted in self.recent.evict_many(self.eviction.at_a_time) {
                self.keys.remove(&evicted);
            }
        }
        self.keys.insert(key);
        self.recent.insert(key);
        false
    }
}
