//! Processes: lists of regions.
//!
//! | | [shared](SharedProcess) | [distributed](DistributedProcess) |
//! |---|---|---|
//! | a fault | searches the list, under its lock | searches what the slot has found before, under a lock of the slot's |
//! | the first fault of a slot in a region | | ... then the root's list, under its lock, and keeps what it finds |
//! | unmapping | one list | each slot's list is visited |

mod distributed;
mod list;
mod shared;

pub(super) use distributed::DistributedProcess;
pub(super) use shared::SharedProcess;

use super::error::MapError;
use super::objects::Region;
use percolog::clustered::{ObjectRef, ObjectSection};

/// Takes all pages of a region away, and destroys it. Who is on the way into it is told so.
fn take_down(section: &ObjectSection, region: ObjectRef<dyn Region>) -> Result<(), MapError> {
    if let Ok(found) = region.get(section) {
        found.unmap(section)?;
    }
    // Whoever unmaps it has the only right to.
    let _ = region.destroy();
    Ok(())
}
