//! The reverse maps as a list each, changed in the order of the trace: plainly right.

use super::plan::Update;
use crate::rmap::Mapping;
use std::collections::BTreeMap;

/// What all reverse maps should hold.
#[derive(Debug)]
pub(super) struct Model {
    /// For each file, its mappings by identity.
    files: Vec<BTreeMap<u32, Mapping>>,
}

impl Model {
    pub(super) fn new(files: usize) -> Model {
        Model {
            files: vec![BTreeMap::new(); files],
        }
    }

    /// Carries out one update. A truncate tells what it should see.
    pub(super) fn apply(&mut self, update: &Update) -> Vec<Mapping> {
        match *update {
            Update::Add { file, mapping } => {
                self.files[file as usize].insert(mapping.identity, mapping);
                Vec::new()
            }
            Update::Remove { file, mapping } => {
                self.files[file as usize].remove(&mapping.identity);
                Vec::new()
            }
            Update::Truncate { file, length } => {
                let mappings = &mut self.files[file as usize];
                let mut seen: Vec<Mapping> = mappings
                    .values()
                    .copied()
                    .filter(|mapping| mapping.end > length)
                    .collect();
                seen.sort_unstable();
                mappings.retain(|_, mapping| mapping.offset < length);
                for mapping in mappings.values_mut() {
                    mapping.end = mapping.end.min(length);
                }
                seen
            }
        }
    }

    /// What the reverse map of `file` should hold, in order.
    pub(super) fn mappings(&self, file: usize) -> Vec<Mapping> {
        let mut mappings: Vec<Mapping> = self.files[file].values().copied().collect();
        mappings.sort_unstable();
        mappings
    }
}
