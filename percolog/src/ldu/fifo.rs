//! A queue: entries come out in the order in which they went in.

use super::container::Container;
use super::deferred::{Deferred, DeferredBuilder, no_guard};
use super::entry::{Entry, Member, UpdateError};
use super::node::{CLAIMED, Step, Ticket};
use crate::cpu::{Environment, Native};
use crate::engine::{Drained, LogStats, OnDrop, Policy, SynchronizeError, Synchronized, Wait};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Patience, const_fn};
use alloc::collections::BTreeMap;
use core::fmt;
use core::ops::Deref;

/// A first-in, first-out queue of entries that can be removed before their turn.
///
/// An insertion takes a time stamp, and that is all that is ordered: a removal needs none, and what was put
/// in and taken out again between two looks cancels in the log, as in [`Deferred`]. What
/// timers, retransmissions and requests with a deadline need: most of them are taken out long before
/// they would come to the front.
///
/// ```
/// use percolog::ldu::{Entry, Fifo, Stamped};
///
/// let waiting = Fifo::new();
/// let (first, second) = (Entry::new(Stamped::new("a")), Entry::new(Stamped::new("b")));
/// waiting.push(&first)?;
/// waiting.push(&second)?;
/// waiting.remove(&first)?; // cancels
/// waiting.push(&first)?; // now it is behind the other
/// assert_eq!(waiting.pop().as_deref().map(|item| **item), Some("b"));
/// assert_eq!(waiting.pop().as_deref().map(|item| **item), Some("a"));
/// assert!(waiting.pop().is_none());
/// # Ok::<(), percolog::ldu::UpdateError>(())
/// ```
///
/// # Order
///
/// Linearizable: if one `push` returned before another was called, its entry comes out before the other's,
/// wherever they ran; an entry that was removed and pushed again has its place by the later push. Of a
/// [`pop`](FifoGuard::pop) and a [`remove`](Self::remove) of the same entry one has it. `None` comes from an
/// instant at which the queue was empty.
///
/// # Cost
///
/// As [`Deferred`] with a log per slot, and for a push the stamp (`lfence; rdtsc`). A look costs O(log n) for
/// each entry that is due. *Sustained ceiling:* entries that are popped are looked at by one core, the popper's.
///
/// # Panics
///
/// If an item's destructor panics while entries are brought together, or the holder of a guard does, the queue is poisoned: who asks for its front
/// panics, or is told, until [`clear_poison`](Self::clear_poison). Its order is right all the same, and no other entry is lost: so pushing
/// and removing go on, and so do the merges that they pay for.
///
/// This is what J. Kyong's slides leave to future work, LDU with time stamps for queues.
pub struct Fifo<T: Send + Sync, E: Environment = Native> {
    line: Deferred<Line<T>, E>,
}

/// An item of a [`Fifo`], with the time stamp of its push.
#[derive(Debug)]
pub struct Stamped<T> {
    stamp: AtomicU64,
    item: T,
}

impl<T> Stamped<T> {
    /// Creates an item that is in no queue yet.
    #[must_use]
    pub fn new(item: T) -> Self {
        Self {
            stamp: AtomicU64::new(0),
            item,
        }
    }

    /// The item alone.
    pub fn into_inner(self) -> T {
        self.item
    }

    /// Relaxed, here and in `set_stamp`: written under a claim of the entry, whose end publishes it.
    fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    fn set_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::Relaxed);
    }
}

impl<T> Deref for Stamped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

/// By stamp, and among equal stamps by entry.
type Place = (u64, usize);

/// What a [`Fifo`] keeps its entries in.
struct Line<T> {
    members: BTreeMap<Place, Member<Stamped<T>>>,
    /// The latest stamp that was ever seen here.
    latest: u64,
}

impl<T: Send + Sync> Container for Line<T> {
    type Item = Stamped<T>;

    fn insert(&mut self, member: Member<Stamped<T>>) {
        // The stamp may already be that of a later push, whose record is in the log by then.
        let stamp = member.stamp();
        self.latest = self.latest.max(stamp);
        member.set_position(stamp);
        self.members.insert((stamp, member.address()), member);
    }

    fn remove(&mut self, entry: &Entry<Stamped<T>>, position: u64) -> Option<Member<Stamped<T>>> {
        self.members.remove(&(position, entry.address()))
    }

    fn keep(&mut self, entry: &Entry<Stamped<T>>, position: u64) {
        if let Some(member) = self.members.remove(&(position, entry.address())) {
            self.insert(member);
        }
    }
}

impl<T: Send + Sync> Line<T> {
    /// Takes the first one out that was pushed before `horizon` and has not been touched since it was looked at.
    fn pop_before(&mut self, horizon: u64) -> Option<Entry<Stamped<T>>> {
        let mut from = (0, 0);
        loop {
            let place = *self.members.range(from..(horizon, 0)).next()?.0;
            let member = self.members.remove(&place)?;
            match member.release_if_settled() {
                Ok(Some(entry)) => return Some(entry),
                // Only somebody who has dropped its container can have unlinked it unnoticed.
                Ok(None) => {}
                Err(member) => {
                    // It has been removed since. If it was pushed again, then behind the horizon.
                    self.members.insert(place, member);
                    from = (place.0, place.1 + 1);
                }
            }
        }
    }
}

impl<T: Send + Sync> Fifo<T> {
    const_fn! {
        /// Creates an empty queue. Allocates nothing; usable in statics.
        #[must_use]
        pub const fn new() -> Self {
            Self::new_in(Native)
        }
    }
}

impl<T: Send + Sync, E: Environment> Fifo<T, E> {
    const_fn! {
        /// An empty queue in an environment of its own: for tests that force migrations and clock skew.
        #[doc(hidden)]
        pub const fn new_in(environment: E) -> Self {
            Self::with_limit_in(128, environment)
        }
    }

    const_fn! {
        /// An empty queue whose slots' logs hold so many entries before a push pays for a merge: 128 is
        /// usual, [`usize::MAX`] is no limit.
        #[doc(hidden)]
        pub const fn with_limit_in(limit: usize, environment: E) -> Self {
            let policy = if limit == usize::MAX { Policy::Grow } else { Policy::Merge };
            Self {
                line: DeferredBuilder::new()
                    .limit(limit)
                    .policy(policy)
                    .on_drop(OnDrop::Discard)
                    .merge_poisoned()
                    .build_in(
                        Line {
                            members: BTreeMap::new(),
                            latest: 0,
                        },
                        environment,
                    ),
            }
        }
    }

    /// Puts an entry at the end.
    ///
    /// *Progress and cost:* see [`Deferred`] and the type.
    ///
    /// # Errors
    /// As [`Deferred::insert`].
    pub fn push(&self, entry: &Entry<Stamped<T>>) -> Result<(), UpdateError> {
        let node = entry.node();
        let home = self.line.home();
        loop {
            let word = node.load();
            match node.step(word, home, true)? {
                Step::InPlace(new) => {
                    // The stamp is the push's, so it is taken, and written, while nobody else can push the
                    // entry: taken before, it could be older than a push that has come and gone.
                    if node.exchange(word, word | CLAIMED) {
                        entry.set_stamp(self.line.object.environment().stamp());
                        if node.insert_in_place(record_of(new)) {
                            return Ok(());
                        }
                    }
                }
                Step::Queue(..) => {
                    if let Some(outcome) = self.enqueue(entry, home) {
                        return outcome;
                    }
                }
                Step::Bind(record) => node.bind(word, record, home),
                Step::Wait => node.wait(),
            }
        }
    }

    /// As `Deferred::enqueue`, with a stamp.
    fn enqueue(&self, entry: &Entry<Stamped<T>>, home: u64) -> Option<Result<(), UpdateError>> {
        let node = entry.node();
        let queued = self.line.object.queue_made(move || {
            loop {
                let word = node.load();
                match node.step(word, home, true) {
                    Ok(Step::Queue(_, record)) => {
                        if node.exchange(word, word | CLAIMED) {
                            entry.set_stamp(self.line.object.environment().stamp());
                            node.insert_queued(record);
                            let node = entry.node;
                            return (Some(Ticket { node, record }), Some(Ok(())));
                        }
                    }
                    // Not with the slot's lock in hand, or not needing it.
                    Ok(_) => return (None, None),
                    Err(refused) => return (None, Some(Err(refused))),
                }
            }
        });
        queued.unwrap_or_else(|reason| Some(Err(UpdateError::Full(reason))))
    }

    /// Takes an entry out before its turn.
    ///
    /// # Errors
    /// If it is not in this queue; else as [`Deferred::remove`].
    #[inline]
    pub fn remove(&self, entry: &Entry<Stamped<T>>) -> Result<(), UpdateError> {
        self.line.remove(entry)
    }

    /// Returns whether an entry is in this queue, after all updates that have finished.
    #[must_use]
    pub fn contains(&self, entry: &Entry<Stamped<T>>) -> bool {
        self.line.contains(entry)
    }

    /// Gives the queue's front to this thread alone.
    ///
    /// # Panics
    /// If the queue is poisoned, or this thread has a guard of it already.
    #[track_caller]
    pub fn synchronize(&self) -> FifoGuard<'_, T, E> {
        match self.guard(Wait::For(Patience::Unlimited)) {
            Ok(guard) => guard,
            Err(error) => no_guard(&error),
        }
    }

    /// As [`synchronize`](Self::synchronize), without waiting for another thread's guard.
    ///
    /// # Errors
    /// If another thread or this one has the queue's front, or it is poisoned.
    pub fn try_synchronize(&self) -> Result<FifoGuard<'_, T, E>, SynchronizeError<()>> {
        self.guard(Wait::No)
    }

    fn guard(&self, wait: Wait) -> Result<FifoGuard<'_, T, E>, SynchronizeError<()>> {
        // Before the cut: see `FifoGuard`.
        let horizon = self.line.object.environment().stamp_first();
        let guard = self
            .line
            .guard(wait)
            .map_err(|error| error.map_guard(drop))?;
        let fifo = FifoGuard {
            fifo: self,
            guard,
            horizon,
        };
        fifo.check_clock();
        Ok(fifo)
    }

    /// Takes the entry at the front.
    ///
    /// *Progress:* blocking while another thread has the front. Who pops often takes a
    /// [guard](Self::synchronize) for several.
    ///
    /// # Panics
    /// As [`synchronize`](Self::synchronize).
    #[track_caller]
    pub fn pop(&self) -> Option<Entry<Stamped<T>>> {
        self.synchronize().pop()
    }

    /// Looks at up to `budget` entries in the log, if nobody has the front: see [`Deferred::drain`].
    pub fn drain(&self, budget: usize) -> Drained {
        self.line.drain(budget)
    }

    /// Returns whether an item's destructor, or the holder of a guard, has panicked. See [the type](Self#panics).
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.line.is_poisoned()
    }

    /// Lets the front be looked at again.
    pub fn clear_poison(&self) {
        self.line.clear_poison();
    }

    /// Returns statistics: what deferring has cost so far.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.line.stats()
    }
}

#[cfg(feature = "std")]
impl<T: Send + Sync, E: Environment> crate::engine::Drain for Fifo<T, E> {
    fn drain(&self, budget: usize) -> Drained {
        self.drain(budget)
    }
}

fn record_of(word: u64) -> usize {
    super::node::Node::<()>::current(word)
}

impl<T: Send + Sync> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync, E: Environment> fmt::Debug for Fifo<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo").finish_non_exhaustive()
    }
}

/// An exclusive guard of the front of a [`Fifo`].
///
/// What is in the queue's order may be out of date: an entry that was removed and pushed again while the guard
/// was being made has a new stamp already, while others that were pushed before that are still in their
/// slots' logs. So only entries stamped before the *horizon*, which is taken before the cut, are
/// given out; where that leaves none, another cut is made. Everything that was pushed before an entry
/// within the horizon is in the cut, since it had finished when that was made.
#[must_use = "the queue's front is free again as soon as the guard is dropped"]
pub struct FifoGuard<'a, T: Send + Sync, E: Environment = Native> {
    fifo: &'a Fifo<T, E>,
    guard: Synchronized<'a, Line<T>>,
    horizon: u64,
}

impl<T: Send + Sync, E: Environment> FifoGuard<'_, T, E> {
    /// Takes the entry at the front. It is in no queue then, and can be pushed again.
    ///
    /// *Progress:* lock-free: it looks again only because others have pushed or removed meanwhile.
    ///
    /// # Panics
    /// If an item that is freed on the way panics.
    pub fn pop(&mut self) -> Option<Entry<Stamped<T>>> {
        loop {
            let horizon = self.horizon;
            if let Some(entry) = self.guard.pop_before(horizon) {
                return Some(entry);
            }
            let object = &self.fifo.line.object;
            self.horizon = object.environment().stamp_first();
            let any = object.merge_again(&mut self.guard);
            self.check_clock();
            // Only if nothing was in the log *and* nothing is in line was the queue empty at an instant, that
            // of this cut. What came with it may have been removed since, and others pushed before that.
            if !any && self.guard.members.is_empty() {
                return None;
            }
        }
    }

    /// A stamp from the future: the clocks of two slots differ by more than it takes to go from one to the
    /// other.
    fn check_clock(&self) {
        let latest = self.guard.latest;
        if latest > self.horizon {
            let environment = self.fifo.line.object.environment();
            if environment.stamp() < latest {
                environment.disorder(latest);
            }
        }
    }
}

impl<T: Send + Sync + fmt::Debug, E: Environment> fmt::Debug for FifoGuard<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.guard.members.values()).finish()
    }
}
