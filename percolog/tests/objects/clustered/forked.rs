//! A child finds every object to be called, whatever other threads were in the middle of.

use crate::clustered::interfaces::{Count, Counters, total};
use crate::common::child::{check, in_a_child};
use percolog::clustered::{self, ObjectRef, Placement, SwapPolicy};
use percolog::counter::Counter;
use percolog::cpu::{self, CoreId};
use percolog::reduce::{Reducer, Sum};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

fn create(placement: Placement) -> ObjectRef<dyn Count> {
    clustered::create(Counters::new(placement).0)
}

/// What a child must be able to do with an object and with another one.
fn use_all(object: ObjectRef<dyn Count>, other: ObjectRef<dyn Count>) -> Result<(), u8> {
    for it in [object, other] {
        check(it.call(|it| it.add(1)).is_ok(), 1)?;
        let before = it.call(|it| it.sum()).map_err(|_| 2)?;
        for policy in [SwapPolicy::Pass, SwapPolicy::Wait] {
            let swapped = it.swap(policy, |old| {
                Counters::with(Placement::EachSlot, total(old), Arc::default())
            });
            check(swapped.is_ok(), 3)?;
        }
        check(it.call(|it| it.sum()) == Ok(before), 4)?;
        check(it.inspect(|_| ()).is_ok(), 5)?;
        check(it.call(|it| it.add(1)).is_ok(), 6)?;
    }
    Ok(())
}

/// Forks while another thread is in the middle of something that lasts.
fn fork_during(object: ObjectRef<dyn Count>, lasting: impl FnOnce(&mut dyn FnMut()) + Send) {
    let other = create(Placement::EachSlot);
    object.call(|it| it.add(1)).unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (end, may_end) = mpsc::channel();
    // What is moved in here goes away if the child fails, and lets the other thread end.
    thread::scope(move |scope| {
        scope.spawn(move || {
            lasting(&mut || {
                begun.send(()).unwrap();
                may_end.recv().unwrap();
            });
        });
        has_begun.recv().unwrap();
        in_a_child(|| use_all(object, other));
        end.send(()).unwrap();
    });
    for it in [object, other] {
        assert!(it.call(|it| it.add(1)).is_ok());
        it.destroy().unwrap();
    }
}

#[test]
fn a_swap_that_another_thread_was_in_holds_nobody_back() {
    for policy in [SwapPolicy::Pass, SwapPolicy::Wait] {
        let object = create(Placement::EachSlot);
        fork_during(object, |pause| {
            object
                .swap(policy, |old| {
                    pause();
                    Counters::with(Placement::EachSlot, total(old), Arc::default())
                })
                .unwrap();
        });
    }
}

#[test]
fn a_look_that_another_thread_was_taking_holds_nobody_up() {
    let object = create(Placement::EachSlot);
    fork_during(object, |pause| object.inspect(|_| pause()).unwrap());
}

/// The thread that forks in the middle of a swap goes on with it on both sides.
#[test]
fn a_swap_goes_on_that_the_child_itself_is_in() {
    let object = create(Placement::EachSlot);
    object.call(|it| it.add(1)).unwrap();
    object
        .swap(SwapPolicy::Wait, |old| {
            in_a_child(|| {
                let nested = object.inspect(|_| ());
                check(nested == Err(clustered::ExchangeError::Nested), 1)
            });
            Counters::with(Placement::EachSlot, total(old), Arc::default())
        })
        .unwrap();
    assert_eq!(object.call(|it| it.sum()), Ok(1));
    object.destroy().unwrap();
}

/// Ends the other threads, also when an assertion fails.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread looks at all representatives, and begins a step; another one waits to make one, in a step; a third forks.
#[test]
fn a_fork_waits_for_who_looks_at_representatives_and_for_nobody_who_waits_for_it() {
    let object = create(Placement::EachSlot);
    let sum = Reducer::<Sum<u64>>::new();
    let calls = Counter::new();
    cpu::bind(CoreId::new(0));
    object.call(|it| it.add(1)).unwrap();
    cpu::unbind();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = AtTheEnd(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                object
                    .inspect(|now| {
                        let all = now.representatives::<Counters>().unwrap();
                        // Time for the others to come here and wait.
                        thread::yield_now();
                        // Steps.
                        let _ = sum.read();
                        let _ = calls.sum();
                        drop(all);
                    })
                    .unwrap();
            }
        });
        scope.spawn(|| {
            for slot in (0..64).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                cpu::bind(CoreId::new(slot));
                object.call(|it| it.add(1)).unwrap();
                if slot == 63 {
                    // All of them are made anew.
                    object
                        .swap(SwapPolicy::Pass, |_| {
                            Counters::with(Placement::EachSlot, 0, Arc::default())
                        })
                        .unwrap();
                }
            }
        });
        for _ in 0..100 {
            in_a_child(|| check(object.call(|it| it.add(1)).is_ok(), 1));
        }
    });
    object.destroy().unwrap();
}
