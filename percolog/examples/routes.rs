//! A routing table that every request reads and that is now and then replaced whole. Before, an `Arc` in an `RwLock`; after,
//! `Replaceable`.
//!
//! ```sh
//! cargo run --release --example routes -- before 4
//! cargo run --release --example routes -- after 4
//! percolog sim --cores 48 -- target/release/examples/routes after 48
//! ```
//!
//! On 48 simulated cores the whole program takes 3650 ms before, and moves 24,141,000 lines; after, 1.0 ms and 14,400 lines.

mod common;

use percolog::reclaim::{Domain, Replaceable};
use std::hint::black_box;
use std::sync::{Arc, PoisonError, RwLock};

static DOMAIN: Domain = Domain::new();

/// Requests of each thread.
const REQUESTS: u64 = 10_000;

/// The first thread replaces the table after so many requests.
const REPLACED: u64 = 1000;

/// Where requests go: all to the same place, which changes with each table.
struct Routes {
    version: u64,
    targets: [u64; 64],
}

impl Routes {
    fn new(version: u64) -> Self {
        let targets = [version; 64];
        Self { version, targets }
    }

    /// Tables are whole: all routes are of one version.
    fn follow(&self, request: u64) -> u64 {
        let target = self.targets[black_box(request) as usize % self.targets.len()];
        assert_eq!(target, self.version);
        target
    }
}

fn main() {
    let (before, threads) = common::arguments();
    let replaces = |thread, number| thread == 0 && number % REPLACED == REPLACED - 1;
    let version = if before {
        let routes = RwLock::new(Arc::new(Routes::new(0)));
        common::on(threads, |thread| {
            for number in 0..REQUESTS {
                let table = Arc::clone(&routes.read().unwrap_or_else(PoisonError::into_inner));
                black_box(table.follow(number));
                if replaces(thread, number) {
                    let table = Arc::new(Routes::new(number / REPLACED + 1));
                    *routes.write().unwrap_or_else(PoisonError::into_inner) = table;
                }
            }
        });
        let table = routes.into_inner().unwrap_or_else(PoisonError::into_inner);
        table.version
    } else {
        let routes = Replaceable::new(&DOMAIN, Routes::new(0));
        common::on(threads, |thread| {
            for number in 0..REQUESTS {
                routes.read(|table| black_box(table.follow(number)));
                if replaces(thread, number) {
                    routes.replace(Routes::new(number / REPLACED + 1));
                }
            }
        });
        routes.into_inner().version
    };
    println!("version {version} of the table is in use");
    assert_eq!(version, REQUESTS / REPLACED);
}
