//! What a reducer promises of its shares: re-entrance, panics, thread exit, drop.

use percolog::cpu::{self, CoreId};
use percolog::reduce::{Merge, Reducer, Sum};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

static STATIC: Reducer<Sum<u64>> = Reducer::new();

#[test]
fn a_reducer_may_be_static_and_of_what_may_only_be_sent() {
    #[derive(Default)]
    struct Sent(Cell<u32>);
    impl Merge for Sent {
        fn merge(&mut self, other: &Self) {
            self.0.set(self.0.get() + other.0.get());
        }
    }
    fn common<T: Default + std::fmt::Debug + Send + Sync>() {}
    common::<Reducer<Sent>>();
    let sent: Reducer<Sent> = Reducer::new();
    sent.update(|share| share.0.set(7));
    assert_eq!(sent.read().0.get(), 7);

    thread::spawn(|| STATIC.update(|share| share.add(1)))
        .join()
        .expect("no panic");
    assert_eq!(STATIC.update(|_| "an answer"), "an answer");
    let mut more = Sum(10);
    STATIC.try_read_into(&mut more).expect("not refused");
    assert_eq!((STATIC.try_read(), more), (Ok(Sum(1)), Sum(11)));
    assert_eq!((STATIC.try_take(), STATIC.read()), (Ok(Sum(1)), Sum(0)));
    assert_eq!(format!("{STATIC:?}"), "Reducer { .. }");
}

#[test]
fn use_from_inside_an_update_panics_and_harms_nothing() {
    let reducer: Reducer<Sum<u64>> = Reducer::new();
    let uses: [&dyn Fn(); 3] = [
        &|| reducer.update(|share| share.add(100)),
        &|| _ = reducer.read(),
        &|| _ = reducer.take(),
    ];
    for inner in uses {
        // Caught inside: the update goes on.
        reducer.update(|share| {
            share.add(1);
            assert!(catch_unwind(AssertUnwindSafe(inner)).is_err());
            share.add(1);
        });
        // Caught outside: what was done stays.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            reducer.update(|share| {
                share.add(1);
                inner();
            });
        }));
        assert!(outcome.is_err());
    }
    assert_eq!(reducer.read(), Sum(9));
    // Another reducer is none of its business.
    let other: Reducer<Sum<u64>> = Reducer::new();
    reducer.update(|share| other.update(|others| others.add(share.0)));
    assert_eq!(other.into_inner(), Sum(9));
}

/// Also where a thread without a lease comes to another share meanwhile.
#[test]
fn a_thread_that_has_changed_its_slot_uses_no_second_share() {
    static REDUCER: Reducer<Sum<u64>> = Reducer::new();
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            let add = |slot| {
                cpu::bind(CoreId::new(slot));
                REDUCER.update(|share| share.add(1));
            };
            add(1);
            add(2);
            let inner = || {
                REDUCER.update(|_| {
                    add(1);
                });
            };
            if catch_unwind(inner).is_err() {
                REFUSED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    thread_local! {
        static EARLY: Last = const { Last };
        static LATE: Last = const { Last };
    }
    thread::spawn(|| {
        EARLY.with(|_| ());
        REDUCER.update(|share| share.add(1));
        LATE.with(|_| ());
    })
    .join()
    .expect("no panic");
    assert_eq!(REFUSED.load(Ordering::Relaxed), 2);
    assert_eq!(REDUCER.read(), Sum(5));
}

/// Making a share may use the reducer, and so make the share itself.
#[test]
fn a_share_that_is_not_needed_is_dropped_where_its_destructor_may_read() {
    static REDUCER: Reducer<Curious> = Reducer::new();
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static READ: AtomicUsize = AtomicUsize::new(0);
    #[derive(Debug)]
    struct Curious {
        number: usize,
        sum: u32,
    }
    impl Default for Curious {
        fn default() -> Self {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            if number == 0 {
                REDUCER.update(|share| share.sum += 1);
            }
            Self { number, sum: 0 }
        }
    }
    impl Drop for Curious {
        fn drop(&mut self) {
            if self.number == 0 {
                READ.store(REDUCER.read().sum as usize, Ordering::Relaxed);
            }
        }
    }
    impl Merge for Curious {
        fn merge(&mut self, other: &Self) {
            self.sum += other.sum;
        }
    }
    REDUCER.update(|share| {
        assert_eq!((share.number, share.sum), (1, 1));
        share.sum += 1;
    });
    assert_eq!(READ.load(Ordering::Relaxed), 1);
    assert_eq!(REDUCER.read().sum, 2);
}

#[test]
fn a_merge_that_panics_lets_everybody_in_again() {
    static UNLUCKY: AtomicBool = AtomicBool::new(true);
    #[derive(Default)]
    struct Fragile(u32);
    impl Merge for Fragile {
        fn merge(&mut self, other: &Self) {
            assert!(!UNLUCKY.load(Ordering::Relaxed));
            self.0 += other.0;
        }
    }
    let reducer: Reducer<Fragile> = Reducer::new();
    let add_here_and_elsewhere = || {
        reducer.update(|share| share.0 += 1);
        thread::scope(|scope| {
            scope.spawn(|| reducer.update(|share| share.0 += 1));
        });
    };
    add_here_and_elsewhere();
    assert!(catch_unwind(AssertUnwindSafe(|| _ = reducer.read())).is_err());
    add_here_and_elsewhere();
    UNLUCKY.store(false, Ordering::Relaxed);
    assert_eq!(reducer.read().0, 4);
    // So does one that uses the reducer itself.
    static SELF: Reducer<Selfish> = Reducer::new();
    #[derive(Default)]
    struct Selfish(u32);
    impl Merge for Selfish {
        fn merge(&mut self, other: &Self) {
            SELF.update(|share| share.0 += 1);
            self.0 += other.0;
        }
    }
    SELF.update(|share| share.0 += 1);
    assert!(catch_unwind(|| _ = SELF.read()).is_err());
    SELF.update(|share| assert_eq!(share.0, 1));
}

#[test]
fn a_destructor_of_a_thread_local_value_finds_a_share() {
    static REDUCER: Reducer<Sum<u64>> = Reducer::new();
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            REDUCER.update(|share| share.add(1));
            assert!(REDUCER.read() >= Sum(1));
        }
    }
    thread_local! {
        static EARLY: Last = const { Last };
        static LATE: Last = const { Last };
    }
    for _ in 0..3 {
        thread::spawn(|| {
            // Destructors run in one order or the other: one of the two has given its lease back.
            EARLY.with(|_| ());
            REDUCER.update(|share| share.add(1));
            LATE.with(|_| ());
        })
        .join()
        .expect("no panic");
    }
    assert_eq!(REDUCER.read(), Sum(9));
}

#[test]
fn every_share_is_dropped_once() {
    #[derive(Default)]
    struct Held(Option<Arc<AtomicUsize>>);
    impl Merge for Held {
        fn merge(&mut self, other: &Self) {
            self.0 = self.0.take().or(other.0.clone());
        }
    }
    let live = Arc::new(AtomicUsize::new(0));
    let reducer: Reducer<Held> = Reducer::new();
    let barrier = std::sync::Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                reducer.update(|share| share.0 = Some(live.clone()));
                barrier.wait();
            });
        }
    });
    // One for each share, and the test's own.
    assert_eq!(Arc::strong_count(&live), 5);
    drop(reducer.take());
    assert_eq!(Arc::strong_count(&live), 1);
    reducer.update(|share| share.0 = Some(live.clone()));
    drop(reducer);
    assert_eq!(Arc::strong_count(&live), 1);
    assert_eq!(live.load(Ordering::Relaxed), 0);
}
