//! The one word that a counter is until it is contended or hot, and that says where its shares are from then on.
//!
//! | bits | cold: the word is the value | hot: the value is in shares | draining: shares are about to be taken back |
//! |---|---|---|---|
//! | 0–4 | 0 | the chunk of the place, not 0 | 0 |
//! | 5 | 0 | 0 | 1 |
//! | 6–7 | heat | how many sums in a row found nothing new | 0 |
//! | 8–11 | heat | 0 | the chunk |
//! | 12–17 | who added last | the index of the share | the same |
//! | 18–43 | the value, from here to 47 | the index, to here | the same |
//! | 44–47 | | a few bits of the last sum | 0 |
//! | 48–63 | generation | the same | the same |
//!
//! Whoever adds looks at the lowest bits as if the word were hot: chunk 0 is one that no row has, so that a word which
//! is not costs the fast path no test. The *generation* counts how often shares were made for the counter: a walk over
//! shares finds out by it that they were taken back meanwhile, though the same place may have been given again.

use super::ids::{CHUNKS, Place};

const DRAINING: u64 = 1 << 5;
const HEAT: u32 = 6;
const QUIET: u32 = 6;
const LAST: u32 = 12;
const VALUE: u32 = 18;
const CHECK: u32 = 44;
const GENERATION: u32 = 48;
/// Where a draining word keeps the chunk.
const CHUNK: u32 = 7;

const LOW: u64 = CHUNKS as u64 - 1;
const INDEX: u64 = ((1 << CHECK) - 1) & !((1 << LAST) - 1);

/// A counter becomes hot when it is added to so often between two sums; or for so many changes of thread, times
/// [`CHANGE`].
#[cfg(not(percolog_loom))]
pub(super) const HOT: u64 = 64;
#[cfg(percolog_loom)]
pub(super) const HOT: u64 = 3;

/// What a change of the adding thread counts for: it moves a line.
const CHANGE: u64 = 8;

/// A counter that is hot becomes cold when so many sums in a row find what the one before them found.
#[cfg(not(percolog_loom))]
pub(super) const COOL: u64 = 3;
#[cfg(percolog_loom)]
pub(super) const COOL: u64 = 2;

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
        // The lowest 12 bits beside the chunk are not looked at by `Place`; those from `CHECK` on are shifted out.
        const ABOVE: u32 = 64 - CHECK;
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

    /// A word that says this value, and keeps the generation; `None` if it does not fit.
    pub(super) fn cold(self, value: i64) -> Option<Self> {
        let word = Self(
            self.0 >> GENERATION << GENERATION
                | ((value as u64) << VALUE & ((1 << GENERATION) - 1)),
        );
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
        let added = self.cold(value.checked_add(amount)?)?;
        Some(Self(added.0 | heat << HEAT | who << LAST))
    }

    /// How much a word that is cold was added to since the last sum.
    pub(super) fn heat(self) -> u64 {
        self.0 >> HEAT & 63
    }

    /// A word that says where shares have been made for a counter that was cold.
    pub(super) fn hot(self, place: Place) -> Self {
        let generation = (self.0 >> GENERATION).wrapping_add(1);
        Self(generation << GENERATION | place.bits())
    }

    /// Whether both say the same place in the same generation, though one of them may be draining.
    pub(super) fn has_shares_of(self, other: Self) -> bool {
        let shares = |word: Self| match word.state() {
            State::Cold(_) => None,
            State::Hot(place) | State::Draining(place) => Some((place, word.0 >> GENERATION)),
        };
        shares(self).is_some() && shares(self) == shares(other)
    }

    /// The word after a sum that found `sum`, and pending parts as at the last sum or not.
    pub(super) fn summed(self, sum: i64, unchanged: bool) -> Self {
        let State::Hot(place) = self.state() else {
            return self;
        };
        // A few bits that depend on all bits of the sum.
        let check = (sum as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
        let same = unchanged && self.0 >> CHECK & 15 == check;
        let quiet = if same {
            (self.quiet() + 1).min(COOL)
        } else {
            0
        };
        Self(self.0 >> GENERATION << GENERATION | check << CHECK | quiet << QUIET | place.bits())
    }

    fn quiet(self) -> u64 {
        self.0 >> QUIET & 3
    }

    /// Whether it is hot, and so many sums found nothing new that it should be cold.
    pub(super) fn is_cool(self) -> bool {
        matches!(self.state(), State::Hot(_)) && self.quiet() == COOL
    }

    /// The word while the shares of a hot counter are about to be taken back.
    pub(super) fn draining(self) -> Self {
        match self.state() {
            State::Hot(place) => Self(
                self.0 >> GENERATION << GENERATION
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
                Self(self.0 >> GENERATION << GENERATION | place.bits())
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
                let cold = Word::ZERO.cold(value).expect("fits");
                assert_eq!(cold.state(), State::Cold(value));
                assert_eq!(cold.place_if_hot().chunk(), 0);
                let hot = cold.hot(place);
                assert_eq!(hot.state(), State::Hot(place));
                for word in [hot, hot.summed(value, true), hot.summed(value, false)] {
                    assert_eq!(word.state(), State::Hot(place));
                    assert!(word.has_shares_of(hot) && word.has_shares_of(word.draining()));
                    assert_eq!(word.draining().state(), State::Draining(place));
                    assert_eq!(word.draining().place_if_hot().chunk(), 0);
                    assert_eq!(word.draining().kept(), hot);
                    assert_eq!(word.place_if_hot().id(), number);
                }
                // Another generation is another one, though the place is the same.
                let again = hot.cold(value).expect("fits").hot(place);
                assert!(!again.has_shares_of(hot) && !cold.has_shares_of(cold));
            }
        }
        for value in [1 << 29, -(1 << 29) - 1, i64::MAX, i64::MIN] {
            assert_eq!(Word::ZERO.cold(value), None);
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
    fn three_sums_of_the_same_make_it_cool() {
        let hot = Word::ZERO.hot(Place::numbered(7));
        let once = hot.summed(5, false);
        let thrice = once.summed(5, true).summed(5, true).summed(5, true);
        assert!(thrice.is_cool() && thrice.summed(5, true).is_cool());
        assert!(!once.summed(5, true).summed(5, true).is_cool());
        assert!(!thrice.summed(6, true).is_cool() && !thrice.summed(5, false).is_cool());
    }
}
