//! `Logged<BTreeSet<u64>>` without absorption: each update is queued on its core and executed at the next read or at
//! the limit.

use std::collections::BTreeSet;

use percolog::oplog::{Logged, Operation};

use crate::interfaces::SetPeer;

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

/// How a logged set writes its changes down.
pub trait Change: Operation<BTreeSet<u64>> {
    /// What the set is called in tables.
    const NAME: &'static str;

    /// Adds the id.
    fn open(id: u64) -> Self;

    /// Removes the id.
    fn close(id: u64) -> Self;
}

impl Change for Edit {
    const NAME: &'static str = "Logged";

    fn open(id: u64) -> Self {
        Self::Open(id)
    }

    fn close(id: u64) -> Self {
        Self::Close(id)
    }
}

/// A logged set with the default limit and policy.
#[derive(Debug)]
pub struct LoggedBy<C: Change>(Logged<BTreeSet<u64>, C>);

/// A logged set that does not absorb.
pub type LoggedSet = LoggedBy<Edit>;

impl<C: Change> SetPeer for LoggedBy<C> {
    const NAME: &'static str = C::NAME;

    fn with(initial: BTreeSet<u64>) -> Self {
        Self(Logged::new(initial))
    }

    #[inline]
    fn open(&self, id: u64) {
        self.0.queue(C::open(id));
    }

    #[inline]
    fn close(&self, id: u64) {
        self.0.queue(C::close(id));
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
