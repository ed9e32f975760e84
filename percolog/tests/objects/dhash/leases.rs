//! Distributed tables under more threads than there are leases, guards that outlive theirs, and guards that are forgotten. Each test has a process of its
//! own, since it minds which leases there are.

use crate::common::alone::alone;
use percolog::dhash::{DHash, Element};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, LazyLock};
use std::thread;

#[test]
fn more_threads_than_leases_share_tables() {
    alone!();
    const THREADS: u64 = 600;
    let table = DHash::<u64, u64, u64>::new(|_, _| 0);
    let sum = |key| {
        table
            .gather(&key, |_| 0, |sum, local| *sum += *local)
            .expect("no guard is out")
    };
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (table, barrier, sum) = (&table, &barrier, &sum);
            thread::Builder::new()
                .stack_size(128 << 10)
                .spawn_scoped(scope, move || {
                    drop(table.find_or_allocate_and_lock(&1, |_| 0));
                    // All have what they will have, leases or none.
                    barrier.wait();
                    for round in 0..20 {
                        let mut first = table
                            .find_or_allocate_and_lock(&1, |_| 0)
                            .expect("no guard is out");
                        *first += 1;
                        let mut second = table
                            .find_or_allocate_and_lock(&(2 + round), |_| 0)
                            .expect("it is another one");
                        *second += 1;
                        assert!(table.find_and_lock(&1).is_err());
                        assert!(table.gather(&1, |_| (), |_, _| ()).is_err());
                        drop(first);
                        if round == 10 && thread % 50 == 0 {
                            drop(second);
                            assert!(sum(1) >= Some(1));
                        }
                    }
                })
                .expect("the system has room for a thread");
        }
    });
    assert_eq!(sum(1), Some(THREADS * 20));
    for round in 0..20 {
        assert_eq!(sum(2 + round), Some(THREADS));
    }
}

/// A guard in a thread-local value, which finds out, when it is destroyed, whether another thread has come to the same place.
struct Late(Option<Element<'static, u64, (), u64>>);

static TABLE: LazyLock<DHash<u64, (), u64>> = LazyLock::new(|| DHash::new(|_, ()| 0));

/// How often nobody had.
static ALONE: AtomicUsize = AtomicUsize::new(0);

impl Drop for Late {
    fn drop(&mut self) {
        let Some(guard) = self.0.take() else {
            return;
        };
        let key = *guard.key();
        // The thread takes the smallest lease there is: this one's, if it was given back.
        let found = thread::spawn(move || {
            TABLE
                .find_or_allocate_and_lock(&key, |_| ())
                .map(|_| ())
                .is_ok()
        });
        if found.join().is_ok_and(|found| found) {
            ALONE.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_guard_may_outlive_its_threads_lease() {
    alone!();
    thread_local! {
        // One that is used before the table, and one that is used after it: one of them is destroyed when the lease is gone.
        static BEFORE: RefCell<Late> = const { RefCell::new(Late(None)) };
        static AFTER: RefCell<Late> = const { RefCell::new(Late(None)) };
    }
    let thread = thread::spawn(|| {
        BEFORE.with_borrow_mut(|late| late.0 = None);
        let lock = |key| {
            let guard = TABLE.find_or_allocate_and_lock(&key, |_| ());
            Some(guard.expect("no guard is out"))
        };
        BEFORE.with_borrow_mut(|late| late.0 = lock(1));
        AFTER.with_borrow_mut(|late| late.0 = lock(2));
    });
    thread.join().expect("no panic");
    assert_eq!(ALONE.load(Ordering::Relaxed), 2);
    // All guards are gone.
    assert!(TABLE.scatter(&1, |_| ()).is_ok_and(|parts| parts.is_some()));
}

/// With a guard that has outlived its lease, a thread goes on as with any other guard, and waits for nobody who waits for it.
#[test]
fn a_late_guard_is_known_to_its_thread() {
    alone!();
    static TABLE: LazyLock<DHash<u64, (), u64>> = LazyLock::new(|| DHash::new(|_, ()| 0));
    static CHECKED: AtomicUsize = AtomicUsize::new(0);
    struct Late(Option<Element<'static, u64, (), u64>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let guard = self.0.take();
            assert!(TABLE.gather(&1, |()| (), |(), _| ()).is_err());
            assert!(TABLE.find_and_lock(&1).is_err());
            let other = TABLE.find_and_lock(&2).expect("no guard of it is out");
            assert_eq!(other.as_deref(), Some(&7), "the thread's own part");
            drop(guard);
            assert!(TABLE.gather(&1, |()| (), |(), _| ()).is_err());
            drop(other);
            assert!(TABLE.gather(&1, |()| (), |(), _| ()).is_ok());
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
    }
    thread_local! {
        static LATE: RefCell<Late> = const { RefCell::new(Late(None)) };
    }
    let thread = thread::spawn(|| {
        // It is used before the table, so it is destroyed after the lease would be given back.
        LATE.with_borrow_mut(|late| {
            let lock = |key| {
                let guard = TABLE.find_or_allocate_and_lock(&key, |_| ());
                guard.expect("no guard is out")
            };
            *lock(2) += 7;
            late.0 = Some(lock(1));
        });
    });
    thread.join().expect("no panic");
    assert_eq!(CHECKED.load(Ordering::Relaxed), 1);
}

#[test]
fn leases_of_late_guards_are_given_back() {
    alone!();
    static TABLE: LazyLock<DHash<u64, (), u64>> = LazyLock::new(|| DHash::new(|_, ()| 0));
    thread_local! {
        static LATE: RefCell<Option<Element<'static, u64, (), u64>>> = const { RefCell::new(None) };
    }
    // More than there are leases, one after the other.
    for _ in 0..700 {
        let thread = thread::spawn(|| {
            // It is used before the table, so it is destroyed after the lease would be given back.
            LATE.with_borrow_mut(|late| {
                let guard = TABLE.find_or_allocate_and_lock(&1, |_| ());
                *late = Some(guard.expect("no guard is out"));
            });
        });
        thread.join().expect("no panic");
    }
    let tables = TABLE.stats().expect("no guard is out").tables;
    assert!(tables < 10, "{tables} threads' tables");
}

/// In what a gather calls, a thread without a lease is no more inside of a table than one that has a lease.
#[test]
fn a_gather_without_a_lease_lets_its_own_thread_in_nowhere() {
    static TABLE: LazyLock<DHash<u64, (), u64>> = LazyLock::new(|| DHash::new(|_, ()| 0));
    static CHECKED: AtomicUsize = AtomicUsize::new(0);
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            let add = || {
                let guard = TABLE.find_or_allocate_and_lock(&1, |_| ());
                *guard.expect("no guard is out") += 1;
            };
            add();
            let mut refused = 0;
            let visited = TABLE.gather(
                &1,
                |()| 0,
                |sum, local| {
                    refused += u64::from(TABLE.find_and_lock(&1).is_err());
                    *sum += *local;
                },
            );
            let sum = visited.expect("no guard is out").expect("it is there");
            assert_ne!((sum, refused), (0, 0));
            add();
            assert_eq!(
                TABLE.gather(&1, |()| 0, |sum, local| *sum += *local),
                Ok(Some(sum + 1))
            );
            CHECKED.fetch_add(1, Ordering::Relaxed);
        }
    }
    thread_local! {
        static BEFORE: Last = const { Last };
        static AFTER: Last = const { Last };
    }
    let thread = thread::spawn(|| {
        BEFORE.with(|_| ());
        drop(TABLE.find_or_allocate_and_lock(&1, |_| ()));
        AFTER.with(|_| ());
    });
    thread.join().expect("no panic");
    assert_eq!(CHECKED.load(Ordering::Relaxed), 2);
}

/// A thread without a lease forgets a guard, another one drops the table, and the first uses the next table at that address.
#[test]
fn a_forgotten_guard_is_none_of_the_next_table() {
    alone!();
    let all = Barrier::new(601);
    thread::scope(|scope| {
        for _ in 0..600 {
            let all = &all;
            thread::Builder::new()
                .stack_size(128 << 10)
                .spawn_scoped(scope, move || {
                    let mine = DHash::<u64, (), u64>::new(|_, ()| 0);
                    drop(mine.find_or_allocate_and_lock(&1, |_| ()));
                    // Leases are taken, and kept until the end.
                    all.wait();
                    all.wait();
                })
                .expect("the system has room for a thread");
        }
        all.wait();
        let without = scope.spawn(|| {
            for _ in 0..50 {
                let table = Box::new(DHash::<u64, (), u64>::new(|_, ()| 0));
                let guard = table.find_or_allocate_and_lock(&1, |_| ());
                drop(guard.expect("the table is new"));
                assert_eq!(table.gather(&1, |_| 0, |sum, _| *sum += 1), Ok(Some(1)));
                core::mem::forget(table.find_and_lock(&1));
                assert!(table.gather(&1, |()| (), |(), _| ()).is_err());
                thread::spawn(move || drop(table)).join().expect("no panic");
            }
        });
        let outcome = without.join();
        all.wait();
        outcome.expect("each table is a new one");
    });
}
