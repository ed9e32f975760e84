//! Updates that are executed at once, among such as are not.

use super::{Journal, Note, PATIENT, bind, eager, explore, explore_deeply, join, spawn_on};
use crate::engine::{Mode, ModeReason, Options};
use crate::sync::atomic::{AtomicUsize, Ordering};
use alloc::vec::Vec;
use loom::sync::Arc;

impl Journal {
    /// Makes an eager object a deferring one, or the other way, as a merge does.
    fn switch(&self) {
        let door = self.enter(PATIENT).expect("nobody keeps it");
        self.change_mode(ModeReason::Fixed);
        door.leave_exclusive();
    }
}

/// Whether every note but those of nine has its place: in the order of the numbers, each once.
fn in_order(shown: &[Note], all: &[Note]) -> bool {
    let shown: Vec<_> = shown.iter().copied().filter(|note| *note < 9).collect();
    shown == all
}

/// A thread queues while another one has the object, so that its operation may be appended; who learns that it has returned queues
/// another one, which is never executed before.
///
/// Loom cannot see: an updater that waits for a moment before it appends.
#[test]
fn an_update_at_once_overtakes_nothing() {
    explore(|| {
        let journal = eager(Options::DEFAULT);
        let finished = Arc::new(AtomicUsize::new(0));
        let first = spawn_on(1, 0, &journal, {
            let finished = finished.clone();
            move |journal| {
                journal.note(1);
                finished.store(1, Ordering::Release);
            }
        });
        let reader = spawn_on(2, 0, &journal, |journal| {
            drop(journal.shown());
        });
        let before = finished.load(Ordering::Acquire) == 1;
        journal.note(2);
        let shown = journal.shown();
        assert!(shown.contains(&2));
        assert!(!before || in_order(&shown, &[1, 2]));
        join(first);
        join(reader);
        let mut all = journal.shown();
        assert_eq!(all[..shown.len()], shown);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// Two threads update and a third reads: each operation is executed once, and one thread's own stay in order.
///
/// Loom cannot see: more than two updates of a thread.
#[test]
fn threads_that_update_at_once_lose_nothing() {
    explore(|| {
        let journal = eager(Options::DEFAULT);
        let updater = spawn_on(1, 0, &journal, |journal| {
            journal.note(1);
            journal.note(2);
        });
        journal.note(9);
        let shown = journal.shown();
        assert!(shown.contains(&9));
        join(updater);
        let all = journal.shown();
        assert_eq!(all[..shown.len()], shown);
        assert!(all.len() == 3 && in_order(&all, &[1, 2]));
        assert_eq!(journal.stats().executed, 3);
    });
}

/// The object becomes eager while an operation is on its way into a queue: whoever learns that it has returned, and then updates at
/// once, does so behind it. The updater's slot is new, or marked already.
///
/// Loom cannot see: more than one change of the mode in that time.
#[test]
fn what_was_deferred_comes_before_what_is_executed_at_once() {
    for marked in [false, true] {
        // The mark, the mode, and who looks: with two pre-emptions a mark that nobody announces is not missed.
        explore_deeply(3, move || {
            let journal = eager(Options {
                mode: Mode::Deferring,
                ..Options::DEFAULT
            });
            let finished = Arc::new(AtomicUsize::new(0));
            if marked {
                bind(1, 0);
                journal.note(9);
                bind(0, 0);
            }
            let first = spawn_on(1, 0, &journal, {
                let finished = finished.clone();
                move |journal| {
                    journal.note(1);
                    finished.store(1, Ordering::Release);
                }
            });
            journal.switch();
            let clean = journal.shown();
            let before = finished.load(Ordering::Acquire) == 1;
            journal.note(2);
            let shown = journal.shown();
            assert_eq!(shown[..clean.len()], clean);
            assert!(!before || in_order(&shown, &[1, 2]), "{shown:?}");
            join(first);
            let mut all = journal.shown();
            all.sort_unstable();
            assert_eq!(all, [1, 2, 9][..2 + usize::from(marked)]);
        });
    }
}

/// The same the other way: an eager object becomes deferring.
///
/// Loom cannot see: more than one change of the mode in that time.
#[test]
fn what_was_executed_at_once_comes_before_what_is_deferred() {
    explore(|| {
        let journal = eager(Options::DEFAULT);
        let finished = Arc::new(AtomicUsize::new(0));
        let first = spawn_on(1, 0, &journal, {
            let finished = finished.clone();
            move |journal| {
                journal.note(1);
                finished.store(1, Ordering::Release);
            }
        });
        journal.switch();
        let before = finished.load(Ordering::Acquire) == 1;
        journal.note(2);
        let shown = journal.shown();
        assert!(!before || in_order(&shown, &[1, 2]));
        join(first);
        let mut all = journal.shown();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// A shared reader of an eager object is shown what finished before it began.
///
/// Loom cannot see: more than one update.
#[test]
fn a_shared_reader_of_an_eager_object_is_shown_what_finished_before() {
    explore(|| {
        let journal = eager(Options::DEFAULT);
        let finished = Arc::new(AtomicUsize::new(0));
        let updater = spawn_on(1, 0, &journal, {
            let finished = finished.clone();
            move |journal| {
                journal.note(1);
                finished.store(1, Ordering::Release);
            }
        });
        let reader = spawn_on(2, 0, &journal, |journal| {
            let guard = journal.read(PATIENT).expect("nothing panics");
            guard.look(Vec::len)
        });
        let before = finished.load(Ordering::Acquire);
        let shown = journal
            .read(PATIENT)
            .expect("nothing panics")
            .look(Vec::len);
        assert!(before <= shown);
        join(reader);
        join(updater);
        assert_eq!(journal.shown(), [1]);
    });
}
