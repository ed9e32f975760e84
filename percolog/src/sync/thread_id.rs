//! Numbers of threads, for locks that know who has them.

/// The number of a thread, never given to another one.
///
/// It is unknown without the `std` feature, under the model checker, and to threads beyond the first [`MOST`](Self::MOST): a lock then
/// cannot tell that it is taken by the thread that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadId(u32);

impl ThreadId {
    /// Of no thread in particular.
    pub(crate) const UNKNOWN: Self = Self(1);

    /// Not zero.
    #[inline(always)]
    pub(crate) const fn word(self) -> u32 {
        self.0
    }

    /// The largest of all numbers: there are bits left for locks.
    pub(crate) const MOST: u32 = (1 << 26) - 1;

    /// The calling thread's.
    #[cfg(not(all(feature = "std", not(percolog_loom))))]
    #[inline(always)]
    pub(crate) fn current() -> Self {
        Self::UNKNOWN
    }

    /// The calling thread's. It stays the same until the thread's end, late destructors included.
    #[cfg(all(feature = "std", not(percolog_loom)))]
    #[inline]
    pub(crate) fn current() -> Self {
        let mine = given::MINE.get();
        if mine == given::NONE {
            given::take()
        } else {
            Self(mine)
        }
    }
}

#[cfg(all(feature = "std", not(percolog_loom)))]
mod given {
    use super::ThreadId;
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, Ordering};

    /// The thread has not asked for its number.
    pub(super) const NONE: u32 = 0;

    /// How many numbers have been given out, [`ThreadId::UNKNOWN`] included.
    static GIVEN: AtomicU32 = AtomicU32::new(ThreadId::UNKNOWN.word());

    std::thread_local! {
        /// It has no destructor, and so can be used in a thread's last moments.
        pub(super) static MINE: Cell<u32> = const { Cell::new(NONE) };
    }

    #[cold]
    pub(super) fn take() -> ThreadId {
        // Relaxed: the numbers differ, which is all that is asked of them.
        let given = GIVEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |given| {
            (given < ThreadId::MOST).then_some(given + 1)
        });
        let mine = given.map_or(ThreadId::UNKNOWN.word(), |given| given + 1);
        MINE.set(mine);
        ThreadId(mine)
    }
}
