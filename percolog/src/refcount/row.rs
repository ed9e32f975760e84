//! What one thread has added to counts since it was last taken from it.

use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::biased_lock::BiasedLock;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use core::ptr;

use super::candidates::Candidates;
use super::count::{Count, Then};

/// How many counts a row can have something for. One more that falls on the same way pushes the other out.
#[cfg(not(percolog_loom))]
pub(super) const WAYS: usize = 1024;
/// As few as a model can go through: everything falls on one.
#[cfg(percolog_loom)]
pub(super) const WAYS: usize = 1;

const WORDS: usize = WAYS.div_ceil(64);

/// How many bytes may die on a row before its thread looks for what is dead.
pub(super) const BUDGET: i64 = 4 << 20;
/// What an object takes from the budget at least: 4096 small ones are one budget.
pub(super) const LEAST_WEIGHT: u32 = 1024;

/// What is taken from the budget for a value of which nobody can say how large it is: the cold reference was given up.
const LAST_COLD_WEIGHT: u32 = 64 << 10;

/// A place for one count.
///
/// Both words are written by one thread at a time, who has the row, and read by the collector at any time. `word` is
/// `version << 16 | NOTHING + amount`, and each change of either makes the version larger by one or more: who finds both as they
/// were finds that nothing happened in between. (Versions have 48 bits: at an update a nanosecond they come round after
/// three days, and the collector would have to be stopped between two looks for exactly so long.)
#[derive(Debug)]
struct Way {
    key: AtomicPtr<Count>,
    word: AtomicU64,
}

/// The amount zero: half of what the amount's bits can be, so that one is added or taken away by an addition to the word.
const NOTHING: u64 = 1 << 15;

/// What a way shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    key: usize,
    word: u64,
}

impl Default for Seen {
    /// As in a row that was just made.
    fn default() -> Self {
        Self {
            key: 0,
            word: NOTHING,
        }
    }
}

impl Seen {
    /// What the row has for the count.
    pub(super) fn amount_for(self, count: &Count) -> i16 {
        if self.key == count.key() as usize {
            amount(self.word)
        } else {
            0
        }
    }
}

#[inline(always)]
const fn amount(word: u64) -> i16 {
    (word ^ NOTHING) as u16 as i16
}

/// Whether the amount is no more than half of what it can be.
#[inline(always)]
const fn has_room(word: u64) -> bool {
    (word as u16).wrapping_sub(1 << 14) < 1 << 15
}

/// The word with one more or less, a version later. It has room.
#[inline(always)]
const fn next(word: u64, one: i16) -> u64 {
    // The amount's bits do not overflow: what they are less is part of the sum.
    word.wrapping_add_signed((1 << 16) + one as i64)
}

/// The word with nothing, a version later.
#[inline(always)]
const fn emptied(word: u64) -> u64 {
    ((word >> 16).wrapping_add(1) << 16) | NOTHING
}

/// One thread's row.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Row {
    /// Who has the row: its thread, or who visits. What is left of the budget lies within.
    pub(super) lock: BiasedLock<i64>,
    /// Which ways are taken.
    taken: [AtomicU64; WORDS],
    ways: [Way; WAYS],
}

impl Row {
    pub(super) fn new() -> Self {
        Self {
            lock: BiasedLock::new(BUDGET),
            taken: core::array::from_fn(|_| AtomicU64::new(0)),
            ways: core::array::from_fn(|_| Way {
                key: AtomicPtr::new(ptr::null_mut()),
                word: AtomicU64::new(NOTHING),
            }),
        }
    }

    /// Where a count has its place in each row.
    #[inline(always)]
    fn place(count: &Count) -> usize {
        // Objects of one size lie at regular distances: their low bits say little.
        let spread = (count.key() as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> 48) as usize % WAYS
    }

    /// Adds 1 or −1. Returns what is left to do for the caller.
    ///
    /// # Safety
    /// The caller owns the row, has a reference that the count counts, and gives one up if `one` is negative.
    #[inline]
    pub(super) unsafe fn add(
        &self,
        mode: BarrierMode,
        count: &Count,
        one: i16,
        candidates: &Candidates,
    ) -> Then {
        // SAFETY: the caller owns the row, and nothing below comes back here.
        let mut owned = unsafe { self.lock.own(mode) };
        let Some((way, word)) = self.way_of(count, candidates) else {
            return count.add_ordinary(one);
        };
        let now = next(word, one);
        // Release: what the caller did with the object before it gives up its reference comes before what is done at
        // zero; and who sees this sees what led to it: `collector`, "Why it is zero".
        way.word.store(now, Ordering::Release);
        if one > 0 {
            Self::refund(owned.get(), count, now);
            return Then::Nothing;
        }
        if amount(now) >= 0 {
            return Then::Nothing;
        }
        // Only what takes more away than this row has added can be the last: see `collector`.
        Self::spend(owned.get(), count.weight())
    }

    /// One was added, which leaves a way with this word: was it to what had taken more away than the row has added, then what that took from
    /// the budget is given back. Else who clones and drops again and again beside one more drop would make rounds for nothing.
    #[inline(always)]
    fn refund(budget: &mut i64, count: &Count, now: u64) {
        if amount(now) <= 0 {
            *budget = (*budget + i64::from(count.weight())).min(BUDGET);
        }
    }

    fn spend(budget: &mut i64, weight: u32) -> Then {
        *budget -= i64::from(weight);
        if *budget > 0 {
            return Then::Nothing;
        }
        *budget = BUDGET;
        Then::Look
    }

    /// Takes from the budget what a cold reference costs that was the last one of a hot count.
    ///
    /// # Safety
    /// The caller owns the row.
    pub(super) unsafe fn charge(&self, mode: BarrierMode) -> Then {
        // SAFETY: the caller owns the row.
        Self::spend(unsafe { self.lock.own(mode) }.get(), LAST_COLD_WEIGHT)
    }

    /// Adds 1 if `accepts` says so, to what `look` sees once it is there: what it sees is of a moment at which whoever counts
    /// finds the 1, or is yet to put up whatever `look` would see. Returns that; or nothing, if the count is ordinary: then nothing
    /// happened.
    ///
    /// # Safety
    /// The caller owns the row, the count is not freed before this returns, and the two functions do not come back here. If
    /// the caller has no hot reference, `accepts` says no where there is no share.
    #[inline(always)]
    pub(super) unsafe fn add_if<S>(
        &self,
        mode: BarrierMode,
        count: &Count,
        candidates: &Candidates,
        look: impl Fn() -> S,
        accepts: impl Fn(&S) -> bool,
    ) -> Option<S> {
        // SAFETY: the caller owns the row, and nothing below comes back here.
        let mut owned = unsafe { self.lock.own(mode) };
        let (way, word) = self.way_of(count, candidates)?;
        let with = next(word, 1);
        way.word.store(with, Ordering::Release);
        // Pairs with the heavy barriers in `Collector::check` and `Collector::with_all_rows`: whoever is about to count sees what
        // was added, or this sees what that thread has put up.
        barrier::light(mode);
        let seen = look();
        if accepts(&seen) {
            Self::refund(owned.get(), count, with);
        } else {
            // Given back while the row is still this thread's, so that the two never come apart.
            way.word.store(next(with, -1), Ordering::Release);
        }
        Some(seen)
    }

    /// The count's way and what it holds, with room for one more; none if the count is ordinary. The caller owns the row.
    ///
    /// A count that has its way is not ordinary: when it becomes so it [loses](Self::leave) all that it has. So nobody
    /// looks who finds it there.
    #[inline(always)]
    fn way_of(&self, count: &Count, candidates: &Candidates) -> Option<(&Way, u64)> {
        let place = Self::place(count);
        let way = &self.ways[place];
        // Relaxed, both: only who has the row writes them.
        let word = way.word.load(Ordering::Relaxed);
        if way.key.load(Ordering::Relaxed) == count.key() && has_room(word) {
            return Some((way, word));
        }
        let word = self.make_room(place, count, candidates)?;
        Some((way, word))
    }

    #[cold]
    fn make_room(&self, place: usize, count: &Count, candidates: &Candidates) -> Option<u64> {
        if count.is_ordinary() {
            return None;
        }
        self.empty(place, candidates);
        let way = &self.ways[place];
        // Release: as the word, which tells of it.
        way.key.store(count.key(), Ordering::Release);
        // Relaxed: only who has the row writes it, and the collector looks again while it has the row.
        let taken = &self.taken[place / 64];
        taken.store(
            taken.load(Ordering::Relaxed) | 1 << (place % 64),
            Ordering::Relaxed,
        );
        // Relaxed: only who has the row writes it.
        Some(way.word.load(Ordering::Relaxed))
    }

    /// Takes from the row what it has for a count, and the count's way. The caller has the row, and keeps it until the count
    /// is ordinary.
    pub(super) fn leave(&self, count: &Count) -> i64 {
        let way = &self.ways[Self::place(count)];
        // Relaxed, both: only who has the row writes them.
        if way.key.load(Ordering::Relaxed) != count.key() {
            return 0;
        }
        let word = way.word.load(Ordering::Relaxed);
        // Release, both: as in `empty_all`.
        way.word.store(emptied(word), Ordering::Release);
        way.key.store(ptr::null_mut(), Ordering::Release);
        i64::from(amount(word))
    }

    /// Gives up what the row has at this place. The caller has the row.
    fn empty(&self, place: usize, candidates: &Candidates) {
        let way = &self.ways[place];
        // Relaxed, both: only who has the row writes them.
        let word = way.word.load(Ordering::Relaxed);
        let there = amount(word);
        if there != 0 {
            // SAFETY: a count for which a row has something is not found dead, so it is alive; and the row has it until
            // the store below.
            let count = unsafe { &*way.key.load(Ordering::Relaxed) };
            if count.move_here(i64::from(there)) {
                candidates.add(count);
            }
        }
        // From here on the count may be found dead, and freed. Release: who sees that the row has nothing sees that
        // `central` has it.
        way.word.store(emptied(word), Ordering::Release);
    }

    /// Whether the row has nothing, as far as can be seen from outside.
    pub(super) fn looks_empty(&self) -> bool {
        // Relaxed: what is missed is found next time.
        self.taken
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Gives up all that the row has. The caller has the row.
    pub(super) fn empty_all(&self, candidates: &Candidates) {
        for (at, word) in self.taken.iter().enumerate() {
            // Relaxed, both: only who has the row writes it.
            let mut taken = word.load(Ordering::Relaxed);
            word.store(0, Ordering::Relaxed);
            while taken != 0 {
                let place = at * 64 + taken.trailing_zeros() as usize;
                self.empty(place, candidates);
                // Release: as the word, which has told of it.
                self.ways[place]
                    .key
                    .store(ptr::null_mut(), Ordering::Release);
                taken &= taken - 1;
            }
        }
    }

    /// What the row shows of a count, at any time.
    pub(super) fn look(&self, count: &Count) -> Seen {
        let way = &self.ways[Self::place(count)];
        // Acquire, both: pair with the Release stores above. The key is read first: if it was replaced since, the
        // version that follows is newer than what a second look can find with this key.
        let key = way.key.load(Ordering::Acquire) as usize;
        let word = way.word.load(Ordering::Acquire);
        Seen { key, word }
    }
}
