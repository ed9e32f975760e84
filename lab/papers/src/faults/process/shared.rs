//! The process that is not distributed: a list, and its lock.

use super::list::RegionList;
use super::take_down;
use crate::faults::error::{FaultError, MapError};
use crate::faults::lock;
use crate::faults::objects::{Placed, Process};
use percolog::clustered::ObjectSection;
use std::sync::Mutex;

/// See the [module](self).
#[derive(Default)]
pub(in crate::faults) struct SharedProcess {
    regions: Mutex<RegionList>,
}

impl Process for SharedProcess {
    fn fault(&self, section: &ObjectSection, page: u64) -> Result<(), FaultError> {
        let no_region = FaultError::NoRegion { page };
        let placed = lock(&self.regions).find(page).ok_or(no_region)?;
        // Without the lock: the region can be destroyed meanwhile, and then says so.
        let region = placed.region.get(section).map_err(|_| no_region)?;
        region.fault(section, page)
    }

    fn attach(&self, placed: Placed) -> Result<(), MapError> {
        lock(&self.regions).add(placed)
    }

    fn unmap(&self, section: &ObjectSection, first: u64) -> Result<(), MapError> {
        let region = lock(&self.regions).begin_removal(first)?;
        let taken = take_down(section, region);
        let mut regions = lock(&self.regions);
        match taken {
            Ok(()) => regions.end_removal(region),
            Err(_) => regions.take_back_removal(region),
        }
        taken
    }

    fn end(&self) -> Vec<u64> {
        lock(&self.regions).end()
    }
}
