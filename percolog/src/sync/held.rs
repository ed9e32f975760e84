//! Which objects' guards this thread holds.
//!
//! A thread that waits for a lock it holds itself waits for ever, silently. With this record the
//! waiting never begins: the operation says what it would have done. It is looked at only where a
//! thread is about to wait, and written where a guard is made or dropped; an update never comes here
//! below its limit.
//!
//! Only threads of the operating system have a place for the record: without the `std` feature, and
//! under the model checker, nothing is recorded and re-entrance is not detected.

#[cfg(all(feature = "std", not(percolog_loom)))]
mod record {
    use core::cell::RefCell;
    use std::vec::Vec;

    std::thread_local! {
        static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn push(object: usize) {
        // A thread so far gone that its storage has been destroyed is not recorded.
        let _ = HELD.try_with(|held| held.borrow_mut().push(object));
    }

    pub(super) fn pop(object: usize) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|entry| *entry == object) {
                held.remove(at);
            }
        });
    }

    pub(super) fn forget(object: usize) {
        let _ = HELD.try_with(|held| held.borrow_mut().retain(|entry| *entry != object));
    }

    pub(super) fn count() -> usize {
        HELD.try_with(|held| held.borrow().len()).unwrap_or(0)
    }

    pub(super) fn contains(object: usize) -> bool {
        HELD.try_with(|held| held.borrow().contains(&object))
            .unwrap_or(false)
    }
}

#[cfg(not(all(feature = "std", not(percolog_loom))))]
mod record {
    pub(super) fn push(_object: usize) {}
    pub(super) fn pop(_object: usize) {}
    pub(super) fn forget(_object: usize) {}
    pub(super) fn count() -> usize {
        0
    }
    pub(super) fn contains(_object: usize) -> bool {
        false
    }
}

/// Records that this thread now holds a guard of the object at `object`, or runs its operations.
pub(crate) fn push(object: usize) {
    record::push(object);
}

/// Removes what [`push`] recorded.
pub(crate) fn pop(object: usize) {
    record::pop(object);
}

/// Removes everything recorded of an object that is going away: its guards were forgotten, and another
/// object may come to lie there.
pub(crate) fn forget(object: usize) {
    record::forget(object);
}

/// Whether this thread holds the object at `object`.
pub(crate) fn contains(object: usize) -> bool {
    record::contains(object)
}

/// How many objects this thread holds.
pub(crate) fn count() -> usize {
    record::count()
}

/// A [record](push) that is [taken back](pop) when this is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct Held(usize);

impl Held {
    pub(crate) fn new(object: usize) -> Self {
        push(object);
        Self(object)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        pop(self.0);
    }
}
