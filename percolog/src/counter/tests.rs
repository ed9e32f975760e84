//! The algorithms against a sequential model, with rows chosen by hand.

use super::Counter;
use super::bank::{Added, Bank, COMMON};
use super::tally::Tally;
use crate::cpu::lease::LEASES;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::format;
use std::vec::Vec;

fn add_leased(bank: &Bank, tally: &Tally, lease: usize, amount: i64) {
    loop {
        match bank.add_leased(tally, lease, amount) {
            Added::Done => return,
            Added::Full => return bank.heat_up(tally),
            Added::Not if bank.add_slowly(tally, lease, amount) => return,
            Added::Not => {}
        }
    }
}

#[test]
fn costs_16_bytes() {
    assert_eq!(size_of::<Counter>(), 16);
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
        // The sequential model: a value, the rows that were added to, and the most that can be pending in them.
        let mut models: Vec<_> = (0..COUNTERS).map(|_| (0i64, BTreeSet::new(), 0u64)).collect();
        for step in steps {
            let counter = match step {
                Step::Add { counter, row, amount } => {
                    match row {
                        Row::Leased(lease) => add_leased(&bank, &tallies[counter], lease, amount),
                        Row::Common(number) => bank.add_common(&tallies[counter], number, amount),
                    }
                    let (value, rows, pending) = &mut models[counter];
                    *value = value.wrapping_add(amount);
                    *pending = pending.saturating_add(amount.unsigned_abs());
                    rows.insert(match row {
                        Row::Common(number) => Row::Common(number % COMMON),
                        leased @ Row::Leased(_) => leased,
                    });
                    counter
                }
                Step::Sum { counter } => {
                    prop_assert_eq!(bank.sum(&tallies[counter]), models[counter].0);
                    if models[counter].2 < 1 << 31 {
                        prop_assert_eq!(bank.estimate(&tallies[counter]), models[counter].0);
                    }
                    counter
                }
                Step::Renew { counter } => {
                    bank.clear(&mut tallies[counter]);
                    tallies[counter] = Tally::new(batch);
                    models[counter] = (0, BTreeSet::new(), 0);
                    counter
                }
            };
            let (value, rows, _) = &models[counter];
            let off = bank.estimate(&tallies[counter]).wrapping_sub(*value).unsigned_abs();
            prop_assert!(u128::from(off) <= 2 * u128::from(batch) * rows.len() as u128);
        }
        for (tally, (value, ..)) in tallies.iter().zip(&models) {
            prop_assert_eq!(bank.sum(tally), *value);
        }
        prop_assert!(bank.places_ever() <= COUNTERS as u64);
    }
}

#[test]
fn the_shared_word_is_written_once_a_batch() {
    let bank = Bank::new();
    let tally = Tally::new(1000);
    bank.heat_up(&tally);
    let mut changes = 0;
    let mut before = bank.estimate(&tally);
    for _ in 0..100_100 {
        add_leased(&bank, &tally, 0, 1);
        let now = bank.estimate(&tally);
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
        let before = bank.estimate(&tally);
        add_leased(&bank, &tally, 3, amount);
        bank.add_common(&tally, 3, amount);
        assert_eq!(
            bank.estimate(&tally),
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
            assert_eq!((bank.sum(tally), bank.estimate(tally)), (0, 0));
            bank.heat_up(tally);
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
    // Beyond what a word holds, so that there are shares.
    counter.add(1 << 40);
    counter.add(-(1 << 40));
    assert_eq!(counter.sum(), 0);
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

/// Fewer adds of one thread between two sums do not make a counter hot.
const COLD: i64 = super::word::COLD as i64;
/// As many without a sum do.
const HOT: i64 = super::word::HOT as i64;

#[test]
fn a_counter_becomes_hot_by_many_adds_between_two_sums() {
    let bank = Bank::new();
    let tally = Tally::new(100);
    // Now and then: never hot.
    for round in 1..=100 {
        for _ in 1..COLD {
            add_leased(&bank, &tally, 0, 1);
        }
        assert!(!bank.is_hot(&tally));
        assert_eq!(bank.estimate(&tally), round * (COLD - 1));
        assert_eq!(bank.sum(&tally), round * (COLD - 1));
    }
    // Also where sums leave some heat.
    for add in 1..=1000 {
        add_leased(&bank, &tally, 0, 1);
        assert_eq!(bank.sum(&tally), 100 * (COLD - 1) + add);
        assert!(!bank.is_hot(&tally));
    }
    assert_eq!(bank.places_ever(), 0);
    for _ in 0..HOT {
        add_leased(&bank, &tally, 0, 1);
    }
    assert!(bank.is_hot(&tally));
    assert_eq!(bank.sum(&tally), 100 * (COLD - 1) + 1000 + HOT);
}

#[test]
fn a_counter_becomes_hot_by_threads_that_take_turns_or_large_amounts() {
    let bank = Bank::new();
    let tally = Tally::new(100);
    for turn in 0..11 {
        assert!(!bank.is_hot(&tally));
        add_leased(&bank, &tally, turn % 2, 1);
    }
    assert!(bank.is_hot(&tally));
    assert_eq!(bank.sum(&tally), 11);
    let large = Tally::new(100);
    add_leased(&bank, &large, 0, 1 << 29);
    assert!(bank.is_hot(&large));
    assert_eq!(bank.sum(&large), 1 << 29);
}

/// Shares can be taken back where adds need no fence for it.
fn takes_back() -> bool {
    crate::cpu::barrier::mode() == crate::cpu::barrier::BarrierMode::Membarrier
}

#[test]
fn a_quiet_counter_becomes_cold_and_leaves_its_place_clear() {
    if !takes_back() {
        return;
    }
    let bank = Bank::new();
    let tally = Tally::new(10);
    for round in 1..=20 {
        bank.heat_up(&tally);
        for lease in [0, 1, 7] {
            add_leased(&bank, &tally, lease, 30);
        }
        bank.add_common(&tally, 3, 10);
        let all = 100 * round;
        // The first sum finds what is new; the third one after it has found nothing three times.
        for _ in 0..3 {
            assert_eq!((bank.sum(&tally), bank.estimate(&tally)), (all, all));
            assert!(bank.is_hot(&tally));
        }
        assert_eq!(bank.sum(&tally), all);
        assert!(!bank.is_hot(&tally));
        assert_eq!((bank.sum(&tally), bank.estimate(&tally)), (all, all));
        // The place is free for another one, and clear.
        let mut other = Tally::new(10);
        bank.heat_up(&other);
        add_leased(&bank, &other, 1, 1);
        assert_eq!(bank.sum(&other), 1);
        bank.clear(&mut other);
    }
    assert_eq!(bank.places_ever(), 1);
}

#[test]
fn a_counter_that_becomes_hot_again_at_once_takes_more_quiet_sums_each_time() {
    if !takes_back() {
        return;
    }
    let bank = Bank::new();
    let tally = Tally::new(10);
    let sums_until_cold = || {
        let sums = (1..10_000).find(|_| {
            assert_eq!(bank.sum(&tally), 0);
            !bank.is_hot(&tally)
        });
        sums.expect("it becomes cold")
    };
    for wanted in [3, 6, 12, 24] {
        bank.heat_up(&tally);
        // The first of them finds what is noted of a counter that nobody has summed.
        let sums = sums_until_cold();
        assert!(
            (wanted..=wanted + 1).contains(&sums),
            "{sums}, not {wanted}"
        );
    }
    // Found cold and quiet as often as it was reluctant, it is as it was at first.
    (0..4).for_each(|_| assert_eq!(bank.sum(&tally), 0));
    bank.heat_up(&tally);
    assert!((3..=4).contains(&sums_until_cold()));
}

#[test]
fn a_counter_that_is_added_to_now_and_then_stays_hot() {
    let bank = Bank::new();
    for batch in [0, 10, 1000] {
        let tally = Tally::new(batch);
        bank.heat_up(&tally);
        for add in 1..=200 {
            add_leased(&bank, &tally, 0, 1);
            for _ in 0..3 {
                assert_eq!(bank.sum(&tally), add);
            }
            assert!(bank.is_hot(&tally));
        }
    }
}

#[test]
fn values_that_do_not_fit_a_word_stay_in_shares() {
    let bank = Bank::new();
    let tally = Tally::new(10);
    add_leased(&bank, &tally, 0, i64::MAX);
    for _ in 0..10 {
        assert_eq!(bank.sum(&tally), i64::MAX);
    }
    assert!(bank.is_hot(&tally));
}

#[test]
fn what_is_added_while_shares_are_taken_back_is_counted_beside_them() {
    let bank = Bank::new();
    let tally = Tally::new(10);
    bank.heat_up(&tally);
    for lease in [0, 1] {
        add_leased(&bank, &tally, lease, 5);
    }
    bank.draining(&tally, || {
        for lease in [0, 1] {
            add_leased(&bank, &tally, lease, 2);
        }
        bank.add_common(&tally, 0, 3);
        add_leased(&bank, &tally, 0, 1 << 20);
        assert_eq!(bank.sum(&tally), 17 + (1 << 20));
    });
    assert!(bank.is_hot(&tally));
    add_leased(&bank, &tally, 0, 2);
    bank.add_common(&tally, 0, 3);
    assert_eq!(bank.sum(&tally), 22 + (1 << 20));
    assert_eq!(bank.estimate(&tally), 22 + (1 << 20));
}

#[test]
fn what_a_word_has_when_the_counter_becomes_hot_stays_there() {
    let bank = Bank::new();
    let tally = Tally::new(10);
    for round in 1..=20 {
        add_leased(&bank, &tally, 0, 5);
        bank.heat_up(&tally);
        add_leased(&bank, &tally, 0, 7);
        assert_eq!(
            (bank.sum(&tally), bank.estimate(&tally)),
            (12 * round, 12 * round)
        );
        if takes_back() {
            (0..20_000)
                .take_while(|_| bank.is_hot(&tally))
                .for_each(|_| {
                    assert_eq!(bank.sum(&tally), 12 * round);
                });
            assert!(!bank.is_hot(&tally));
        }
    }
}

#[test]
fn amounts_of_all_sizes_are_added_to_a_cold_counter() {
    let bank = Bank::new();
    let tally = Tally::new(10);
    let mut sum = 0;
    for power in 0..28 {
        for amount in [1 << power, -(1 << power), (1 << power) - 1] {
            add_leased(&bank, &tally, 0, amount);
            bank.add_common(&tally, 0, amount);
            sum += 2 * amount;
            assert_eq!((bank.sum(&tally), bank.estimate(&tally)), (sum, sum));
        }
    }
    assert!(!bank.is_hot(&tally));
    // By small amounts beyond what a word has.
    while !bank.is_hot(&tally) {
        add_leased(&bank, &tally, 0, 256);
        sum += 256;
        assert_eq!(bank.sum(&tally), sum);
        assert!(sum <= (1 << 29) + 2 * 256);
    }
}

#[test]
fn who_is_in_the_middle_of_an_add_keeps_the_shares() {
    let bank = Bank::new();
    let tally = Tally::new(10);
    bank.heat_up(&tally);
    add_leased(&bank, &tally, 1, 5);
    bank.interrupted(1, || {
        for _ in 0..10 {
            assert_eq!(bank.sum(&tally), 5);
        }
        assert!(bank.is_hot(&tally));
        // What interrupts an add is counted elsewhere.
        assert!(bank.is_adding(1));
        assert_eq!(bank.add_leased(&tally, 1, 1), Added::Not);
        bank.add_common(&tally, 0, 1);
    });
    assert!(!bank.is_adding(1));
    assert_eq!(bank.sum(&tally), 6);
}
