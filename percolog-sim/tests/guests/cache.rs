// A cache behind a lock, and a counter of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

struct Cache {
    map: Mutex<HashMap<u64, u64>>,
    hits: Arc<AtomicU64>,
}

impl Cache {
    #[inline(never)]
    fn new() -> Arc<Self> {
        Arc::new(Cache {
            map: Mutex::new(HashMap::new()),
            hits: Arc::default(),
        })
    }

    #[inline(never)]
    fn insert(&self, key: u64) {
        self.map.lock().unwrap().insert(key, key);
    }

    #[inline(never)]
    fn get(&self, key: u64) -> Option<u64> {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.map.lock().unwrap().get(&key).copied()
    }
}

fn main() {
    let cache = Cache::new();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || {
                for key in 0..50 {
                    cache.insert(thread * 100 + key);
                    cache.get(key);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{}", cache.map.lock().unwrap().len());
}
