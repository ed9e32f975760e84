//! Updates as closures, stored in the queue itself.

use super::logged::{Logged, LoggedBuilder};
use super::operation::Operation;
use crate::engine::{Drained, Full, LogStats, MemoryUsage, ReadGuard, Synchronized};
use crate::sync::const_fn;
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr;

/// A [`Logged`] whose updates are closures of up to `N` bytes.
///
/// ```
/// use percolog::oplog::LoggedFn;
/// use std::collections::VecDeque;
///
/// static RECENT: LoggedFn<VecDeque<u32>> = LoggedFn::new(VecDeque::new());
///
/// for request in 0..10 {
///     RECENT.update(move |recent| {
///         recent.push_front(request);
///         recent.truncate(3);
///     });
/// }
/// assert_eq!(*RECENT.synchronize(), [9, 8, 7]);
/// ```
///
/// A closure that is too large for the queue's entries is an error when compiling; use
/// [`update_boxed`](Self::update_boxed) or a larger `N`. There is no absorption: the queue cannot look
/// into a closure.
///
/// *Cost:* as [`Logged::queue`], with entries of `N` + 32 bytes; no allocation.
pub struct LoggedFn<S: 'static, const N: usize = 48> {
    logged: Logged<S, Stored<S, N>>,
}

type Boxed<S> = Box<dyn FnOnce(&mut S) + Send>;

/// A closure in a place of `N` bytes.
struct Stored<S: 'static, const N: usize> {
    place: Place<N>,
    run: unsafe fn(*mut u8, &mut S),
    drop: unsafe fn(*mut u8),
    /// As if it were the closure, of which all that is known is that it may be sent.
    owns: PhantomData<Boxed<S>>,
}

#[repr(C, align(16))]
union Place<const N: usize> {
    bytes: MaybeUninit<[u8; N]>,
    /// There is always room for a [`Boxed`] one.
    boxed: MaybeUninit<[usize; 2]>,
}

impl<const N: usize> Place<N> {
    /// Where the closure is. The pointer is to the whole place.
    fn start(&mut self) -> *mut u8 {
        core::ptr::from_mut(self).cast()
    }
}

impl<S: 'static, const N: usize> Stored<S, N> {
    #[inline]
    fn new<F: FnOnce(&mut S) + Send + 'static>(f: F) -> Self {
        const {
            assert!(
                size_of::<F>() <= N,
                "the closure is too large to be stored in the queue: use `update_boxed` or a larger N"
            );
            assert!(
                align_of::<F>() <= align_of::<Place<N>>(),
                "the closure needs a larger alignment than 16: use `update_boxed`"
            );
        };
        Self::store(f)
    }

    #[inline]
    fn store<F: FnOnce(&mut S) + Send + 'static>(f: F) -> Self {
        const {
            assert!(size_of::<F>() <= size_of::<Place<N>>());
            assert!(align_of::<F>() <= align_of::<Place<N>>());
        };
        let mut place = Place {
            bytes: MaybeUninit::uninit(),
        };
        // SAFETY: the place is large enough and aligned for an `F`, as asserted.
        unsafe { place.start().cast::<F>().write(f) };
        Self {
            place,
            run: run::<S, F>,
            drop: drop_in_place::<F>,
            owns: PhantomData,
        }
    }
}

/// # Safety
/// `place` holds an `F`, which is gone afterwards.
unsafe fn run<S, F: FnOnce(&mut S)>(place: *mut u8, state: &mut S) {
    // SAFETY: by contract.
    let f = unsafe { place.cast::<F>().read() };
    f(state);
}

/// # Safety
/// `place` holds an `F`, which is gone afterwards.
unsafe fn drop_in_place<F>(place: *mut u8) {
    // SAFETY: by contract.
    unsafe { ptr::drop_in_place(place.cast::<F>()) };
}

// SAFETY: a `Stored` is a place with a closure in it that was `Send` when it was put there, and two
// function pointers.
unsafe impl<S: 'static, const N: usize> Send for Stored<S, N> {}

impl<S: 'static, const N: usize> Operation<S> for Stored<S, N> {
    #[inline]
    fn exec(self, state: &mut S) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the place holds the closure `run` was made for; as `this` is not dropped, it is
        // taken out once.
        unsafe { (this.run)(this.place.start(), state) }
    }
}

impl<S: 'static, const N: usize> Drop for Stored<S, N> {
    fn drop(&mut self) {
        // SAFETY: the place holds the closure `drop` was made for: `exec` does not come here.
        unsafe { (self.drop)(self.place.start()) }
    }
}

impl<S: 'static, const N: usize> LoggedFn<S, N> {
    const_fn! {
        /// Wraps a structure. Allocates nothing; usable in statics.
        #[must_use]
        pub const fn new(state: S) -> Self {
            Self::build(LoggedBuilder::new(), state)
        }
    }

    const_fn! {
        /// Wraps a structure, with limits and policies other than the usual ones.
        pub const fn build(builder: LoggedBuilder, state: S) -> Self {
            Self { logged: builder.build(state) }
        }
    }

    /// Queues an update. See [`Logged::queue`] for order, progress and cost.
    ///
    /// ```compile_fail,E0080
    /// let log = percolog::oplog::LoggedFn::<u8, 16>::new(0);
    /// let large = [0u8; 17];
    /// log.update(move |n| *n = large[0]);
    /// ```
    ///
    /// # Panics
    /// As [`Logged::queue`].
    #[inline]
    #[track_caller]
    pub fn update<F: FnOnce(&mut S) + Send + 'static>(&self, f: F) {
        self.logged.queue(Stored::new(f));
    }

    /// Queues an update that may be of any size, whatever `N` is: one allocation.
    ///
    /// # Panics
    /// As [`Logged::queue`].
    #[track_caller]
    pub fn update_boxed(&self, f: impl FnOnce(&mut S) + Send + 'static) {
        let boxed: Boxed<S> = Box::new(f);
        self.logged.queue(Stored::store(boxed));
    }

    /// Queues an update unless that would mean to merge or to wait.
    ///
    /// # Errors
    /// Hands the closure back, boxed, if the slot's queue is at its limit or in use.
    #[track_caller]
    pub fn try_update<F: FnOnce(&mut S) + Send + 'static>(&self, f: F) -> Result<(), Full<F>> {
        self.logged.try_queue(Stored::new(f)).map_err(|full| {
            let mut stored = ManuallyDrop::new(full.operation);
            Full {
                // SAFETY: the place holds the `F` put there above; as `stored` is not dropped, it is
                // taken out once.
                operation: unsafe { stored.place.start().cast::<F>().read() },
                reason: full.reason,
            }
        })
    }

    /// See [`Logged::synchronize`].
    ///
    /// # Panics
    /// As [`Logged::synchronize`].
    #[track_caller]
    pub fn synchronize(&self) -> Synchronized<'_, S> {
        self.logged.synchronize()
    }

    /// See [`Logged::with`].
    ///
    /// # Panics
    /// As [`Logged::with`].
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        self.logged.with(f)
    }

    /// See [`Logged::read`].
    ///
    /// # Panics
    /// As [`Logged::read`].
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, S>
    where
        S: Sync,
    {
        self.logged.read()
    }

    /// See [`Logged::drain`].
    pub fn drain(&self, budget: usize) -> Drained {
        self.logged.drain(budget)
    }

    /// See [`Logged::get_mut`].
    ///
    /// # Panics
    /// As [`Logged::get_mut`].
    pub fn get_mut(&mut self) -> &mut S {
        self.logged.get_mut()
    }

    /// See [`Logged::into_inner`].
    ///
    /// # Panics
    /// As [`Logged::into_inner`].
    pub fn into_inner(self) -> S {
        self.logged.into_inner()
    }

    /// See [`Logged::is_poisoned`].
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.logged.is_poisoned()
    }

    /// See [`Logged::clear_poison`].
    pub fn clear_poison(&self) {
        self.logged.clear_poison();
    }

    /// See [`Logged::memory_usage`]. What closures own, and those of any size that are boxed, are not in it.
    ///
    /// # Panics
    /// As [`Logged::memory_usage`].
    #[track_caller]
    #[must_use]
    pub fn memory_usage(&self) -> MemoryUsage {
        self.logged.memory_usage()
    }

    /// See [`Logged::stats`].
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.logged.stats()
    }
}

#[cfg(feature = "std")]
impl<S: 'static, const N: usize> crate::engine::Drain for LoggedFn<S, N> {
    fn drain(&self, budget: usize) -> Drained {
        self.drain(budget)
    }
}

impl<S: Default + 'static, const N: usize> Default for LoggedFn<S, N> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S: 'static, const N: usize> From<S> for LoggedFn<S, N> {
    fn from(state: S) -> Self {
        Self::new(state)
    }
}

/// Shows the structure as merged so far; never merges and never waits.
impl<S: fmt::Debug + 'static, const N: usize> fmt::Debug for LoggedFn<S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.logged.fmt(f)
    }
}
