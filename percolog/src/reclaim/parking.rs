//! Threads that are idle, and are not looked at.
//!
//! A scan that looked at every thread there is would make each free pay for threads that do nothing.
//! A record that has been outside for long is *parked*: its bit among the active ones is cleared, and
//! its flag tells its holder, who looks at it in every section, to set the bit again.
//!
//! The holder stores its word, passes its barrier, and reads the flag; parking sets the flag, passes a heavy
//! barrier, and reads the word. One of them sees the other: either the section is seen and the bit
//! stays, or the section sees the flag, and waits for the lock under which the bit is cleared. After it has set the
//! bit it passes a fence before it reads a link, and a scan reads the bits after its barrier: so a
//! scan that does not see the bit has its objects unlinked before the section reads a link, exactly as with
//! the word itself.

use super::collector::Collector;
use super::records::{Record, is_inside, stamp_of};
use crate::cpu::Environment;
use crate::cpu::barrier;
use crate::sync::atomic::{Ordering, fence};
use alloc::vec::Vec;

/// How many idle threads a scan must have met before they are parked; looking at a few costs less than
/// the barrier that parking takes. (More than there are in a model, which parks when it wants to see it.)
pub(super) const CROWD: usize = 16;

/// How long outside is idle, in ticks of the coarse clock: each is 128 objects or more.
const IDLE_TICKS: u64 = if cfg!(percolog_loom) { 0 } else { 16 };

/// How long outside is idle, in ticks of the time stamp counter: some milliseconds.
const IDLE_CYCLES: u64 = 1 << 24;

impl<E: Environment> Collector<E> {
    /// Whether the word of a thread that is outside says that it has been so for long.
    pub(super) fn is_idle(&self, word: u64, now: u64) -> bool {
        let long = if self.hot.tsc {
            IDLE_CYCLES
        } else {
            IDLE_TICKS
        };
        now.saturating_sub(stamp_of(word)) > long
    }

    /// Parks whoever is idle, unless somebody else is busy with the like.
    #[cold]
    pub(super) fn park(&self, now: u64) {
        self.try_rarely(|_| {
            let candidates: Vec<&Record> = self
                .records
                .active_from(0)
                .filter(|record| {
                    // A hint: it is read again below.
                    let word = record.entered.word.load(Ordering::Relaxed);
                    !is_inside(word) && self.is_idle(word, now)
                })
                .collect();
            for record in &candidates {
                // Relaxed: ordered by the barriers.
                record.entered.parked.store(1, Ordering::Relaxed);
            }
            // Pairs with the light barrier in `begin`.
            let passed = barrier::heavy(self.hot.mode);
            for record in candidates {
                // Acquire pairs with the Release in `end`: `deactivate` hands it on.
                if passed && !is_inside(record.entered.word.load(Ordering::Acquire)) {
                    self.records.deactivate(record);
                } else {
                    record.entered.parked.store(0, Ordering::Relaxed);
                }
            }
        });
    }

    /// The caller, who holds the record and has stored its word, is not idle any more.
    #[cold]
    pub(super) fn unpark(&self, record: &Record) {
        self.rarely(|_| {
            // Relaxed: under the lock; the holder itself reads it next.
            record.entered.parked.store(0, Ordering::Relaxed);
            self.records.activate(record);
        });
        // Before any link is read: pairs with the heavy barrier in `scan`.
        fence(Ordering::SeqCst);
    }
}
