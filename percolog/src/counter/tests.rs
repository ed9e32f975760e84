//! The algorithms against a sequential model, with rows chosen by hand.

use super::Counter;
use super::bank::{Bank, COMMON, Tally};
use crate::cpu::lease::LEASES;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::format;
use std::vec::Vec;

fn add_leased(bank: &Bank, tally: &Tally, lease: usize, amount: i64) {
    if !bank.add_leased(tally, lease, amount) {
        bank.prepare(tally, lease);
        assert!(bank.add_leased(tally, lease, amount));
    }
}

#[test]
fn costs_32_bytes() {
    assert_eq!(size_of::<Counter>(), 32);
}

#[derive(Debug, Clone)]
enum Step {
    Add {
        counter: usize,
        row: Row,
        amount: i64,
    },
    Sum {
        counter: usize,
    },
    /// Dropped, and a new one in its stead.
    Renew {
        counter: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Leased(usize),
    Common(usize),
}

const COUNTERS: usize = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let row = prop_oneof![
        3 => (0..4usize).prop_map(Row::Leased),
        1 => Just(Row::Leased(LEASES - 1)),
        2 => (0..3usize).prop_map(Row::Common),
        // Beyond the rows there are: shared, never refused.
        1 => (0..3usize).prop_map(|row| Row::Common(row + COMMON)),
    ];
    let amount = prop_oneof![4 => -20..20i64, 1 => any::<i64>()];
    let step = prop_oneof![
        12 => (0..COUNTERS, row, amount)
            .prop_map(|(counter, row, amount)| Step::Add { counter, row, amount }),
        2 => (0..COUNTERS).prop_map(|counter| Step::Sum { counter }),
        1 => (0..COUNTERS).prop_map(|counter| Step::Renew { counter }),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn sums_are_exact_and_estimates_within_their_bound(
        batch in prop_oneof![0..50u64, Just(u64::MAX), Just(1 << 63), Just((1 << 63) - 1)],
        steps in steps(),
    ) {
        let bank = Bank::new();
        let mut tallies: Vec<_> = (0..COUNTERS).map(|_| Tally::new(batch)).collect();
        // The sequential model: a value, and the rows that were added to.
        let mut models: Vec<_> = (0..COUNTERS).map(|_| (0i64, BTreeSet::new())).collect();
        for step in steps {
            let counter = match step {
                Step::Add { counter, row, amount } => {
                    match row {
                        Row::Leased(lease) => add_leased(&bank, &tallies[counter], lease, amount),
                        Row::Common(number) => bank.add_common(&tallies[counter], number, amount),
                    }
                    let (value, rows) = &mut models[counter];
                    *value = value.wrapping_add(amount);
                    rows.insert(match row {
                        Row::Common(number) => Row::Common(number % COMMON),
                        leased @ Row::Leased(_) => leased,
                    });
                    counter
                }
                Step::Sum { counter } => {
                    prop_assert_eq!(bank.sum(&tallies[counter]), models[counter].0);
                    prop_assert_eq!(tallies[counter].estimate(), models[counter].0);
                    counter
                }
                Step::Renew { counter } => {
                    bank.clear(&mut tallies[counter]);
                    tallies[counter] = Tally::new(batch);
                    models[counter] = (0, BTreeSet::new());
                    counter
                }
            };
            let (value, rows) = &models[counter];
            let off = tallies[counter].estimate().wrapping_sub(*value).unsigned_abs();
            prop_assert!(u128::from(off) <= 2 * u128::from(batch) * rows.len() as u128);
        }
        for (tally, (value, _)) in tallies.iter().zip(&models) {
            prop_assert_eq!(bank.sum(tally), *value);
        }
        prop_assert!(bank.places_ever() <= COUNTERS as u64);
    }
}

#[test]
fn the_shared_word_is_written_once_a_batch() {
    let bank = Bank::new();
    let tally = Tally::new(1000);
    let mut changes = 0;
    let mut before = tally.estimate();
    for _ in 0..100_100 {
        add_leased(&bank, &tally, 0, 1);
        let now = tally.estimate();
        changes += usize::from(now != before);
        before = now;
    }
    assert_eq!(changes, 100);
    assert_eq!(bank.sum(&tally), 100_100);
}

#[test]
fn a_batch_of_zero_misses_no_finished_add() {
    let bank = Bank::new();
    let tally = Tally::new(0);
    for amount in [1, -5, i64::MAX, 17] {
        let before = tally.estimate();
        add_leased(&bank, &tally, 3, amount);
        bank.add_common(&tally, 3, amount);
        assert_eq!(
            tally.estimate(),
            before.wrapping_add(amount).wrapping_add(amount)
        );
    }
}

#[test]
fn dropped_counters_leave_their_places_clear_in_both_banks() {
    let bank = Bank::new();
    for round in 1..=50 {
        let mut tallies: Vec<_> = (0..200).map(|_| Tally::new(10)).collect();
        for tally in &tallies {
            assert_eq!((bank.sum(tally), tally.estimate()), (0, 0));
            for row in [0, 1, 40] {
                add_leased(&bank, tally, row, 7 * round);
                // Some stay pending, some have been folded.
                bank.add_common(tally, row, round);
            }
            assert_eq!(bank.sum(tally), 3 * 8 * round);
        }
        tallies.iter_mut().for_each(|tally| bank.clear(tally));
    }
    assert_eq!(bank.places_ever(), 200);
}

#[test]
fn begins_where_it_is_told() {
    for value in [0, 5, -5, 1 << 40, i64::MAX, i64::MIN] {
        let counter = Counter::from(value);
        assert_eq!((counter.estimate(), counter.sum()), (value, value));
        counter.increment();
        assert_eq!(counter.sum(), value.wrapping_add(1));
    }
}

#[test]
fn wraps_around() {
    let counter = Counter::from(i64::MAX);
    counter.increment();
    assert_eq!(counter.sum(), i64::MIN);
    counter.decrement();
    assert_eq!(counter.sum(), i64::MAX);
    counter.add(i64::MIN);
    counter.add(i64::MIN);
    assert_eq!(counter.sum(), i64::MAX);
    assert_eq!(counter.estimate(), i64::MAX);
}

#[test]
fn debug_shows_the_estimate_and_never_walks() {
    let counter = Counter::with_batch(100);
    counter.add(3);
    // Not folded and not summed yet.
    assert_eq!(
        format!("{counter:?}"),
        "Counter { estimate: 0, batch: 100, .. }"
    );
    assert_eq!(counter.sum(), 3);
    assert_eq!(
        format!("{counter:?}"),
        "Counter { estimate: 3, batch: 100, .. }"
    );
}
