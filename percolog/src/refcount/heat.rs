//! When a count becomes hot, and when it is cold again: whether its clones come from several cores, quickly one after the other.

#[cfg(not(percolog_loom))]
use crate::cpu::{self, clock};
use crate::sync::global::AtomicU32;
#[cfg(not(percolog_loom))]
use crate::sync::global::Ordering;
#[cfg(not(percolog_loom))]
use core::cell::Cell;

/// While it is cold, what some of the clones have noted, for those that come later: `score`, `core` and `time`, as far as there are bits. Notes that
/// are lost or mixed up make a count hot a little sooner or later. While it is hot, `score` says how many rounds in succession have found it idle.
#[derive(Debug)]
pub(super) struct Heat(AtomicU32);

#[cfg(not(percolog_loom))]
const SCORE: u32 = 26;
#[cfg(not(percolog_loom))]
const CORE: u32 = 14;
#[cfg(not(percolog_loom))]
const TIME: u32 = (1 << CORE) - 1;

/// One of so many cold clones of a thread is noted, on average.
#[cfg(not(percolog_loom))]
const NOTED: u32 = 16;

/// What a change of the core counts for. One that is followed by a note of the same core counts for less.
#[cfg(not(percolog_loom))]
const CHANGE: u32 = 4;
/// With so much it is contended: 8 changes of the core, or more.
#[cfg(not(percolog_loom))]
const CONTENDED: u32 = 1 << 5;

/// So many rounds in succession have to find no hot reference until a count with a cold one is cold.
#[cfg(not(percolog_loom))]
const IDLE: u32 = 60;
#[cfg(not(percolog_loom))]
const _: () = assert!(IDLE < 1 << (u32::BITS - SCORE) && CONTENDED < 1 << (u32::BITS - SCORE));

/// The clock's ticks in a unit of time, by their binary logarithm.
#[cfg(not(percolog_loom))]
const UNIT: u32 = 14;
/// Two changes of the core with more between them say nothing of each other: 0.5 ms with a clock of 3 GHz, for 16 clones or more. What is cloned
/// less often costs more time elsewhere.
#[cfg(not(percolog_loom))]
const LONG: u32 = 100;

impl Heat {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Notes a clone, one of [`NOTED`], and draws the next one. Returns whether there is contention.
    #[cfg(not(percolog_loom))]
    pub(super) fn is_contended(&self) -> bool {
        const CORES: u32 = (1 << (SCORE - CORE)) - 1;
        draw();
        let core = cpu::current().index() as u32 & CORES;
        // Relaxed, as the stores: a hint.
        let noted = self.0.load(Ordering::Relaxed);
        let score = noted >> SCORE;
        if noted >> CORE & CORES == core {
            // What one core clones all the time writes nothing here, and looks at no clock.
            if score > 0 {
                self.0.store(noted - (1 << SCORE), Ordering::Relaxed);
            }
            return false;
        }
        let time = (clock::stamp() >> UNIT) as u32 & TIME;
        let is_soon = time.wrapping_sub(noted) & TIME <= LONG;
        let score = if is_soon { score + CHANGE } else { 0 };
        let is_contended = score >= CONTENDED;
        let score = if is_contended { 0 } else { score };
        self.0
            .store(score << SCORE | core << CORE | time, Ordering::Relaxed);
        is_contended
    }

    /// Notes what a round has found of a count that is hot. Returns whether it was idle for many.
    #[cfg(not(percolog_loom))]
    pub(super) fn is_idle(&self, is_idle: bool) -> bool {
        // Relaxed, as the store: one thread at a time has the rounds, and what clones note besides is a hint.
        let noted = self.0.load(Ordering::Relaxed);
        let score = if is_idle { (noted >> SCORE) + 1 } else { 0 };
        let was_idle = score >= IDLE;
        let score = if was_idle { 0 } else { score };
        self.0.store(
            score << SCORE | noted & ((1 << SCORE) - 1),
            Ordering::Relaxed,
        );
        was_idle
    }

    /// In models at once.
    #[cfg(percolog_loom)]
    pub(super) fn is_idle(&self, is_idle: bool) -> bool {
        is_idle
    }

    /// Models say themselves what becomes hot.
    #[cfg(percolog_loom)]
    pub(super) fn is_contended(&self) -> bool {
        false
    }
}

/// Whether a cold clone that this thread makes is one of those to be noted: one of [`NOTED`]. Each thread counts its own, whatever they are of, since
/// a count of each object's would be one more line to wait for where it is contended.
#[inline(always)]
pub(super) fn is_noted() -> bool {
    #[cfg(percolog_loom)]
    return false;
    #[cfg(not(percolog_loom))]
    {
        let left = LEFT.get();
        LEFT.set(left.wrapping_sub(1));
        left == 0
    }
}

#[cfg(not(percolog_loom))]
std::thread_local! {
    /// So many cold clones of this thread until one is noted. It has no destructor, and so can be used in a thread's last moments.
    static LEFT: Cell<u32> = const { Cell::new(NOTED) };
    /// What the next number of them is drawn from.
    static RANDOM: Cell<u32> = const { Cell::new(0x9e37_79b9) };
}

/// Draws how many clones go by until one is noted: who clones values in turn would note the same few for ever if it was always the same.
#[cfg(not(percolog_loom))]
fn draw() {
    let mut random = RANDOM.get();
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    RANDOM.set(random);
    LEFT.set(random % (2 * NOTED - 1));
}
