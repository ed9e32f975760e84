//! Sets with logged changes, for many writers and rare readers.

mod change;
mod state;

pub use state::SetState;

use crate::cpu::{Environment, Native};
use crate::oplog::{
    Drained, Full, LogStats, Logged, LoggedBuilder, MemoryUsage, ReadGuard, SynchronizeError,
    Synchronized,
};
use crate::sync::const_fn;
use alloc::collections::BTreeSet;
use change::Change;
use core::fmt;
use core::hash::Hash;

/// A set whose changes touch no shared cache line between reads while many threads make them, and are made at once while few do.
///
/// The set itself is an ordinary one, any [`SetState`]: a `BTreeSet`, whose keys are read in order, unless another is named, such
/// as `Set<u64, HashSet<u64>>`.
///
/// ```
/// use percolog::collections::Set;
/// use std::collections::BTreeSet;
///
/// static OPEN: Set<u64> = Set::new(BTreeSet::new());
///
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         scope.spawn(move || {
///             for connection in (1000 * (thread + 1)..).take(100) {
///                 OPEN.insert(connection);    // under contention: no shared cache line
///                 OPEN.remove(connection);    // nor here; and neither ever has to be executed
///             }
///             OPEN.insert(thread);
///         });
///     }
/// });
/// assert_eq!(*OPEN.read(), BTreeSet::from([0, 1, 2, 3]));
/// ```
///
/// **Eager and deferring.** As [`Logged`]: the set learns whether to make a change at once, under its lock, or to log it, and
/// [`stats`](Self::stats) says which it does.
///
/// **Which queue, and why.** The stamped log of [`oplog`](crate::oplog), in which a later change of a key *replaces* an
/// earlier one of the same core, and keeps the later stamp. Changes never cancel to nothing: with a key in the set, adding
/// and removing it must leave it absent, so the removal stays. What is replaced is found through an index by the key's
/// hash.
///
/// **Order.** Linearizable, as all of `oplog`: a change that returned before a read was called is in what it shows, and if
/// one change returned before another was called, by whatever threads, they take effect in that order.
///
/// **Sustained ceiling.** None while each core's keys between two reads fit its queue (128 of them unless said
/// otherwise): changes replace each other in place, for ever, without a line that moves. Keys that are ever new are
/// executed one after the other, no faster than one core can.
///
/// Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, §5.2.2 and §6.2
/// (absorption). There a set cancels pairs, which is right only for what is added once and removed once; see
/// [`Absorb::Add`](crate::oplog::Absorb::Add) for those.
///
/// # Cost
///
/// | method | progress | lines moved | allocations |
/// |---|---|---|---|
/// | [`insert`](Self::insert), [`remove`](Self::remove) of an eager set | as [`Logged::queue`] | those of a lock and of the set | what the set's own change needs |
/// | the same of a deferring set, below the limit | blocking for a few instructions, as [`Logged::queue`] | none between reads; ≤ 3 at a slot's first change after a read | none once the slot has its queues |
/// | the same at the limit of different keys | a merge, or what the [`Policy`](crate::oplog::Policy) says | those of a merge | what the set's own insertions need |
/// | [`try_insert`](Self::try_insert), [`try_remove`](Self::try_remove) | never wait, never merge | as `insert` | as `insert` |
/// | [`insert_now`](Self::insert_now), [`remove_now`](Self::remove_now) | blocking | those of a merge, each time | what the set's own change needs |
/// | [`contains`](Self::contains), [`len`](Self::len), [`read`](Self::read) | blocking | of a clean set the lock's line; else for each slot that has changed something its lock and its changes | what the set's own insertions need |
///
/// An insertion answers nothing, because whether the key was there is not known before the queues are brought together. Where
/// each change needs that answer, a sharded set such as `dashmap::DashSet` is faster, and by far: on one thread of the machine
/// that this was written on, a change that answers takes 57 ns here, if the set hashes (162 ns if it is ordered, with 10,000 keys in it),
/// and 12 ns there. One that is logged takes 30 ns here, 21 of them for its time stamp, so a thread that has a sharded set to
/// itself is faster there as well. What is saved here are the lines that move when many threads have it.
///
/// Keys that are equal must not need telling apart: of equal ones that are inserted, any may be the one that stays.
///
/// # Panics
/// [`insert`](Self::insert), [`remove`](Self::remove) and [`extend`](Self::extend) where [`Logged::queue`] does: the queue can
/// take no more and there is no way to make room. Methods that read panic where [`Logged::synchronize`] does: the set is
/// poisoned, since a comparison of keys has panicked; or this thread has a guard of it already.
///
/// A key's `Hash` and `Eq` run with the core's queue locked and must not use the set.
pub struct Set<K, S = BTreeSet<K>, E = Native>
where
    K: Hash + Eq + Send,
    S: SetState<K>,
    E: Environment,
{
    log: Logged<S, Change<K>, E>,
}

impl<K: Hash + Eq + Send, S: SetState<K>> Set<K, S> {
    const_fn! {
        /// Wraps a set. Allocates nothing; usable in statics.
        ///
        /// ```
        /// use percolog::collections::Set;
        /// use std::collections::HashSet;
        ///
        /// let names: Set<&str, HashSet<&str>> = Set::new(HashSet::from(["ada"]));
        /// names.insert("grace");
        /// assert!(names.contains(&"ada") && names.contains(&"grace"));
        /// ```
        #[must_use]
        pub const fn new(state: S) -> Self {
            Self::build(LoggedBuilder::new(), state)
        }
    }

    const_fn! {
        /// Wraps a set, with limits and policies other than the usual ones.
        ///
        /// ```
        /// use percolog::collections::Set;
        /// use percolog::oplog::{LoggedBuilder, Mode};
        /// use std::collections::BTreeSet;
        ///
        /// // Each core changes up to 1000 keys again and again, and always logs.
        /// static BUSY: Set<u32> = Set::build(
        ///     LoggedBuilder::new().limit(1000).mode(Mode::Deferring),
        ///     BTreeSet::new(),
        /// );
        /// for key in 0..100_000 {
        ///     BUSY.insert(key % 500);
        /// }
        /// assert_eq!(BUSY.stats().merges, 0);
        /// assert_eq!(BUSY.len(), 500);
        /// ```
        pub const fn build(builder: LoggedBuilder, state: S) -> Self {
            Self::build_in(builder, state, Native)
        }
    }
}

impl<K: Hash + Eq + Send, S: SetState<K>, E: Environment> Set<K, S, E> {
    const_fn! {
        /// Wraps a set in an environment of its own: for tests that force migrations and clock skew.
        #[doc(hidden)]
        pub const fn build_in(builder: LoggedBuilder, state: S, environment: E) -> Self {
            Self { log: builder.build_in(state, environment) }
        }
    }

    /// Adds a key.
    ///
    /// Takes effect before every read that is called after this has returned. If the same key was changed on this slot since
    /// the last merge, that change is replaced and dropped.
    #[inline]
    #[track_caller]
    pub fn insert(&self, key: K) {
        self.log.queue(Change::Insert(key));
    }

    /// Removes a key.
    ///
    /// Takes effect before every read that is called after this has returned. If the same key was changed on this slot since
    /// the last merge, that change is replaced and dropped.
    #[inline]
    #[track_caller]
    pub fn remove(&self, key: K) {
        self.log.queue(Change::Remove(key));
    }

    /// Adds a key unless that would mean to merge or to wait.
    ///
    /// # Errors
    /// Hands the key back if the slot's queue is at its limit and the key is not among those that are queued; or if the
    /// queue is in use by another thread for longer than a few pauses.
    ///
    /// ```
    /// use percolog::collections::Set;
    /// use percolog::oplog::{FullReason, LoggedBuilder, Mode};
    ///
    /// let builder = LoggedBuilder::new().limit(1).mode(Mode::Deferring);
    /// let set: Set<String> = Set::build(builder, Default::default());
    /// assert!(set.try_insert("one".into()).is_ok());
    /// let full = set.try_insert("two".into()).unwrap_err();
    /// assert_eq!((full.operation.as_str(), full.reason), ("two", FullReason::Limit));
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_insert(&self, key: K) -> Result<(), Full<K>> {
        self.log.try_queue(Change::Insert(key)).map_err(key_of)
    }

    /// Removes a key unless that would mean to merge or to wait.
    ///
    /// # Errors
    /// As [`try_insert`](Self::try_insert).
    #[inline]
    #[track_caller]
    pub fn try_remove(&self, key: K) -> Result<(), Full<K>> {
        self.log.try_queue(Change::Remove(key)).map_err(key_of)
    }

    /// Adds many keys, in order, with one lock and one stamp for up to 16 of them.
    ///
    /// Between two of them others' changes may take effect, and a read may show some of them and not the rest.
    #[track_caller]
    pub fn extend(&self, keys: impl IntoIterator<Item = K>) {
        self.log.extend(keys.into_iter().map(Change::Insert));
    }

    /// Adds a key at once, and says whether it was not there.
    ///
    /// For when the answer is needed, and dear: it merges what all slots have queued, alone, every time. Two threads that
    /// insert the same key at the same time get different answers.
    ///
    /// ```
    /// use percolog::collections::Set;
    ///
    /// let claimed: Set<u64> = Set::default();
    /// claimed.insert(7);
    /// assert!(!claimed.insert_now(7));
    /// claimed.remove(7);
    /// assert!(claimed.insert_now(7));
    /// assert!(claimed.remove_now(&7));
    /// assert!(!claimed.remove_now(&7));
    /// ```
    #[track_caller]
    pub fn insert_now(&self, key: K) -> bool {
        self.log.synchronize().insert(key)
    }

    /// Removes a key at once, and says whether it was there. As dear as [`insert_now`](Self::insert_now).
    #[track_caller]
    pub fn remove_now(&self, key: &K) -> bool {
        self.log.synchronize().remove(key)
    }

    /// Returns whether the key is in the set, with all changes that have finished. For borrowed forms of a key, and for more than
    /// one question about the same instant, ask a [guard](Self::read).
    #[must_use]
    #[track_caller]
    pub fn contains(&self, key: &K) -> bool
    where
        S: Sync,
    {
        self.log.read().contains(key)
    }

    /// Returns the number of keys in the set, with all changes that have finished. Exact.
    #[must_use]
    #[track_caller]
    pub fn len(&self) -> usize
    where
        S: Sync,
    {
        self.log.read().len()
    }

    /// Returns whether no key is in the set, with all changes that have finished.
    #[must_use]
    #[track_caller]
    pub fn is_empty(&self) -> bool
    where
        S: Sync,
    {
        self.len() == 0
    }

    /// Merges what is queued and gives the set to this thread and other readers, as it is at one instant: to iterate, or to
    /// ask more than one question. Readers of a set that nobody has changed since do not exclude each other.
    ///
    /// ```
    /// use percolog::collections::Set;
    ///
    /// let set: Set<u32> = Set::default();
    /// set.extend([3, 1, 2]);
    /// assert!(set.read().iter().eq(&[1, 2, 3]));
    /// ```
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, S>
    where
        S: Sync,
    {
        self.log.read()
    }

    /// Merges what is queued and gives the set to this thread alone, to read and to change at once.
    ///
    /// ```
    /// use percolog::collections::Set;
    ///
    /// let set: Set<u32> = Set::default();
    /// set.extend(0..10);
    /// set.synchronize().retain(|key| key % 3 == 0);
    /// assert_eq!(set.len(), 4);
    /// ```
    #[track_caller]
    pub fn synchronize(&self) -> Synchronized<'_, S> {
        self.log.synchronize()
    }

    /// As [`read`](Self::read), without waiting for another thread's guard.
    ///
    /// # Errors
    /// If another thread or this one has the set, or it is poisoned.
    pub fn try_read(&self) -> Result<ReadGuard<'_, S>, SynchronizeError<ReadGuard<'_, S>>>
    where
        S: Sync,
    {
        self.log.try_read()
    }

    /// As [`synchronize`](Self::synchronize), without waiting for another thread's guard.
    ///
    /// # Errors
    /// If another thread or this one has the set, or it is poisoned.
    pub fn try_synchronize(
        &self,
    ) -> Result<Synchronized<'_, S>, SynchronizeError<Synchronized<'_, S>>> {
        self.log.try_synchronize()
    }

    /// Executes up to `budget` queued changes, if nobody else has the set; see [`Logged::drain`].
    pub fn drain(&self, budget: usize) -> Drained {
        self.log.drain(budget)
    }

    /// Merges what is queued, without a lock.
    pub fn get_mut(&mut self) -> &mut S {
        self.log.get_mut()
    }

    /// Merges what is queued and unwraps the set.
    pub fn into_inner(self) -> S {
        self.log.into_inner()
    }

    /// Returns whether a comparison of keys, or the holder of an exclusive guard, has panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.log.is_poisoned()
    }

    /// Declares the set sound again; changes that were left pending will be executed.
    pub fn clear_poison(&self) {
        self.log.clear_poison();
    }

    /// Returns statistics: what deferring has cost so far, and how much never had to be executed; see [`Logged::stats`].
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.log.stats()
    }

    /// What the queues and their merging take, to the byte; the set itself, and what keys own, are not in it. See
    /// [`Logged::memory_usage`].
    #[track_caller]
    #[must_use]
    pub fn memory_usage(&self) -> MemoryUsage {
        self.log.memory_usage()
    }
}

/// The key of a change that was not queued.
#[cold]
fn key_of<K>(full: Full<Change<K>>) -> Full<K> {
    Full {
        operation: full.operation.into_key(),
        reason: full.reason,
    }
}

#[cfg(feature = "std")]
impl<K: Hash + Eq + Send, S: SetState<K>, E: Environment> crate::engine::Drain for Set<K, S, E> {
    fn drain(&self, budget: usize) -> Drained {
        self.drain(budget)
    }
}

impl<K: Hash + Eq + Send, S: SetState<K> + Default> Default for Set<K, S> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<K: Hash + Eq + Send, S: SetState<K>> From<S> for Set<K, S> {
    fn from(state: S) -> Self {
        Self::new(state)
    }
}

impl<K: Hash + Eq + Send, S: SetState<K> + FromIterator<K>> FromIterator<K> for Set<K, S> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        Self::new(keys.into_iter().collect())
    }
}

/// Shows the set as merged so far; never merges and never waits.
impl<K, S, E> fmt::Debug for Set<K, S, E>
where
    K: Hash + Eq + Send,
    S: SetState<K> + fmt::Debug,
    E: Environment,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Set").field(&self.log).finish()
    }
}
