//! The lists of Figure 8-4: Harris' lock-free sorted list (DISC 2001), which the thesis compares with, and the plain one that
//! logs are put around. Both are made of the same nodes: the element that a thread adds is a node, written by that thread.
//!
//! In the lock-free list, a removed node is first marked, in the lowest bit of its link, and then unlinked by whoever comes along; so no node can be
//! inserted behind one that is going away.
//!
//! Nodes are never reused while the list lives, and freed with it: reclaiming them safely is a subject of its own, which the
//! thesis' figure does not include either. Each thread therefore brings the nodes for all its insertions. A link is a number
//! that says whose node it is, and which: there is nothing here that could dangle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A link: node number `index` of thread `owner - 1`, or the end if `owner` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(u64);

impl Link {
    const MARK: u64 = 1;

    fn to(thread: usize, index: usize) -> Self {
        Self((thread as u64 + 1) << 40 | (index as u64) << 1)
    }

    /// Whether the node that *holds* this link is being removed.
    fn is_marked(self) -> bool {
        self.0 & Self::MARK != 0
    }

    fn marked(self) -> Self {
        Self(self.0 | Self::MARK)
    }

    fn unmarked(self) -> Self {
        Self(self.0 & !Self::MARK)
    }

    fn place(self) -> Option<(usize, usize)> {
        let owner = usize::try_from(self.0 >> 40).ok()?;
        let index = usize::try_from((self.0 >> 1) & ((1 << 39) - 1)).ok()?;
        Some((owner.checked_sub(1)?, index))
    }
}

/// A node with a line of its own, as an allocator would place it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Node {
    key: AtomicU64,
    next: AtomicU64,
}

impl Node {
    fn link(&self) -> Link {
        // Acquire: with the release of whoever linked the node behind.
        Link(self.next.load(Ordering::Acquire))
    }

    fn exchange(&self, from: Link, to: Link) -> bool {
        // Release: with the acquire in `link`. A failure is followed by a new search.
        self.next
            .compare_exchange(from.0, to.0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }
}

/// Every thread's nodes, made by that thread.
#[derive(Debug)]
pub struct Nodes(Vec<OnceLock<Vec<Node>>>);

impl Nodes {
    /// Nodes of the threads `0..threads`.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| OnceLock::new()).collect())
    }

    /// Makes the calling thread's nodes, as `thread`: enough for `insertions`. Once for each thread.
    #[must_use]
    pub fn join(&self, thread: usize, insertions: usize) -> Supply {
        self.0[thread].get_or_init(|| {
            (0..insertions)
                .map(|_| {
                    let node = Node::default();
                    // The line is in this core's cache before the figures begin.
                    node.key.store(u64::MAX, Ordering::Relaxed);
                    node
                })
                .collect()
        });
        Supply { thread, used: 0 }
    }

    fn node(&self, link: Link) -> Option<&Node> {
        let (thread, index) = link.place()?;
        self.0.get(thread)?.get()?.get(index)
    }
}

/// A thread's nodes, of which `used` have been in a list.
#[derive(Debug)]
pub struct Supply {
    thread: usize,
    used: usize,
}

impl Supply {
    fn first(&self) -> Link {
        Link::to(self.thread, self.used)
    }

    /// Takes a node, and gives it a key. After as many as were announced there are none any more.
    pub fn take(&mut self, nodes: &Nodes, key: u64) -> Option<Link> {
        let link = self.first();
        nodes.node(link)?.key.store(key, Ordering::Relaxed);
        self.used += 1;
        Some(link)
    }
}

/// A list without any order, that one thread at a time changes.
#[derive(Debug)]
pub struct PlainList {
    nodes: Arc<Nodes>,
    first: Link,
}

impl PlainList {
    /// An empty list.
    #[must_use]
    pub fn new(nodes: Arc<Nodes>) -> Self {
        Self {
            nodes,
            first: Link(0),
        }
    }

    /// Puts an element in front of the others. It must not be in a list.
    pub fn add(&mut self, element: Link) {
        if let Some(node) = self.nodes.node(element) {
            // Relaxed, here and below: whoever has the list alone has its links alone.
            node.next.store(self.first.0, Ordering::Relaxed);
            self.first = element;
        }
    }

    /// Takes an element out; says whether it was there.
    pub fn remove(&mut self, element: Link) -> bool {
        let mut before: Option<&Node> = None;
        let mut at = self.first;
        while let Some(node) = self.nodes.node(at) {
            let next = Link(node.next.load(Ordering::Relaxed));
            if at == element {
                match before {
                    None => self.first = next,
                    Some(before) => before.next.store(next.0, Ordering::Relaxed),
                }
                return true;
            }
            before = Some(node);
            at = next;
        }
        false
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut count = 0;
        let mut at = self.first;
        while let Some(node) = self.nodes.node(at) {
            count += 1;
            at = Link(node.next.load(Ordering::Relaxed));
        }
        count
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first == Link(0)
    }
}

/// A sorted list of keys.
#[derive(Debug)]
pub struct LockFreeList {
    head: Node,
    nodes: Nodes,
}

/// A thread's part of a list.
#[derive(Debug)]
pub struct Member<'a> {
    list: &'a LockFreeList,
    supply: Supply,
}

impl LockFreeList {
    /// An empty list for the threads `0..threads`.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            head: Node::default(),
            nodes: Nodes::new(threads),
        }
    }

    /// The calling thread's part, as `thread`, with nodes for `insertions`. Once for each thread.
    #[must_use]
    pub fn join(&self, thread: usize, insertions: usize) -> Member<'_> {
        Member {
            list: self,
            supply: self.nodes.join(thread, insertions),
        }
    }

    /// The keys, when nobody changes the list.
    #[must_use]
    pub fn keys(&self) -> Vec<u64> {
        let mut keys = Vec::new();
        let mut at = self.head.link();
        while let Some(node) = self.node(at) {
            let next = node.link();
            if !next.is_marked() {
                keys.push(node.key.load(Ordering::Relaxed));
            }
            at = next.unmarked();
        }
        keys
    }

    fn node(&self, link: Link) -> Option<&Node> {
        self.nodes.node(link)
    }

    /// The last unmarked node with a smaller key (or the head), and the link to the first one with `key` or a larger one.
    /// What was marked between the two has been unlinked.
    fn search(&self, key: u64) -> (&Node, Link) {
        loop {
            let mut left = &self.head;
            let mut left_link = self.head.link();
            let mut right = left_link;
            while let Some(node) = self.node(right) {
                let link = node.link();
                if !link.is_marked() {
                    // Relaxed: the key was written before the node was linked.
                    if node.key.load(Ordering::Relaxed) >= key {
                        break;
                    }
                    (left, left_link) = (node, link);
                }
                right = link.unmarked();
            }
            if left_link != right && !left.exchange(left_link, right) {
                continue;
            }
            if self.node(right).is_some_and(|node| node.link().is_marked()) {
                continue;
            }
            return (left, right);
        }
    }
}

impl Member<'_> {
    /// Inserts `key`; says whether it was not there. After as many insertions as were announced there are none any more.
    pub fn insert(&mut self, key: u64) -> bool {
        let own = self.supply.first();
        let Some(node) = self.list.node(own) else {
            return false;
        };
        node.key.store(key, Ordering::Relaxed);
        loop {
            let (left, right) = self.list.search(key);
            if let Some(found) = self.list.node(right)
                && found.key.load(Ordering::Relaxed) == key
            {
                return false;
            }
            node.next.store(right.0, Ordering::Relaxed);
            if left.exchange(right, own) {
                self.supply.used += 1;
                return true;
            }
        }
    }

    /// Removes `key`; says whether it was there.
    pub fn remove(&mut self, key: u64) -> bool {
        loop {
            let (left, right) = self.list.search(key);
            let Some(node) = self.list.node(right) else {
                return false;
            };
            if node.key.load(Ordering::Relaxed) != key {
                return false;
            }
            let behind = node.link();
            if behind.is_marked() || !node.exchange(behind, behind.marked()) {
                continue;
            }
            if !left.exchange(right, behind) {
                // Somebody has changed what is in front: a search unlinks what is marked.
                self.list.search(key);
            }
            return true;
        }
    }

    /// Insertions so far.
    #[must_use]
    pub fn used(&self) -> usize {
        self.supply.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_list_keeps_what_was_not_removed() {
        let nodes = Arc::new(Nodes::new(1));
        let mut supply = nodes.join(0, 4);
        let elements: Vec<Link> = (0..4).filter_map(|key| supply.take(&nodes, key)).collect();
        assert_eq!((elements.len(), supply.take(&nodes, 4)), (4, None));
        let mut list = PlainList::new(Arc::clone(&nodes));
        assert!(list.is_empty() && !list.remove(elements[0]));
        for &element in &elements {
            list.add(element);
        }
        assert_eq!(list.len(), 4);
        // The last, the first and one in the middle.
        assert!(list.remove(elements[0]) && list.remove(elements[3]) && list.remove(elements[1]));
        assert!(!list.remove(elements[1]));
        assert_eq!(list.len(), 1);
        assert!(list.remove(elements[2]) && list.is_empty());
    }

    #[test]
    fn one_thread_sees_a_sorted_set() {
        let list = LockFreeList::new(1);
        let mut member = list.join(0, 5);
        for key in [5, 1, 3] {
            assert!(member.insert(key));
        }
        assert!(!member.insert(3));
        assert_eq!(list.keys(), [1, 3, 5]);
        assert!(member.remove(3));
        assert!(!member.remove(3));
        assert!(!member.remove(4));
        assert!(!member.remove(9));
        assert_eq!(list.keys(), [1, 5]);
        assert!(member.insert(3) && member.insert(9));
        // Five nodes have been announced.
        assert!(!member.insert(10));
        assert_eq!(member.used(), 5);
        assert_eq!(list.keys(), [1, 3, 5, 9]);
    }

    #[test]
    fn threads_change_neighbouring_keys() {
        const TURNS: usize = 2000;
        let list = LockFreeList::new(3);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let list = &list;
                scope.spawn(move || {
                    let mut member = list.join(thread, TURNS + 1);
                    let key = thread as u64;
                    for _ in 0..TURNS {
                        assert!(member.insert(key));
                        assert!(member.remove(key));
                    }
                    assert!(member.insert(key));
                });
            }
        });
        assert_eq!(list.keys(), [0, 1, 2]);
    }

    #[test]
    fn threads_fight_for_one_key() {
        let list = LockFreeList::new(2);
        let balance: i64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|thread| {
                    let list = &list;
                    scope.spawn(move || {
                        let mut member = list.join(thread, 4000);
                        (0..4000)
                            .map(|_| i64::from(member.insert(7)) - i64::from(member.remove(7)))
                            .sum::<i64>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .sum()
        });
        assert_eq!(balance, list.keys().len() as i64);
    }
}
