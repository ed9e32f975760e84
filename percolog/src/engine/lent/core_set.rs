//! A set of slots in 27 bits and a flag.

/// The bits of a word that the set takes.
pub(super) const BITS: u32 = FOLDED | (FOLDED - 1);

/// Set where the slots are no longer listed.
const FOLDED: u32 = 1 << 27;

/// Bits of a listed slot.
const FIELD: u32 = 13;

/// Up to two slots, listed; or more, folded: a bit then stands for all slots that are equal modulo 27.
///
/// Objects with lent queues are mostly updated on few slots at a time. Where there are more, looking at a slot
/// that has no queue costs whoever merges a look, and is never wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreSet(u32);

impl CoreSet {
    /// The set in this word, whatever else is.
    pub(super) const fn of(word: u32) -> Self {
        Self(word & BITS)
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn fields(self) -> [usize; 2] {
        let mask = (1 << FIELD) - 1;
        [(self.0 & mask) as usize, (self.0 >> FIELD & mask) as usize]
    }

    const fn folded(slot: usize) -> u32 {
        1 << (slot as u32 % FOLDED.trailing_zeros())
    }

    /// The set with this slot in it.
    pub(super) fn with(self, slot: usize) -> Self {
        if self.0 & FOLDED != 0 {
            return Self(self.0 | Self::folded(slot));
        }
        let (name, fields) = (slot + 1, self.fields());
        if fields.contains(&name) {
            return self;
        }
        if name < 1 << FIELD
            && let Some(free) = fields.iter().position(|field| *field == 0)
        {
            return Self(self.0 | (name as u32) << (FIELD * free as u32));
        }
        let listed = fields.into_iter().filter(|field| *field != 0);
        Self(listed.fold(FOLDED | Self::folded(slot), |bits, field| {
            bits | Self::folded(field - 1)
        }))
    }

    /// Calls `f` with every slot below `end` that may be in the set; those that are, are among them.
    pub(super) fn each(self, end: usize, mut f: impl FnMut(usize)) {
        if self.0 & FOLDED == 0 {
            self.fields()
                .into_iter()
                .filter(|field| *field != 0)
                .for_each(|field| f(field - 1));
            return;
        }
        let distance = FOLDED.trailing_zeros() as usize;
        for lowest in (0..distance).filter(|bit| self.0 & 1 << bit != 0) {
            (lowest..end).step_by(distance).for_each(&mut f);
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

    fn seen(set: CoreSet) -> Vec<usize> {
        let mut seen = Vec::new();
        set.each(CoreId::PLACES, |slot| seen.push(slot));
        seen
    }

    proptest! {
        #[test]
        fn every_slot_that_is_in_is_seen_once(slots in prop::collection::vec(0..CoreId::PLACES, 0..40)) {
            let mut set = CoreSet::of(!BITS);
            prop_assert!(set.is_empty());
            let mut model = BTreeSet::new();
            for slot in slots {
                set = set.with(slot);
                model.insert(slot);
                prop_assert_eq!(set.with(slot), set);
                prop_assert_eq!(CoreSet::of(set.bits() | !BITS), set);
                prop_assert!(!set.is_empty());
                let seen = seen(set);
                let distinct: BTreeSet<_> = seen.iter().copied().collect();
                prop_assert_eq!(distinct.len(), seen.len());
                prop_assert!(model.is_subset(&distinct));
                // While two are enough nothing is looked at in vain.
                if model.len() <= 2 && model.iter().all(|slot| *slot != CoreId::PLACES - 1) {
                    prop_assert_eq!(distinct, model.clone());
                }
            }
        }
    }
}
