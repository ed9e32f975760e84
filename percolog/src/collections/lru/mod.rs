//! A least-recently-used list of keys, touched on all cores.
//!
//! A list that is moved about in with every hit is the case for a log that absorbs: of many touches of a key only the last one counts.
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, §5.2.2 (absorption) and §6.2
//! (queues that know what their operations mean).
//!
//! # What absorbs what
//!
//! Two kinds of operations on a key are kept apart. *Where it belongs*: insert and remove; whichever is later replaces the earlier
//! one, since both say whether the key is there, and where, whatever was said before. *Touch* replaces touch: with an insert or
//! a remove between the two, the earlier one has no effect that the later operations leave. A touch does not replace an insert, without
//! which it would touch nothing, and an insert or remove leaves touches alone, as the engine asks of two operations whether they
//! are about the same thing before it looks which of them is later.

mod order;

use self::order::Order;
use crate::cpu::{Environment, Native};
use crate::engine::Wait;
use crate::hash::DefaultHashBuilder;
use crate::oplog::{self, Absorb, Drained, LogStats, Logged, MemoryUsage, Operation, Policy};
use crate::sync::{Patience, const_fn};
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// A least-recently-used list of keys, touched on all cores.
///
/// It holds keys only, no values: those are in the cache's own map. Whoever finds a key there touches it here, which is one append
/// to a queue of the own core; whoever puts one in inserts it, and whoever needs room asks which one was touched longest ago.
///
/// Before: each hit moves the key to the front of a list, behind a lock. (Which is why so many caches gave up the exact order.)
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Mutex;
///
/// static RECENT: Mutex<VecDeque<u64>> = Mutex::new(VecDeque::new());
///
/// fn touch(key: u64) {
///     let mut recent = RECENT.lock().expect("nobody panics");
///     if let Some(at) = recent.iter().position(|other| *other == key) {
///         recent.remove(at);
///     }
///     recent.push_back(key);
/// }
/// (1..=3).for_each(touch);
/// touch(1);
/// assert_eq!(RECENT.lock().expect("nobody panics").pop_front(), Some(2));
/// ```
///
/// After:
///
/// ```
/// use percolog::collections::Lru;
///
/// let recent = Lru::new();
/// (1..=3).for_each(|key| recent.insert(key));
/// recent.touch(1);
/// assert_eq!(recent.evict(), Some(2));
/// assert_eq!(recent.order(), [3, 1]); // the one to be evicted next comes first
/// ```
///
/// # Contract
///
/// **Exact order by time of touch.** Touches, inserts and removes take effect in the order of their time stamps: if one returned
/// before another was called, on whatever cores, it comes first; and all that returned before [`evict`](Self::evict) was called is in
/// what it decides by. Linearizable, as [`Logged`] is, but for touches that are discarded.
///
/// **Touches may be discarded**, and are counted in [`stats`](Self::stats): if a core's queue is full *and* somebody else is
/// evicting or merging at that moment, the touch is as if it had not been made. That only ever costs a key its last touch, and a thread that
/// hits never waits for one that evicts. [`LruBuilder::lossless`] turns it off. Inserts and removes are never discarded.
///
/// **A touch puts nothing in.** A key that has been evicted or removed stays away until it is inserted again, whoever is late with a
/// touch of it.
///
/// # Cost
///
/// While cores do not contend for it, it is executed at once, for the price of a lock, as [`Logged`] is; a touch that finds the lock taken is
/// logged. [`LruBuilder::mode`] fixes that. When it is deferring:
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`touch`](Self::touch) | as [`Logged::queue`]: blocking for a few instructions; with a full queue it merges, if nobody else does | none between two evictions; ≤ 3 the first time after one |
/// | [`insert`](Self::insert), [`remove`](Self::remove) | the same; with a full queue blocking | the same |
/// | [`evict`](Self::evict), [`evict_many`](Self::evict_many), [`order`](Self::order), [`len`](Self::len), [`contains`](Self::contains) | blocking | for each core that touched since the last of them its lock and its queue |
///
/// *Which queue:* a log with stamps, as the order is what it is about, that absorbs: a later touch of the same key on the same core takes the
/// earlier one's place in the queue, and needs no room. An entry is 16 bytes and the key; a touch allocates nothing once the queue has
/// its size. *Evict many at a time:* each eviction visits every core that has touched since the last one.
///
/// *Sustained ceiling:* touches of no more keys than a queue has places (128; [`LruBuilder::limit`]) cost their append alone, on any number of cores.
/// Of touches that do not repeat, each is executed in the end: some tens of nanoseconds, one after the other. Beyond what one core
/// executes, touches are discarded.
///
/// # What not to use it for
///
/// If a cache's hits are spread over very many keys, evenly, exact order costs more than it gains: CLOCK, SIEVE or S3-FIFO mark an
/// entry instead, which costs one shared line a hit if it is marked anew, and need no order. Where keys have a popularity that stays, SIEVE and
/// S3-FIFO also answer more lookups (a Zipf trace, a tenth of the keys: 63 and 64 %, exact order 57 %); where it drifts, exact order does (38 %,
/// SIEVE 24 %, S3-FIFO 27 %). How the hit ratios compare, and what discarded touches cost of them,
/// `cargo test --release -p percolog-bench --test hit_ratios -- --nocapture` says.
///
/// # Re-entrance and panics
///
/// The key's `Hash` and `Eq` must not use this object. If its `Eq` or its destructor panics while touches are brought together, the object is
/// poisoned: methods that read panic until [`clear_poison`](Self::clear_poison). That touch, insert or remove is lost, and nothing else: the order
/// is right, updates go on, and so do the merges that they pay for.
pub struct Lru<K: Hash + Eq + Send, S = DefaultHashBuilder, E: Environment = Native> {
    hasher: S,
    log: Logged<Order<K>, Edit<K>, E>,
}

/// What is queued.
struct Edit<K> {
    key: K,
    hash: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Touch,
    Insert,
    Remove,
}

impl<K: Eq + Send> Operation<Order<K>> for Edit<K> {
    const ABSORBS: bool = true;

    fn exec(self, order: &mut Order<K>) {
        match self.kind {
            Kind::Touch => {
                order.touch(self.hash, &self.key);
            }
            Kind::Insert => order.insert(self.hash, self.key),
            Kind::Remove => drop(order.remove(self.hash, &self.key)),
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(u64::from(self.hash))
    }

    fn replaces(&self, earlier: &Self) -> bool {
        // See the module: the two kinds are kept apart.
        (self.kind == Kind::Touch) == (earlier.kind == Kind::Touch) && self.key == earlier.key
    }
}

/// A builder of an [`Lru`].
///
/// ```
/// use percolog::collections::Lru;
///
/// let recent = Lru::<u64>::builder().limit(1024).lossless().build();
/// recent.insert(1);
/// assert_eq!(recent.len(), 1);
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct LruBuilder {
    log: oplog::LoggedBuilder,
}

impl LruBuilder {
    /// The usual limit, and touches that may be discarded.
    pub const fn new() -> Self {
        Self {
            log: oplog::LoggedBuilder::new()
                .policy(Policy::MergeOrDiscard)
                // Keys are compared before, and dropped after, anything is changed.
                .merge_poisoned(),
        }
    }

    /// How many operations a core's queue holds: 128 unless said otherwise, at least 1. So many keys a core can touch again and
    /// again without anybody having to merge.
    pub const fn limit(mut self, operations: usize) -> Self {
        self.log = self.log.limit(operations);
        self
    }

    /// Whether touches, inserts and removes are executed at once or deferred: as it goes best unless said otherwise.
    pub const fn mode(mut self, mode: oplog::Mode) -> Self {
        self.log = self.log.mode(mode);
        self
    }

    /// Touches are never discarded: a core whose queue is full while somebody else evicts lets it grow, and waits in the end.
    pub const fn lossless(mut self) -> Self {
        self.log = self.log.policy(Policy::Merge);
        self
    }

    /// The object.
    pub fn build<K: Hash + Eq + Send>(self) -> Lru<K> {
        self.build_with_hasher(DefaultHashBuilder::default())
    }

    const_fn! {
        /// The object, with a hasher of its own; usable in statics if that is.
        ///
        /// ```
        /// use percolog::collections::{Lru, LruBuilder};
        /// use std::hash::{BuildHasherDefault, DefaultHasher};
        ///
        /// static RECENT: Lru<u64, BuildHasherDefault<DefaultHasher>> =
        ///     LruBuilder::new().build_with_hasher(BuildHasherDefault::new());
        /// RECENT.insert(1);
        /// assert_eq!(RECENT.evict(), Some(1));
        /// ```
        pub const fn build_with_hasher<K: Hash + Eq + Send, S>(self, hasher: S) -> Lru<K, S> {
            self.build_in(hasher, Native)
        }
    }

    const_fn! {
        /// The object, in an environment of its own: for tests that force migrations and clock skew.
        #[doc(hidden)]
        pub const fn build_in<K: Hash + Eq + Send, S, E: Environment>(
            self,
            hasher: S,
            environment: E,
        ) -> Lru<K, S, E> {
            Lru { hasher, log: self.log.build_in(Order::new(), environment) }
        }
    }
}

impl Default for LruBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq + Send> Lru<K> {
    /// Creates an object without keys, with the usual limit, that may discard touches. Allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Another limit, or none of the losses; the same as [`LruBuilder::new`].
    pub const fn builder() -> LruBuilder {
        LruBuilder::new()
    }
}

impl<K: Hash + Eq + Send, S: BuildHasher, E: Environment> Lru<K, S, E> {
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u32 {
        let hash = self.hasher.hash_one(key);
        (hash ^ (hash >> 32)) as u32
    }

    fn edit(&self, kind: Kind, key: K) -> Edit<K> {
        let hash = self.hash(&key);
        Edit { key, hash, kind }
    }

    /// Makes a key the one touched last, if it is there when this takes effect.
    ///
    /// See [the type](Self#contract) for when a touch is discarded, and for progress and cost.
    #[inline]
    pub fn touch(&self, key: K) {
        self.log.queue(self.edit(Kind::Touch, key));
    }

    /// Puts a key in, as the one touched last; one that is there already is touched. Never discarded.
    ///
    /// # Panics
    /// If the core's queue is full and the key's methods have called this.
    #[inline]
    pub fn insert(&self, key: K) {
        self.surely(self.edit(Kind::Insert, key));
    }

    /// Takes a key out, if it is there. Never discarded.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    #[inline]
    pub fn remove(&self, key: K) {
        self.surely(self.edit(Kind::Remove, key));
    }

    /// Queues, and merges where there is no room until there is.
    #[inline]
    fn surely(&self, mut edit: Edit<K>) {
        while let Err(full) = self.log.try_queue(edit) {
            edit = full.operation;
            if let Err(reason) = self.log.make_room(Wait::For(Patience::Unlimited)) {
                panic!("percolog: the key cannot be put in or taken out, {reason}");
            }
        }
    }

    /// Takes the key out that was touched longest ago.
    ///
    /// # Panics
    /// If the object is poisoned.
    #[must_use]
    pub fn evict(&self) -> Option<K> {
        self.log.with(Order::pop_oldest)
    }

    /// Takes as many keys out, the one touched longest ago first; fewer if there are not so many. One merge for all of them.
    ///
    /// # Panics
    /// If the object is poisoned.
    #[must_use]
    pub fn evict_many(&self, keys: usize) -> Vec<K> {
        self.log.with(|order| {
            let keys = keys.min(order.len());
            (0..keys).map_while(|_| order.pop_oldest()).collect()
        })
    }

    /// Takes out as many keys as there are beyond a number, the one touched longest ago first: for a cache that lets its map grow a little and
    /// then makes room.
    ///
    /// ```
    /// use percolog::collections::Lru;
    ///
    /// let recent = Lru::new();
    /// (0..10).for_each(|key| recent.insert(key));
    /// assert_eq!(recent.evict_beyond(7), [0, 1, 2]);
    /// assert!(recent.evict_beyond(7).is_empty());
    /// ```
    ///
    /// # Panics
    /// If the object is poisoned.
    #[must_use]
    pub fn evict_beyond(&self, keys: usize) -> Vec<K> {
        self.log.with(|order| {
            let beyond = order.len().saturating_sub(keys);
            (0..beyond).map_while(|_| order.pop_oldest()).collect()
        })
    }

    /// All keys, the one to be evicted next first.
    ///
    /// # Panics
    /// If the object is poisoned.
    #[must_use]
    pub fn order(&self) -> Vec<K>
    where
        K: Clone,
    {
        self.log.with(|order| order.iter().cloned().collect())
    }

    /// Returns whether a key is there. Does not touch it.
    ///
    /// # Panics
    /// If the object is poisoned.
    #[must_use]
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        self.log.with(|order| order.contains(hash, key))
    }

    /// Returns the number of keys.
    ///
    /// # Panics
    /// If the object is poisoned.
    #[must_use]
    pub fn len(&self) -> usize {
        self.log.with(|order| order.len())
    }

    /// Returns whether there is no key.
    ///
    /// # Panics
    /// If the object is poisoned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Executes up to `budget` pending operations, if nobody else has the object: for a maintenance thread that pays so that those
    /// who evict need not. See [`Logged::drain`].
    pub fn drain(&self, budget: usize) -> Drained {
        self.log.drain(budget)
    }

    /// How much memory the cores' queues and merging have taken; see [`Logged::memory_usage`]. The keys' order is not in it: some
    /// thirty bytes and the key for each.
    ///
    /// # Panics
    /// If one of the key's methods calls this.
    #[must_use]
    pub fn memory_usage(&self) -> MemoryUsage {
        self.log.memory_usage()
    }

    /// Returns whether a key's comparison or destructor has panicked. See [the type](Self#re-entrance-and-panics).
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.log.is_poisoned()
    }

    /// Lets the object be read again.
    pub fn clear_poison(&self) {
        self.log.clear_poison();
    }

    /// Returns statistics: what deferring has cost; [`discarded`](LogStats::discarded) is the number of touches that were.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.log.stats()
    }
}

#[cfg(feature = "std")]
impl<K: Hash + Eq + Send, S: BuildHasher, E: Environment> crate::engine::Drain for Lru<K, S, E> {
    fn drain(&self, budget: usize) -> Drained {
        self.drain(budget)
    }
}

impl<K: Hash + Eq + Send, S: Default> Default for Lru<K, S> {
    fn default() -> Self {
        LruBuilder::new().build_with_hasher(S::default())
    }
}

impl<K: Hash + Eq + Send, S, E: Environment> fmt::Debug for Lru<K, S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing is merged to be shown.
        f.debug_struct("Lru").finish_non_exhaustive()
    }
}
