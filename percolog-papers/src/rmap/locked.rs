//! The map behind a lock that every update takes.

use super::{IntervalMap, Key, Mapping, ReverseMap};
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
    type Addition = Mapping;
    type Removal = Key;

    fn identity(mapping: Mapping) -> (Mapping, Key) {
        (mapping, mapping.key())
    }

    fn add(&self, mapping: Mapping) {
        self.lock().add(mapping);
    }

    fn remove(&self, key: Key) {
        self.lock().remove(key);
    }

    fn truncate(&self, length: u64) -> Vec<Mapping> {
        self.lock().truncate(length)
    }

    fn mappings(&self) -> Vec<Mapping> {
        self.lock().iter().collect()
    }
}
