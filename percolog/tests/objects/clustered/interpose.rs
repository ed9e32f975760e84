//! Interposers: they count, they trace, they refuse.

use crate::clustered::interfaces::{Counters, collect_until};
use percolog::clustered::{
    self, Call, CallRejected, ExchangeError, Interposer, Placement, SwapPolicy,
};
use percolog::counter::Counter;
use percolog::cpu::{self, CoreId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
struct Calls {
    begun: Counter,
    ended: Counter,
}

impl Interposer for Calls {
    fn before(&self, _: &Call) -> Result<(), CallRejected> {
        self.begun.increment();
        Ok(())
    }

    fn after(&self, _: &Call) {
        self.ended.increment();
    }
}

#[test]
fn a_counting_one_sees_each_call() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    object.call(|it| it.add(1)).unwrap();
    let calls = Arc::<Calls>::default();
    let counting = object.interpose(calls.clone()).unwrap();
    thread::scope(|scope| {
        for slot in 0..4 {
            scope.spawn(move || {
                cpu::bind(CoreId::new(slot));
                for _ in 0..1_000 {
                    object.call(|it| it.add(1)).unwrap();
                }
            });
        }
        // Also through swaps.
        for _ in 0..20 {
            object
                .swap(SwapPolicy::Wait, |old| {
                    Counters::with(
                        Placement::EachSlot,
                        crate::clustered::interfaces::total(old),
                        watch.clone(),
                    )
                })
                .unwrap();
        }
    });
    assert_eq!((calls.begun.sum(), calls.ended.sum()), (4_000, 4_000));
    object.remove_interposer(counting).unwrap();
    assert_eq!(object.call(|it| it.sum()), Ok(4_001));
    assert_eq!(calls.begun.sum(), 4_000);
    assert_eq!(
        object.remove_interposer(counting),
        Err(ExchangeError::NoSuchInterposer)
    );
    object.destroy().unwrap();
    collect_until(|| Arc::strong_count(&calls) == 1 && watch.dropped() == watch.made());
}

#[test]
fn a_refusing_one_is_asked_before_those_behind_it() {
    let (root, _) = Counters::new(Placement::One);
    let object = clustered::create(root);
    let trace = Arc::new(Mutex::new(Vec::new()));
    let noting = |name: &'static str| {
        let trace = trace.clone();
        Arc::new(move |call: &Call| {
            trace
                .lock()
                .unwrap()
                .push((name, call.method(), call.object()));
            Ok(())
        })
    };
    object.interpose(noting("inner")).unwrap();
    let closed = Arc::new(AtomicBool::new(true));
    let door = {
        let closed = closed.clone();
        Arc::new(move |call: &Call| match call.method() {
            "add" if closed.load(Ordering::Relaxed) => call.reject("closed"),
            _ => Ok(()),
        })
    };
    let door = object.interpose(door).unwrap();
    object.interpose(noting("outer")).unwrap();
    assert_eq!(
        object.call(|it| it.add(1)),
        Ok(u64::MAX),
        "what was declared for refused calls"
    );
    assert_eq!(object.call(|it| it.sum()), Ok(0));
    closed.store(false, Ordering::Relaxed);
    assert_eq!(object.call(|it| it.add(1)), Ok(1));
    object.remove_interposer(door).unwrap();
    assert_eq!(object.call(|it| it.add(1)), Ok(2));
    let bits = object.to_bits();
    let expected = [
        ("outer", "add"),
        ("outer", "sum"),
        ("inner", "sum"),
        ("outer", "add"),
        ("inner", "add"),
        ("outer", "add"),
        ("inner", "add"),
    ]
    .map(|(name, method)| (name, method, bits));
    assert_eq!(*trace.lock().unwrap(), expected);
    object.destroy().unwrap();
}

#[test]
fn the_end_of_a_call_that_panics_is_told() {
    trait Fails: Sync {
        fn fail(&self);
    }
    percolog::interposable! {
        impl Fails {
            fn fail(&self);
        }
    }
    impl Fails for () {
        fn fail(&self) {
            panic!("as it must");
        }
    }
    let object = clustered::create(clustered::Shared::new((), |it| it as &dyn Fails));
    let calls = Arc::<Calls>::default();
    object.interpose(calls.clone()).unwrap();
    assert!(
        thread::spawn(move || object.call(|it| it.fail()))
            .join()
            .is_err()
    );
    assert_eq!((calls.begun.sum(), calls.ended.sum()), (1, 1));
    object
        .interpose(Arc::new(|call: &Call| call.reject("no more")))
        .unwrap();
    assert_eq!(object.call(|it| it.fail()), Ok(()), "it has no effect");
    object.destroy().unwrap();
}

#[test]
fn one_that_lets_all_pass_changes_no_answer() {
    percolog::interposable! {
        trait Shape: Sync {
            fn area(&self) -> u64 => 0;
            /// Overridden below.
            fn corners(&self) -> u64 { 4 } => 0;
            fn doubled(&self, times: u32) -> u64 {
                self.area() << times
            } => 0;
        }
    }
    struct Triangle;
    impl Shape for Triangle {
        fn area(&self) -> u64 {
            6
        }

        fn corners(&self) -> u64 {
            3
        }
    }
    let object = clustered::create(clustered::Shared::new(Triangle, |it| it as &dyn Shape));
    let answers = || object.call(|it| (it.area(), it.corners(), it.doubled(2)));
    assert_eq!(answers(), Ok((6, 3, 24)));
    let calls = Arc::<Calls>::default();
    object.interpose(calls.clone()).unwrap();
    assert_eq!(answers(), Ok((6, 3, 24)));
    assert_eq!(
        calls.begun.sum(),
        3,
        "what a method of the target calls is no call of the object"
    );
    object.destroy().unwrap();
}

#[test]
fn put_in_and_taken_away_under_load() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    let rounds = crate::common::share::share(2_000) as u64;
    thread::scope(|scope| {
        let stop = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let stop = stop.clone();
                scope.spawn(move || {
                    let mut calls = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        object.call(|it| it.add(1)).unwrap();
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        for _ in 0..rounds {
            let calls = Arc::<Calls>::default();
            let counting = object.interpose(calls).unwrap();
            object.remove_interposer(counting).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        let called: u64 = callers.into_iter().map(|it| it.join().unwrap()).sum();
        assert_eq!(object.call(|it| it.sum()), Ok(called));
    });
    object.destroy().unwrap();
    collect_until(|| watch.dropped() == watch.made());
}

/// While a swap holds calls back, those of open sections are not bound: each finds its way anew, and makes nothing that was made before.
#[test]
fn calls_that_go_on_while_others_wait_make_no_more_interposers() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    let interposer: Arc<dyn Interposer> = Arc::new(|_: &Call| Ok(()));
    object.interpose(interposer.clone()).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        cpu::bind(CoreId::new(0));
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                object
                    .swap(SwapPolicy::Wait, |_| {
                        Counters::with(Placement::EachSlot, 0, watch.clone())
                    })
                    .unwrap();
            }
        });
        let section = loop {
            let section = clustered::enter();
            object.get(&section).unwrap().add(1);
            // Bindings are taken away when a swap begins. One that waits for another test's does not begin: that waits for this section.
            let begins = |_| {
                thread::yield_now();
                object.bound_slots() == Ok(0)
            };
            if (0..1_000).any(begins) {
                break section;
            }
        };
        done.store(true, Ordering::Relaxed);
        let before = Arc::strong_count(&interposer);
        for _ in 0..1_000 {
            object.get(&section).unwrap().add(1);
        }
        // One in front of the only representative.
        assert!(Arc::strong_count(&interposer) <= before + 1);
        drop(section);
        cpu::unbind();
    });
    object.destroy().unwrap();
}
