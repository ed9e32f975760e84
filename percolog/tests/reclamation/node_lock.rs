//! Locks of nodes that are freed.
#![cfg(not(percolog_loom))]

use percolog::lock::{LockError, NodeLock, TryLockError};
use percolog::reclaim::{Domain, Link, Owned};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

#[derive(Default)]
struct Node {
    lock: NodeLock,
    value: AtomicU64,
    busy: AtomicBool,
}

impl Node {
    /// Something that two threads at a time would notice.
    fn change(&self) {
        assert!(!self.busy.swap(true, Ordering::Relaxed), "two at a time");
        let value = self.value.load(Ordering::Relaxed);
        thread::yield_now();
        self.value.store(value + 1, Ordering::Relaxed);
        self.busy.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_lock_is_four_bytes() {
    assert_eq!(size_of::<NodeLock>(), 4);
}

#[test]
fn one_at_a_time() {
    const TIMES: u64 = 300;
    let node = Node::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    let _guard = node.lock.lock().expect("nobody frees or panics");
                    node.change();
                }
            });
        }
    });
    assert_eq!(node.value.into_inner(), 4 * TIMES);
}

#[test]
fn trying_does_not_wait() {
    let node = Node::default();
    let guard = node.lock.try_lock().expect("free");
    assert!(guard.is_of(&node.lock) && !guard.is_of(&NodeLock::new()));
    assert!(matches!(
        node.lock.try_lock(),
        Err(TryLockError::WouldBlock)
    ));
    drop(guard);
    assert!(node.lock.try_lock().is_ok());
}

#[test]
fn all_who_wait_are_told_that_the_node_was_freed() {
    static DOMAIN: Domain = Domain::new();
    const WAITERS: usize = 6;
    let link = Link::new(Owned::new(Node::default()));
    let told = AtomicUsize::new(0);
    let about_to_wait = Barrier::new(WAITERS + 1);
    thread::scope(|scope| {
        let section = DOMAIN.enter();
        let node = link.load(&section).expect("linked").get();
        let guard = node.lock.lock().expect("free");
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let section = DOMAIN.enter();
                let node = link.load(&section).expect("still linked").get();
                about_to_wait.wait();
                assert!(matches!(node.lock.lock(), Err(LockError::Freed)));
                assert!(link.is_null(), "it was unlinked before");
                told.fetch_add(1, Ordering::Relaxed);
            });
        }
        about_to_wait.wait();
        // Long enough that some of them sleep; whether they do changes nothing.
        for _ in 0..1000 {
            thread::yield_now();
        }
        let unlinked = guard.release_and_free(link.swap(None).expect("linked"));
        assert!(unlinked.lock.is_freed());
        assert!(matches!(unlinked.lock.lock(), Err(LockError::Freed)));
        assert!(matches!(unlinked.lock.try_lock(), Err(TryLockError::Freed)));
        // SAFETY: the only link to it leads nowhere, and was read in sections of DOMAIN.
        unsafe { DOMAIN.retire(unlinked) };
    });
    assert_eq!(told.into_inner(), WAITERS);
}

#[test]
fn who_panics_poisons_and_who_repairs_says_so() {
    let lock = NodeLock::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.lock();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let Err(TryLockError::Poisoned(guard)) = lock.try_lock() else {
        panic!("it is poisoned");
    };
    drop(guard);
    let Err(LockError::Poisoned(mut guard)) = lock.lock() else {
        panic!("it stays poisoned");
    };
    assert!(guard.is_poisoned());
    guard.clear_poison();
    drop(guard);
    assert!(lock.lock().is_ok());
}

#[test]
fn a_guard_that_is_made_while_unwinding_poisons_nothing() {
    struct TakesIt<'a>(&'a NodeLock);
    impl Drop for TakesIt<'_> {
        fn drop(&mut self) {
            assert!(self.0.lock().is_ok());
        }
    }
    let lock = NodeLock::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _takes_it = TakesIt(&lock);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert!(lock.lock().is_ok());
}

#[test]
fn a_poisoned_node_can_be_freed() {
    let node = Node::default();
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _guard = node.lock.lock();
        panic!("on purpose");
    }));
    let guard = node.lock.lock().expect_err("poisoned").into_guard();
    let _ = guard.expect("not freed").release_as_freed();
    assert!(matches!(node.lock.lock(), Err(LockError::Freed)));
}

#[test]
fn only_the_nodes_own_lock_frees_it() {
    let lock = NodeLock::new();
    let node = Box::into_raw(Box::new(Node::default()));
    // SAFETY: made just above.
    let owned = Owned::from_box(unsafe { Box::from_raw(node) });
    let guard = lock.lock().expect("free");
    let refused = catch_unwind(AssertUnwindSafe(|| guard.release_and_free(owned.into())));
    assert!(refused.is_err() && !lock.is_freed());
    // SAFETY: the panic leaked it, and nobody else has it.
    drop(unsafe { Box::from_raw(node) });
}
