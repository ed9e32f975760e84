//! Histories in which a set that absorbs carelessly goes wrong, on all ways to spread them over cores.

use crate::common::machine::{Machine, stand_on};
use percolog::collections::Set;
use percolog::collections::SetState;
use percolog::oplog::{LoggedBuilder, Mode};
use std::collections::{BTreeSet, HashSet};

/// Cores that a history is spread over. The last shares a dirty mark with the first.
const CORES: [u32; 3] = [0, 1, 1024];

/// What a history does, in order, as `"+x -x"`.
fn steps(history: &'static str) -> Vec<(bool, &'static str)> {
    history
        .split(' ')
        .map(|step| (step.starts_with('+'), &step[1..]))
        .collect()
}

/// Runs a history on a set of each kind, on each way to spread it over the cores, with no read or one, after
/// each of its steps, and compares with a plain set.
fn ends_as_it_would_at_once(before: &[&'static str], history: &'static str) {
    spread::<BTreeSet<&'static str>>(before, history);
    spread::<HashSet<&'static str>>(before, history);
}

fn spread<S>(before: &[&'static str], history: &'static str)
where
    S: SetState<&'static str> + FromIterator<&'static str> + Sync,
    S: Clone + IntoIterator<Item = &'static str>,
{
    let steps = steps(history);
    for absorb_while_merging in [false, true] {
        let builder = LoggedBuilder::new()
            .mode(Mode::Deferring)
            .absorb_while_merging(absorb_while_merging);
        for placement in 0..CORES.len().pow(steps.len() as u32) {
            for read_after in 0..=steps.len() {
                let set: Set<&str, S, Machine> = Set::build_in(
                    builder,
                    before.iter().copied().collect(),
                    Machine::exact(&CORES),
                );
                let mut model: BTreeSet<&str> = before.iter().copied().collect();
                for (at, (add, key)) in steps.iter().copied().enumerate() {
                    let core = placement / CORES.len().pow(at as u32) % CORES.len();
                    stand_on(CORES[core]);
                    if add {
                        set.insert(key);
                        model.insert(key);
                    } else {
                        set.remove(key);
                        model.remove(key);
                    }
                    if at == read_after {
                        let seen: BTreeSet<_> = set.read().clone().into_iter().collect();
                        assert_eq!(seen, model, "{history} on {placement} after {at}");
                    }
                }
                let left: BTreeSet<_> = set.into_inner().into_iter().collect();
                assert_eq!(left, model, "{history} on {placement}");
            }
        }
    }
}

#[test]
fn links_and_unlinks_around_another_one() {
    ends_as_it_would_at_once(&[], "+x -x +y +x -x");
    ends_as_it_would_at_once(&["x"], "+x -x +y +x -x");
}

#[test]
fn adding_and_removing_what_is_there_leaves_it_absent() {
    ends_as_it_would_at_once(&["x"], "+x -x");
    // On one core, where the one replaces the other, in so many words.
    let set: Set<u8> = Set::build(
        LoggedBuilder::new().mode(Mode::Deferring),
        BTreeSet::from([7]),
    );
    set.insert(7);
    set.remove(7);
    assert_eq!(set.stats().pending, 1);
    assert!(!set.contains(&7));
}

#[test]
fn removing_and_adding_what_is_there_leaves_it_present() {
    ends_as_it_would_at_once(&["x", "y"], "-x +x");
}

#[test]
fn a_key_that_two_cores_change_in_turn_ends_absent() {
    ends_as_it_would_at_once(&[], "+x -x +x -x");
    // Add on core 1, Remove and Add on core 2, Remove on core 1: each core keeps one change, and both must have the later stamp.
    for absorb_while_merging in [false, true] {
        let set: Set<&str, BTreeSet<&str>, Machine> = Set::build_in(
            LoggedBuilder::new()
                .mode(Mode::Deferring)
                .absorb_while_merging(absorb_while_merging),
            BTreeSet::new(),
            Machine::exact(&[1, 2]),
        );
        for (core, add) in [(1, true), (2, false), (2, true), (1, false)] {
            stand_on(core);
            if add {
                set.insert("x");
            } else {
                set.remove("x");
            }
        }
        assert_eq!(set.stats().pending, 2);
        assert!(set.is_empty());
    }
}
