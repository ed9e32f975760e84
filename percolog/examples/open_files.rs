//! The list of open files: every open and close changes it, and hardly anybody lists it. Before, a map behind a mutex; after, `Registry`.
//!
//! ```sh
//! cargo run --release --example open_files -- before 4
//! cargo run --release --example open_files -- after 4
//! percolog sim --cores 48 -- target/release/examples/open_files after 48
//! ```
//!
//! On 48 simulated cores the whole program takes 133 ms before, and moves 280,000 lines; after, 3.1 ms and 11,000 lines.

mod common;

use percolog::collections::Registry;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

/// Before.
static LOCKED: LazyLock<Mutex<HashMap<u64, u64>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(0);

/// After.
static OPEN: Registry<u64> = Registry::new();

/// Files that each thread opens and closes.
const FILES: u64 = 10_000;

fn main() {
    let (before, threads) = common::arguments();
    let open = if before {
        common::on(threads, |thread| {
            for _ in 0..FILES {
                let file = NEXT.fetch_add(1, Ordering::Relaxed);
                LOCKED.lock().expect("nobody panics").insert(file, thread);
                LOCKED.lock().expect("nobody panics").remove(&file);
            }
            let last = NEXT.fetch_add(1, Ordering::Relaxed);
            LOCKED.lock().expect("nobody panics").insert(last, thread);
        });
        LOCKED.lock().expect("nobody panics").len()
    } else {
        let last = Mutex::new(Vec::new());
        common::on(threads, |thread| {
            for _ in 0..FILES {
                // Closed when the handle goes.
                drop(OPEN.register(thread));
            }
            let handle = OPEN.register(thread);
            last.lock().expect("nobody panics").push(handle);
        });
        OPEN.len()
    };
    println!("{open} files are open");
    assert_eq!(open as u64, threads);
}
