//! Implementations that are exchanged under load.

use crate::clustered::interfaces::{Count, Counters, Watch, collect_until, total};
use crate::common::share::share;
use percolog::clustered::{self, ExchangeError, ObjectRef, Placement, Shared, SwapPolicy};
use percolog::cpu::{self, CoreId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const PLACEMENTS: [Placement; 3] = [Placement::One, Placement::EachSlot, Placement::Every(2)];

/// Swaps an object while threads call it; each call that returned is counted in the end.
fn count_through(swaps: usize, policy: SwapPolicy, threads: u32) {
    let watch = Arc::<Watch>::default();
    let object: ObjectRef<dyn Count> =
        clustered::create(Counters::with(Placement::One, 0, watch.clone()));
    let stop = AtomicBool::new(false);
    let called = AtomicU64::new(0);
    let left_behind = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (stop, called) = (&stop, &called);
            scope.spawn(move || {
                let mut calls = 0;
                loop {
                    cpu::bind(CoreId::new((thread + calls as u32 / 32) % 4));
                    object.call(|it| it.add(1)).unwrap();
                    calls += 1;
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                called.fetch_add(calls, Ordering::Relaxed);
            });
        }
        for round in 0..swaps {
            object
                .swap(policy, |old| {
                    let placement = PLACEMENTS[round % PLACEMENTS.len()];
                    Counters::with(placement, total(old), watch.clone())
                })
                .unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let counted = object.call(|it| it.sum()).unwrap() + left_behind.load(Ordering::Relaxed);
    assert_eq!(counted, called.load(Ordering::Relaxed), "{swaps} swaps");
    assert!(counted > 0);
    object.destroy().unwrap();
    collect_until(|| watch.dropped() == watch.made());
}

#[test]
fn no_call_is_lost_where_callers_wait() {
    count_through(share(4_000), SwapPolicy::Wait, 3);
}

/// Where calls pass, what they count meanwhile is handed on by the old implementation when it is dropped.
#[test]
fn no_call_is_lost_in_a_million_swaps() {
    struct Handing {
        count: AtomicU64,
        to: Arc<AtomicU64>,
    }
    trait Hits: Sync {
        fn hit(&self);
    }
    impl Hits for Handing {
        fn hit(&self) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
    impl Drop for Handing {
        fn drop(&mut self) {
            let count = self.count.load(Ordering::Relaxed);
            self.to.fetch_add(count, Ordering::Relaxed);
        }
    }
    let total = Arc::new(AtomicU64::new(0));
    let handing = {
        let total = total.clone();
        move || {
            let to = total.clone();
            let count = AtomicU64::new(0);
            Shared::new(Handing { count, to }, |it| it as &dyn Hits)
        }
    };
    let object = clustered::create(handing());
    let swaps = share(1_000_000);
    let stop = AtomicBool::new(false);
    let called = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut calls = 0;
                loop {
                    object.call(|it| it.hit()).unwrap();
                    calls += 1;
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                called.fetch_add(calls, Ordering::Relaxed);
            });
        }
        for _ in 0..swaps {
            object.swap(SwapPolicy::Pass, |_| handing()).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    object.destroy().unwrap();
    let called = called.load(Ordering::Relaxed);
    assert!(called > 0);
    collect_until(|| total.load(Ordering::Relaxed) >= called);
    assert_eq!(total.load(Ordering::Relaxed), called);
}

#[test]
fn a_call_in_flight_finishes_on_the_old_one() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    let section = clustered::enter();
    let old = object.get(&section).unwrap();
    object
        .swap(SwapPolicy::Pass, |_| {
            Counters::with(Placement::EachSlot, 100, watch.clone())
        })
        .unwrap();
    assert_eq!(old.add(1), 1);
    assert_eq!(object.get(&section).unwrap().add(1), 101);
    assert_eq!(watch.dropped(), 0);
    drop(section);
    collect_until(|| watch.dropped() == 1);
    object.destroy().unwrap();
}

/// A section that was open before may have the old implementation: its calls go on to it, and the swap waits for it.
#[test]
fn a_section_that_is_older_than_the_swap_does_not_wait_for_it() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    let swapping = AtomicBool::new(false);
    let is_made = AtomicBool::new(false);
    thread::scope(|scope| {
        let section = clustered::enter();
        let old = object.get(&section).unwrap();
        scope.spawn(|| {
            swapping.store(true, Ordering::SeqCst);
            object
                .swap(SwapPolicy::Wait, |old| {
                    is_made.store(true, Ordering::SeqCst);
                    Counters::with(Placement::EachSlot, total(old), watch.clone())
                })
                .unwrap();
        });
        while !swapping.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let calls = share(2_000) as u64;
        for call in 0..calls {
            assert!(
                !is_made.load(Ordering::SeqCst),
                "the section was not waited for"
            );
            // Also on slots where nothing was bound.
            cpu::bind(CoreId::new(call as u32 % 3));
            object.get(&section).unwrap().add(1);
        }
        cpu::unbind();
        old.add(1);
        let _ = old;
        drop(section);
    });
    assert_eq!(object.call(|it| it.sum()), Ok(share(2_000) as u64 + 1));
    object.destroy().unwrap();
}

#[test]
fn swaps_that_wait_and_swaps_that_pass_and_calls_of_several_objects() {
    let watch = Arc::<Watch>::default();
    let objects: Vec<ObjectRef<dyn Count>> = (0..3)
        .map(|_| clustered::create(Counters::with(Placement::EachSlot, 0, watch.clone())))
        .collect();
    let objects = &objects[..];
    let rounds = share(2_000);
    let watch = &watch;
    thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for round in 0..rounds {
                    let section = clustered::enter();
                    // All of them in one section, in different orders.
                    for step in 0..3 {
                        objects[(thread + step * (1 + round % 2)) % 3]
                            .get(&section)
                            .unwrap()
                            .add(1);
                    }
                }
            });
            scope.spawn(move || {
                for round in 0..rounds / 10 {
                    let policy = if round % 7 == 6 {
                        SwapPolicy::Pass
                    } else {
                        SwapPolicy::Wait
                    };
                    let other = objects[(thread + 1) % 3];
                    objects[thread]
                        .swap(policy, |old| {
                            // A call of another object that is being swapped, too.
                            let _ = other.call(|it| it.number());
                            let carried = if policy == SwapPolicy::Wait {
                                total(old)
                            } else {
                                0
                            };
                            Counters::with(
                                Placement::Every(1 + round as u32 % 3),
                                carried,
                                watch.clone(),
                            )
                        })
                        .unwrap();
                }
            });
        }
    });
    for object in objects {
        object.destroy().unwrap();
    }
    collect_until(|| watch.dropped() == watch.made());
}

#[test]
fn a_panic_leaves_everything_as_it_was() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    object.call(|it| it.add(7)).unwrap();
    for policy in [SwapPolicy::Pass, SwapPolicy::Wait] {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            object.swap(policy, |_| -> Counters { panic!("no new one") })
        }));
        assert!(panicked.is_err());
        assert_eq!(object.call(|it| it.sum()), Ok(7), "{policy:?}");
    }
    assert_eq!(watch.dropped(), 0);
    object
        .swap(SwapPolicy::Wait, |old| {
            Counters::with(Placement::One, total(old), watch.clone())
        })
        .unwrap();
    assert_eq!(object.call(|it| it.sum()), Ok(7));
    object.destroy().unwrap();
}

#[test]
fn what_cannot_be_done_is_said() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    let another = || Counters::with(Placement::One, 0, watch.clone());
    {
        let _section = clustered::enter();
        let refused = object.swap(SwapPolicy::Wait, |_| another());
        assert_eq!(refused, Err(ExchangeError::InSection));
    }
    for policy in [SwapPolicy::Pass, SwapPolicy::Wait] {
        object
            .swap(policy, |_| {
                let nested = object.swap(SwapPolicy::Pass, |_| another());
                assert_eq!(nested, Err(ExchangeError::Nested));
                assert_eq!(object.inspect(|_| ()), Err(ExchangeError::Nested));
                another()
            })
            .unwrap();
    }
    // Its callers wait for the thread that calls it here.
    let itself = catch_unwind(AssertUnwindSafe(|| {
        object.swap(SwapPolicy::Wait, |_| {
            let _ = object.call(|it| it.sum());
            another()
        })
    }));
    assert!(itself.is_err());
    assert_eq!(object.call(|it| it.add(1)), Ok(1));
    let destroyed_meanwhile = object.swap(SwapPolicy::Wait, |_| {
        object.destroy().unwrap();
        another()
    });
    assert_eq!(destroyed_meanwhile, Err(ExchangeError::Stale));
    assert_eq!(
        object.swap(SwapPolicy::Pass, |_| another()),
        Err(ExchangeError::Stale)
    );
}
