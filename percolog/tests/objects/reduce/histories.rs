//! Linearizable: real threads record what they did and saw, and a checker looks for an order of all operations that explains
//! it. Histories are short, since checking is exponential, and many.

use crate::common::history::{Done, is_linearizable, record, together};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::reduce::{Reducer, Sum};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use todc_utils::specifications::Specification;

const THREADS: usize = 3;
const OPERATIONS: usize = 3;
const WINDOWS: usize = 400;

/// How often each kind of update was made. Two that one read shows apart are two that it can get wrong.
type Value = [Sum<u32>; 4];

#[derive(Debug, Clone, PartialEq)]
enum Act {
    Add(usize),
    Read(Value),
    Take(Value),
}

struct Sequential;

impl Specification for Sequential {
    type State = Value;
    type Operation = Act;

    fn init() -> Value {
        Value::default()
    }

    fn apply(act: &Act, state: &Value) -> (bool, Value) {
        match act {
            Act::Add(kind) => {
                let mut state = *state;
                state[*kind].add(1);
                (true, state)
            }
            Act::Read(seen) => (seen == state, *state),
            Act::Take(seen) => (seen == state, Value::default()),
        }
    }
}

/// Some threads that overlap, each of which lives for the window or for one operation, on a reducer that is new, so that
/// shares come into being meanwhile.
fn window(chance: &mut fastrand::Rng) -> Vec<Done<Act>> {
    let reducer: Reducer<Value> = Reducer::new();
    let short = chance.bool();
    let act = |process, history: &mut Vec<Done<Act>>, chance: &mut fastrand::Rng| {
        let kind = chance.usize(..4);
        record(process, history, || {
            Some(match chance.u8(..8) {
                0..5 => {
                    reducer.update(|share| share[kind].add(1));
                    Act::Add(kind)
                }
                5..7 => Act::Read(reducer.read()),
                _ => Act::Take(reducer.take()),
            })
        });
    };
    let mut history = together(THREADS, chance, |process, chance, mine| {
        for _ in 0..OPERATIONS {
            let (mine, chance) = (&mut *mine, &mut *chance);
            if short {
                thread::scope(|scope| {
                    scope.spawn(|| act(process, mine, chance));
                });
            } else {
                act(process, mine, chance);
            }
        }
    });
    record(0, &mut history, || Some(Act::Read(reducer.read())));
    history
}

#[test]
fn reads_and_takes_are_linearizable() {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(WINDOWS) {
        let history = window(&mut chance);
        assert!(
            is_linearizable::<Sequential>(&history),
            "no order of operations explains this:\n{history:#?}"
        );
    }
}

/// The checker tells good from bad.
#[test]
fn an_effect_without_its_cause_is_not_linearizable() {
    let mut effect = Value::default();
    effect[1].add(1);
    let history = [
        (0, 1, 2, Act::Add(0)),
        (1, 3, 4, Act::Add(1)),
        (2, 0, 5, Act::Read(effect)),
    ];
    assert!(!is_linearizable::<Sequential>(&history.map(Done::from)));
}

/// One thread makes causes, another hears of each and makes its effect; readers compare.
#[test]
fn readers_never_see_an_effect_without_its_cause() {
    let pairs = share(20_000) as u64;
    let reducer: Reducer<[Sum<u64>; 2]> = Reducer::new();
    let caused = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for to in 1..=pairs {
                reducer.update(|share| share[0].add(1));
                caused.store(to, Ordering::Release);
            }
        });
        let effects = scope.spawn(|| {
            let mut last = 0;
            while last < pairs {
                let to = caused.load(Ordering::Acquire);
                if to == last {
                    thread::yield_now();
                    continue;
                }
                reducer.update(|share| share[1].add(to - last));
                last = to;
            }
        });
        while !effects.is_finished() {
            let [cause, effect] = reducer.read();
            assert!(effect <= cause, "effect {effect:?} of cause {cause:?}");
        }
    });
    assert_eq!(reducer.into_inner(), [Sum(pairs); 2]);
}
