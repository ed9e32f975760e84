//! The two words that a counter consists of beside its batch: its value, and where its shares are.
//!
//! | bits of the *word* | |
//! |---|---|
//! | 0–25 | heat: how much was added to the word since the last sum. It begins so that bit 25 is set when it is enough |
//! | 26 | the shares were moved here, and are about to be cleared |
//! | 28–31 | reluctance |
//! | 32–63 | 2²⁹ and the value, so that bits 62 and 63 are set when it is beyond −2²⁹ … 2²⁹; while the counter is hot, what was added when it was cold |
//!
//! | bits of the *address* | cold | hot | draining: shares are about to be taken back |
//! |---|---|---|---|
//! | 0–4 | 0 | the chunk of the place, not 0 | the same |
//! | 5–30 | who added last | the index of the share | the same |
//! | 31 | 0 | 0 | 1 |
//!
//! *An add to a cold counter is one `fetch_add`*, of the amount and one unit of heat together. Whoever adds has looked at the address before,
//! and at the word never: a load of what was just updated atomically costs as much as the update (it waits until that is in the
//! cache), and a load of its neighbour nothing. So what is to be done about the word is seen in what it was, by one test of some
//! bits, and done after the add. (In a loop that does nothing else either look is free, and both cost two nanoseconds: the next
//! update waits for the branches.) An add that comes late, when the counter is hot already, is counted all the same: the word is
//! part of the sum.
//!
//! *Nothing overflows.* Whoever finds a value beyond 2²⁹, or enough heat, makes the counter hot before it adds again; and amounts
//! beyond 2⁸ are not added in this way. To the end of the value's bits it is 2³⁰ from there: 4 million threads, each with one add.
//! Linux has no numbers for more.
//!
//! While the counter is hot neither word changes: every add reads their line. What sums have to tell each other is in the place's
//! [center](super::center).
//!
//! *Reluctance* says how often the counter became cold and hot again without a sum that found it quiet in between. Each time it takes
//! twice as many quiet sums to make it cold: a gauge that many threads raise and lower again can be found the same for a while by chance.

use super::ids::Place;

const HEAT: u64 = (1 << 26) - 1;
/// Where the heat begins: one more add than this has room for is enough.
const NO_HEAT: u64 = (1 << 25) - (HOT - 1);
const MOVED: u64 = 1 << 26;
const RELUCTANCE: u32 = 28;
const VALUE: u32 = 32;

/// What is set in a word to which one more add is enough.
const FULL: u64 = 3 << 62 | 1 << 25;

/// From here on, in either direction, values are in shares.
const LIMIT: i64 = 1 << 29;
/// Amounts beyond this are added with a look at what comes of it.
const SMALL: i64 = 1 << 8;

/// The most reluctance there is.
#[cfg(not(percolog_loom))]
const MOST: u64 = 10;
#[cfg(percolog_loom)]
const MOST: u64 = 0;

/// A counter that is added to less often between two sums stays cold. A change of thread counts for [`CHANGE`] adds.
#[cfg(not(percolog_loom))]
pub(super) const COLD: u64 = 64;
#[cfg(percolog_loom)]
pub(super) const COLD: u64 = 3;

/// As much heat is left by a sum: taking it out is an atomic update.
#[cfg(not(percolog_loom))]
const LEFT: u64 = 16;
#[cfg(percolog_loom)]
const LEFT: u64 = 0;

/// A counter that is added to so often without a sum becomes hot.
pub(super) const HOT: u64 = COLD + LEFT;

/// What a change of the adding thread counts for: it moves a line.
pub(super) const CHANGE: u64 = 8;

/// The contents of a counter's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    /// A counter that nobody has added to.
    pub(super) const ZERO: Self = Self((LIMIT as u64) << VALUE | NO_HEAT);

    /// What makes a word of it whose shares are cleared, by an *and*.
    pub(super) const SETTLE: u64 = !MOVED;

    #[inline(always)]
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// The value, or what it has of it beside the shares.
    #[inline(always)]
    pub(super) const fn value(self) -> i64 {
        ((self.0 as i64) >> VALUE) - LIMIT
    }

    /// How much it was added to since the last sum.
    pub(super) const fn heat(self) -> u64 {
        (self.0 & HEAT) - NO_HEAT
    }

    /// Whether the shares, wherever they are, are part of the value already.
    pub(super) const fn is_moved(self) -> bool {
        self.0 & MOVED != 0
    }

    /// By which power of two more quiet sums than usual it takes to make it cold.
    pub(super) const fn reluctance(self) -> u64 {
        self.0 >> RELUCTANCE & 15
    }

    /// Whether an amount is added without a look at what comes of it.
    #[inline(always)]
    pub(super) const fn is_small(amount: i64) -> bool {
        amount.wrapping_add(SMALL) as u64 <= 2 * SMALL as u64
    }

    /// What adds a small amount to a word, and so much heat.
    #[inline(always)]
    pub(super) const fn step(amount: i64, heat: u64) -> u64 {
        ((amount as u64) << VALUE).wrapping_add(heat)
    }

    /// Whether a counter is to become hot whose word was this before an add.
    #[inline(always)]
    pub(super) const fn is_full(self) -> bool {
        self.0 & FULL != 0
    }

    /// The same, before one with so much heat.
    pub(super) const fn is_full_after(self, heat: u64) -> bool {
        self.is_full() || self.heat() + heat >= HOT
    }

    /// With another value and no heat; `None` if it does not fit.
    pub(super) fn with(self, value: i64) -> Option<Self> {
        const KEPT: u64 = ((1 << VALUE) - 1) & !HEAT;
        (-LIMIT..LIMIT)
            .contains(&value)
            .then(|| Self(((value + LIMIT) as u64) << VALUE | self.0 & KEPT | NO_HEAT))
    }

    /// After an add of any amount, with so much heat; `None` if it does not fit.
    pub(super) fn added(self, amount: i64, heat: u64) -> Option<Self> {
        let added = self.with(self.value().checked_add(amount)?)?;
        Some(Self(added.0 + self.heat() + heat))
    }

    /// With what was in the shares; `None` if it does not fit.
    pub(super) fn moved(self, shares: i64) -> Option<Self> {
        let moved = self.with(self.value().checked_add(shares)?)?;
        let more = u64::from(self.reluctance() < MOST) << RELUCTANCE;
        Some(Self((moved.0 | MOVED) + more))
    }

    /// Whether a sum changes nothing. `false` says nothing.
    #[inline(always)]
    pub(super) const fn is_left_by_sums(self) -> bool {
        self.0 & ((1 << VALUE) - 1) <= NO_HEAT + LEFT
    }

    /// After a sum, if that changes it.
    pub(super) fn summed(self) -> Option<Self> {
        if self.heat() > LEFT || self.heat() != 0 && self.reluctance() != 0 {
            Some(Self(self.0 - self.heat()))
        } else {
            (self.reluctance() != 0).then(|| Self(self.0 - (1 << RELUCTANCE)))
        }
    }
}

/// Where a counter's shares are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address(u32);

/// What an address says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Cold,
    Hot(Place),
    Draining(Place),
}

const DRAINING: u32 = 1 << 31;

impl Address {
    /// Of a cold counter that `who` added to last.
    #[inline(always)]
    pub(super) const fn cold(who: usize) -> Self {
        Self((who as u32) << super::ids::INDEX)
    }

    /// Of a counter that has shares.
    pub(super) fn hot(place: Place) -> Self {
        let bits = u32::try_from(place.bits()).unwrap_or(DRAINING);
        assert!(bits < DRAINING, "more than 134 million counters are hot");
        Self(bits)
    }

    /// While the shares are about to be taken back.
    pub(super) fn draining(place: Place) -> Self {
        Self(Self::hot(place).0 | DRAINING)
    }

    #[inline(always)]
    pub(super) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// Where the shares are if it is hot; for one that is cold a place that no row has.
    #[inline(always)]
    pub(super) fn place_if_hot(self) -> Option<Place> {
        (self.0 & DRAINING == 0).then(|| Place::from_bits(u64::from(self.0)))
    }

    #[inline(always)]
    pub(super) fn state(self) -> State {
        let place = Place::from_bits(u64::from(self.0 & !DRAINING));
        if place.chunk() == 0 {
            State::Cold
        } else if self.0 & DRAINING == 0 {
            State::Hot(place)
        } else {
            State::Draining(place)
        }
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_what_was_put_there() {
        for number in [0, 1, 63, 64, 1000, 1 << 20, 64 * ((1 << 21) - 1) - 1] {
            let place = Place::numbered(number);
            let (hot, draining) = (Address::hot(place), Address::draining(place));
            assert_eq!(hot.state(), State::Hot(place));
            assert_eq!(hot.place_if_hot(), Some(place));
            assert_eq!(draining.state(), State::Draining(place));
            assert_eq!(draining.place_if_hot(), None);
        }
        for who in [0, 1, 511, 512] {
            let cold = Address::cold(who);
            assert_eq!(cold.state(), State::Cold);
            assert_eq!(cold.place_if_hot().map(Place::chunk), Some(0));
            assert_ne!(cold, Address::cold(who + 1));
        }
    }

    #[test]
    fn a_step_changes_the_value_and_the_heat_alone() {
        let begin = Word(Word::ZERO.0 | 9 << RELUCTANCE | MOVED);
        for value in [0, 1, -1, 12345, LIMIT - 1, -LIMIT] {
            let word = begin.with(value).expect("fits");
            assert!(!word.is_full());
            for (amount, heat) in [(0, 1), (1, 1), (-1, CHANGE), (SMALL, 1), (-SMALL, 1)] {
                let after = Word(word.0.wrapping_add(Word::step(amount, heat)));
                assert_eq!((after.value(), after.heat()), (value + amount, heat));
                assert_eq!((after.reluctance(), after.is_moved()), (9, true));
                let fits = (-LIMIT..LIMIT).contains(&(value + amount));
                assert_eq!(
                    (word.added(amount, heat), after.is_full()),
                    (fits.then_some(after), !fits)
                );
            }
        }
        for value in [LIMIT, -LIMIT - 1, i64::MAX, i64::MIN] {
            assert_eq!((begin.with(value), begin.added(value, 1)), (None, None));
        }
        for amount in [SMALL + 1, -SMALL - 1, i64::MAX, i64::MIN] {
            assert!(!Word::is_small(amount) && Word::is_small(amount.signum() * SMALL));
        }
    }

    /// As many late adds as there can be threads, each of the most that is added without a look, and with the most heat.
    #[test]
    fn late_adds_do_not_overflow() {
        const THREADS: i64 = 1 << 22;
        for limit in [LIMIT - 1, -LIMIT] {
            let word = Word::ZERO.added(limit, HOT - 2).expect("fits");
            assert!(!word.is_full());
            let amount = (limit | 1).signum() * SMALL;
            let mut after = word;
            for add in 1..=THREADS {
                after = Word(after.0.wrapping_add(Word::step(amount, CHANGE)));
                assert!(after.is_full());
                if add.count_ones() == 1 {
                    assert_eq!(after.value(), limit + add * amount);
                    assert_eq!(after.heat(), HOT - 2 + CHANGE * add as u64);
                    assert!(after.reluctance() == 0 && !after.is_moved());
                }
            }
        }
        let warm = Word::ZERO.added(0, HOT - 2).expect("fits");
        assert!(!warm.is_full() && !warm.is_full_after(1) && warm.is_full_after(2));
        let hot = warm.added(0, 1).expect("fits");
        assert!(hot.is_full() && hot.is_full_after(1));
    }

    #[test]
    fn sums_that_find_it_quiet_lower_the_reluctance() {
        let moved = |word: Word| word.moved(0).expect("fits");
        let reluctant = (0..=MOST).fold(Word::ZERO, |word, _| moved(word));
        assert!(reluctant.is_moved() && !Word(reluctant.0 & Word::SETTLE).is_moved());
        let added = reluctant.added(7, 5).expect("fits");
        assert_eq!((reluctant.reluctance(), added.reluctance()), (MOST, MOST));
        assert_eq!((moved(added).heat(), moved(added).value()), (0, 7));
        let mut word = Word(added.0 & Word::SETTLE);
        // The first one takes out the heat.
        for sums in 0..=MOST {
            assert!(!word.is_left_by_sums());
            assert_eq!(word.reluctance(), MOST + 1 - sums.max(1));
            word = word.summed().expect("it is reluctant");
            assert_eq!((word.heat(), word.value()), (0, 7));
        }
        assert!(word.is_left_by_sums() && word.reluctance() == 0);
        for (heat, is_left) in [(0, true), (LEFT, true), (LEFT + 1, false)] {
            let word = Word::ZERO.added(-7, heat).expect("fits");
            assert_eq!(word.is_left_by_sums(), is_left);
            assert_eq!(word.summed().is_none(), is_left);
            // While shares are being cleared.
            assert_eq!(Word(word.0 | MOVED).summed().is_none(), is_left);
        }
    }
}
