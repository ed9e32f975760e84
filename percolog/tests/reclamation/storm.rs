//! Everything that can be done with maps, caches and namespaces, by threads that come and go, with panics everywhere; in the end nothing is left.

use crate::common::alive::{Alive, Value};
use crate::common::eventually::eventually;
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::{Cache, Map, OrderedList};
use percolog::namespace::{Id, Namespace};
use percolog::reclaim::{Domain, Section};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const KEYS: u64 = 40;

/// A value that is counted, and whose destructor panics for some numbers.
struct Part(Value);

impl Part {
    fn new(alive: &Alive, number: u64) -> Self {
        Self(alive.value(number))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let fails = self.0.number() % 8 == 3 && !thread::panicking();
        assert!(!fails, "a destructor fails");
    }
}

fn maybe_fail(chance: &mut fastrand::Rng) {
    assert!(chance.u8(..16) != 0, "a closure fails");
}

/// Runs `step` on several threads, each of which ends after a while and has a successor; with a section of the domain that ends with the
/// thread.
fn storm(domain: &'static Domain, step: impl Fn(u64, &mut fastrand::Rng) + Sync) {
    thread_local! {
        static KEPT: RefCell<Option<Section<'static>>> = const { RefCell::new(None) };
    }
    let mut chance = fastrand::Rng::with_seed(seed());
    thread::scope(|scope| {
        for _ in 0..3 {
            let (step, mut chance) = (&step, chance.fork());
            scope.spawn(move || {
                for _ in 0..4 {
                    let mut chance = chance.fork();
                    let life = move || {
                        for at in 0..share(800) {
                            if at == share(700) {
                                KEPT.with_borrow_mut(|kept| *kept = Some(domain.enter()));
                            }
                            let key = chance.u64(..KEYS);
                            let _ = catch_unwind(AssertUnwindSafe(|| step(key, &mut chance)));
                        }
                    };
                    thread::scope(|scope| scope.spawn(life).join().expect("caught"));
                }
            });
        }
    });
}

/// Drops what the steps have worked on, and finds nothing left.
#[track_caller]
fn nothing_is_left<T>(structure: T, domain: &Domain, alive: &Alive) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(structure)));
    let gone = eventually(|| {
        domain.collect();
        alive.count() == 0
    });
    assert!(
        gone,
        "{} values are left: {:?}",
        alive.count(),
        domain.stats()
    );
}

macro_rules! storm_of_a_map {
    ($test:ident, $structure:ident) => {
        #[test]
        fn $test() {
            static DOMAIN: Domain = Domain::new();
            let alive = Alive::default();
            let map = $structure::new(&DOMAIN);
            storm(&DOMAIN, |key, chance| {
                let part = || Part::new(&alive, key);
                match chance.u8(..16) {
                    0..3 => drop(map.add(key, part())),
                    3..5 => drop(map.put(key, part())),
                    5 => drop(map.put_with(key, part(), |_| maybe_fail(chance))),
                    6 => drop(map.observe(&key, |_| maybe_fail(chance))),
                    7 => drop(map.modify(&key, |_| maybe_fail(chance))),
                    8 => drop(map.update(&key, |_| {
                        maybe_fail(chance);
                        part()
                    })),
                    9 => {
                        let section = DOMAIN.enter();
                        let found = map.get_or_add(&section, key, || {
                            maybe_fail(chance);
                            part()
                        });
                        if let Ok(found) = found {
                            assert_eq!(found.0.number(), key);
                        }
                    }
                    10..12 => drop(map.delete(&key)),
                    12 => drop(map.delete_with(&key, |_| maybe_fail(chance))),
                    13 => drop(map.delete_if(&key, |_| chance.bool())),
                    14 => drop(map.clear_poison(&key)),
                    _ if chance.u8(..16) == 0 => map.clear(),
                    _ => {
                        let section = DOMAIN.enter();
                        for (key, part) in map.iter(&section) {
                            assert_eq!(part.0.number(), *key);
                        }
                    }
                }
            });
            nothing_is_left(map, &DOMAIN, &alive);
        }
    };
}

storm_of_a_map!(nothing_is_left_of_a_map, Map);
storm_of_a_map!(nothing_is_left_of_a_list, OrderedList);

#[test]
fn nothing_is_left_of_a_cache() {
    static DOMAIN: Domain = Domain::new();
    let alive = Alive::default();
    // Less room than there are keys.
    let bytes = KEYS as usize / 2 * Cache::<u64, Part>::ITEM_BYTES;
    let cache = Cache::<u64, Part>::builder(bytes)
        .build(&DOMAIN)
        .expect("there is memory");
    storm(&DOMAIN, |key, chance| {
        let part = || Part::new(&alive, key);
        match chance.u8(..16) {
            0..4 => drop(cache.set(key, part())),
            4 => drop(cache.set_for(key, part(), Duration::from_millis(1))),
            5 => drop(cache.add(key, part())),
            6 => drop(cache.replace(key, part())),
            7 => {
                let section = DOMAIN.enter();
                let version = cache.get_item(&section, &key).map(|item| item.version());
                if let Some(version) = version {
                    drop(cache.compare_and_set(key, version, part()));
                }
            }
            8 => drop(cache.update(&key, |_| {
                maybe_fail(chance);
                part()
            })),
            9 => drop(cache.observe(&key, |part| {
                assert_eq!(part.0.number(), key);
                maybe_fail(chance);
            })),
            10 => drop(cache.delete(&key)),
            11 => drop(cache.touch(&key, None)),
            12 => drop(cache.expire(10)),
            13 => drop(cache.contains(&key)),
            _ => {
                let section = DOMAIN.enter();
                for item in cache.iter(&section) {
                    assert_eq!(item.value().0.number(), *item.key());
                }
            }
        }
    });
    nothing_is_left(cache, &DOMAIN, &alive);
}

#[test]
fn nothing_is_left_of_a_namespace() {
    static DOMAIN: Domain = Domain::new();
    let alive = Alive::default();
    let names = Namespace::<Part>::new(&DOMAIN);
    let ids = Mutex::new(Vec::<Id<Part>>::new());
    storm(&DOMAIN, |key, chance| {
        let any = |chance: &mut fastrand::Rng| {
            let ids = ids.lock().expect("nobody panics with it");
            (!ids.is_empty()).then(|| ids[chance.usize(..ids.len())])
        };
        match chance.u8(..8) {
            0..3 => {
                let id = names.insert(Part::new(&alive, key)).expect("there are ids");
                ids.lock().expect("nobody panics with it").push(id);
            }
            3 => {
                let extent = names.insert_extent(5, |_| {
                    maybe_fail(chance);
                    Part::new(&alive, key)
                });
                let _ = names.remove_extent(extent.expect("there are ids"));
            }
            4 => drop(names.collect()),
            5 => {
                let section = DOMAIN.enter();
                for (_, part) in names.iter(&section) {
                    part.0.number();
                }
            }
            6 => {
                let section = DOMAIN.enter();
                if let Some(id) = any(chance)
                    && let Ok(part) = names.get(&section, id)
                {
                    part.0.number();
                    maybe_fail(chance);
                }
            }
            _ => {
                if let Some(id) = any(chance) {
                    ids.lock()
                        .expect("nobody panics with it")
                        .retain(|it| *it != id);
                    drop(names.remove(id));
                }
            }
        }
    });
    nothing_is_left(names, &DOMAIN, &alive);
}
