//! The same calls to a distributed table, a partitioned one, and a plain map.

use crate::common::seed::seed;
use crate::common::share::share;
use percolog::dhash::{DHash, ElementTable, LockedElement, Partitioned};
use std::collections::HashMap;

const KEYS: u64 = 40;

fn agrees<T: ElementTable<u64, u64>>(table: &T, chance: &mut fastrand::Rng) {
    let mut plain: HashMap<u64, u64> = HashMap::new();
    for call in 0..2000 {
        let key = chance.u64(..KEYS);
        match chance.u8(..8) {
            0..3 => {
                let found = table
                    .find_or_allocate_and_lock(&key, |_| call)
                    .expect("no guard is out");
                let expected = plain.entry(key).or_insert(call);
                assert_eq!((found.key(), found.shared()), (&key, &*expected));
                if chance.u8(..16) == 0 {
                    assert_eq!(found.empty(), Ok(true));
                    plain.remove(&key);
                }
            }
            3..6 => {
                let found = table.find_and_lock(&key).expect("no guard is out");
                assert_eq!(found.map(|it| *it.shared()), plain.get(&key).copied());
            }
            6 => assert_eq!(table.empty_data(&key), Ok(plain.remove(&key).is_some())),
            _ => assert_eq!(table.len(), Ok(plain.len())),
        }
    }
}

#[test]
fn tables_do_what_a_map_does() {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(20) {
        agrees(&DHash::<u64, u64, ()>::new(|_, _| ()), &mut chance);
        let masters = chance.usize(1..5);
        agrees(
            &Partitioned::new(masters, |key: &u64| *key >> 2),
            &mut chance,
        );
    }
}

/// Local parts, evicted and folded at random, sum up to what a plain sum has.
#[test]
fn sums_are_those_of_a_plain_map() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(20) {
        let table = DHash::<u64, AtomicU64, u64>::new(|_, _| 0).folding(|_, total, local| {
            total.fetch_add(local, Ordering::Relaxed);
        });
        let mut plain: HashMap<u64, u64> = HashMap::new();
        for _ in 0..1000 {
            let key = chance.u64(..KEYS);
            match chance.u8(..16) {
                0..10 => {
                    let add = || {
                        let local = table.find_or_allocate_and_lock(&key, |_| AtomicU64::new(0));
                        *local.expect("no guard is out") += 1;
                    };
                    if chance.u8(..8) == 0 {
                        std::thread::scope(|scope| {
                            scope.spawn(add);
                        });
                    } else {
                        add();
                    }
                    *plain.entry(key).or_default() += 1;
                }
                10 => drop(table.evict_local().expect("no guard is out")),
                11 => drop(table.trim().expect("no guard is out")),
                12 => assert_eq!(table.empty_data(&key), Ok(plain.remove(&key).is_some())),
                _ => {
                    let total = table.gather(
                        &key,
                        |total| total.load(Ordering::Relaxed),
                        |sum, local| *sum += *local,
                    );
                    assert_eq!(total, Ok(plain.get(&key).copied()));
                }
            }
        }
    }
}
