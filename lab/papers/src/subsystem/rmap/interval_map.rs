//! Intervals of a file, found by what they overlap.
//!
//! A treap: a search tree by offset (and identity, which tells equal offsets apart) that is a heap by
//! priority, and so is balanced with the probability with which the priorities are random. Each node knows
//! the highest end below it, so a search passes over whole branches that end too soon.
//!
//! Nodes live in one `Vec` and name each other by index; freed ones are linked and used again. In steady
//! state nothing is allocated.

use crate::subsystem::{Entry, Key};
use std::fmt;
use std::ops::Range;

/// The mappings of one file, by interval.
///
/// Adding, removing: expected logarithmic time. [`truncate`](IntervalMap::truncate) and
/// [`overlapping`](IntervalMap::overlapping): logarithmic for each mapping found.
#[derive(Clone)]
pub struct IntervalMap {
    nodes: Vec<Node>,
    root: u32,
    /// The first node that is free; the next one is its `left`.
    free: u32,
    length: usize,
}

#[derive(Clone)]
struct Node {
    mapping: Entry,
    /// The highest `mapping.end` in this node's subtree.
    highest_end: u64,
    priority: u32,
    left: u32,
    right: u32,
}

/// No node.
const NONE: u32 = u32::MAX;

impl Default for IntervalMap {
    fn default() -> IntervalMap {
        IntervalMap::new()
    }
}

impl IntervalMap {
    /// A map without mappings; allocates nothing.
    #[must_use]
    pub const fn new() -> IntervalMap {
        IntervalMap {
            nodes: Vec::new(),
            root: NONE,
            free: NONE,
            length: 0,
        }
    }

    /// How many mappings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a mapping. `false`, and nothing is changed, when it is empty or its key is there already.
    pub fn add(&mut self, mapping: Entry) -> bool {
        if mapping.offset >= mapping.end || self.get(mapping.key()).is_some() {
            return false;
        }
        let new = self.allocate(mapping);
        let (left, right) = self.split(self.root, mapping.key());
        let left = self.join(left, new);
        self.root = self.join(left, right);
        self.length += 1;
        true
    }

    /// Removes a mapping and tells what it was.
    pub fn remove(&mut self, key: Key) -> Option<Entry> {
        let removed = self.get(key)?;
        self.root = self.remove_below(self.root, key);
        self.length -= 1;
        Some(removed)
    }

    /// The mapping under `key`.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Entry> {
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            match key.cmp(&node.mapping.key()) {
                std::cmp::Ordering::Less => at = node.left,
                std::cmp::Ordering::Greater => at = node.right,
                std::cmp::Ordering::Equal => return Some(node.mapping),
            }
        }
        None
    }

    /// The mappings that have a byte in `range`, in order.
    #[must_use]
    pub fn overlapping(&self, range: Range<u64>) -> Vec<Entry> {
        let mut found = Vec::new();
        if range.start < range.end {
            self.collect(self.root, &range, &mut found);
        }
        found
    }

    /// Cuts every mapping beyond `length`, removes those that begin there, and tells which they were, as
    /// they were, in order.
    pub fn truncate(&mut self, length: u64) -> Vec<Entry> {
        let cut = self.overlapping(length..u64::MAX);
        for mapping in &cut {
            self.remove(mapping.key());
            // Refused when nothing is left.
            self.add(Entry {
                end: length,
                ..*mapping
            });
        }
        cut
    }

    /// All mappings, in order of offset and identity.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        let mut path = Vec::new();
        let mut at = self.root;
        std::iter::from_fn(move || {
            while let Some(node) = self.node(at) {
                path.push(node);
                at = node.left;
            }
            let node: &Node = path.pop()?;
            at = node.right;
            Some(node.mapping)
        })
    }

    fn node(&self, at: u32) -> Option<&Node> {
        // NONE is beyond every node: there are at most u32::MAX of them.
        self.nodes.get(at as usize)
    }

    fn collect(&self, at: u32, range: &Range<u64>, found: &mut Vec<Entry>) {
        let Some(node) = self.node(at) else { return };
        if node.highest_end <= range.start {
            return;
        }
        self.collect(node.left, range, found);
        if node.mapping.offset < range.end {
            if node.mapping.end > range.start {
                found.push(node.mapping);
            }
            self.collect(node.right, range, found);
        }
    }

    fn allocate(&mut self, mapping: Entry) -> u32 {
        let node = Node {
            mapping,
            highest_end: mapping.end,
            priority: scatter(mapping.identity),
            left: NONE,
            right: NONE,
        };
        let at = self.free;
        if let Some(place) = self.nodes.get_mut(at as usize) {
            self.free = place.left;
            *place = node;
            return at;
        }
        let at = u32::try_from(self.nodes.len())
            .ok()
            .filter(|&at| at != NONE)
            .expect("identities are 32-bit numbers, so there are no more mappings than that");
        self.nodes.push(node);
        at
    }

    /// Computes `highest_end` anew after the children have changed.
    fn refresh(&mut self, at: u32) {
        let end = |child: u32| self.node(child).map_or(0, |child| child.highest_end);
        let node = &self.nodes[at as usize];
        let highest = node.mapping.end.max(end(node.left)).max(end(node.right));
        self.nodes[at as usize].highest_end = highest;
    }

    /// Parts a subtree into what comes before `key` and what comes from it on.
    fn split(&mut self, at: u32, key: Key) -> (u32, u32) {
        let Some(node) = self.node(at) else {
            return (NONE, NONE);
        };
        let (left, right) = (node.left, node.right);
        if node.mapping.key() < key {
            let (before, after) = self.split(right, key);
            self.nodes[at as usize].right = before;
            self.refresh(at);
            (at, after)
        } else {
            let (before, after) = self.split(left, key);
            self.nodes[at as usize].left = after;
            self.refresh(at);
            (before, at)
        }
    }

    /// Joins two subtrees, of which the first comes before the second.
    fn join(&mut self, left: u32, right: u32) -> u32 {
        let (Some(first), Some(second)) = (self.node(left), self.node(right)) else {
            return if left == NONE { right } else { left };
        };
        if first.priority >= second.priority {
            let inner = first.right;
            self.nodes[left as usize].right = self.join(inner, right);
            self.refresh(left);
            left
        } else {
            let inner = second.left;
            self.nodes[right as usize].left = self.join(left, inner);
            self.refresh(right);
            right
        }
    }

    /// Removes the node under `key`, which is below `at`; the answer takes the place of `at`.
    fn remove_below(&mut self, at: u32, key: Key) -> u32 {
        let Some(node) = self.node(at) else {
            return NONE;
        };
        let (left, right) = (node.left, node.right);
        match key.cmp(&node.mapping.key()) {
            std::cmp::Ordering::Equal => {
                self.nodes[at as usize].left = self.free;
                self.free = at;
                return self.join(left, right);
            }
            std::cmp::Ordering::Less => self.nodes[at as usize].left = self.remove_below(left, key),
            std::cmp::Ordering::Greater => {
                self.nodes[at as usize].right = self.remove_below(right, key);
            }
        }
        self.refresh(at);
        at
    }
}

impl fmt::Debug for IntervalMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A priority that has nothing to do with the order of identities (the finishing steps of MurmurHash3).
fn scatter(identity: u32) -> u32 {
    let mut bits = identity;
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    bits ^ (bits >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every promise of the structure: order, heap, ends, and that no node is lost.
    fn check_structure(map: &IntervalMap) {
        fn below(map: &IntervalMap, at: u32) -> (usize, u64) {
            let Some(node) = map.node(at) else {
                return (0, 0);
            };
            for child in [node.left, node.right] {
                assert!(
                    map.node(child)
                        .is_none_or(|child| child.priority <= node.priority)
                );
            }
            let (left, right) = (below(map, node.left), below(map, node.right));
            let highest = node.mapping.end.max(left.1).max(right.1);
            assert_eq!(node.highest_end, highest);
            (1 + left.0 + right.0, highest)
        }
        assert_eq!(below(map, map.root).0, map.len());
        assert!(map.iter().is_sorted_by(|a, b| a.key() < b.key()));
        let mut free = 0;
        let mut at = map.free;
        while let Some(node) = map.node(at) {
            free += 1;
            at = node.left;
        }
        assert_eq!(map.len() + free, map.nodes.len());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u64, u64),
        Remove(usize),
        Truncate(u64),
        Look(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..40_u64, 0..20_u64).prop_map(|(offset, length)| Step::Add(offset, length)),
            4 => any::<usize>().prop_map(Step::Remove),
            1 => (0..60_u64).prop_map(Step::Truncate),
            2 => (0..60_u64, 0..30_u64).prop_map(|(start, length)| Step::Look(start, length)),
        ]
    }

    proptest! {
        /// Against a plain list that is searched from end to end.
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec(step(), 1..200)) {
            let mut map = IntervalMap::new();
            let mut list: Vec<Entry> = Vec::new();
            let mut identities = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Add(offset, length) => {
                        let identity = number as u32;
                        let mapping = Entry { offset, end: offset + length, process: identity % 5, identity };
                        prop_assert_eq!(map.add(mapping), length > 0);
                        if length > 0 {
                            list.push(mapping);
                            identities.push(mapping.key());
                            prop_assert!(!map.add(mapping), "added twice");
                        }
                    }
                    Step::Remove(choice) => {
                        // Also ones that have gone already.
                        let Some(&key) = identities.get(choice % identities.len().max(1)) else { continue };
                        let expected = list.iter().position(|mapping| mapping.key() == key).map(|at| list.swap_remove(at));
                        prop_assert_eq!(map.remove(key), expected);
                    }
                    Step::Truncate(length) => {
                        let mut expected: Vec<Entry> = list.iter().copied().filter(|m| m.end > length).collect();
                        expected.sort_unstable();
                        list.retain(|mapping| mapping.offset < length);
                        for mapping in &mut list {
                            mapping.end = mapping.end.min(length);
                        }
                        prop_assert_eq!(map.truncate(length), expected);
                    }
                    Step::Look(start, length) => {
                        let range = start..start + length;
                        let mut expected: Vec<Entry> = list.iter().copied()
                            .filter(|m| range.clone().any(|byte| (m.offset..m.end).contains(&byte))).collect();
                        expected.sort_unstable();
                        prop_assert_eq!(map.overlapping(range), expected);
                    }
                }
                check_structure(&map);
                list.sort_unstable();
                prop_assert_eq!(&map.iter().collect::<Vec<_>>(), &list);
                prop_assert_eq!(map.is_empty(), list.is_empty());
            }
        }
    }

    #[test]
    fn stays_shallow_when_everything_begins_at_one_offset() {
        fn depth(map: &IntervalMap, at: u32) -> usize {
            map.node(at).map_or(0, |node| {
                1 + depth(map, node.left).max(depth(map, node.right))
            })
        }
        let mut map = IntervalMap::new();
        for identity in 0..10_000 {
            assert!(map.add(Entry {
                offset: 0,
                end: 4096,
                process: 1,
                identity
            }));
        }
        // Four times what a perfectly balanced tree needs: far from a list, far from bad luck.
        assert!(
            depth(&map, map.root) < 56,
            "depth {}",
            depth(&map, map.root)
        );
    }

    #[test]
    fn nodes_are_used_again() {
        let mut map = IntervalMap::new();
        for identity in 0..1000 {
            let mapping = Entry {
                offset: u64::from(identity % 7),
                end: 10,
                process: 0,
                identity,
            };
            assert!(map.add(mapping));
            assert_eq!(map.remove(mapping.key()), Some(mapping));
        }
        assert_eq!(map.nodes.len(), 1);
    }

    #[test]
    fn the_very_end_of_a_file_can_be_mapped() {
        let mut map = IntervalMap::new();
        let mapping = Entry {
            offset: u64::MAX - 1,
            end: u64::MAX,
            process: 0,
            identity: 0,
        };
        assert!(map.add(mapping));
        assert_eq!(map.overlapping(u64::MAX - 1..u64::MAX), [mapping]);
        assert_eq!(map.truncate(0), [mapping]);
        assert!(map.is_empty());
    }
}
