//! What never has to be executed, and what does.

use crate::common::machine::{Machine, stand_on};
use percolog::collections::Set;
use percolog::oplog::{LoggedBuilder, Mode};
use std::collections::BTreeSet;

const SLOTS: [u32; 3] = [0, 1, 2];

fn set() -> Set<u64, BTreeSet<u64>, Machine> {
    Set::build_in(
        LoggedBuilder::new().mode(Mode::Deferring),
        BTreeSet::new(),
        Machine::exact(&SLOTS),
    )
}

#[test]
fn changes_of_the_same_keys_go_on_for_ever_without_a_merge() {
    // As many as a queue takes: one that is full still replaces what it has.
    const KEYS: u64 = 128;
    let set = set();
    let mut bytes = None;
    for number in 0..100_000_u64 {
        stand_on(SLOTS[(number / KEYS) as usize % SLOTS.len()]);
        let key = number % KEYS;
        if (number / KEYS).is_multiple_of(2) {
            set.insert(key);
        } else {
            set.remove(key);
        }
        if number == 10_000 {
            bytes = Some(set.memory_usage());
        }
    }
    let stats = set.stats();
    assert_eq!((stats.merges, stats.executed), (0, 0), "{stats:?}");
    assert_eq!(stats.pending, KEYS as usize * SLOTS.len());
    assert_eq!(stats.absorbed, 100_000 - stats.pending as u64);
    assert_eq!(Some(set.memory_usage()), bytes, "queues do not grow");
    // The last word on each key: an odd round is the last complete one, an even one has begun.
    let rounds = 100_000 / KEYS;
    let begun = 100_000 % KEYS;
    let expected: BTreeSet<u64> = if rounds.is_multiple_of(2) {
        0..begun
    } else {
        begun..KEYS
    }
    .collect();
    assert_eq!(*set.read(), expected);
    // Of three slots' last words on a key only the last one is executed.
    assert_eq!(set.stats().executed, KEYS);
}

#[test]
fn keys_that_are_ever_new_are_all_executed_and_none_is_lost() {
    let set = set();
    for key in 0..10_000_u64 {
        stand_on(SLOTS[key as usize % SLOTS.len()]);
        set.insert(key);
    }
    let stats = set.stats();
    assert!(
        stats.merges >= 10_000 / (128 * SLOTS.len() as u64),
        "{stats:?}"
    );
    assert_eq!(stats.absorbed, 0);
    assert!((0..10_000).eq(set.into_inner()));
}
