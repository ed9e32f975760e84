//! Which objects' guards this thread holds.
//!
//! A thread that waits for a lock it holds itself waits for ever, silently. With this record the
//! waiting never begins: the operation says what it would have done. It is looked at only where a
//! thread is about to wait, and written where a guard is made or dropped; an update never comes here
//! below its limit.
//!
//! A lock that one thread holds at a time says itself who does, where it can: see `ObjectLock::is_mine`. A record is for those that
//! several hold. It is of a [`Name`], which is an address where the object stays while it is used, and what has come to lie
//! there has no guard of the old one's that was forgotten; and a [`Number`] where it may move.
//!
//! Only threads of the operating system have a place for the record: without the `std` feature, and
//! under the model checker, nothing is recorded and re-entrance is not detected.

use super::const_fn;
use super::global::{AtomicU64, Ordering};

/// What tells an object from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name(u64);

impl Name {
    /// Of no object.
    #[cfg(all(feature = "std", not(percolog_loom)))]
    const NONE: Self = Self(0);
}

impl From<usize> for Name {
    /// By an address that is not zero, of something that needs an even one.
    fn from(address: usize) -> Self {
        debug_assert!(address.is_multiple_of(2));
        Self(address as u64)
    }
}

/// The number of an object, given when it is first asked for.
#[derive(Debug)]
pub(crate) struct Number(AtomicU64);

/// Odd, so that no address is taken for a number.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Number {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// The object's name, if anybody has asked for it before: else nothing is recorded of it.
    #[inline(always)]
    pub(crate) fn given(&self) -> Option<Name> {
        // Relaxed, as all of this: the numbers differ, which is all that is asked of them, and a thread finds what it has found before.
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            number => Some(Name(number)),
        }
    }

    /// The object's name.
    #[inline(always)]
    pub(crate) fn name(&self) -> Name {
        self.given().unwrap_or_else(|| {
            let number = NEXT.fetch_add(2, Ordering::Relaxed);
            let given = self
                .0
                .compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
            Name(given.err().unwrap_or(number))
        })
    }
}

#[cfg(all(feature = "std", not(percolog_loom)))]
mod record {
    use super::Name;
    use core::cell::{Cell, RefCell};
    use std::vec::Vec;

    std::thread_local! {
        /// The first of them, of most threads the only one: without an allocation.
        static FIRST: Cell<Name> = const { Cell::new(Name::NONE) };
        static HELD: RefCell<Vec<Name>> = const { RefCell::new(Vec::new()) };
        /// It has no destructor, and so can be used in a thread's last moments.
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }

    #[inline(always)]
    pub(super) fn count_up() {
        COUNT.set(COUNT.get().wrapping_add(1));
    }

    #[inline(always)]
    pub(super) fn count_down() {
        COUNT.set(COUNT.get().wrapping_sub(1));
    }

    #[inline(always)]
    pub(super) fn any() -> bool {
        COUNT.get() != 0
    }

    #[inline(always)]
    pub(super) fn push(object: Name) {
        if FIRST.get() == Name::NONE {
            FIRST.set(object);
        } else {
            push_another(object);
        }
    }

    #[cold]
    fn push_another(object: Name) {
        // A thread so far gone that its storage has been destroyed is not recorded.
        let _ = HELD.try_with(|held| held.borrow_mut().push(object));
    }

    #[inline(always)]
    pub(super) fn pop(object: Name) {
        if FIRST.get() == object {
            FIRST.set(Name::NONE);
        } else {
            pop_another(object);
        }
    }

    #[cold]
    fn pop_another(object: Name) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|entry| *entry == object) {
                held.remove(at);
            }
        });
    }

    pub(super) fn forget(object: Name) {
        if FIRST.get() == object {
            FIRST.set(Name::NONE);
        }
        let _ = HELD.try_with(|held| held.borrow_mut().retain(|entry| *entry != object));
    }

    pub(super) fn contains(object: Name) -> bool {
        FIRST.get() == object
            || HELD
                .try_with(|held| held.borrow().contains(&object))
                .unwrap_or(false)
    }
}

#[cfg(not(all(feature = "std", not(percolog_loom))))]
mod record {
    use super::Name;

    pub(super) fn count_up() {}
    pub(super) fn count_down() {}
    pub(super) fn any() -> bool {
        false
    }
    pub(super) fn push(_object: Name) {}
    pub(super) fn pop(_object: Name) {}
    pub(super) fn forget(_object: Name) {}
    pub(super) fn contains(_object: Name) -> bool {
        false
    }
}

/// This thread has taken an object, exclusively or for sharing.
#[inline(always)]
pub(crate) fn count_up() {
    record::count_up();
}

/// This thread has given an object back.
#[inline(always)]
pub(crate) fn count_down() {
    record::count_down();
}

/// Whether this thread holds any object, or once forgot the guard of one.
#[inline(always)]
pub(crate) fn any() -> bool {
    record::any()
}

/// Records that this thread now holds a guard of the object.
#[inline(always)]
pub(crate) fn push(object: impl Into<Name>) {
    record::push(object.into());
}

/// Removes what [`push`] recorded.
#[inline(always)]
pub(crate) fn pop(object: impl Into<Name>) {
    record::pop(object.into());
}

/// Removes everything recorded of an object that is not there any more, or of which nobody has a guard: its guards were forgotten.
pub(crate) fn forget(object: impl Into<Name>) {
    record::forget(object.into());
}

/// Whether this thread holds the object.
pub(crate) fn contains(object: impl Into<Name>) -> bool {
    record::contains(object.into())
}

/// A [record](push) that is [taken back](pop) when this is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct Held(Name);

impl Held {
    pub(crate) fn new(object: impl Into<Name>) -> Self {
        let object = object.into();
        push(object);
        Self(object)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        pop(self.0);
    }
}
