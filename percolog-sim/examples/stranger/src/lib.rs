//! Counts hits: each thread in a part of its own, so that threads do not wait for each other's cache lines.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that many threads add to and few read. On lines of its own, since it is read at every hit: what lies beside it, in a variable
/// of its owner, may be written all the time.
#[derive(Debug)]
#[repr(align(128))]
pub struct Hits {
    parts: Vec<Part>,
}

/// On lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(AtomicU64);

impl Hits {
    /// A counter for so many threads. More may use it; they share parts.
    pub fn new(threads: usize) -> Self {
        Hits {
            parts: (0..threads.max(1)).map(|_| Part::default()).collect(),
        }
    }

    /// Thread number `thread` counts a hit.
    pub fn add(&self, thread: usize) {
        // Relaxed: a count publishes nothing.
        self.parts[thread % self.parts.len()]
            .0
            .fetch_add(1, Ordering::Relaxed);
    }

    /// How many hits there were.
    pub fn total(&self) -> u64 {
        // Relaxed: see `add`.
        self.parts
            .iter()
            .map(|part| part.0.load(Ordering::Relaxed))
            .sum()
    }
}
