//! Whether deferring pays: it is tried, and timed.
//!
//! A log costs what appending and merging take, and saves what a lock costs that goes from thread to thread, and what need not be executed because
//! other operations absorb it. Either can be several times the other, depending on the machine, the operations, and who uses the
//! object. So an eager object that is contended, or whose operations absorb, times some of its updates, reads between them
//! included; then it defers, times that from one merge to another, so that all is in it that comes again and again, and goes on
//! with what was faster.

use super::mode::Use;

/// Updates that are timed in either mode, at least.
pub(super) const SAMPLE: u64 = 128;

/// Merges whose updates are timed, at most.
const MERGES: u32 = 16;

/// Updates from one trial to the next; twice as many each time that nothing was saved.
const FIRST: u64 = 4096;

/// At most so many; and so many after a trial that saved something, it is time for another one.
const RARELY: u64 = 1 << 20;

/// A comparison of both modes. Everything is done by the holder of the object's lock.
#[derive(Debug)]
pub(super) struct Trial {
    /// At how many updates executed the next step is due.
    next: u64,
    every: u64,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// None has been made, or the last one has saved nothing.
    Idle,
    /// What is executed is being timed since then, when so many updates had been made.
    Executing { since: u64, updates: u64 },
    /// What is deferred is about to be timed, from the next merge on. A thousand updates that were executed took so long.
    Deferring { thousand: u64 },
    /// What is deferred is being timed since then: so much has been found, in so many merges.
    Merging {
        thousand: u64,
        since: u64,
        found: u64,
        merges: u32,
    },
    /// Deferring was faster, when so many updates had been made.
    Paid { updates: u64 },
}

impl Trial {
    pub(super) const fn new() -> Self {
        Self {
            next: FIRST,
            every: FIRST,
            stage: Stage::Idle,
        }
    }

    /// Whether an eager object that has executed so many updates has come to its next [`step`](Self::step).
    #[inline(always)]
    pub(super) fn is_due(&self, at_once: u64) -> bool {
        at_once >= self.next
    }

    /// Goes on with the trial of an eager object, at this moment. Whether the object is to defer now.
    pub(super) fn step(&mut self, now: Use, moment: u64) -> bool {
        self.next = now.at_once.wrapping_add(SAMPLE);
        let updates = now.updates();
        if let Stage::Executing {
            since,
            updates: before,
        } = self.stage
        {
            let timed = updates.wrapping_sub(before);
            // Else the object was deferring in between.
            if (1..4 * SAMPLE).contains(&timed) {
                let took = moment.saturating_sub(since);
                let thousand = took.saturating_mul(1000) / timed;
                self.stage = Stage::Deferring { thousand };
                return true;
            }
        }
        self.stage = Stage::Executing {
            since: moment,
            updates,
        };
        false
    }

    /// Whether an eager object is being timed.
    pub(super) fn is_executing(&self) -> bool {
        matches!(self.stage, Stage::Executing { .. })
    }

    /// Whether a deferring object defers for a trial.
    pub(super) fn is_deferring(&self) -> bool {
        matches!(self.stage, Stage::Deferring { .. } | Stage::Merging { .. })
    }

    /// Goes on with the trial of a deferring object, in which a merge has found so many updates, at this moment. Whether deferring has
    /// saved a tenth at least, if that can be told.
    pub(super) fn merged(&mut self, found: u64, now: Use, moment: u64) -> Option<bool> {
        match &mut self.stage {
            Stage::Deferring { thousand } => {
                self.stage = Stage::Merging {
                    thousand: *thousand,
                    since: moment,
                    found: 0,
                    merges: 0,
                };
                None
            }
            Stage::Merging {
                thousand,
                since,
                found: all,
                merges,
            } => {
                *all += found;
                *merges += 1;
                if *all < 2 * SAMPLE && *merges < MERGES {
                    return None;
                }
                let deferred = moment.saturating_sub(*since).saturating_mul(1000);
                let executed = all.saturating_mul(*thousand);
                let pays = deferred.saturating_mul(10) < executed.saturating_mul(9);
                if pays {
                    self.every = FIRST;
                    self.stage = Stage::Paid {
                        updates: now.updates(),
                    };
                } else {
                    self.every = (self.every * 2).min(RARELY);
                    self.stage = Stage::Idle;
                }
                Some(pays)
            }
            _ => None,
        }
    }

    /// Whether a trial has shown, not long ago, that deferring pays.
    pub(super) fn has_paid(&self, now: Use) -> bool {
        match self.stage {
            Stage::Paid { updates } => now.updates().wrapping_sub(updates) < RARELY,
            _ => false,
        }
    }

    /// The object is deferring from now on, without a trial.
    pub(super) fn skip(&mut self, now: Use) {
        self.stage = Stage::Paid {
            updates: now.updates(),
        };
    }

    /// The object becomes eager: the next trial is a while off.
    pub(super) fn postpone(&mut self, now: Use) {
        self.next = now.at_once.wrapping_add(self.every);
        self.stage = Stage::Idle;
    }

    /// What earlier trials have shown need not be so any more.
    pub(super) fn forget(&mut self) {
        self.every = FIRST;
    }

    /// There is reason to try it now, unless that has been in vain before.
    pub(super) fn hasten(&mut self, now: Use) {
        if self.every == FIRST {
            self.next = self.next.min(now.at_once);
        }
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    fn used(at_once: u64) -> Use {
        Use {
            at_once,
            merged: 0,
            readers: 0,
        }
    }

    /// One whose executed updates took a hundred each, and in which the first merge has been.
    fn begun(trial: &mut Trial) -> u64 {
        let first = trial.next;
        assert!(!trial.is_due(first - 1) && trial.is_due(first));
        assert!(!trial.step(used(first), 1000));
        let second = first + SAMPLE;
        assert!(!trial.is_due(second - 1) && trial.is_due(second));
        let moment = 1000 + 100 * SAMPLE;
        assert!(trial.step(used(second), moment) && trial.is_deferring());
        assert_eq!(trial.merged(100_000, used(second), moment), None);
        moment
    }

    #[test]
    fn what_saves_a_tenth_is_kept_for_a_while() {
        let mut trial = Trial::new();
        let moment = begun(&mut trial);
        assert_eq!(trial.merged(100, used(5000), moment + 1), None);
        assert!(trial.is_deferring());
        let after = moment + 400 * 89;
        assert_eq!(trial.merged(300, used(5000), after), Some(true));
        assert!(!trial.is_deferring() && trial.has_paid(used(5000 + RARELY - 1)));
        assert!(!trial.has_paid(used(5000 + RARELY)));
    }

    #[test]
    fn what_saves_nothing_is_tried_more_and_more_seldom() {
        let mut trial = Trial::new();
        for round in 1..20 {
            let moment = begun(&mut trial);
            let after = moment + 300 * 91;
            assert_eq!(trial.merged(300, used(5000), after), Some(false));
            assert!(!trial.is_deferring() && !trial.has_paid(used(5000)));
            trial.postpone(used(5000));
            assert_eq!(trial.next, 5000 + (FIRST << round).min(RARELY));
        }
        trial.forget();
        trial.postpone(used(5000));
        assert_eq!(trial.next, 5000 + FIRST);
    }

    #[test]
    fn where_merges_find_little_a_few_of_them_are_enough() {
        let mut trial = Trial::new();
        let moment = begun(&mut trial);
        for merge in 1..u64::from(MERGES) {
            assert_eq!(trial.merged(1, used(5000), moment + merge), None);
        }
        assert_eq!(trial.merged(1, used(5000), moment + 16), Some(true));
    }

    #[test]
    fn what_was_deferred_in_between_is_not_timed() {
        let mut trial = Trial::new();
        assert!(!trial.step(used(FIRST), 1000));
        assert!(!trial.step(used(10 * FIRST), 2000), "a new beginning");
        assert!(trial.step(used(10 * FIRST + SAMPLE), 3000));
    }
}
