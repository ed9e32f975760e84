//! The way into an object and out again.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::held::{self, Name, Number};
use crate::sync::{ObjectLock, Patience, const_fn};

/// The object's lock, and whether a panic has happened behind it: eight bytes.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) lock: ObjectLock,
    /// [`POISONED`]; the other bits are for whoever has the gate.
    pub(super) flags: AtomicU32,
}

/// The flag that says that a panic has happened behind the gate.
pub(super) const POISONED: u32 = 1 << 31;

/// Whether a thread is willing to wait for an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// As long as an update that is executed at once usually takes.
    Briefly,
    /// So long.
    For(Patience),
}

/// Why an object was not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Busy,
    Held,
}

/// A thread's way through an object's gate; what a guard needs to give the object back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Door<'a> {
    gate: &'a Gate,
    number: Option<&'a Number>,
    was_panicking: bool,
}

impl Gate {
    const_fn! {
        pub(super) const fn new(flags: u32) -> Self {
            Self { lock: ObjectLock::new(), flags: AtomicU32::new(flags) }
        }
    }

    /// Relaxed: set and looked at under the lock; a look from outside is a hint.
    #[inline(always)]
    pub(super) fn is_poisoned(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & POISONED != 0
    }

    pub(super) fn poison(&self) {
        self.flags.fetch_or(POISONED, Ordering::Relaxed);
    }

    pub(super) fn clear_poison(&self) {
        self.flags.fetch_and(!POISONED, Ordering::Relaxed);
    }

    /// The door for a thread that has just taken the lock. An object without a number stays where it is while it is used.
    #[inline(always)]
    pub(super) fn door<'a>(&'a self, number: Option<&'a Number>) -> Door<'a> {
        held::count_up();
        Door {
            gate: self,
            number,
            was_panicking: is_panicking(),
        }
    }

    /// Takes the object for this thread alone.
    pub(super) fn enter<'a>(
        &'a self,
        number: Option<&'a Number>,
        wait: Wait,
    ) -> Result<Door<'a>, Refusal> {
        if !self.lock.try_exclusive() {
            if self.is_held(number) {
                return Err(Refusal::Held);
            }
            match wait {
                Wait::For(patience) if self.lock.exclusive(patience) => {}
                Wait::Briefly if self.lock.exclusive_soon() => {}
                _ => return Err(Refusal::Busy),
            }
        }
        Ok(self.door(number))
    }

    /// Takes the object for sharing.
    pub(super) fn enter_shared<'a>(
        &'a self,
        number: Option<&'a Number>,
        wait: Wait,
    ) -> Result<Door<'a>, Refusal> {
        // First: with a share already this thread would get another one, or wait behind a writer that waits for the first.
        if self.is_held(number) {
            return Err(Refusal::Held);
        }
        let entered = match wait {
            Wait::No => self.lock.try_shared(),
            Wait::Briefly => self.lock.shared_soon(),
            Wait::For(patience) => self.lock.shared(patience),
        };
        if !entered {
            return Err(Refusal::Busy);
        }
        let door = self.door(number);
        held::push(door.name());
        Ok(door)
    }

    /// Whether this thread holds the object.
    fn is_held(&self, number: Option<&Number>) -> bool {
        if self.lock.is_mine() {
            return true;
        }
        let name = number.map_or_else(|| Some(self.here()), Number::given);
        let Some(name) = name.filter(|name| held::contains(*name)) else {
            return false;
        };
        if self.lock.is_shared() {
            return true;
        }
        // Of another object that was here, whose guard was forgotten.
        held::forget(name);
        false
    }

    /// The name of an object that stays here. Not the address of the object itself, which can be that of another one inside it.
    fn here(&self) -> Name {
        Name::from(core::ptr::from_ref(self).addr())
    }

    /// The object goes away, and another one may come to lie here.
    pub(super) fn forget(&self) {
        held::forget(self.here());
    }
}

impl Door<'_> {
    pub(super) fn is_of(&self, gate: &Gate) -> bool {
        core::ptr::eq(self.gate, gate)
    }

    #[inline(always)]
    pub(super) fn poison_if_panicking(&self) {
        if !self.was_panicking && is_panicking() {
            self.gate.poison();
        }
    }

    fn name(&self) -> Name {
        self.number.map_or_else(|| self.gate.here(), Number::name)
    }

    pub(super) fn share(&self) {
        held::push(self.name());
        self.gate.lock.downgrade();
    }

    #[inline(always)]
    pub(super) fn leave_exclusive(&self) {
        held::count_down();
        self.gate.lock.release_exclusive();
    }

    #[inline(always)]
    pub(super) fn leave_shared(&self) {
        held::count_down();
        held::pop(self.name());
        self.gate.lock.release_shared();
    }
}

#[inline(always)]
pub(super) fn is_panicking() -> bool {
    #[cfg(feature = "std")]
    return std::thread::panicking();
    // Without std a panic does not come back.
    #[cfg(not(feature = "std"))]
    false
}
