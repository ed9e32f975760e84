//! The counter that is one word for all threads.

use super::control::{Control, Word};
use super::sealed::Count;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::const_fn;
use core::fmt;

/// A one-word counter of requests under way, which can block or refuse new ones: for many objects, or few threads.
///
/// What it does, and an example, is at [`Requests`](super::Requests).
///
/// # Cost
///
/// *Time:* to enter and to leave is an atomic update each, of a line that all threads write: two transfers if another thread did so
/// since. To stop requests is two atomic updates, again and again until all have left. *Memory:* 16 bytes.
///
/// # Signals and `fork`
///
/// Signal handlers may enter and leave. In a forked child the requests of the parent's other threads are inside for ever.
pub struct SharedRequestCounter {
    count: AtomicU64,
    control: Control,
}

impl SharedRequestCounter {
    const_fn! {
        /// Creates a counter that is open, with nobody inside.
        #[must_use]
        pub const fn new() -> Self {
            Self { count: AtomicU64::new(0), control: Control::new() }
        }
    }
}

/// Who enters updates the count and loads the state; who stops requests changes the state and updates the count, though by nothing. The
/// updates of one word have an order. If that of who enters comes first, the other one finds it; if it comes second, it
/// acquires what the other one has released, and that is the change of the state.
impl Count for SharedRequestCounter {
    #[inline(always)]
    fn count_in(&self) -> Result<(), Word> {
        // Acquire and Release: see above, with `inside`.
        self.count.fetch_add(1, Ordering::AcqRel);
        let word = self.control.load();
        if word.is_open() {
            return Ok(());
        }
        // SAFETY: counted in above.
        unsafe { self.count_out() };
        Err(word)
    }

    #[inline(always)]
    unsafe fn count_out(&self) {
        // Release pairs with the Acquire in `inside`: who finds nobody sees what was done inside.
        self.count.fetch_sub(1, Ordering::Release);
    }

    fn pass_barrier(&self) -> bool {
        true
    }

    fn inside(&self) -> u64 {
        // Acquire and Release: see above, with `count_in`; Acquire pairs with `count_out`, too.
        self.count.fetch_add(0, Ordering::AcqRel)
    }

    fn control(&self) -> &Control {
        &self.control
    }
}

impl Default for SharedRequestCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SharedRequestCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRequestCounter")
            .field("state", &self.control.state())
            .finish_non_exhaustive()
    }
}
