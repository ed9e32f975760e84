//! `SloppyCounter` from outside: real threads, real exits, beside code that knows the central counter alone.
#![cfg(not(percolog_loom))]

use crate::common::alone::alone;
use percolog::counter::SloppyCounter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

/// Threads that come and go hold references for a while; others look, and others reconcile. At no time are fewer in use
/// than are held throughout, nor more than could be.
#[test]
fn what_is_in_use_is_exact_while_threads_come_and_go() {
    const THREADS: i64 = 3;
    const GENERATIONS: usize = 40;
    const ROUNDS: usize = 300;
    const HELD: u64 = 5;
    let central = AtomicI64::new(0);
    let counter = SloppyCounter::beside(&central, 16);
    counter.acquire(HELD);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let lookers: Vec<_> = [false, true]
            .into_iter()
            .map(|reconciles| {
                let (counter, done) = (&counter, &done);
                scope.spawn(move || {
                    loop {
                        let seen = if reconciles {
                            counter.reconcile()
                        } else {
                            counter.in_use()
                        };
                        let most = HELD as i64 + THREADS * 20;
                        assert!((HELD as i64..=most).contains(&seen), "{seen}");
                        assert!(counter.central() >= HELD as i64);
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        thread::yield_now();
                    }
                })
            })
            .collect();
        let users: Vec<_> = (0..THREADS)
            .map(|user| {
                let (central, counter) = (&central, &counter);
                scope.spawn(move || {
                    for generation in 0..GENERATIONS {
                        // Each generation is a thread of its own, which leaves its spares to whoever comes next.
                        thread::scope(|scope| {
                            scope.spawn(|| {
                                let mut random = fastrand::Rng::with_seed(
                                    (generation as u64) << 8 | user as u64,
                                );
                                let mut held = 0;
                                for _ in 0..ROUNDS {
                                    let n = random.u64(0..=20 - held);
                                    if random.u8(..) < 32 {
                                        central.fetch_add(n as i64, Ordering::AcqRel);
                                    } else {
                                        counter.acquire(n);
                                    }
                                    held += n;
                                    let n = random.u64(0..=held);
                                    if random.u8(..) < 32 {
                                        central.fetch_sub(n as i64, Ordering::AcqRel);
                                    } else {
                                        counter.release(n);
                                    }
                                    held -= n;
                                }
                                counter.release(held);
                            });
                        });
                    }
                })
            })
            .collect();
        users
            .into_iter()
            .for_each(|user| user.join().expect("no user panics"));
        done.store(true, Ordering::Relaxed);
        for looker in lookers {
            looker.join().expect("no looker panics");
        }
    });
    assert_eq!(counter.in_use(), HELD as i64);
    assert!(counter.central() >= HELD as i64);
    assert_eq!(
        (counter.reconcile(), counter.central()),
        (HELD as i64, HELD as i64)
    );
    drop(counter);
    assert_eq!(central.into_inner(), HELD as i64);
}

/// References are handed from thread to thread, each released where it was not acquired: a reader never counts fewer
/// than are under way.
#[test]
fn references_that_change_threads_are_never_missed() {
    const REFERENCES: i64 = 20_000;
    let counter = Arc::new(SloppyCounter::new(8));
    counter.acquire(1);
    let (give, take) = std::sync::mpsc::sync_channel(4);
    let producer = thread::spawn({
        let counter = counter.clone();
        move || {
            for _ in 0..REFERENCES {
                counter.acquire(1);
                give.send(()).expect("the consumer lives as long");
            }
        }
    });
    let consumer = thread::spawn({
        let counter = counter.clone();
        move || take.iter().for_each(|()| counter.release(1))
    });
    while !consumer.is_finished() {
        // One stays; four in the channel, and one in each hand.
        let seen = counter.in_use();
        assert!((1..=1 + 4 + 2).contains(&seen), "{seen}");
        thread::yield_now();
    }
    producer.join().expect("no panic");
    consumer.join().expect("no panic");
    assert_eq!((counter.in_use(), counter.reconcile()), (1, 1));
}

/// More threads than leases: those without one use the central counter.
#[test]
fn threads_without_a_lease_use_the_central_counter() {
    alone!();
    const HOLDERS: usize = 540;
    let counter = Arc::new(SloppyCounter::new(4));
    let all_here = Arc::new(std::sync::Barrier::new(HOLDERS + 1));
    let threads: Vec<_> = (0..HOLDERS)
        .map(|_| {
            let (counter, all_here) = (counter.clone(), all_here.clone());
            thread::Builder::new()
                .stack_size(64 * 1024)
                .spawn(move || {
                    counter.acquire(2);
                    counter.release(1);
                    all_here.wait();
                    all_here.wait();
                })
                .expect("the system allows a few hundred threads")
        })
        .collect();
    all_here.wait();
    assert_eq!(counter.in_use(), HOLDERS as i64);
    let (central, leases) = (counter.central(), 512);
    assert!(central <= HOLDERS as i64 + leases, "{central}");
    all_here.wait();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    assert_eq!(counter.reconcile(), HOLDERS as i64);
}
