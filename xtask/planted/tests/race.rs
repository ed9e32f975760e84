//! A data race: two threads add to one plain number.

use std::cell::UnsafeCell;
use std::thread;

struct Shared(UnsafeCell<u64>);

// SAFETY: none. This is the planted bug: nothing keeps the threads apart.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(0));

fn add() {
    for _ in 0..1000 {
        // SAFETY: none, as above.
        unsafe { *SHARED.0.get() += 1 };
    }
}

#[test]
fn race() {
    thread::scope(|scope| {
        scope.spawn(add);
        scope.spawn(add);
    });
}
