//! `Logged<BTreeSet<u64>>` with absorption: a later change of an id replaces an earlier one that is still queued on
//! the same core, so an id that opens and closes between two reads is executed once at most.

use std::collections::BTreeSet;

use percolog::oplog::{Absorb, Logged, Operation};

use crate::hash::mix;
use crate::sets::SetPeer;

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

/// A logged set that absorbs, with the default limit and policy.
#[derive(Debug)]
pub struct AbsorbingSet(Logged<BTreeSet<u64>, AbsorbingEdit>);

impl SetPeer for AbsorbingSet {
    const NAME: &'static str = "Logged with absorption";

    fn with(initial: BTreeSet<u64>) -> Self {
        Self(Logged::new(initial))
    }

    #[inline]
    fn open(&self, id: u64) {
        self.0.queue(AbsorbingEdit::Open(id));
    }

    #[inline]
    fn close(&self, id: u64) {
        self.0.queue(AbsorbingEdit::Close(id));
    }

    #[inline]
    fn open_and_tell(&self, id: u64) -> bool {
        self.0.with(|open| open.insert(id))
    }

    #[inline]
    fn close_and_tell(&self, id: u64) -> bool {
        self.0.with(|open| open.remove(&id))
    }

    fn contains(&self, id: u64) -> bool {
        self.0.synchronize().contains(&id)
    }

    fn count(&self) -> usize {
        self.0.synchronize().len()
    }

    fn settle(&self) {
        drop(self.0.synchronize());
    }

    fn contents(&self) -> BTreeSet<u64> {
        self.0.synchronize().clone()
    }
}
