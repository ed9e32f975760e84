//! Whether an object's updates are executed at once or deferred, and how the object learns which is better.
//!
//! An update of an *eager* object takes the object's lock if that is free, and executes its operation in
//! place. Where the lock is taken it is appended to the slot's queue, as in a *deferring* object. So an eager
//! object can have operations in its queues at any time, and whoever has its lock must execute those
//! first. Looking at all marks each time would cost more than the update; so in an eager object who sets
//! a mark also sets [`DIRTY`], beside the lock.
//!
//! **Why nothing is overtaken.** Suppose update *x* was appended and returned before *y* was called, and *y*
//! holds the lock of an object that is eager. The mark of *x*'s slot had been set before (by *x*, or by
//! another update in that queue), and then the mode was looked at. If it was eager, `DIRTY` was set, or found set: *y*
//! finds it, or a holder before *y* has cleared it, and then looked at the marks, behind a fence. If it was deferring, the object became
//! eager afterwards. Between setting the mark and looking at the mode there is a fence, and another one between storing the mode
//! and whatever the holders do from then on: so all of them see the mark. And who makes an object eager
//! sets `DIRTY`, so the next of them looks.
//!
//! The mode is written under the object's lock alone: whoever has the lock knows it, all others have a hint.
//!
//! **What is learnt.** A lock that is handed from thread to thread costs a transfer or two for each update; a log costs its reader several
//! for each slot that has logged. So where at least one in eight updates finds the lock taken, and there are
//! at least [`MANY`] updates between two readers, deferring is tried, and kept if it is faster; see [`Trial`]. A deferring object becomes eager
//! when merges find fewer than [`FEW`] operations several times in succession, or when the last trial is long ago. (Simulated, on 6, 24 and 48
//! cores of an `opteron-48`, a log is as fast as a mutex with 7, 13 and 20 updates between two readers.)

use super::gate::{Gate, POISONED};
use super::limits::Mode;
use super::stats::ModeReason;
use super::trial::Trial;
use crate::sync::atomic::{AtomicU32, Ordering, fence};
use crate::sync::const_fn;

/// The flag of a [`Gate`] that says that there may be something to execute first: a mark has been set since the marks were last looked
/// at while the object was eager, or a batch is left.
pub(super) const DIRTY: u32 = 1;

/// The flag of a [`Gate`] that says that its object is deferring.
const DEFERS: u32 = 2;

/// The flags of a [`Gate`] that keep an update from being executed at once, and a reader from going in without a merge.
pub(super) const KEEPS_WAITING: u32 = POISONED | DIRTY | DEFERS;

/// So many updates between two readers make an eager object deferring, if its lock is contended.
const MANY: u64 = 16;

/// Merges that find fewer operations make a deferring object eager.
const FEW: u64 = 8;

/// In so many merges, less those that found many.
const PATIENCE: u32 = 8;

/// The updates after which an eager object that is contended is judged.
const WINDOW: u64 = 64;

/// The mode an object is in.
#[derive(Debug)]
pub(super) struct Current(AtomicU32);

const EAGER: u32 = 0;
const DEFERRING: u32 = 1;
/// Deferring for a [`Trial`].
const TRIED: u32 = 2;
/// Eager, with a lock that is biased to readers: see [`ReaderMark`](crate::sync::ReaderMark).
const READING: u32 = 3;

/// What is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To execute the operation.
    Execute,
    /// Nothing: it is appended.
    Log,
    /// The same, and counted.
    Try,
    /// To execute the operation, once readers have left.
    ExecuteAmongReaders,
}

impl Current {
    const_fn! {
        pub(super) const fn new(mode: Mode) -> Self {
            Self(AtomicU32::new(match mode {
                Mode::Deferring => DEFERRING,
                _ => EAGER,
            }))
        }
    }

    /// What the flags of the gate of such an object begin with.
    pub(super) const fn flags(mode: Mode) -> u32 {
        match mode {
            Mode::Deferring => DEFERS,
            Mode::Restless => DIRTY,
            Mode::Adaptive | Mode::Eager => 0,
        }
    }

    /// Exact for who holds the object's lock, exclusively or for sharing; a hint for others.
    #[inline(always)]
    pub(super) fn is_eager(&self) -> bool {
        // Relaxed: written under the lock. For others it decides what is tried first.
        matches!(self.0.load(Ordering::Relaxed), EAGER | READING)
    }

    /// Whether it is eager and not biased to readers, so that its lock can be taken at once; the same.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        // Relaxed: as above.
        self.0.load(Ordering::Relaxed) == EAGER
    }

    /// How an update goes about it; the same.
    #[inline(always)]
    pub(super) fn way(&self) -> Way {
        // Relaxed: as above.
        match self.0.load(Ordering::Relaxed) {
            EAGER => Way::Execute,
            DEFERRING => Way::Log,
            READING => Way::ExecuteAmongReaders,
            _ => Way::Try,
        }
    }

    /// Whether readers leave marks; a hint: what counts is the lock's own word.
    #[inline(always)]
    pub(super) fn is_biased(&self) -> bool {
        // Relaxed: as above.
        self.0.load(Ordering::Relaxed) == READING
    }

    /// Makes readers leave marks. For whoever holds the lock of an eager object, in whatever way.
    pub(super) fn bias(&self, gate: &Gate) {
        gate.lock.bias();
        self.0.store(READING, Ordering::Relaxed);
    }

    /// For the exclusive holder of the lock of an eager object, once all readers have left.
    pub(super) fn end_bias(&self, gate: &Gate) {
        self.0.store(EAGER, Ordering::Relaxed);
        gate.lock.end_bias();
    }

    pub(super) fn get(&self) -> Mode {
        if self.is_eager() {
            Mode::Eager
        } else {
            Mode::Deferring
        }
    }

    /// Behind the setting of a mark: lets whoever takes the lock of an eager object know of it.
    #[inline(always)]
    pub(super) fn announce(&self, gate: &Gate) {
        // Pairs with the fences in `make_eager` and `Object::take`; see the module.
        fence(Ordering::SeqCst);
        // Relaxed: if it is set, who clears it sees the mark, by that fence and the one in `Object::take`. Looking first leaves the line
        // with the readers who look at it.
        if self.is_eager() && gate.flags.load(Ordering::Relaxed) & DIRTY == 0 {
            // Release pairs with the Acquire in `Object::take`: who clears this sees the mark.
            gate.flags.fetch_or(DIRTY, Ordering::Release);
        }
    }

    /// For the exclusive holder of the lock.
    pub(super) fn make_eager(&self, gate: &Gate) {
        self.0.store(EAGER, Ordering::Relaxed);
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
        // Relaxed, both: for the next holders of the lock.
        gate.flags.fetch_or(DIRTY, Ordering::Relaxed);
        gate.flags.fetch_and(!DEFERS, Ordering::Relaxed);
    }

    /// For the exclusive holder of the lock. `tried`: for a trial.
    pub(super) fn make_deferring(&self, gate: &Gate, tried: bool) {
        // Relaxed, both: whoever sees it late has a hint that is wrong, and sets a flag that nobody needs.
        gate.flags.fetch_or(DEFERS, Ordering::Relaxed);
        let mode = if tried { TRIED } else { DEFERRING };
        self.0.store(mode, Ordering::Relaxed);
        gate.lock.end_bias();
    }
}

/// What the holders of an object's lock have seen of how it is used.
#[derive(Debug)]
pub(super) struct Learner {
    /// Updates, those among them that found the lock taken, and readers: since the window began.
    began: Use,
    contended: u64,
    /// Merges in succession that speak for being eager.
    cool: u32,
    pub(super) trial: Trial,
    /// For [`Mode::Restless`].
    random: u32,
}

/// How often an object has been used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    /// Updates executed at once.
    pub(super) at_once: u64,
    /// Updates that a merge has found.
    pub(super) merged: u64,
    /// Readers that had the object for themselves.
    pub(super) readers: u64,
}

impl Use {
    pub(super) fn updates(self) -> u64 {
        self.at_once.wrapping_add(self.merged)
    }
}

/// What becomes of a deferring object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is as it was.
    Stay,
    /// It is eager from now on.
    Execute(ModeReason),
    /// What was tried is kept.
    Defer,
}

impl Learner {
    pub(super) const fn new() -> Self {
        Self {
            began: Use {
                at_once: 0,
                merged: 0,
                readers: 0,
            },
            contended: 0,
            cool: 0,
            trial: Trial::new(),
            random: 0x9e37_79b9,
        }
    }

    /// So many of an eager object's updates found the lock taken. Whether deferring should be tried.
    pub(super) fn contended(&mut self, times: u64, now: Use) -> bool {
        self.contended += times;
        let updates = now.updates().wrapping_sub(self.began.updates());
        if updates < WINDOW {
            return false;
        }
        let readers = now.readers.wrapping_sub(self.began.readers);
        let often = self.contended * 8 >= updates;
        let seldom_read = updates >= readers * MANY;
        self.began = now;
        self.contended = 0;
        self.cool = 0;
        if !seldom_read {
            self.trial.forget();
        }
        often && seldom_read
    }

    /// A deferring object was merged, at this moment, and so many updates were found.
    pub(super) fn merged(&mut self, found: u64, now: Use, moment: impl FnOnce() -> u64) -> Verdict {
        if self.trial.is_deferring() {
            return match self.trial.merged(found, now, moment()) {
                None => Verdict::Stay,
                Some(true) => Verdict::Defer,
                Some(false) => self.cooled(now, ModeReason::DeferringWasNotFaster),
            };
        }
        let pays = self.trial.has_paid(now);
        if found >= FEW && pays {
            self.cool = self.cool.saturating_sub(2);
            return Verdict::Stay;
        }
        self.cool += 1;
        if self.cool < PATIENCE {
            return Verdict::Stay;
        }
        if pays {
            return self.cooled(now, ModeReason::FewUpdates);
        }
        self.trial.forget();
        self.cooled(now, ModeReason::TrialIsOld)
    }

    fn cooled(&mut self, now: Use, reason: ModeReason) -> Verdict {
        self.began = now;
        self.contended = 0;
        self.cool = 0;
        self.trial.postpone(now);
        Verdict::Execute(reason)
    }

    /// Whether a restless object changes its mode now.
    pub(super) fn flips(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random.is_multiple_of(3)
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    fn used(at_once: u64, readers: u64) -> Use {
        Use {
            at_once,
            merged: 0,
            readers,
        }
    }

    #[test]
    fn deferring_is_tried_where_updates_are_contended_and_readers_few() {
        let mut learner = Learner::new();
        assert!(!learner.contended(8, used(63, 0)), "too few to tell");
        assert!(learner.contended(1, used(64, 4)));
        assert!(!learner.contended(7, used(128, 4)), "seldom");
        assert!(!learner.contended(64, used(192, 9)), "many readers");
        assert!(learner.contended(8, used(256, 13)));
    }

    #[test]
    fn merges_that_find_little_make_it_eager() {
        let mut learner = Learner::new();
        learner.trial.skip(used(0, 0));
        let mut merged = |found| learner.merged(found, used(0, 0), || 0);
        let (few, many) = (FEW - 1, FEW);
        for _ in 1..PATIENCE {
            assert_eq!(merged(few), Verdict::Stay);
        }
        assert_eq!(merged(many), Verdict::Stay);
        assert_eq!(merged(few), Verdict::Stay);
        assert_eq!(merged(few), Verdict::Stay);
        assert_eq!(merged(few), Verdict::Execute(ModeReason::FewUpdates));
        // That it pays is not known any more.
        for _ in 1..PATIENCE {
            assert_eq!(merged(many), Verdict::Stay);
        }
        assert_eq!(merged(many), Verdict::Execute(ModeReason::TrialIsOld));
    }
}
