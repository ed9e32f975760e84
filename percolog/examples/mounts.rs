//! What is mounted where: looked up for every path, and hardly ever changed. Before, a map behind a readers-writer lock; after, `TableCache`.
//!
//! ```sh
//! cargo run --release --example mounts -- before 4
//! cargo run --release --example mounts -- after 4
//! percolog sim --cores 48 -- target/release/examples/mounts after 48
//! ```
//!
//! On 12 simulated cores the whole program takes 193 ms before, and moves 2,996,000 lines; after, 1.1 ms and 1,900 lines.

mod common;

use percolog::collections::TableCache;
use std::collections::HashMap;
use std::sync::RwLock;

/// Lookups of each thread.
const LOOKUPS: usize = 10_000;

const MOUNTS: [(&str, u64); 3] = [("/", 1), ("/home", 2), ("/proc", 3)];

fn main() {
    let (before, threads) = common::arguments();
    let check = |found: Option<u64>, number: usize| {
        assert_eq!(found, Some(MOUNTS[number % MOUNTS.len()].1));
    };
    if before {
        let mounts = RwLock::new(HashMap::from(MOUNTS));
        common::on(threads, |_| {
            for number in 0..LOOKUPS {
                let path = MOUNTS[number % MOUNTS.len()].0;
                check(
                    mounts.read().expect("nobody panics").get(path).copied(),
                    number,
                );
            }
        });
        mounts.write().expect("nobody panics").remove("/proc");
        assert!(!mounts.read().expect("nobody panics").contains_key("/proc"));
    } else {
        let mounts = TableCache::new();
        for (path, device) in MOUNTS {
            mounts.insert(path, device);
        }
        common::on(threads, |_| {
            for number in 0..LOOKUPS {
                check(mounts.get(MOUNTS[number % MOUNTS.len()].0), number);
            }
        });
        // Takes every core's copy away.
        mounts.remove("/proc");
        assert_eq!(mounts.get("/proc"), None);
    }
    println!(
        "{} lookups found what was mounted",
        threads * LOOKUPS as u64
    );
}
