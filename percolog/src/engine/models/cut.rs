//! What a reader is shown: everything that finished before, once, and no effect without its cause.

use super::{Journal, Note, bind, explore, join, journal, spawn_on};
use crate::engine::Options;
use crate::sync::atomic::{AtomicUsize, Ordering};
use alloc::vec::Vec;
use loom::sync::Arc;

/// A reader is shown every update that finished before it began, the others or not, in their order;
/// and in the end each exactly once. The updater touches its slot, and its mark, for the first time
/// while the reader looks for both.
///
/// Loom cannot see: that the stamp is not taken before the loads in front of it have completed.
#[test]
fn a_reader_is_shown_what_finished_before() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        let finished = Arc::new(AtomicUsize::new(0));
        let updater = spawn_on(1, 1, &journal, {
            let finished = finished.clone();
            move |journal| {
                journal.note(1);
                finished.store(1, Ordering::Release);
                journal.note(2);
                finished.store(2, Ordering::Release);
            }
        });
        let before = finished.load(Ordering::Acquire);
        let shown = journal.shown();
        assert!(before <= shown.len() && shown == [1, 2][..shown.len()]);
        join(updater);
        assert_eq!(journal.shown(), [1, 2]);
        assert_eq!(journal.stats().executed, 2);
    });
}

/// Two readers at once, while a third thread updates: each operation is executed once, and what one
/// was shown stays.
///
/// Loom cannot see: more readers at once, or more updates.
#[test]
fn two_readers_execute_each_operation_once() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        journal.note(1);
        let reader = spawn_on(0, 0, &journal, Journal::shown);
        let updater = spawn_on(1, 0, &journal, |journal| journal.note(2));
        for shown in [journal.shown(), join(reader)] {
            assert!(shown == [1] || shown == [1, 2]);
        }
        join(updater);
        assert_eq!(journal.shown(), [1, 2]);
        assert_eq!(journal.stats().executed, 2);
    });
}

/// Two threads share a slot, as any two may for a moment, and a reader takes its queue from them.
///
/// Loom cannot see: how a thread comes to a slot that another one is using.
#[test]
fn threads_on_one_slot_lose_nothing() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        let updaters = [1, 2].map(|note| {
            spawn_on(0, 0, &journal, move |journal| {
                journal.note(note);
            })
        });
        let shown = journal.shown();
        updaters.into_iter().for_each(join);
        let mut all = journal.shown();
        assert_eq!(all[..shown.len()], shown);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

const CAUSE: Note = 1;
const EFFECT: Note = 2;

/// Whether it is a state that has existed: the effect comes behind its cause, never alone.
fn has_existed(shown: &[Note]) -> bool {
    let chain: Vec<_> = shown.iter().copied().filter(|note| *note < 9).collect();
    chain == [CAUSE, EFFECT][..chain.len()]
}

/// An operation, then another one on another slot by a thread that knows of the first: no reader is
/// shown the second without the first. The thread that knows is the same one, moved to another slot.
/// The second slot is dirty before, so that its update sets no mark and the reader, who has seen the
/// mark, takes it whatever comes; the first slot is dirty or not, and the slots' marks are in one word
/// or in two.
///
/// Loom cannot see: a move in the middle of an update.
#[test]
fn no_effect_without_its_cause_when_a_thread_moves() {
    for (chip, dirty) in [(0, &[1][..]), (1, &[1]), (1, &[0, 1]), (1, &[])] {
        explore(move || {
            let journal = journal(Options::DEFAULT);
            for slot in dirty {
                bind(*slot, chip * *slot as usize);
                journal.note(9);
            }
            let updater = spawn_on(0, 0, &journal, move |journal| {
                journal.note(CAUSE);
                bind(1, chip);
                journal.note(EFFECT);
            });
            assert!(has_existed(&journal.shown()));
            join(updater);
            let all = journal.shown();
            assert!(has_existed(&all) && all.len() == 2 + dirty.len());
        });
    }
}

/// The same with two threads, the second of which learns of the first one's update by a flag.
///
/// Loom cannot see: chains of more than two threads.
#[test]
fn no_effect_without_its_cause_when_a_thread_is_told() {
    for chip in [0, 1] {
        explore(move || {
            let journal = journal(Options::DEFAULT);
            bind(1, chip);
            journal.note(9);
            let told = Arc::new(AtomicUsize::new(0));
            let first = spawn_on(0, 0, &journal, {
                let told = told.clone();
                move |journal| {
                    journal.note(CAUSE);
                    told.store(1, Ordering::Release);
                }
            });
            let second = spawn_on(1, chip, &journal, move |journal| {
                let knows = told.load(Ordering::Acquire) == 1;
                if knows {
                    journal.note(EFFECT);
                }
                knows
            });
            assert!(has_existed(&journal.shown()));
            join(first);
            let expected = 2 + usize::from(join(second));
            let all = journal.shown();
            assert!(has_existed(&all) && all.len() == expected);
        });
    }
}
