//! The map behind a lock that readers share; every update still takes it for itself.

use super::{IntervalMap, ReverseMap};
use crate::subsystem::{Entry, Key};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An [`IntervalMap`] behind a readers-writer lock.
#[derive(Debug, Default)]
pub struct RwLocked {
    map: RwLock<IntervalMap>,
}

impl RwLocked {
    // No method of the map panics half-way, so a map left behind by a panicking thread is sound.

    fn read(&self) -> RwLockReadGuard<'_, IntervalMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, IntervalMap> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReverseMap for RwLocked {
    type Addition = Entry;
    type Removal = Key;

    fn identity(mapping: Entry) -> (Entry, Key) {
        (mapping, mapping.key())
    }

    fn add(&self, mapping: Entry) {
        self.write().add(mapping);
    }

    fn remove(&self, key: Key) {
        self.write().remove(key);
    }

    fn truncate(&self, length: u64) -> Vec<Entry> {
        self.write().truncate(length)
    }

    fn at(&self, offset: u64) -> Vec<Entry> {
        self.read().overlapping(offset..offset.saturating_add(1))
    }

    fn mappings(&self) -> Vec<Entry> {
        self.read().iter().collect()
    }
}
