//! What cannot be seen from outside the crate.

use super::{NoVisit, Reentered, Shard, Shards};
use crate::cpu::LINE_SIZE;
use crate::cpu::lease::{self, COMMON, Who};
use crate::cpu::undivided::Step;
use crate::sync::atomic::{AtomicU32, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

type Sums = Shards<u64>;

impl Sums {
    fn update<R>(&self, who: Who, f: impl FnOnce(&mut u64) -> R) -> Result<R, Reentered> {
        let shard = match self.find(who) {
            Some(shard) => shard,
            None => self.make(who, || (0, ()))?,
        };
        // SAFETY: in each test one thread uses leases, whose shards nobody else knows.
        unsafe { self.with(who, shard, f) }
    }

    fn sum(&self) -> Result<u64, NoVisit> {
        self.visit(None, |_| 0, |sum, _, value| *sum += *value)
    }
}

#[test]
fn values_lie_on_lines_of_their_own() {
    let sums = Sums::new();
    let everybody = (0..4).map(Who::Leased).chain((0..4).map(Who::Common));
    let addresses: Vec<usize> = everybody
        .map(|who| sums.update(who, |value| core::ptr::from_mut(value).addr()))
        .map(|address| address.expect("nobody is inside"))
        .collect();
    for (at, address) in addresses.iter().enumerate() {
        let line = address / LINE_SIZE;
        assert!(
            addresses[..at]
                .iter()
                .all(|other| other / LINE_SIZE != line)
        );
        // The lock's words and the value begin on one line.
        assert!(address % LINE_SIZE <= 16);
    }
}

#[test]
fn a_shard_is_not_used_from_inside_itself() {
    let sums = Sums::new();
    for who in [Who::Leased(0), Who::Common(0)] {
        let inside = sums.update(who, |value| {
            *value += 1;
            let again = sums.update(who, |value| *value += 100);
            let visit = sums.visit(Some(0), |_| (), |(), _, _| ());
            (again, visit)
        });
        assert_eq!(inside, Ok((Err(Reentered), Err(NoVisit::Reentered))));
    }
    // Another one is free.
    let other = sums.update(Who::Common(1), |_| {
        sums.update(Who::Common(2), |value| *value += 10)
    });
    assert_eq!(other, Ok(Ok(())));
    assert_eq!(sums.sum(), Ok(12));
}

#[test]
fn a_visitor_does_not_wait_for_itself() {
    let sums = Sums::new();
    for who in [Who::Leased(0), Who::Common(0)] {
        assert_eq!(sums.update(who, |value| *value += 1), Ok(()));
    }
    // The shard being visited, one that is there, and one that is not.
    for number in [0, 1] {
        for who in [Who::Leased(number), Who::Common(number)] {
            let visit = sums.visit(
                Some(0),
                |_| Vec::new(),
                |seen, at, _| {
                    if at == 0 {
                        seen.push(sums.update(who, |value| *value += 100));
                        assert_eq!(sums.sum(), Err(NoVisit::Reentered));
                    }
                },
            );
            assert_eq!(visit, Ok(std::vec![Err(Reentered)]));
        }
    }
    assert_eq!(sums.sum(), Ok(2));
}

/// Also where no common shard is: the gate alone says who visits.
#[test]
fn what_is_visited_is_not_what_the_visitor_has_entered() {
    for there in [Who::Leased(0), Who::Common(0)] {
        let sums = Sums::new();
        assert_eq!(sums.update(there, |value| *value += 1), Ok(()));
        let visit = sums.visit_all(
            None,
            |_| assert!(sums.entered().is_none()),
            || (sums.update(there, |_| ()), sums.entered().is_none()),
        );
        assert_eq!(visit, Ok((Err(Reentered), true)));
        assert_eq!(sums.sum(), Ok(1));
    }
}

/// What it would wait for may wait for it: another thread inside a common shard, a visitor, who makes a shard while one visits.
#[test]
fn nobody_waits_inside_a_common_shard() {
    let sums = Sums::new();
    let [come, done] = [(); 2].map(|()| std::sync::Barrier::new(2));
    let (mine, others, nobodys) = (Who::Common(0), Who::Common(1), Who::Common(2));
    for who in [mine, others] {
        assert_eq!(sums.update(who, |_| ()), Ok(()));
    }
    // One that is free is entered, and one that is not there is made.
    for free in [others, nobodys] {
        let update = sums.update(mine, |_| sums.update(free, |value| *value += 1));
        assert_eq!(update, Ok(Ok(())));
    }
    std::thread::scope(|scope| {
        let (sums, entered, done) = (&sums, &come, &done);
        let other = scope.spawn(move || {
            sums.update(others, |_| {
                entered.wait();
                done.wait();
            })
        });
        entered.wait();
        let update = sums.update(mine, |_| sums.update(others, |_| ()));
        done.wait();
        assert_eq!(other.join().expect("no panic"), Ok(()));
        assert_eq!(update, Ok(Err(Reentered)));
    });
    std::thread::scope(|scope| {
        let (sums, closed, done) = (&sums, &come, &done);
        let update = sums.update(mine, |_| {
            let visitor = scope.spawn(move || {
                let prepare = |_| {
                    closed.wait();
                    done.wait();
                };
                sums.visit(None, prepare, |(), _, _| ())
            });
            closed.wait();
            let made = [Who::Common(3), Who::Leased(3)].map(|who| sums.update(who, |_| ()));
            done.wait();
            (visitor, made)
        });
        let (visitor, made) = update.expect("it was free");
        assert_eq!(visitor.join().expect("no panic"), Ok(()));
        assert_eq!(made, [Err(Reentered); 2]);
    });
    assert_eq!(sums.sum(), Ok(2));
}

#[test]
fn a_leased_shard_has_no_turn() {
    let sums = Sums::new();
    let who = Who::Leased(0);
    assert_eq!(sums.update(who, |_| ()), Ok(()));
    let shard = sums.find(who).expect("it was just used");
    let entered = catch_unwind(AssertUnwindSafe(|| sums.enter_common(shard).is_ok()));
    assert!(entered.is_err());
    assert_eq!(sums.update(who, |value| *value), Ok(0));
}

#[test]
fn a_panic_leaves_everything() {
    let sums = Sums::new();
    for who in [Who::Leased(0), Who::Common(0)] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            sums.update(who, |_| panic!("on purpose"))
        }));
        assert!(outcome.is_err());
        assert_eq!(sums.update(who, |value| *value += 1), Ok(()));
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        sums.visit(None, |_| (), |(), at, _| assert_eq!(at, 0))
    }));
    assert!(outcome.is_err());
    assert_eq!(sums.sum(), Ok(2));
}

/// What a thread is inside of is recorded in the shard, and not by its address.
#[test]
fn a_forgotten_guard_says_nothing_of_the_next_object() {
    let mut sums = Sums::new();
    let who = Who::Common(0);
    assert_eq!(sums.update(who, |_| ()), Ok(()));
    let shard = sums.find(who).expect("it was just used");
    core::mem::forget(sums.enter_common(shard));
    assert!(sums.entered().is_some());
    assert_eq!(sums.update(who, |_| ()), Err(Reentered));
    // Another thread's guard is not taken for its own.
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(sums.entered().is_none()));
    });
    // Freed with the turn taken. The next one may come to lie there.
    sums = Sums::new();
    assert_eq!(sums.update(who, |value| *value), Ok(0));
    assert!(sums.entered().is_none());
    assert_eq!(sums.sum(), Ok(0));
    // SAFETY: the forgotten guard's. Other tests fork, which waits for it.
    drop(unsafe { Step::resume() });
}

#[test]
fn threads_without_a_lease_share() {
    const THREADS: usize = 2 * COMMON;
    const ROUNDS: usize = crate::sync::rounds(200);
    let sums = Sums::new();
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..THREADS)
            .map(|number| {
                let sums = &sums;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let who = Who::Common(number % COMMON);
                        assert_eq!(sums.update(who, |value| *value += 1), Ok(()));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut before = 0;
            while done.load(Ordering::Relaxed) == 0 {
                let now = sums.sum().expect("the kernel does what it offers");
                assert!(now >= before);
                before = now;
            }
        });
        for adder in adders {
            adder.join().expect("no panic");
        }
        done.store(1, Ordering::Relaxed);
    });
    assert_eq!(sums.sum(), Ok((ROUNDS * THREADS) as u64));
}

/// A thread that is inside a leased shard when it has no lease any more does not wait for itself: not for a visitor, in a visit of
/// its own, or in a step, a `fork` or the end of one that waits for it.
// Miri has no `fork`.
#[cfg(all(unix, not(miri)))]
#[test]
fn a_thread_is_inside_its_shard_without_its_lease() {
    use crate::cpu::process::in_tests::{forking, succeeds};
    use crate::cpu::undivided::{is_forking, undivided};

    static SUMS: Sums = Sums::new();
    static CHECKED: AtomicU32 = AtomicU32::new(0);

    struct Late(core::cell::Cell<Option<&'static Shard<u64, ()>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            assert!(lease::mine().is_none(), "it is late");
            let shard = self.0.take().expect("the thread has entered");
            let is_inside = || SUMS.entered().is_some_and(|it| core::ptr::eq(it, shard));
            assert!(is_inside());
            assert_eq!(SUMS.sum(), Err(NoVisit::Reentered));
            std::thread::scope(|scope| {
                // Nobody else is.
                let other = scope.spawn(|| SUMS.entered().is_none());
                assert_eq!(other.join().ok(), Some(true));
            });
            assert!(succeeds(is_inside));
            std::thread::scope(|scope| {
                let other = scope.spawn(|| succeeds(|| true));
                // It waits for this thread.
                while !is_forking() {
                    std::thread::yield_now();
                }
                undivided(|| ());
                // SAFETY: the thread is inside, and is done.
                unsafe { shard.leave() };
                assert_eq!(other.join().ok(), Some(true));
            });
            assert!(SUMS.entered().is_none());
            assert_eq!(SUMS.sum(), Ok(0));
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
    }
    std::thread_local! {
        static LATE: Late = const { Late(core::cell::Cell::new(None)) };
    }
    // Before anybody is inside: other forks wait for that.
    let _forks = forking();
    std::thread::spawn(|| {
        // Touched first, so destroyed last.
        LATE.with(|late| {
            late.0.set(Some(enter_and_keep(&SUMS)));
        });
    })
    .join()
    .expect("no panic");
    assert_eq!(CHECKED.load(Ordering::Relaxed), 1);
}

/// Enters the calling thread's shard, with a guard that may outlive its lease.
#[cfg(unix)]
fn enter_and_keep(sums: &'static Sums) -> &'static Shard<u64, ()> {
    let lease = lease::mine().expect("leases are given back");
    let who = Who::Leased(lease);
    let shard = match sums.find(who) {
        Some(shard) => shard,
        None => sums.make(who, || (0, ())).expect("nobody visits here"),
    };
    lease::expect_guards(lease);
    // SAFETY: this thread has the lease, and a late lease is kept until the shard is left.
    unsafe { sums.own(shard) }
        .expect("nobody visits here")
        .keep();
    shard
}

/// A thread-local value that holds a guard and is destroyed after the thread has given up its lease.
#[cfg(unix)]
#[test]
fn leases_of_guards_that_end_late_are_given_back() {
    struct Late(core::cell::Cell<Option<&'static Shard<u64, ()>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            assert!(lease::mine().is_none(), "it is late");
            let shard = self.0.take().expect("the thread has entered");
            // SAFETY: the thread is inside, and is done.
            unsafe { shard.leave() };
        }
    }
    std::thread_local! {
        static LATE: Late = const { Late(core::cell::Cell::new(None)) };
    }
    static SUMS: Sums = Sums::new();
    for _ in 0..crate::sync::rounds(lease::LEASES + 100) {
        std::thread::spawn(|| {
            // Touched first, so destroyed last.
            LATE.with(|late| {
                late.0.set(Some(enter_and_keep(&SUMS)));
            });
        })
        .join()
        .expect("no panic");
    }
}
