//! Which objects' guards this thread holds.
//!
//! A thread that waits for a lock it holds itself waits for ever, silently. With this record the
//! waiting never begins: the operation says what it would have done. It is looked at only where a
//! thread is about to wait, and written where a guard is made or dropped; an update never comes here
//! below its limit.
//!
//! Only threads of the operating system have a place for the record: without the `std` feature, and
//! under the model checker, nothing is recorded and re-entrance is not detected.

/// How this thread holds an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// A shared guard (or several).
    Shared,
    /// An exclusive guard, or the merge that an operation runs in.
    Exclusive,
}

#[cfg(all(feature = "std", not(percolog_loom)))]
mod record {
    use super::Hold;
    use core::cell::RefCell;
    use std::vec::Vec;

    std::thread_local! {
        static HELD: RefCell<Vec<(usize, Hold)>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn push(object: usize, hold: Hold) {
        // A thread so far gone that its storage has been destroyed is not recorded.
        let _ = HELD.try_with(|held| held.borrow_mut().push((object, hold)));
    }

    pub(super) fn pop(object: usize, hold: Hold) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|entry| *entry == (object, hold)) {
                held.remove(at);
            }
        });
    }

    pub(super) fn find(object: usize) -> Option<Hold> {
        HELD.try_with(|held| {
            let held = held.borrow();
            held.iter()
                .rev()
                .find(|(held, _)| *held == object)
                .map(|(_, hold)| *hold)
        })
        .ok()
        .flatten()
    }
}

#[cfg(not(all(feature = "std", not(percolog_loom))))]
mod record {
    use super::Hold;
    pub(super) fn push(_object: usize, _hold: Hold) {}
    pub(super) fn pop(_object: usize, _hold: Hold) {}
    pub(super) fn find(_object: usize) -> Option<Hold> {
        None
    }
}

/// Records that this thread now holds the object at `object`.
pub(crate) fn push(object: usize, hold: Hold) {
    record::push(object, hold);
}

/// Removes what [`push`] recorded.
pub(crate) fn pop(object: usize, hold: Hold) {
    record::pop(object, hold);
}

/// How this thread holds the object at `object`, if it does.
pub(crate) fn find(object: usize) -> Option<Hold> {
    record::find(object)
}
