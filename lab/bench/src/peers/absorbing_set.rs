//! `Logged<BTreeSet<u64>>` with absorption: a later change of an id replaces an earlier one that is still queued on
//! the same core, so an id that opens and closes between two reads is executed once at most.

use std::collections::BTreeSet;

use percolog::oplog::{Absorb, Operation};

use crate::peers::logged_set::{Change, LoggedBy};
use percolog_validation::hash::mix;

/// A change to the set of open ids that replaces an earlier change of the same id.
#[derive(Clone, Copy, Debug)]
pub enum AbsorbingEdit {
    /// Adds the id.
    Open(u64),
    /// Removes the id.
    Close(u64),
}

impl AbsorbingEdit {
    fn id(self) -> u64 {
        match self {
            Self::Open(id) | Self::Close(id) => id,
        }
    }
}

impl Operation<BTreeSet<u64>> for AbsorbingEdit {
    const ABSORBS: bool = true;

    fn exec(self, open: &mut BTreeSet<u64>) {
        match self {
            Self::Open(id) => {
                open.insert(id);
            }
            Self::Close(id) => {
                open.remove(&id);
            }
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(mix(self.id()))
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.id() == earlier.id()
    }
}

impl Change for AbsorbingEdit {
    const NAME: &'static str = "Logged with absorption";

    fn open(id: u64) -> Self {
        Self::Open(id)
    }

    fn close(id: u64) -> Self {
        Self::Close(id)
    }
}

/// A logged set that absorbs.
pub type AbsorbingSet = LoggedBy<AbsorbingEdit>;
