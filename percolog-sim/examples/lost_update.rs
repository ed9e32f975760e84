//! A counter that loses updates, to be found by `percolog sim --chaos`.
//!
//! Each thread does some work and counts it: it loads the counter, adds one, and stores the sum. If another thread counts
//! between the load and the store, its update is lost. The work takes a thousand times as long as that, so the program
//! works, nearly always:
//!
//! ```sh
//! cargo build -p percolog-sim --examples
//! percolog sim --chaos --cores 4 -- target/debug/examples/lost_update            # is found
//! percolog sim --chaos --cores 4 -- target/debug/examples/lost_update --fixed    # survives
//! ```
//!
//! (An optimizing compiler makes one instruction of the load, the addition and the store. It is not atomic, and found as well.)
//! With `--fixed` it counts with `fetch_add`. It counts itself what was lost, and ends with status 1 if anything was.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: u64 = 4;
const EACH: u64 = 5;

fn main() -> ExitCode {
    let fixed = std::env::args().any(|argument| argument == "--fixed");
    let counter = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let counter = &counter;
            scope.spawn(move || {
                for turn in 0..EACH {
                    // No two threads take the same time.
                    work(10_000 + 2_000 * number + 100 * turn);
                    if fixed {
                        // Relaxed: nothing else is published by it; the join orders it for the final load.
                        counter.fetch_add(1, Ordering::Relaxed);
                    } else {
                        // Relaxed, as above. Stronger orderings would not help: the two are not one.
                        let before = counter.load(Ordering::Relaxed);
                        counter.store(before + 1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let counted = counter.into_inner();
    println!("{counted} of {} counted", THREADS * EACH);
    ExitCode::from(u8::from(counted != THREADS * EACH))
}

/// Something to do that takes so many steps, and touches nothing of others.
fn work(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}
