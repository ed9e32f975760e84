//! A data race: two threads add to one plain number.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

struct Shared(UnsafeCell<u64>);

// SAFETY: none. This is the planted bug: nothing keeps the threads apart.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(0));

/// Waits until both threads have come here. Relaxed: nothing is ordered by it.
fn meet(came: &AtomicUsize) {
    came.fetch_add(1, Ordering::Relaxed);
    while came.load(Ordering::Relaxed) < 2 {
        thread::yield_now();
    }
}

/// The sanitizer may know nothing any more of a thread that has ended before the other begins: so both are there until both
/// have added.
fn add() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static DONE: AtomicUsize = AtomicUsize::new(0);
    meet(&BEGUN);
    for _ in 0..1000 {
        // SAFETY: none, as above.
        unsafe { *SHARED.0.get() += 1 };
    }
    meet(&DONE);
}

#[test]
fn race() {
    thread::scope(|scope| {
        scope.spawn(add);
        scope.spawn(add);
    });
}
