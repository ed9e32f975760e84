//! The one word that a counter is until it is contended or hot, and that says where its shares are from then on.
//!
//! | bits | cold: the word is the value | hot: the value is in shares | draining: shares are about to be taken back |
//! |---|---|---|---|
//! | 0–4 | 0 | the chunk of the place, not 0 | 0 |
//! | 5 | 0 | 0 | 1 |
//! | 6–7 | heat | 0 | 0 |
//! | 8–11 | heat | 0 | the chunk |
//! | 12–17 | who added last | the index of the share | the same |
//! | 18–43 | the value, from here to 47 | the index, to here | the same |
//! | 44–47 | | reluctance | the same |
//! | 48–63 | reluctance | generation | the same |
//!
//! Whoever adds looks at the lowest bits as if the word were hot: chunk 0 is one that no row has, so that a word which
//! is not costs the fast path no test. While the counter is hot the word does not change: every add reads its line. What sums
//! have to tell each other is in the place's [center](super::center), and so is where the generation comes from.
//!
//! *Reluctance* says how often the counter became cold and hot again without a sum that found it quiet in between. Each time it takes
//! twice as many quiet sums to make it cold: a gauge that many threads raise and lower again can be found the same for a while by chance.

use super::ids::{CHUNKS, Place};

const DRAINING: u64 = 1 << 5;
const HEAT: u32 = 6;
const LAST: u32 = 12;
const VALUE: u32 = 18;
/// Where the index ends.
const INDEX_END: u32 = 44;
const GENERATION: u32 = 48;
/// Where a draining word keeps the chunk.
const CHUNK: u32 = 7;

const LOW: u64 = CHUNKS as u64 - 1;
const INDEX: u64 = ((1 << INDEX_END) - 1) & !((1 << LAST) - 1);

/// The most reluctance there is.
#[cfg(not(percolog_loom))]
const MOST: u64 = 10;
#[cfg(percolog_loom)]
const MOST: u64 = 0;

/// A counter becomes hot when it is added to so often between two sums; or for so many changes of thread, times
/// [`CHANGE`].
#[cfg(not(percolog_loom))]
pub(super) const HOT: u64 = 64;
#[cfg(percolog_loom)]
pub(super) const HOT: u64 = 3;

/// What a change of the adding thread counts for: it moves a line.
const CHANGE: u64 = 8;

/// The contents of a counter's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

/// What a word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Cold(i64),
    Hot(Place),
    Draining(Place),
}

impl Word {
    /// A counter that nobody has added to.
    pub(super) const ZERO: Self = Self(0);

    #[inline(always)]
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// Where the shares are if it is hot, and a place that no row has if it is not.
    #[inline(always)]
    pub(super) fn place_if_hot(self) -> Place {
        // The lowest 12 bits beside the chunk are not looked at by `Place`; those behind the index are shifted out.
        const ABOVE: u32 = 64 - INDEX_END;
        Place::from_bits(self.0 << ABOVE >> ABOVE)
    }

    pub(super) fn state(self) -> State {
        if self.0 & LOW != 0 {
            State::Hot(Place::from_bits(self.0 & (INDEX | LOW)))
        } else if self.0 & DRAINING != 0 {
            State::Draining(Place::from_bits(self.0 & INDEX | (self.0 >> CHUNK & LOW)))
        } else {
            const ABOVE: u32 = 64 - GENERATION;
            State::Cold((self.0 << ABOVE) as i64 >> (ABOVE + VALUE))
        }
    }

    /// A word that says this value; `None` if it does not fit.
    pub(super) fn cold(value: i64, reluctance: u64) -> Option<Self> {
        let value_bits = (value as u64) << VALUE & ((1 << GENERATION) - 1);
        let word = Self(reluctance.min(MOST) << GENERATION | value_bits);
        (word.state() == State::Cold(value)).then_some(word)
    }

    /// The word after an add by `who` while it is cold; `None` if it is to become hot, since it was added to often
    /// enough since the last sum, or the value does not fit.
    pub(super) fn added(self, amount: i64, who: u64) -> Option<Self> {
        let State::Cold(value) = self.state() else {
            return None;
        };
        let who = who % 64;
        let heat = self.heat();
        let same = heat == 0 || self.0 >> LAST & 63 == who;
        let heat = heat + if same { 1 } else { CHANGE };
        if heat >= HOT {
            return None;
        }
        let added = Self::cold(value.checked_add(amount)?, self.reluctance())?;
        Some(Self(added.0 | heat << HEAT | who << LAST))
    }

    /// How much a word that is cold was added to since the last sum.
    pub(super) fn heat(self) -> u64 {
        self.0 >> HEAT & 63
    }

    /// A word that says where shares are, and in which generation of their place.
    pub(super) fn hot(place: Place, generation: u64, reluctance: u64) -> Self {
        Self(generation << GENERATION | reluctance.min(MOST) << INDEX_END | place.bits())
    }

    /// The word after a sum while it is cold, if it is to change: the heat is of the adds since that sum.
    pub(super) fn cooled(self) -> Option<Self> {
        let State::Cold(value) = self.state() else {
            return None;
        };
        match (self.heat(), self.reluctance()) {
            (0, 0) => None,
            (0, reluctance) => Self::cold(value, reluctance - 1),
            (_, reluctance) => Self::cold(value, reluctance),
        }
    }

    /// By which power of two more quiet sums than usual it takes to make it cold.
    pub(super) fn reluctance(self) -> u64 {
        match self.state() {
            State::Cold(_) => self.0 >> GENERATION,
            State::Hot(_) | State::Draining(_) => self.0 >> INDEX_END & 15,
        }
    }

    /// In which generation of their place shares are.
    pub(super) fn generation(self) -> u64 {
        self.0 >> GENERATION
    }

    /// The word while the shares of a hot counter are about to be taken back.
    pub(super) fn draining(self) -> Self {
        match self.state() {
            State::Hot(place) => Self(
                self.0 >> INDEX_END << INDEX_END
                    | place.bits() & INDEX
                    | (place.bits() & LOW) << CHUNK
                    | DRAINING,
            ),
            _ => self,
        }
    }

    /// The word of a hot counter whose shares are not to be taken back after all.
    pub(super) fn kept(self) -> Self {
        match self.state() {
            State::Draining(place) | State::Hot(place) => {
                Self(self.0 >> INDEX_END << INDEX_END | place.bits())
            }
            State::Cold(_) => self,
        }
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_state_says_what_was_put_there() {
        for number in [0, 1, 63, 64, 1000, 1 << 20, (1 << 32) - 1] {
            let place = Place::numbered(number);
            for value in [0, 1, -1, 12345, (1 << 29) - 1, -(1 << 29)] {
                let cold = Word::cold(value, 3).expect("fits");
                assert_eq!(cold.state(), State::Cold(value));
                assert_eq!(cold.place_if_hot().chunk(), 0);
                assert_eq!(cold.reluctance(), 3);
                for generation in [0, 1, 0xffff] {
                    let hot = Word::hot(place, generation, 5);
                    assert_eq!(hot.state(), State::Hot(place));
                    assert_eq!(hot.draining().state(), State::Draining(place));
                    assert_eq!(hot.draining().place_if_hot().chunk(), 0);
                    assert_eq!(hot.draining().kept(), hot);
                    assert_eq!(hot.place_if_hot().id(), number);
                    assert_eq!(hot.generation(), generation);
                    assert_eq!(hot.draining().generation(), generation);
                    assert_eq!((hot.reluctance(), hot.draining().reluctance()), (5, 5));
                }
            }
        }
        for value in [1 << 29, -(1 << 29) - 1, i64::MAX, i64::MIN] {
            assert_eq!(Word::cold(value, 0), None);
        }
    }

    #[test]
    fn one_thread_makes_it_hot_with_64_adds_and_two_with_8_turns() {
        let adds = |who: fn(u64) -> u64| {
            let mut word = Word::ZERO;
            (0..).find(|add| match word.added(1, who(*add)) {
                Some(added) => {
                    word = added;
                    assert_eq!(word.state(), State::Cold(*add as i64 + 1));
                    false
                }
                None => true,
            })
        };
        assert_eq!(adds(|_| 5), Some(63));
        assert_eq!(adds(|add| add % 2), Some(8));
    }

    #[test]
    fn sums_that_find_it_quiet_lower_the_reluctance() {
        let reluctant = Word::cold(7, MOST + 1).expect("fits");
        let added = reluctant.added(1, 3).expect("not hot");
        assert_eq!((reluctant.reluctance(), added.reluctance()), (MOST, MOST));
        let summed = added.cooled().expect("it has heat");
        assert_eq!((summed.heat(), summed.reluctance()), (0, MOST));
        let all = core::iter::successors(Some(summed), |word| word.cooled());
        assert_eq!(all.count() as u64, MOST + 1);
    }
}
