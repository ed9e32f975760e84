//! `percolog::collections::Set`, ordered and hashed, with the default limit and policy: a later change of an id replaces an earlier
//! one that is still queued on the same core. The hashed one hashes as `dashmap` does here.

use std::collections::{BTreeSet, HashSet};

use percolog::collections::Set;
use percolog::collections::SetState;

use crate::interfaces::SetPeer;
use percolog_validation::hash::BuildIdHasher;

/// A plain set of ids, and what tables call the [`Set`] that it is in.
pub trait Ids: SetState<u64> + Send + Sync + Sized {
    /// What the set is called in tables.
    const NAME: &'static str;

    /// A set that holds `initial`.
    fn with(initial: BTreeSet<u64>) -> Self;

    /// A copy of the set, in order.
    fn in_order(&self) -> BTreeSet<u64>;
}

impl Ids for BTreeSet<u64> {
    const NAME: &'static str = "Set, ordered";

    fn with(initial: Self) -> Self {
        initial
    }

    fn in_order(&self) -> Self {
        self.clone()
    }
}

impl Ids for HashSet<u64, BuildIdHasher> {
    const NAME: &'static str = "Set, hashed";

    fn with(initial: BTreeSet<u64>) -> Self {
        initial.into_iter().collect()
    }

    fn in_order(&self) -> BTreeSet<u64> {
        self.iter().copied().collect()
    }
}

/// A set of the shelf.
#[derive(Debug)]
pub struct ShelfSet<S: Ids>(Set<u64, S>);

/// One whose ids are kept in order.
pub type OrderedSet = ShelfSet<BTreeSet<u64>>;

/// One whose ids are hashed.
pub type HashedSet = ShelfSet<HashSet<u64, BuildIdHasher>>;

impl<S: Ids> SetPeer for ShelfSet<S> {
    const NAME: &'static str = S::NAME;

    fn with(initial: BTreeSet<u64>) -> Self {
        Self(Set::new(S::with(initial)))
    }

    #[inline]
    fn open(&self, id: u64) {
        self.0.insert(id);
    }

    #[inline]
    fn close(&self, id: u64) {
        self.0.remove(id);
    }

    #[inline]
    fn open_and_tell(&self, id: u64) -> bool {
        self.0.insert_now(id)
    }

    #[inline]
    fn close_and_tell(&self, id: u64) -> bool {
        self.0.remove_now(&id)
    }

    fn contains(&self, id: u64) -> bool {
        self.0.contains(&id)
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn settle(&self) {
        drop(self.0.read());
    }

    fn contents(&self) -> BTreeSet<u64> {
        self.0.read().in_order()
    }
}
