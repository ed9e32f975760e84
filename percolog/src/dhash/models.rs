//! Every interleaving of lookups, removals and visits, within loom's bounds.
//!
//! What no model here can see: the kernel's barrier (models have a fence on both sides), re-entrance (the record of what a thread holds is
//! not kept under the model checker), real thread exit, and how `Arc` orders what is dropped.

use super::core::{Core, Locked};
use crate::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

type Tables = Core<u32, u32, u32>;

const KEY: u32 = 7;
const HASH: u64 = 7;

/// A thread's view of the tables: which lease it has.
#[derive(Clone)]
struct Seen(Arc<Tables>, Option<usize>);

impl Seen {
    fn new() -> Self {
        Self(Arc::new(Core::new(1, |_, _| 0)), Some(0))
    }

    fn by(&self, lease: Option<usize>) -> Self {
        Self(self.0.clone(), lease)
    }

    fn lock(&self, make: Option<u32>) -> Option<Locked<'_, u32, u32, u32>> {
        // SAFETY: in each model a lease is used by one thread, which keeps what this returns.
        let inside = unsafe { self.0.enter(self.1, || 0) }.expect("nobody visits in a visit");
        let make = make.map(|shared| move |_: &u32| shared);
        let found = self.0.lookup(inside, HASH, &KEY, make);
        found.expect("no guard is out")
    }

    /// Adds to the local part, and returns what is shared.
    fn add(&self, make: Option<u32>, amount: u32) -> Option<u32> {
        let locked = self.lock(make)?;
        let replica = locked.replica();
        // SAFETY: the replica is locked.
        replica
            .local()
            .with_mut(|local| unsafe { *local += amount });
        Some(replica.record().shared)
    }

    fn empty(&self) -> bool {
        // SAFETY: as in `lock`.
        let removed = unsafe { self.0.remove_key(self.1, HASH, &KEY) };
        removed.expect("the lock is not held here")
    }

    fn sum(&self) -> Option<u32> {
        self.0
            .gather(self.1, HASH, &KEY, |_| 0, |sum, local| *sum += *local)
            .expect("a fence is not refused, and no guard is out")
    }

    fn evict(&self) -> usize {
        // SAFETY: as in `lock`.
        let inside = unsafe { self.0.enter(self.1, || 0) }.expect("nobody visits in a visit");
        self.0.evict(&inside).expect("the lock is not held here")
    }
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// Of two that miss, one makes the element, and both find what it made.
#[test]
fn one_of_two_misses_allocates() {
    for leases in [[Some(0), Some(1)], [Some(0), None]] {
        loom::model(move || {
            let tables = Seen::new();
            let threads = [0, 1].map(|at| {
                let tables = tables.by(leases[at]);
                thread::spawn(move || tables.add(Some(at as u32), 1))
            });
            let [first, second] = threads.map(join);
            assert!(first.is_some() && first == second, "{first:?} {second:?}");
            assert_eq!(tables.sum(), Some(2));
        });
    }
}

/// Who has heard that an element was removed does not find it, though it has a replica.
#[test]
fn nobody_finds_what_was_removed() {
    loom::model(|| {
        let tables = Seen::new();
        tables.add(Some(1), 0);
        tables.by(Some(1)).add(None, 0);
        let removed = Arc::new(AtomicU32::new(0));
        let finder = thread::spawn({
            let (tables, removed) = (tables.by(Some(1)), removed.clone());
            move || {
                // Acquire pairs with the Release below.
                let before = removed.load(Ordering::Acquire);
                (before, tables.add(None, 1))
            }
        });
        let remover = thread::spawn({
            let tables = tables.by(Some(0));
            move || {
                assert!(tables.empty());
                assert_eq!(tables.add(None, 1), None, "it was removed here");
                removed.store(1, Ordering::Release);
            }
        });
        let (before, found) = join(finder);
        assert!(before == 0 || found.is_none(), "found after it was removed");
        join(remover);
        assert_eq!(tables.sum(), None);
    });
}

/// Two threads with a replica each, and a third that removes the element: whoever finds it gone tells another one, who does not find it
/// any more.
#[test]
fn a_removal_happens_at_one_moment() {
    loom::model(|| {
        let tables = Seen::new();
        tables.add(Some(1), 0);
        tables.by(Some(1)).add(None, 0);
        let gone = Arc::new(AtomicU32::new(0));
        let first = thread::spawn({
            let (tables, gone) = (tables.by(Some(0)), gone.clone());
            move || {
                if tables.add(None, 1).is_none() {
                    gone.store(1, Ordering::Release);
                }
            }
        });
        let second = thread::spawn({
            let tables = tables.by(Some(1));
            move || {
                // Acquire pairs with the Release above.
                if gone.load(Ordering::Acquire) == 1 {
                    assert_eq!(tables.add(None, 1), None, "found after it was gone");
                }
            }
        });
        tables.by(None).empty();
        join(first);
        join(second);
    });
}

/// The local part stays the guard's own while the element is removed and its place is evicted, and is not freed early.
#[test]
fn a_guard_outlives_a_removal() {
    loom::model(|| {
        let tables = Seen::new();
        tables.add(Some(1), 1);
        let remover = thread::spawn({
            let tables = tables.by(Some(1));
            move || tables.empty()
        });
        let guard = tables.lock(Some(2)).expect("it is made if it is gone");
        let shared = guard.replica().record().shared;
        tables.evict();
        guard.replica().local().with(|local| {
            // SAFETY: the replica is locked.
            let local = unsafe { *local };
            assert!([(1, 1), (2, 0)].contains(&(shared, local)));
        });
        drop(guard);
        assert!(join(remover));
        tables.evict();
    });
}

/// A gather sees each local part that was made before, and none that is made after, and no addition by half.
#[test]
fn a_gather_sees_what_was_made_before() {
    loom::model(|| {
        let tables = Seen::new();
        tables.add(Some(1), 1);
        let finished = Arc::new(AtomicU32::new(0));
        let adder = thread::spawn({
            let (tables, finished) = (tables.by(Some(1)), finished.clone());
            move || {
                tables.add(None, 2);
                finished.store(1, Ordering::Release);
            }
        });
        let before = finished.load(Ordering::Acquire);
        let sum = tables.sum();
        assert!(sum == Some(3) || (before == 0 && sum == Some(1)), "{sum:?}");
        join(adder);
        assert_eq!(tables.sum(), Some(3));
    });
}

/// What an eviction discards is not marked any more by who removes the element at the same time.
#[test]
fn an_eviction_and_a_removal_meet() {
    loom::model(|| {
        let tables = Seen::new();
        tables.add(Some(1), 1);
        let remover = thread::spawn({
            let tables = tables.by(Some(1));
            move || tables.empty()
        });
        assert_eq!(tables.evict(), 1);
        let found = tables.add(None, 0);
        assert!(join(remover));
        assert!(found.is_none() || found == Some(1));
        assert_eq!(tables.add(None, 0), None);
    });
}
