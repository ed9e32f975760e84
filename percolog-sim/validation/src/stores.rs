//! One line that every core writes: the microbenchmark of Figure 4-3 (thesis §4.3).

use std::sync::atomic::{AtomicU64, Ordering};

use super::alone::Alone;
use super::clock;
use super::crew::{self, CrewError, Shift, Work};

/// How the word is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// A `mov`.
    Plain,
    /// An atomic increment.
    Atomic,
}

/// Stores in one operation: so many that looking at the clock after each operation costs next to nothing.
pub const STORES: u64 = 16;

/// Each thread stores to the one word and waits until the store has been carried out, over and over.
///
/// What one thread alone takes for that is the cost of everything but the contention.
///
/// # Errors
/// A thread could not be started, or an atomic increment was lost.
pub fn run(shift: Shift, store: Store) -> Result<Work, CrewError> {
    let word = Alone(AtomicU64::new(0));
    percolog_roi::label(&word.0, "the word");
    let work = crew::run(shift, |number| {
        let word = &word.0;
        move || {
            for _ in 0..STORES {
                match store {
                    // Relaxed: only the traffic of the line matters.
                    Store::Plain => word.store(number as u64, Ordering::Relaxed),
                    Store::Atomic => {
                        word.fetch_add(1, Ordering::Relaxed);
                    }
                }
                clock::complete();
            }
        }
    })?;
    let last = word.0.into_inner();
    match store {
        // Any thread's number may be the last one.
        Store::Plain => work.checked(last, last.min(shift.threads as u64 - 1)),
        Store::Atomic => work.checked(last, STORES * work.all),
    }
}
