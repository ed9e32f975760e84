//! The sections that are open at one moment, one by one.
//!
//! Quiescence says that all sections have ended that *can* have seen something; whether it waits for a given one is known afterwards. Whoever
//! keeps sections waiting for something needs to know before which of them it waits for itself: those it must let go on.
//!
//! *Why none is missed.* A section stores its word, passes the light barrier, and then reads. Who looks here has changed something, passes the heavy
//! barrier, and then reads the words. Either it sees the section, or the section sees the change. (What parked threads do comes to the same:
//! see [`parking`](super::parking).)

use super::collector::Collector;
use super::records::{Record, is_inside};
use crate::cpu::{Environment, barrier};
use crate::sync::atomic::{Ordering, fence};
use alloc::vec::Vec;

/// A section that was open when somebody looked: its thread's record, and what that said.
///
/// The thread's next section may look the same, and the one after that: a mark that was found ended can come to be open again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) record: usize,
    pub(crate) word: u64,
}

impl<E: Environment> Collector<E> {
    /// The sections that are open. One that is not among them sees whatever the caller has done before. `None` if the kernel did not execute
    /// the barrier.
    pub(super) fn open_sections(&self) -> Option<Vec<Mark>> {
        self.ensure_process();
        // So that few sections that begin later have the word of one that is open.
        let now = self.now();
        self.advance(now);
        // Pairs with the fence in `unpark`, as in `scan`.
        fence(Ordering::SeqCst);
        // Pairs with the light barrier in `begin`.
        if !barrier::heavy(self.hot.mode) {
            return None;
        }
        let open = self.records.active_from(0).filter_map(|record| {
            // Acquire pairs with the Release in `end`: what ended sections did is seen.
            let word = record.entered.word.load(Ordering::Acquire);
            is_inside(word).then_some(Mark {
                record: record.index,
                word,
            })
        });
        Some(open.collect())
    }

    /// Whether a section has ended that was open, and its thread is in no other one that looks the same.
    pub(super) fn has_ended(&self, open: Mark) -> bool {
        self.ensure_process();
        // Acquire pairs with the Release in `end`: what the section did is seen.
        self.records
            .get(open.record)
            .entered
            .word
            .load(Ordering::Acquire)
            != open.word
    }

    /// Whether the section that the caller, who holds the record, is in was among those that were open.
    pub(super) fn is_one_of(record: &Record, open: &[Mark]) -> bool {
        let own = Mark {
            record: record.index,
            // Relaxed: the caller wrote it.
            word: record.entered.word.load(Ordering::Relaxed),
        };
        open.contains(&own)
    }
}
