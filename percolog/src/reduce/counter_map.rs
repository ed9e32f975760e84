//! Counts by key.

use super::tables::{Set, Table};
use super::{BarrierError, Merge, Reducer};
use crate::cpu::OwnLines;
use crate::sync::{Isolated, SlotLock};
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Reverse;
use core::fmt;
use core::hash::Hash;

/// A map of counters by key, such as a metric's labels, that threads add to without contention.
///
/// Before: a sharded map of atomics. A hot key's count is one word, which every thread writes, behind a lock that every
/// thread writes as well.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::RwLock;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let requests: RwLock<HashMap<&str, AtomicU64>> = RwLock::new(HashMap::from([("GET", AtomicU64::new(0))]));
/// requests.read().expect("nobody panics")["GET"].fetch_add(1, Ordering::Relaxed);
/// assert_eq!(requests.read().expect("nobody panics")["GET"].load(Ordering::Relaxed), 1);
/// ```
///
/// After:
///
/// ```
/// use percolog::reduce::CounterMap;
///
/// /// Requests by method and status, of which a client cannot invent more than a hundred.
/// static REQUESTS: CounterMap<(&str, u16)> = CounterMap::new(100);
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for _ in 0..1000 {
///                 REQUESTS.increment(&("GET", 200));
///             }
///             REQUESTS.increment(&("GET", 404));
///         });
///     }
/// });
/// let requests = REQUESTS.read();
/// assert_eq!(requests.get(&("GET", 404)), Some(4));
/// assert_eq!(requests.group_by(|(method, _)| *method).get(&"GET"), Some(4004));
/// assert_eq!(requests.hottest(1), [(&("GET", 200), 4000)]);
/// assert_eq!(requests.other(), 0);
/// ```
///
/// # Contract
///
/// That of a [`Reducer`]: a [`read`](Self::read) is one moment of all threads and all keys, and each add is in exactly one
/// [`take`](Self::take).
///
/// **No more keys than the bound.** A key is *admitted* when it is first added while fewer keys than the bound have been; it stays so
/// as long as the map lives, also after a take. Each add to an admitted key is counted under it, on every thread, from the first
/// one on. Each add to any other key is counted as [`other`](CounterMapSnapshot::other). So every count is exact: no key is counted partly under
/// its name and partly as other.
///
/// Counts wrap around at the end of `u64`.
///
/// # What not to use it for
///
/// Keys that come and go without end (addresses, sessions): the first ones would stay; use [`TopK`](super::TopK). Counts that are
/// read as often as they are added to, or that decide something: a sharded map such as `dashmap`.
///
/// # Cost
///
/// *Time:* an add to a key that this thread has added to before is a look-up in a table of its own, a few nanoseconds and no line
/// that others write. A thread's first add to a key takes a lock and allocates; so does the first one of its adds to a key that is
/// not admitted, and those that follow cost two look-ups. A read merges every thread's table; while it does so with one thread's,
/// that thread's next add waits.
///
/// *Memory:* what a [`Reducer`] takes, and for each thread a table of the keys that *it* added to, at most *bound*; one more table
/// of all. Tables lie on lines of their own.
pub struct CounterMap<K> {
    bound: usize,
    shares: Reducer<Share<K>>,
    admitted: SlotLock<Admitted<K>>,
}

/// The keys that may be counted.
enum Admitted<K> {
    Nothing,
    Some(Set<K>),
    /// As many as there may be: they change no more, and each thread looks for itself.
    All(Arc<Isolated<Set<K>>>),
}

/// What one thread has counted.
struct Share<K> {
    counts: CounterMapSnapshot<K>,
    /// Once no more keys can be admitted: those that were.
    all: Option<Arc<Isolated<Set<K>>>>,
}

/// The counts of a [`CounterMap`] at one moment.
#[derive(Debug, Clone)]
pub struct CounterMapSnapshot<K> {
    keys: Table<K, u64>,
    other: u64,
}

impl<K> CounterMap<K> {
    /// Creates an empty map that admits so many keys. Allocates nothing.
    #[must_use]
    pub const fn new(bound: usize) -> Self {
        Self {
            bound,
            shares: Reducer::new(),
            admitted: SlotLock::new(Admitted::Nothing),
        }
    }

    /// How many keys are counted under their names at most.
    #[must_use]
    pub const fn bound(&self) -> usize {
        self.bound
    }
}

impl<K: Hash + Eq + Clone> CounterMap<K> {
    /// Adds to a key's count. Wraps around.
    ///
    /// *Progress:* wait-free while nobody reads, but for a thread's first adds to a key, which can wait for those of others. *Cost:* no
    /// transfer and no allocation in steady state; see [the type](Self#cost).
    ///
    /// # Panics
    /// Where the key's `Hash`, `Eq` or `ToOwned` do, and if those use this map.
    #[inline]
    pub fn add<Q>(&self, key: &Q, amount: u64)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.shares
            .update(move |share| match share.counts.keys.get_mut(key) {
                Some(count) => *count = count.wrapping_add(amount),
                None => self.add_first(share, key, amount),
            });
    }

    /// Adds one. See [`add`](Self::add).
    #[inline]
    pub fn increment<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.add(key, 1);
    }

    #[cold]
    fn add_first<Q>(&self, share: &mut Share<K>, key: &Q, amount: u64)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let admitted = match &share.all {
            Some(all) => all.contains(key),
            None => self.admit(&mut share.all, key),
        };
        if admitted {
            share.counts.keys.insert(key.to_owned(), amount);
        } else {
            share.counts.other = share.counts.other.wrapping_add(amount);
        }
    }

    /// Whether the key is counted under its name, from now on if there is room.
    fn admit<Q>(&self, all: &mut Option<Arc<Isolated<Set<K>>>>, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut guard = self.admitted.lock();
        let admitted = guard.get();
        if let Admitted::Nothing = admitted {
            *admitted = Admitted::Some(Set::default());
        }
        if let Admitted::Some(keys) = admitted {
            if keys.len() < self.bound && !keys.contains(key) {
                keys.insert(key.to_owned());
            }
            if keys.len() >= self.bound {
                *admitted = Admitted::All(Arc::new(Isolated::new(core::mem::take(keys))));
            }
        }
        match admitted {
            Admitted::Nothing => false,
            Admitted::Some(keys) => keys.contains(key),
            Admitted::All(keys) => {
                *all = Some(Arc::clone(keys));
                keys.contains(key)
            }
        }
    }

    /// A key's count at one moment; `None` if nothing was counted under it.
    ///
    /// *Progress* and *cost:* as [`Reducer::read`], with a look-up for each share.
    ///
    /// # Panics
    /// As [`Reducer::read`].
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<u64>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shares.fold(None, |sum: &mut Option<u64>, share| {
            if let Some(count) = share.counts.keys.get(key) {
                *sum = Some(sum.unwrap_or(0).wrapping_add(*count));
            }
        })
    }

    /// All counts at one moment.
    ///
    /// *Progress* and *cost:* as [`Reducer::read`], with a table for each share.
    ///
    /// # Panics
    /// As [`Reducer::read`].
    #[must_use]
    pub fn read(&self) -> CounterMapSnapshot<K> {
        self.shares
            .fold(CounterMapSnapshot::default(), |counts, share| {
                counts.merge(&share.counts);
            })
    }

    /// As [`read`](Self::read), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`]: see there.
    pub fn try_read(&self) -> Result<CounterMapSnapshot<K>, BarrierError> {
        self.shares
            .try_fold(CounterMapSnapshot::default(), |counts, share| {
                counts.merge(&share.counts);
            })
    }

    /// Takes out all counts at one moment: each add is in exactly one take. Keys that were admitted stay so.
    ///
    /// *Progress* and *cost:* as [`Reducer::take`]; each thread's next add to a key is its first one again.
    ///
    /// # Panics
    /// As [`Reducer::take`].
    #[must_use = "what was taken is nowhere else"]
    pub fn take(&self) -> CounterMapSnapshot<K> {
        self.shares.take().counts
    }

    /// As [`take`](Self::take), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`], and nothing is taken.
    pub fn try_take(&self) -> Result<CounterMapSnapshot<K>, BarrierError> {
        Ok(self.shares.try_take()?.counts)
    }
}

/// Shows the bound, and not the counts: no log line should read every thread's table by accident.
impl<K> fmt::Debug for CounterMap<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CounterMap")
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl<K> Default for Share<K> {
    fn default() -> Self {
        Self {
            counts: CounterMapSnapshot::default(),
            all: None,
        }
    }
}

impl<K: Hash + Eq + Clone> Merge for Share<K> {
    fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
    }
}

impl<K> CounterMapSnapshot<K> {
    /// What was added to keys that were not admitted.
    #[must_use]
    pub fn other(&self) -> u64 {
        self.other
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether nothing was counted, under a name or as other.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.other == 0
    }

    /// The sum of all counts, others included. Wraps around.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.keys
            .values()
            .fold(self.other, |sum, count| sum.wrapping_add(*count))
    }

    /// All keys and their counts, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, u64)> {
        self.keys.iter().map(|(key, count)| (key, *count))
    }

    /// So many keys with the largest counts, the largest first; which of equal ones is not defined.
    #[must_use]
    pub fn hottest(&self, count: usize) -> Vec<(&K, u64)> {
        let mut all: Vec<_> = self.iter().collect();
        if let Some(last) = count.checked_sub(1).filter(|last| *last < all.len()) {
            all.select_nth_unstable_by_key(last, |(_, count)| Reverse(*count));
        }
        all.truncate(count);
        all.sort_unstable_by_key(|(_, count)| Reverse(*count));
        all
    }

    /// The same counts by what `group` says of each key: by method, of keys of method and status. Others stay others.
    #[must_use]
    pub fn group_by<G: Hash + Eq>(&self, mut group: impl FnMut(&K) -> G) -> CounterMapSnapshot<G> {
        let mut keys: Table<G, u64> = Table::default();
        for (key, count) in self.iter() {
            let sum = keys.entry(group(key)).or_default();
            *sum = sum.wrapping_add(count);
        }
        CounterMapSnapshot {
            keys,
            other: self.other,
        }
    }
}

impl<K: Hash + Eq> CounterMapSnapshot<K> {
    /// A key's count; `None` if nothing was counted under it.
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<u64>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.keys.get(key).copied()
    }
}

impl<K> Default for CounterMapSnapshot<K> {
    fn default() -> Self {
        Self {
            keys: Table::default(),
            other: 0,
        }
    }
}

/// The sums of what both have.
impl<K: Hash + Eq + Clone> Merge for CounterMapSnapshot<K> {
    fn merge(&mut self, other: &Self) {
        for (key, count) in other.keys.iter() {
            match self.keys.get_mut(key) {
                Some(sum) => *sum = sum.wrapping_add(*count),
                None => _ = self.keys.insert(key.clone(), *count),
            }
        }
        self.other = self.other.wrapping_add(other.other);
    }
}

impl<K> IntoIterator for CounterMapSnapshot<K> {
    type Item = (K, u64);
    type IntoIter = CounterMapIntoIter<K>;

    fn into_iter(mut self) -> CounterMapIntoIter<K> {
        CounterMapIntoIter(core::mem::take(&mut *self.keys).into_iter())
    }
}

/// An iterator over keys and their counts, in no particular order.
#[derive(Debug)]
pub struct CounterMapIntoIter<K>(hashbrown::hash_map::IntoIter<K, u64, OwnLines>);

impl<K> Iterator for CounterMapIntoIter<K> {
    type Item = (K, u64);

    fn next(&mut self) -> Option<(K, u64)> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}
