//! Requests with a deadline: each thread sets a timeout when a request begins and unsets it when it ends, nearly always in time; somebody
//! looks now and then which have passed. Before, a sorted set behind a mutex; after, `Deferred<Sorted<_>>`, in which the two cancel
//! each other.
//!
//! ```sh
//! cargo run --release --example timeouts -- before 4
//! cargo run --release --example timeouts -- after 4
//! percolog sim --cores 48 -- target/release/examples/timeouts after 48
//! ```
//!
//! On 48 simulated cores the whole program takes 172 ms before, and moves 429,000 lines; after, 1.5 ms and 8,200 lines.

mod common;

use percolog::ldu::{Deferred, Entry, Sorted};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// A deadline, and whose it is.
type Timeout = (u64, u64);

/// Before.
static LOCKED: Mutex<BTreeSet<Timeout>> = Mutex::new(BTreeSet::new());

/// After.
static TIMEOUTS: Deferred<Sorted<Timeout>> = Deferred::new(Sorted::new());

/// Requests of each thread, one after the other on the same connection.
const REQUESTS: u64 = 10_000;

fn main() {
    let (before, threads) = common::arguments();
    let passed: Vec<Timeout> = if before {
        common::on(threads, |thread| {
            let timeout = (500, thread);
            for _ in 0..REQUESTS {
                LOCKED.lock().expect("nobody panics").insert(timeout);
                LOCKED.lock().expect("nobody panics").remove(&timeout);
            }
            // The last one is never answered.
            LOCKED.lock().expect("nobody panics").insert(timeout);
        });
        LOCKED
            .lock()
            .expect("nobody panics")
            .iter()
            .copied()
            .collect()
    } else {
        common::on(threads, |thread| {
            // One for each connection, used again for each request.
            let timeout = Entry::new((500, thread));
            for _ in 0..REQUESTS {
                TIMEOUTS.insert(&timeout).expect("it is not set");
                TIMEOUTS.remove(&timeout).expect("it is set");
            }
            TIMEOUTS.insert(&timeout).expect("it is not set");
        });
        println!("{} entries are to be looked at", TIMEOUTS.stats().pending);
        let mut timeouts = TIMEOUTS.synchronize();
        std::iter::from_fn(|| timeouts.pop_first().map(|entry| *entry)).collect()
    };
    println!("{} deadlines have passed", passed.len());
    assert!((0..threads).map(|thread| (500, thread)).eq(passed));
}
