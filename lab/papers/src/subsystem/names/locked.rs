//! A count behind a lock, of which there are two.

use super::{Lookup, Reference};
use crate::subsystem::{Entry, SharedObject};
use crossbeam_utils::Backoff;
use spin::mutex::SpinMutex;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A lock around a count.
pub trait Lock: Debug + Default + Send + Sync + 'static {
    /// Calls `change` with the count, alone.
    fn locked<R>(&self, change: impl FnOnce(&mut u64) -> R) -> R;
}

impl Lock for Mutex<u64> {
    fn locked<R>(&self, change: impl FnOnce(&mut u64) -> R) -> R {
        // A number is sound whenever a thread panics.
        change(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A kernel's thread keeps its processor while it holds such a lock; a program's may lose it. So whoever has waited for some
/// microseconds lets others run.
impl Lock for SpinMutex<u64> {
    fn locked<R>(&self, change: impl FnOnce(&mut u64) -> R) -> R {
        let backoff = Backoff::new();
        loop {
            if let Some(mut count) = self.try_lock() {
                return change(&mut count);
            }
            backoff.snooze();
        }
    }
}

/// A generation and a count that changes under a lock, together with the check of the generation.
#[derive(Debug, Default)]
pub struct Guarded<L> {
    /// Read without the lock, written under it.
    generation: AtomicU64,
    references: L,
}

/// The count behind a mutex, for which threads sleep.
pub type Locked = Guarded<Mutex<u64>>;

/// The count behind a spin lock: the `dentry` of section 3.4 of the thesis.
pub type Spinning = Guarded<SpinMutex<u64>>;

impl<L: Lock> SharedObject for Guarded<L> {
    type Arrival = Lookup;
    type Departure = Reference;
    type View = u64;

    fn life(_: Entry) -> (Lookup, Reference) {
        (Lookup, Reference)
    }

    fn enter(&self, Lookup: Lookup) {
        loop {
            // Relaxed: what is read here is checked under the lock.
            let generation = self.generation.load(Ordering::Relaxed);
            let is_taken = self.references.locked(|references| {
                // Relaxed: it is written under the lock, which orders it.
                let is_same = self.generation.load(Ordering::Relaxed) == generation;
                *references += u64::from(is_same);
                is_same
            });
            if is_taken {
                return;
            }
        }
    }

    fn leave(&self, Reference: Reference) {
        self.references.locked(|references| *references -= 1);
    }

    fn read(&self, _: u64) -> u64 {
        self.references.locked(|references| {
            // Relaxed, twice: only who holds the lock writes it, and it is checked under the lock.
            let generation = self.generation.load(Ordering::Relaxed);
            self.generation.store(generation + 1, Ordering::Relaxed);
            *references
        })
    }

    fn view(&self) -> u64 {
        self.references.locked(|references| *references)
    }

    fn expected(entries: &[Entry]) -> u64 {
        entries.len() as u64
    }
}
