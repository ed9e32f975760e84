//! A gate that one thread opens once and one thread waits at.
//!
//! Most gates are open long before anybody comes; then passing costs one load. Otherwise the waiting
//! thread looks a few times, then lets others run, then sleeps until it is woken.

use std::hint;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};

const CLOSED: u8 = 0;
const AWAITED: u8 = 1;
const OPEN: u8 = 2;

const LOOKS: u32 = 100;
const YIELDS: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Gate {
    state: AtomicU8,
}

impl Gate {
    /// Opens the gate and wakes the thread that waits at it. Everything that this thread did before is
    /// seen by the one that passes.
    pub(super) fn open(&self, waiter: impl FnOnce() -> Option<Thread>) {
        // Release: pairs with the acquire loads in `pass`, and makes what came before visible there.
        // Acquire is not needed: the waiter's mark carries no data.
        if self.state.swap(OPEN, Ordering::Release) == AWAITED
            && let Some(waiter) = waiter()
        {
            waiter.unpark();
        }
    }

    /// Waits until the gate is open. Only one thread may, the one that `open` wakes.
    pub(super) fn pass(&self) {
        // Acquire, here and below: pairs with the release in `open`.
        for _ in 0..LOOKS {
            if self.state.load(Ordering::Acquire) == OPEN {
                return;
            }
            hint::spin_loop();
        }
        for _ in 0..YIELDS {
            thread::yield_now();
            if self.state.load(Ordering::Acquire) == OPEN {
                return;
            }
        }
        // Relaxed on success: the mark carries no data. On failure the gate is open: acquire, as above.
        if self
            .state
            .compare_exchange(CLOSED, AWAITED, Ordering::Relaxed, Ordering::Acquire)
            .is_err()
        {
            return;
        }
        // `open` sees the mark and unparks; a park that was woken by something else looks again.
        while self.state.load(Ordering::Acquire) != OPEN {
            thread::park();
        }
    }
}
