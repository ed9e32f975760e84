//! The list of regions, whoever guards it.

use crate::faults::error::MapError;
use crate::faults::objects::{Placed, Region};
use percolog::clustered::ObjectRef;

/// Regions, in the order in which they came. Searched from the front, as in K42.
#[derive(Default)]
pub(super) struct RegionList {
    entries: Vec<Entry>,
    ended: bool,
}

struct Entry {
    placed: Placed,
    /// Being unmapped: not found any more, but nothing else may lie there before no slot knows it.
    leaving: bool,
}

impl Placed {
    /// Whether it has the page.
    pub(super) fn has(&self, page: u64) -> bool {
        page.wrapping_sub(self.first) < self.pages
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.has(other.first) || other.has(self.first)
    }
}

impl RegionList {
    pub(super) fn find(&self, page: u64) -> Option<Placed> {
        self.entries
            .iter()
            .find(|entry| entry.placed.has(page) && !entry.leaving)
            .map(|entry| entry.placed)
    }

    pub(super) fn add(&mut self, placed: Placed) -> Result<(), MapError> {
        if self.ended {
            return Err(MapError::Exited);
        }
        let overlaps = |entry: &&Entry| entry.placed.overlaps(&placed);
        if let Some(entry) = self.entries.iter().find(overlaps) {
            return Err(MapError::Overlap {
                first: entry.placed.first,
            });
        }
        self.entries.push(Entry {
            placed,
            leaving: false,
        });
        Ok(())
    }

    /// From now on the region is not found; the caller takes it down.
    pub(super) fn begin_removal(&mut self, first: u64) -> Result<ObjectRef<dyn Region>, MapError> {
        let begins = |entry: &&mut Entry| entry.placed.first == first && !entry.leaving;
        let found = self.entries.iter_mut().find(begins);
        let entry = found.ok_or(MapError::NoRegion { first })?;
        entry.leaving = true;
        Ok(entry.placed.region)
    }

    /// What the caller has begun to remove is gone.
    pub(super) fn end_removal(&mut self, region: ObjectRef<dyn Region>) {
        self.entries.retain(|entry| entry.placed.region != region);
    }

    /// What the caller has begun to remove stays.
    pub(super) fn take_back_removal(&mut self, region: ObjectRef<dyn Region>) {
        for entry in &mut self.entries {
            entry.leaving &= entry.placed.region != region;
        }
    }

    /// Nothing is added any more; where the regions begin.
    pub(super) fn end(&mut self) -> Vec<u64> {
        self.ended = true;
        self.entries
            .iter()
            .map(|entry| entry.placed.first)
            .collect()
    }
}
