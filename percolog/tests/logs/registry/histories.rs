//! Linearizable: real threads record who came, who went and who was there, and a checker looks for an order of all operations in
//! which a plain set shows the same.

use crate::common::history::{Done, is_linearizable, record, together};
use crate::common::machine::{Machine, be_moved, stand_on};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::Registry;
use percolog::cpu::{self, CoreId};
use percolog::testing::{Environment, Native};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use todc_utils::specifications::Specification;

const THREADS: usize = 3;
const OPERATIONS: usize = 4;
const WINDOWS: usize = 200;

/// The last two share a dirty mark with the first two.
const SLOTS: [u32; 5] = [0, 1, 2, 1024, 1025];

#[derive(Debug, Clone, PartialEq)]
enum Act {
    Came(u64),
    Went(u64),
    There(BTreeSet<u64>),
    Many(usize),
}

struct Sequential;

impl Specification for Sequential {
    type State = BTreeSet<u64>;
    type Operation = Act;

    fn init() -> BTreeSet<u64> {
        BTreeSet::new()
    }

    fn apply(act: &Act, state: &BTreeSet<u64>) -> (bool, BTreeSet<u64>) {
        let mut state = state.clone();
        let is_right = match act {
            Act::Came(value) => state.insert(*value),
            Act::Went(value) => state.remove(value),
            Act::There(seen) => *seen == state,
            Act::Many(seen) => *seen == state.len(),
        };
        (is_right, state)
    }
}

fn there<E: Environment>(registry: &Registry<u64, E>) -> Option<Act> {
    let list = registry.list();
    Some(Act::There(list.iter().map(|(_, value)| *value).collect()))
}

/// Some threads that overlap and share their handles, on a registry that is new.
fn window<E: Environment + Sync>(
    registry: &Registry<u64, E>,
    hopping: bool,
    chance: &mut fastrand::Rng,
) -> Vec<Done<Act>> {
    let values = AtomicU64::new(0);
    let handles = Mutex::new(Vec::new());
    let mut history = together(THREADS, chance, |process, chance, mine| {
        be_moved(chance.u64(..));
        for _ in 0..OPERATIONS {
            if hopping {
                let slot = SLOTS[chance.usize(..SLOTS.len())];
                stand_on(slot);
                cpu::bind(CoreId::new(slot));
            }
            match chance.u8(..8) {
                0..3 => {
                    let value = values.fetch_add(1, Ordering::SeqCst);
                    let mut made = None;
                    record(process, mine, || {
                        made = Some(registry.register(value));
                        Some(Act::Came(value))
                    });
                    let mut handles = handles.lock().expect("no panic");
                    handles.push((value, made));
                }
                3..6 => {
                    let taken = handles.lock().expect("no panic").pop();
                    record(process, mine, || {
                        let (value, handle) = taken?;
                        drop(handle);
                        Some(Act::Went(value))
                    });
                }
                6 => record(process, mine, || there(registry)),
                _ => record(process, mine, || Some(Act::Many(registry.len()))),
            }
        }
    });
    record(0, &mut history, || there(registry));
    history
}

fn stays_linearizable<E: Environment + Sync>(environment: impl Fn() -> E) {
    let mut chance = fastrand::Rng::with_seed(seed());
    for at in 0..share(WINDOWS) {
        let registry = Registry::new_in(environment());
        let history = window(&registry, at % 2 == 0, &mut chance);
        assert!(
            is_linearizable::<Sequential>(&history),
            "no order of operations explains this:\n{history:#?}"
        );
        assert_eq!(registry.stats().clock_violations, 0);
        assert!(registry.is_empty());
    }
}

#[test]
fn on_this_machine() {
    stays_linearizable(|| Native);
}

#[test]
fn with_forced_migration() {
    stays_linearizable(|| Machine::exact(&SLOTS));
}

/// Clocks differ by less than a hand-off between threads takes.
#[test]
fn with_skew_within_the_bound() {
    stays_linearizable(|| Machine::skewed(&[0, 1, 2], 100, vec![0, 99, 42]));
}

/// The checker tells good from bad.
#[test]
fn what_no_plain_set_shows_is_not_linearizable() {
    for seen in [Act::There([1, 2].into()), Act::Many(2), Act::Many(0)] {
        let history = [
            (0, 0, 1, Act::Came(1)),
            (1, 2, 3, Act::Came(2)),
            (0, 4, 5, Act::Went(1)),
            (2, 6, 7, seen),
        ];
        assert!(!is_linearizable::<Sequential>(&history.map(Done::from)));
    }
}
