//! Connections that wait to be accepted: each is put where it came in, and taken by whoever has time, from its own core if there is one.
//! Before, one list behind a mutex; after, `PerCoreList`.
//!
//! ```sh
//! cargo run --release --example accept -- before 4
//! cargo run --release --example accept -- after 4
//! percolog sim --cores 48 -- target/release/examples/accept after 48
//! ```
//!
//! On 48 simulated cores the whole program takes 119 ms before, and moves 752,000 lines; after, 1.2 ms and 7,300 lines.

mod common;

use percolog::collections::PerCoreList;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Before.
static LOCKED: Mutex<VecDeque<u64>> = Mutex::new(VecDeque::new());

/// After.
static WAITING: PerCoreList<u64> = PerCoreList::new();

/// Connections that come in at each thread.
const CONNECTIONS: u64 = 10_000;

/// Lets each thread bring connections in and accept as many, its own or others'. Returns the sum of those accepted.
fn serve(
    threads: u64,
    arrive: impl Fn(u64) + Sync,
    accept: impl Fn() -> Option<u64> + Sync,
) -> u64 {
    let accepted = AtomicU64::new(0);
    common::on(threads, |thread| {
        let mut sum = 0;
        for number in 0..CONNECTIONS {
            arrive(thread * CONNECTIONS + number);
            // There is one for each that has come in; which one, is open.
            sum += accept().expect("one is left for this thread");
        }
        accepted.fetch_add(sum, Ordering::Relaxed);
    });
    accepted.into_inner()
}

fn main() {
    let (before, threads) = common::arguments();
    let sum = if before {
        serve(
            threads,
            |connection| LOCKED.lock().expect("nobody panics").push_back(connection),
            || LOCKED.lock().expect("nobody panics").pop_front(),
        )
    } else {
        serve(
            threads,
            |connection| WAITING.push(connection),
            || WAITING.pop(),
        )
    };
    let all = threads * CONNECTIONS;
    println!("{all} connections were accepted");
    assert_eq!(sum, all * (all - 1) / 2);
}
