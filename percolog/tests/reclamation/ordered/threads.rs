//! Many threads at once.

use crate::common::alive::{Alive, Value};
use crate::common::seed::seed;
use crate::common::share::share;
use crate::ordered::{Collided, Crowded, Hashed, List, Structure};
use percolog::collections::Map;
use percolog::reclaim::Domain;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const THREADS: u64 = 4;
const KEYS: u64 = 24;

/// Lets others in between, now and then.
fn dawdle(chance: &mut fastrand::Rng) {
    if chance.u8(..16) == 0 {
        thread::yield_now();
    }
}

/// A number that says which key it belongs to.
fn of(key: u64, number: u64) -> u64 {
    key << 32 | number
}

/// Everybody does everything to the same keys; what a section has found stays whole.
fn everybody_changes_everything<S: Structure<Value>>() {
    let (domain, alive, seed) = (Domain::new(), Alive::default(), seed());
    let subject = S::make(&domain);
    let [added, deleted] = [const { AtomicU64::new(0) }; 2];
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (domain, alive, subject) = (&domain, &alive, &subject);
            let (added, deleted) = (&added, &deleted);
            scope.spawn(move || {
                let mut chance = fastrand::Rng::with_seed(seed + thread);
                let [mut mine_added, mut mine_deleted] = [0; 2];
                for round in 0..share(2000) as u64 {
                    let key = chance.u64(..KEYS);
                    let fresh = || alive.value(of(key, round));
                    let is_right = |value: &Value| value.number() >> 32 == key;
                    let section = domain.enter();
                    let found = subject.get(&section, key);
                    assert!(found.is_none_or(is_right));
                    match chance.u8(..7) {
                        0 | 1 => match subject.add(key, fresh()) {
                            Ok(()) => mine_added += 1,
                            Err(error) => assert_eq!(error.value.number(), of(key, round)),
                        },
                        2 => mine_added += u64::from(!subject.put(key, fresh()).unwrap()),
                        3 => mine_deleted += u64::from(subject.delete(key)),
                        4 => {
                            let seen = subject.delete_with(key, is_right);
                            assert_ne!(seen, Some(false));
                            mine_deleted += u64::from(seen.is_some());
                        }
                        5 => {
                            let _ = subject.update(key, |old| {
                                assert!(is_right(old));
                                dawdle(&mut chance);
                                fresh()
                            });
                        }
                        _ => {
                            let mut last = None;
                            for (key, value) in subject.iter(&section) {
                                assert_eq!(value.number() >> 32, *key);
                                assert!(!S::SORTED || last < Some(*key), "in order");
                                last = Some(*key);
                                dawdle(&mut chance);
                            }
                        }
                    }
                    dawdle(&mut chance);
                    assert!(
                        found.is_none_or(is_right),
                        "it stays while the section does"
                    );
                }
                added.fetch_add(mine_added, Ordering::Relaxed);
                deleted.fetch_add(mine_deleted, Ordering::Relaxed);
            });
        }
    });
    let left = (added.into_inner() - deleted.into_inner()) as usize;
    assert_eq!(subject.len(), left);
    let section = domain.enter();
    assert_eq!(subject.iter(&section).count(), left);
    drop(section);
    drop(subject);
    drop(domain);
    assert_eq!(alive.count(), 0, "each was dropped once");
}

#[test]
fn everybody_changes_a_list() {
    everybody_changes_everything::<List<Value>>();
}

#[test]
fn everybody_changes_a_map() {
    everybody_changes_everything::<Hashed<Value>>();
    everybody_changes_everything::<Crowded<Value>>();
}

#[test]
fn everybody_changes_a_map_whose_keys_collide() {
    everybody_changes_everything::<Collided<Value>>();
}

/// Modifications are made with loads and stores, and every one that succeeded is in what was deleted, or in what is left.
fn nobody_changes_what_another_one_has<S: Structure<AtomicU64>>() {
    let (domain, seed) = (Domain::new(), seed());
    let subject = S::make(&domain);
    let (made, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (subject, made, seen) = (&subject, &made, &seen);
            scope.spawn(move || {
                let mut chance = fastrand::Rng::with_seed(seed + thread);
                let [mut mine_made, mut mine_seen] = [0; 2];
                for _ in 0..share(2000) {
                    let key = chance.u64(..4);
                    match chance.u8(..8) {
                        0 => {
                            let _ = subject.add(key, AtomicU64::new(0));
                        }
                        1 => {
                            let last = subject.delete_with(key, |sum| {
                                dawdle(&mut chance);
                                sum.load(Ordering::Relaxed)
                            });
                            mine_seen += last.unwrap_or(0);
                        }
                        2 => {
                            let mut last = 0;
                            let deleted = subject.delete_if(key, |sum| {
                                last = sum.load(Ordering::Relaxed);
                                dawdle(&mut chance);
                                last % 2 == 0
                            });
                            mine_seen += if deleted { last } else { 0 };
                        }
                        3 => {
                            let updated = subject.update(key, |sum| {
                                let before = sum.load(Ordering::Relaxed);
                                dawdle(&mut chance);
                                AtomicU64::new(before + 1)
                            });
                            mine_made += u64::from(updated.is_ok());
                        }
                        _ => {
                            let modified = subject.modify(key, |sum| {
                                let before = sum.load(Ordering::Relaxed);
                                dawdle(&mut chance);
                                sum.store(before + 1, Ordering::Relaxed);
                            });
                            mine_made += u64::from(modified.is_ok());
                        }
                    }
                }
                made.fetch_add(mine_made, Ordering::Relaxed);
                seen.fetch_add(mine_seen, Ordering::Relaxed);
            });
        }
    });
    let section = domain.enter();
    let left: u64 = subject
        .iter(&section)
        .map(|(_, sum)| sum.load(Ordering::Relaxed))
        .sum();
    assert_eq!(made.into_inner(), seen.into_inner() + left);
}

#[test]
fn nobody_changes_what_another_one_has_in_a_list() {
    nobody_changes_what_another_one_has::<List<AtomicU64>>();
}

#[test]
fn nobody_changes_what_another_one_has_in_a_map() {
    nobody_changes_what_another_one_has::<Hashed<AtomicU64>>();
    nobody_changes_what_another_one_has::<Collided<AtomicU64>>();
}

/// Every third key is there all the time, and those beside it come and go.
fn what_is_there_is_found<S: Structure<u64>>(keys: u64) {
    let (domain, seed) = (Domain::new(), seed());
    let subject = S::make(&domain);
    for key in (0..keys).step_by(3) {
        subject.add(key, !key).expect("there is memory");
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2 {
            let (subject, over) = (&subject, &over);
            scope.spawn(move || {
                let mut chance = fastrand::Rng::with_seed(seed + thread);
                for _ in 0..share(3000) {
                    let key = chance.u64(..keys);
                    let other = chance.u64(..keys);
                    if !other.is_multiple_of(3) {
                        subject.delete(other);
                    }
                    if !key.is_multiple_of(3) {
                        let _ = subject.add(key, !key);
                    } else if subject.put(key, !key).ok() != Some(true) {
                        panic!("it was there");
                    }
                    dawdle(&mut chance);
                }
                over.store(true, Ordering::Release);
            });
        }
        for thread in 2..THREADS {
            let (subject, over, domain) = (&subject, &over, &domain);
            scope.spawn(move || {
                let mut chance = fastrand::Rng::with_seed(seed + thread);
                while !over.load(Ordering::Acquire) {
                    let section = domain.enter();
                    for _ in 0..16 {
                        let key = chance.u64(..keys / 3) * 3;
                        assert_eq!(subject.get(&section, key), Some(&!key));
                        assert_eq!(subject.get(&section, keys + key), None);
                        dawdle(&mut chance);
                    }
                    let there = subject.iter(&section).filter(|(key, _)| *key % 3 == 0);
                    assert_eq!(there.count() as u64, keys.div_ceil(3));
                }
            });
        }
    });
}

#[test]
fn what_is_there_is_found_in_a_list() {
    what_is_there_is_found::<List<u64>>(60);
}

#[test]
fn what_is_there_is_found_in_a_map() {
    what_is_there_is_found::<Hashed<u64>>(60);
    what_is_there_is_found::<Collided<u64>>(60);
}

#[test]
fn lookups_go_on_while_a_map_grows() {
    const BEFORE: u64 = 16;
    let domain = Domain::new();
    let map: Map<'_, u64, u64> = Map::new(&domain);
    for key in 0..BEFORE {
        map.add(key, !key).expect("there is memory");
    }
    let done = AtomicU64::new(BEFORE);
    let all = BEFORE + share(20_000) as u64;
    thread::scope(|scope| {
        scope.spawn(|| {
            for key in BEFORE..all {
                map.add(key, !key).expect("there is memory");
                done.store(key + 1, Ordering::Release);
            }
        });
        for _ in 1..THREADS {
            scope.spawn(|| {
                let mut chance = fastrand::Rng::new();
                loop {
                    let there = done.load(Ordering::Acquire);
                    let section = domain.enter();
                    for _ in 0..64 {
                        let key = chance.u64(..there);
                        assert_eq!(map.get(&section, &key), Some(&!key), "added before");
                    }
                    if there == all {
                        break;
                    }
                }
            });
        }
    });
    assert_eq!(map.len() as u64, all);
    assert!(map.buckets() as u64 >= all / 4);
}

#[test]
fn of_several_that_add_or_delete_one_succeeds() {
    let domain = Domain::new();
    let map: Map<'_, u64, u64> = Map::new(&domain);
    let [added, deleted] = [const { AtomicU64::new(0) }; 2];
    let keys = share(2000) as u64;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (map, added) = (&map, &added);
            scope.spawn(move || {
                for key in 0..keys {
                    added.fetch_add(u64::from(map.add(key, thread).is_ok()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(added.into_inner(), keys);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (map, deleted) = (&map, &deleted);
            scope.spawn(move || {
                for key in 0..keys {
                    deleted.fetch_add(u64::from(map.delete(&key)), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(deleted.into_inner(), keys);
    assert!(map.is_empty());
}

/// Threads that count the same things, without agreeing on who begins.
fn whoever_adds_first_everybody_finds_the_same<S: Structure<AtomicU64>>(keys: u64) {
    let domain = Domain::new();
    let counts = S::make(&domain);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (domain, counts) = (&domain, &counts);
            scope.spawn(move || {
                for key in 0..keys {
                    let section = domain.enter();
                    let count = counts.get_or_add(&section, key, AtomicU64::default);
                    let count = count.expect("there is memory");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(counts.len() as u64, keys);
    let section = domain.enter();
    assert!((0..keys).all(|key| {
        let count = counts.get(&section, key);
        count.is_some_and(|count| count.load(Ordering::Relaxed) == THREADS)
    }));
}

#[test]
fn whoever_adds_first_everybody_finds_the_same_in_a_list() {
    whoever_adds_first_everybody_finds_the_same::<List<AtomicU64>>(share(200) as u64);
}

#[test]
fn whoever_adds_first_everybody_finds_the_same_in_a_map() {
    whoever_adds_first_everybody_finds_the_same::<Hashed<AtomicU64>>(share(2000) as u64);
}

#[test]
fn clearing_leaves_what_is_added_meanwhile_whole() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let map: Map<'_, u64, Value> = Map::new(&domain);
    thread::scope(|scope| {
        for thread in 0..2 {
            let (map, alive) = (&map, &alive);
            scope.spawn(move || {
                for number in 0..share(2000) as u64 {
                    let key = number * 2 + thread;
                    assert!(map.add(key, alive.value(key)).is_ok());
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| (0..20).for_each(|_| map.clear()));
        }
    });
    let section = domain.enter();
    let left = map
        .iter(&section)
        .filter(|(key, value)| value.number() == **key);
    assert_eq!(left.count(), map.len());
    drop(section);
    map.clear();
    assert!(map.is_empty());
    drop(map);
    drop(domain);
    assert_eq!(alive.count(), 0);
}
