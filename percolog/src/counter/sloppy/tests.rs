//! The algorithm against a sequential model, with slots chosen by hand; and the paper's own example.

use super::SloppyCounter;
use super::spares::{Account, Bank, give_centrally, take_centrally};
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::lease;
use crate::cpu::process::in_tests::undisturbed;
#[cfg(all(unix, not(miri)))]
use crate::cpu::process::in_tests::{forking, succeeds};
use crate::sync::atomic::{AtomicI64, Ordering};
use proptest::prelude::*;
use std::format;
use std::vec::Vec;

/// A counter whose threads are chosen by hand.
struct World {
    bank: Bank,
    account: Account,
    central: AtomicI64,
    mode: BarrierMode,
}

impl World {
    fn new(threshold: u64) -> Self {
        Self {
            bank: Bank::new(),
            account: Account::new(threshold),
            central: AtomicI64::new(0),
            mode: barrier::mode(),
        }
    }

    /// As `SloppyCounter::acquire` does it, by the holder of the lease.
    fn acquire(&self, lease: usize, n: u64) {
        // SAFETY: there is one thread, which is in the middle of nothing.
        if !unsafe { self.bank.take(&self.account, lease, n, self.mode) } {
            take_centrally(&self.central, n);
        }
    }

    /// As `SloppyCounter::release` does it.
    fn release(&self, lease: usize, n: u64) {
        let (account, central) = (&self.account, &self.central);
        if account.threshold() != 0 {
            self.bank.prepare(account, lease);
            // SAFETY: as above.
            if unsafe { self.bank.keep(account, central, lease, n, self.mode) } {
                return;
            }
        }
        give_centrally(central, n);
    }

    fn central(&self) -> i64 {
        self.central.load(Ordering::Relaxed)
    }

    fn in_use(&self) -> i64 {
        let (account, central) = (&self.account, &self.central);
        self.bank
            .in_use(account, central, self.mode)
            .expect("not refused")
    }

    fn reconcile(&self) -> i64 {
        let (account, central) = (&self.account, &self.central);
        self.bank
            .reconcile(account, central, self.mode)
            .expect("not refused")
    }

    fn spares(&self) -> Vec<u64> {
        self.bank.spares(&self.account, self.mode)
    }
}

/// Figure 2: a reference comes from the central counter, stays on its core when it is released, and is acquired there
/// again without the central counter.
#[test]
fn the_figure_of_the_paper() {
    let _forks = undisturbed();
    let dentry = World::new(4);
    dentry.acquire(0, 1);
    assert_eq!((dentry.central(), dentry.in_use()), (1, 1));
    assert!(dentry.spares().is_empty());

    dentry.release(0, 1);
    assert_eq!((dentry.central(), dentry.in_use()), (1, 0));
    assert_eq!(dentry.spares(), [1]);

    dentry.acquire(0, 1);
    assert_eq!((dentry.central(), dentry.in_use()), (1, 1));
    assert_eq!(dentry.spares(), [0]);
}

/// The text beside it: *V* references at once, all from the core's own if they suffice and none of them otherwise; and
/// spares that become more than the threshold go back to the central counter.
#[test]
fn the_text_of_the_paper() {
    let _forks = undisturbed();
    let counter = World::new(4);
    counter.acquire(0, 6);
    counter.release(0, 3);
    assert_eq!((counter.central(), counter.spares()), (6, vec![3]));
    // Three do not suffice for four.
    counter.acquire(0, 4);
    assert_eq!((counter.central(), counter.spares()), (10, vec![3]));
    // They do for three.
    counter.acquire(0, 3);
    assert_eq!((counter.central(), counter.spares()), (10, vec![0]));
    assert_eq!(counter.in_use(), 10);
    // At the threshold all are kept, and above it half of them.
    counter.release(0, 4);
    assert_eq!((counter.central(), counter.spares()), (10, vec![4]));
    counter.release(0, 1);
    assert_eq!((counter.central(), counter.spares()), (7, vec![2]));
    // Another core's are its own.
    counter.release(1, 2);
    assert_eq!((counter.central(), counter.spares()), (7, vec![2, 2]));
    assert_eq!(counter.in_use(), 3);
    // Code that knows nothing of this goes on: it acquires five, and releases what was acquired here.
    counter.central.fetch_add(5, Ordering::AcqRel);
    counter.central.fetch_sub(3, Ordering::AcqRel);
    assert_eq!((counter.in_use(), counter.central()), (5, 9));
    // Reconciled, both are the same.
    assert_eq!(counter.reconcile(), 5);
    assert_eq!((counter.central(), counter.spares()), (5, vec![0, 0]));
}

#[test]
fn what_interrupts_the_owner_uses_the_central_counter() {
    let _forks = undisturbed();
    let counter = World::new(4);
    counter.acquire(0, 6);
    counter.release(0, 3);
    let (bank, account) = (&counter.bank, &counter.account);
    bank.interrupted(account, 0, counter.mode, || {
        counter.acquire(0, 2);
        counter.release(0, 1);
        assert_eq!(counter.central(), 7);
    });
    assert_eq!((counter.in_use(), counter.spares()), (4, vec![3]));
}

/// A child has no thread that would ever leave the share that one was in the middle of.
#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_waits_for_nobody_who_is_inside() {
    use crate::cpu::lease;
    use std::sync::Barrier;
    use std::thread;

    let _forks = forking();
    let counter = World::new(4);
    // Looks once, and has registered what is done around a fork.
    assert_eq!(counter.in_use(), 0);
    let (inside, over) = (Barrier::new(2), Barrier::new(2));
    let agrees = thread::scope(|scope| {
        scope.spawn(|| {
            let mine = lease::mine().expect("there are leases left");
            counter.acquire(mine, 6);
            counter.release(mine, 3);
            let (bank, account) = (&counter.bank, &counter.account);
            bank.interrupted(account, mine, counter.mode, || {
                inside.wait();
                over.wait();
            });
        });
        inside.wait();
        let agrees = succeeds(|| counter.in_use() == 3);
        over.wait();
        agrees
    });
    assert!(agrees, "the child counts as its parent does");
    assert_eq!(counter.in_use(), 3);
}

#[test]
fn a_threshold_of_zero_is_a_plain_counter() {
    let _forks = undisturbed();
    let counter = World::new(0);
    counter.acquire(0, 2);
    counter.release(0, 1);
    assert_eq!((counter.central(), counter.in_use()), (1, 1));
    assert!(counter.spares().is_empty());
    assert_eq!(counter.bank.places_ever(), 0);
    let counter = SloppyCounter::new(0);
    counter.acquire(2);
    counter.release(1);
    assert_eq!((counter.central(), counter.in_use()), (1, 1));
}

#[test]
fn releases_of_what_was_never_acquired_are_negative() {
    let _forks = undisturbed();
    let counter = SloppyCounter::new(10);
    counter.release(3);
    assert_eq!((counter.central(), counter.in_use()), (0, -3));
    counter.acquire(1);
    assert_eq!((counter.central(), counter.in_use()), (0, -2));
    assert_eq!((counter.reconcile(), counter.central()), (-2, -2));
    counter.acquire(5);
    assert_eq!((counter.central(), counter.in_use()), (3, 3));
}

#[test]
fn nothing_acquired_and_nothing_released_is_nothing() {
    let _forks = undisturbed();
    let counter = SloppyCounter::new(10);
    counter.acquire(0);
    counter.release(0);
    assert_eq!((counter.central(), counter.in_use()), (0, 0));
}

#[test]
fn overflow_wraps_around() {
    let _forks = undisturbed();
    let counter = SloppyCounter::new(u64::MAX);
    counter.acquire(i64::MAX as u64);
    counter.acquire(1);
    assert_eq!(counter.in_use(), i64::MIN);
    counter.release(1);
    assert_eq!((counter.central(), counter.in_use()), (i64::MIN, i64::MAX));
    counter.release(i64::MAX as u64);
    assert_eq!(counter.in_use(), 0);
    // More spares than there are numbers: what is too much goes back.
    counter.release(u64::MAX);
    assert_eq!(counter.in_use(), 1);
    counter.acquire(u64::MAX);
    counter.acquire(u64::MAX);
    assert_eq!(counter.in_use(), -1);
    assert_eq!((counter.reconcile(), counter.central()), (-1, -1));
}

#[test]
fn what_it_stands_beside_is_exact_once_it_is_gone() {
    let _forks = undisturbed();
    let users = AtomicI64::new(5);
    let counter = SloppyCounter::beside(&users, 10);
    assert_eq!(counter.in_use(), 5);
    counter.acquire(7);
    counter.release(4);
    assert_eq!(counter.central_atomic().load(Ordering::Relaxed), 12);
    drop(counter);
    assert_eq!(users.into_inner(), 8);
}

#[test]
fn dropped_counters_leave_their_places_clear() {
    let _forks = undisturbed();
    let bank = Bank::new();
    let mode = barrier::mode();
    for round in 1..=50u64 {
        let mut accounts: Vec<_> = (0..200).map(|_| Account::new(100)).collect();
        let central = AtomicI64::new(0);
        for account in &accounts {
            for lease in [0, 1, 40] {
                bank.prepare(account, lease);
                assert!(bank.spares(account, mode).iter().all(|spares| *spares == 0));
            }
            for lease in [0, 1, 40] {
                // SAFETY: there is one thread, which is in the middle of nothing.
                assert!(unsafe { bank.keep(account, &central, lease, round, mode) });
            }
        }
        accounts
            .iter_mut()
            .for_each(|account| bank.close(account, &central));
        assert_eq!(central.into_inner(), -3 * 200 * round as i64);
    }
    assert_eq!(bank.places_ever(), 200);
}

#[test]
fn costs_24_bytes_and_16_a_thread() {
    assert_eq!(size_of::<SloppyCounter>(), 24);
    assert_eq!(size_of::<super::spares::Spares>(), 16);
}

#[test]
fn debug_shows_the_central_counter_only() {
    let _forks = undisturbed();
    let counter = SloppyCounter::new(7);
    counter.acquire(3);
    counter.release(2);
    assert_eq!(
        format!("{counter:?}"),
        "SloppyCounter { central: 3, threshold: 7, .. }"
    );
}

#[derive(Debug, Clone)]
enum Step {
    Acquire {
        lease: usize,
        n: u64,
    },
    Release {
        lease: usize,
        n: u64,
    },
    /// By code that knows the central counter alone.
    Plain(i64),
    InUse,
    Reconcile,
}

const LEASES: usize = 4;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = || prop_oneof![6 => 0..20u64, 1 => any::<u64>()];
    let step = prop_oneof![
        6 => (0..LEASES, n()).prop_map(|(lease, n)| Step::Acquire { lease, n }),
        6 => (0..LEASES, n()).prop_map(|(lease, n)| Step::Release { lease, n }),
        2 => prop_oneof![6 => -20..20i64, 1 => any::<i64>()].prop_map(Step::Plain),
        2 => Just(Step::InUse),
        1 => Just(Step::Reconcile),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn it_does_what_the_paper_says(
        threshold in prop_oneof![Just(0), 1..40u64, Just(u64::MAX), Just(1 << 63)],
        steps in steps(),
    ) {
        let _forks = undisturbed();
        let counter = World::new(threshold);
        // The sequential model: what is in use, and what each slot has, in numbers that cannot overflow.
        let mut in_use = 0i128;
        let mut spares = [0u128; LEASES];
        let wrapped = |number: i128| number as i64;
        for step in steps {
            match step {
                Step::Acquire { lease, n } => {
                    let before = counter.central();
                    counter.acquire(lease, n);
                    in_use += i128::from(n);
                    let suffice = spares[lease] >= u128::from(n);
                    if suffice {
                        spares[lease] -= u128::from(n);
                    }
                    let taken = counter.central().wrapping_sub(before);
                    prop_assert_eq!(taken, if suffice { 0 } else { n as i64 });
                }
                Step::Release { lease, n } => {
                    counter.release(lease, n);
                    in_use -= i128::from(n);
                    spares[lease] += u128::from(n);
                    if spares[lease] > u128::from(threshold) {
                        spares[lease] = u128::from(threshold / 2);
                    }
                }
                Step::Plain(n) => {
                    counter.central.fetch_add(n, Ordering::Relaxed);
                    in_use += i128::from(n);
                }
                Step::InUse => prop_assert_eq!(counter.in_use(), wrapped(in_use)),
                Step::Reconcile => {
                    prop_assert_eq!(counter.reconcile(), wrapped(in_use));
                    prop_assert_eq!(counter.central(), wrapped(in_use));
                    spares = [0; LEASES];
                }
            }
            // The invariant.
            let all: u128 = spares.iter().sum();
            prop_assert_eq!(counter.central(), wrapped(in_use + all as i128));
        }
        prop_assert_eq!(counter.in_use(), wrapped(in_use));
        let mut account = counter.account;
        counter.bank.close(&mut account, &counter.central);
        prop_assert_eq!(counter.central.into_inner(), wrapped(in_use));
    }
}

#[cfg(all(unix, not(miri)))]
#[path = "../../../tests/common/child.rs"]
mod child;

/// An owner that was about to look whether somebody forks is not there in the child, which forks itself.
#[cfg(all(unix, not(miri)))]
#[test]
fn nobody_in_a_child_waits_for_an_owner_that_was_about_to_look() {
    let _forks = forking();
    let world = World::new(4);
    let (begun, over) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lease = lease::mine().expect("there is one for each of these few threads");
            world.bank.begin_to_change(&world.account, lease);
            begun.wait();
            over.wait();
        });
        begun.wait();
        child::in_a_child(|| {
            world.bank.wait_before_a_fork(lease::mine(), world.mode);
            child::check(world.in_use() == 0, 1)
        });
        over.wait();
    });
}
