//! Caches whose gets are parallel sections: percolog's, and a table that keeps whatever it is given.

use std::hash::{Hash, Hasher};

use percolog::collections;
use percolog::lock::NodeLock;
use percolog::reclaim::{Domain, Link, Section};
use percolog::slab::{InSlab, Slab};

use super::{Cache, Key, Value};
use crate::hash::{BuildIdHasher, mix};

static DOMAIN: Domain = Domain::new();

/// A key as it is hashed: as in the other caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed(pub Key);

impl Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(hash(&self.0));
    }
}

fn hash(key: &Key) -> u64 {
    mix(mix(key[0]) ^ key[1])
}

/// `percolog::collections::Cache`.
pub(super) struct Percolog(collections::Cache<'static, Hashed, Value, BuildIdHasher>);

impl Percolog {
    /// With room for so many keys, and for some more, since hashes do not spread them evenly over the lists.
    pub(super) fn new(keys: u64) -> Self {
        type Items = collections::Cache<'static, Hashed, Value>;
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let bytes = (keys + keys / 2 + 1).saturating_mul(Items::ITEM_BYTES);
        let cache = Items::builder(bytes)
            .hasher(BuildIdHasher::default())
            .build(&DOMAIN);
        Self(cache.expect("there is memory for so many keys"))
    }
}

impl Cache for Percolog {
    fn get(&self, _thread: usize, key: &Key) -> Option<Value> {
        self.0.observe(&Hashed(*key), |value| *value)
    }

    fn set(&self, _thread: usize, key: Key, value: Value) -> bool {
        self.0.set(Hashed(key), value).is_ok()
    }
}

/// An item of an [`Endless`] table.
#[derive(Debug)]
struct Item {
    key: Key,
    value: Value,
    next: Link<Item, InSlab>,
}

#[derive(Default)]
struct Bucket {
    lock: NodeLock,
    first: Link<Item, InSlab>,
}

/// A table of chains with a lock for each, that takes nothing out and counts nothing: for gets, what a cache could be at best. Its sets wait for
/// their chain's lock one after the other, where percolog's cache lets those of one key overtake each other.
pub(super) struct Endless {
    buckets: Box<[Bucket]>,
    slab: Slab<'static, Item>,
}

impl Endless {
    /// With as many buckets as the other caches.
    pub(super) fn new(keys: u64) -> Self {
        let keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let buckets = (keys + keys / 8 + 1).next_power_of_two();
        Self {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            slab: Slab::new(&DOMAIN),
        }
    }

    fn bucket(&self, key: &Key) -> &Bucket {
        &self.buckets[hash(key) as usize & (self.buckets.len() - 1)]
    }
}

impl Bucket {
    /// What leads to the key's item, or the end of the chain.
    fn find<'s>(&'s self, key: &Key, section: &'s Section<'_>) -> &'s Link<Item, InSlab> {
        let mut link = &self.first;
        while let Some(item) = link.load(section).filter(|item| item.key != *key) {
            link = &item.get().next;
        }
        link
    }
}

impl Cache for Endless {
    fn get(&self, _thread: usize, key: &Key) -> Option<Value> {
        let section = DOMAIN.enter();
        // Not by `find`: what its link leads to can be another item by the time that it is loaded again.
        let mut at = self.bucket(key).first.load(&section);
        while let Some(item) = at {
            if item.key == *key {
                return Some(item.value);
            }
            at = item.get().next.load(&section);
        }
        None
    }

    fn set(&self, _thread: usize, key: Key, value: Value) -> bool {
        let next = Link::null();
        let Ok(item) = self.slab.insert(Item { key, value, next }) else {
            return false;
        };
        let section = DOMAIN.enter();
        let bucket = self.bucket(&key);
        let Ok(guard) = bucket.lock.lock() else {
            return false;
        };
        let link = bucket.find(&key, &section);
        if let Some(old) = link.load(&section) {
            let behind = old.get().next.load(&section);
            // SAFETY: for a moment two links lead to what is behind. One is that of the old item, which is taken out below, under the
            // lock without which nobody changes links.
            unsafe { item.next.relink(None, behind, &section) }.expect("nobody else has it");
        }
        let old = link.swap(Some(item));
        drop(guard);
        // Left before anything is retired, which could not be destroyed otherwise.
        drop(section);
        if let Some(old) = old {
            // SAFETY: the only link that led to it does so no longer, and is followed in sections of this domain.
            unsafe { DOMAIN.retire(old) };
        }
        true
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        for bucket in &mut self.buckets {
            let mut at = bucket.first.take();
            while let Some(mut item) = at {
                at = item.next.take();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::follows_a_map;
    use super::*;

    #[test]
    fn each_follows_a_map() {
        follows_a_map(&Percolog::new(64));
        follows_a_map(&Endless::new(64));
        // All in two chains.
        follows_a_map(&Endless::new(0));
    }
}
