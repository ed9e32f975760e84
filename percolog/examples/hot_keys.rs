//! A cache's keys by their last use: every hit touches one, and now and then the oldest are thrown out. Before, an ordered map behind a
//! mutex; after, `Lru`.
//!
//! ```sh
//! cargo run --release --example hot_keys -- before 4
//! cargo run --release --example hot_keys -- after 4
//! percolog sim --cores 48 -- target/release/examples/hot_keys after 48
//! ```
//!
//! On 48 simulated cores the whole program takes 295 ms before, and moves 559,000 lines; after, 3.8 ms and 14,000 lines.

mod common;

use percolog::collections::Lru;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

/// Before: keys by the time of their last use, and the other way round.
#[derive(Default)]
struct Locked {
    now: u64,
    by_time: BTreeMap<u64, u64>,
    times: HashMap<u64, u64>,
}

impl Locked {
    fn touch(&mut self, key: u64) {
        self.now += 1;
        if let Some(time) = self.times.insert(key, self.now) {
            self.by_time.remove(&time);
        }
        self.by_time.insert(self.now, key);
    }

    fn evict(&mut self) -> Option<u64> {
        let (_, key) = self.by_time.pop_first()?;
        self.times.remove(&key);
        Some(key)
    }
}

/// Hits of each thread.
const HITS: u64 = 10_000;

/// Keys that each thread hits, and one that it does not.
const KEYS: u64 = 32;

fn main() {
    let (before, threads) = common::arguments();
    let key = |thread: u64, number: u64| thread * (KEYS + 1) + 1 + number % KEYS;
    let all = 0..threads * (KEYS + 1);
    // The ones that nobody has hit are the oldest.
    let evicted: Vec<u64> = if before {
        let locked = Mutex::new(Locked::default());
        all.for_each(|key| locked.lock().expect("nobody panics").touch(key));
        common::on(threads, |thread| {
            for number in 0..HITS {
                let mut order = locked.lock().expect("nobody panics");
                order.touch(key(thread, number));
            }
        });
        let mut order = locked.lock().expect("nobody panics");
        (0..threads).filter_map(|_| order.evict()).collect()
    } else {
        let keys = Lru::new();
        all.for_each(|key| keys.insert(key));
        common::on(threads, |thread| {
            for number in 0..HITS {
                keys.touch(key(thread, number));
            }
        });
        keys.evict_many(threads as usize)
    };
    println!("{} keys were thrown out", evicted.len());
    assert!((0..threads).map(|thread| thread * (KEYS + 1)).eq(evicted));
}
