//! A name that all cores look up: compared with what is looked for, and referred to while it is used (§4.4).

use std::sync::atomic::{AtomicU64, Ordering};

use percolog::refcount::{Compared, Comparison, CoreArc};

use super::Alone;
use percolog_validation::clock;
use percolog_validation::crew::{self, CrewError, Shift, Work};
use percolog_validation::locks::{Lock, TicketLock};

/// What is compared: the parent's number, a hash, a length, and the first letters.
type Name = [u64; 4];

const NAME: Name = [7, 0x5ca1_ab1e_0ddb_a115, 3, 0x0072_7375];

/// How a name is compared and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Both under a spin lock of the name's, as Linux had it: a ticket lock.
    Locked,
    /// Compared without a lock, by a generation; references are counted in one word.
    Generation,
    /// The same, with references taken on condition that nothing has changed, and counted on each core: [`Compared`] and [`CoreArc`].
    Referenced,
}

/// Words and a count that change under a lock, in lines of their own.
#[derive(Debug, Default)]
struct Locked {
    lock: TicketLock,
    words: [AtomicU64; 4],
    references: AtomicU64,
}

impl Locked {
    /// Takes a reference if it is the name that is looked for.
    fn take(&self, thread: usize, name: &Name) -> bool {
        self.lock.lock(thread);
        // Relaxed, all of them here and in `give`: the lock orders them.
        let is_same = self
            .words
            .iter()
            .zip(name)
            .all(|(there, word)| there.load(Ordering::Relaxed) == *word);
        if is_same {
            let references = self.references.load(Ordering::Relaxed);
            self.references.store(references + 1, Ordering::Relaxed);
        }
        self.lock.unlock(thread);
        is_same
    }

    fn give(&self, thread: usize) {
        self.lock.lock(thread);
        let references = self.references.load(Ordering::Relaxed);
        self.references.store(references - 1, Ordering::Relaxed);
        self.lock.unlock(thread);
    }
}

/// Each thread looks the one name up, and refers to it for half of `work` cycles.
///
/// # Errors
/// A thread could not be started, a lookup did not find the name, or references are left.
pub fn run(shift: Shift, lookup: Lookup, work: u64) -> Result<Work, CrewError> {
    let (before, after) = (work / 2, work - work / 2);
    match lookup {
        Lookup::Locked => {
            let entry = Alone(Locked {
                words: NAME.map(AtomicU64::new),
                ..Locked::default()
            });
            percolog_roi::label(&entry.0, "lock, name and count");
            let entry = &entry.0;
            let done = crew::run(shift, |thread| {
                move || {
                    if entry.take(thread, &NAME) {
                        clock::spin(before);
                        entry.give(thread);
                        clock::spin(after);
                    }
                }
            })?;
            done.checked(entry.references.load(Ordering::Relaxed), 0)
        }
        Lookup::Generation => {
            let name = Alone(Compared::new(NAME));
            let references = Alone(AtomicU64::new(0));
            let missed = AtomicU64::new(0);
            percolog_roi::label(&references.0, "count of references");
            let (name, references) = (&name.0, &references.0);
            let done = crew::run(shift, |_| {
                let missed = &missed;
                move || {
                    if matches!(name.compare(&NAME), Comparison::Same(_)) {
                        // Acquire and release: as a reference count orders the uses of what it guards.
                        references.fetch_add(1, Ordering::Acquire);
                        clock::spin(before);
                        references.fetch_sub(1, Ordering::Release);
                        clock::spin(after);
                    } else {
                        missed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })?;
            let left = references.load(Ordering::Relaxed);
            done.checked(left + missed.into_inner(), 0)
        }
        Lookup::Referenced => {
            let entry = CoreArc::into_hot(CoreArc::new(Alone(Compared::new(NAME))));
            let missed = AtomicU64::new(0);
            let done = crew::run(shift, |_| {
                let (entry, missed) = (&entry, &missed);
                move || {
                    let found = match entry.0.compare(&NAME) {
                        Comparison::Same(seen) => {
                            CoreArc::clone_if(entry, entry.0.generation(), seen)
                        }
                        Comparison::Different | Comparison::Changing => None,
                    };
                    if let Some(reference) = found {
                        clock::spin(before);
                        drop(reference);
                        clock::spin(after);
                    } else {
                        missed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })?;
            let left = CoreArc::count(&entry) as u64 - 1;
            done.checked(left + missed.into_inner(), 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lookup_finds_the_name_and_lets_go_of_it() {
        let shift = Shift {
            threads: 2,
            warm_up: 20_000,
            cycles: 200_000,
        };
        for lookup in [Lookup::Locked, Lookup::Generation, Lookup::Referenced] {
            let work =
                run(shift, lookup, 500).unwrap_or_else(|error| panic!("{lookup:?}: {error}"));
            // A thread that loses its processor comes to none in so short a time.
            assert!(work.all >= 2, "{lookup:?}");
        }
    }

    #[test]
    fn another_name_is_not_found() {
        let entry = Locked {
            words: NAME.map(AtomicU64::new),
            ..Locked::default()
        };
        assert!(entry.take(0, &NAME));
        assert!(!entry.take(0, &[7, 7, 7, 7]));
        entry.give(0);
        assert_eq!(entry.references.into_inner(), 0);
    }
}
