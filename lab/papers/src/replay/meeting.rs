//! A place where all threads meet again and again, and that can be called off.
//!
//! `std::sync::Barrier` would leave everybody waiting for ever for a thread that panicked.
//!
//! Threads that sleep are woken one after the other, and what is measured would begin as late as the last of them wakes. So
//! there is a way to wait that only looks, for moments when all are about to come; where there are more threads than
//! processors, who waits sleeps all the same.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How to wait for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Asleep.
    Asleep,
    /// Looking: all come at about the same time.
    Looking,
}

#[derive(Debug)]
pub(super) struct Meeting {
    members: usize,
    /// Whether there are more members than processors.
    crowded: bool,
    present: AtomicUsize,
    /// How many meetings have been complete.
    round: AtomicUsize,
    called_off: AtomicBool,
    /// Held while what sleepers wait for changes.
    bed: Mutex<()>,
    changed: Condvar,
}

impl Meeting {
    pub(super) fn new(members: usize) -> Meeting {
        Meeting {
            members,
            crowded: thread::available_parallelism().is_ok_and(|most| members > most.get()),
            present: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            called_off: AtomicBool::new(false),
            bed: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Waits for all others. `false`: the meeting is called off, nobody else may come.
    #[must_use]
    pub(super) fn attend(&self, waiting: Waiting) -> bool {
        if self.is_called_off() {
            return false;
        }
        // Relaxed: this thread was at every meeting before, and took part in completing the last.
        let round = self.round.load(Ordering::Relaxed);
        // AcqRel: the last who comes sees what all others did before, and hands it on.
        if self.present.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            // Relaxed: whoever comes next has seen the new round.
            self.present.store(0, Ordering::Relaxed);
            let bed = self.lock();
            // Release: pairs with the acquire in `is_complete`.
            self.round.store(round.wrapping_add(1), Ordering::Release);
            drop(bed);
            self.changed.notify_all();
            return true;
        }
        let over = || self.is_complete(round) || self.is_called_off();
        while waiting == Waiting::Looking && !self.crowded && !over() {
            hint::spin_loop();
        }
        let mut bed = self.lock();
        while !over() {
            bed = self
                .changed
                .wait(bed)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(bed);
        // A round that was complete counts, even if the meeting was called off just afterwards.
        self.is_complete(round)
    }

    /// Sends everybody home who waits or will come.
    pub(super) fn call_off(&self) {
        let bed = self.lock();
        // Release: pairs with the acquire in `is_called_off`.
        self.called_off.store(true, Ordering::Release);
        drop(bed);
        self.changed.notify_all();
    }

    fn is_complete(&self, round: usize) -> bool {
        // Acquire: pairs with the release of the last who came, and makes visible what all did before.
        self.round.load(Ordering::Acquire) != round
    }

    fn is_called_off(&self) -> bool {
        // Acquire: pairs with the release in `call_off`.
        self.called_off.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // Nothing panics while holding the lock.
        self.bed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_WAY: [Waiting; 2] = [Waiting::Asleep, Waiting::Looking];

    fn meeting(members: usize, crowded: bool) -> Meeting {
        Meeting {
            crowded,
            ..Meeting::new(members)
        }
    }

    #[test]
    fn nobody_goes_on_before_all_are_there() {
        const MEMBERS: usize = 3;
        const ROUNDS: usize = 50;
        for (waiting, crowded) in EVERY_WAY
            .into_iter()
            .flat_map(|way| [(way, true), (way, false)])
        {
            let meeting = meeting(MEMBERS, crowded);
            let done = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..MEMBERS {
                    scope.spawn(|| {
                        for round in 1..=ROUNDS {
                            // Relaxed: the meeting orders it.
                            done.fetch_add(1, Ordering::Relaxed);
                            assert!(meeting.attend(waiting));
                            assert_eq!(done.load(Ordering::Relaxed), round * MEMBERS);
                            assert!(meeting.attend(waiting));
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn who_waits_is_sent_home() {
        for waiting in EVERY_WAY {
            let meeting = meeting(2, false);
            thread::scope(|scope| {
                let waits = scope.spawn(|| meeting.attend(waiting));
                meeting.call_off();
                assert!(!waits.join().expect("nobody panics"));
            });
            assert!(!meeting.attend(waiting));
        }
    }
}
