//! Which slots have something to merge.

use crate::cpu::{CoreId, PerCore};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::const_fn;

/// Slots that have a bit of their own; slots that are equal modulo this share one.
#[cfg(not(percolog_loom))]
const BITS: usize = 1024;
/// Half of the slots that there are, so that the models have slots that share a bit.
#[cfg(percolog_loom)]
const BITS: usize = 2;

const WORDS: usize = BITS.div_ceil(64);

/// One bit a slot, set by the slot's first update after a merge and cleared by the merge.
///
/// The bits of the slots that run on one chip are in lines of that chip's, so that first updates on
/// different chips do not fight over a line. Which chip's lines a bit is set in is a matter of speed
/// alone: a merge looks at all of them.
#[derive(Debug)]
pub(crate) struct DirtyMarks {
    chips: PerCore<Line>,
}

#[derive(Debug)]
struct Line {
    words: [AtomicU64; WORDS],
}

impl Line {
    fn new() -> Self {
        Self {
            words: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Line {
    /// Without a branch for each word: nearly always they are all clean, or few are not.
    #[inline]
    fn is_clean(&self) -> bool {
        // Relaxed: see `collect`.
        self.words
            .iter()
            .fold(0, |marks, word| marks | word.load(Ordering::Relaxed))
            == 0
    }
}

impl DirtyMarks {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self { chips: PerCore::new() }
        }
    }

    /// Marks a slot. Called under the slot's lock.
    #[cold]
    pub(crate) fn mark(&self, chip: usize, slot: CoreId) {
        let line = self.chips.get_or_make(CoreId::new(chip as u32), Line::new);
        let bit = slot.place() % BITS;
        // Release pairs with the Acquire in `collect`: who clears the mark must find the slot's queue,
        // which may have been made a moment ago. (That the mark *is* seen by whoever must see it does
        // not hang on this pair; see `collect`.)
        line.words[bit / 64].fetch_or(1 << (bit % 64), Ordering::Release);
    }

    /// Clears all marks and calls `found` with every bit that was set, in no particular order, as
    /// the number of its lowest slot and the distance to the next one. Returns whether there were any.
    ///
    /// A mark is seen if its setting happened before this call. The caller locks the queues of the
    /// slots found and calls again until nothing is found: then no update outside the locked queues
    /// has caused one inside, since that one's lock would have shown its mark.
    pub(crate) fn collect(&self, mut found: impl FnMut(usize, usize)) -> bool {
        let mut any = false;
        for (_, line) in self.chips.iter() {
            // Looking first leaves the lines of clean chips shared.
            if line.is_clean() {
                continue;
            }
            for (at, word) in line.words.iter().enumerate() {
                // Relaxed: a mark whose setting happened before this call is seen by any load.
                if word.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                // Acquire: see `mark`.
                let mut bits = word.swap(0, Ordering::Acquire);
                any |= bits != 0;
                while bits != 0 {
                    found(at * 64 + bits.trailing_zeros() as usize, BITS);
                    bits &= bits - 1;
                }
            }
        }
        any
    }

    /// Bytes allocated for marks.
    pub(crate) fn memory(&self) -> usize {
        self.chips.memory()
    }

    /// Whether no slot is marked.
    pub(crate) fn is_clean(&self) -> bool {
        self.chips.iter().all(|(_, line)| line.is_clean())
    }
}
