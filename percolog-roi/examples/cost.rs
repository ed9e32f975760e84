//! What a mark costs where no simulator listens: `cargo run --release -p percolog-roi --example cost`.

use std::time::Instant;

fn main() {
    const MARKS: u32 = 1_000_000;
    if percolog_roi::begin() {
        println!("a simulator listens: real time says nothing here");
        return;
    }
    // The best of some rounds: whatever else the machine does only makes a round slower.
    let best = (0..10)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..MARKS {
                percolog_roi::end(0);
            }
            started.elapsed() / MARKS
        })
        .min();
    println!("{} ns a mark", best.unwrap_or_default().as_nanos());
}
