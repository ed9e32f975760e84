//! The way into an object and out again.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::held::{self, Name, Number};
use crate::sync::{ObjectLock, Patience, ReaderMark, const_fn};

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
    /// It was taken without waiting, and was not biased to readers.
    at_once: bool,
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
            at_once: false,
        }
    }

    /// The same for a thread that has taken the lock at once.
    #[inline(always)]
    pub(super) fn door_at_once<'a>(&'a self, number: Option<&'a Number>) -> Door<'a> {
        Door {
            at_once: true,
            ..self.door(number)
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
        Ok(self.shared_door(number))
    }

    /// The door for a thread that has just taken a share.
    #[inline(always)]
    pub(super) fn shared_door<'a>(&'a self, number: Option<&'a Number>) -> Door<'a> {
        held::count_up();
        let door = Door {
            gate: self,
            number,
            // Nobody asks: who shares the object poisons nothing.
            was_panicking: true,
            at_once: false,
        };
        held::push(door.name());
        door
    }

    /// Waits while somebody has the object exclusively, with so many pauses (their binary logarithm) before the first look; `false` when
    /// patience ran out.
    pub(super) fn let_writer_finish(&self, pauses: u32, wait: Wait) -> bool {
        match wait {
            Wait::No => false,
            Wait::Briefly => self.lock.without_writer_soon(pauses),
            Wait::For(patience) => self.lock.without_writer(pauses, patience),
        }
    }

    /// Whether this thread holds the object.
    fn is_held(&self, number: Option<&Number>) -> bool {
        if self.lock.is_mine() {
            return true;
        }
        let Some(name) = self.recorded(number) else {
            return false;
        };
        if self.lock.is_shared() || self.lock.is_biased() {
            return true;
        }
        // Of another object that was here, whose guard was forgotten.
        held::forget(name);
        false
    }

    /// Whether this thread has a share of the object, which it has taken exclusively as well.
    pub(super) fn is_shared_by_holder(&self, number: &Number) -> bool {
        self.recorded(Some(number)).is_some()
    }

    /// The object's name, if this thread has recorded it as shared.
    fn recorded(&self, number: Option<&Number>) -> Option<Name> {
        let name = number.map_or_else(|| Some(self.here()), Number::given)?;
        held::contains(name).then_some(name)
    }

    /// The name of an object that stays here. Not the address of the object itself, which can be that of another one inside it.
    #[inline(always)]
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

    #[inline(always)]
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
        if self.at_once {
            self.gate.lock.release_exclusive_at_once();
        } else {
            self.gate.lock.release_exclusive();
        }
    }

    #[inline(always)]
    pub(super) fn leave_shared(&self, mark: Option<&ReaderMark>) {
        held::count_down();
        held::pop(self.name());
        match mark {
            Some(mark) => mark.leave(),
            None => self.gate.lock.release_shared(),
        }
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
