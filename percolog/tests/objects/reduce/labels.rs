//! CounterMapSnapshot by key against a plain map, and what their bound means.

use crate::common::seed::seed;
use crate::common::share::share;
use percolog::reduce::{CounterMap, CounterMapSnapshot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

fn plain(counts: CounterMapSnapshot<u8>) -> BTreeMap<u8, u64> {
    counts.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// One thread after the other adds some, so that it is known which keys came first.
    #[test]
    fn the_first_keys_are_counted_and_the_others_together(
        parts in proptest::collection::vec(proptest::collection::vec((0u8..12, any::<u64>()), 0..12), 1..5),
        bound in 0usize..14,
        taken_after in 0usize..5,
    ) {
        let map: CounterMap<u8> = CounterMap::new(bound);
        let (mut model, mut other) = (BTreeMap::<u8, u64>::new(), 0u64);
        let mut admitted = BTreeSet::new();
        for (at, part) in parts.iter().enumerate() {
            for (key, amount) in part {
                if admitted.len() < bound {
                    admitted.insert(*key);
                }
                let sum = if admitted.contains(key) {
                    model.entry(*key).or_default()
                } else {
                    &mut other
                };
                *sum = sum.wrapping_add(*amount);
            }
            thread::scope(|scope| {
                scope.spawn(|| part.iter().for_each(|(key, amount)| map.add(key, *amount)));
            });
            if at == taken_after {
                let taken = map.take();
                prop_assert_eq!(taken.other(), other);
                prop_assert_eq!(plain(taken), core::mem::take(&mut model));
                other = 0;
            }
        }
        let counts = map.read();
        prop_assert_eq!(counts.other(), other);
        prop_assert_eq!(counts.len(), model.len());
        prop_assert_eq!(counts.is_empty(), model.is_empty() && other == 0);
        prop_assert_eq!(counts.total(), model.values().fold(other, |sum, count| sum.wrapping_add(*count)));
        for key in 0..12 {
            prop_assert_eq!(counts.get(&key), model.get(&key).copied());
            prop_assert_eq!(map.get(&key), model.get(&key).copied());
        }
        for count in 0..14 {
            let hottest: Vec<u64> = counts.hottest(count).iter().map(|(_, count)| *count).collect();
            let mut sorted: Vec<u64> = model.values().copied().collect();
            sorted.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            sorted.truncate(count);
            prop_assert_eq!(hottest, sorted);
        }
        let mut grouped = BTreeMap::<bool, u64>::new();
        for (key, count) in &model {
            let sum = grouped.entry(key % 2 == 0).or_default();
            *sum = sum.wrapping_add(*count);
        }
        let by_parity = counts.group_by(|key| key % 2 == 0);
        prop_assert_eq!(by_parity.other(), other);
        prop_assert_eq!(by_parity.into_iter().collect::<BTreeMap<_, _>>(), grouped);
        prop_assert_eq!(plain(map.try_read().expect("not refused")), model.clone());
        prop_assert_eq!(plain(map.try_take().expect("not refused")), model);
        prop_assert!(map.read().is_empty());
    }
}

/// Threads race for the last names: whoever gets them, no key is counted partly under its name.
#[test]
fn a_key_is_admitted_for_all_threads_or_for_none() {
    const THREADS: u64 = 4;
    const BOUND: usize = 5;
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(100) {
        let map: CounterMap<String> = CounterMap::new(BOUND);
        assert_eq!(format!("{map:?}"), "CounterMap { bound: 5, .. }");
        assert_eq!(map.bound(), BOUND);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (map, mut chance) = (&map, chance.fork());
                scope.spawn(move || {
                    let mut keys: Vec<u64> = (0..10).collect();
                    for _ in 0..3 {
                        chance.shuffle(&mut keys);
                        for key in &keys {
                            map.increment(format!("{key}").as_str());
                        }
                    }
                });
            }
        });
        let counts = map.read();
        assert_eq!(counts.len(), BOUND);
        assert!(counts.iter().all(|(_, count)| count == 3 * THREADS));
        assert_eq!(counts.other(), 3 * THREADS * (10 - BOUND as u64));
    }
}

/// A read shows all keys at one moment: with each `b` there is an `a` that came before it.
#[test]
fn readers_see_keys_in_the_order_of_their_adds() {
    let map: CounterMap<&str> = CounterMap::new(10);
    thread::scope(|scope| {
        let adders: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..share(5_000) {
                        map.increment(&"a");
                        map.increment(&"b");
                    }
                })
            })
            .collect();
        while !adders.iter().all(|adder| adder.is_finished()) {
            let counts = map.read();
            let [a, b] = ["a", "b"].map(|key| counts.get(&key).unwrap_or(0));
            assert!(b <= a && a <= b + 2, "{a} {b}");
        }
    });
}

#[test]
fn a_key_that_panics_or_counts_itself_harms_nothing() {
    #[derive(Clone, PartialEq, Eq)]
    struct Odd(u8);
    static MAP: CounterMap<Odd> = CounterMap::new(10);
    impl std::hash::Hash for Odd {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            match self.0 {
                1 => panic!("a key that cannot be hashed"),
                2 => MAP.increment(&Odd(3)),
                _ => self.0.hash(state),
            }
        }
    }
    for key in [1, 2, 3] {
        let outcome = catch_unwind(AssertUnwindSafe(|| MAP.increment(&Odd(key))));
        assert_eq!(outcome.is_err(), key < 3);
    }
    assert_eq!(MAP.get(&Odd(3)), Some(1));
    assert_eq!(MAP.read().total(), 1);
}
