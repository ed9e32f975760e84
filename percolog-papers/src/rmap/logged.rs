//! The map behind a log for each core; every update is carried out, in order, by who asks next.

use super::{IntervalMap, Key, Mapping, ReverseMap};
use percolog::oplog::{Logged, Operation, Stats};

/// An [`IntervalMap`] behind [`Logged`], without absorption.
#[derive(Debug)]
pub struct LoggedMap {
    map: Logged<IntervalMap, Edit>,
}

#[derive(Debug)]
enum Edit {
    Add(Mapping),
    Remove(Key),
}

impl Operation<IntervalMap> for Edit {
    fn exec(self, map: &mut IntervalMap) {
        match self {
            Edit::Add(mapping) => {
                map.add(mapping);
            }
            Edit::Remove(key) => {
                map.remove(key);
            }
        }
    }
}

impl LoggedMap {
    /// What the log has done so far: how much was carried out, and how much cancelled.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.map.stats()
    }
}

impl Default for LoggedMap {
    fn default() -> LoggedMap {
        LoggedMap {
            map: Logged::new(IntervalMap::new()),
        }
    }
}

impl ReverseMap for LoggedMap {
    type Addition = Mapping;
    type Removal = Key;

    fn identity(mapping: Mapping) -> (Mapping, Key) {
        (mapping, mapping.key())
    }

    fn add(&self, mapping: Mapping) {
        self.map.queue(Edit::Add(mapping));
    }

    fn remove(&self, key: Key) {
        self.map.queue(Edit::Remove(key));
    }

    fn truncate(&self, length: u64) -> Vec<Mapping> {
        self.map.synchronize().truncate(length)
    }

    fn mappings(&self) -> Vec<Mapping> {
        self.map.synchronize().iter().collect()
    }
}
