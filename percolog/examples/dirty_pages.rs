//! Which pages of a cache are dirty: marked by whoever writes, unmarked by whoever writes back, listed now and then. Before, a set behind
//! a mutex; after, the same with `Set`.
//!
//! ```sh
//! cargo run --release --example dirty_pages -- before 4
//! cargo run --release --example dirty_pages -- after 4
//! percolog sim --cores 48 -- target/release/examples/dirty_pages after 48
//! ```
//!
//! On 48 simulated cores the whole program takes 160 ms before, and moves 417,000 lines; after, 4.3 ms and 12,000 lines.

mod common;

use percolog::collections::Set;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Before.
static LOCKED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// After.
static DIRTY: Set<u64> = Set::new(BTreeSet::new());

/// Writes of each thread.
const WRITES: u64 = 10_000;

/// Pages that each thread writes to, again and again: fewer than a queue holds.
const PAGES: u64 = 64;

/// Has each thread write its pages, and write all but the first one back.
fn write_pages(threads: u64, mark: impl Fn(u64) + Sync, unmark: impl Fn(u64) + Sync) {
    common::on(threads, |thread| {
        for number in 0..WRITES {
            let page = thread * PAGES + number % PAGES;
            mark(page);
            if number % PAGES != 0 {
                unmark(page);
            }
        }
    });
}

fn main() {
    let (before, threads) = common::arguments();
    let dirty = if before {
        write_pages(
            threads,
            |page| _ = LOCKED.lock().expect("nobody panics").insert(page),
            |page| _ = LOCKED.lock().expect("nobody panics").remove(&page),
        );
        LOCKED.lock().expect("nobody panics").clone()
    } else {
        write_pages(
            threads,
            |page| DIRTY.insert(page),
            |page| DIRTY.remove(page),
        );
        let stats = DIRTY.stats();
        println!(
            "{} changes never had to be executed, {} have to be now",
            stats.absorbed, stats.pending
        );
        DIRTY.read().clone()
    };
    println!("{} pages are dirty", dirty.len());
    assert!((0..threads).map(|thread| thread * PAGES).eq(dirty));
}
