//! `Logged<BTreeSet<u64>>` without absorption: each update is queued on its core and executed at the next read or at
//! the limit.

use std::collections::BTreeSet;

use percolog::oplog::{Logged, Operation};

use crate::sets::SetPeer;

/// A change to the set of open ids.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// Adds the id.
    Open(u64),
    /// Removes the id.
    Close(u64),
}

impl Operation<BTreeSet<u64>> for Edit {
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
}

/// A logged set with the default limit and policy.
#[derive(Debug)]
pub struct LoggedSet(Logged<BTreeSet<u64>, Edit>);

impl SetPeer for LoggedSet {
    const NAME: &'static str = "Logged";

    fn with(initial: BTreeSet<u64>) -> Self {
        Self(Logged::new(initial))
    }

    #[inline]
    fn open(&self, id: u64) {
        self.0.queue(Edit::Open(id));
    }

    #[inline]
    fn close(&self, id: u64) {
        self.0.queue(Edit::Close(id));
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
