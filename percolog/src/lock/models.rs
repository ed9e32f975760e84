//! Every interleaving of takers and of who frees, within loom's bounds.
//!
//! Sleeping and waking are modelled as the kernel does them; a wake-up that is lost is a deadlock
//! that loom reports. Models have no panics, so poisoning is not in them.

use super::{LockError, NodeLock};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct Node {
    lock: NodeLock,
    /// Changed under the lock alone: loom reports two holders as a race.
    value: UnsafeCell<u32>,
}

/// What the value is when the node was freed.
const GONE: u32 = 100;

impl Node {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: NodeLock::new(),
            value: UnsafeCell::new(0),
        })
    }

    /// Adds 1 under the lock; `false` if the node was freed.
    fn add(&self) -> bool {
        match self.lock.lock() {
            Ok(_guard) => {
                // SAFETY: under the lock.
                self.value.with_mut(|value| unsafe {
                    assert!(*value < GONE, "a freed node was locked");
                    *value += 1;
                });
                true
            }
            Err(LockError::Freed) => {
                // SAFETY: it was freed, so nobody changes it any more, and who freed it is before us.
                self.value
                    .with(|value| assert!(unsafe { *value } >= GONE, "freed unseen"));
                false
            }
            Err(LockError::Poisoned(_)) => unreachable!("models do not panic"),
        }
    }

    /// Frees the node; `false` if it was freed already.
    fn free(&self) -> bool {
        let Ok(guard) = self.lock.lock() else {
            return false;
        };
        // SAFETY: under the lock.
        self.value.with_mut(|value| unsafe { *value += GONE });
        let _ = guard.release_as_freed();
        true
    }

    /// When all threads have ended.
    fn value(&self) -> u32 {
        // SAFETY: nobody else uses it.
        self.value.with(|value| unsafe { *value })
    }
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

fn in_a_thread<T: 'static>(
    node: &Arc<Node>,
    f: impl FnOnce(&Node) -> T + 'static,
) -> thread::JoinHandle<T> {
    let node = node.clone();
    thread::spawn(move || f(&node))
}

#[test]
fn one_at_a_time_and_nobody_sleeps_for_ever() {
    loom::model(|| {
        let node = Node::new();
        let threads = [(); 2].map(|()| in_a_thread(&node, Node::add));
        assert!(node.add());
        assert!(threads.into_iter().all(join));
        assert_eq!(node.value(), 3);
    });
}

#[test]
fn who_waits_for_a_node_that_is_freed_is_told() {
    loom::model(|| {
        let node = Node::new();
        let waiter = in_a_thread(&node, Node::add);
        let other = in_a_thread(&node, Node::free);
        let mine = node.add();
        let added = u32::from(mine) + u32::from(join(waiter));
        assert!(join(other));
        assert_eq!(node.value(), GONE + added);
        assert!(node.lock.is_freed());
        assert!(!node.add());
    });
}

/// One of those who sleep is woken; before it comes to take the lock, somebody else has it, and frees the node.
#[test]
fn who_still_sleeps_is_told_that_the_node_is_freed() {
    loom::model(|| {
        let node = Node::new();
        let guard = node.lock.lock();
        let threads = [(); 2].map(|()| in_a_thread(&node, Node::add));
        drop(guard);
        assert!(node.free());
        let added: u32 = threads
            .into_iter()
            .map(|thread| u32::from(join(thread)))
            .sum();
        assert_eq!(node.value(), GONE + added);
    });
}

#[test]
fn a_node_is_freed_once() {
    loom::model(|| {
        let node = Node::new();
        let other = in_a_thread(&node, Node::free);
        let mine = node.free();
        assert!(mine != join(other));
        assert_eq!(node.value(), GONE);
    });
}

#[test]
fn trying_excludes_as_taking_does() {
    loom::model(|| {
        let node = Node::new();
        let other = in_a_thread(&node, Node::add);
        let mine = match node.lock.try_lock() {
            Ok(_guard) => {
                // SAFETY: under the lock.
                node.value.with_mut(|value| unsafe { *value += 1 });
                1
            }
            Err(_) => 0,
        };
        assert!(join(other));
        assert_eq!(node.value(), 1 + mine);
    });
}
