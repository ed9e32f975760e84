//! CLOCK: keys in a circle, with a mark each that a hit sets and the hand takes away.

use std::collections::HashMap;

use super::Cache;

/// F. Corbató, *A Paging Experiment with the Multics System*, 1968.
#[derive(Debug)]
pub struct Clock {
    capacity: usize,
    circle: Vec<(u64, bool)>,
    places: HashMap<u64, usize>,
    hand: usize,
}

impl Clock {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            circle: Vec::new(),
            places: HashMap::new(),
            hand: 0,
        }
    }
}

impl Cache for Clock {
    fn access(&mut self, key: u64) -> bool {
        if let Some(place) = self.places.get(&key) {
            self.circle[*place].1 = true;
            return true;
        }
        if self.circle.len() < self.capacity {
            self.places.insert(key, self.circle.len());
            self.circle.push((key, false));
            return false;
        }
        while std::mem::take(&mut self.circle[self.hand].1) {
            self.hand = (self.hand + 1) % self.capacity;
        }
        self.places.remove(&self.circle[self.hand].0);
        self.circle[self.hand].0 = key;
        self.places.insert(key, self.hand);
        self.hand = (self.hand + 1) % self.capacity;
        false
    }
}
