//! The lock of an object's merged state: exclusive or shared, with deadline and downgrade.

use super::atomic::Ordering;
use super::const_fn;
use super::wait::{Backoff, ParkingWord};

/// Readers-writer lock on one word.
///
/// A waiting thread sets [`PARKED`]; while it is set, new readers queue up behind the waiter, so a
/// stream of readers cannot starve a merge. Whoever frees the lock with `PARKED` set clears it and
/// wakes everyone; who then finds the lock taken sets it again.
///
/// | bits | meaning |
/// |---|---|
/// | 31 | held exclusively |
/// | 30 | somebody is, or was, parked |
/// | 0–29 | number of shared holders |
#[derive(Debug)]
pub(crate) struct ObjectLock {
    word: ParkingWord,
}

const EXCLUSIVE: u32 = 1 << 31;
const PARKED: u32 = 1 << 30;
const SHARED: u32 = PARKED - 1;

/// Whether a lock in this state cannot be taken exclusively.
const fn keeps_out_writers(word: u32) -> bool {
    word & !PARKED != 0
}

/// Whether a lock in this state cannot be taken for sharing: a writer has it, or waits behind readers
/// who have it (or there are as many of those as can be counted).
const fn keeps_out_readers(word: u32) -> bool {
    let behind_waiter = word & PARKED != 0 && word & SHARED != 0;
    word & EXCLUSIVE != 0 || behind_waiter || word & SHARED == SHARED
}

/// How long a thread is willing to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// As long as it takes.
    Unlimited,
    /// Until this instant.
    #[cfg(feature = "std")]
    Until(std::time::Instant),
}

impl ObjectLock {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self { word: ParkingWord::new(0) }
        }
    }

    /// Takes the lock exclusively if nobody holds it. Lock-free.
    #[inline]
    pub(crate) fn try_exclusive(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while !keeps_out_writers(word) {
            // Acquire pairs with the Release of whoever freed the lock; the loads are only hints.
            match self.word.compare_exchange_weak(
                word,
                word | EXCLUSIVE,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the lock for sharing unless it is held exclusively or somebody waits for it. Lock-free.
    #[inline]
    pub(crate) fn try_shared(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while !keeps_out_readers(word) {
            // Acquire pairs with the Release of the last exclusive holder.
            match self.word.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the lock exclusively; `false` when patience ran out.
    pub(crate) fn exclusive(&self, patience: Patience) -> bool {
        self.wait_for(patience, keeps_out_writers, Self::try_exclusive)
    }

    /// Takes the lock for sharing; `false` when patience ran out.
    pub(crate) fn shared(&self, patience: Patience) -> bool {
        self.wait_for(patience, keeps_out_readers, Self::try_shared)
    }

    /// Gives up exclusive use.
    #[inline]
    pub(crate) fn release_exclusive(&self) {
        // Release pairs with the Acquire of the next holder.
        let before = self.word.swap(0, Ordering::Release);
        self.wake_after(before);
    }

    /// Turns exclusive use into shared use, with nobody in between.
    pub(crate) fn downgrade(&self) {
        // Release: the readers let in now must see what was written under exclusive use.
        let before = self.word.swap(1, Ordering::Release);
        self.wake_after(before);
    }

    /// Gives up one share.
    #[inline]
    pub(crate) fn release_shared(&self) {
        // Release pairs with the Acquire of the next exclusive holder, who must come after all that
        // this reader read.
        let before = self.word.fetch_sub(1, Ordering::Release);
        if before == (PARKED | 1) {
            // The last reader out clears the mark. If this fails, somebody took the lock meanwhile
            // and inherits the duty with the mark, which is still set; or somebody gave up waiting,
            // has cleared the mark and wakes everyone.
            // Relaxed: the exchange publishes nothing.
            if self
                .word
                .compare_exchange(PARKED, 0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                self.wake_after(PARKED);
            }
        }
    }

    #[inline]
    fn wake_after(&self, before: u32) {
        if before & PARKED != 0 {
            #[cfg(feature = "std")]
            self.word.unpark_all();
        }
    }

    /// Takes back the mark of a thread that gives up, or readers would queue up behind nobody. Others
    /// may sleep behind the same mark: they are woken, look, and set it again.
    #[cfg(feature = "std")]
    fn stop_waiting(&self) {
        // Relaxed: the mark publishes nothing.
        let before = self.word.fetch_and(!PARKED, Ordering::Relaxed);
        self.wake_after(before);
    }

    fn wait_for(
        &self,
        patience: Patience,
        keeps_out: impl Fn(u32) -> bool,
        take: impl Fn(&Self) -> bool,
    ) -> bool {
        let mut backoff = Backoff::new();
        loop {
            if take(self) {
                return true;
            }
            #[cfg(not(feature = "std"))]
            {
                let _ = (patience, &keeps_out);
                backoff.wait();
            }
            #[cfg(feature = "std")]
            {
                if !backoff.is_spent() {
                    backoff.wait();
                    continue;
                }
                let word = self.word.load(Ordering::Relaxed);
                // The lock has changed since it was tried: nobody may sleep, or make others queue up
                // behind a sleeper, who could go in.
                if !keeps_out(word) {
                    continue;
                }
                // Relaxed: only the kernel's comparison of the word with `word | PARKED` matters.
                if word & PARKED == 0
                    && self
                        .word
                        .compare_exchange(word, word | PARKED, Ordering::Relaxed, Ordering::Relaxed)
                        .is_err()
                {
                    continue;
                }
                let deadline = match patience {
                    Patience::Unlimited => None,
                    Patience::Until(deadline) => Some(deadline),
                };
                if !self.word.park(word | PARKED, deadline, &mut backoff) {
                    // One last look: the lock may have been freed at the deadline.
                    let taken = take(self);
                    if !taken {
                        self.stop_waiting();
                    }
                    return taken;
                }
            }
        }
    }
}
