//! `Counter` from outside: real threads, real exits, and what it allocates.
#![cfg(not(percolog_loom))]

use crate::common::alone::alone;
use crate::{ASKED, CALLS};
use percolog::counter::Counter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

/// Allocations and bytes that `f` asked for on this thread.
fn allocated(f: impl FnOnce()) -> (usize, usize) {
    let before = (CALLS.get(), ASKED.get());
    f();
    (CALLS.get() - before.0, ASKED.get() - before.1)
}

/// A thread with a small stack, of which there can be many.
fn small_thread<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::Builder::new()
        .stack_size(64 * 1024)
        .spawn(f)
        .expect("the system allows a few hundred threads")
}

#[test]
fn a_static_counter_counts() {
    static HITS: Counter = Counter::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| HITS.increment()));
        }
    });
    assert_eq!(HITS.sum(), 40_000);
    HITS.decrement();
    assert_eq!(HITS.sum(), 39_999);
}

#[test]
fn eight_threads_a_processor_lose_nothing() {
    let threads = 8 * thread::available_parallelism().map_or(1, usize::from);
    let counters: [Counter; 3] = [
        Counter::new(),
        Counter::with_batch(0),
        Counter::with_batch(5),
    ];
    let rounds = 20_000i64;
    thread::scope(|scope| {
        for thread in 0..threads {
            let counters = &counters;
            scope.spawn(move || {
                for round in 0..rounds {
                    for (at, counter) in counters.iter().enumerate() {
                        // Up and down, by different amounts.
                        counter.add(round % 7 - 3 + at as i64 + thread as i64 % 2);
                    }
                }
            });
        }
    });
    for (at, counter) in counters.iter().enumerate() {
        let expected: i64 = (0..threads as i64)
            .map(|thread| {
                (0..rounds)
                    .map(|round| round % 7 - 3 + at as i64 + thread % 2)
                    .sum::<i64>()
            })
            .sum();
        assert_eq!(counter.sum(), expected);
        assert_eq!(counter.estimate(), expected);
    }
}

#[test]
fn more_threads_than_leases_lose_nothing() {
    alone!();
    const HOLDERS: usize = 600;
    const LATE: usize = 8;
    const ADDS: i64 = 100_000;
    let counter = Arc::new(Counter::with_batch(64));
    // Holders keep every lease there is; whoever comes after them has none.
    let (held, over) = (
        Arc::new(Barrier::new(HOLDERS + 1)),
        Arc::new(Barrier::new(HOLDERS + 1)),
    );
    let holders: Vec<_> = (0..HOLDERS)
        .map(|_| {
            let (counter, held, over) = (counter.clone(), held.clone(), over.clone());
            small_thread(move || {
                counter.increment();
                held.wait();
                over.wait();
                counter.increment();
            })
        })
        .collect();
    held.wait();
    assert_eq!(counter.sum(), HOLDERS as i64);
    let late: Vec<_> = (0..LATE)
        .map(|_| {
            let counter = counter.clone();
            small_thread(move || (0..ADDS).for_each(|_| counter.increment()))
        })
        .collect();
    for thread in late {
        thread.join().expect("no thread panics");
    }
    assert_eq!(counter.sum(), HOLDERS as i64 + LATE as i64 * ADDS);
    over.wait();
    for thread in holders {
        thread.join().expect("no thread panics");
    }
    let expected = 2 * HOLDERS as i64 + LATE as i64 * ADDS;
    assert_eq!((counter.sum(), counter.estimate()), (expected, expected));
}

#[test]
fn threads_that_come_and_go_hand_their_rows_on() {
    let counter = Arc::new(Counter::with_batch(10));
    let finished = Arc::new(AtomicUsize::new(0));
    let makers: Vec<_> = (0..4)
        .map(|_| {
            let (counter, finished) = (counter.clone(), finished.clone());
            thread::spawn(move || {
                for _ in 0..300 {
                    let (counter, finished) = (counter.clone(), finished.clone());
                    small_thread(move || {
                        (0..7).for_each(|_| counter.increment());
                        finished.fetch_add(7, Ordering::Release);
                    })
                    .join()
                    .expect("no thread panics");
                }
            })
        })
        .collect();
    // Sums during the coming and going: what finished is counted, and nothing twice.
    loop {
        let at_least = finished.load(Ordering::Acquire);
        let sum = counter.sum();
        assert!(sum >= at_least as i64 && sum <= 8400, "{sum}, {at_least}");
        if at_least == 8400 {
            break;
        }
        thread::yield_now();
    }
    for maker in makers {
        maker.join().expect("no thread panics");
    }
    assert_eq!(counter.sum(), 8400);
}

#[test]
fn destructors_of_exiting_threads_count_before_and_after_the_lease_is_returned() {
    const ADDS: i64 = 20_000;
    const THREADS: i64 = 8;
    const ROUNDS: i64 = 5;
    static EXITS: Counter = Counter::with_batch(3);

    struct Exit;
    impl Drop for Exit {
        fn drop(&mut self) {
            (0..ADDS).for_each(|_| EXITS.increment());
        }
    }
    thread_local! {
        static FIRST: Exit = const { Exit };
        static LAST: Exit = const { Exit };
    }

    for _ in 0..ROUNDS {
        let together = Arc::new(Barrier::new(THREADS as usize));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let together = together.clone();
                small_thread(move || {
                    // Destructors run in an order that the system chooses, usually last made first:
                    // one of the two runs before the lease is returned, the other after it, when the
                    // row may already be somebody else's.
                    FIRST.with(|_| ());
                    EXITS.increment();
                    LAST.with(|_| ());
                    together.wait();
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
    }
    assert_eq!(EXITS.sum(), ROUNDS * THREADS * (2 * ADDS + 1));
}

#[test]
fn estimates_stay_within_their_bound_while_threads_add() {
    const THREADS: i64 = 4;
    const BATCH: i64 = 50;
    let counter = Counter::with_batch(BATCH as u64);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let adders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let counter = &counter;
                scope.spawn(move || {
                    for round in 0..200_000 {
                        counter.add((round + thread) % 90);
                    }
                })
            })
            .collect();
        let watcher = scope.spawn(|| {
            let mut before = counter.sum();
            while !done.load(Ordering::Relaxed) {
                let estimate = counter.estimate();
                let after = counter.sum();
                // The counter only goes up, so what a sum could have returned in between lies between
                // the two sums. All threads have leases unless other tests took them all; then an add
                // under way counts like a row.
                let bound = BATCH * (2 * THREADS + THREADS);
                assert!(
                    estimate >= before - bound && estimate <= after + bound,
                    "{estimate} is not between {before} and {after}, give or take {bound}"
                );
                before = after;
            }
        });
        for adder in adders {
            adder.join().expect("no thread panics");
        }
        done.store(true, Ordering::Relaxed);
        watcher.join().expect("the bound holds");
    });
    assert_eq!(counter.sum(), counter.estimate());
}

#[test]
fn counters_that_come_and_go_start_at_zero() {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..500 {
                    let counter = Counter::with_batch(20);
                    assert_eq!((counter.sum(), counter.estimate()), (0, 0));
                    thread::scope(|inner| {
                        inner.spawn(|| counter.add(round));
                        counter.add(2 * round);
                    });
                    assert_eq!(counter.sum(), 3 * round);
                }
            });
        }
    });
}

#[test]
fn an_add_in_steady_state_allocates_nothing() {
    let counter = Counter::with_batch(100);
    // Until it is hot, and has its shares.
    (0..1000).for_each(|_| counter.increment());
    let (calls, _) = allocated(|| {
        for _ in 0..100_000 {
            counter.increment();
        }
        assert_eq!(counter.sum(), 101_000);
        assert_eq!(counter.estimate(), 101_000);
    });
    assert_eq!(calls, 0);
}

#[test]
fn an_unused_counter_allocates_nothing_even_when_summed_and_dropped() {
    let (calls, _) = allocated(|| {
        let counter = Counter::new();
        assert_eq!((counter.sum(), counter.estimate()), (0, 0));
    });
    assert_eq!(calls, 0);
}

/// More than the word of a counter holds: whoever adds this makes it hot.
const LARGE: i64 = 1 << 40;

#[test]
fn counters_that_are_used_now_and_then_cost_their_16_bytes() {
    const COUNTERS: usize = 100_000;
    let counters: Vec<Counter> = (0..COUNTERS).map(|_| Counter::new()).collect();
    assert_eq!(size_of_val(&counters[..]), 16 * COUNTERS);
    for _ in 0..4 {
        thread::scope(|scope| {
            scope.spawn(|| {
                // The thread's own bookkeeping is made.
                Counter::new().increment();
                let (calls, _) = allocated(|| {
                    for (at, counter) in counters.iter().enumerate() {
                        counter.add(at as i64);
                    }
                });
                assert_eq!(calls, 0);
            });
        });
    }
    for (at, counter) in counters.iter().enumerate() {
        assert_eq!(
            (counter.estimate(), counter.sum()),
            (4 * at as i64, 4 * at as i64)
        );
    }
}

#[test]
fn counters_that_have_become_quiet_leave_their_memory_to_others() {
    const COUNTERS: usize = 20_000;
    const ATTEMPTS: usize = 20;
    // A counter stays hot while another thread is in the middle of an add, to whatever counter.
    alone!();
    if percolog::cpu::barrier::mode() != percolog::cpu::barrier::BarrierMode::Membarrier {
        // Shares are not taken back elsewhere.
        return;
    }
    let hot = || {
        let counters: Vec<Counter> = (0..COUNTERS).map(|_| Counter::new()).collect();
        let (_, bytes) = allocated(|| {
            for counter in &counters {
                counter.add(LARGE);
                counter.add(1 - LARGE);
            }
        });
        (counters, bytes)
    };
    let (first, bytes) = hot();
    assert!(bytes >= 16 * COUNTERS);
    let mut all = first;
    for _ in 0..ATTEMPTS {
        for counter in &all {
            for _ in 0..4 {
                assert_eq!(counter.sum(), 1);
            }
        }
        let (more, bytes) = hot();
        all.extend(more);
        // What a few of them still have is more than made up for by what the list of free numbers takes.
        if bytes < 16 * COUNTERS / 4 {
            for counter in &all {
                assert_eq!(counter.sum(), 1);
            }
            return;
        }
    }
    panic!(
        "none of {} counters that are quiet has left its memory",
        all.len()
    );
}

/// Threads that add now and then, just when so many sums have found nothing that the shares are taken back.
#[test]
fn a_counter_that_turns_hot_and_cold_loses_nothing() {
    const THREADS: i64 = 3;
    const ROUNDS: i64 = 100;
    let counter = Counter::with_batch(5);
    let (sums, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (counter, sums, finished) = (&counter, &sums, &finished);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread as u64);
                for _ in 0..ROUNDS {
                    // So many adds make it hot by themselves, or do not.
                    let adds = random.i64(1..100);
                    (0..adds).for_each(|_| counter.increment());
                    (1..adds).for_each(|_| counter.decrement());
                    let until = sums.load(Ordering::Relaxed) + random.usize(0..8);
                    while sums.load(Ordering::Relaxed) < until {
                        thread::yield_now();
                    }
                }
                finished.fetch_add(1, Ordering::Release);
            });
        }
        while finished.load(Ordering::Acquire) < THREADS as usize {
            let sum = counter.sum();
            // What is under way counts in part.
            assert!(
                (-100 * THREADS..=THREADS * (ROUNDS + 100)).contains(&sum),
                "{sum}"
            );
            sums.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(
        (counter.sum(), counter.estimate()),
        (THREADS * ROUNDS, THREADS * ROUNDS)
    );
}

#[test]
fn many_hot_counters_cost_what_is_stated() {
    alone!();
    const COUNTERS: usize = 100_000;
    const ROW: usize = 384;
    let counters: Vec<Counter> = (0..COUNTERS).map(|_| Counter::new()).collect();
    assert_eq!(size_of_val(&counters[..]), 16 * COUNTERS);
    let threads = 4;
    let all = AtomicUsize::new(0);
    // Stated: a row, and less than 32 bytes a counter and 1 KiB for the shares, for each thread, and once for what sums need. Other tests'
    // counters are numbered among ours, but there are fewer than 1000 of them; blocks that
    // a racing thread was faster to make, and the padding of large ones, fit in 8 KiB. The
    // thread's own bookkeeping in the standard library is in there too.
    let stated = ROW + 32 * (COUNTERS + 1000) + 1024 + 8 * 1024;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (_, bytes) = allocated(|| {
                    for (at, counter) in counters.iter().enumerate() {
                        counter.add(LARGE + at as i64);
                    }
                });
                assert!(bytes <= 2 * stated, "{bytes} bytes, {stated} stated");
                all.fetch_add(bytes, Ordering::Relaxed);
            });
        }
    });
    let (all, rows) = (all.into_inner(), threads as usize + 1);
    assert!(
        all <= rows * stated,
        "{all} bytes, {rows} times {stated} stated"
    );
    // The threads' allocations have been seen at all.
    assert!(all >= 16 * rows * COUNTERS);
    for (at, counter) in counters.iter().enumerate() {
        assert_eq!(counter.sum(), threads * (LARGE + at as i64));
    }
}

#[test]
fn threads_bound_to_one_slot_do_not_share_a_row() {
    const THREADS: i64 = 8;
    const ADDS: i64 = 50_000;
    let counter = Counter::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                percolog::cpu::bind(percolog::cpu::CoreId::new(3));
                for _ in 0..ADDS {
                    counter.increment();
                }
            });
        }
    });
    assert_eq!(counter.sum(), THREADS * ADDS);
}
