//! A mapping that can be cut while others look at it: what lock-free structures keep.

use crate::subsystem::Entry;
use std::sync::atomic::{AtomicU64, Ordering};

/// A mapping whose end moves towards its beginning.
#[derive(Debug)]
pub struct Cuttable {
    added: Entry,
    /// Never more than it was.
    end: AtomicU64,
}

impl Cuttable {
    pub(super) fn new(mapping: Entry) -> Cuttable {
        Cuttable {
            added: mapping,
            end: AtomicU64::new(mapping.end),
        }
    }

    /// The mapping as it is now.
    pub(super) fn now(&self) -> Entry {
        Entry {
            // Relaxed, here and below: the end is the only word that changes, and it only falls; partners are
            // the exchanges in `cut`.
            end: self.end.load(Ordering::Relaxed),
            ..self.added
        }
    }

    /// Whether the mapping has a byte at `offset`.
    pub(super) fn has(&self, offset: u64) -> bool {
        self.added.offset <= offset && offset < self.end.load(Ordering::Relaxed)
    }

    /// Whether there is nothing of it.
    pub(super) fn is_empty(&self) -> bool {
        self.begins_beyond(self.end.load(Ordering::Relaxed))
    }

    /// Whether nothing of it lies below `length`.
    pub(super) fn begins_beyond(&self, length: u64) -> bool {
        self.added.offset >= length
    }

    /// Cuts what lies beyond `length`, and tells what the mapping was, if this call has cut any of it.
    pub(super) fn cut(&self, length: u64) -> Option<Entry> {
        if self.end.load(Ordering::Relaxed) <= length {
            return None;
        }
        // Of two that cut at once, each is told of what it took, and the shorter length stays.
        let end = self.end.fetch_min(length, Ordering::Relaxed);
        (end > length).then_some(Entry { end, ..self.added })
    }
}
