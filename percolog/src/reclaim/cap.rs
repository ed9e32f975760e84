//! The cap on what is retired and not destroyed.

use super::collector::Collector;
use super::options::WhenFull;
use super::records::{Record, add};
use super::stalled::{StalledSection, Verdict};
use crate::cpu::Environment;
use crate::sync::Backoff;

/// A thread looks at the sum of all bytes after every such part of the cap that it retires.
const PARTS: usize = 256;

/// How often a thread whose policy is to ask looks for room before it gives up, when there is no section
/// to ask about.
const LOOKS: usize = 64;

impl<E: Environment> Collector<E> {
    /// Whether an object of so many bytes may be retired; does what the policy says if the cap is
    /// reached. The caller holds the record.
    ///
    /// Code of users runs here: destructors, and the policy's.
    #[inline]
    pub(super) fn make_room(&self, record: &Record, bytes: usize) -> bool {
        if self.options.cap == usize::MAX {
            return true;
        }
        let unchecked = record.private.unchecked_bytes.get().saturating_add(bytes);
        record.private.unchecked_bytes.set(unchecked);
        if unchecked < self.options.cap / PARTS {
            return true;
        }
        record.private.unchecked_bytes.set(0);
        self.check_cap(record, bytes)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.unreclaimed_bytes().saturating_add(bytes as u64) <= self.options.cap as u64
    }

    #[cold]
    fn check_cap(&self, record: &Record, bytes: usize) -> bool {
        let mut backoff = Backoff::new();
        let mut nobody = 0;
        loop {
            if self.has_room(bytes) {
                return true;
            }
            self.collect(record);
            if self.has_room(bytes) {
                return true;
            }
            // The next object is counted again, so that the first that finds room is let in.
            record.private.unchecked_bytes.set(self.options.cap / PARTS);
            let in_section = record.entered.nested() != 0;
            let verdict = match self.options.when_full {
                WhenFull::Refuse => Verdict::Refuse,
                WhenFull::Block if in_section => Verdict::Refuse,
                WhenFull::Block => Verdict::Wait,
                WhenFull::Ask(decide) => match self.in_the_way() {
                    Some(stalled) => decide(&stalled),
                    // The last section has just ended; or what is there waits for something else.
                    None => {
                        nobody += 1;
                        if nobody < LOOKS {
                            Verdict::Wait
                        } else {
                            Verdict::Refuse
                        }
                    }
                },
            };
            match verdict {
                // In a destructor: what follows it in this thread's queue can only be destroyed when it
                // has returned.
                Verdict::Wait if record.private.destroying.get() => return false,
                Verdict::Wait => backoff.wait(),
                Verdict::Refuse => return false,
                Verdict::Exceed => {
                    add(&record.private.counts.beyond_cap, 1);
                    return true;
                }
            }
        }
    }

    /// Destroys whatever may be destroyed; returns how many objects. The caller holds the record.
    pub(super) fn collect(&self, record: &Record) -> usize {
        let mut destroyed = 0;
        loop {
            self.seal(record);
            self.look_for_quiescence(record, true);
            match self.destroy_ready(record, usize::MAX) {
                // What destructors retire may be destroyed as well.
                0 => return destroyed,
                some => destroyed += some,
            }
        }
    }

    #[cfg(all(feature = "std", not(percolog_loom)))]
    fn in_the_way(&self) -> Option<StalledSection> {
        self.stalled()
    }

    #[cfg(not(all(feature = "std", not(percolog_loom))))]
    fn in_the_way(&self) -> Option<StalledSection> {
        None
    }
}
