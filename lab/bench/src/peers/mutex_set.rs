//! `Mutex<BTreeSet<u64>>`: what most programs have today when they need an ordered set.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::interfaces::SetPeer;

/// A set behind one lock.
#[derive(Debug)]
pub struct MutexSet(Mutex<BTreeSet<u64>>);

impl MutexSet {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // No operation of this file can leave the set half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SetPeer for MutexSet {
    const NAME: &'static str = "Mutex<BTreeSet>";

    fn with(initial: BTreeSet<u64>) -> Self {
        Self(Mutex::new(initial))
    }

    #[inline]
    fn open(&self, id: u64) {
        self.lock().insert(id);
    }

    #[inline]
    fn close(&self, id: u64) {
        self.lock().remove(&id);
    }

    #[inline]
    fn open_and_tell(&self, id: u64) -> bool {
        self.lock().insert(id)
    }

    #[inline]
    fn close_and_tell(&self, id: u64) -> bool {
        self.lock().remove(&id)
    }

    fn contains(&self, id: u64) -> bool {
        self.lock().contains(&id)
    }

    fn count(&self) -> usize {
        self.lock().len()
    }

    fn settle(&self) {}

    fn contents(&self) -> BTreeSet<u64> {
        self.lock().clone()
    }
}
