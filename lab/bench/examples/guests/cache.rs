//! moka: a cache of many parts, from which the workers read what is always there. Beside it quick_cache, which notes a hit in the entry
//! that was hit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{measure, random};

const ENTRIES: u64 = 2000;

const WARM: u64 = 50;
const COUNTED: u64 = 250;

/// moka notes each hit in one queue of the whole cache.
pub(crate) fn moka() {
    let cache = moka::sync::Cache::new(4 * ENTRIES);
    for entry in 0..ENTRIES {
        cache.insert(entry, entry * entry);
    }
    cache.run_pending_tasks();
    read(|key| cache.get(&key));
}

/// quick_cache has no such queue.
pub(crate) fn quick() {
    let cache = quick_cache::sync::Cache::new(4 * ENTRIES as usize);
    for entry in 0..ENTRIES {
        cache.insert(entry, entry * entry);
    }
    read(|key| cache.get(&key));
}

fn read(get: impl Fn(u64) -> Option<u64> + Sync) {
    let missed = AtomicU64::new(0);
    measure(WARM, COUNTED, |worker, n| {
        let key = random(worker, n) % ENTRIES;
        match get(key) {
            Some(value) => assert_eq!(value, key * key),
            None => {
                missed.fetch_add(1, Relaxed);
            }
        }
    });
    assert_eq!(missed.into_inner(), 0, "all have room");
}
