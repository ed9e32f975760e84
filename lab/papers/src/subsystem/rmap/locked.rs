//! The map behind a lock that every update takes.

use super::{IntervalMap, ReverseMap};
use crate::subsystem::{Entry, Key};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An [`IntervalMap`] behind a mutex.
#[derive(Debug, Default)]
pub struct Locked {
    map: Mutex<IntervalMap>,
}

impl Locked {
    fn lock(&self) -> MutexGuard<'_, IntervalMap> {
        // No method of the map panics half-way, so a map left behind by a panicking thread is sound.
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReverseMap for Locked {
    type Addition = Entry;
    type Removal = Key;

    fn identity(mapping: Entry) -> (Entry, Key) {
        (mapping, mapping.key())
    }

    fn add(&self, mapping: Entry) {
        self.lock().add(mapping);
    }

    fn remove(&self, key: Key) {
        self.lock().remove(key);
    }

    fn truncate(&self, length: u64) -> Vec<Entry> {
        self.lock().truncate(length)
    }

    fn at(&self, offset: u64) -> Vec<Entry> {
        self.lock().overlapping(offset..offset.saturating_add(1))
    }

    fn mappings(&self) -> Vec<Entry> {
        self.lock().iter().collect()
    }
}
