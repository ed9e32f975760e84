//! The map behind a log for each core; every update is carried out, in order, by who asks next.

use super::{IntervalMap, ReverseMap};
use crate::subsystem::edits::{Edit, Plain};
use crate::subsystem::{Entry, Key};
use percolog::oplog::{LogStats, Logged, LoggedBuilder, Mode};

/// An [`IntervalMap`] behind [`Logged`], without absorption.
#[derive(Debug)]
pub struct LoggedMap {
    map: Logged<IntervalMap, Edit>,
}

impl Plain for IntervalMap {
    fn enter(&mut self, mapping: Entry) {
        self.add(mapping);
    }

    fn leave(&mut self, key: Key) {
        self.remove(key);
    }
}

impl Default for LoggedMap {
    fn default() -> LoggedMap {
        LoggedMap {
            // As the paper's, which logs always.
            map: LoggedBuilder::new()
                .mode(Mode::Deferring)
                .build(IntervalMap::new()),
        }
    }
}

impl ReverseMap for LoggedMap {
    type Addition = Entry;
    type Removal = Key;

    fn identity(mapping: Entry) -> (Entry, Key) {
        (mapping, mapping.key())
    }

    fn add(&self, mapping: Entry) {
        self.map.queue(Edit::Enter(mapping));
    }

    fn remove(&self, key: Key) {
        self.map.queue(Edit::Leave(key));
    }

    fn truncate(&self, length: u64) -> Vec<Entry> {
        self.map.synchronize().truncate(length)
    }

    fn at(&self, offset: u64) -> Vec<Entry> {
        self.map
            .synchronize()
            .overlapping(offset..offset.saturating_add(1))
    }

    fn statistics(&self) -> Option<LogStats> {
        Some(self.map.stats())
    }

    fn mappings(&self) -> Vec<Entry> {
        self.map.synchronize().iter().collect()
    }
}
