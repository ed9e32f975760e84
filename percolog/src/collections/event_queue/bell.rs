//! Waking a sleeping consumer, at no cost to producers while none sleeps.
//!
//! A producer has made its event visible, and then looks whether somebody sleeps. A consumer says that it is about to sleep, and
//! then looks once more whether there is something. Each stores and then loads what the other one stores: between the two each needs a
//! full barrier, or each can miss the other, and the consumer sleeps beside an event. Producers come all the time and consumers
//! fall asleep rarely, so the barriers are of unequal cost (see [`barrier`]): none for the producer, a system call for who
//! is about to sleep anyway. While nobody sleeps producers only read the word, and its line stays in all their caches.

use crate::cpu::barrier;
use crate::sync::atomic::Ordering;
use crate::sync::{Backoff, ParkingWord, const_fn};
use std::time::Instant;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// A word that one consumer sleeps on.
#[derive(Debug)]
pub(crate) struct Bell {
    word: ParkingWord,
}

impl Bell {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self { word: ParkingWord::new(AWAKE) }
        }
    }

    /// Wakes whoever sleeps. What the caller has stored before is seen by who goes to sleep after this.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        // Pairs with the heavy barrier in `sleep`: either the load below sees `ASLEEP`, or the look in `sleep` sees what
        // the caller has stored.
        barrier::light(barrier::mode());
        // Relaxed: ordered by the barrier.
        if self.word.load(Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Relaxed: the word carries nothing; who wakes looks for itself. One of several producers makes the system call.
        if self.word.swap(AWAKE, Ordering::Relaxed) == ASLEEP {
            self.word.unpark_all();
        }
    }

    /// Sleeps until the bell rings or the deadline passes, unless `look` finds something. May return early.
    ///
    /// Returns `false` when the deadline has passed.
    pub(crate) fn sleep(&self, deadline: Option<Instant>, look: impl FnOnce() -> bool) -> bool {
        let mut backoff = Backoff::new();
        // Relaxed: ordered by the barrier.
        self.word.store(ASLEEP, Ordering::Relaxed);
        // Pairs with the light barrier in `ring`.
        let passed = barrier::heavy(barrier::mode());
        // If `look` panics, the word stays: then the next producer wakes nobody, once.
        let in_time = if look() {
            true
        } else if passed {
            self.word.park(ASLEEP, deadline, &mut backoff)
        } else {
            // The kernel has refused the barrier, so producers may miss that somebody sleeps: no more than a moment.
            while !backoff.is_spent() {
                backoff.wait();
            }
            backoff.wait();
            deadline.is_none_or(|deadline| Instant::now() < deadline)
        };
        // Relaxed: a producer that still reads `ASLEEP` wakes nobody, which is no harm.
        self.word.store(AWAKE, Ordering::Relaxed);
        in_time
    }
}
