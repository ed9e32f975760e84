//! Keys in the order in which they were last touched: the state behind the log.

use crate::sync::despite_panics;
use alloc::vec::Vec;
use core::borrow::Borrow;
use hashbrown::HashTable;

/// Keys, the one touched last first; each operation takes the same time however many there are.
#[derive(Debug)]
pub(super) struct Order<K> {
    /// The keys' places are linked to a list; those without a key to another one, through `older`.
    nodes: Vec<Node<K>>,
    by_key: HashTable<u32>,
    newest: u32,
    oldest: u32,
    vacant: u32,
}

#[derive(Debug)]
struct Node<K> {
    key: Option<K>,
    hash: u32,
    newer: u32,
    older: u32,
}

/// No node.
const NONE: u32 = u32::MAX;

/// The hash that the table takes, of the one that operations carry: spread, as a user's can be the key itself.
fn wide(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl<K> Drop for Order<K> {
    fn drop(&mut self) {
        despite_panics(self.nodes.drain(..), drop);
    }
}

impl<K> Order<K> {
    /// Allocates nothing.
    pub(super) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            by_key: HashTable::new(),
            newest: NONE,
            oldest: NONE,
            vacant: NONE,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The keys, the one touched longest ago first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &K> {
        let mut at = self.oldest;
        core::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.newer;
            node.key.as_ref()
        })
    }

    /// Takes the key out that was touched longest ago.
    pub(super) fn pop_oldest(&mut self) -> Option<K> {
        let at = self.oldest;
        let hash = self.nodes.get(at as usize)?.hash;
        let found = self.by_key.find_entry(wide(hash), |other| *other == at);
        let Ok(entry) = found else {
            unreachable!("what is in the list is in the table");
        };
        entry.remove();
        self.vacate(at)
    }

    fn node(&mut self, at: u32) -> &mut Node<K> {
        &mut self.nodes[at as usize]
    }

    /// Takes a node out of the list.
    fn unlink(&mut self, at: u32) {
        let Node { newer, older, .. } = *self.node(at);
        match newer {
            NONE => self.newest = older,
            newer => self.node(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.node(older).newer = newer,
        }
    }

    /// Makes a node the newest.
    fn link(&mut self, at: u32) {
        let before = self.newest;
        let node = self.node(at);
        (node.newer, node.older) = (NONE, before);
        match before {
            NONE => self.oldest = at,
            before => self.node(before).newer = at,
        }
        self.newest = at;
    }

    /// Takes a node out of the list, and its key out of it.
    fn vacate(&mut self, at: u32) -> Option<K> {
        self.unlink(at);
        let vacant = self.vacant;
        self.vacant = at;
        let node = self.node(at);
        node.older = vacant;
        node.key.take()
    }

    /// A node with a key, in no list.
    fn occupy(&mut self, hash: u32, key: K) -> u32 {
        let node = Node {
            key: Some(key),
            hash,
            newer: NONE,
            older: NONE,
        };
        let at = self.vacant;
        if at != NONE {
            self.vacant = self.node(at).older;
            *self.node(at) = node;
            return at;
        }
        let Some(at) = u32::try_from(self.nodes.len())
            .ok()
            .filter(|at| *at != NONE)
        else {
            panic!("more than four thousand million keys");
        };
        self.nodes.push(node);
        at
    }
}

impl<K: Eq> Order<K> {
    fn find<Q: Eq + ?Sized>(&self, hash: u32, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        let found = self.by_key.find(wide(hash), |at| self.is(*at, hash, key));
        found.copied()
    }

    fn is<Q: Eq + ?Sized>(&self, at: u32, hash: u32, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let node = &self.nodes[at as usize];
        node.hash == hash && node.key.as_ref().is_some_and(|other| other.borrow() == key)
    }

    pub(super) fn contains<Q: Eq + ?Sized>(&self, hash: u32, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(hash, key).is_some()
    }

    /// Makes a key the newest, if it is here.
    pub(super) fn touch(&mut self, hash: u32, key: &K) -> bool {
        let Some(at) = self.find(hash, key) else {
            return false;
        };
        if at != self.newest {
            self.unlink(at);
            self.link(at);
        }
        true
    }

    /// Makes a key the newest, and puts it in if it is not here.
    pub(super) fn insert(&mut self, hash: u32, key: K) {
        if self.touch(hash, &key) {
            return;
        }
        let at = self.occupy(hash, key);
        let Self { nodes, by_key, .. } = self;
        by_key.insert_unique(wide(hash), at, |at| wide(nodes[*at as usize].hash));
        self.link(at);
    }

    /// Takes a key out.
    pub(super) fn remove(&mut self, hash: u32, key: &K) -> Option<K> {
        let at = self.find(hash, key)?;
        let found = self.by_key.find_entry(wide(hash), |other| *other == at);
        if let Ok(entry) = found {
            entry.remove();
        }
        self.vacate(at)
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Beside a vector that is searched; few hashes, so that keys collide.
        #[test]
        fn the_order_is_that_of_the_last_touches(steps in prop::collection::vec((0..5u8, 0..12u8), 0..200)) {
            let (mut order, mut model) = (Order::new(), Vec::new());
            for (step, key) in steps {
                let hash = u32::from(key % 3);
                let at = model.iter().position(|other| *other == key);
                prop_assert_eq!(order.contains(hash, &key), at.is_some());
                match step {
                    0 | 1 => {
                        at.map(|at| model.remove(at));
                        model.push(key);
                        order.insert(hash, key);
                    }
                    2 => {
                        if let Some(at) = at {
                            let key = model.remove(at);
                            model.push(key);
                        }
                        prop_assert_eq!(order.touch(hash, &key), at.is_some());
                    }
                    3 => prop_assert_eq!(order.remove(hash, &key), at.map(|at| model.remove(at))),
                    _ => {
                        let oldest = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(order.pop_oldest(), oldest);
                    }
                }
                prop_assert_eq!(order.len(), model.len());
                prop_assert!(order.iter().eq(&model));
            }
            prop_assert!(order.nodes.len() <= 12);
        }
    }
}
