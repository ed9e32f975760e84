//! Every interleaving of logs whose operations absorb each other, within loom's bounds.
//!
//! A queue that absorbs changes what it holds, so a reader who visits queue after queue could be shown
//! a state that never existed: `x` is added on slot 0; the reader passes slot 1; `y` is added there,
//! and whoever did that has `x` removed on slot 0, where the removal cancels the adding in place; the
//! reader reaches slot 0 and shows neither. These models are that history, and its relatives. The
//! world, and what loom cannot see of it, is that of the engine's models.

use super::{Absorb, AddToken, Logged, Operation, RemoveToken, token_pair};
use crate::engine::models::{Scripted, Watched, bind, explore, join};
use crate::sync::atomic::{AtomicUsize, Ordering};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

/// The names that are present.
type Names = Watched<Vec<char>>;

fn shown<O: Operation<Names>>(log: &Logged<Names, O, Scripted>) -> Vec<char> {
    let mut names = log.synchronize().look(Vec::clone);
    names.sort_unstable();
    names
}

fn log<O: Operation<Names>>() -> Arc<Logged<Names, O, Scripted>> {
    bind(0, 0);
    Arc::new(Logged::<Names, O>::builder().build_in(Watched::new(Vec::new()), Scripted::default()))
}

/// Something that is added once and removed once.
enum Edit {
    Open(AddToken, char),
    Close(RemoveToken, char),
}

impl Operation<Names> for Edit {
    const ABSORBS: bool = true;

    fn exec(self, names: &mut Names) {
        names.change(|names| match self {
            Self::Open(_, name) => names.push(name),
            Self::Close(_, name) => names.retain(|other| *other != name),
        });
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Self::Open(birth, _) => Absorb::Add(birth),
            Self::Close(death, _) => Absorb::Remove(death),
        }
    }
}

/// A name's last word: present or not.
struct Put(char, bool);

impl Operation<Names> for Put {
    const ABSORBS: bool = true;

    fn exec(self, names: &mut Names) {
        names.change(|names| {
            names.retain(|other| *other != self.0);
            if self.1 {
                names.push(self.0);
            }
        });
    }

    fn absorb(&self) -> Absorb<'_> {
        // One hash for all: which name it is, `replaces` says.
        Absorb::Replace(0)
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.0 == earlier.0
    }
}

/// `x` is there until `y` is: a reader is shown one of them, or both.
const STATES: [&[char]; 3] = [&['x'], &['x', 'y'], &['y']];

/// The history, with a thread that moves from slot to slot, or two of which one tells the other.
fn never_neither<O: Operation<Names> + 'static>(
    make: impl Fn() -> [O; 3] + Send + Sync + Copy + 'static,
) {
    for chip in [0, 1] {
        explore(move || {
            let log = log();
            let [add_x, add_y, remove_x] = make();
            log.queue(add_x);
            let mover = thread::spawn({
                let log = log.clone();
                move || {
                    bind(1, chip);
                    log.queue(add_y);
                    bind(0, 0);
                    log.queue(remove_x);
                }
            });
            let shown_meanwhile = shown(&log);
            assert!(
                STATES.contains(&&shown_meanwhile[..]),
                "{shown_meanwhile:?}"
            );
            join(mover);
            assert_eq!(shown(&log), ['y']);
        });
    }
    explore(move || {
        let log = log();
        let [add_x, add_y, remove_x] = make();
        log.queue(add_x);
        let told = Arc::new(AtomicUsize::new(0));
        let first = thread::spawn({
            let (log, told) = (log.clone(), told.clone());
            move || {
                bind(1, 1);
                log.queue(add_y);
                told.store(1, Ordering::Release);
            }
        });
        let second = thread::spawn({
            let log = log.clone();
            move || {
                bind(0, 0);
                if told.load(Ordering::Acquire) == 1 {
                    log.queue(remove_x);
                }
            }
        });
        let shown_meanwhile = shown(&log);
        assert!(
            STATES.contains(&&shown_meanwhile[..]),
            "{shown_meanwhile:?}"
        );
        join(first);
        join(second);
        let all = shown(&log);
        assert!(all == ['x', 'y'] || all == ['y']);
    });
}

/// Removing cancels adding in place, and no reader is shown neither.
///
/// Loom cannot see: nothing of it is left out but longer chains of causes.
#[test]
fn a_pair_that_cancels_in_place_is_not_missed_with_its_effect() {
    never_neither(|| {
        let (birth, death) = token_pair();
        [
            Edit::Open(birth, 'x'),
            Edit::Open(token_pair().0, 'y'),
            Edit::Close(death, 'x'),
        ]
    });
}

/// The same where a name's last word replaces the one before it.
///
/// Loom cannot see: as above.
#[test]
fn a_word_that_is_replaced_in_place_is_not_missed_with_its_effect() {
    never_neither(|| [Put('x', true), Put('y', true), Put('x', false)]);
}

/// What is added on one slot and removed on another is executed in that order, or cancelled by the
/// merge that takes both; the last of two words on two slots is the last one, whichever merges took
/// them.
///
/// Loom cannot see: more than two slots.
#[test]
fn slots_absorb_each_other_only_in_order() {
    explore(|| {
        let log = log();
        let (birth, death) = token_pair();
        let updater = thread::spawn({
            let log = log.clone();
            move || {
                bind(1, 0);
                log.queue(Edit::Open(birth, 'x'));
                bind(0, 0);
                log.queue(Edit::Close(death, 'x'));
            }
        });
        let shown_meanwhile = shown(&log);
        assert!(shown_meanwhile.is_empty() || shown_meanwhile == ['x']);
        join(updater);
        assert!(shown(&log).is_empty());
        let stats = log.stats();
        assert_eq!(stats.executed + stats.absorbed, 2);
        assert!(shown_meanwhile.is_empty() || stats.absorbed == 0);
    });
    explore(|| {
        let log = log();
        let updater = thread::spawn({
            let log = log.clone();
            move || {
                bind(1, 0);
                log.queue(Put('x', true));
                bind(0, 0);
                log.queue(Put('x', false));
                bind(1, 0);
                log.queue(Put('x', true));
            }
        });
        shown(&log);
        join(updater);
        assert_eq!(shown(&log), ['x']);
    });
}
