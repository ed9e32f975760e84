//! What a thread has looked up before.
//!
//! Most programs write `counter!("hits").increment(1)` where it happens, which looks the metric up each time. In the registry that
//! takes a lock that all threads share, and then a clone of an `Arc` that they share too. So a thread remembers the handles that
//! it got, each in an `Arc` of its own: looking up again writes only lines of this thread.
//!
//! *Invariant:* what is remembered belongs to the recorder `of`; and no handle in here was ever given out but as a clone made on a later
//! look-up, so that a handle that is looked up once and shared by many threads does not lie where this thread counts clones.

use metrics::{Counter, Gauge, Histogram, Key};
use metrics_util::KeyHasher;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Handles of one kind that a thread remembers; then it begins anew. Whoever has so many keys makes them up as it goes.
pub(crate) const LIMIT: usize = 1024;

type Handles<H> = HashMap<Key, H, BuildHasherDefault<KeyHasher>>;

pub(crate) struct Cache {
    /// The number of the recorder that the handles belong to.
    of: u64,
    counters: Handles<Counter>,
    gauges: Handles<Gauge>,
    histograms: Handles<Histogram>,
}

thread_local! {
    static CACHE: RefCell<Cache> = const {
        RefCell::new(Cache {
            of: 0,
            counters: HashMap::with_hasher(BuildHasherDefault::new()),
            gauges: HashMap::with_hasher(BuildHasherDefault::new()),
            histograms: HashMap::with_hasher(BuildHasherDefault::new()),
        })
    };
}

/// Handles that a thread can remember.
pub(crate) trait Remembered: Clone {
    fn among(cache: &mut Cache) -> &mut Handles<Self>;
}

impl Remembered for Counter {
    fn among(cache: &mut Cache) -> &mut Handles<Self> {
        &mut cache.counters
    }
}

impl Remembered for Gauge {
    fn among(cache: &mut Cache) -> &mut Handles<Self> {
        &mut cache.gauges
    }
}

impl Remembered for Histogram {
    fn among(cache: &mut Cache) -> &mut Handles<Self> {
        &mut cache.histograms
    }
}

/// The handle of `key` in the recorder with number `of`, as this thread remembers it.
pub(crate) fn recall<H: Remembered>(of: u64, key: &Key) -> Option<H> {
    with_cache(|cache| {
        if cache.of != of {
            return None;
        }
        H::among(cache).get(key).cloned()
    })?
}

/// Has this thread remember the handle of `key` in the recorder with number `of`; what it knows of other recorders is forgotten.
pub(crate) fn remember<H: Remembered>(of: u64, key: &Key, handle: H) {
    let _ = with_cache(|cache| {
        if cache.of != of {
            cache.of = of;
            cache.counters.clear();
            cache.gauges.clear();
            cache.histograms.clear();
        }
        let handles = H::among(cache);
        if handles.len() >= LIMIT {
            handles.clear();
        }
        handles.insert(key.to_retained(), handle);
    });
}

/// `None` when the thread's cache is gone, because the thread ends, or is in use, because an allocator or a destructor records.
fn with_cache<R>(work: impl FnOnce(&mut Cache) -> R) -> Option<R> {
    CACHE
        .try_with(|cache| {
            cache
                .try_borrow_mut()
                .ok()
                .map(|mut cache| work(&mut cache))
        })
        .ok()
        .flatten()
}
