//! The counter with a place for each thread.

use super::control::{Control, Word};
use super::places::Places;
use super::sealed::Count;
use crate::cpu::barrier;
use crate::cpu::lease;
use core::fmt;

/// A per-thread counter of requests under way, which can block or refuse new ones.
///
/// What it does, and an example, is at [`Requests`](super::Requests).
///
/// # Cost
///
/// *Time:* to enter is a load and a store of the thread's own line and a load of the counter's, which nobody writes but who stops
/// requests; to leave is a load and a store of the own line. Nothing moves between threads, and there is no atomic update, and no fence
/// where the kernel has `membarrier`. A thread's first request allocates. A thread without a lease makes an atomic update each time.
///
/// To stop requests is a heavy barrier (some 10 µs if others are running), and two loads of each thread's line, again and again
/// until all have left.
///
/// *Memory:* 80 bytes; a table of 512 with the first request (of 4 KiB with that of a thread without a lease), and for each thread that ever lived at once with others a
/// [line](crate::cpu::LINE_SIZE) of its own.
///
/// # Signals and `fork`
///
/// A signal handler must not enter or leave: a request of the thread that it interrupts could be lost. In a forked child the requests
/// of the parent's other threads are inside for ever: give it a counter of its own.
pub struct RequestCounter {
    control: Control,
    places: Places,
}

impl RequestCounter {
    /// Creates a counter that is open, with nobody inside. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            control: Control::new(),
            places: Places::new(),
        }
    }
}

impl Count for RequestCounter {
    #[inline(always)]
    fn count_in(&self) -> Result<(), Word> {
        match lease::mine() {
            // SAFETY: a thread keeps its lease until the destructors of its thread-local values run, which none does in here.
            Some(lease) => unsafe { self.places.enter_leased(lease, &self.control) },
            None => self.places.enter_common(lease::common(), &self.control),
        }
    }

    #[inline(always)]
    unsafe fn count_out(&self) {
        match lease::mine() {
            // SAFETY: as above.
            Some(lease) => unsafe { self.places.leave_leased(lease) },
            None => self.places.leave_common(lease::common()),
        }
    }

    fn pass_barrier(&self) -> bool {
        barrier::heavy(barrier::mode())
    }

    fn inside(&self) -> u64 {
        self.places.inside()
    }

    fn control(&self) -> &Control {
        &self.control
    }
}

impl Default for RequestCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RequestCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestCounter")
            .field("state", &self.control.state())
            .finish_non_exhaustive()
    }
}
