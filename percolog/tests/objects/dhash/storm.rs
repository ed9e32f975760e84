//! Everything that can be done with the tables, by threads that come and go, with panics everywhere; in the end nothing is left.

use crate::common::alive::Alive;
use crate::common::storm::{KEYS, Part, fail, fails, storm};
use percolog::collections::TableCache;
use percolog::dhash::{DHash, ElementTable, LockedElement, Partitioned};
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `f` with a new count, and finds nothing left of what it has made.
#[track_caller]
fn leaves_nothing(f: impl FnOnce(&Alive)) {
    let alive = Alive::default();
    f(&alive);
    assert_eq!(alive.count(), 0, "values are left");
}

/// A table whose parts are counted with the element that they are of.
fn parts() -> DHash<u64, Part, Part> {
    DHash::new(|_, shared: &Part| shared.another())
}

#[test]
fn destructors_that_panic_keep_no_other_from_running() {
    leaves_nothing(|alive| {
        static FOLDED: AtomicU64 = AtomicU64::new(0);
        let table = parts().folding(|_, _, _| {
            FOLDED.fetch_add(1, Ordering::Relaxed);
        });
        for key in 0..KEYS {
            drop(table.find_or_allocate_and_lock(&key, |key| Part::new(alive, *key)));
        }
        let made = alive.count();
        assert!(fails(|| table.evict_local()));
        assert_eq!(alive.count(), made / 2, "all parts of the thread are gone");
        assert_eq!(FOLDED.load(Ordering::Relaxed), KEYS);
        assert!(fails(|| drop(table)));
    });
    leaves_nothing(|alive| {
        let table = Partitioned::<u64, Part>::new(4, |key| *key);
        for key in 0..KEYS {
            drop(table.find_or_allocate_and_lock(&key, |key| Part::new(alive, *key)));
        }
        assert!(fails(|| drop(table)));
    });
    leaves_nothing(|alive| {
        let table = TableCache::<u64, Part>::new();
        for round in 0..2 {
            for key in 0..KEYS {
                table.insert(key, Part::new(alive, key));
                // A copy for this core.
                let _ = fails(|| table.get(&key));
            }
            if round == 0 {
                assert!(fails(|| table.clear()));
                assert!(table.is_empty());
            }
        }
        assert!(fails(|| drop(table)));
    });
}

/// What both kinds of tables can do.
fn step<T: ElementTable<u64, Part>>(
    table: &T,
    alive: &Alive,
    key: u64,
    chance: &mut fastrand::Rng,
) {
    match chance.u8(..8) {
        0..4 => {
            let is_refused = chance.u8(..8) == 0;
            let found = table.find_or_allocate_and_lock(&key, |key| {
                if is_refused {
                    fail();
                }
                Part::new(alive, *key)
            });
            if let Ok(element) = found {
                assert_eq!(element.shared().number(), key);
                match chance.u8(..8) {
                    0 => fail(),
                    1 => drop(element.empty()),
                    2 => drop(table.find_and_lock(&((key + 1) % KEYS))),
                    _ => {}
                }
            }
        }
        4..6 => drop(table.find_and_lock(&key)),
        6 => drop(table.empty_data(&key)),
        _ => drop(table.len()),
    }
}

#[test]
fn nothing_is_left_of_a_storm() {
    leaves_nothing(|alive| {
        let table = parts().folding(|key, shared, part| {
            assert_eq!(shared.number(), part.number());
            if key % 16 == 5 {
                fail();
            }
        });
        storm(
            |_| (),
            |key, chance| match chance.u8(..32) {
                0 => drop(table.evict_local()),
                1 => drop(table.trim()),
                2 => drop(table.stats()),
                3 => drop(table.gather(&key, |_| 0, |sum, part| *sum += part.number())),
                4 => drop(table.gather(&key, |_| (), |(), _| fail())),
                5 => drop(
                    table.scatter(&key, |part| drop(mem::replace(part, Part::new(alive, key)))),
                ),
                6 => drop(table.for_each(|_, _| match chance.u8(..64) {
                    0 => fail(),
                    1 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                })),
                _ => step(&table, alive, key, chance),
            },
        );
        drop(table.find_or_allocate_and_lock(&1, |key| Part::new(alive, *key)));
        mem::forget(table.find_and_lock(&1));
        fails(|| drop(table));
    });
    leaves_nothing(|alive| {
        let table = Arc::new(Partitioned::<u64, Part>::new(4, |key| *key));
        storm(
            |_| (),
            |key, chance| match chance.u8(..32) {
                0 => drop(table.for_each(|_, _| {
                    if chance.u8(..64) == 0 {
                        fail();
                    }
                })),
                _ => step(&*table, alive, key, chance),
            },
        );
        fails(|| drop(table));
    });
}
