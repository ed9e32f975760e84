//! The way into an object and out again.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{ObjectLock, const_fn, held};

/// The object's lock, and whether a panic has happened behind it: eight bytes.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) lock: ObjectLock,
    /// [`POISONED`]; the other bits are for whoever has the gate.
    pub(super) flags: AtomicU32,
}

/// The flag that says that a panic has happened behind the gate.
pub(super) const POISONED: u32 = 1 << 31;

/// A thread's way through an object's gate; what a guard needs to give the object back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Door<'a> {
    gate: &'a Gate,
    object: usize,
    was_panicking: bool,
}

impl Gate {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { lock: ObjectLock::new(), flags: AtomicU32::new(0) }
        }
    }

    /// Relaxed: set and looked at under the lock; a look from outside is a hint.
    pub(super) fn is_poisoned(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & POISONED != 0
    }

    pub(super) fn poison(&self) {
        self.flags.fetch_or(POISONED, Ordering::Relaxed);
    }

    pub(super) fn clear_poison(&self) {
        self.flags.fetch_and(!POISONED, Ordering::Relaxed);
    }

    /// The door for a thread that has just taken the lock of the object at `object`.
    pub(super) fn door(&self, object: usize) -> Door<'_> {
        held::push(object);
        Door {
            gate: self,
            object,
            was_panicking: is_panicking(),
        }
    }
}

impl Door<'_> {
    pub(super) fn is_of(&self, gate: &Gate) -> bool {
        core::ptr::eq(self.gate, gate)
    }

    pub(super) fn poison_if_panicking(&self) {
        if !self.was_panicking && is_panicking() {
            self.gate.poison();
        }
    }

    pub(super) fn share(&self) {
        self.gate.lock.downgrade();
    }

    pub(super) fn leave_exclusive(&self) {
        held::pop(self.object);
        self.gate.lock.release_exclusive();
    }

    pub(super) fn leave_shared(&self) {
        held::pop(self.object);
        self.gate.lock.release_shared();
    }
}

pub(super) fn is_panicking() -> bool {
    #[cfg(feature = "std")]
    return std::thread::panicking();
    // Without std a panic does not come back.
    #[cfg(not(feature = "std"))]
    false
}
