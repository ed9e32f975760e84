//! Dirty marks: whatever meets whatever, no operation is left where nobody looks.

use super::{bind, explore, join, journal, spawn_on};
use crate::engine::Options;

/// A mark that is set while a merge collects marks is found by that merge or the next one. The line of
/// marks is there; the updater's slot is new, so the mark may be found before the slot's place is
/// visible, unless setting the mark publishes it.
///
/// Loom cannot see: more marks than there are bits in its one word.
#[test]
fn a_mark_set_while_marks_are_collected_is_not_lost() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        journal.note(1);
        let updater = spawn_on(1, 0, &journal, |journal| {
            journal.note(2);
            journal.note(3);
        });
        let shown = journal.shown();
        assert_eq!(shown, [1, 2, 3][..shown.len()]);
        join(updater);
        assert_eq!(journal.shown(), [1, 2, 3]);
        bind(1, 0);
        journal.note(4);
        assert_eq!(
            journal.shown(),
            [1, 2, 3, 4],
            "the slot can mark itself again"
        );
    });
}

/// Merges collect marks while the updater, whose slot is known, is marked, unmarked and marked again.
///
/// Loom cannot see: more than two merges in that time.
#[test]
fn a_slot_marks_itself_again_after_each_merge() {
    explore(|| {
        let journal = journal(Options::DEFAULT);
        bind(1, 0);
        journal.note(1);
        let updater = spawn_on(1, 0, &journal, |journal| {
            journal.note(2);
            journal.note(3);
        });
        let first = journal.shown();
        let second = journal.shown();
        assert!((1..=second.len()).contains(&first.len()));
        assert_eq!(second, [1, 2, 3][..second.len()]);
        join(updater);
        assert_eq!(journal.shown(), [1, 2, 3]);
    });
}

/// Two slots that share a bit: a merge that finds it for one of them looks at both, and neither one's
/// operation is left behind when the other's mark is cleared.
///
/// Loom cannot see: three slots and more to a bit.
#[test]
fn slots_that_share_a_mark_do_not_hide_each_other() {
    for marked_before in [false, true] {
        explore(move || {
            let journal = journal(Options::DEFAULT);
            if marked_before {
                journal.note(3);
            }
            let updaters = [(0, 1), (2, 2)]
                .map(|(slot, note)| spawn_on(slot, 0, &journal, move |journal| journal.note(note)));
            let shown = journal.shown();
            updaters.into_iter().for_each(join);
            let mut all = journal.shown();
            assert_eq!(all[..shown.len()], shown);
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3][..2 + usize::from(marked_before)]);
        });
    }
}
