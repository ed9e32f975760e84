//! A child finds every element, and no call by half.

use crate::common::child::{check, in_a_child};
use percolog::dhash::{DHash, Partitioned};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

#[test]
fn a_child_goes_on_with_all_tables() {
    let table = DHash::<u64, AtomicU64, [u64; 2]>::new(|_, _| [0; 2]);
    let partitioned = Partitioned::<u64, u64>::new(2, |key| *key);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2u64 {
            let (table, partitioned, done) = (&table, &partitioned, &done);
            scope.spawn(move || {
                let mut round = thread;
                while !done.load(Ordering::Relaxed) {
                    round += 1;
                    let local =
                        table.find_or_allocate_and_lock(&(round % 8), |_| AtomicU64::new(0));
                    let mut local = local.expect("no guard is out");
                    local[0] += 1;
                    local.shared().fetch_add(1, Ordering::Relaxed);
                    // Time enough for a fork to come in between, if it did not wait.
                    std::hint::spin_loop();
                    local[1] += 1;
                    drop(local);
                    if round % 16 == 0 {
                        let _ = table.empty_data(&(round % 5));
                        let _ = partitioned.empty_data(&(round % 5));
                    }
                    drop(partitioned.find_or_allocate_and_lock(&(thread + 100), |_| 0));
                }
            });
        }
        for _ in 0..30 {
            in_a_child(|| {
                for key in 0..8 {
                    let sums = table.gather(
                        &key,
                        |_| [0; 2],
                        |sums, local| {
                            sums[0] += local[0];
                            sums[1] += local[1];
                        },
                    );
                    let sums = sums.map_err(|_| 1)?;
                    check(sums.is_none_or(|[first, second]| first == second), 2)?;
                    let found = table.find_or_allocate_and_lock(&key, |_| AtomicU64::new(0));
                    check(found.is_ok(), 3)?;
                }
                check(table.trim().is_ok(), 4)?;
                check(table.empty_data(&1) == Ok(true), 5)?;
                check(partitioned.find_or_allocate_and_lock(&7, |_| 1).is_ok(), 6)
            });
        }
        done.store(true, Ordering::Relaxed);
    });
}
