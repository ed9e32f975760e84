//! Everything that can be done with the tables, by threads that come and go, with panics everywhere; in the end nothing is left.

use crate::common::alive::{Alive, Value};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::TableCache;
use percolog::dhash::{DHash, ElementTable, LockedElement, Partitioned};
use std::cell::RefCell;
use std::mem;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const KEYS: u64 = 40;

thread_local! {
    /// Which values are counted, on threads that make parts without being told.
    static ALIVE: RefCell<Alive> = RefCell::new(Alive::default());
}

/// A part that is counted, and whose destructor panics for some numbers.
struct Part(Value);

impl Part {
    fn new(number: u64) -> Self {
        Self(ALIVE.with_borrow(|alive| alive.value(number)))
    }
}

impl Clone for Part {
    fn clone(&self) -> Self {
        Self::new(self.0.number())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let fails = self.0.number() % 8 == 3 && !thread::panicking();
        assert!(!fails, "a destructor fails");
    }
}

/// Whether `f` panics.
fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(f()))).is_err()
}

/// Runs `f` with a new count, and finds nothing left of what it has made.
#[track_caller]
fn leaves_nothing(f: impl FnOnce(&Alive)) {
    let alive = Alive::default();
    ALIVE.set(alive.clone());
    f(&alive);
    assert_eq!(alive.count(), 0, "values are left");
}

#[test]
fn destructors_that_panic_keep_no_other_from_running() {
    leaves_nothing(|alive| {
        static FOLDED: AtomicU64 = AtomicU64::new(0);
        let table = DHash::<u64, Part, Part>::new(|key, _| Part::new(*key)).folding(|_, _, _| {
            FOLDED.fetch_add(1, Ordering::Relaxed);
        });
        for key in 0..KEYS {
            drop(table.find_or_allocate_and_lock(&key, |key| Part::new(*key)));
        }
        let made = alive.count();
        assert!(panics(|| table.evict_local()));
        assert_eq!(alive.count(), made / 2, "all parts of the thread are gone");
        assert_eq!(FOLDED.load(Ordering::Relaxed), KEYS);
        assert!(panics(|| drop(table)));
    });
    leaves_nothing(|_| {
        let table = Partitioned::<u64, Part>::new(4, |key| *key);
        for key in 0..KEYS {
            drop(table.find_or_allocate_and_lock(&key, |key| Part::new(*key)));
        }
        assert!(panics(|| drop(table)));
    });
    leaves_nothing(|_| {
        let table = TableCache::<u64, Part>::new();
        for round in 0..2 {
            for key in 0..KEYS {
                table.insert(key, Part::new(key));
                // A copy for this core.
                let _ = panics(|| table.get(&key));
            }
            if round == 0 {
                assert!(panics(|| table.clear()));
                assert!(table.is_empty());
            }
        }
        assert!(panics(|| drop(table)));
    });
}

/// What both kinds of tables can do.
fn step<T: ElementTable<u64, Part>>(table: &T, key: u64, chance: &mut fastrand::Rng) {
    match chance.u8(..8) {
        0..4 => {
            let fails = chance.u8(..8) == 0;
            let found = table.find_or_allocate_and_lock(&key, |key| {
                assert!(!fails, "a part cannot be made");
                Part::new(*key)
            });
            if let Ok(element) = found {
                assert_eq!(element.shared().0.number(), key);
                match chance.u8(..8) {
                    0 => panic!("with a guard"),
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

/// Runs `step` on several threads, each of which ends after a while and has a successor.
fn storm(alive: &Alive, step: impl Fn(u64, &mut fastrand::Rng) + Sync) {
    let mut chance = fastrand::Rng::with_seed(seed());
    thread::scope(|scope| {
        for _ in 0..3 {
            let (step, mut chance) = (&step, chance.fork());
            scope.spawn(move || {
                for _ in 0..4 {
                    let mut chance = chance.fork();
                    thread::scope(|scope| {
                        scope.spawn(move || {
                            ALIVE.set(alive.clone());
                            for _ in 0..share(800) {
                                let key = chance.u64(..KEYS);
                                panics(|| step(key, &mut chance));
                            }
                        });
                    });
                }
            });
        }
    });
}

#[test]
fn nothing_is_left_of_a_storm() {
    leaves_nothing(|alive| {
        let table =
            DHash::<u64, Part, Part>::new(|key, _| Part::new(*key)).folding(|key, shared, part| {
                assert_eq!(shared.0.number(), part.0.number());
                assert!(key % 16 != 5, "what folds fails");
            });
        storm(alive, |key, chance| match chance.u8(..32) {
            0 => drop(table.evict_local()),
            1 => drop(table.trim()),
            2 => drop(table.stats()),
            3 => drop(table.gather(&key, |_| 0, |sum, part| *sum += part.0.number())),
            4 => drop(table.gather(&key, |_| (), |(), _| panic!("a visit fails"))),
            5 => drop(table.scatter(&key, |part| drop(mem::replace(part, Part::new(key))))),
            6 => drop(table.for_each(|_, _| match chance.u8(..64) {
                0 => panic!("a walk fails"),
                1 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })),
            _ => step(&table, key, chance),
        });
        drop(table.find_or_allocate_and_lock(&1, |key| Part::new(*key)));
        mem::forget(table.find_and_lock(&1));
        panics(|| drop(table));
    });
    leaves_nothing(|alive| {
        let table = Arc::new(Partitioned::<u64, Part>::new(4, |key| *key));
        storm(alive, |key, chance| match chance.u8(..32) {
            0 => drop(table.for_each(|_, _| assert!(chance.u8(..64) != 0, "a walk fails"))),
            _ => step(&*table, key, chance),
        });
        panics(|| drop(table));
    });
}
