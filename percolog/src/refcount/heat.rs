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

/// So many cold clones of a thread, of which one is noted.
#[cfg(not(percolog_loom))]
const NOTED: u8 = 64;

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
/// Two notes with more between them say nothing of each other: 0.2 ms with a clock of 3 GHz, for 64 clones. What is cloned
/// less often costs more time elsewhere.
#[cfg(not(percolog_loom))]
const LONG: u32 = 40;

impl Heat {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Notes a clone, one of [`NOTED`]. Returns whether there is contention.
    #[cfg(not(percolog_loom))]
    pub(super) fn is_contended(&self) -> bool {
        let core = cpu::current().index() as u32 & ((1 << (SCORE - CORE)) - 1);
        let time = (clock::stamp() >> UNIT) as u32 & TIME;
        // Relaxed, as the store: a hint.
        let noted = self.0.load(Ordering::Relaxed);
        let (score, last) = (noted >> SCORE, noted >> CORE & ((1 << (SCORE - CORE)) - 1));
        let score = if time.wrapping_sub(noted) & TIME > LONG {
            0
        } else if core == last {
            score.saturating_sub(1)
        } else {
            score + CHANGE
        };
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
        std::thread_local! {
            /// It has no destructor, and so can be used in a thread's last moments.
            static CLONES: Cell<u8> = const { Cell::new(0) };
        }
        let clones = CLONES.get().wrapping_add(1);
        CLONES.set(clones);
        clones.is_multiple_of(NOTED)
    }
}
