//! Deferred destruction.

use crate::clustered::interfaces::{Count, Counters, Watch, collect_until};
use crate::common::share::share;
use percolog::clustered::{self, ObjectRef, Placement, StaleRef};
use percolog::cpu::{self, CoreId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[test]
fn waits_for_calls_in_flight() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    let section = clustered::enter();
    let it = object.get(&section).unwrap();
    thread::spawn(move || object.destroy())
        .join()
        .unwrap()
        .unwrap();
    for _ in 0..100 {
        clustered::collect();
    }
    assert_eq!(watch.dropped(), 0);
    assert_eq!(it.add(3), 3);
    drop(section);
    collect_until(|| watch.dropped() == 1 && watch.roots_dropped.load(Ordering::SeqCst) == 1);
}

#[test]
fn an_object_may_destroy_itself() {
    trait Ends: Sync {
        fn end(&self, own: ObjectRef<dyn Ends>) -> Result<(), StaleRef>;
    }
    impl Ends for () {
        fn end(&self, own: ObjectRef<dyn Ends>) -> Result<(), StaleRef> {
            own.destroy()
        }
    }
    let object = clustered::create(clustered::Shared::new((), |it| it as &dyn Ends));
    assert_eq!(object.call(|it| it.end(object)), Ok(Ok(())));
    assert_eq!(object.call(|it| it.end(object)), Err(StaleRef));
}

#[test]
fn one_of_several_calls_destroys_it() {
    for _ in 0..200 {
        let (root, _) = Counters::new(Placement::One);
        let object = clustered::create(root);
        let done = thread::scope(|scope| {
            let calls: Vec<_> = (0..4)
                .map(|_| scope.spawn(move || object.destroy()))
                .collect();
            calls
                .into_iter()
                .map(|it| it.join().unwrap())
                .filter(Result::is_ok)
                .count()
        });
        assert_eq!(done, 1);
    }
}

/// Objects come and go, and are called by all threads all the time: none is used after its end, and each call that succeeds counts.
#[test]
fn destroyed_under_load() {
    let watch = Arc::<Watch>::default();
    let objects: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
    let replace = |at: usize| {
        let root = Counters::with(Placement::EachSlot, 0, watch.clone());
        let fresh = clustered::create(root);
        let old = objects[at].swap(fresh.to_bits(), Ordering::AcqRel);
        if let Ok(old) = ObjectRef::<dyn Count>::from_bits(old) {
            old.destroy().unwrap();
        }
    };
    (0..8).for_each(replace);
    let rounds = share(20_000);
    thread::scope(|scope| {
        for thread in 0..3_u32 {
            let objects = &objects;
            scope.spawn(move || {
                for round in 0..rounds {
                    cpu::bind(CoreId::new((thread + round as u32 / 64) % 4));
                    let bits = objects[round % 8].load(Ordering::Acquire);
                    if let Ok(object) = ObjectRef::<dyn Count>::from_bits(bits) {
                        let _ = object.call(|it| it.add(1));
                    }
                }
            });
        }
        for round in 0..rounds / 4 {
            replace(round % 8);
        }
    });
    for bits in &objects {
        let object = ObjectRef::<dyn Count>::from_bits(bits.load(Ordering::Acquire)).unwrap();
        object.destroy().unwrap();
    }
    collect_until(|| watch.dropped() == watch.made());
    assert!(watch.made() > 0);
}
