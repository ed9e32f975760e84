//! `dashmap::DashSet`, which is a `DashMap` to `()`: a hash set in shards, each behind a lock of its own. It answers every insert and remove, at no
//! extra cost.

use std::collections::BTreeSet;

use dashmap::DashMap;

use crate::host;
use crate::interfaces::SetPeer;
use percolog_validation::hash::BuildIdHasher;

/// dashmap's set with the hash function that percolog's absorption uses as well.
#[derive(Debug)]
pub struct Dash(DashMap<u64, (), BuildIdHasher>);

impl SetPeer for Dash {
    const NAME: &'static str = "DashSet";

    fn with(initial: BTreeSet<u64>) -> Self {
        // The set itself cannot be told how many shards it is to have; the map that it is made of can.
        let map = DashMap::with_hasher_and_shard_amount(BuildIdHasher::default(), host::shards());
        for id in initial {
            map.insert(id, ());
        }
        Self(map)
    }

    #[inline]
    fn open(&self, id: u64) {
        self.0.insert(id, ());
    }

    #[inline]
    fn close(&self, id: u64) {
        self.0.remove(&id);
    }

    #[inline]
    fn open_and_tell(&self, id: u64) -> bool {
        self.0.insert(id, ()).is_none()
    }

    #[inline]
    fn close_and_tell(&self, id: u64) -> bool {
        self.0.remove(&id).is_some()
    }

    fn contains(&self, id: u64) -> bool {
        self.0.contains_key(&id)
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn settle(&self) {}

    fn contents(&self) -> BTreeSet<u64> {
        self.0.iter().map(|entry| *entry.key()).collect()
    }
}
