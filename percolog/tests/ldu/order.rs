//! Linearizability: threads record what they did and were told, and a checker looks for an order that
//! explains it.

use crate::machine::{Machine, be_moved, stand_on};
use crate::seed::seed;
use crate::share::share;
use crate::{VARIANTS, of};
use percolog::ldu::{Bag, Deferred, Entry, Fifo, Refused, Stamped};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

const THREADS: usize = 3;
const SLOTS: [u32; 5] = [0, 1, 2, 1024, 1025];

/// Something done between two instants.
#[derive(Debug, Clone)]
struct Done<A> {
    called: u64,
    returned: u64,
    act: A,
}

static TICKETS: AtomicU64 = AtomicU64::new(0);

fn record<A>(history: &mut Vec<Done<A>>, act: impl FnOnce() -> A) {
    // Sequentially consistent: whoever draws the smaller ticket came first, for every other thread.
    let called = TICKETS.fetch_add(1, Ordering::SeqCst);
    let act = act();
    let returned = TICKETS.fetch_add(1, Ordering::SeqCst);
    history.push(Done {
        called,
        returned,
        act,
    });
}

fn is_linearizable<S>(history: &[Done<S::Operation>]) -> bool
where
    S: Specification,
    S::State: Clone + Eq + Hash,
    S::Operation: Clone + Debug,
{
    // Each act is a process of its own: those of one thread do not overlap anyhow.
    let mut actions: Vec<_> = history
        .iter()
        .enumerate()
        .flat_map(|(process, done)| {
            [
                (done.called, process, Action::Call(done.act.clone())),
                (done.returned, process, Action::Response(done.act.clone())),
            ]
        })
        .collect();
    actions.sort_by_key(|(ticket, ..)| *ticket);
    WGLChecker::<S>::is_linearizable(History::from_actions(
        actions
            .into_iter()
            .map(|(_, process, action)| (process, action))
            .collect(),
    ))
}

/// Runs `act` so many times in each of several threads that are moved and held up, and returns what all did.
fn threads<A: Send>(
    chance: &mut fastrand::Rng,
    times: usize,
    act: impl Fn(&mut fastrand::Rng, &mut Vec<Done<A>>) + Sync,
) -> Vec<Done<A>> {
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (mut chance, barrier, act) = (chance.fork(), &barrier, &act);
                scope.spawn(move || {
                    stand_on(SLOTS[thread]);
                    be_moved(chance.u64(..));
                    let mut history = Vec::new();
                    barrier.wait();
                    for _ in 0..times {
                        act(&mut chance, &mut history);
                    }
                    history
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// One entry, which is in one of two containers or in none.
#[derive(Debug, Clone)]
enum Touch {
    Insert(usize, Result<(), Refused>),
    Remove(usize, Result<(), Refused>),
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
                Some(other) if *other == at => (outcome == Err(Refused::Present), *place),
                Some(_) => (outcome == Err(Refused::Elsewhere), *place),
            },
            Touch::Remove(at, outcome) => match place {
                Some(other) if *other == at => (outcome.is_ok(), None),
                _ => (outcome == Err(Refused::Absent), *place),
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
        let history = threads(&mut chance, 4, |chance, history| {
            let at = chance.usize(..2);
            let container = &containers[at];
            match chance.u8(..8) {
                0..3 => record(history, || Touch::Insert(at, container.insert(&entry))),
                3..6 => record(history, || Touch::Remove(at, container.remove(&entry))),
                6 => record(history, || {
                    Touch::See(at, !container.synchronize().is_empty())
                }),
                _ => record(history, || {
                    Touch::Pop(at, container.synchronize().pop().is_some())
                }),
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
        let mut history = threads(&mut chance, 4, |chance, history| {
            let at = chance.u8(..3);
            let entry = &entries[usize::from(at)];
            match chance.u8(..8) {
                0..4 => record(history, || Turn::Push(at, fifo.push(entry).is_ok())),
                4..6 => record(history, || Turn::Remove(at, fifo.remove(entry).is_ok())),
                _ => record(history, || Turn::Pop(fifo.pop().map(|entry| **entry))),
            }
        });
        for _ in 0..4 {
            record(&mut history, || Turn::Pop(fifo.pop().map(|entry| **entry)));
        }
        assert!(
            is_linearizable::<Line>(&history),
            "window {window}: {history:#?}"
        );
    }
}
