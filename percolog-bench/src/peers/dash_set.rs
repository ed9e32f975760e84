//! `dashmap::DashSet`: a hash set in shards, each behind a lock of its own. It answers every insert and remove, at no
//! extra cost.

use std::collections::BTreeSet;

use dashmap::DashSet;

use crate::hash::BuildIdHasher;
use crate::sets::SetPeer;

/// dashmap's set with the hash function that percolog's absorption uses as well.
#[derive(Debug)]
pub struct Dash(DashSet<u64, BuildIdHasher>);

impl SetPeer for Dash {
    const NAME: &'static str = "DashSet";

    fn with(initial: BTreeSet<u64>) -> Self {
        Self(initial.into_iter().collect())
    }

    #[inline]
    fn open(&self, id: u64) {
        self.0.insert(id);
    }

    #[inline]
    fn close(&self, id: u64) {
        self.0.remove(&id);
    }

    #[inline]
    fn open_and_tell(&self, id: u64) -> bool {
        self.0.insert(id)
    }

    #[inline]
    fn close_and_tell(&self, id: u64) -> bool {
        self.0.remove(&id).is_some()
    }

    fn contains(&self, id: u64) -> bool {
        self.0.contains(&id)
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn settle(&self) {}

    fn contents(&self) -> BTreeSet<u64> {
        self.0.iter().map(|id| *id).collect()
    }
}
