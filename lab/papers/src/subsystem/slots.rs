//! What structures made by hand for each core stand on: an array of locked parts, and a memory of where an
//! entry was entered.
//!
//! A part belongs to a slot ([`percolog::cpu::current`]). Entering takes the lock of one's own part, which
//! nobody else wants as a rule; reading takes all of them, in order, so that what it sees was there at one
//! moment. Nobody who holds one lock waits for another one except in that order, so nobody waits for ever.

use percolog::cpu;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A `T` behind a lock for each slot.
#[derive(Debug)]
pub(super) struct Slots<T> {
    parts: Box<[Isolated<Mutex<T>>]>,
}

/// Alone on its cache lines: two, as processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Isolated<T>(pub(super) T);

impl<T: Default> Slots<T> {
    /// So many parts; slots beyond them share.
    pub(super) fn new(parts: usize) -> Slots<T> {
        Slots {
            parts: (0..parts.max(1)).map(|_| Isolated::default()).collect(),
        }
    }
}

impl<T: Default> Default for Slots<T> {
    /// A part for each slot that the process is expected to use.
    fn default() -> Slots<T> {
        Slots::new(cpu::count())
    }
}

impl<T> Slots<T> {
    /// The calling thread's own part, and which it is.
    pub(super) fn own(&self) -> (u32, MutexGuard<'_, T>) {
        let part = cpu::current().index() % self.parts.len();
        (part as u32, lock(&self.parts[part].0))
    }

    /// The part with this number; `None` if there is none.
    pub(super) fn part(&self, part: u32) -> Option<MutexGuard<'_, T>> {
        Some(lock(&self.parts.get(part as usize)?.0))
    }

    /// All parts at one moment.
    pub(super) fn all(&self) -> Vec<MutexGuard<'_, T>> {
        self.parts.iter().map(|part| lock(&part.0)).collect()
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done to a part panics half-way, so one left behind by a panicking thread is sound.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The part that an entry was entered in, known to both halves of its life.
///
/// A kernel has a field for it in the object itself (`f_sb_list_cpu` of Linux' open files). Here the halves
/// share an allocation, which is made with them, before anything is entered.
#[derive(Clone, Debug)]
pub struct Home(Arc<AtomicU32>);

impl Home {
    /// No part has this number.
    const NOWHERE: u32 = u32::MAX;

    /// Of an entry that has not been entered.
    pub(super) fn unknown() -> Home {
        Home(Arc::new(AtomicU32::new(Self::NOWHERE)))
    }

    pub(super) fn set(&self, part: u32) {
        // Relaxed: whoever leaves has been told, with whatever synchronization that takes, that the entry is
        // there; the partner is the load in `part`.
        self.0.store(part, Ordering::Relaxed);
    }

    pub(super) fn part(&self) -> u32 {
        // Relaxed: see `set`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Does something on a thread of its own, bound to a slot.
#[cfg(test)]
pub(super) fn on_slot<R: Send>(slot: u32, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            cpu::bind(cpu::CoreId::new(slot));
            let result = work();
            cpu::unbind();
            result
        });
        worker.join().expect("nothing panics")
    })
}
