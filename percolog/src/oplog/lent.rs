//! Any structure, updated through logs that a cache lends it.

use super::log::Log;
#[cfg(feature = "std")]
use super::logged::until;
use super::logged::{LoggedBuilder, POISONED, no_guard, origin, refused};
use super::operation::Operation;
use crate::cpu::{Environment, Native};
use crate::engine::{
    self, Cache, CacheOptions, Drained, Full, LogCacheStats, ReadGuard, SynchronizeError,
    Synchronized, Wait,
};
use crate::sync::{Patience, const_fn};
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::ptr;
#[cfg(feature = "std")]
use std::time::Duration;

/// Operations whose logs come from a cache: names the one that all objects of the kind share.
///
/// [`log_cache!`](crate::log_cache) writes the implementation, and no program needs one of its own. `E` is where slots and
/// stamps come from, for tests.
///
/// # Safety
/// [`cache`](Self::cache) returns the same cache each time: an object that goes away leaves nothing in that cache, and in
/// another one would.
pub unsafe trait Cached<S, E: Environment + 'static = Native>:
    Operation<S> + 'static
{
    /// The cache.
    fn cache() -> &'static LogCache<S, Self, E>;
}

/// The logs that all [`Lent`] objects of a kind share.
///
/// Each slot has a direct-mapped table of 4096 places (thesis, chapter 7): a place is an object's address
/// and a log. An object whose updates are logged gets the log of its place there; if another object
/// has it, that one is merged first, on all slots, and its logs are free again. So objects that threads
/// fight over have logs, and others do not. A log that has been merged stays at its place for whoever comes next.
///
/// Memory, for each slot that logs an update: a table with two [`LINE_SIZE`](crate::cpu::LINE_SIZE) for each
/// place, in which the logs are (on x86-64 16 KiB for each 64 places of which one is used, up to a mebibyte), and for each of up to [`logs`](LogCacheBuilder::logs) logs the operations that
/// it has [room](LogCacheBuilder::room) for, or has grown to.
pub struct LogCache<S, O: Operation<S>, E = Native> {
    cache: Cache<S, Log<O>, E>,
}

/// A builder of a [`LogCache`].
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct LogCacheBuilder {
    options: CacheOptions,
}

impl LogCacheBuilder {
    /// 4096 places and as many logs a slot, and the usual limits and policies.
    pub const fn new() -> Self {
        Self {
            options: CacheOptions::DEFAULT,
        }
    }

    /// How many places a slot's table has; rounded up to a power of two.
    pub const fn places(mut self, places: usize) -> Self {
        self.options.places = if places == 0 {
            1
        } else {
            places.next_power_of_two()
        };
        self
    }

    /// How many logs a slot makes. When it has lent them all, the next object gets one that is taken from another
    /// object, which is merged first. More are only made while all objects that have one are in use.
    /// At least 1; 4096 unless said otherwise.
    pub const fn logs(mut self, logs: usize) -> Self {
        self.options.queues = if logs == 0 { 1 } else { logs };
        self
    }

    /// For how many operations room is made when a log is made: 8 unless said otherwise, and never more than the limit.
    ///
    /// A log that outgrows its room asks the allocator for more, again and again up to the limit, in the middle of an update;
    /// and allocators share lines between threads. With room for as many as the limit, updates between two reads move none. It costs
    /// that much memory for each log of each slot.
    pub const fn room(mut self, operations: usize) -> Self {
        self.options.room = operations;
        self
    }

    /// The limits and policies of the objects.
    pub const fn objects(mut self, limits: LoggedBuilder) -> Self {
        self.options.objects = limits.options();
        self
    }

    const_fn! {
        /// The cache, empty. Allocates nothing; usable in statics.
        pub const fn build<S, O: Operation<S>>(self) -> LogCache<S, O> {
            self.build_in(Native)
        }
    }

    const_fn! {
        /// The cache, in an environment of its own: for tests that force migrations and clock skew.
        #[doc(hidden)]
        pub const fn build_in<S, O: Operation<S>, E: Environment>(self, environment: E) -> LogCache<S, O, E> {
            LogCache { cache: Cache::new(self.options, environment) }
        }
    }
}

impl Default for LogCacheBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl<S, O: Operation<S>, E: Environment> LogCache<S, O, E> {
    /// Returns statistics: what the cache holds, and what it has cost. Locks each place of each slot for a moment.
    #[must_use]
    pub fn stats(&self) -> LogCacheStats {
        self.cache.stats()
    }
}

impl<S, O: Operation<S>> Default for LogCache<S, O> {
    fn default() -> Self {
        LogCacheBuilder::new().build()
    }
}

impl<S, O: Operation<S>, E: Environment> fmt::Debug for LogCache<S, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogCache").finish_non_exhaustive()
    }
}

/// Makes the cache of a kind of objects: of a state's type and an operation's, and, after another comma, a
/// [`LogCacheBuilder`](crate::oplog::LogCacheBuilder) if it is not to be the usual one.
///
/// ```
/// use percolog::oplog::{LogCacheBuilder, Operation};
///
/// struct Add(u64);
/// impl Operation<u64> for Add {
///     fn exec(self, sum: &mut u64) { *sum += self.0 }
/// }
/// percolog::log_cache!(u64, Add, LogCacheBuilder::new().places(1024));
/// ```
#[macro_export]
macro_rules! log_cache {
    ($state:ty, $operation:ty $(,)?) => {
        $crate::log_cache!($state, $operation, $crate::oplog::LogCacheBuilder::new());
    };
    ($state:ty, $operation:ty, $builder:expr $(,)?) => {
        // SAFETY: a static is the same one each time.
        unsafe impl $crate::oplog::Cached<$state> for $operation {
            fn cache() -> &'static $crate::oplog::LogCache<$state, Self> {
                static CACHE: $crate::oplog::LogCache<$state, $operation> = $builder.build();
                &CACHE
            }
        }
    };
}

/// What [`Logged`](super::Logged) is, for objects that come in millions: eight bytes over the structure, and logs only
/// while several threads update it.
///
/// ```
/// use percolog::oplog::{Lent, Operation};
///
/// /// One of very many.
/// struct Name { references: i64, /* … */ }
///
/// struct Change(i64);
/// impl Operation<Name> for Change {
///     fn exec(self, name: &mut Name) { name.references += self.0 }
/// }
/// percolog::log_cache!(Name, Change);
///
/// let names: Vec<_> = (0..1000).map(|_| Lent::<Name, Change>::boxed(Name { references: 1 })).collect();
/// names[7].as_ref().queue(Change(1));
/// assert_eq!(names[7].as_ref().synchronize().references, 2);
/// assert_eq!(size_of::<Lent<Name, Change>>(), size_of::<Name>() + 8);
/// ```
///
/// The cache knows an object by its address. So it has to stay where it is while it is used: methods take
/// [`Pin<&Self>`](Pin). [`boxed`](Self::boxed) is the simplest way there; `pin!` and `Pin::static_ref` are others.
///
/// **Order**, **re-entrance** and **poisoning** are those of [`Logged`](super::Logged): linearizable.
///
/// # Eager and deferring
///
/// An object that nobody fights over is its structure and a lock: updates are executed at once, and nothing of the cache is touched or allocated. One
/// of sixteen updates that had to wait for the lock makes its object *deferring*, drawn by lot (eight bytes have no room for a count): its updates are
/// logged, in logs that the cache lends it. One of four merges that find fewer than eight updates, or those of one slot only, makes it eager again. What is shown
/// is the same, and all that is said of [`Logged`](super::Logged) and its [`Mode`](super::Mode) holds here: an operation can run inside its caller's
/// `queue`, unless its [`AT_ONCE`](Operation::AT_ONCE) says otherwise; and [`LoggedBuilder::mode`] fixes the mode of all objects of a cache. There are
/// no phases of reading, and no trials: where most operations read, or whether deferring pays is close, a `Logged` finds out, and this does not.
///
/// # Progress and cost
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`queue`](Self::queue) of an eager object | blocking: waits 200 µs for whoever has the object, then logs | the object's |
/// | [`queue`](Self::queue), the slot has updated the object since the last read | blocking for a few instructions, as [`Logged::queue`](super::Logged::queue) | none |
/// | [`queue`](Self::queue), the slot's first since a read | as above; waits while a merge of this object visits the slots | three: the object's, the one in which place and log are, and the log's memory |
/// | [`queue`](Self::queue), the place is taken by another object | that object is merged if nobody has it; else its log is set aside and grows no more: never waits for it | a merge |
/// | [`queue`](Self::queue) at the limit | what the [`Policy`](super::Policy) says | a merge |
/// | [`extend`](Self::extend) | as `queue` | none; one lock and stamp for up to 16 operations |
/// | [`synchronize`](Self::synchronize), [`with`](Self::with) | blocking | the object's; for each slot that has a log its place and its operations |
/// | [`drain`](Self::drain) | blocking for a few instructions a slot; gives up if somebody has the object | as `synchronize`, within its budget |
/// | [`read`](Self::read) of an object with no log | blocking while somebody writes | the object's |
///
/// Which slots have a log of the object is kept in 27 bits: one for each remainder of a slot's number by 13, one for each by 14. One slot is
/// found exactly, on machines of up to 182; and so is any number of slots on machines of up to 13. Else a merge also looks at the places of some
/// slots that have no log of the object.
///
/// A log is made with [room](LogCacheBuilder::room) for 8 operations, and asks the allocator for more as it grows towards the limit. What it
/// has grown to it keeps, but not its object: merging exchanges the memories of logs, whosever they are. So it is with more room, not with time, that
/// an object under heavy updates stays away from the allocator. The first update after a read writes to one line that all slots write to: the set
/// is a word of the object's, where a [`Logged`](super::Logged) has a mark in a line for each chip.
///
/// An operation of one object can be executed by a thread that queues to *another* one, also if it may not be executed at once. It must not want
/// a lock that such a thread may have.
///
/// # Limitations
///
/// **An operation must not drop the last handle of its own object.** That can happen only where it is executed by a thread that updates
/// another object, and has no handle of this one. The object cannot go away while the operation is executed on it, nor the operation
/// end before the handle is dropped: the process says so and is aborted. (Without the `std` feature nobody notices, and the thread
/// waits for ever.) It may own a handle that is not the last one, or the last one of another object.
///
/// A read guard that was forgotten is taken for one of another object if that has come to lie in the same place *and* others read it just then:
/// this thread is told [`Held`](super::SynchronizeError::Held).
///
/// Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, §5.2.3, chapter 7.
pub struct Lent<S: Send + 'static, O: Cached<S, E>, E: Environment + 'static = Native> {
    object: engine::Lent<S>,
    kind: PhantomData<fn(O, E)>,
}

impl<S: Send + 'static, O: Cached<S, E>, E: Environment> Lent<S, O, E> {
    const_fn! {
        /// Wraps a structure. Allocates nothing. To be pinned before it is used.
        #[must_use]
        pub const fn new(state: S) -> Self {
            Self { object: engine::Lent::new(state), kind: PhantomData }
        }
    }

    /// Wraps a structure in a box of its own.
    #[must_use]
    pub fn boxed(state: S) -> Pin<Box<Self>> {
        Box::pin(Self::new(state))
    }

    fn cache() -> &'static Cache<S, Log<O>, E> {
        &O::cache().cache
    }

    /// Queues an update: it is in what every [`synchronize`](Self::synchronize) called after this has returned shows.
    ///
    /// See the type for progress and cost.
    ///
    /// # Panics
    /// Only where the operation can go nowhere; as [`Logged::queue`](super::Logged::queue).
    #[inline]
    #[track_caller]
    pub fn queue(self: Pin<&Self>, operation: O) {
        if let Err(full) = Self::cache().queue(&self.get_ref().object, operation, origin()) {
            refused(full.reason);
        }
    }

    /// Queues an update unless that would mean to merge or to wait.
    ///
    /// # Errors
    /// Hands the operation back if the slot's log is at its limit, with nothing in it that the operation cancels or
    /// replaces; if it is in use by another thread, or being merged; or if the object has none on this slot, and all that the slot may make
    /// ([`logs`](LogCacheBuilder::logs)) are lent to others. An object that has the place keeps nobody away: its log is set aside.
    #[inline]
    #[track_caller]
    pub fn try_queue(self: Pin<&Self>, operation: O) -> Result<(), Full<O>> {
        Self::cache().try_queue(&self.get_ref().object, operation, origin())
    }

    /// Queues many updates, in order, with one lock and one stamp for up to 16 of them.
    ///
    /// Between two of them other threads' updates may take effect, and a merge may take some of them
    /// and leave the rest.
    ///
    /// ```
    /// use percolog::oplog::{Lent, Operation};
    ///
    /// struct Push(u32);
    /// impl Operation<Vec<u32>> for Push {
    ///     fn exec(self, all: &mut Vec<u32>) { all.push(self.0) }
    /// }
    /// percolog::log_cache!(Vec<u32>, Push);
    ///
    /// let numbers = Lent::boxed(Vec::new());
    /// numbers.as_ref().extend((0..3).map(Push));
    /// assert_eq!(*numbers.synchronize(), [0, 1, 2]);
    /// ```
    ///
    /// # Panics
    /// As [`queue`](Self::queue); the operations before the one that could not be queued are queued.
    #[track_caller]
    pub fn extend(self: Pin<&Self>, operations: impl IntoIterator<Item = O>) {
        let extended = Self::cache().extend(&self.get_ref().object, operations, origin());
        if let Err(full) = extended {
            refused(full.reason);
        }
    }

    /// Merges what is pending and gives the structure to this thread alone.
    ///
    /// # Panics
    /// If the object is poisoned, if this thread has a guard of it already, or if an operation panics
    /// (which poisons the object).
    #[track_caller]
    pub fn synchronize(&self) -> Synchronized<'_, S> {
        match Self::cache().synchronize(&self.object, Wait::For(Patience::Unlimited)) {
            Ok(guard) => guard,
            Err(error) => no_guard(&error.map_guard(drop), || {
                Self::cache().culprit(&self.object)
            }),
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
        Self::cache().synchronize(&self.object, Wait::No)
    }

    /// As [`synchronize`](Self::synchronize), waiting no longer than `timeout` for another thread's guard.
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
        Self::cache().synchronize(&self.object, until(timeout))
    }

    /// Merges what is pending and calls `f` with the structure: for when the answer is needed.
    ///
    /// # Panics
    /// As [`synchronize`](Self::synchronize), and where `f` does.
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        match Self::cache().with_at_once(&self.object, f) {
            Ok(result) => result,
            Err(f) => f(&mut self.synchronize()),
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
        match Self::cache().read(&self.object, Wait::For(Patience::Unlimited)) {
            Ok(guard) => guard,
            Err(error) => no_guard(&error.map_guard(drop), || {
                Self::cache().culprit(&self.object)
            }),
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
        Self::cache().read(&self.object, Wait::No)
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
        Self::cache().read(&self.object, until(timeout))
    }

    /// Executes up to `budget` pending operations, if nobody else has the object: for a maintenance thread that pays so that
    /// readers and updaters need not. Never waits for a guard, and passes on no panic (the object is poisoned then). What the budget
    /// leaves is kept by the cache, in order, for the next merge; the object has no log then.
    ///
    /// ```
    /// use percolog::oplog::{Lent, LogCacheBuilder, LoggedBuilder, Mode, Operation};
    ///
    /// struct Add(u64);
    /// impl Operation<u64> for Add {
    ///     fn exec(self, sum: &mut u64) { *sum += self.0 }
    /// }
    /// const LOGGED: LoggedBuilder = LoggedBuilder::new().mode(Mode::Deferring);
    /// percolog::log_cache!(u64, Add, LogCacheBuilder::new().objects(LOGGED));
    ///
    /// let sum = Lent::boxed(0);
    /// sum.as_ref().extend((0..10).map(Add));
    /// let drained = sum.drain(7);
    /// assert_eq!((drained.executed, drained.finished), (7, false));
    /// assert_eq!(sum.pending(), 3);
    /// assert!(sum.drain(7).finished);
    /// assert_eq!(sum.pending(), 0);
    /// ```
    ///
    /// With the `std` feature [`oplog::DrainThread`](crate::oplog::DrainThread) does this at an interval, for objects in an
    /// `Arc<Pin<Box<Lent<…>>>>`.
    pub fn drain(&self, budget: usize) -> Drained {
        Self::cache().drain(&self.object, budget)
    }

    /// How many operations are queued and not yet executed. Locks the object's place for a moment on each slot that has a log of the object.
    ///
    /// It is all that can be told of one object: eight bytes have no room for an account of what it has cost, so the cache
    /// [keeps one](LogCache::stats) of all its objects together.
    #[must_use]
    pub fn pending(&self) -> usize {
        Self::cache().pending(&self.object)
    }

    /// Merges what is pending, without a lock.
    ///
    /// # Panics
    /// If the object is poisoned, or an operation panics.
    pub fn state_mut(self: Pin<&mut Self>) -> &mut S {
        assert!(!self.object.is_poisoned(), "{POISONED}");
        // SAFETY: nothing is moved; the state itself is not pinned, a guard gives out `&mut S` as well.
        let this = unsafe { self.get_unchecked_mut() };
        Self::cache().finish(&mut this.object);
        this.object.get_mut()
    }

    /// Merges what is pending and unwraps the structure.
    ///
    /// # Panics
    /// If the object is poisoned, or an operation panics.
    pub fn into_inner(mut self: Pin<Box<Self>>) -> S {
        self.as_mut().state_mut();
        // SAFETY: the object has no tag any more and nobody else has it, so that it need not stay any longer.
        let this = ManuallyDrop::new(*unsafe { Pin::into_inner_unchecked(self) });
        // SAFETY: read once; `this` is neither dropped nor used again.
        unsafe { ptr::read(&raw const this.object) }.into_inner()
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
}

#[cfg(feature = "std")]
impl<S: Send + 'static, O: Cached<S, E>, E: Environment> engine::Drain for Lent<S, O, E> {
    fn drain(&self, budget: usize) -> Drained {
        self.drain(budget)
    }
}

impl<S: Send + 'static, O: Cached<S, E>, E: Environment> Drop for Lent<S, O, E> {
    fn drop(&mut self) {
        Self::cache().destroy(&mut self.object);
    }
}

/// Shows the structure as merged so far; never merges and never waits.
impl<S: Send + fmt::Debug + 'static, O: Cached<S, E>, E: Environment> fmt::Debug for Lent<S, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Self::cache().peek(&self.object, |state| {
            f.debug_struct("Lent")
                .field("merged", state)
                .finish_non_exhaustive()
        });
        shown.unwrap_or_else(|| f.write_str("Lent { <in use>, .. }"))
    }
}
