//! S3-FIFO: a small queue for what is new, a main one for what was hit there, and the names of what left the small one.

use std::collections::{HashMap, VecDeque};

use super::Cache;

/// J. Yang et al., *FIFO Queues are All You Need for Cache Eviction*, SOSP 2023, algorithm 1, with a tenth of the keys in the
/// small queue.
#[derive(Debug)]
pub struct S3Fifo {
    capacity: usize,
    /// How often each key was hit, up to 3.
    hit: HashMap<u64, u8>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    /// Keys that left the small queue, with the number of the time that they did; the latest ones.
    ghosts: VecDeque<(u64, u64)>,
    ghost: HashMap<u64, u64>,
    left: u64,
}

impl S3Fifo {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            hit: HashMap::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            ghost: HashMap::new(),
            left: 0,
        }
    }

    fn evict(&mut self) {
        let small = self.capacity.div_ceil(10);
        if self.small.len() >= small || self.main.is_empty() {
            self.evict_from_small();
        } else {
            self.evict_from_main();
        }
    }

    fn evict_from_small(&mut self) {
        while let Some(key) = self.small.pop_front() {
            if self.hit[&key] > 1 {
                self.hit.insert(key, 0);
                self.main.push_back(key);
                continue;
            }
            self.hit.remove(&key);
            self.remember(key);
            return;
        }
        // All of them have moved on.
        self.evict_from_main();
    }

    fn evict_from_main(&mut self) {
        while let Some(key) = self.main.pop_front() {
            match self.hit.get_mut(&key) {
                Some(hit) if *hit > 0 => {
                    *hit -= 1;
                    self.main.push_back(key);
                }
                _ => {
                    self.hit.remove(&key);
                    return;
                }
            }
        }
    }

    fn remember(&mut self, key: u64) {
        self.left += 1;
        self.ghosts.push_back((key, self.left));
        self.ghost.insert(key, self.left);
        // As many as the main queue has room for.
        while self.ghosts.len() > self.capacity - self.capacity.div_ceil(10) {
            if let Some((key, left)) = self.ghosts.pop_front()
                && self.ghost.get(&key) == Some(&left)
            {
                self.ghost.remove(&key);
            }
        }
    }
}

impl Cache for S3Fifo {
    fn access(&mut self, key: u64) -> bool {
        if let Some(hit) = self.hit.get_mut(&key) {
            *hit = (*hit + 1).min(3);
            return true;
        }
        if self.hit.len() >= self.capacity {
            self.evict();
        }
        if self.ghost.remove(&key).is_some() {
            self.main.push_back(key);
        } else {
            self.small.push_back(key);
        }
        self.hit.insert(key, 0);
        false
    }
}
