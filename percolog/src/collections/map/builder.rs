//! How a structure is made.

use crate::hash::DefaultHashBuilder;
use core::hash::BuildHasher;

use super::hash_map::Map;
use super::ordered_list::OrderedList;
use crate::reclaim::Domain;
use crate::slab;

/// A builder of a [`Map`] or an [`OrderedList`].
///
/// ```
/// use percolog::collections::map::{AddReason, MapBuilder};
/// use percolog::collections::OrderedList;
/// use percolog::reclaim::Domain;
///
/// static DOMAIN: Domain = Domain::new();
/// static FEW: OrderedList<'static, u32, [u64; 100]> = MapBuilder::new().limit(100_000).list(&DOMAIN);
///
/// let refused = (0..).find_map(|key| FEW.add(key, [0; 100]).err()).expect("there is a limit");
/// assert_eq!(refused.reason, AddReason::Exhausted { limit: Some(100_000) });
/// assert!((50..125).contains(&refused.key), "handed back");
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is made yet"]
pub struct MapBuilder {
    memory: slab::SlabBuilder,
    capacity: usize,
}

impl MapBuilder {
    /// No limit; a map has few buckets at first.
    pub const fn new() -> Self {
        Self {
            memory: slab::SlabBuilder::new(),
            capacity: 0,
        }
    }

    /// No more than so many bytes are taken for entries. They are taken in [chunks](slab::Slab::CHUNK_BYTES) of 16 KiB or more, at
    /// least one for each thread that adds; and entries that were deleted count until sections have ended.
    pub const fn limit(self, bytes: usize) -> Self {
        Self {
            memory: self.memory.limit(bytes),
            ..self
        }
    }

    /// A map has buckets for so many entries from the beginning. They are made when they are first needed. (A list has none.)
    pub const fn capacity(self, entries: usize) -> Self {
        Self {
            capacity: entries,
            ..self
        }
    }

    /// A list whose entries are read in sections of this domain. Allocates nothing before it is used.
    #[must_use]
    pub const fn list<K, V>(self, domain: &Domain) -> OrderedList<'_, K, V>
    where
        K: Ord + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        OrderedList::with(domain, self.memory)
    }

    /// A map whose entries are read in sections of this domain. Allocates nothing before it is used.
    #[must_use]
    pub fn map<K, V>(self, domain: &Domain) -> Map<'_, K, V>
    where
        K: core::hash::Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        self.map_with_hasher(domain, DefaultHashBuilder::new())
    }

    /// The same, with a way to hash of the user's own: also in a static.
    #[must_use]
    pub const fn map_with_hasher<K, V, S>(self, domain: &Domain, hasher: S) -> Map<'_, K, V, S>
    where
        K: core::hash::Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static,
        S: BuildHasher,
    {
        Map::with(domain, self.memory, self.capacity, hasher)
    }
}

impl Default for MapBuilder {
    fn default() -> Self {
        Self::new()
    }
}
