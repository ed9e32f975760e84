//! The generation of a name whose count is spread over the cores.
//!
//! While somebody adds the counts up, the generation is *odd*, and no lookup comes to an end. A lookup
//! takes its reference first and then looks whether the generation is still the one it has read, as in
//! section 4.2 of the thesis; a reader makes the generation odd first and then adds up. Whichever order
//! these four steps fall into, one of the two sees the other, which is why both need sequential
//! consistency:
//!
//! * The lookup sees the generation it has read, an even one. Then its reference was there before the sum began, and the sum
//!   has it.
//! * The lookup sees another one. Then the sum may have its reference or not. It waits until the reader is done and
//!   reads the generation anew. The thesis' lookup gives its reference back and takes another one, as the name
//!   may lead elsewhere by then; here it leads to the same object, so the two would cancel, and the reference
//!   stays. (Given back, it would be seen by one read and missed by the next, although nobody had left.)
//!
//! So during a sum references only go, each is counted or not, and all that were held when it began and are
//! held when it ends are counted: the sum was the number of references at some moment in between.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A generation that stands still while references are taken.
#[derive(Debug, Default)]
pub(super) struct Generation {
    /// Odd while somebody adds up.
    number: AtomicU64,
    adding_up: Mutex<()>,
}

/// What becomes of the generation when the references have been added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Void,
    Unchanged,
}

impl Generation {
    /// Takes a reference that is of the generation that is there when it has been taken. `take` must end with
    /// a fence or an update that is sequentially consistent.
    pub(super) fn enter(&self, take: impl FnOnce()) {
        // Relaxed: what is read here is checked below.
        let mut looked_up = self.number.load(Ordering::Relaxed);
        take();
        loop {
            // SeqCst: after `take`, in the one order of all such operations; its partner is the first store in
            // `add_up`.
            let now = self.number.load(Ordering::SeqCst);
            if now == looked_up && now.is_multiple_of(2) {
                return;
            }
            // Returns when nobody adds up. The name is then looked up again.
            drop(
                self.adding_up
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
            looked_up = self.number.load(Ordering::Relaxed);
        }
    }

    /// Adds the references up with `sum`, which must begin with a fence or loads that are sequentially consistent.
    pub(super) fn add_up(&self, then: Then, sum: impl FnOnce() -> u64) -> u64 {
        let _alone = self
            .adding_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Relaxed: it is written under the lock only.
        let before = self.number.load(Ordering::Relaxed);
        // SeqCst: before `sum`, in the one order of all such operations; its partner is the load in `enter`.
        self.number.store(before + 1, Ordering::SeqCst);
        let references = sum();
        let after = match then {
            Then::Void => before + 2,
            Then::Unchanged => before,
        };
        // Release: what was summed was read before anybody can see this; the partner is the load in `enter`.
        self.number.store(after, Ordering::Release);
        references
    }
}

/// What a structure does with a reference that is taken while somebody adds up: it must not come back before
/// that is done. `enter` is called on another thread. Not a matter of time: a lookup that does not wait has
/// all the time of the world to come back.
#[cfg(test)]
pub(super) fn check_that_lookups_wait(generation: &Generation, enter: impl FnOnce() + Send) {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    let begun = AtomicBool::new(false);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        generation.add_up(Then::Void, || {
            let (begun, done) = (&begun, &done);
            scope.spawn(move || {
                begun.store(true, Ordering::SeqCst);
                enter();
                done.store(true, Ordering::SeqCst);
            });
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            for _ in 0..10_000 {
                thread::yield_now();
                assert!(!done.load(Ordering::SeqCst), "a lookup did not wait");
            }
            0
        });
    });
    assert!(done.load(Ordering::SeqCst));
}
