//! Real threads.

use crate::common::machine::{Machine, be_moved};
use crate::common::share::share;
use percolog::collections::Set;
use percolog::oplog::LoggedBuilder;
use percolog::testing::{Environment, Native};
use std::collections::{BTreeSet, HashSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const THREADS: u64 = 4;

#[test]
fn each_thread_finds_its_own_changes_whoever_merges() {
    each_thread_finds_its_own_changes(Native);
}

#[test]
fn each_thread_finds_its_own_changes_wherever_it_is_moved() {
    each_thread_finds_its_own_changes(Machine::exact(&[0, 1, 2, 1024]));
}

fn each_thread_finds_its_own_changes<E: Environment + Sync>(environment: E) {
    let set: Set<u64, BTreeSet<u64>, E> =
        Set::build_in(LoggedBuilder::new().limit(4), BTreeSet::new(), environment);
    let changes = share(4_000) as u64;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let set = &set;
            scope.spawn(move || {
                // Those of a made-up machine.
                be_moved(thread);
                let mut mine = BTreeSet::new();
                let mut chance = fastrand::Rng::with_seed(thread);
                for number in 0..changes {
                    let key = chance.u64(..16) * THREADS + thread;
                    if chance.bool() {
                        set.insert(key);
                        mine.insert(key);
                    } else {
                        set.remove(key);
                        mine.remove(&key);
                    }
                    if number % 64 == 0 {
                        let seen = set.read();
                        let seen = seen.iter().filter(|key| *key % THREADS == thread);
                        assert!(seen.eq(&mine));
                    }
                }
                for key in mine {
                    set.remove(key);
                }
            });
        }
    });
    assert!(set.is_empty(), "{set:?}");
    assert_eq!(set.stats().clock_violations, 0);
}

#[test]
fn of_threads_that_insert_a_key_at_once_and_ask_exactly_one_is_told_that_it_was_new() {
    let set: Set<usize, HashSet<usize>> = Set::default();
    let keys = share(500);
    let told: Vec<AtomicUsize> = (0..keys).map(|_| AtomicUsize::new(0)).collect();
    let together = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                together.wait();
                for (key, told) in told.iter().enumerate() {
                    if set.insert_now(key) {
                        told.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(told.iter().all(|told| told.load(Ordering::Relaxed) == 1));
    assert_eq!(set.len(), keys);
}

/// Two keys of which one is always there: the second is added before the first is removed, and the other way round.
#[test]
fn a_reader_sees_one_of_two_keys_that_take_turns() {
    let set: Set<u8, HashSet<u8>> = Set::new(HashSet::from([0]));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..share(20_000) {
                let next = ((turn + 1) % 2) as u8;
                set.insert(next);
                set.remove(1 - next);
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let seen = set.read().len();
            assert!(seen == 1 || seen == 2, "{seen} keys");
            thread::yield_now();
        }
    });
    assert_eq!(set.len(), 1);
}
