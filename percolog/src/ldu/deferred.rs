//! The container as its users see it.

use super::container::Container;
use super::entry::{Entry, UpdateError};
use super::identity::Identity;
use super::node::{CLAIMED, Open, Step, Ticket};
use super::queue::Log;
use crate::cpu::{Environment, Native};
use crate::engine::{
    Drained, FullReason, LogStats, Mode, Object, OnDrop, Options, Policy, ReadGuard,
    SynchronizeError, Synchronized, Wait,
};
use crate::sync::{Patience, const_fn};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

/// A container whose insertions and removals are logged, and cancel each other in the log.
///
/// See the [module](super) for the idea, an example, and which order is kept.
///
/// # Progress and cost
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`insert`](Self::insert), [`remove`](Self::remove) of an entry that is in the log | lock-free, and wait-free for an entry that one thread uses | none if the thread used the entry last |
/// | … that is not | blocking for a few instructions: a thread that lost its processor in mid-append, or a merge, can hold this slot's log. With [`Variant::Global`] lock-free | none between merges; after one, its lines of the slot, the mark and the entry |
/// | … at the limit | what the [`Policy`] says, unless most of the log has come and gone (below) | a merge |
/// | [`synchronize`](Self::synchronize), [`with`](Self::with) | blocking | for each dirty slot its lock, and each entry in its log |
/// | [`read`](Self::read) of a clean container | blocking while somebody writes | the lock's line |
///
/// Neither updates nor the log allocate: an entry brings its links along, and is in a log at most twice,
/// once for a container that it is leaving. An update of an entry that another thread is moving to another
/// container, or (with [`Variant::Global`]) putting into the log, waits for those few instructions.
///
/// **At the limit** of its slot's log an update first takes the entries out that have come and gone since the last merge: where that is
/// at least half of the log, nothing is merged and no line of other cores is touched. So entries that are all inserted and
/// removed on one core never have to be looked at by anybody else. An item whose last handle the log has is dropped then, by
/// that update, without a lock held. (The published logs keep such entries for whoever synchronizes.)
///
/// # Re-entrance and poisoning
///
/// As for [`Logged`](crate::oplog::Logged). A thread that has a guard may insert and remove; it takes effect
/// when the guard is gone. A panic of the container's methods, or of an item's `Drop` while merging, poisons
/// the object; the entry it was about is out of the log then, and in the container or not, as the
/// container has left it ([`Entry::is_linked`] says which).
pub struct Deferred<C: Container, E: Environment = Native> {
    pub(super) object: Object<C, Log<C::Item>, E>,
    open: Open<C::Item>,
    variant: Variant,
    identity: Identity,
}

/// The kind of log: one a core, or one for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Variant {
    /// One log a slot: an update that enqueues shares no line with those of other slots.
    #[default]
    PerCore,
    /// One lock-free list for all. The container is given its entries in the order in which they came into
    /// the log, and a merge has one place to look; but every update that enqueues moves the list's line. For
    /// many containers with few updates each: it takes two words, and no memory per slot until it is
    /// merged.
    Global,
}

impl<C: Container> Deferred<C> {
    const_fn! {
        /// Wraps a container. Allocates nothing; usable in statics.
        #[must_use]
        pub const fn new(container: C) -> Self {
            DeferredBuilder::new().build(container)
        }
    }
}

/// A builder of a [`Deferred`] container.
///
/// ```
/// use percolog::ldu::{Bag, Deferred, DeferredBuilder, Entry, Variant};
/// use percolog::oplog::Policy;
///
/// static MAPPED: Deferred<Bag<u64>> = DeferredBuilder::new()
///     .variant(Variant::Global)
///     .policy(Policy::Grow) // a timer, or somebody's hand, sees to it
///     .build(Bag::new());
///
/// MAPPED.insert(&Entry::new(7))?;
/// assert_eq!(MAPPED.drain(usize::MAX).executed, 1);
/// # Ok::<(), percolog::ldu::UpdateError>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct DeferredBuilder {
    options: Options,
    variant: Variant,
}

impl DeferredBuilder {
    /// Creates a builder with the usual limits and policies, and a log per slot.
    pub const fn new() -> Self {
        Self {
            options: Options {
                mode: Mode::Deferring,
                ..Options::DEFAULT
            },
            variant: Variant::PerCore,
        }
    }

    /// Which log entries are put into.
    pub const fn variant(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    /// How many entries a log holds before the policy acts: 128 unless said otherwise, at least 1. Sets the
    /// hard limit to 16 times as many.
    pub const fn limit(mut self, entries: usize) -> Self {
        self.options.limit = if entries == 0 { 1 } else { entries };
        self.options.hard_limit = self.options.limit.saturating_mul(16);
        self
    }

    /// To how many entries a log may grow while [`Policy::Merge`] finds the container taken. Not less than
    /// the limit.
    pub const fn hard_limit(mut self, entries: usize) -> Self {
        self.options.hard_limit = if entries < self.options.limit {
            self.options.limit
        } else {
            entries
        };
        self
    }

    /// Whatever panics leaves the container in order: see [`Options::merge_poisoned`].
    pub(super) const fn merge_poisoned(mut self) -> Self {
        self.options.merge_poisoned = true;
        self
    }

    /// What happens at the limit. [`Policy::Discard`] and [`Policy::MergeOrDiscard`] do here what [`Policy::Full`]
    /// does: an entry that is said to be in a container cannot be forgotten.
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }

    /// What happens to entries in the log when the container is dropped. Either way no entry is in it
    /// afterwards; with [`OnDrop::Apply`] the container has seen all of them before it is dropped.
    pub const fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.options.on_drop = on_drop;
        self
    }

    const_fn! {
        /// The object.
        pub const fn build<C: Container>(self, container: C) -> Deferred<C> {
            self.build_in(container, Native)
        }
    }

    const_fn! {
        /// The object, in an environment of its own: for tests that force migrations.
        #[doc(hidden)]
        pub const fn build_in<C: Container, E: Environment>(
            self,
            container: C,
            environment: E,
        ) -> Deferred<C, E> {
            Deferred {
                object: Object::new(container, self.options, environment),
                open: Open::new(),
                variant: self.variant,
                identity: Identity::new(),
            }
        }
    }
}

impl Default for DeferredBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Container, E: Environment> Deferred<C, E> {
    /// Puts an entry into the container: it is in what every [`synchronize`](Self::synchronize) called after
    /// this has returned shows.
    ///
    /// See the type for progress and cost.
    ///
    /// # Errors
    /// If it is in this container or another one already, or is still to be removed from two others; or
    /// where it can go nowhere: the log is at its limit and the policy is [`Policy::Full`]; or at its hard
    /// limit, and this thread holds a guard of the container or it is poisoned. Nothing has changed then.
    ///
    /// # Panics
    /// If there are more than eight million handles of the entry.
    #[inline]
    pub fn insert(&self, entry: &Entry<C::Item>) -> Result<(), UpdateError> {
        self.update(entry, true)
    }

    /// Takes an entry out of the container. Its handles stay, and it can be inserted again, here or
    /// elsewhere.
    ///
    /// See the type for progress and cost.
    ///
    /// # Errors
    /// If it is not in this container; of several threads that remove it, one is told that it has. Else as
    /// [`insert`](Self::insert).
    #[inline]
    pub fn remove(&self, entry: &Entry<C::Item>) -> Result<(), UpdateError> {
        self.update(entry, false)
    }

    /// Returns whether an entry is in this container, after all updates that have finished.
    ///
    /// *Progress:* wait-free. *Cost:* the entry's line.
    #[must_use]
    pub fn contains(&self, entry: &Entry<C::Item>) -> bool {
        let node = entry.node();
        node.wanted_in(node.load()) == Some(self.identity.get())
    }

    #[inline(always)]
    pub(super) fn home(&self) -> u64 {
        self.identity.get()
    }

    #[inline]
    fn update(&self, entry: &Entry<C::Item>, insert: bool) -> Result<(), UpdateError> {
        let node = entry.node();
        let word = node.load();
        // What most updates of an entry that comes and goes find, and all that they do.
        if let Some(new) = node.cancelling(word, self.home(), insert)
            && node.exchange(word, new)
        {
            return Ok(());
        }
        self.update_whatever(entry, insert)
    }

    #[inline(never)]
    fn update_whatever(&self, entry: &Entry<C::Item>, insert: bool) -> Result<(), UpdateError> {
        let node = entry.node();
        let home = self.home();
        loop {
            let word = node.load();
            match node.step(word, home, insert)? {
                Step::InPlace(new) => {
                    if node.exchange(word, new) {
                        return Ok(());
                    }
                }
                Step::Queue(new, record) => match self.variant {
                    Variant::PerCore => {
                        if let Some(outcome) = self.enqueue(entry, insert, word, (new, record)) {
                            return outcome;
                        }
                    }
                    Variant::Global => {
                        if self.refuses() {
                            return Err(UpdateError::Full(FullReason::Limit));
                        }
                        // Until it is in the list others must not rely on that it is.
                        if node.exchange(word, new | CLAIMED) {
                            self.open.push(&Ticket {
                                node: entry.node,
                                record,
                            });
                            node.unclaim();
                            self.keep_short();
                            return Ok(());
                        }
                    }
                },
                Step::Bind(record) => node.bind(word, record, home),
                Step::Wait => node.wait(),
            }
        }
    }

    /// Updates an entry that had to be put into the slot's log, and its word to be exchanged for another, when it was looked at last:
    /// when it was `word`. `None`: look again.
    ///
    /// The word says `QUEUED` from an instant on at which the slot is marked and its lock is held, so that
    /// every merge that begins later waits for the entry to be in the log.
    #[inline(always)]
    fn enqueue(
        &self,
        entry: &Entry<C::Item>,
        insert: bool,
        mut word: u64,
        (mut new, mut record): (u64, usize),
    ) -> Option<Result<(), UpdateError>> {
        let (node, home) = (entry.node(), self.home());
        let queued = self.object.queue_made(move || {
            loop {
                if node.exchange(word, new) {
                    let node = entry.node;
                    return (Some(Ticket { node, record }), Some(Ok(())));
                }
                word = node.load();
                match node.step(word, home, insert) {
                    Ok(Step::Queue(next, at)) => (new, record) = (next, at),
                    // To be looked at again, but not with the slot's lock in hand.
                    Ok(Step::InPlace(_) | Step::Bind(_) | Step::Wait) => return (None, None),
                    Err(refused) => return (None, Some(Err(refused))),
                }
            }
        });
        queued.unwrap_or_else(|reason| Some(Err(UpdateError::Full(reason))))
    }

    /// Whether the common list takes no more.
    fn refuses(&self) -> bool {
        let options = self.object.options();
        !matches!(options.policy, Policy::Merge | Policy::Grow) && self.open.len() >= options.limit
    }

    /// Merges if the common list has reached its limit, and waits at the hard limit.
    #[inline]
    fn keep_short(&self) {
        let length = self.open.len();
        if length >= self.object.options().limit {
            self.shorten(length);
        }
    }

    #[cold]
    fn shorten(&self, length: usize) {
        let options = self.object.options();
        if options.policy != Policy::Merge {
            return;
        }
        let wait = if length >= options.hard_limit {
            Wait::For(Patience::Unlimited)
        } else {
            Wait::No
        };
        // If it is refused there is nothing to be undone and nobody to be told: the entry is in the list, which
        // grows meanwhile. It takes no memory.
        let _ = self.object.make_room(wait, || self.gather());
    }

    /// Brings the common list into this slot's log, where every merge looks. Both under the slot's lock and
    /// behind its mark: whoever finds the list empty because of this waits here for what was in it.
    pub(super) fn gather(&self) {
        if self.variant == Variant::Global && !self.open.is_empty() {
            self.object
                .with_queue_marked(|log| log.prepend(self.open.take()));
        }
    }

    pub(super) fn guard(
        &self,
        wait: Wait,
    ) -> Result<Synchronized<'_, C>, SynchronizeError<Synchronized<'_, C>>> {
        self.gather();
        self.object.synchronize(wait)
    }

    /// Does what is due and gives the container to this thread alone.
    ///
    /// # Panics
    /// If the object is poisoned, if this thread has a guard of it already, or if the container panics
    /// (which poisons the object).
    #[track_caller]
    pub fn synchronize(&self) -> Synchronized<'_, C> {
        match self.guard(Wait::For(Patience::Unlimited)) {
            Ok(guard) => guard,
            Err(error) => no_guard(&error.map_guard(drop)),
        }
    }

    /// As [`synchronize`](Self::synchronize), without waiting for another thread's guard.
    ///
    /// # Errors
    /// If another thread or this one has the object, or it is poisoned.
    ///
    /// # Panics
    /// If the container panics.
    pub fn try_synchronize(
        &self,
    ) -> Result<Synchronized<'_, C>, SynchronizeError<Synchronized<'_, C>>> {
        self.guard(Wait::No)
    }

    /// As [`synchronize`](Self::synchronize), waiting no longer than `timeout` for another thread's guard.
    ///
    /// # Errors
    /// If another thread had the object all that time, this one has it, or it is poisoned.
    ///
    /// # Panics
    /// If the container panics.
    #[cfg(feature = "std")]
    pub fn synchronize_for(
        &self,
        timeout: Duration,
    ) -> Result<Synchronized<'_, C>, SynchronizeError<Synchronized<'_, C>>> {
        self.guard(Wait::For(
            // A deadline beyond what the clock can express is none.
            Instant::now()
                .checked_add(timeout)
                .map_or(Patience::Unlimited, Patience::Until),
        ))
    }

    /// Does what is due and calls `f` with the container.
    ///
    /// # Panics
    /// As [`synchronize`](Self::synchronize), and where `f` does.
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut C) -> R) -> R {
        f(&mut self.synchronize())
    }

    /// Does what is due and gives the container to this thread and other readers. Readers of a container
    /// that nobody has updated since do not exclude each other.
    ///
    /// # Panics
    /// As [`synchronize`](Self::synchronize).
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, C>
    where
        C: Sync,
    {
        self.gather();
        match self.object.read(Wait::For(Patience::Unlimited)) {
            Ok(guard) => guard,
            Err(error) => no_guard(&error.map_guard(drop)),
        }
    }

    /// What [`Snapshots`](crate::collections) are made of.
    #[cfg(feature = "std")]
    pub(crate) fn look<R>(
        &self,
        wait: Wait,
        f: impl FnOnce(&C, u64) -> R,
    ) -> Result<R, SynchronizeError<()>> {
        self.gather();
        self.object.look(wait, f)
    }

    /// Looks at up to `budget` entries in the log, if nobody else has the container: for a maintenance
    /// thread that pays so that readers and updaters need not. Never waits for a guard, and passes on no
    /// panic (the object is poisoned then).
    pub fn drain(&self, budget: usize) -> Drained {
        self.gather();
        self.object.drain(budget)
    }

    /// Does what is due, without a lock.
    ///
    /// # Panics
    /// If the object is poisoned, or the container panics.
    pub fn get_mut(&mut self) -> &mut C {
        self.gather();
        match self.object.get_mut() {
            Some(container) => container,
            None => panic!("{POISONED}"),
        }
    }

    /// Does what is due and unwraps the container. Its entries stay linked until it drops them.
    ///
    /// # Panics
    /// If the object is poisoned, or the container panics.
    pub fn into_inner(self) -> C {
        self.gather();
        let this = ManuallyDrop::new(self);
        // SAFETY: read out once, and `this` is not used again. Of the other fields none has anything to
        // drop: the common list is empty, being gathered while nobody else can have the container.
        let object = unsafe { ptr::read(&raw const this.object) };
        match object.into_inner() {
            Some(container) => container,
            None => panic!("{POISONED}"),
        }
    }

    /// Returns whether the container, or the holder of an exclusive guard, has panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.object.is_poisoned()
    }

    /// Declares the container sound again; entries left in the log will be looked at.
    pub fn clear_poison(&self) {
        self.object.clear_poison();
    }

    /// Returns statistics: what deferring has cost so far; an entry that was looked at counts as executed. Locks each slot's
    /// log for a moment.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        let mut stats = self.object.stats();
        stats.pending += self.open.len();
        stats
    }
}

#[cfg(feature = "std")]
impl<C: Container, E: Environment> crate::engine::Drain for Deferred<C, E> {
    fn drain(&self, budget: usize) -> Drained {
        self.drain(budget)
    }
}

impl<C: Container, E: Environment> Drop for Deferred<C, E> {
    fn drop(&mut self) {
        // The logs then do with it as the builder was told.
        self.gather();
    }
}

// SAFETY: as the engine's object, which says so itself; the common list holds tickets, which may be
// sent and are pushed and taken by any thread.
unsafe impl<C: Container + Send, E: Environment + Sync> Sync for Deferred<C, E> {}
// SAFETY: as above; the list's pointers are the only part that is not `Send` by itself.
unsafe impl<C: Container + Send, E: Environment + Send> Send for Deferred<C, E> {}

const POISONED: &str =
    "percolog: the object is poisoned, its container or the holder of a guard has panicked";

#[track_caller]
#[cold]
pub(super) fn no_guard(error: &SynchronizeError<()>) -> ! {
    match error {
        SynchronizeError::Poisoned(()) => panic!("{POISONED}"),
        other => panic!("percolog: no guard, {other}: waiting would be waiting for itself"),
    }
}

impl<C: Container + Default> Default for Deferred<C> {
    fn default() -> Self {
        Self::new(C::default())
    }
}

/// Shows the container as merged so far; never merges and never waits.
impl<C: Container + fmt::Debug, E: Environment> fmt::Debug for Deferred<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.object.peek(|container| {
            f.debug_struct("Deferred")
                .field("merged", container)
                .finish_non_exhaustive()
        });
        shown.unwrap_or_else(|| f.write_str("Deferred { <in use>, .. }"))
    }
}
