//! Linearizability: threads record what they did and were told, and a checker looks for an order that
//! explains it.

use crate::common::history::{Done, is_linearizable, record, together};
use crate::common::machine::{Machine, be_moved, stand_on};
use crate::common::seed::seed;
use crate::common::share::share;
use crate::ldu::{VARIANTS, of};
use percolog::ldu::{Bag, Deferred, Entry, Fifo, Stamped, UpdateError};
use std::collections::VecDeque;
use todc_utils::specifications::Specification;

const THREADS: usize = 3;
const SLOTS: [u32; 5] = [0, 1, 2, 1024, 1025];

/// Runs `act` so many times in each of several threads that are moved and held up, and returns what all did.
fn threads<A: Send>(
    chance: &mut fastrand::Rng,
    times: usize,
    act: impl Fn(&mut fastrand::Rng) -> A + Sync,
) -> Vec<Done<A>> {
    together(THREADS, chance, |process, chance, history| {
        stand_on(SLOTS[process]);
        be_moved(chance.u64(..));
        for _ in 0..times {
            record(process, history, || Some(act(chance)));
        }
    })
}

/// One entry, which is in one of two containers or in none.
#[derive(Debug, Clone)]
enum Touch {
    Insert(usize, Result<(), UpdateError>),
    Remove(usize, Result<(), UpdateError>),
    Pop(usize, bool),
    See(usize, bool),
}

struct Place;

impl Specification for Place {
    type State = Option<usize>;
    type Operation = Touch;

    fn init() -> Option<usize> {
        None
    }

    fn apply(touch: &Touch, place: &Option<usize>) -> (bool, Option<usize>) {
        match *touch {
            Touch::Insert(at, outcome) => match place {
                None => (outcome.is_ok(), Some(at)),
                Some(other) if *other == at => (outcome == Err(UpdateError::Present), *place),
                Some(_) => (outcome == Err(UpdateError::Elsewhere), *place),
            },
            Touch::Remove(at, outcome) => match place {
                Some(other) if *other == at => (outcome.is_ok(), None),
                _ => (outcome == Err(UpdateError::Absent), *place),
            },
            Touch::Pop(at, true) => (*place == Some(at), None),
            Touch::Pop(at, false) | Touch::See(at, false) => (*place != Some(at), *place),
            Touch::See(at, true) => (*place == Some(at), *place),
        }
    }
}

#[test]
fn updates_of_an_entry_are_linearizable() {
    let mut chance = fastrand::Rng::with_seed(seed());
    for window in 0..share(300) {
        let machine = Machine::exact(&SLOTS);
        let containers: [Deferred<Bag<()>, Machine>; 2] = std::array::from_fn(|_| {
            of(VARIANTS[chance.usize(..2)])
                .limit(chance.usize(1..3))
                .build_in(Bag::new(), machine.clone())
        });
        let entry = Entry::new(());
        let history = threads(&mut chance, 4, |chance| {
            let at = chance.usize(..2);
            let container = &containers[at];
            match chance.u8(..8) {
                0..3 => Touch::Insert(at, container.insert(&entry)),
                3..6 => Touch::Remove(at, container.remove(&entry)),
                6 => Touch::See(at, !container.synchronize().is_empty()),
                _ => Touch::Pop(at, container.synchronize().pop().is_some()),
            }
        });
        assert!(
            is_linearizable::<Place>(&history),
            "window {window}: {history:#?}"
        );
    }
}

/// What threads do to a queue.
#[derive(Debug, Clone)]
enum Turn {
    Push(u8, bool),
    Remove(u8, bool),
    Pop(Option<u8>),
}

struct Line;

impl Specification for Line {
    type State = VecDeque<u8>;
    type Operation = Turn;

    fn init() -> VecDeque<u8> {
        VecDeque::new()
    }

    fn apply(turn: &Turn, line: &VecDeque<u8>) -> (bool, VecDeque<u8>) {
        let mut line = line.clone();
        let right = match *turn {
            Turn::Push(entry, done) => {
                let absent = !line.contains(&entry);
                if absent {
                    line.push_back(entry);
                }
                done == absent
            }
            Turn::Remove(entry, done) => {
                let place = line.iter().position(|other| *other == entry);
                place.map(|place| line.remove(place));
                done == place.is_some()
            }
            Turn::Pop(seen) => line.pop_front() == seen,
        };
        (right, line)
    }
}

#[test]
fn a_fifo_is_linearizable() {
    let mut chance = fastrand::Rng::with_seed(seed());
    for window in 0..share(300) {
        let machine = Machine::exact(&SLOTS);
        let limit = [1, 2, usize::MAX][chance.usize(..3)];
        let fifo = Fifo::with_limit_in(limit, machine);
        let entries: [_; 3] = std::array::from_fn(|at| Entry::new(Stamped::new(at as u8)));
        let mut history = threads(&mut chance, 4, |chance| {
            let at = chance.u8(..3);
            let entry = &entries[usize::from(at)];
            match chance.u8(..8) {
                0..4 => Turn::Push(at, fifo.push(entry).is_ok()),
                4..6 => Turn::Remove(at, fifo.remove(entry).is_ok()),
                _ => Turn::Pop(fifo.pop().map(|entry| **entry)),
            }
        });
        for _ in 0..4 {
            let popped = || Some(Turn::Pop(fifo.pop().map(|entry| **entry)));
            record(0, &mut history, popped);
        }
        assert!(
            is_linearizable::<Line>(&history),
            "window {window}: {history:#?}"
        );
    }
}
