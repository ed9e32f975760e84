//! Threads that come and go, updates that panic, readers and takers all the time: nothing is lost and nothing counts twice.

use crate::common::seed::seed;
use crate::common::share::share;
use percolog::reduce::{Max, Reducer, Sum};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Two halves that every update changes together, and the largest amount.
type Value = (Sum<u64>, Sum<u64>, Max<u64>);

fn add(reducer: &Reducer<Value>, amount: u64, panics: bool) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        reducer.update(|(one, two, largest)| {
            one.add(amount);
            two.add(amount);
            largest.observe(amount);
            if panics {
                // Quietly: no message for each.
                std::panic::resume_unwind(Box::new(()));
            }
        });
    }));
    assert_eq!(outcome.is_err(), panics);
}

#[test]
fn churn() {
    let mut chance = fastrand::Rng::with_seed(seed());
    let reducer: Reducer<Value> = Reducer::new();
    let done = AtomicBool::new(false);
    let rounds = share(60);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let (one, two, _) = reducer.read();
                assert_eq!(one, two, "a read shows half an update");
            }
        });
        let taker = scope.spawn(|| {
            let mut taken = 0;
            while !done.load(Ordering::Relaxed) {
                let (one, two, _) = reducer.take();
                assert_eq!(one, two, "a take shows half an update");
                taken += one.0;
                thread::yield_now();
            }
            taken
        });
        let mut added = 0;
        for _ in 0..rounds {
            // More and fewer threads than processors, living for a moment or for a while.
            let threads: Vec<_> = (0..chance.usize(1..=6))
                .map(|_| {
                    let (mut chance, reducer) = (chance.fork(), &reducer);
                    scope.spawn(move || {
                        let mut added = 0;
                        for _ in 0..[1, 10, 2_000][chance.usize(..3)] {
                            let amount = chance.u64(..100);
                            add(reducer, amount, chance.u8(..50) == 0);
                            added += amount;
                        }
                        added
                    })
                })
                .collect();
            for thread in threads {
                added += thread.join().expect("no panic gets out");
            }
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("reads are whole");
        let taken = taker.join().expect("takes are whole");
        assert_eq!(taken + reducer.take().0.0, added);
    });
}
