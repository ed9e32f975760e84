//! What happens at the limit, with queues of one operation.

use super::{explore, join, journal, narrow, spawn_on};
use crate::engine::{Drained, FullReason, Options, Policy};
use alloc::vec::Vec;

/// While another thread has the object, an updater's queue grows to the hard limit; then the updater
/// waits, and goes on when the object is free. Meanwhile nothing of it is in what the other thread has.
///
/// Loom cannot see: how long the updater waits, or a hard limit that is far away.
#[test]
fn merge_grows_while_the_object_is_taken_and_waits_at_the_hard_limit() {
    explore(|| {
        let journal = journal(narrow(Policy::Merge));
        let guard = journal.synchronize(super::PATIENT).expect("nothing panics");
        let updater = spawn_on(1, 0, &journal, |journal| {
            for note in 1..=3 {
                journal.note(note);
            }
        });
        assert!(guard.look(Vec::is_empty));
        assert!(journal.stats().pending <= 2, "not beyond the hard limit");
        drop(guard);
        let shown = journal.shown();
        assert_eq!(shown, [1, 2, 3][..shown.len()]);
        join(updater);
        assert_eq!(journal.shown(), [1, 2, 3]);
        let stats = journal.stats();
        assert_eq!((stats.executed, stats.pending), (3, 0));
        assert!(stats.updater_merges <= 2);
    });
}

/// Two updaters on one slot come to the limit together; one merges, or both.
///
/// Loom cannot see: what merging costs them.
#[test]
fn merge_by_two_updaters_of_a_slot_keeps_everything() {
    explore(|| {
        let journal = journal(narrow(Policy::Merge));
        journal.note(1);
        let updaters =
            [2, 3].map(|note| spawn_on(0, 0, &journal, move |journal| journal.note(note)));
        updaters.into_iter().for_each(join);
        let mut all = journal.shown();
        assert_eq!(all[0], 1);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
        assert!(journal.stats().updater_merges >= 1);
    });
}

/// A queue that may grow never merges on the updater's account, and keeps everything.
///
/// Loom cannot see: the memory it takes.
#[test]
fn grow_keeps_everything_and_merges_nothing() {
    explore(|| {
        let journal = journal(narrow(Policy::Grow));
        let updater = spawn_on(1, 0, &journal, |journal| {
            for note in 1..=3 {
                journal.note(note);
            }
        });
        let shown = journal.shown();
        assert_eq!(shown, [1, 2, 3][..shown.len()]);
        join(updater);
        assert_eq!(journal.shown(), [1, 2, 3]);
        assert_eq!(journal.stats().updater_merges, 0);
    });
}

/// A full queue hands the operation back, with the reason; what it took is executed, and nothing is
/// both. The operation after a merge is taken again.
///
/// Loom cannot see: how long `try_queue` tries while the queue is in use (here, not at all).
#[test]
fn full_hands_the_operation_back() {
    explore(|| {
        let journal = journal(narrow(Policy::Full));
        journal.note(1);
        let updater = spawn_on(0, 0, &journal, |journal| {
            let full = journal.try_queue(2, None).err()?;
            assert!(
                full.operation == 2 && matches!(full.reason, FullReason::Limit | FullReason::Busy)
            );
            Some(full.reason)
        });
        let shown = journal.shown();
        let refused = join(updater);
        let expected: &[u8] = if refused.is_some() { &[1] } else { &[1, 2] };
        let all = journal.shown();
        assert_eq!(all, expected);
        assert_eq!(shown, expected[..shown.len()]);
        let again = journal.queue(3, None);
        assert!(again.is_ok(), "the merge has made room");
        let full = journal.queue(4, None).expect_err("at the limit");
        assert_eq!((full.operation, full.reason), (4, FullReason::Limit));
    });
}

/// A queue that discards counts what it drops: that and what was executed are all there was.
///
/// Loom cannot see: that the operation's destructor runs without the slot's lock.
#[test]
fn discard_counts_what_it_drops() {
    explore(|| {
        let journal = journal(narrow(Policy::Discard));
        journal.note(1);
        let updater = spawn_on(0, 0, &journal, |journal| {
            journal.note(2);
            journal.note(3);
        });
        journal.shown();
        join(updater);
        let all = journal.shown();
        assert!(all[0] == 1 && all.is_sorted());
        let stats = journal.stats();
        assert_eq!(stats.discarded as usize + all.len(), 3);
        assert_eq!(stats.executed as usize, all.len());
        // Nobody but the reader makes room, once.
        assert!((1..=2).contains(&all.len()));
    });
}

/// The same queue, where an updater at the limit merges unless somebody has the object: it never waits, and what it can merge it
/// does not drop.
#[test]
fn what_is_not_merged_at_the_limit_is_discarded_and_counted() {
    explore(|| {
        let journal = journal(narrow(Policy::MergeOrDiscard));
        journal.note(1);
        let updater = spawn_on(0, 0, &journal, |journal| {
            journal.note(2);
            journal.note(3);
        });
        let reader = spawn_on(1, 0, &journal, |journal| journal.shown());
        let shown = join(reader);
        join(updater);
        let all = journal.shown();
        assert!(all[0] == 1 && all.is_sorted() && all.starts_with(&shown));
        let stats = journal.stats();
        assert_eq!(stats.discarded as usize + all.len(), 3);
        assert_eq!(stats.executed as usize, all.len());
        // Nobody has the object now: whatever is in the queue is merged, and nothing dropped.
        journal.note(4);
        journal.note(5);
        assert_eq!(journal.shown()[all.len()..], [4, 5]);
    });
}

/// A maintenance thread executes a part of what is pending; a reader who comes then executes the rest
/// of that part before anything newer, and an update that came later stays behind both.
///
/// Loom cannot see: what `drain` does where an operation panics.
#[test]
fn what_drain_leaves_over_stays_in_front() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        journal.note(1);
        super::bind(1, 0);
        journal.note(2);
        super::bind(0, 0);
        journal.note(3);
        let drainer = spawn_on(0, 0, &journal, |journal| journal.drain(1));
        let updater = spawn_on(1, 0, &journal, |journal| journal.note(4));
        // Merges unless the object is clean, which with a part left over it is not.
        let guard = journal.read(super::PATIENT).expect("nothing panics");
        let shown = guard.look(Vec::clone);
        drop(guard);
        assert!(shown == [1, 2, 3] || shown == [1, 2, 3, 4]);
        let drained: Drained = join(drainer);
        assert!(drained.executed <= 1);
        join(updater);
        assert_eq!(journal.shown(), [1, 2, 3, 4]);
    });
}

/// Two calls of `drain` with a reader in between or not: when the last one says that it has finished,
/// everything has been executed, once and in order.
///
/// Loom cannot see: budgets that end in the middle of many queues.
#[test]
fn drain_finishes_what_it_says() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        for note in 1..=3 {
            journal.note(note);
        }
        let drainer = spawn_on(1, 0, &journal, |journal| {
            let drained = [2, 2].map(|budget| journal.drain(budget));
            if drained[1].finished {
                let state = journal.peek(|notes| notes.look(Vec::clone));
                assert!(state.is_none_or(|state| state == [1, 2, 3]));
            }
            drained
                .map(|drained| drained.executed)
                .iter()
                .sum::<usize>()
        });
        assert_eq!(journal.shown(), [1, 2, 3]);
        assert!([0, 2, 3].contains(&join(drainer)));
        assert_eq!(journal.stats().executed, 3);
    });
}
