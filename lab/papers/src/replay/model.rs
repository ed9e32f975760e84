//! The objects as a list of entries each, changed in the order of the trace: plainly right.

use crate::subsystem::{Entry, Subsystem};
use crate::trace::plan::Update;
use std::collections::BTreeMap;
use std::mem;

/// What all objects should hold.
#[derive(Debug)]
pub(super) struct Model {
    subsystem: Subsystem,
    /// For each object, its entries by identity.
    objects: Vec<BTreeMap<u32, Entry>>,
}

impl Model {
    pub(super) fn new(subsystem: Subsystem, objects: usize) -> Model {
        Model {
            subsystem,
            objects: vec![BTreeMap::new(); objects],
        }
    }

    /// Carries out one update. A read tells what it should see, in order of the entries' keys.
    pub(super) fn apply(&mut self, update: &Update) -> Option<Vec<Entry>> {
        match *update {
            Update::Enter { object, entry } => {
                self.objects[object as usize].insert(entry.identity, entry);
                None
            }
            Update::Leave { object, entry } => {
                self.objects[object as usize].remove(&entry.identity);
                None
            }
            Update::Read { object, argument } => Some(self.read(object as usize, argument)),
        }
    }

    fn read(&mut self, object: usize, argument: u64) -> Vec<Entry> {
        match self.subsystem {
            Subsystem::Files => {
                let length = argument;
                let mappings = &mut self.objects[object];
                let seen = mappings.values().filter(|mapping| mapping.end > length);
                let seen = ordered(seen.copied());
                mappings.retain(|_, mapping| mapping.offset < length);
                for mapping in mappings.values_mut() {
                    mapping.end = mapping.end.min(length);
                }
                seen
            }
            Subsystem::Memory => {
                let there = |mapping: &&Entry| mapping.offset <= argument && argument < mapping.end;
                ordered(self.objects[object].values().filter(there).copied())
            }
            Subsystem::Names | Subsystem::OpenFiles => self.entries(object),
            Subsystem::Events => ordered(mem::take(&mut self.objects[object]).into_values()),
        }
    }

    /// How many entries `object` should hold.
    pub(super) fn held(&self, object: usize) -> u64 {
        self.objects[object].len() as u64
    }

    /// What `object` should hold, in order of the entries' keys.
    pub(super) fn entries(&self, object: usize) -> Vec<Entry> {
        ordered(self.objects[object].values().copied())
    }
}

fn ordered(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = entries.collect();
    entries.sort_unstable();
    entries
}
