//! Two threads add to counters of their own that share a cache line, then to counters that do not.
//!
//! `percolog sim -- target/release/examples/padding` shows which line moves between the cores, under its name; `… padding apart`
//! shows that it is gone. Without a simulator the program only does its work.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

const ADDS: u64 = 10_000;

fn main() {
    let together: [AtomicU64; 2] = Default::default();
    let apart: [Apart; 2] = Default::default();
    percolog_roi::label(&together, "counters in one line");
    percolog_roi::label(&apart, "counters in a line each");

    let keep_apart = std::env::args().any(|argument| argument == "apart");
    let counters: [&AtomicU64; 2] = if keep_apart {
        [&apart[0].0, &apart[1].0]
    } else {
        [&together[0], &together[1]]
    };
    let start = Barrier::new(counters.len());
    thread::scope(|scope| {
        for counter in counters {
            let start = &start;
            scope.spawn(move || {
                // The first access fetches the line from memory, which says nothing about sharing.
                counter.fetch_add(1, Ordering::Relaxed);
                start.wait();
                percolog_roi::begin();
                for _ in 0..ADDS {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                percolog_roi::end(ADDS);
            });
        }
    });
    let sum: u64 = counters
        .iter()
        .map(|counter| counter.load(Ordering::Relaxed))
        .sum();
    println!("{sum}");
}
