//! A lock that is held for as long as users like, and is free again in a child whose parent's other thread had it.
//!
//! A swap runs code of users and waits for sections, so no `fork` can wait for it, as it does for [steps](crate::cpu::undivided); and a child that found
//! it taken by a thread that is not there would wait for ever. So the lock says who has it: a thread that has not come along into this process has nothing.
//!
//! *Invariant:* the slot lock inside is only held in steps, so that no child finds that one taken.

#[cfg(not(percolog_loom))]
use crate::cpu::process;
use crate::cpu::undivided::undivided;
use crate::sync::{Backoff, SlotLock, const_fn};

/// A thread of a process: who has begun something that others wait for. (Models do not fork.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    #[cfg(not(percolog_loom))]
    thread: u64,
    /// The process in which it began.
    #[cfg(not(percolog_loom))]
    generation: u64,
}

#[cfg(percolog_loom)]
impl Holder {
    pub(super) fn me() -> Self {
        Self {}
    }

    pub(super) fn is_gone(self) -> bool {
        false
    }
}

#[cfg(not(percolog_loom))]
impl Holder {
    /// The calling thread.
    pub(super) fn me() -> Self {
        Self {
            thread: process::this_thread(),
            generation: process::generation(),
        }
    }

    /// Whether the thread has not come along into this process.
    pub(super) fn is_gone(self) -> bool {
        self.generation != process::generation() && self.thread != process::survivor()
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Turn(SlotLock<Option<Holder>>);

/// The turn is the thread's until this is dropped.
#[derive(Debug)]
pub(super) struct Taken<'a>(&'a Turn);

impl Turn {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self(SlotLock::new(None))
        }
    }

    /// Takes the turn, waiting as long as it takes.
    pub(super) fn take(&self) -> Taken<'_> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(taken) = self.try_take() {
                return taken;
            }
            backoff.wait();
        }
    }

    /// Takes the turn, giving up after a brief time.
    pub(super) fn take_briefly(&self) -> Option<Taken<'_>> {
        let mut backoff = Backoff::new();
        loop {
            let taken = self.try_take();
            if taken.is_some() || backoff.is_spent() {
                return taken;
            }
            backoff.wait();
        }
    }

    /// Takes the turn if nobody has it who is there.
    pub(super) fn try_take(&self) -> Option<Taken<'_>> {
        undivided(|| {
            let mut lock = self.0.lock();
            let holder = lock.get();
            if holder.is_some_and(|holder| !holder.is_gone()) {
                return None;
            }
            *holder = Some(Holder::me());
            Some(Taken(self))
        })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        undivided(|| *self.0.0.lock().get() = None);
    }
}
