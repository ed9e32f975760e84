//! Promise 1, linearizable: real threads record what they did and saw, and a checker looks for an
//! order of all operations that explains it.
//!
//! Histories are short, since checking is exponential, and many. Limits are so small that most updates
//! merge, grow their queue or wait. On made-up machines threads are moved and held up at random
//! wherever a structure looks at its slot or its clock, which is where it can go wrong.
#![cfg(not(percolog_loom))]

#[path = "../common/mod.rs"]
mod common;
mod lent;
mod structures;

use crate::common::history::{Done, is_linearizable, record, together};
use crate::common::machine::{Machine, be_moved, stand_on};
use crate::common::model::{Act, Model, Sequential};
use crate::common::seed::seed;
use percolog::collections::{self, SetState};
use percolog::cpu::{self, CoreId};
use percolog::oplog::{Logged, LoggedBuilder, LoggedFn, Mode, Operation, Policy};
use percolog::testing::{Environment, Native};
use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::thread;
use structures::{
    Book, BookModel, ClosureList, List, ListModel, Register, Set, SetOfTheShelf, Subject, Sums,
};

/// What threads did to a structure of this model.
type History<M> = Vec<Done<Act<M>>>;

/// Threads in a window, operations of each, and windows in a test.
const THREADS: usize = 3;
const OPERATIONS: usize = 3;
const WINDOWS: usize = 120;

/// Slots of the made-up machines. The last two share a dirty mark with the first two.
const SLOTS: [u32; 5] = [0, 1, 2, 1024, 1025];

/// How the threads of a window live.
#[derive(Clone, Copy, PartialEq)]
enum Life {
    /// Until the window ends.
    Steady,
    /// For one operation.
    Short,
    /// Until the window ends, bound to another slot before each operation.
    Hopping,
}

/// Limits so small that most updates do something about them.
fn limits(chance: &mut fastrand::Rng) -> LoggedBuilder {
    let limit = chance.usize(1..=4);
    LoggedBuilder::new()
        .limit(limit)
        .hard_limit(limit + chance.usize(..3))
        .policy([Policy::Merge, Policy::Merge, Policy::Grow][chance.usize(..3)])
        .absorb_while_merging(chance.bool())
        .mode([Mode::Adaptive, Mode::Eager, Mode::Deferring, Mode::Restless][chance.usize(..4)])
}

fn build<S, O: Operation<S>, E: Environment>(
    chance: &mut fastrand::Rng,
    environment: E,
) -> Logged<S, O, E>
where
    S: Default,
{
    limits(chance).build_in(S::default(), environment)
}

/// One that takes stamps.
fn deferring<S: Default, O: Operation<S>, E: Environment>(
    chance: &mut fastrand::Rng,
    environment: E,
) -> Logged<S, O, E> {
    limits(chance)
        .mode(Mode::Deferring)
        .build_in(S::default(), environment)
}

fn set_of_the_shelf<S, E: Environment>(
    chance: &mut fastrand::Rng,
    environment: E,
) -> SetOfTheShelf<S, E>
where
    S: SetState<u8> + Default,
{
    SetOfTheShelf(collections::Set::build_in(
        limits(chance),
        S::default(),
        environment,
    ))
}

fn act<S: Subject>(
    subject: &S,
    process: usize,
    history: &mut History<S::Model>,
    chance: &mut fastrand::Rng,
) {
    match chance.u8(..8) {
        0..5 => record(process, history, || subject.update(chance).map(Act::Update)),
        5..7 => record(process, history, || subject.read(chance).map(Act::Read)),
        _ => subject.pay(chance.usize(..3)),
    }
}

/// One window: some threads that overlap, then a read of what they left. Returns the history, and what
/// was read.
fn window<S: Subject>(
    subject: &S,
    before: <S::Model as Model>::State,
    life: Life,
    chance: &mut fastrand::Rng,
) -> (History<S::Model>, <S::Model as Model>::State) {
    let mut history = Vec::new();
    record(0, &mut history, || Some(Act::Start(before)));
    history.extend(together(THREADS, chance, |process, chance, mine| {
        be_moved(chance.u64(..));
        for _ in 0..OPERATIONS {
            if life == Life::Short {
                let (mine, chance) = (&mut *mine, &mut *chance);
                thread::scope(|scope| {
                    scope.spawn(move || {
                        stand_on(SLOTS[chance.usize(..SLOTS.len())]);
                        be_moved(chance.u64(..));
                        act(subject, process, mine, chance);
                    });
                });
                continue;
            }
            if life == Life::Hopping {
                let slot = SLOTS[chance.usize(..SLOTS.len())];
                stand_on(slot);
                cpu::bind(CoreId::new(slot));
            }
            act(subject, process, mine, chance);
        }
    }));
    let mut after = None;
    // Nobody else is there, so no kind of read is refused.
    record(0, &mut history, || {
        after = subject.read(chance);
        after.clone().map(Act::Read)
    });
    (history, after.expect("nobody else has the structure"))
}

/// Many windows on one structure; returns the first history that cannot be explained.
fn first_unexplained<S: Subject>(
    subject: &S,
    life: Life,
    chance: &mut fastrand::Rng,
    windows: usize,
) -> Option<History<S::Model>> {
    let mut state = <S::Model as Model>::State::default();
    for at in 0..windows {
        let (history, after) = window(subject, state, life, chance);
        if !is_linearizable::<Sequential<S::Model>>(&history) {
            return Some(history);
        }
        state = after;
        // What is left of one window is there in the next, but not for ever.
        if at % 4 == 3 {
            subject.clear();
            state = <S::Model as Model>::State::default();
        }
    }
    None
}

/// The structures that `make` makes, one after the other, with new limits each time.
fn stays_linearizable<S: Subject>(life: Life, make: impl Fn(&mut fastrand::Rng) -> S) {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..WINDOWS / 20 {
        let subject = make(&mut chance);
        if let Some(history) = first_unexplained(&subject, life, &mut chance, 20) {
            panic!("no order of operations explains this:\n{history:#?}");
        }
        assert_eq!(subject.clock_violations(), 0);
    }
}

/// Tests of all structures on one kind of machine.
macro_rules! on {
    ($machine:ident, $life:expr, $environment:expr) => {
        mod $machine {
            use super::*;

            #[test]
            fn register() {
                stays_linearizable($life, |chance| {
                    Register::<false, _>(build(chance, $environment))
                });
            }

            #[test]
            fn absorbing_register() {
                stays_linearizable($life, |chance| {
                    Register::<true, _>(build(chance, $environment))
                });
            }

            #[test]
            fn set() {
                stays_linearizable($life, |chance| Set::<false, _>(build(chance, $environment)));
            }

            #[test]
            fn absorbing_set() {
                stays_linearizable($life, |chance| Set::<true, _>(build(chance, $environment)));
            }

            #[test]
            fn combined_sums() {
                stays_linearizable($life, |chance| Sums::<true, _>(build(chance, $environment)));
            }

            #[test]
            fn combined_sums_in_any_order() {
                stays_linearizable($life, |chance| {
                    Sums::<false, _>(build(chance, $environment))
                });
            }

            #[test]
            fn ordered_set_of_the_shelf() {
                stays_linearizable($life, |chance| {
                    set_of_the_shelf::<BTreeSet<u8>, _>(chance, $environment)
                });
            }

            #[test]
            fn hashed_set_of_the_shelf() {
                stays_linearizable($life, |chance| {
                    set_of_the_shelf::<HashSet<u8>, _>(chance, $environment)
                });
            }

            #[test]
            fn list() {
                stays_linearizable($life, |chance| List(build(chance, $environment)));
            }

            #[test]
            fn book_of_entries() {
                stays_linearizable($life, |chance| {
                    Book(build(chance, $environment), Mutex::default())
                });
            }
        }
    };
}

on!(on_this_machine, Life::Steady, Native);
on!(on_this_machine_hopping, Life::Hopping, Native);
on!(
    with_threads_that_come_and_go,
    Life::Short,
    Machine::exact(&SLOTS)
);
on!(with_forced_migration, Life::Steady, Machine::exact(&SLOTS));
// Clocks differ by less than a hand-off between threads takes.
on!(
    with_skew_within_the_bound,
    Life::Steady,
    Machine::skewed(&[0, 1, 2], 100, vec![0, 99, 42])
);

/// Lists that share a few places and logs with others.
#[test]
fn lent_logs() {
    use lent::{Adapting, Crowded, Elsewhere, FewLogs, Growing, Here};
    for life in [Life::Steady, Life::Hopping, Life::Short] {
        stays_linearizable(life, |_| Crowded::<Here>::new());
        stays_linearizable(life, |_| Crowded::<Elsewhere>::new());
        stays_linearizable(life, |_| Crowded::<Adapting>::new());
        stays_linearizable(life, |_| Crowded::<FewLogs>::new());
        stays_linearizable(life, |_| Crowded::<Growing>::new());
    }
}

#[test]
fn closures() {
    for life in [Life::Steady, Life::Hopping, Life::Short] {
        stays_linearizable(life, |_| ClosureList(LoggedFn::default()));
    }
}

/// Slots whose clocks differ by far more than a hand-off takes.
const WRONG: [u64; 3] = [0, 5_000, 90_000];

#[test]
fn skew_beyond_the_bound_is_noticed_by_a_merge() {
    // By whichever slot reads.
    for reader in 0..3 {
        let machine = Machine::skewed(&[0, 1, 2], 1, WRONG.to_vec());
        let list = List(deferring(&mut fastrand::Rng::with_seed(1), machine));
        for slot in [2, 0, 1] {
            stand_on(slot);
            list.0.queue(structures::Push(slot as u8));
        }
        stand_on(reader);
        drop(list.0.synchronize());
        // A slot that is ahead of all others takes their stamps for old ones. Those who come after it
        // do not.
        for slot in [1, 0] {
            stand_on(slot);
            list.0.queue(structures::Push(slot as u8));
        }
        drop(list.0.synchronize());
        assert_ne!(list.clock_violations(), 0, "reader on {reader}");
    }
}

#[test]
fn whatever_skew_breaks_is_noticed_and_repaired() {
    let mut chance = fastrand::Rng::with_seed(seed());
    let mut broken = 0;
    for _ in 0..20 {
        let machine = Machine::skewed(&[0, 1, 2], 1, WRONG.to_vec());
        let list = List(deferring(&mut chance, machine));
        // Each slot is used between windows, so that a wrong clock shows.
        while list.clock_violations() == 0 {
            broken +=
                usize::from(first_unexplained(&list, Life::Hopping, &mut chance, 1).is_some());
            for slot in [2, 1, 0] {
                stand_on(slot);
                list.0.queue(structures::Push(0));
            }
            list.clear();
        }
        // The machine has given its clocks up for a right one: order is kept again.
        if let Some(history) = first_unexplained(&list, Life::Hopping, &mut chance, 10) {
            panic!("after the clock was found wrong, no order explains this:\n{history:#?}");
        }
    }
    assert_ne!(
        broken, 0,
        "clocks as wrong as these break histories that are checked"
    );
}

mod checker {
    //! The checker itself, on histories known to be good and bad.

    use super::*;
    use crate::structures::{Entry, Push};

    fn explained<M: Model, const N: usize>(history: [(usize, u64, u64, Act<M>); N]) -> bool {
        is_linearizable::<Sequential<M>>(&history.map(Done::from))
    }

    fn push(value: u8) -> Act<ListModel> {
        Act::Update(Push(value))
    }

    fn read(list: &[u8]) -> Act<ListModel> {
        Act::Read(list.to_vec())
    }

    #[test]
    fn accepts_updates_in_either_order_while_they_overlap() {
        for list in [[1, 2], [2, 1]] {
            assert!(explained([
                (0, 0, 3, push(1)),
                (1, 1, 2, push(2)),
                (2, 4, 5, read(&list)),
            ]));
        }
    }

    #[test]
    fn refuses_the_other_order_when_one_returned_before_the_other_was_called() {
        assert!(!explained([
            (0, 0, 1, push(1)),
            (1, 2, 3, push(2)),
            (2, 4, 5, read(&[2, 1])),
        ]));
    }

    #[test]
    fn refuses_a_lost_update_and_one_made_twice() {
        for list in [&[][..], &[1, 1]] {
            assert!(!explained([(0, 0, 1, push(1)), (1, 2, 3, read(list))]));
        }
    }

    #[test]
    fn lets_a_read_see_an_overlapping_update_or_not() {
        for list in [&[][..], &[1]] {
            assert!(explained([(0, 0, 3, push(1)), (1, 1, 2, read(list))]));
        }
    }

    #[test]
    fn refuses_reads_that_forget_what_was_seen() {
        assert!(!explained([
            (0, 0, 9, push(1)),
            (1, 1, 2, read(&[1])),
            (2, 3, 4, read(&[])),
        ]));
    }

    #[test]
    fn starts_from_what_was_there() {
        let start = || (0, 0, 1, Act::<BookModel>::Start(BTreeSet::from([7])));
        let close = || (0, 2, 3, Act::Update(Entry::Closed(7)));
        assert!(explained([
            start(),
            close(),
            (0, 4, 5, Act::Read(BTreeSet::new())),
        ]));
        assert!(!explained([
            start(),
            close(),
            (0, 4, 5, Act::Read(BTreeSet::from([7]))),
        ]));
    }
}
