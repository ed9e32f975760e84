//! Many threads at once.

use crate::common::alive::{Alive, Value};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::cpu::{self, CoreId};
use percolog::namespace::{Id, Namespace, NamespaceBuilder};
use percolog::reclaim::Domain;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Everybody inserts, looks up and removes his own and others'; sections see whole values, and those of their ids only.
#[test]
fn what_a_section_has_found_stays() {
    const THREADS: u64 = 4;
    let (domain, alive, seed) = (Domain::new(), Alive::default(), seed());
    let names: Namespace<'_, Value> = NamespaceBuilder::new().max_ids(4096).build(&domain);
    // Where an id of each place stands.
    let places: Vec<(AtomicU64, [u64; 7])> = (0..64).map(|_| Default::default()).collect();
    let removed = AtomicUsize::new(0);
    let inserted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (domain, alive, names, places) = (&domain, &alive, &names, &places);
            let (removed, inserted) = (&removed, &inserted);
            scope.spawn(move || {
                let mut chance = fastrand::Rng::with_seed(seed + thread);
                for round in 0..share(20_000) as u64 {
                    let place = &places[chance.usize(..places.len())].0;
                    let bits = place.load(Ordering::Acquire);
                    let section = domain.enter();
                    if let Some(id) = Id::from_bits(bits)
                        && let Ok(value) = names.get(&section, id)
                    {
                        // Values begin with what is their place's, and end with a number that is whole.
                        assert_eq!(value.number() >> 32, u64::from(mark(place)));
                        if chance.bool() {
                            let mine = usize::from(names.remove(id).is_ok());
                            removed.fetch_add(mine, Ordering::Relaxed);
                        }
                        assert_eq!(value.number() >> 32, u64::from(mark(place)));
                    }
                    drop(section);
                    let number = u64::from(mark(place)) << 32 | round;
                    if let Ok(id) = names.insert(alive.value(number)) {
                        inserted.fetch_add(1, Ordering::Relaxed);
                        let old = place.swap(id.to_bits(), Ordering::AcqRel);
                        if let Some(old) = Id::from_bits(old) {
                            removed.fetch_add(
                                usize::from(names.remove(old).is_ok()),
                                Ordering::Relaxed,
                            );
                        }
                    }
                }
            });
        }
    });
    let (inserted, removed) = (inserted.into_inner(), removed.into_inner());
    assert_eq!(names.len(), inserted - removed);
    while names.collect() != 0 {}
    assert_eq!(alive.count(), inserted - removed);
    let section = domain.enter();
    assert_eq!(names.iter(&section).count(), inserted - removed);
    drop(section);
    drop(names);
    assert_eq!(alive.count(), 0);
}

/// Something that differs between places.
fn mark(place: &AtomicU64) -> u32 {
    (std::ptr::from_ref(place).addr() >> 3) as u32
}

#[test]
fn of_several_that_remove_one_succeeds() {
    let domain = Domain::new();
    let names = Namespace::new(&domain);
    let ids: Vec<Id<u64>> = (0..share(20_000) as u64)
        .map(|number| names.insert(number).expect("there are ids"))
        .collect();
    let removed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mine = ids.iter().filter(|id| names.remove(**id).is_ok()).count();
                removed.fetch_add(mine, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(removed.into_inner(), ids.len());
    assert_eq!(names.len(), 0);
}

/// Inserted here, removed there: the ids come back, and memory is bounded.
#[test]
fn producer_and_consumer() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let names = Namespace::new(&domain);
    let (sender, receiver) = mpsc::sync_channel(256);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..share(200_000) as u64 {
                let id = names.insert(alive.value(number)).expect("there are ids");
                sender.send((id, number)).expect("it is received");
            }
            drop(sender);
        });
        scope.spawn(|| {
            for (id, number) in receiver {
                assert_eq!(names.remove(id).expect("it is there").number(), number);
            }
        });
    });
    let stats = names.stats();
    assert!(stats.given_out < 20_000, "{stats:?}");
    names.collect();
    assert_eq!((names.len(), alive.count()), (0, 0));
}

/// Threads that end leave nothing that is not found again.
#[test]
fn more_threads_than_there_are_places() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let names = NamespaceBuilder::new().max_ids(2048).build(&domain);
    let left: Mutex<Vec<Id<Value>>> = Mutex::default();
    let all = share(5000).max(1) as u64;
    for group in 0..all.div_ceil(8) {
        thread::scope(|scope| {
            for member in 0..8 {
                let (alive, names, left) = (&alive, &names, &left);
                scope.spawn(move || {
                    // Slots that nobody comes back to, beyond any count.
                    if member == 0 {
                        cpu::bind(CoreId::new((group * 13 % 300) as u32 + 64));
                    }
                    let ids: Vec<_> = (0..20)
                        .map(|number| names.insert(alive.value(number)).expect("none is lost"))
                        .collect();
                    // Half of them are removed by others.
                    let others = std::mem::take(&mut *left.lock().expect("nobody panics"));
                    for id in others.iter().chain(&ids[..10]) {
                        assert!(names.remove(*id).is_ok());
                    }
                    left.lock().expect("nobody panics").extend(&ids[10..]);
                });
            }
        });
    }
    for id in left.into_inner().expect("nobody panics") {
        assert!(names.remove(id).is_ok());
    }
    assert_eq!(names.len(), 0);
    // All ids can be had at once, wherever they were.
    let extent = names.insert_extent(2048, |offset| alive.value(offset.into()));
    assert!(extent.is_ok(), "{extent:?}");
    assert_eq!(alive.count(), 2048);
}

/// At the limit: whoever gets no id gets the value back, and ids are found on other slots.
#[test]
fn exhausted_by_several_threads() {
    let (domain, alive) = (Domain::new(), Alive::default());
    let names = NamespaceBuilder::new().max_ids(500).build(&domain);
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..4u32 {
            let (alive, names, refused) = (&alive, &names, &refused);
            scope.spawn(move || {
                cpu::bind(CoreId::new(thread));
                let mut mine = Vec::new();
                for round in 0..share(2000) as u64 {
                    match names.insert(alive.value(round)) {
                        Ok(id) => mine.push((id, round)),
                        Err(back) => {
                            assert_eq!(back.value.number(), round);
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    if mine.len() > 150 {
                        for (id, number) in mine.drain(..100) {
                            assert_eq!(names.remove(id).expect("it is mine").number(), number);
                        }
                    }
                }
                for (id, _) in mine {
                    assert!(names.remove(id).is_ok());
                }
            });
        }
    });
    let all: Vec<_> = (0..500)
        .map(|number| names.insert(alive.value(number)))
        .collect();
    assert!(all.iter().all(Result::is_ok), "none is lost");
    assert!(names.insert(alive.value(0)).is_err());
    assert_eq!(alive.count(), 500);
}

/// What is there all the time is found once, whatever comes and goes beside it.
#[test]
fn iterating_while_others_insert_and_remove() {
    let domain = Domain::new();
    let names = Namespace::new(&domain);
    let mut ids: Vec<Id<u64>> = (0..3000)
        .map(|number| names.insert(number).expect("there are ids"))
        .collect();
    // Holes that others fill and make again.
    let kept: Vec<_> = ids.iter().copied().step_by(3).collect();
    ids.retain(|id| !kept.contains(id));
    for id in ids {
        assert!(names.remove(id).is_ok());
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mine: Vec<_> = (0..50)
                        .filter_map(|_| names.insert(u64::MAX).ok())
                        .collect();
                    let extent = names.insert_extent(7, |_| u64::MAX);
                    for id in mine {
                        assert!(names.remove(id).is_ok());
                    }
                    assert_eq!(extent.map(|extent| names.remove_extent(extent)), Ok(Ok(7)));
                }
            });
        }
        for _ in 0..share(50) {
            let section = domain.enter();
            let found: Vec<_> = names
                .iter(&section)
                .filter(|(_, value)| **value != u64::MAX)
                .map(|(id, _)| id)
                .collect();
            assert_eq!(found, kept);
        }
        done.store(true, Ordering::Relaxed);
    });
}
