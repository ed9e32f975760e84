//! A set of slots in 27 bits, to which one atomic instruction adds.

/// The bits of a word that the set takes.
pub(super) const BITS: u32 = (1 << (FIRST + SECOND)) - 1;

/// A slot is known by what is left of its number when it is divided by this,
const FIRST: u32 = 13;

/// and by this: two numbers without a common divisor, so that no two slots below 182 have both in common.
const SECOND: u32 = 14;

/// A bit for each remainder by 13, and one for each by 14. A slot may be in the set if both of its bits are there.
///
/// Adding a slot is an *or*: slots that are added at the same moment cannot make each other try again, and what an or adds
/// to a word that is about to be emptied does no harm. One slot of up to 182 is listed exactly, and any number of slots
/// of up to 13. Where there are more, looking at a slot that has no queue costs whoever merges a look, and is never wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreSet(u32);

impl CoreSet {
    /// The set in this word, whatever else is.
    pub(super) const fn of(word: u32) -> Self {
        Self(word & BITS)
    }

    /// The set of this slot alone.
    pub(super) const fn only(slot: usize) -> Self {
        let slot = slot as u32;
        Self(1 << (slot % FIRST) | 1 << (FIRST + slot % SECOND))
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the slot may be in the set. If it is, it may.
    const fn may_contain(self, slot: usize) -> bool {
        let bits = Self::only(slot).0;
        self.0 & bits == bits
    }

    /// Calls `f` with every slot below `end` that may be in the set.
    pub(super) fn each(self, end: usize, mut f: impl FnMut(usize)) {
        for lowest in (0..FIRST).filter(|bit| self.0 & 1 << bit != 0) {
            (lowest as usize..end)
                .step_by(FIRST as usize)
                .filter(|slot| self.may_contain(*slot))
                .for_each(&mut f);
        }
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;
    use crate::cpu::CoreId;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn seen(set: CoreSet, end: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        set.each(end, |slot| seen.push(slot));
        seen
    }

    fn of(slots: impl IntoIterator<Item = usize>) -> CoreSet {
        let words = slots.into_iter().map(|slot| CoreSet::only(slot).bits());
        CoreSet::of(words.fold(!BITS, |all, bits| all | bits))
    }

    proptest! {
        #[test]
        fn every_slot_that_is_in_is_seen_once(slots in prop::collection::btree_set(0..CoreId::PLACES, 0..40)) {
            let set = of(slots.iter().copied());
            prop_assert_eq!(set.is_empty(), slots.is_empty());
            prop_assert_eq!(CoreSet::of(set.bits() | !BITS), set);
            let seen = seen(set, CoreId::PLACES);
            let distinct: BTreeSet<_> = seen.iter().copied().collect();
            prop_assert_eq!(distinct.len(), seen.len());
            prop_assert!(slots.is_subset(&distinct));
        }
    }

    #[test]
    fn what_is_exact() {
        for slot in 0..182 {
            assert_eq!(seen(of([slot]), 182), [slot]);
        }
        for slots in 0..1 << FIRST {
            let slots: Vec<_> = (0..FIRST as usize)
                .filter(|slot| slots & 1 << slot != 0)
                .collect();
            assert_eq!(seen(of(slots.iter().copied()), FIRST as usize), slots);
        }
    }
}
