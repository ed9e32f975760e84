//! The heaviest of keys without end, in bounded memory.
//!
//! *Invariant:* of the true count of a key, a sketch has lost `lost` at most, and `k` · `lost` is no more than what the sketch
//! has lost of all keys together. It holds at first, with nothing lost. An add to a key in the table, or to one for which there
//! is room, loses nothing. When there is none, every count is lowered by the largest but `k`: the `k` + 1 keys that have so much lose
//! so much each, and no key loses more. When two sketches are merged, a key has lost in each what that sketch lost at most,
//! and the losses of all keys add up as well.
//!
//! Lowering leaves `k` keys at most in a table with room for 2 `k`, so that there are `k` adds of new keys to the next time.
//!
//! (J. Misra and D. Gries, *Finding Repeated Elements*, 1982, for the lowering; P. Agarwal and others, *Mergeable Summaries*, PODS
//! 2012, for why merging keeps the bound; D. Anderson and others, *A High-Performance Algorithm for Identifying Frequent Items
//! in Data Streams*, IMC 2017, for lowering many at once.)

use super::{BarrierError, Merge, Reducer};
use crate::cpu::OwnTable;
use crate::hash::DefaultHashBuilder;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Reverse;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// The most frequent of any number of keys, in bounded memory.
///
/// Before: a map that grows with every key that a client can think of, behind a lock.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
///
/// let clients: Mutex<HashMap<String, u64>> = Mutex::default();
/// let mut clients = clients.lock().expect("nobody panics");
/// *clients.entry("10.0.0.1".to_owned()).or_default() += 1;
/// assert_eq!(clients.iter().max_by_key(|(_, count)| **count).map(|(client, _)| &**client), Some("10.0.0.1"));
/// ```
///
/// After: a table of bounded size for each thread, and how far off each answer can be.
///
/// ```
/// use percolog::reduce::TopK;
///
/// static CLIENTS: TopK<String> = TopK::new(100);
///
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         scope.spawn(move || {
///             for number in 0..1000 {
///                 CLIENTS.increment("10.0.0.1");
///                 CLIENTS.increment(format!("10.1.{thread}.{number}").as_str());
///             }
///         });
///     }
/// });
/// let clients = CLIENTS.read();
/// assert_eq!(clients.total(), 8000);
/// let [first] = &clients.top(1)[..] else { panic!("somebody was there") };
/// assert_eq!(first.key, "10.0.0.1");
/// assert!(first.at_least <= 4000 && 4000 <= first.at_most);
/// // No count is off by more than the total over 100.
/// assert!(first.at_most - first.at_least <= 80);
/// ```
///
/// # Contract
///
/// That of a [`Reducer`]: a [`read`](Self::read) is one moment of all threads, and each add is in exactly one
/// [`take`](Self::take). The total is exact. **No count is off by more than the total divided by *k***, however many threads
/// and keys there are, and each answer says by how much it can be off, which is usually far less. So every key that has more than
/// one part in *k* of the total is there. Amounts beyond `u64::MAX` in all are not counted.
///
/// # What not to use it for
///
/// Keys of which there are few: a [`CounterMap`](super::CounterMap) is exact.
///
/// # Cost
///
/// *Time:* an add to a key in this thread's table is a look-up; an add of another one allocates if the key does, and each *k*-th of
/// those, or fewer, walks over the table of 2 *k* keys. *Memory:* what a [`Reducer`] takes, and a table of up to 2 *k* keys for each
/// thread. A read merges all tables.
pub struct TopK<K> {
    k: usize,
    shares: Reducer<TopKSnapshot<K>>,
}

impl<K> TopK<K> {
    /// One that is off by one part in `k` at most; 0 counts as 1. Allocates nothing.
    #[must_use]
    pub const fn new(k: usize) -> Self {
        Self {
            k: if k == 0 { 1 } else { k },
            shares: Reducer::new(),
        }
    }
}

impl<K: Hash + Eq + Clone> TopK<K> {
    /// Adds to a key.
    ///
    /// *Progress:* wait-free while nobody reads, but for the allocator. *Cost:* no transfer, and no allocation for keys in the
    /// table; see [the type](Self#cost).
    ///
    /// # Panics
    /// Where the key's `Hash`, `Eq` or `ToOwned` do, and if those use this structure.
    #[inline]
    pub fn add<Q>(&self, key: &Q, amount: u64)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.shares
            .update(move |share| share.add(self.k, key, amount));
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

    /// The heaviest keys at one moment.
    ///
    /// *Progress* and *cost:* as [`Reducer::read`], with a table for each share.
    ///
    /// # Panics
    /// As [`Reducer::read`].
    #[must_use]
    pub fn read(&self) -> TopKSnapshot<K> {
        self.shares.read()
    }

    /// As [`read`](Self::read), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`]: see there.
    pub fn try_read(&self) -> Result<TopKSnapshot<K>, BarrierError> {
        self.shares.try_read()
    }

    /// Takes out what was counted up to one moment: each add is in exactly one take.
    ///
    /// *Progress* and *cost:* as [`Reducer::take`].
    ///
    /// # Panics
    /// As [`Reducer::take`].
    #[must_use = "what was taken is nowhere else"]
    pub fn take(&self) -> TopKSnapshot<K> {
        self.shares.take()
    }

    /// As [`take`](Self::take), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`], and nothing is taken.
    pub fn try_take(&self) -> Result<TopKSnapshot<K>, BarrierError> {
        self.shares.try_take()
    }
}

/// Shows what it is, and no counts: no log line should read every thread's table by accident.
impl<K> fmt::Debug for TopK<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopK")
            .field("k", &self.k)
            .finish_non_exhaustive()
    }
}

/// The most frequent keys of a [`TopK`] at one moment.
///
/// Those of several can be [merged](Merge): the counts are then off by one part in the smallest *k* at most.
#[derive(Debug, Clone)]
pub struct TopKSnapshot<K> {
    /// 0 before anything was added.
    k: usize,
    counts: OwnTable<Counted<K>>,
    hasher: DefaultHashBuilder,
    /// What any key may have lost.
    lost: u64,
    total: u64,
}

/// A key in a table.
#[derive(Debug, Clone)]
struct Counted<K> {
    /// Kept, so that a table that moves its keys asks none for its hash: one that panics then would take the others with it.
    hash: u64,
    key: K,
    count: u64,
}

/// A key with the bounds of its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopKEntry<'a, K> {
    /// The key.
    pub key: &'a K,
    /// It was added so much, or more.
    pub at_least: u64,
    /// It was added so much, or less.
    pub at_most: u64,
}

impl<K> TopKSnapshot<K> {
    /// What was added in all. Exact.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// By how much counts are off at most: no more than the total divided by *k*. 0 as long as no thread has met more than 2 *k* keys.
    #[must_use]
    pub fn error(&self) -> u64 {
        self.lost
    }

    /// So many of the heaviest keys, the heaviest first, by what they have at least; which of equal ones is not defined.
    #[must_use]
    pub fn top(&self, count: usize) -> Vec<TopKEntry<'_, K>> {
        let mut all: Vec<_> = self
            .counts
            .iter()
            .map(|counted| self.heavy(&counted.key, counted.count))
            .collect();
        all.sort_unstable_by_key(|heavy| Reverse(heavy.at_least));
        all.truncate(count);
        all
    }

    fn heavy<'a>(&self, key: &'a K, count: u64) -> TopKEntry<'a, K> {
        TopKEntry {
            key,
            at_least: count,
            at_most: count.saturating_add(self.lost).min(self.total),
        }
    }

    /// Lowers all counts by the largest but `k`, which leaves `k` keys at most.
    #[cold]
    fn lower(&mut self) {
        let mut counts: Vec<u64> = self.counts.iter().map(|counted| counted.count).collect();
        if counts.len() <= self.k {
            return;
        }
        let (_, by, _) = counts.select_nth_unstable_by_key(self.k, |count| Reverse(*count));
        let by = *by;
        // First, so that it is true also if a key's destructor panics.
        self.lost += by;
        self.counts.retain(|counted| {
            counted.count = counted.count.saturating_sub(by);
            counted.count > 0
        });
    }
}

impl<K: Hash + Eq + Clone> TopKSnapshot<K> {
    #[inline]
    fn add<Q>(&mut self, k: usize, key: &Q, amount: u64)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let amount = amount.min(u64::MAX - self.total);
        if amount == 0 {
            return;
        }
        let hash = self.hasher.hash_one(key);
        match self.count_mut(hash, key) {
            Some(count) => *count += amount,
            None => self.add_first(k, hash, key.to_owned(), amount),
        }
        self.total += amount;
    }

    #[inline]
    fn count_mut<Q>(&mut self, hash: u64, key: &Q) -> Option<&mut u64>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let counted = self
            .counts
            .find_mut(hash, |counted| counted.key.borrow() == key)?;
        Some(&mut counted.count)
    }

    #[cold]
    fn add_first(&mut self, k: usize, hash: u64, key: K, amount: u64) {
        self.k = k;
        if self.counts.len() >= k.saturating_mul(2) {
            self.lower();
        }
        self.insert(hash, key, amount);
    }

    fn insert(&mut self, hash: u64, key: K, count: u64) {
        let counted = Counted { hash, key, count };
        self.counts
            .insert_unique(hash, counted, |counted| counted.hash);
    }

    /// Between what and what a key's count lies, also of a key that is not there any more.
    #[must_use]
    pub fn get<'a, Q>(&self, key: &'a Q) -> TopKEntry<'a, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq,
    {
        let counted = self.counts.find(self.hasher.hash_one(key), |counted| {
            counted.key.borrow() == key
        });
        let count = counted.map_or(0, |counted| counted.count);
        TopKEntry {
            key,
            at_least: count,
            at_most: count.saturating_add(self.lost).min(self.total),
        }
    }
}

impl<K> Default for TopKSnapshot<K> {
    fn default() -> Self {
        Self {
            k: 0,
            counts: OwnTable::new(),
            hasher: DefaultHashBuilder::new(),
            lost: 0,
            total: 0,
        }
    }
}

impl<K: Hash + Eq + Clone> Merge for TopKSnapshot<K> {
    fn merge(&mut self, other: &Self) {
        if other.k == 0 || self.total.checked_add(other.total).is_none() {
            return;
        }
        self.k = match self.k {
            0 => other.k,
            mine => mine.min(other.k),
        };
        for counted in other.counts.iter() {
            // Each table hashes in its own way.
            let hash = self.hasher.hash_one(&counted.key);
            match self.count_mut(hash, &counted.key) {
                Some(sum) => *sum += counted.count,
                None => self.insert(hash, counted.key.clone(), counted.count),
            }
        }
        self.lost += other.lost;
        self.total += other.total;
        if self.counts.len() > self.k.saturating_mul(2) {
            self.lower();
        }
    }
}
