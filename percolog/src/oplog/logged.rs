//! Any structure, updated through logs.

use super::log::Log;
use super::operation::Operation;
use crate::cpu::{Environment, Native};
use crate::engine::{
    Drained, Full, FullReason, LogStats, MemoryUsage, Mode, Object, OnDrop, Options, Origin,
    Policy, ReadGuard, SynchronizeError, Synchronized, Wait,
};
use crate::sync::{Patience, const_fn};
use core::fmt;
use core::panic::Location;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

/// A structure whose updates are executed at once while few threads use it, and logged per slot and merged when it is read while many do.
///
/// See the [module](super) for the idea, an example, and the order that is kept.
///
/// # Eager and deferring
///
/// An object is *eager* at first: `queue` takes its lock if that is free, executes the operation, and lets go, for about
/// the price of a mutex. Nothing is allocated. Where the lock is taken it waits for a moment; then the operation is logged, and executed by
/// the next thread that has the lock, before its own. So a guard that is kept for long delays the first update of each thread, and no more.
///
/// When the lock is taken often, and updates come several to a read, the object becomes *deferring*: updates
/// go to the log of their slot and touch nothing that is shared, and a read merges the logs. When merges find little in them
/// it becomes eager again. An object whose operations [absorb](Operation::ABSORBS) each other also tries from time to time what logging a
/// few of them saves. Where readers that [share](Self::read) it meet, and updates are few, it is *biased to readers*: each leaves a mark
/// on a line of its slot, and who updates looks at all marks. Nothing of this changes what a read shows. [`LoggedBuilder::mode`] fixes the mode; [`stats`](Self::stats)
/// says which it is.
///
/// # Progress and cost
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`queue`](Self::queue) of an eager object | blocking: waits up to 200 µs for the lock, then logs; executes what others have logged before | those of a lock and of the state, if another thread had them last |
/// | [`synchronize`](Self::synchronize), [`with`](Self::with) of an eager object with nothing logged | blocking | the same |
/// | [`queue`](Self::queue) of a deferring object below the limit, or of what cancels or replaces an operation that is in the slot's queue | blocking for a few instructions: a thread that lost its processor in mid-append, or a merge, can hold this slot's queue | none between reads; ≤ 3 at a slot's first update after a read |
/// | [`queue`](Self::queue) at the limit | what the [`Policy`] says | a merge |
/// | [`try_queue`](Self::try_queue) | never waits, never merges; executes at once only what need not wait | as `queue` |
/// | [`synchronize`](Self::synchronize), [`with`](Self::with) | blocking | for each dirty slot its lock and its operations |
/// | [`read`](Self::read) of a clean object | blocking while somebody writes | the lock's line; in a phase of reading none, and for an update one more for each slot that has read since the last one |
///
/// Memory: none while no update is logged, and no phase of reading begins, which takes a line or two for each slot that reads. A slot that logs one gets a queue with room for the limit (128 entries of 8 bytes
/// and the operation), and merging keeps a second one for it; after that neither updates nor merges
/// allocate. Threads beyond the slots share queues.
///
/// # Re-entrance
///
/// A thread that has a guard of an object may queue to it; the operation takes effect after the guard
/// is gone. If it fills its queue to the hard limit meanwhile, `queue` panics and
/// [`try_queue`](Self::try_queue) hands the operation back: a merge would wait for the guard. The same
/// holds for an operation that queues to the object it is executed on. While a thread has a guard of any object, or runs an
/// operation, its updates of other objects are logged too, so that operations do not run inside each other. An operation
/// that an eager object executes runs inside its caller's `queue`: it must not take a lock that the caller may hold, or say so with
/// [`Operation::AT_ONCE`]. Asking for a second guard of
/// the same object panics (or is refused, in the `try_` and timed variants) instead of waiting for
/// ever. Guards of *different* objects are like locks: threads that take them in different orders can
/// wait for each other. An object in the state of another one is a different one. A guard that is forgotten keeps its object, wherever
/// that is moved, and no other. Without the `std` feature there is no place to record what a thread holds, and
/// re-entrance waits for itself.
///
/// # Poisoning
///
/// A panic in an operation, or of a thread that holds an exclusive guard, poisons the object as it
/// does a `std::sync::Mutex`: `synchronize`, `read` and `with` panic, the `try_` and timed variants say
/// so and give out the guard nevertheless. The operation that panicked is gone; those behind it stay,
/// in order, and are executed once [`clear_poison`](Self::clear_poison) has been called. Until then updates are queued up to the hard limit,
/// at which `queue` panics; guards show the state as the panic left it, without what has been queued since; and dropping the object
/// executes nothing. Neither a merge that
/// an updater pays for, in `queue` or [`drain`](Self::drain), nor an operation that `queue` executes at once passes its panic on to
/// the caller. With
/// `RUSTFLAGS='--cfg percolog_origin'` each operation remembers where it was queued, and the panic of
/// the next `synchronize` names the place.
///
/// A destructor that panics counts as the operation that it runs in. One of an operation that is absorbed or discarded goes to the caller
/// that absorbed or discarded it, unless that is a merge, which it poisons. Where several operations are dropped together, all of them
/// are, and the first panic goes on.
///
/// # Operations that own handles
///
/// An operation may own a handle of any object, such as an `Arc`, and may drop the last one of another object. One that owns a handle of
/// its *own* object keeps it alive until it has been executed or absorbed: what nobody reads or updates any more is then never freed.
pub struct Logged<S, O: Operation<S>, E: Environment = Native> {
    object: Object<S, Log<O>, E>,
}

impl<S, O: Operation<S>> Logged<S, O> {
    const_fn! {
        /// Wraps a structure. Allocates nothing; usable in statics.
        #[must_use]
        pub const fn new(state: S) -> Self {
            Self::builder().build(state)
        }
    }

    const_fn! {
        /// Limits and policies other than the usual ones; the same as [`LoggedBuilder::new`].
        ///
        /// ```
        /// use percolog::oplog::{Logged, LoggedBuilder, Mode, Operation, Policy};
        ///
        /// struct Push(u32);
        /// impl Operation<Vec<u32>> for Push {
        ///     fn exec(self, all: &mut Vec<u32>) { all.push(self.0) }
        /// }
        ///
        /// static LOG: Logged<Vec<u32>, Push> = LoggedBuilder::new()
        ///     .mode(Mode::Deferring)
        ///     .limit(2)
        ///     .policy(Policy::Full)
        ///     .build(Vec::new());
        ///
        /// assert!(LOG.try_queue(Push(1)).is_ok());
        /// assert!(LOG.try_queue(Push(2)).is_ok());
        /// let full = LOG.try_queue(Push(3)).unwrap_err();
        /// assert_eq!(full.operation.0, 3);
        /// assert_eq!(*LOG.synchronize(), [1, 2]);
        /// ```
        pub const fn builder() -> LoggedBuilder {
            LoggedBuilder::new()
        }
    }
}

/// A builder of a [`Logged`]: limits and policies.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct LoggedBuilder {
    options: Options,
}

impl LoggedBuilder {
    /// Creates a builder with the usual limits and policies.
    pub const fn new() -> Self {
        Self {
            options: Options::DEFAULT,
        }
    }

    /// How many operations a slot's queue holds before the policy acts: 128 unless said otherwise, at
    /// least 1. Sets the hard limit to 16 times as many.
    pub const fn limit(mut self, operations: usize) -> Self {
        self.options.limit = if operations == 0 { 1 } else { operations };
        self.options.hard_limit = self.options.limit.saturating_mul(16);
        self
    }

    /// To how many operations a slot's queue may grow while [`Policy::Merge`] finds the object taken.
    /// Not less than the limit.
    pub const fn hard_limit(mut self, operations: usize) -> Self {
        self.options.hard_limit = if operations < self.options.limit {
            self.options.limit
        } else {
            operations
        };
        self
    }

    /// What happens at the limit.
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }

    /// Whether updates are executed at once: learnt by the object, unless it is said here.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.options.mode = mode;
        self
    }

    /// What happens to pending operations when the object is dropped.
    pub const fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.options.on_drop = on_drop;
        self
    }

    /// Sets whether merging looks for operations of different slots that absorb each other: usually yes,
    /// for operations that [absorb](Operation::ABSORBS) at all. It costs the reader a look into an
    /// index per operation, and pays where executing one costs more than that.
    pub const fn absorb_while_merging(mut self, yes: bool) -> Self {
        self.options.absorb_while_merging = yes;
        self
    }

    /// Whatever operation panics leaves the state in order: see [`Options::merge_poisoned`].
    pub(crate) const fn merge_poisoned(mut self) -> Self {
        self.options.merge_poisoned = true;
        self
    }

    pub(super) const fn options(self) -> Options {
        self.options
    }

    const_fn! {
        /// The object.
        pub const fn build<S, O: Operation<S>>(self, state: S) -> Logged<S, O> {
            self.build_in(state, Native)
        }
    }

    const_fn! {
        /// The object, in an environment of its own: for tests that force migrations and clock skew.
        #[doc(hidden)]
        pub const fn build_in<S, O: Operation<S>, E: Environment>(
            self,
            state: S,
            environment: E,
        ) -> Logged<S, O, E> {
            Logged { object: Object::new(state, self.options, environment) }
        }
    }
}

impl Default for LoggedBuilder {
    fn default() -> Self {
        Self::new()
    }
}

#[inline(always)]
#[track_caller]
pub(super) fn origin() -> Origin {
    #[cfg(percolog_origin)]
    return Some(Location::caller());
    #[cfg(not(percolog_origin))]
    None::<&'static Location<'static>>
}

impl<S, O: Operation<S>, E: Environment> Logged<S, O, E> {
    /// Queues an update: it is in what every [`synchronize`](Self::synchronize) called after this has
    /// returned shows.
    ///
    /// See the type for progress and cost.
    ///
    /// # Panics
    /// Only where the operation can go nowhere: the queue is at its limit, with nothing in it that the operation cancels or
    /// replaces, and the policy is [`Policy::Full`]; or it is at its hard limit and this thread holds a guard of the object, runs
    /// one of its operations, or the object is poisoned. [`try_queue`](Self::try_queue) hands the
    /// operation back instead.
    #[inline]
    #[track_caller]
    pub fn queue(&self, operation: O) {
        if let Err(full) = self.object.queue(operation, origin()) {
            refused(full.reason);
        }
    }

    /// Queues an update unless that would mean to merge or to wait.
    ///
    /// # Errors
    /// Hands the operation back if the slot's queue is at its limit, with nothing in it that the operation cancels or
    /// replaces, or in use by another thread for longer than a few pauses.
    #[inline]
    #[track_caller]
    pub fn try_queue(&self, operation: O) -> Result<(), Full<O>> {
        self.object.try_queue(operation, origin())
    }

    /// Queues many updates, in order, with one lock and one stamp for up to 16 of them.
    ///
    /// Between two of them other threads' updates may take effect, and a merge may take some of them
    /// and leave the rest.
    ///
    /// # Panics
    /// As [`queue`](Self::queue); the operations before the one that could not be queued are queued.
    #[track_caller]
    pub fn extend(&self, operations: impl IntoIterator<Item = O>) {
        if let Err(full) = self.object.extend(operations, origin()) {
            refused(full.reason);
        }
    }

    /// Merges what is pending and gives the structure to this thread alone.
    ///
    /// # Panics
    /// If the object is poisoned, if this thread has a guard of it already, or if an operation panics
    /// (which poisons the object).
    #[inline]
    #[track_caller]
    pub fn synchronize(&self) -> Synchronized<'_, S> {
        match self.object.synchronize_at_once() {
            Some(guard) => guard,
            None => self.merge_and_enter(),
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn merge_and_enter(&self) -> Synchronized<'_, S> {
        match self.object.synchronize(Wait::For(Patience::Unlimited)) {
            Ok(guard) => guard,
            Err(error) => no_guard(&error.map_guard(drop), || self.object.culprit()),
        }
    }

    /// As [`synchronize`](Self::synchronize), without waiting for another thread's guard.
    ///
    /// # Errors
    /// If another thread or this one has the object, or it is poisoned.
    ///
    /// # Panics
    /// If an operation panics.
    pub fn try_synchronize(
        &self,
    ) -> Result<Synchronized<'_, S>, SynchronizeError<Synchronized<'_, S>>> {
        self.object.synchronize(Wait::Briefly)
    }

    /// As [`synchronize`](Self::synchronize), waiting no longer than `timeout` for another thread's
    /// guard. Merging itself takes as long as it takes.
    ///
    /// # Errors
    /// If another thread had the object all that time, this one has it, or it is poisoned.
    ///
    /// # Panics
    /// If an operation panics.
    #[cfg(feature = "std")]
    pub fn synchronize_for(
        &self,
        timeout: Duration,
    ) -> Result<Synchronized<'_, S>, SynchronizeError<Synchronized<'_, S>>> {
        self.object.synchronize(until(timeout))
    }

    /// Merges what is pending and calls `f` with the structure: for when the answer is needed.
    ///
    /// # Panics
    /// As [`synchronize`](Self::synchronize), and where `f` does.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        match self.object.with_at_once(f) {
            Ok(result) => result,
            Err(f) => f(&mut self.merge_and_enter()),
        }
    }

    /// Merges what is pending and gives the structure to this thread and other readers. Readers of an
    /// object that nobody has updated since do not exclude each other.
    ///
    /// # Panics
    /// As [`synchronize`](Self::synchronize).
    #[inline(always)]
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, S>
    where
        S: Sync,
    {
        match self.object.read(Wait::For(Patience::Unlimited)) {
            Ok(guard) => guard,
            Err(error) => no_guard(&error.map_guard(drop), || self.object.culprit()),
        }
    }

    /// As [`read`](Self::read), without waiting for another thread's guard.
    ///
    /// # Errors
    /// As [`try_synchronize`](Self::try_synchronize).
    ///
    /// # Panics
    /// If an operation panics.
    pub fn try_read(&self) -> Result<ReadGuard<'_, S>, SynchronizeError<ReadGuard<'_, S>>>
    where
        S: Sync,
    {
        self.object.read(Wait::Briefly)
    }

    /// As [`read`](Self::read), waiting no longer than `timeout` for another thread's guard.
    ///
    /// # Errors
    /// As [`synchronize_for`](Self::synchronize_for).
    ///
    /// # Panics
    /// If an operation panics.
    #[cfg(feature = "std")]
    pub fn read_for(
        &self,
        timeout: Duration,
    ) -> Result<ReadGuard<'_, S>, SynchronizeError<ReadGuard<'_, S>>>
    where
        S: Sync,
    {
        self.object.read(until(timeout))
    }

    /// What [`Snapshots`](crate::collections) are made of.
    #[cfg(feature = "std")]
    pub(crate) fn look<R>(
        &self,
        wait: Wait,
        f: impl FnOnce(&S, u64) -> R,
    ) -> Result<R, SynchronizeError<()>> {
        self.object.look(wait, f)
    }

    /// Merges at this updater's expense, as if its queue were at its limit.
    pub(crate) fn make_room(&self, wait: Wait) -> Result<(), FullReason> {
        self.object.make_room(wait, || {})
    }

    /// Executes up to `budget` pending operations, if nobody else has the object: for a maintenance
    /// thread that pays so that readers and updaters need not. Never waits for a guard, and passes on
    /// no panic (the object is poisoned then).
    pub fn drain(&self, budget: usize) -> Drained {
        self.object.drain(budget)
    }

    /// Merges what is pending, without a lock.
    ///
    /// # Panics
    /// If the object is poisoned, or an operation panics.
    pub fn get_mut(&mut self) -> &mut S {
        match self.object.get_mut() {
            Some(state) => state,
            None => panic!("{POISONED}"),
        }
    }

    /// Merges what is pending and unwraps the structure.
    ///
    /// # Panics
    /// If the object is poisoned, or an operation panics.
    pub fn into_inner(self) -> S {
        match self.object.into_inner() {
            Some(state) => state,
            None => panic!("{POISONED}"),
        }
    }

    /// Returns whether an operation, or the holder of an exclusive guard, has panicked.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.object.is_poisoned()
    }

    /// Declares the structure sound again; operations that were left pending will be executed.
    pub fn clear_poison(&self) {
        self.object.clear_poison();
    }

    /// Returns statistics: what deferring has cost so far. Locks each slot's queue for a moment.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.object.stats()
    }

    /// What the object's queues and its merging take, to the byte. Exact while nobody updates the object
    /// meanwhile.
    ///
    /// *Progress:* blocking; it waits for an exclusive guard and for a merge, and works on a poisoned object
    /// too. *Cost:* the lock's line, and a few lines of each slot that has ever updated the object. Allocates
    /// nothing.
    ///
    /// ```
    /// use percolog::oplog::{Logged, LoggedBuilder, Mode, Operation};
    ///
    /// struct Add(u64);
    /// impl Operation<u64> for Add {
    ///     fn exec(self, sum: &mut u64) { *sum += self.0; }
    /// }
    ///
    /// let sum = Logged::new(0);
    /// sum.queue(Add(1)); // executed at once: nobody else is here
    /// assert_eq!(sum.memory_usage().total(), 0);
    ///
    /// let sum: Logged<u64, Add> = LoggedBuilder::new().mode(Mode::Deferring).build(0);
    /// sum.queue(Add(1));
    /// assert!(sum.memory_usage().queues >= 128 * size_of::<(u64, Add)>());
    /// assert_eq!(sum.memory_usage().merging, 0);
    /// drop(sum.synchronize());
    /// assert!(sum.memory_usage().merging > 0);
    /// ```
    ///
    /// # Panics
    /// If this thread has an exclusive or a shared guard of the object, or runs one of its operations.
    #[track_caller]
    #[must_use]
    pub fn memory_usage(&self) -> MemoryUsage {
        match self.object.memory_usage() {
            Some(usage) => usage,
            None => panic!(
                "percolog: this thread has the object already: waiting would be waiting for itself"
            ),
        }
    }

    /// A spent operation of this slot, to be reused or dropped where it was made; see
    /// [`Operation::exec_keeping`]. At most the limit is kept per slot, and what was executed comes
    /// back when the slot's queue is merged the next time.
    pub fn spent(&self) -> Option<O> {
        self.object.with_queue(Log::take_spent)
    }
}

/// Panics for want of a guard. `culprit` says where the operation that panicked was queued, if that is known.
#[track_caller]
#[cold]
pub(super) fn no_guard(error: &SynchronizeError<()>, culprit: impl FnOnce() -> Origin) -> ! {
    match error {
        SynchronizeError::Poisoned(()) => match culprit() {
            Some(place) => panic!("{POISONED}; it was queued at {place}"),
            None => panic!("{POISONED}"),
        },
        other => panic!("percolog: no guard, {other}: waiting would be waiting for itself"),
    }
}

#[cfg(feature = "std")]
impl<S, O: Operation<S>, E: Environment> crate::engine::Drain for Logged<S, O, E> {
    fn drain(&self, budget: usize) -> Drained {
        self.drain(budget)
    }
}

pub(super) const POISONED: &str =
    "percolog: the object is poisoned, an operation or the holder of a guard has panicked";

#[cfg(feature = "std")]
pub(super) fn until(timeout: Duration) -> Wait {
    // A deadline beyond what the clock can express is none.
    Wait::For(
        Instant::now()
            .checked_add(timeout)
            .map_or(Patience::Unlimited, Patience::Until),
    )
}

#[track_caller]
#[cold]
#[inline(never)]
pub(super) fn refused(reason: FullReason) -> ! {
    panic!("percolog: the operation cannot be queued, {reason}; `try_queue` hands it back instead")
}

impl<S: Default, O: Operation<S>> Default for Logged<S, O> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S, O: Operation<S>> From<S> for Logged<S, O> {
    fn from(state: S) -> Self {
        Self::new(state)
    }
}

/// Shows the structure as merged so far; never merges and never waits.
impl<S: fmt::Debug, O: Operation<S>, E: Environment> fmt::Debug for Logged<S, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.object.peek(|state| {
            f.debug_struct("Logged")
                .field("merged", state)
                .finish_non_exhaustive()
        });
        shown.unwrap_or_else(|| f.write_str("Logged { <in use>, .. }"))
    }
}
