//! Crates that many programs use, driven so that what they share between threads can be seen: `guests NAME`, under
//! `percolog sim`. `docs/worst-lines.md` has what came of it.
//!
//! There is a worker for each processor that the machine has, on a core of its own. All warm up, meet, and begin.

mod cache;
mod pattern;
mod registry;
mod skiplist;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{env, hint, process, thread};

/// What the command line can ask for.
const GUESTS: [(&str, fn()); 10] = [
    ("skiplist", skiplist::run),
    ("registry", registry::looked_up),
    ("registry-kept", registry::kept),
    ("registry-spread", registry::spread),
    ("cache", cache::moka),
    ("cache-quick", cache::quick),
    ("regex", pattern::shared),
    ("regex-cloned", pattern::cloned),
    ("regex-read", pattern::read),
    ("regex-read-cloned", pattern::read_cloned),
];

fn main() {
    let name = env::args().nth(1).unwrap_or_default();
    match GUESTS.iter().find(|(guest, _)| *guest == name) {
        Some((_, run)) => run(),
        None => {
            let names: Vec<&str> = GUESTS.iter().map(|(guest, _)| *guest).collect();
            eprintln!("usage: guests {}", names.join("|"));
            process::exit(2);
        }
    }
}

/// How many workers there are.
fn workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `operation(worker, n)` for n from 0 to `warm + counted` in each worker; the last `counted` calls are measured.
fn measure(warm: u64, counted: u64, operation: impl Fn(usize, u64) + Sync) {
    let workers = workers();
    let work = |worker: usize| {
        percolog_roi::core(worker);
        for n in 0..warm {
            operation(worker, n);
        }
        meet(workers);
        percolog_roi::begin();
        for n in warm..warm + counted {
            operation(worker, n);
        }
        percolog_roi::end(counted);
        // A thread that ends writes to memory, which would be in the way of those that still work.
        meet(2 * workers);
    };
    thread::scope(|scope| {
        for worker in 0..workers {
            let work = &work;
            scope.spawn(move || work(worker));
        }
    });
}

/// A number on cache lines of its own.
#[repr(align(128))]
struct Alone(AtomicUsize);

/// Waits until `all` have arrived. It spins, so that all go on at once.
fn meet(all: usize) {
    /// Nothing that the workers use is near it.
    static ARRIVED: Alone = Alone(AtomicUsize::new(0));
    let arrived = &ARRIVED.0;
    arrived.fetch_add(1, Relaxed);
    while arrived.load(Relaxed) < all {
        hint::spin_loop();
    }
}

/// A number that looks random, and is the same each time: splitmix64 of `n` and who asks.
fn random(worker: usize, n: u64) -> u64 {
    let mut number = (worker as u64)
        .wrapping_shl(32)
        .wrapping_add(n)
        .wrapping_add(1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
