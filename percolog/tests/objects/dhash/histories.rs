//! Linearizable: threads record what they did to a few keys and saw, and a checker looks for an order that explains it.

use crate::common::history::{Done, is_linearizable, record, together};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::dhash::{DHash, ElementTable, LockedElement, Partitioned};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use todc_utils::specifications::Specification;

const THREADS: usize = 3;
const OPERATIONS: usize = 4;
const KEYS: u64 = 2;
const WINDOWS: usize = 400;

/// By key: what the element's shared part says, and how much was added to its local parts.
type Value = [Option<(u64, u64)>; KEYS as usize];

#[derive(Debug, Clone, PartialEq)]
enum Act {
    /// With the number that a new element gets, and the one that was found.
    FindOrAllocate(u64, u64, u64),
    /// The same, and one was added to the local part; whether the element was there all the while.
    Add(u64, u64, u64),
    Find(u64, Option<u64>),
    Empty(u64, bool),
    Gather(u64, Option<u64>),
    /// With the number of the element, too.
    GatherOf(u64, Option<(u64, u64)>),
}

struct Sequential;

impl Specification for Sequential {
    type State = Value;
    type Operation = Act;

    fn init() -> Value {
        Value::default()
    }

    fn apply(act: &Act, state: &Value) -> (bool, Value) {
        let mut next = *state;
        let is_right = match *act {
            Act::FindOrAllocate(key, new, found) => {
                let (shared, _) = *next[key as usize].get_or_insert((new, 0));
                shared == found
            }
            Act::Add(key, new, found) => {
                let (shared, sum) = next[key as usize].get_or_insert((new, 0));
                *sum += 1;
                *shared == found
            }
            Act::Find(key, found) => found == state[key as usize].map(|(shared, _)| shared),
            Act::Empty(key, removed) => next[key as usize].take().is_some() == removed,
            Act::Gather(key, seen) => seen == state[key as usize].map(|(_, sum)| sum),
            Act::GatherOf(key, seen) => seen == state[key as usize],
        };
        (is_right, next)
    }
}

/// Threads that overlap, each of which lives for the window or for one operation.
fn window(
    chance: &mut fastrand::Rng,
    act: impl Fn(&mut fastrand::Rng, u64) -> Act + Sync,
) -> Vec<Done<Act>> {
    let short = chance.bool();
    together(THREADS, chance, |process, chance, mine| {
        for number in 0..OPERATIONS {
            let new = (process * OPERATIONS + number) as u64;
            let (mine, chance) = (&mut *mine, &mut *chance);
            let mut once = || record(process, mine, || Some(act(chance, new)));
            if short {
                thread::scope(|scope| {
                    scope.spawn(once);
                });
            } else {
                once();
            }
        }
    })
}

/// What both tables can do.
fn common<T: ElementTable<u64, u64>>(table: &T, chance: &mut fastrand::Rng, new: u64) -> Act {
    let key = chance.u64(..KEYS);
    match chance.u8(..4) {
        0..2 => {
            let found = table.find_or_allocate_and_lock(&key, |_| new);
            Act::FindOrAllocate(key, new, *found.expect("no guard is out").shared())
        }
        2 => {
            let found = table.find_and_lock(&key).expect("no guard is out");
            Act::Find(key, found.map(|it| *it.shared()))
        }
        _ => Act::Empty(key, table.empty_data(&key).expect("nobody is called")),
    }
}

fn check(windows: usize, history: impl Fn(&mut fastrand::Rng) -> Vec<Done<Act>>) {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(windows) {
        let history = history(&mut chance);
        assert!(
            is_linearizable::<Sequential>(&history),
            "no order of operations explains this:\n{history:#?}"
        );
    }
}

#[test]
fn lookups_and_removals_are_linearizable() {
    check(WINDOWS, |chance| {
        let table = DHash::<u64, u64, ()>::new(|_, _| ());
        window(chance, |chance, new| {
            if chance.u8(..8) == 0 {
                table.evict_local().expect("nobody is called");
            }
            common(&table, chance, new)
        })
    });
}

#[test]
fn those_of_a_partitioned_table_are_linearizable() {
    check(WINDOWS, |chance| {
        let table = Partitioned::new(2, |key: &u64| *key);
        window(chance, |chance, new| common(&table, chance, new))
    });
}

/// Nobody removes: what is added to an element that is removed meanwhile counts or not.
#[test]
fn gathers_are_linearizable() {
    check(WINDOWS, |chance| {
        let table = DHash::<u64, u64, u64>::new(|_, _| 0);
        window(chance, |chance, new| {
            let key = chance.u64(..KEYS);
            if chance.u8(..3) == 0 {
                let sum = table.gather(&key, |_| 0, |sum, local| *sum += *local);
                Act::Gather(key, sum.expect("no guard is out"))
            } else {
                let local = table.find_or_allocate_and_lock(&key, |_| new);
                let mut local = local.expect("no guard is out");
                *local += 1;
                Act::Add(key, new, *local.shared())
            }
        })
    });
}

/// All that a table does, in one history. What is added to an element counts from the lookup on: who gathers waits for the guard, and
/// who removes the element meanwhile comes after it. What is evicted goes into the shared part, and no gather is in between.
#[test]
fn gathers_removals_and_evictions_are_linearizable() {
    struct Shared {
        number: u64,
        evicted: AtomicU64,
    }
    check(WINDOWS, |chance| {
        let table = DHash::<u64, Shared, u64>::new(|_, _| 0).folding(|_, shared, local| {
            // Relaxed: the table orders this.
            shared.evicted.fetch_add(local, Ordering::Relaxed);
        });
        window(chance, |chance, new| {
            let key = chance.u64(..KEYS);
            let make = |_: &u64| Shared {
                number: new,
                evicted: AtomicU64::new(0),
            };
            let rarely = chance.u8(..16);
            if rarely < 4 {
                table.evict_local().expect("nobody is called");
            } else if rarely == 4 {
                table.trim().expect("no guard is out");
            }
            match chance.u8(..8) {
                0..4 => {
                    let local = table.find_or_allocate_and_lock(&key, make);
                    let mut local = local.expect("no guard is out");
                    if chance.bool() {
                        thread::yield_now();
                    }
                    *local += 1;
                    Act::Add(key, new, local.shared().number)
                }
                4 => {
                    let found = table.find_and_lock(&key).expect("no guard is out");
                    Act::Find(key, found.map(|it| it.shared().number))
                }
                5 => Act::Empty(key, table.empty_data(&key).expect("nobody is called")),
                _ => {
                    let begin =
                        |shared: &Shared| (shared.number, shared.evicted.load(Ordering::Relaxed));
                    let seen = table.gather(&key, begin, |(_, sum), local| *sum += *local);
                    Act::GatherOf(key, seen.expect("no guard is out"))
                }
            }
        })
    });
}

/// The checker tells good from bad.
#[test]
fn what_is_found_after_its_removal_is_not_linearizable() {
    let history = [
        (0, 0, 1, Act::FindOrAllocate(0, 1, 1)),
        (1, 2, 3, Act::Empty(0, true)),
        (0, 4, 5, Act::Find(0, Some(1))),
    ];
    assert!(!is_linearizable::<Sequential>(&history.map(Done::from)));
    let two_allocate = [
        (0, 0, 3, Act::FindOrAllocate(0, 1, 1)),
        (1, 1, 2, Act::FindOrAllocate(0, 2, 2)),
    ];
    assert!(!is_linearizable::<Sequential>(
        &two_allocate.map(Done::from)
    ));
    // What was added to an element that was removed is not in the one that is there now; what was evicted is.
    for (sum, expected) in [(0, false), (1, true), (2, false)] {
        let history = [
            (0, 0, 1, Act::Add(0, 1, 1)),
            (0, 2, 3, Act::Empty(0, true)),
            (0, 4, 5, Act::Add(0, 2, 2)),
            (1, 6, 7, Act::GatherOf(0, Some((2, sum)))),
        ];
        assert_eq!(
            is_linearizable::<Sequential>(&history.map(Done::from)),
            expected
        );
    }
}
