//! SIEVE: a queue in the order of insertion; a hand goes over it and evicts the first key that was not hit since it came by.

use std::collections::HashMap;

use super::Cache;

/// Y. Zhang et al., *SIEVE is Simpler than LRU*, NSDI 2024, algorithm 1.
#[derive(Debug)]
pub struct Sieve {
    capacity: usize,
    nodes: Vec<Node>,
    places: HashMap<u64, usize>,
    newest: Option<usize>,
    oldest: Option<usize>,
    hand: Option<usize>,
}

#[derive(Debug)]
struct Node {
    key: u64,
    visited: bool,
    newer: Option<usize>,
    older: Option<usize>,
}

impl Sieve {
    /// An empty cache.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            nodes: Vec::new(),
            places: HashMap::new(),
            newest: None,
            oldest: None,
            hand: None,
        }
    }

    /// Evicts a key, and returns its place.
    fn evict(&mut self) -> Option<usize> {
        let mut at = self.hand.or(self.oldest)?;
        while std::mem::take(&mut self.nodes[at].visited) {
            at = self.nodes[at].newer.or(self.oldest)?;
        }
        let Node {
            key, newer, older, ..
        } = self.nodes[at];
        self.hand = newer;
        match newer {
            Some(newer) => self.nodes[newer].older = older,
            None => self.newest = older,
        }
        match older {
            Some(older) => self.nodes[older].newer = newer,
            None => self.oldest = newer,
        }
        self.places.remove(&key);
        Some(at)
    }
}

impl Cache for Sieve {
    fn access(&mut self, key: u64) -> bool {
        if let Some(place) = self.places.get(&key) {
            self.nodes[*place].visited = true;
            return true;
        }
        let vacant = if self.places.len() < self.capacity {
            None
        } else {
            self.evict()
        };
        let node = Node {
            key,
            visited: false,
            newer: None,
            older: self.newest,
        };
        let at = match vacant {
            Some(at) => {
                self.nodes[at] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        match self.newest {
            Some(newest) => self.nodes[newest].newer = Some(at),
            None => self.oldest = Some(at),
        }
        self.newest = Some(at);
        self.places.insert(key, at);
        false
    }
}
