//! Recorded histories, for each of which there must be an order that explains all answers.

use crate::common::history::{is_linearizable, record, together};
use crate::common::seed::seed;
use crate::common::share::share;
use crate::ordered::{Collided, Hashed, List, Structure};
use percolog::reclaim::Domain;
use std::thread;
use todc_utils::specifications::Specification;

const THREADS: usize = 3;
const KEYS: usize = 3;
/// What each thread does in a window.
const ACTS: usize = 4;

type State = [Option<u64>; KEYS];

/// What a thread did, and what it was told.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The window's first: what there was before.
    Start(State),
    Add(usize, u64, bool),
    Put(usize, u64, Option<u64>),
    /// What was there, or was added.
    GetOrAdd(usize, u64, u64),
    Delete(usize, Option<u64>),
    /// If the value is even.
    DeleteIf(usize, bool),
    /// Makes it one more.
    Update(usize, bool),
    Look(usize, Option<u64>),
}

struct Sequential;

impl Specification for Sequential {
    type State = State;
    type Operation = Act;

    fn init() -> State {
        State::default()
    }

    fn apply(act: &Act, state: &State) -> (bool, State) {
        let mut next = *state;
        let is_right = match *act {
            Act::Start(start) => {
                next = start;
                true
            }
            Act::Add(key, value, added) => {
                if state[key].is_none() {
                    next[key] = Some(value);
                }
                added == state[key].is_none()
            }
            Act::Put(key, value, replaced) => {
                next[key] = Some(value);
                replaced == state[key]
            }
            Act::GetOrAdd(key, value, found) => {
                next[key] = state[key].or(Some(value));
                next[key] == Some(found)
            }
            Act::Delete(key, last) => {
                next[key] = None;
                last == state[key]
            }
            Act::DeleteIf(key, deleted) => {
                next[key] = state[key].filter(|value| value % 2 == 1);
                deleted == (next[key] != state[key])
            }
            Act::Update(key, updated) => {
                next[key] = state[key].map(|value| value + 1);
                updated == state[key].is_some()
            }
            Act::Look(key, found) => found == state[key],
        };
        (is_right, next)
    }
}

/// Does something at random.
fn act<S: Structure<u64>>(
    subject: &S,
    domain: &Domain,
    chance: &mut fastrand::Rng,
    fresh: u64,
) -> Act {
    let key = chance.usize(..KEYS);
    let name = key as u64;
    match chance.u8(..10) {
        9 => {
            let section = domain.enter();
            let found = subject.get_or_add(&section, name, || fresh);
            Act::GetOrAdd(key, fresh, *found.expect("there is memory"))
        }
        0 | 1 => Act::Add(key, fresh, subject.add(name, fresh).is_ok()),
        2 => Act::Put(
            key,
            fresh,
            subject
                .put_with(name, fresh, |value| *value)
                .expect("there is memory"),
        ),
        3 | 4 => Act::Delete(key, subject.delete_with(name, |value| *value)),
        5 => Act::DeleteIf(key, subject.delete_if(name, |value| value % 2 == 0)),
        6 => Act::Update(key, subject.update(name, |value| value + 1).is_ok()),
        _ => Act::Look(key, subject.observe(name, |value| *value)),
    }
}

fn stays_linearizable<S: Structure<u64>>() {
    let domain = Domain::new();
    let mut chance = fastrand::Rng::with_seed(seed());
    let subject = S::make(&domain);
    for round in 0..share(200) {
        let before = std::array::from_fn(|key| subject.observe(key as u64, |value| *value));
        let mut history = Vec::new();
        record(0, &mut history, || Some(Act::Start(before)));
        history.extend(together(THREADS, &mut chance, |thread, chance, mine| {
            for number in 0..ACTS {
                let fresh = (10 * (round * ACTS + number) * THREADS + thread) as u64;
                record(thread, mine, || Some(act(&subject, &domain, chance, fresh)));
                if chance.bool() {
                    thread::yield_now();
                }
            }
        }));
        assert!(is_linearizable::<Sequential>(&history), "{history:#?}");
    }
}

#[test]
fn a_list_is_linearizable() {
    stays_linearizable::<List<u64>>();
}

#[test]
fn a_map_is_linearizable() {
    stays_linearizable::<Hashed<u64>>();
}

#[test]
fn a_map_whose_keys_collide_is_linearizable() {
    stays_linearizable::<Collided<u64>>();
}
