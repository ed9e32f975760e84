//! The way of a call to its representative.

use crate::clustered::interfaces::{Count, Counters, collect_until};
use percolog::clustered::{self, Distributed, ObjectRef, Placement, Shared};
use percolog::cpu::{self, CoreId};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

fn on_slot<T: Send>(slot: u32, f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                cpu::bind(CoreId::new(slot));
                f()
            })
            .join()
            .unwrap()
    })
}

#[test]
fn nothing_is_made_before_it_is_called() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    assert_eq!((watch.made(), object.bound_slots()), (0, Ok(0)));
    for _ in 0..3 {
        on_slot(0, || object.call(|it| it.add(1)).unwrap());
    }
    assert_eq!((watch.made(), object.bound_slots()), (1, Ok(1)));
    object.destroy().unwrap();
    collect_until(|| watch.dropped() == 1);
}

#[test]
fn each_slot_has_its_own() {
    let (root, watch) = Counters::new(Placement::EachSlot);
    let object = clustered::create(root);
    for slot in 0..5 {
        let own = on_slot(slot, || object.call(|it| (it.number(), it.add(1))).unwrap());
        assert_eq!(own, (slot as usize, 1));
    }
    assert_eq!(watch.made(), 5);
    assert_eq!(object.call(|it| it.sum()), Ok(5));
    object.destroy().unwrap();
}

#[test]
fn placements() {
    let numbers = |placement| {
        let (root, watch) = Counters::new(placement);
        let object = clustered::create(root);
        let numbers: Vec<usize> = (0..6)
            .map(|slot| on_slot(slot, || object.call(|it| it.number()).unwrap()))
            .collect();
        let distinct = numbers.iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(watch.made(), distinct.len(), "{placement:?}");
        object.destroy().unwrap();
        numbers
    };
    assert_eq!(numbers(Placement::One), [0; 6]);
    assert_eq!(numbers(Placement::EachSlot), [0, 1, 2, 3, 4, 5]);
    assert_eq!(numbers(Placement::Every(2)), [0, 0, 1, 1, 2, 2]);
    assert_eq!(numbers(Placement::Every(0)), [0, 1, 2, 3, 4, 5]);
    assert_eq!(
        numbers(Placement::By(|slot| 7 - slot.index() % 2)),
        [7, 6, 7, 6, 7, 6]
    );
    let chips = numbers(Placement::EachChip);
    assert!(chips.iter().all(|chip| *chip < 1024), "{chips:?}");
}

#[test]
fn callers_that_race_make_one() {
    for _ in 0..50 {
        let (root, watch) = Counters::new(Placement::One);
        let object = clustered::create(root);
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for slot in 0..4 {
                let start = &start;
                scope.spawn(move || {
                    cpu::bind(CoreId::new(slot % 2));
                    start.wait();
                    object.call(|it| it.add(1)).unwrap();
                });
            }
        });
        assert_eq!(watch.made(), 1);
        assert_eq!(object.call(|it| it.sum()), Ok(4));
        object.destroy().unwrap();
    }
}

#[test]
fn making_one_object_keeps_no_other_waiting() {
    trait Ready: Sync {
        fn ready(&self) -> bool;
    }
    impl Ready for () {
        fn ready(&self) -> bool {
            true
        }
    }
    let (inside, is_inside) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = std::sync::Mutex::new(may_go_on);
    let slow = clustered::create(Distributed::new(
        Placement::EachSlot,
        move |_| {
            inside.send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
        },
        |it| it as &dyn Ready,
    ));
    let quick = clustered::create(Shared::new((), |it| it as &dyn Ready));
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            cpu::bind(CoreId::new(1));
            slow.call(|it| it.ready())
        });
        is_inside.recv().unwrap();
        cpu::bind(CoreId::new(1));
        assert_eq!(quick.call(|it| it.ready()), Ok(true));
        cpu::unbind();
        go_on.send(()).unwrap();
        assert_eq!(first.join().unwrap(), Ok(true));
    });
    slow.destroy().unwrap();
    quick.destroy().unwrap();
}

#[test]
fn a_panic_in_making_leaves_the_object_as_it_was() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    trait Number: Sync {
        fn number(&self) -> usize;
    }
    impl Number for usize {
        fn number(&self) -> usize {
            *self
        }
    }
    let object = clustered::create(Distributed::new(
        Placement::One,
        |_| {
            let tries = TRIES.fetch_add(1, Ordering::Relaxed);
            assert!(tries != 0, "not the first time");
            tries
        },
        |it| it as &dyn Number,
    ));
    let panicked = thread::spawn(move || object.call(|it| it.number())).join();
    assert!(panicked.is_err());
    assert_eq!(object.call(|it| it.number()), Ok(1));
    object.destroy().unwrap();
}

#[test]
fn a_reference_can_be_used_by_any_thread_in_any_section() {
    fn is_send_and_sync<T: Send + Sync + Copy>(_: T) {}
    let object = clustered::create(Shared::new(AtomicU64::new(0), |it| it as &dyn Adds));
    is_send_and_sync(object);
    assert_eq!(size_of::<Option<ObjectRef<dyn Adds>>>(), 8);
    let section = clustered::enter();
    let inner = clustered::enter();
    let adds = object.get(&section).unwrap();
    drop(inner);
    // Also from another thread, while this one's section is open.
    thread::scope(|scope| {
        scope.spawn(|| adds.adds(2));
    });
    assert_eq!(adds.adds(1), 3);
    drop(section);
    object.destroy().unwrap();
}

trait Adds: Sync {
    fn adds(&self, n: u64) -> u64;
}

impl Adds for AtomicU64 {
    fn adds(&self, n: u64) -> u64 {
        self.fetch_add(n, Ordering::Relaxed) + n
    }
}

#[test]
fn objects_beyond_the_first_segments_are_found() {
    let objects: Vec<_> = (0..3_000_u64)
        .map(|n| clustered::create(Shared::new(AtomicU64::new(n), |it| it as &dyn Adds)))
        .collect();
    assert!(objects.iter().any(|it| it.index() > 2_000));
    for round in 1..=2 {
        for (n, object) in objects.iter().enumerate() {
            assert_eq!(object.call(|it| it.adds(1)), Ok(n as u64 + round));
        }
    }
    for object in objects {
        object.destroy().unwrap();
    }
}

#[test]
fn an_object_that_calls_itself_while_it_is_made_is_told_so() {
    static SELF: std::sync::OnceLock<ObjectRef<dyn Adds>> = std::sync::OnceLock::new();
    let object = clustered::create(Distributed::new(
        Placement::One,
        |_| AtomicU64::new(SELF.get().unwrap().call(|it| it.adds(1)).unwrap()),
        |it| it as &dyn Adds,
    ));
    SELF.set(object).unwrap();
    let told = thread::spawn(move || object.call(|it| it.adds(1)))
        .join()
        .unwrap_err();
    let told = told.downcast_ref::<String>().map_or_else(
        || (*told.downcast_ref::<&str>().unwrap()).to_owned(),
        Clone::clone,
    );
    assert!(told.contains("makes one of them"), "{told}");
    object.destroy().unwrap();
}

#[test]
fn calls_of_threads_that_migrate_all_count() {
    let (root, _) = Counters::new(Placement::EachSlot);
    let object: ObjectRef<dyn Count> = clustered::create(root);
    let rounds = crate::common::share::share(20_000) as u32;
    thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || {
                for round in 0..rounds {
                    cpu::bind(CoreId::new((first + round) % 7));
                    let section = clustered::enter();
                    let it = object.get(&section).unwrap();
                    // In the middle of a call it is on another slot.
                    cpu::bind(CoreId::new(round % 5));
                    it.add(1);
                }
            });
        }
    });
    assert_eq!(object.call(|it| it.sum()), Ok(4 * u64::from(rounds)));
    object.destroy().unwrap();
}

#[test]
fn representatives_share_no_line() {
    trait Lies: Sync {
        fn at(&self) -> usize;
    }
    impl Lies for u8 {
        fn at(&self) -> usize {
            std::ptr::from_ref(self).addr()
        }
    }
    let object = clustered::create(Distributed::new(
        Placement::EachSlot,
        |_| 0_u8,
        |it| it as &dyn Lies,
    ));
    let lines: std::collections::BTreeSet<usize> = (0..8)
        .map(|slot| on_slot(slot, || object.call(|it| it.at()).unwrap()) / cpu::LINE_SIZE)
        .collect();
    assert_eq!(lines.len(), 8);
    object.destroy().unwrap();
}
