//! Phases of reading, in which readers leave marks instead of counting themselves in the lock.
#![cfg(not(percolog_loom))]

use percolog::cpu::{self, CoreId};
use percolog::oplog::{Logged, LoggedBuilder, LoggedFn, Mode, Operation, Policy, SynchronizeError};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

struct Push(u32);

impl Operation<Vec<u32>> for Push {
    fn exec(self, all: &mut Vec<u32>) {
        assert_ne!(self.0, u32::MAX, "an operation that panics");
        all.push(self.0);
    }
}

type Pushes = Logged<Vec<u32>, Push>;

/// Lets a reader meet others until the object is biased to readers, and this thread leave a mark.
fn begin(log: &Pushes) {
    let guard = log.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                drop(log.read());
            }
        });
    });
    drop(guard);
    assert!(log.stats().biased_to_readers);
    // The first reader of a slot makes the mark.
    drop(log.read());
}

fn biased() -> Pushes {
    let log = Pushes::default();
    begin(&log);
    log
}

#[test]
fn readers_that_meet_begin_a_phase_and_writers_end_it() {
    let log = biased();
    for number in 0..100 {
        log.queue(Push(number));
    }
    assert!(!log.stats().biased_to_readers);
    assert_eq!(log.stats().at_once, 100);
    assert_eq!(*log.read(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_phase_goes_on_while_there_are_many_readers() {
    let log = biased();
    for number in 0..100 {
        log.queue(Push(number));
        for _ in 0..10 {
            assert_eq!(log.read().len(), number as usize + 1);
        }
    }
    assert!(log.stats().biased_to_readers);
    assert_eq!(log.stats().at_once, 100);
}

/// Where a phase was not worth it the next ones begin later.
#[test]
fn phases_that_are_not_worth_it_become_rare() {
    let log = Pushes::default();
    let mut phases = 0;
    for _ in 0..200 {
        let guard = log.read();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..16 {
                    drop(log.read());
                }
            });
        });
        drop(guard);
        phases += u32::from(log.stats().biased_to_readers);
        for number in 0..16 {
            log.with(|all| all.push(number));
        }
        assert!(!log.stats().biased_to_readers);
    }
    assert!((2..20).contains(&phases), "{phases}");
}

#[test]
fn fixed_modes_have_no_phases() {
    for mode in [Mode::Eager, Mode::Deferring] {
        let log: Pushes = LoggedBuilder::new().mode(mode).build(Vec::new());
        let guard = log.read();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100 {
                    drop(log.read());
                }
            });
        });
        drop(guard);
        assert!(!log.stats().biased_to_readers);
    }
}

#[test]
fn a_reader_by_its_mark_keeps_writers_out() {
    let log = biased();
    let guard = log.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Busy)));
            let moment = Duration::from_millis(1);
            assert!(matches!(
                log.synchronize_for(moment),
                Err(SynchronizeError::Busy)
            ));
            // It waits for a moment, and is appended.
            log.queue(Push(1));
            assert!(log.try_queue(Push(2)).is_ok());
            assert!(!log.drain(10).finished);
        });
    });
    assert!(guard.is_empty());
    drop(guard);
    assert_eq!((log.stats().pending, log.stats().at_once), (2, 0));
    assert_eq!(*log.read(), [1, 2]);
}

#[test]
fn a_writer_waits_until_the_reader_has_gone() {
    let log = biased();
    let left = AtomicBool::new(false);
    thread::scope(|scope| {
        let guard = log.read();
        scope.spawn(|| {
            let mut all = log.synchronize();
            assert!(left.load(Ordering::Relaxed));
            all.push(1);
        });
        scope.spawn(|| {
            log.with(|all| all.push(2));
            assert!(left.load(Ordering::Relaxed));
        });
        for _ in 0..100 {
            thread::yield_now();
            assert!(guard.is_empty());
        }
        left.store(true, Ordering::Relaxed);
        drop(guard);
    });
    assert_eq!(log.read().len(), 2);
}

#[test]
fn who_reads_is_told_that_it_would_wait_for_itself() {
    let log = biased();
    let guard = log.read();
    assert!(matches!(log.try_read(), Err(SynchronizeError::Held)));
    assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Held)));
    assert!(catch_unwind(AssertUnwindSafe(|| log.with(|all| all.len()))).is_err());
    log.queue(Push(1));
    assert!(guard.is_empty());
    drop(guard);
    assert_eq!(*log.read(), [1]);
}

#[test]
fn who_reads_two_objects_gives_both_back() {
    let logs = [biased(), biased(), biased()];
    let guards = logs.each_ref().map(Logged::read);
    assert!(matches!(logs[1].try_read(), Err(SynchronizeError::Held)));
    let [first, second, third] = guards;
    drop(second);
    drop(first);
    drop(third);
    for log in &logs {
        log.with(|all| all.push(1));
        assert_eq!(*log.read(), [1]);
    }
}

#[test]
fn a_reader_that_moves_to_another_slot_leaves_where_it_came_in() {
    let log = biased();
    cpu::bind(CoreId::new(1));
    begin(&log);
    let guard = log.read();
    cpu::bind(CoreId::new(2));
    drop(log.stats());
    drop(guard);
    log.with(|all| all.push(1));
    cpu::bind(CoreId::new(1));
    assert_eq!(*log.read(), [1]);
    cpu::unbind();
}

#[test]
fn a_guard_that_is_forgotten_keeps_writers_out_for_ever_and_the_owner_not() {
    let mut log = biased();
    mem::forget(log.read());
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(log.read());
            assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Busy)));
            log.queue(Push(1));
            assert_eq!(log.stats().pending, 1);
        });
    });
    assert!(matches!(log.try_read(), Err(SynchronizeError::Held)));
    assert_eq!(*log.get_mut(), [1]);
    assert_eq!(log.into_inner(), [1]);
}

#[test]
fn a_reader_that_panics_poisons_nothing_and_leaves() {
    let log = biased();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = log.read();
        panic!("while reading");
    }));
    assert!(panicked.is_err());
    log.with(|all| all.push(1));
    assert_eq!(*log.read(), [1]);
}

#[test]
fn an_operation_that_panics_is_reported_to_readers() {
    let log = biased();
    log.queue(Push(1));
    log.queue(Push(u32::MAX));
    log.queue(Push(2));
    let Err(SynchronizeError::Poisoned(guard)) = log.try_read() else {
        panic!("the object is poisoned")
    };
    assert_eq!(*guard, [1]);
    drop(guard);
    log.clear_poison();
    assert_eq!(*log.read(), [1, 2]);
}

/// What was appended while somebody read comes before what is read, or executed, afterwards.
#[test]
fn what_is_pending_is_executed_by_who_reads_next() {
    let log: Pushes = LoggedBuilder::new()
        .policy(Policy::Full)
        .limit(2)
        .build(Vec::new());
    begin(&log);
    let guard = log.read();
    log.queue(Push(1));
    drop(guard);
    assert_eq!(log.stats().pending, 1);
    assert_eq!(*log.read(), [1]);
    assert_eq!(log.stats().pending, 0);
    assert!(log.stats().biased_to_readers);
}

/// Readers that compare two halves of a state, and writers in every way there is.
#[test]
fn a_reader_sees_nothing_half_done() {
    let log = LoggedFn::<[u64; 16]>::new([0; 16]);
    let add = |all: &mut [u64; 16]| all.iter_mut().for_each(|one| *one += 1);
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                let mut last = 0;
                for round in 0..rounds {
                    match (round + thread * 7) % 64 {
                        0 => log.update(add),
                        1 => log.with(add),
                        2 => add(&mut log.synchronize()),
                        _ => {
                            let guard = log.read();
                            assert!(guard.iter().all(|one| *one == guard[0]));
                            assert!(guard[0] >= last);
                            last = guard[0];
                        }
                    }
                }
            });
        }
    });
    let done: u64 = (0..4)
        .map(|thread| {
            (0..rounds)
                .filter(|round| (round + thread * 7) % 64 < 3)
                .count() as u64
        })
        .sum();
    assert_eq!(log.read()[0], done);
}
