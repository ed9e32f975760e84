//! The heaviest keys against a map of all.

use percolog::reduce::{Merge, TopK, TopKSnapshot};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::thread;

/// Everything that is promised of `heaviest`, which has seen what is in `model`.
fn check(heaviest: &TopKSnapshot<u16>, k: u64, model: &BTreeMap<u16, u64>) {
    let total: u64 = model.values().sum();
    assert_eq!(heaviest.total(), total);
    assert!(
        heaviest.error() <= total / k,
        "{} of {total} with {k}",
        heaviest.error()
    );
    let top = heaviest.top(usize::MAX);
    assert!(top.is_sorted_by(|one, two| one.at_least >= two.at_least));
    assert!(top.len() as u64 <= 2 * k);
    for (key, count) in model {
        let heavy = heaviest.get(key);
        assert!(
            (heavy.at_least..=heavy.at_most).contains(count),
            "{heavy:?} {count}"
        );
        assert!(heavy.at_most - heavy.at_least <= heaviest.error());
        let listed = top.iter().find(|heavy| heavy.key == key);
        assert_eq!(listed.map_or(0, |heavy| heavy.at_least), heavy.at_least);
        // Without what cannot be known: who has more than its part is there.
        assert!(listed.is_some() || *count <= total / k);
    }
    // Lowering can leave nobody, where all are equal.
    assert!(heaviest.top(1).len() <= top.len().min(1));
}

/// Keys of which few are many: each of half the keys that the one before leaves.
fn adds() -> impl Strategy<Value = Vec<(u16, u64)>> {
    proptest::collection::vec(
        (
            (0u32..16, any::<u16>()).prop_map(|(shift, bits)| bits >> shift),
            0u64..40,
        ),
        0..300,
    )
}

proptest! {
    #[test]
    fn no_count_is_off_by_more_than_one_part_in_k(
        parts in proptest::collection::vec(adds(), 1..4),
        k in 0usize..20,
    ) {
        let top: TopK<u16> = TopK::new(k);
        let mut model = BTreeMap::<u16, u64>::new();
        thread::scope(|scope| {
            for part in &parts {
                let top = &top;
                scope.spawn(move || part.iter().for_each(|(key, amount)| top.add(key, *amount)));
            }
        });
        for (key, amount) in parts.iter().flatten().filter(|(_, amount)| *amount > 0) {
            *model.entry(*key).or_default() += *amount;
        }
        let k = k.max(1) as u64;
        let read = top.try_read().expect("not refused");
        check(&read, k, &model);
        if model.len() as u64 <= k {
            prop_assert_eq!(read.error(), 0);
        }
        check(&top.take(), k, &model);
        check(&top.try_take().expect("not refused"), k, &BTreeMap::new());
    }

    #[test]
    fn what_several_knew_is_merged(one in adds(), two in adds(), k in 1usize..10, other_k in 1usize..10) {
        let mut model = BTreeMap::<u16, u64>::new();
        let tops = [(&one, k), (&two, other_k)].map(|(adds, k)| {
            let top: TopK<u16> = TopK::new(k);
            for (key, amount) in adds {
                top.add(key, *amount);
                if *amount > 0 {
                    *model.entry(*key).or_default() += amount;
                }
            }
            top.read()
        });
        let mut merged = tops[0].clone();
        merged.merge(&tops[1]);
        let k = match [&one, &two].map(|adds| adds.iter().any(|(_, amount)| *amount > 0)) {
            [true, true] => k.min(other_k),
            [true, false] => k,
            [false, _] => other_k,
        };
        check(&merged, k as u64, &model);
    }
}

#[test]
fn amounts_end_where_a_total_does() {
    let top: TopK<&str> = TopK::new(1);
    top.add(&"a", u64::MAX - 1);
    for key in ["b", "c", "d"] {
        top.add(&key, 5);
    }
    let mut read = top.read();
    assert_eq!(read.total(), u64::MAX);
    read.merge(&top.read());
    assert_eq!(read.total(), u64::MAX);
    assert_eq!(read.get(&"a").at_most, u64::MAX - 1);
    assert_eq!(format!("{top:?}"), "TopK { k: 1, .. }");
}

/// A key that panics if it is asked for its hash while another one is added.
#[derive(Clone, PartialEq, Eq)]
struct Touchy(u64);

const ANY: u64 = u64::MAX;

thread_local! {
    static ADDED: Cell<u64> = const { Cell::new(ANY) };
}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let added = ADDED.get();
        assert!(added == ANY || added == self.0, "nobody adds {}", self.0);
        self.0.hash(state);
    }
}

#[test]
fn a_table_that_moves_its_keys_does_not_ask_them() {
    let top: TopK<Touchy> = TopK::new(10);
    // Keys of which one stays and the others come and go, so that the table grows, and is put in order again and again.
    for number in 0..2000 {
        ADDED.set(number % 2 * number);
        top.increment(&Touchy(ADDED.get()));
    }
    ADDED.set(ANY);
    let read = top.read();
    assert_eq!(read.total(), 2000);
    let [first] = &read.top(1)[..] else {
        panic!("one was added a thousand times")
    };
    assert!(first.key.0 == 0 && (first.at_least..=first.at_most).contains(&1000));
}
