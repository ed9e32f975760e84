//! What is kept of a hot counter besides its shares: written by sums, and once a batch, on lines that adds do not read.
//!
//! The word that says where the shares are is read by every add. Were anything else of the counter on its line that changes
//! while it is hot, each sum would make every thread that adds fetch the line again, one after the other.
//!
//! A place has one center, which goes from counter to counter with it. Bits of its *note*:
//!
//! | bits | |
//! |---|---|
//! | 0–11 | how many sums in a row found nothing new |
//! | 12–15 | a few bits of the last sum |
//! | 16–47 | the correction: what the last sum found pending in the rows |
//! | 48–63 | the generation: how often the place was given back |
//!
//! The generation is in the counter's word as well: a walk over shares, or a look at the center, finds out by it that the
//! shares were taken back meanwhile, though the same counter may have been given the same place again.

use super::memory::Zero;
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};

const QUIET: u64 = (1 << CHECK) - 1;
const CHECK: u32 = 12;
const CORRECTION: u32 = 16;
const GENERATION: u32 = 48;

/// A counter that is hot becomes cold when so many sums in a row find what the one before them found; more if it is reluctant.
#[cfg(not(percolog_loom))]
pub(super) const COOL: u64 = 3;
#[cfg(percolog_loom)]
pub(super) const COOL: u64 = 2;

/// What sums tell each other of a hot counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note(u64);

impl Note {
    /// How often the place was given back, modulo 2¹⁶.
    pub(super) fn generation(self) -> u64 {
        self.0 >> GENERATION
    }

    /// What was pending in the rows at the last sum; 0 if that did not fit.
    pub(super) fn correction(self) -> i64 {
        const ABOVE: u32 = 64 - GENERATION;
        (self.0 << ABOVE) as i64 >> (ABOVE + CORRECTION)
    }

    /// After a sum that found so much, of which so much was pending.
    pub(super) fn summed(self, sum: i64, correction: i64) -> Self {
        // A few bits that depend on all bits of the sum.
        let check = (sum as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
        let new = Self(self.0 >> GENERATION << GENERATION | check << CHECK);
        let with = Self(new.0 | (correction as u64) << CORRECTION & ((1 << GENERATION) - 1));
        let new = if with.correction() == correction {
            with
        } else {
            new
        };
        let same = new.0 >> CHECK == self.0 >> CHECK;
        let quiet = if same {
            (self.quiet() + 1).min(QUIET)
        } else {
            0
        };
        Self(new.0 | quiet)
    }

    fn quiet(self) -> u64 {
        self.0 & QUIET
    }

    /// Whether so many sums found nothing new that a counter of this reluctance should be cold.
    pub(super) fn is_cool(self, reluctance: u64) -> bool {
        self.quiet() >= COOL << reluctance
    }
}

/// The center of a place.
#[derive(Debug, Default)]
pub(super) struct Center {
    /// The sum of all that rows have folded.
    central: AtomicI64,
    note: AtomicU64,
}

// SAFETY: integers, of which zero is the default; no destructor.
unsafe impl Zero for Center {}

impl Center {
    /// Ends a generation: what still walks over the shares, or has looked at the center, finds that its own is over.
    pub(super) fn end(&self) {
        // Acquire and Release pair with the update in `after_a_walk`: either the walk before that is over before anything that
        // follows this, or it finds the next generation.
        let ended = self.note.fetch_add(1 << GENERATION, Ordering::AcqRel);
        let fresh = (ended >> GENERATION).wrapping_add(1) << GENERATION;
        // Release pairs with the Acquire in `note`: who finds the generation over finds the counter's word changed, too, and looks
        // there again.
        self.note.store(fresh, Ordering::Release);
        // Release pairs with the Acquire in `look`: who sees this sees the generation.
        self.central.store(0, Ordering::Release);
    }

    /// Takes what a row has moved here.
    pub(super) fn fold(&self, amount: i64) {
        // Release pairs with the Acquire in `look`: who sees the fold sees the adds in it.
        self.central.fetch_add(amount, Ordering::Release);
    }

    /// How much of a sum has not been folded.
    pub(super) fn beyond(&self, sum: i64) -> i64 {
        // Relaxed: the bound of an estimate holds whatever this finds.
        sum.wrapping_sub(self.central.load(Ordering::Relaxed))
    }

    /// What was folded, and what was pending at the last sum; `None` if the generation is over.
    #[inline]
    pub(super) fn look(&self, generation: u64) -> Option<(i64, i64)> {
        // Acquire pairs with the Release of the folds: a sum taken later by this thread counts at least what is counted here. And
        // with that in `end`: a value of another generation is seen with its note.
        let central = self.central.load(Ordering::Acquire);
        // The bound of an estimate holds whichever correction of the generation this finds.
        let note = self.note();
        (note.generation() == generation).then(|| (central, note.correction()))
    }

    #[inline]
    pub(super) fn note(&self) -> Note {
        // Acquire pairs with the Release in `end`; and with that in `summed`, so that whoever begins to cool a counter down has the
        // sums behind it.
        Note(self.note.load(Ordering::Acquire))
    }

    /// The note, of which it is certain that the generation in it had not ended before all that the caller has loaded.
    pub(super) fn after_a_walk(&self) -> Note {
        // An atomic update that changes nothing: unlike a load, it finds the last value there is. Release pairs with the Acquire in
        // `end`: the walk is over before the shares are cleared, if this comes before that. Acquire: as in `note`.
        Note(self.note.fetch_add(0, Ordering::AcqRel))
    }

    /// Notes what a sum has found; whether it has. If not, another sum was under way, which notes what that has found: trying again
    /// would only keep others waiting.
    pub(super) fn summed(&self, current: Note, new: Note) -> bool {
        // Release pairs with the Acquire in `note`. Relaxed if it fails: nothing is taken from what is there.
        self.note
            .compare_exchange(current.0, new.0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Forgets how many sums found nothing new.
    pub(super) fn disturb(&self) {
        // Relaxed: only a number is changed, that of sums which are to follow.
        self.note.fetch_and(!QUIET, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_correction_is_kept_if_it_fits() {
        let note = Note(7 << GENERATION);
        for correction in [0, 1, -1, 12345, (1 << 31) - 1, -(1 << 31)] {
            let summed = note.summed(99, correction);
            assert_eq!((summed.correction(), summed.generation()), (correction, 7));
        }
        for correction in [1 << 31, -(1 << 31) - 1, i64::MAX, i64::MIN] {
            let summed = note.summed(99, correction);
            assert_eq!((summed.correction(), summed.generation()), (0, 7));
        }
    }

    #[test]
    fn three_sums_of_the_same_make_it_cool_and_more_a_reluctant_one() {
        let once = Note(0).summed(5, 2);
        let thrice = once.summed(5, 2).summed(5, 2).summed(5, 2);
        assert!(thrice.is_cool(0) && thrice.summed(5, 2).is_cool(0));
        assert!(!once.summed(5, 2).summed(5, 2).is_cool(0));
        assert!(!thrice.summed(6, 2).is_cool(0) && !thrice.summed(5, 3).is_cool(0));
        assert!(!thrice.summed(5, 2).summed(5, 2).is_cool(1));
        assert!(thrice.summed(5, 2).summed(5, 2).summed(5, 2).is_cool(1));
        let always = (0..10_000).fold(once, |note, _| note.summed(5, 2));
        assert!(always.is_cool(10) && always.correction() == 2);
    }

    #[test]
    fn a_center_begins_anew_in_another_generation() {
        let center = Center::default();
        let first = center.note().generation();
        center.fold(15);
        let note = center.note();
        assert!(center.summed(note, note.summed(17, 2)));
        assert_eq!(center.look(first), Some((15, 2)));
        center.end();
        assert_eq!(center.look(first), None);
        let second = center.note().generation();
        center.fold(3);
        assert_ne!(first, second);
        assert_eq!(center.look(second), Some((3, 0)));
        assert!(!center.summed(note, note.summed(17, 2)));
        assert_eq!(center.after_a_walk().generation(), second);
        // All 2^16 of them come one after the other.
        let ended = Center::default();
        ended.note.store(u64::MAX, Ordering::Relaxed);
        ended.end();
        assert_eq!(ended.note().generation(), 0);
    }
}
