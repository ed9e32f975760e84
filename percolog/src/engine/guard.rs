//! Guards: the synchronized state, exclusively or shared.

use super::gate::{Door, Gate};
use crate::sync::ReaderMark;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// An exclusive guard of the state, with every finished update in it.
///
/// While it lives, updates go on being queued; they are not in it. Reads and writes through it take
/// effect at the instant the guard was given out. Dropping it while the thread panics poisons the
/// object, as with `std::sync::Mutex`.
#[must_use = "the object is free again as soon as the guard is dropped"]
pub struct Synchronized<'a, S> {
    door: Door<'a>,
    state: NonNull<S>,
    /// Owns the state for as long as the guard lives (invariant in `S`), and stays on its thread:
    /// which objects a thread holds is recorded with the thread.
    marker: PhantomData<(&'a mut S, *mut ())>,
}

/// A shared guard of the state, with every finished update in it.
#[must_use = "the object is free again as soon as the guard is dropped"]
pub struct ReadGuard<'a, S> {
    door: Door<'a>,
    /// Where it is marked that this reader is inside, if the object was biased to readers.
    mark: Option<&'a ReaderMark>,
    state: NonNull<S>,
    marker: PhantomData<(&'a S, *mut ())>,
}

// SAFETY: sharing the guard gives out `&S` only, so `S: Sync` suffices; the door is only used by the
// guard's owner, in `drop`.
unsafe impl<S: Sync> Sync for Synchronized<'_, S> {}
// SAFETY: as above.
unsafe impl<S: Sync> Sync for ReadGuard<'_, S> {}

impl<'a, S> Synchronized<'a, S> {
    /// # Safety
    /// The calling thread has gone through `door` for exclusive use of the object whose state this
    /// is, and hands that use over to the guard.
    #[inline(always)]
    pub(super) unsafe fn new(door: Door<'a>, state: NonNull<S>) -> Self {
        Self {
            door,
            state,
            marker: PhantomData,
        }
    }

    /// Whether this is a guard of the object behind that gate.
    pub(super) fn is_of(&self, gate: &Gate) -> bool {
        self.door.is_of(gate)
    }

    /// Lets other readers in, with no update in between. *Progress:* wait-free.
    pub fn downgrade(this: Self) -> ReadGuard<'a, S>
    where
        S: Sync,
    {
        let this = ManuallyDrop::new(this);
        // `Door` is `Copy`; the guard it came from is not dropped.
        let door = this.door;
        door.poison_if_panicking();
        door.share();
        ReadGuard {
            door,
            mark: None,
            state: this.state,
            marker: PhantomData,
        }
    }
}

impl<'a, S> ReadGuard<'a, S> {
    /// # Safety
    /// The calling thread has gone through `door` for shared use of the object whose state this is, with that mark if any,
    /// and hands that use over to the guard.
    #[inline(always)]
    pub(super) unsafe fn new(
        door: Door<'a>,
        mark: Option<&'a ReaderMark>,
        state: NonNull<S>,
    ) -> Self {
        Self {
            door,
            mark,
            state,
            marker: PhantomData,
        }
    }
}

impl<S> Deref for Synchronized<'_, S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        // SAFETY: exclusive use of the state is ours until the guard is dropped.
        unsafe { self.state.as_ref() }
    }
}

impl<S> DerefMut for Synchronized<'_, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: exclusive use of the state is ours until the guard is dropped.
        unsafe { self.state.as_mut() }
    }
}

impl<S> Deref for ReadGuard<'_, S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        // SAFETY: shared use of the state is ours until the guard is dropped.
        unsafe { self.state.as_ref() }
    }
}

impl<S> Drop for Synchronized<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.door.poison_if_panicking();
        self.door.leave_exclusive();
    }
}

impl<S> Drop for ReadGuard<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.door.leave_shared(self.mark);
    }
}

impl<S: fmt::Debug> fmt::Debug for Synchronized<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<S: fmt::Debug> fmt::Debug for ReadGuard<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<S: fmt::Display> fmt::Display for Synchronized<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<S: fmt::Display> fmt::Display for ReadGuard<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// An error of asking for a guard.
#[non_exhaustive]
pub enum SynchronizeError<G> {
    /// Somebody else has the object, and still had it when patience ran out. Nothing was merged.
    Busy,
    /// This thread has a guard of the object already, or runs one of its operations: waiting would be
    /// waiting for itself.
    Held,
    /// An operation panicked, or a thread did that had an exclusive guard. Here is a guard
    /// nevertheless. The state is as the panic left it; operations queued behind the one that panicked
    /// may not be in it, and are executed after the object's poison has been cleared.
    Poisoned(G),
}

impl<G> SynchronizeError<G> {
    /// The guard of a poisoned object, for who wants to repair it.
    pub fn into_guard(self) -> Option<G> {
        match self {
            Self::Poisoned(guard) => Some(guard),
            Self::Busy | Self::Held => None,
        }
    }
}

impl<G> SynchronizeError<G> {
    /// The same error with another guard in it.
    pub(crate) fn map_guard<H>(self, f: impl FnOnce(G) -> H) -> SynchronizeError<H> {
        match self {
            Self::Busy => SynchronizeError::Busy,
            Self::Held => SynchronizeError::Held,
            Self::Poisoned(guard) => SynchronizeError::Poisoned(f(guard)),
        }
    }
}

impl<G> fmt::Debug for SynchronizeError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "Busy",
            Self::Held => "Held",
            Self::Poisoned(_) => "Poisoned(..)",
        })
    }
}

impl<G> fmt::Display for SynchronizeError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "another thread has the object",
            Self::Held => "this thread has the object already",
            Self::Poisoned(_) => "an operation or the holder of a guard panicked",
        })
    }
}

impl<G> core::error::Error for SynchronizeError<G> {}
