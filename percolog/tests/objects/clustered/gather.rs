//! Scatter and gather, and who comes late.

use percolog::clustered::{self, Place, Placement, Root, Siblings};
use percolog::cpu::{self, CoreId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// A setting that each representative has a copy of, and the root the original.
trait Setting: Sync {
    fn get(&self) -> u64;
    /// Sets all copies; how many there were.
    fn set(&self, value: u64) -> usize;
    /// All copies.
    fn all(&self) -> Vec<u64>;
}

struct Copy {
    value: AtomicU64,
    original: Arc<AtomicU64>,
    siblings: Siblings<Copy>,
}

impl Setting for Copy {
    fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    fn set(&self, value: u64) -> usize {
        self.siblings
            .visit(|all| {
                self.original.store(value, Ordering::Relaxed);
                for (_, it) in all.iter() {
                    it.value.store(value, Ordering::Relaxed);
                }
                all.len()
            })
            .unwrap()
    }

    fn all(&self) -> Vec<u64> {
        self.siblings
            .visit(|all| all.iter().map(|(_, it)| it.get()).collect())
            .unwrap()
    }
}

struct Replicated(Arc<AtomicU64>);

impl Root for Replicated {
    type Interface = dyn Setting;
    type Rep = Copy;

    fn placement(&self) -> Placement {
        Placement::EachSlot
    }

    fn create(&self, place: &Place<'_, Copy>) -> Copy {
        Copy {
            value: self.0.load(Ordering::Relaxed).into(),
            original: self.0.clone(),
            siblings: place.siblings(),
        }
    }

    fn interface(rep: &Copy) -> &Self::Interface {
        rep
    }
}

#[test]
fn a_late_comer_has_all_of_a_scatter_or_none() {
    let rounds = crate::common::share::share(400);
    for round in 0..rounds {
        let object = clustered::create(Replicated(Arc::new(AtomicU64::new(0))));
        thread::scope(|scope| {
            scope.spawn(move || {
                for value in 1..=20 {
                    object.call(|it| it.set(value)).unwrap();
                    let all = object.call(|it| it.all()).unwrap();
                    assert!(all.iter().all(|it| *it == value), "round {round}: {all:?}");
                }
            });
            // Representatives come into being all the time.
            for slot in 0..20 {
                cpu::bind(CoreId::new(slot));
                object.call(|it| it.get()).unwrap();
            }
            cpu::unbind();
        });
        object.destroy().unwrap();
    }
}

#[test]
fn who_needs_one_waits_for_a_gather_and_nobody_else() {
    let object = clustered::create(Replicated(Arc::new(AtomicU64::new(5))));
    let on = move |slot| {
        cpu::bind(CoreId::new(slot));
        object.call(|it| it.get()).unwrap()
    };
    thread::spawn(move || on(0)).join().unwrap();
    let has_come = AtomicBool::new(false);
    object
        .inspect(|it| {
            let all = it.representatives::<Replicated>().unwrap();
            thread::scope(|scope| {
                // Who has one does not wait.
                scope.spawn(move || on(0)).join().unwrap();
                let late = scope.spawn(|| {
                    on(1);
                    has_come.store(true, Ordering::SeqCst);
                });
                for _ in 0..100 {
                    thread::yield_now();
                }
                assert!(!has_come.load(Ordering::SeqCst), "one was made meanwhile");
                assert_eq!(all.len(), 1);
                assert!(all.get(0).is_some() && all.get(1).is_none());
                drop(all);
                late.join().unwrap();
            });
        })
        .unwrap();
    object.destroy().unwrap();
}
