//! Harris' lock-free list, with which the papers compare: a removed node is first *marked*, in the lowest
//! bit of its link, and then unlinked by whoever comes along; so nothing can be linked behind a node that
//! is going away (T. Harris, *A Pragmatic Implementation of Non-Blocking Linked-Lists*, DISC 2001; each
//! marked node is unlinked for itself, as in M. Michael, *High Performance Dynamic Lock-Free Hash Tables
//! and List-Based Sets*, SPAA 2002).
//!
//! The list is not sorted: identities never repeat, so nobody has to look whether one is there already, and
//! a node goes in at the front with a single exchange. That is as good as such a list can be where most of
//! what comes last goes first.
//!
//! *Cost.* [`push`](List::push): the line of the head. [`remove`](List::remove): a walk over the nodes that
//! came later and are still there, to find who links to the node. A kernel, where the node is part of the
//! object, can mark it without looking for it, but has to walk as far to unlink it. Nodes are made
//! [ahead](List::node), as they are part of their objects in a kernel.
//!
//! Nodes are freed when nobody can be looking at them any more (`crossbeam-epoch`).

use crossbeam_epoch::{Atomic, Guard, Owned, Shared, pin, unprotected};
use std::fmt;
use std::sync::atomic::Ordering;

/// The mark of a node, in its link, that says that the node itself has been removed.
const REMOVED: usize = 1;

/// A list of values that any number of threads change.
pub(super) struct List<V> {
    head: Atomic<Node<V>>,
}

/// A value with its link.
#[derive(Debug)]
pub struct Node<V> {
    identity: u32,
    value: V,
    next: Atomic<Node<V>>,
}

impl<V> Node<V> {
    pub(super) fn value(&self) -> &V {
        &self.value
    }

    /// Removes the node from what readers see; says whether it was this call that did.
    pub(super) fn mark(&self, guard: &Guard) -> bool {
        // AcqRel: Release hands what was done to the value before to whoever finds the mark; Acquire pairs
        // with the Release that linked the next node, which the caller may go on to.
        self.next.fetch_or(REMOVED, Ordering::AcqRel, guard).tag() != REMOVED
    }
}

impl<V> Default for List<V> {
    fn default() -> List<V> {
        List {
            head: Atomic::null(),
        }
    }
}

impl<V: Send + Sync + 'static> List<V> {
    /// A node for the list. No two nodes of a list ever have the same identity.
    pub(super) fn node(identity: u32, value: V) -> Owned<Node<V>> {
        Owned::new(Node {
            identity,
            value,
            next: Atomic::null(),
        })
    }

    /// Puts a node in front of the others.
    pub(super) fn push(&self, mut node: Owned<Node<V>>) {
        let guard = pin();
        // Relaxed: it is only compared, by an exchange that reads it again.
        let mut first = self.head.load(Ordering::Relaxed, &guard);
        loop {
            // Relaxed: nobody else sees the node yet.
            node.next.store(first, Ordering::Relaxed);
            // Release publishes the node to the Acquire loads of those who walk. Nodes further behind were
            // published by exchanges of the head before this one, each of which continues the release
            // sequence of the last.
            match self.head.compare_exchange_weak(
                first,
                node,
                Ordering::Release,
                Ordering::Relaxed,
                &guard,
            ) {
                Ok(_) => return,
                Err(failed) => {
                    first = failed.current;
                    node = failed.new;
                }
            }
        }
    }

    /// Removes the node with this identity; says whether it was there.
    pub(super) fn remove(&self, identity: u32) -> bool {
        let guard = pin();
        let (link, found) = self.search(|node| node.identity == identity, &guard);
        // SAFETY: `search` returns null or a node that was linked while this thread was pinned.
        let Some(node) = (unsafe { found.as_ref() }) else {
            return false;
        };
        if !node.mark(&guard) {
            return false;
        }
        // Acquire: with the Release that linked the next node, which the exchange below publishes again.
        let next = node.next.load(Ordering::Acquire, &guard).with_tag(0);
        if !unlink(link, found, next, &guard) {
            // Somebody has changed the link before it; this walk meets the node, unless another one did.
            self.sweep(&guard);
        }
        true
    }

    /// The nodes that have not been removed, the last one that came first. A node that is there all the time
    /// is met once; one that comes or goes meanwhile may be met or not.
    pub(super) fn iter<'g>(&self, guard: &'g Guard) -> impl Iterator<Item = &'g Node<V>> {
        // Acquire, here and below: with the Release that linked the node.
        let mut at = self.head.load(Ordering::Acquire, guard);
        std::iter::from_fn(move || {
            loop {
                // SAFETY: the link was read while this thread was pinned, from the head or from a node that
                // was linked while it was pinned. A node behind a marked one cannot have been unlinked
                // before that one was, so it has not been freed either.
                let node = unsafe { at.as_ref() }?;
                at = node.next.load(Ordering::Acquire, guard);
                if at.tag() != REMOVED {
                    return Some(node);
                }
            }
        })
    }

    /// Unlinks every node that is marked.
    pub(super) fn sweep(&self, guard: &Guard) {
        self.search(|_| false, guard);
    }

    /// The first unmarked node that is `wanted`, or null, and the link that leads to it. What was marked before
    /// it has been unlinked.
    fn search<'g>(
        &'g self,
        wanted: impl Fn(&Node<V>) -> bool,
        guard: &'g Guard,
    ) -> (&'g Atomic<Node<V>>, Shared<'g, Node<V>>) {
        'again: loop {
            let mut link = &self.head;
            // Acquire, here and below: with the Release that linked the node.
            let mut at = link.load(Ordering::Acquire, guard);
            loop {
                // SAFETY: as in `iter`.
                let Some(node) = (unsafe { at.as_ref() }) else {
                    return (link, at);
                };
                let next = node.next.load(Ordering::Acquire, guard);
                if next.tag() == REMOVED {
                    let next = next.with_tag(0);
                    if !unlink(link, at, next, guard) {
                        // The link has changed, or its own node has been marked.
                        continue 'again;
                    }
                    at = next;
                } else if wanted(node) {
                    return (link, at);
                } else {
                    link = &node.next;
                    at = next;
                }
            }
        }
    }
}

/// Takes a marked node out of the list, unless the link to it has changed or is a marked node's.
fn unlink<'g, V>(
    link: &Atomic<Node<V>>,
    node: Shared<'g, Node<V>>,
    next: Shared<'g, Node<V>>,
    guard: &'g Guard,
) -> bool {
    debug_assert_eq!(node.tag(), 0);
    // Release publishes the next node to whoever reads this link, in place of the one that did so before. A
    // failure is followed by a new walk.
    let unlinked = link
        .compare_exchange(node, next, Ordering::Release, Ordering::Relaxed, guard)
        .is_ok();
    if unlinked {
        // SAFETY: the only link to the node from a node that is not removed is gone, and no other can be made:
        // its mark keeps everybody from linking it again. So it is out of reach for whoever is pinned from now on,
        // and this exchange happens once.
        unsafe { guard.defer_destroy(node) };
    }
    unlinked
}

impl<V> Drop for List<V> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the list.
        let guard = unsafe { unprotected() };
        // Relaxed: dropping an object comes after every use of it.
        let mut at = self.head.load(Ordering::Relaxed, guard);
        while !at.is_null() {
            // SAFETY: what is linked has not been given to the collector, and is freed only here.
            let node = unsafe { at.into_owned() };
            at = node.next.load(Ordering::Relaxed, guard).with_tag(0);
        }
    }
}

impl<V: fmt::Debug + Send + Sync + 'static> fmt::Debug for List<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guard = pin();
        f.debug_list()
            .entries(self.iter(&guard).map(Node::value))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    fn values<V: Clone + Send + Sync + 'static>(list: &List<V>) -> Vec<V> {
        let guard = pin();
        list.iter(&guard).map(|node| node.value().clone()).collect()
    }

    fn letters(text: &str) -> List<char> {
        let list = List::default();
        for (identity, letter) in (0..).zip(text.chars()) {
            list.push(List::node(identity, letter));
        }
        list
    }

    #[test]
    fn what_came_last_is_met_first_and_each_is_removed_once() {
        let list = letters("abcd");
        assert_eq!(values(&list), ['d', 'c', 'b', 'a']);
        assert!(list.remove(1));
        assert!(!list.remove(1));
        assert!(!list.remove(9));
        assert!(list.remove(3));
        assert_eq!(values(&list), ['c', 'a']);
        assert!(list.remove(0) && list.remove(2));
        assert_eq!(values(&list), []);
    }

    /// A removal that has come half-way: others pass over the node, and can neither change its link nor remove
    /// it again.
    #[test]
    fn nothing_changes_behind_a_marked_node() {
        let list = letters("abc");
        let guard = pin();
        let b = list.iter(&guard).nth(1).expect("there are three");
        let a = b.next.load(Ordering::Acquire, &guard);
        assert!(b.mark(&guard));
        assert!(!b.mark(&guard));
        assert!(!unlink(&b.next, a, Shared::null(), &guard));
        assert_eq!(values(&list), ['c', 'a']);
        assert!(!list.remove(1), "it has been removed");
        // The walk to the other end has unlinked it.
        let c = list.iter(&guard).next().expect("it is there");
        assert_eq!(c.next.load(Ordering::Acquire, &guard), a);
        assert!(list.remove(0));
        assert_eq!(values(&list), ['c']);
    }

    /// Threads that push and remove next to each other: a value that is still in the list has not been dropped.
    #[test]
    fn nothing_is_lost_and_nothing_is_freed_twice() {
        const EACH: u32 = 300;
        let list = &List::default();
        let held = Arc::new(());
        let removed: usize = thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|thread| {
                    let held = &held;
                    scope.spawn(move || {
                        let mine = |number| thread * EACH + number;
                        let mut removed = 0;
                        for number in 0..EACH {
                            list.push(List::node(mine(number), Arc::clone(held)));
                            // The one before the last, and somebody else's, who may be faster.
                            let other = (mine(number) + EACH) % (3 * EACH);
                            for identity in [mine(number.saturating_sub(2)), other] {
                                removed += usize::from(list.remove(identity));
                            }
                        }
                        removed
                    })
                })
                .collect();
            let removed = workers.into_iter().map(|worker| worker.join());
            removed
                .map(|removed| removed.expect("nothing panics"))
                .sum()
        });
        let left = values(list).len();
        assert_eq!(left + removed, 3 * EACH as usize);
        assert!(Arc::strong_count(&held) > left);
    }
}
