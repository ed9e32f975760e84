//! Every interleaving of the sloppy counter's algorithm, within loom's bounds.
//!
//! What no model here can see: the kernel's barrier, in the place of which there are two fences; signal handlers; and the
//! borrow checker, which lets nobody use a counter that is dropped.

use super::spares::{Account, Bank, give_centrally, take_centrally};
use crate::cpu::barrier::BarrierMode;
use crate::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;

const MODE: BarrierMode = BarrierMode::Fence;

struct World {
    bank: Bank,
    account: Account,
    central: AtomicI64,
}

impl World {
    fn new(threshold: u64, central: i64) -> Arc<Self> {
        Arc::new(Self {
            bank: Bank::new(),
            account: Account::new(threshold),
            central: AtomicI64::new(central),
        })
    }

    /// As `SloppyCounter::acquire` does it, by the holder of the lease.
    fn acquire(&self, lease: usize, n: u64) {
        // SAFETY: each lease is given to one thread.
        if !unsafe { self.bank.take(&self.account, lease, n, MODE) } {
            take_centrally(&self.central, n);
        }
    }

    fn keep(&self, lease: usize, n: u64) -> bool {
        // SAFETY: as above.
        unsafe { self.bank.keep(&self.account, &self.central, lease, n, MODE) }
    }

    /// As `SloppyCounter::release` does it.
    fn release(&self, lease: usize, n: u64) {
        if self.keep(lease, n) {
            return;
        }
        self.bank.prepare(&self.account, lease);
        if !self.keep(lease, n) {
            give_centrally(&self.central, n);
        }
    }

    fn central(&self) -> i64 {
        self.central.load(Ordering::Acquire)
    }

    fn in_use(&self) -> i64 {
        self.bank
            .in_use(&self.account, &self.central, MODE)
            .expect("a fence is not refused")
    }

    fn reconcile(&self) -> i64 {
        self.bank
            .reconcile(&self.account, &self.central, MODE)
            .expect("a fence is not refused")
    }
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("no thread of a model panics")
}

/// One thread uses its spares, takes too many for them, and gives back too many: whoever looks finds one of the states
/// in between the operations.
#[test]
fn what_is_in_use_is_seen_between_operations_only() {
    loom::model(|| {
        let world = World::new(2, 2);
        // Two in use; one of them becomes a spare.
        world.release(0, 1);
        let user = thread::spawn({
            let world = world.clone();
            move || {
                // From 1 to 5: the spare does not suffice.
                world.acquire(0, 4);
                // To 2: four spares are too many, so three of them go back.
                world.release(0, 3);
            }
        });
        let first = world.in_use();
        assert!([1, 5, 2].contains(&first), "{first}");
        join(user);
        assert_eq!((world.in_use(), world.central()), (2, 3));
    });
}

/// One thread hands a reference to another one, which releases it: never are fewer in use than the one that stays, nor more
/// than there ever were.
#[test]
fn a_reference_that_is_handed_on_is_counted_once() {
    loom::model(|| {
        let world = World::new(4, 0);
        // Both have a share: first touches have a model of their own.
        world.acquire(0, 2);
        world.release(1, 1);
        let handed = Arc::new(AtomicUsize::new(0));
        let first = thread::spawn({
            let (world, handed) = (world.clone(), handed.clone());
            move || {
                // Releases into its spares what the second one takes the place of.
                world.release(0, 1);
                handed.store(1, Ordering::Release);
            }
        });
        let second = thread::spawn({
            let (world, handed) = (world.clone(), handed.clone());
            move || {
                if handed.load(Ordering::Acquire) == 1 {
                    world.acquire(1, 1);
                }
            }
        });
        // One in use at first; then none; then perhaps one again.
        let seen = world.in_use();
        assert!([0, 1].contains(&seen), "{seen}");
        join(first);
        join(second);
        assert!([0, 1].contains(&world.in_use()));
    });
}

/// Spares are given back while their owner uses them: none is lost, and none is there twice.
#[test]
fn reconciling_takes_every_spare_once() {
    loom::model(|| {
        let world = World::new(4, 3);
        world.release(0, 2);
        let user = thread::spawn({
            let world = world.clone();
            move || {
                world.acquire(0, 1);
                world.release(0, 1);
            }
        });
        let seen = world.reconcile();
        assert!([1, 2].contains(&seen), "{seen}");
        join(user);
        let central = world.central();
        assert!((1..=3).contains(&central), "{central}");
        assert_eq!(world.in_use(), 1);
        assert_eq!((world.reconcile(), world.central()), (1, 1));
    });
}

/// A thread that touches a counter first keeps a reference, and another one acquires one centrally because of that: whoever
/// counts the second knows of the first.
#[test]
fn a_share_that_is_made_meanwhile_is_not_missed() {
    loom::model(|| {
        let world = World::new(4, 1);
        // There is one share already, or nothing is frozen.
        world.release(1, 0);
        let user = thread::spawn({
            let world = world.clone();
            move || {
                // From 1 to 0 in a new share, and then to 1 by code that knows the central counter alone.
                world.release(0, 1);
                world.central.fetch_add(1, Ordering::AcqRel);
            }
        });
        let seen = world.in_use();
        assert!([0, 1].contains(&seen), "{seen}");
        join(user);
        assert_eq!(world.in_use(), 1);
    });
}

/// Code that knows the central counter alone beside code that keeps spares, and somebody who reconciles: every reference is
/// counted, and the central counter never is below what is in use.
#[test]
fn plain_updates_and_spares_add_up() {
    loom::model(|| {
        let world = World::new(2, 2);
        world.release(0, 1);
        let plain = thread::spawn({
            let world = world.clone();
            move || {
                world.central.fetch_add(1, Ordering::AcqRel);
                let seen = world.central();
                // One that stays, and its own; the other thread's as well when it has it.
                assert!((2..=4).contains(&seen), "{seen}");
                world.central.fetch_sub(1, Ordering::AcqRel);
            }
        });
        let sloppy = thread::spawn({
            let world = world.clone();
            move || world.acquire(0, 1)
        });
        let seen = world.reconcile();
        assert!((1..=3).contains(&seen), "{seen}");
        join(plain);
        join(sloppy);
        assert_eq!(
            (world.in_use(), world.reconcile(), world.central()),
            (2, 2, 2)
        );
    });
}

/// Who finds nothing in use comes after every use, whichever way the last reference was released.
#[test]
fn who_finds_nothing_in_use_comes_after_every_use() {
    for threshold in [0, 4] {
        loom::model(move || {
            let world = World::new(threshold, 1);
            world.bank.prepare(&world.account, 0);
            let used = Arc::new(AtomicUsize::new(0));
            let user = thread::spawn({
                let (world, used) = (world.clone(), used.clone());
                move || {
                    used.store(1, Ordering::Relaxed);
                    world.release(0, 1);
                }
            });
            if world.in_use() == 0 {
                assert_eq!(used.load(Ordering::Relaxed), 1);
            }
            join(user);
            assert_eq!(world.in_use(), 0);
        });
    }
}
