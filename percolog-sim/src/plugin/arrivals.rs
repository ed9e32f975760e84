//! Threads that say themselves that they are there.
//!
//! QEMU 7.2 tells the plugin of a new thread while its parent makes it. Since QEMU 9.0 the new thread does, on the way to
//! its first instruction. The parent, which has the turn, then waits for that where its system call is over, so that the
//! thread begins at the same place in simulated time.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::plugin::{baton, fatal, processes};

/// A thread's number plus one; 0 if none has arrived that its parent does not know of.
static ARRIVED: AtomicUsize = AtomicUsize::new(0);

/// The calling thread, which QEMU calls so, has arrived.
pub(crate) fn announce(vcpu: c_uint) {
    let thread = processes::number(vcpu);
    // Two parents make threads at a time only while all are let go.
    // Release: whoever finds the number finds the thread's seat.
    while ARRIVED
        .compare_exchange(0, thread + 1, Ordering::Release, Ordering::Relaxed)
        .is_err()
    {
        if baton::is_ending() {
            return;
        }
        std::thread::yield_now();
    }
}

/// Waits for a thread that is on its way; nothing if the process ends meanwhile.
pub(crate) fn next() -> Option<usize> {
    const PATIENCE: Duration = Duration::from_secs(60);
    const PAUSE: Duration = Duration::from_micros(50);
    let end = Instant::now() + PATIENCE;
    loop {
        // Acquire: pairs with `announce`.
        match ARRIVED.swap(0, Ordering::Acquire) {
            0 if baton::is_ending() => return None,
            0 if Instant::now() > end => {
                fatal("this QEMU does not say when a thread begins: see the README's versions")
            }
            0 => std::thread::sleep(PAUSE),
            thread => return Some(thread - 1),
        }
    }
}

/// In a forked child: who was on the way there is not here.
pub(crate) fn forget() {
    // Relaxed: there is no other thread.
    ARRIVED.store(0, Ordering::Relaxed);
}
