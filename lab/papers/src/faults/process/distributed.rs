//! The process with a list of regions at the root, and what each slot has found there.
//!
//! *Invariant:* a slot's list has no region that the root's has not. Who looks a region up at the root keeps the slot's lock until it is in
//! the slot's list. Who removes one says so in the root's list first, and takes it out of the slots' lists then: either that comes after the
//! slot has kept it, or the slot does not find it any more. It leaves the root's list last; until then nothing else may lie
//! there, so no slot can know another region at its pages.
//!
//! Locks are taken in this order: the slot's, the root's.

use super::list::RegionList;
use super::take_down;
use crate::faults::error::{FaultError, MapError};
use crate::faults::objects::{Placed, Process};
use crate::faults::{Alone, lock};
use percolog::clustered::{ObjectSection, Place, Root, Siblings};
use std::sync::{Arc, Mutex};

/// The root.
#[derive(Default)]
pub(in crate::faults) struct DistributedProcess {
    regions: Arc<Alone<Mutex<RegionList>>>,
}

/// One slot's.
pub(in crate::faults) struct SlotProcess {
    found: Mutex<Vec<Placed>>,
    regions: Arc<Alone<Mutex<RegionList>>>,
    siblings: Siblings<Self>,
}

impl Root for DistributedProcess {
    type Interface = dyn Process;
    type Rep = SlotProcess;

    fn create(&self, place: &Place<'_, SlotProcess>) -> SlotProcess {
        SlotProcess {
            found: Mutex::default(),
            regions: self.regions.clone(),
            siblings: place.siblings(),
        }
    }

    fn interface(rep: &SlotProcess) -> &Self::Interface {
        rep
    }
}

impl SlotProcess {
    fn find(&self, page: u64) -> Option<Placed> {
        let mut found = lock(&self.found);
        let here = found.iter().find(|placed| placed.has(page)).copied();
        if here.is_some() {
            return here;
        }
        let placed = lock(&self.regions.0).find(page)?;
        found.push(placed);
        Some(placed)
    }
}

impl Process for SlotProcess {
    fn fault(&self, section: &ObjectSection, page: u64) -> Result<(), FaultError> {
        let no_region = FaultError::NoRegion { page };
        let placed = self.find(page).ok_or(no_region)?;
        let region = placed.region.get(section).map_err(|_| no_region)?;
        region.fault(section, page)
    }

    fn attach(&self, placed: Placed) -> Result<(), MapError> {
        lock(&self.regions.0).add(placed)
    }

    fn unmap(&self, section: &ObjectSection, first: u64) -> Result<(), MapError> {
        let region = lock(&self.regions.0).begin_removal(first)?;
        self.siblings.visit(|all| {
            for (_, slot) in all.iter() {
                lock(&slot.found).retain(|placed| placed.region != region);
            }
        });
        let taken = take_down(section, region);
        let mut regions = lock(&self.regions.0);
        match taken {
            Ok(()) => regions.end_removal(region),
            Err(_) => regions.take_back_removal(region),
        }
        taken
    }

    fn end(&self) -> Vec<u64> {
        lock(&self.regions.0).end()
    }
}
