//! Promise 3, nothing is lost: panics poison, go to nobody who is innocent, and take nothing with them
//! but the operation that panicked; and every operation is dropped once, whatever happens to it.
#![cfg(not(percolog_loom))]

use percolog::cpu::{self, CoreId};
use percolog::oplog::{
    Absorb, AddToken, FullReason, Logged, LoggedBuilder, LoggedFn, Mode, OnDrop, Operation, Policy,
    RemoveToken, SynchronizeError, Synchronized, token_pair,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Notes a number, or panics; `kept` counts how many operations exist.
struct Note {
    number: u32,
    panics: bool,
    _kept: Option<Arc<()>>,
}

impl Operation<Vec<u32>> for Note {
    fn exec(self, notes: &mut Vec<u32>) {
        assert!(!self.panics, "operation {} panics", self.number);
        notes.push(self.number);
    }
}

type Notes = Logged<Vec<u32>, Note>;

fn note(number: u32) -> Note {
    Note {
        number,
        panics: false,
        _kept: None,
    }
}

fn bad(number: u32) -> Note {
    Note {
        panics: true,
        ..note(number)
    }
}

/// What `f` panicked with.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let panic: Box<dyn Any + Send> = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("a panic was expected"),
        Err(panic) => panic,
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a panic has a text")).to_owned(),
    }
}

/// One good, one that panics, two good.
fn with_a_bad_one() -> Notes {
    let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
    log.queue(note(0));
    log.queue(bad(1));
    log.queue(note(2));
    log.queue(note(3));
    log
}

fn assert_poisoned(log: &Notes) {
    assert!(log.is_poisoned());
    assert!(panic_of(|| log.synchronize().len()).contains("poisoned"));
    assert!(panic_of(|| log.read().len()).contains("poisoned"));
    assert!(panic_of(|| log.with(|notes| notes.len())).contains("poisoned"));
    let wait = Duration::from_secs(3600);
    assert!(matches!(
        log.try_synchronize(),
        Err(SynchronizeError::Poisoned(_))
    ));
    assert!(matches!(
        log.synchronize_for(wait),
        Err(SynchronizeError::Poisoned(_))
    ));
    assert!(matches!(log.try_read(), Err(SynchronizeError::Poisoned(_))));
    assert!(matches!(
        log.read_for(wait),
        Err(SynchronizeError::Poisoned(_))
    ));
    let drained = log.drain(usize::MAX);
    assert_eq!((drained.executed, drained.finished), (0, false));
}

#[test]
fn a_reader_gets_the_panic_and_the_others_stay_in_order() {
    let log = with_a_bad_one();
    assert_eq!(panic_of(|| log.synchronize().len()), "operation 1 panics");
    assert_poisoned(&log);
    // The guard of a poisoned object shows the state as the panic left it, and may repair it.
    let mut guard = log
        .try_synchronize()
        .expect_err("poisoned")
        .into_guard()
        .expect("poisoned, so with a guard");
    assert_eq!(*guard, [0]);
    guard.push(100);
    drop(guard);
    // Updates go on being queued.
    log.queue(note(4));
    assert_poisoned(&log);
    assert_eq!(log.stats().pending, 3);
    log.clear_poison();
    assert!(!log.is_poisoned());
    assert_eq!(*log.synchronize(), [0, 100, 2, 3, 4]);
    let stats = log.stats();
    assert_eq!(
        (stats.executed, stats.pending),
        (5, 0),
        "the bad one ran, too"
    );
}

#[test]
fn every_bad_one_poisons_anew() {
    let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
    for number in 0..6 {
        log.queue(if number % 2 == 0 {
            bad(number)
        } else {
            note(number)
        });
    }
    for number in [0, 2, 4] {
        assert_eq!(
            panic_of(|| log.read().len()),
            format!("operation {number} panics")
        );
        log.clear_poison();
    }
    assert_eq!(log.into_inner(), [1, 3, 5]);
}

#[test]
fn a_shared_reader_gets_the_panic_too() {
    let log = with_a_bad_one();
    assert_eq!(panic_of(|| log.read().len()), "operation 1 panics");
    assert_poisoned(&log);
}

#[test]
fn an_innocent_updater_does_not() {
    let log: Notes = Notes::builder()
        .mode(Mode::Deferring)
        .limit(4)
        .build(Vec::new());
    for number in 0..4 {
        log.queue(if number == 1 {
            bad(number)
        } else {
            note(number)
        });
    }
    // This one pays for a merge, in which another's operation panics.
    thread::scope(|scope| {
        scope
            .spawn(|| {
                cpu::bind(CoreId::new(7));
                for number in 4..9 {
                    log.queue(note(number));
                }
            })
            .join()
            .expect("queue passes on nobody else's panic");
    });
    assert_poisoned(&log);
    log.clear_poison();
    let notes = log.into_inner();
    assert_eq!(notes, [0, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_full_queue_of_a_poisoned_object_takes_nothing_more() {
    let log: Notes = Notes::builder()
        .mode(Mode::Deferring)
        .limit(2)
        .hard_limit(3)
        .build(Vec::new());
    // Limits are a slot's: this test must not change slots.
    cpu::bind(CoreId::new(0));
    log.queue(bad(0));
    assert_eq!(panic_of(|| log.synchronize().len()), "operation 0 panics");
    for number in 1..4 {
        log.queue(note(number));
    }
    assert!(panic_of(|| log.queue(note(4))).contains("poisoned"));
    let back = log.try_queue(note(5)).expect_err("the queue is full");
    assert_eq!((back.reason, back.operation.number), (FullReason::Limit, 5));
    log.clear_poison();
    assert_eq!(*log.synchronize(), [1, 2, 3]);
}

#[test]
fn a_maintenance_thread_does_not_either() {
    let log = with_a_bad_one();
    let drained = log.drain(usize::MAX);
    assert!(!drained.finished);
    assert_poisoned(&log);
    assert_eq!(log.stats().pending, 2);
    log.clear_poison();
    assert!(log.drain(usize::MAX).finished);
    assert_eq!(log.into_inner(), [0, 2, 3]);
}

#[test]
fn a_panic_behind_an_exclusive_guard_poisons() {
    let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
    log.queue(note(0));
    panic_of(|| {
        let mut guard = log.synchronize();
        guard.push(9);
        log.queue(note(1));
        panic!("in mid-change");
    });
    assert_poisoned(&log);
    log.clear_poison();
    assert_eq!(*log.synchronize(), [0, 9, 1]);

    panic_of(|| log.with(|_| panic!("in mid-change")));
    assert_poisoned(&log);
}

#[test]
fn a_panic_behind_a_shared_guard_does_not() {
    let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
    log.queue(note(0));
    panic_of(|| {
        let _guard = log.read();
        panic!("nothing was being changed");
    });
    panic_of(|| {
        let _guard = Synchronized::downgrade(log.synchronize());
        panic!("nothing was being changed");
    });
    assert!(!log.is_poisoned());
    assert_eq!(*log.read(), [0]);
}

#[test]
fn a_guard_made_and_dropped_while_panicking_does_not() {
    struct Looks<'a>(&'a Notes);
    impl Drop for Looks<'_> {
        fn drop(&mut self) {
            assert_eq!(self.0.synchronize().len(), 1);
        }
    }
    let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
    log.queue(note(0));
    panic_of(|| {
        let _looks = Looks(&log);
        panic!("of something else");
    });
    assert!(!log.is_poisoned());
}

#[test]
fn owners_hear_of_it() {
    let mut log = with_a_bad_one();
    assert_eq!(panic_of(|| log.get_mut().len()), "operation 1 panics");
    assert!(log.is_poisoned());
    assert!(panic_of(|| log.get_mut().len()).contains("poisoned"));
    assert!(panic_of(|| log.into_inner()).contains("poisoned"));

    let log = with_a_bad_one();
    assert_eq!(panic_of(|| log.into_inner()), "operation 1 panics");
}

#[test]
fn a_poisoned_object_is_dropped_without_executing_anything() {
    let log: Logged<Arc<Mutex<Vec<u32>>>, Shout> = LoggedBuilder::new()
        .mode(Mode::Deferring)
        .build(Arc::default());
    let heard = Arc::clone(&log.synchronize());
    log.queue(Shout(0));
    log.queue(Shout(SILENCE));
    log.queue(Shout(1));
    panic_of(|| drop(log.synchronize()));
    drop(log);
    assert_eq!(*heard.lock().expect("no panic inside"), [0]);
}

#[test]
fn what_is_pending_at_the_end_is_executed_or_not_as_chosen() {
    for (on_drop, expected) in [(OnDrop::Apply, vec![0, 1]), (OnDrop::Discard, vec![])] {
        let log: Logged<Arc<Mutex<Vec<u32>>>, Shout> = Notes::builder()
            .mode(Mode::Deferring)
            .on_drop(on_drop)
            .build(Arc::default());
        let heard = Arc::clone(&log.synchronize());
        log.queue(Shout(0));
        log.queue(Shout(1));
        drop(log);
        assert_eq!(*heard.lock().expect("no panic inside"), expected);
        assert_eq!(Arc::strong_count(&heard), 1, "the state is dropped");
    }
}

/// An operation whose effect outlives the object.
struct Shout(u32);

const SILENCE: u32 = u32::MAX;

impl Operation<Arc<Mutex<Vec<u32>>>> for Shout {
    fn exec(self, heard: &mut Arc<Mutex<Vec<u32>>>) {
        assert_ne!(self.0, SILENCE);
        heard.lock().expect("no panic inside").push(self.0);
    }
}

#[test]
#[cfg(percolog_origin)]
fn the_place_where_it_was_queued_is_named() {
    let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
    log.queue(note(0));
    let line = line!() + 1;
    log.queue(bad(1));
    log.queue(note(2));
    panic_of(|| log.synchronize().len());
    let text = panic_of(|| log.synchronize().len());
    let place = format!("{}:{line}", file!());
    assert!(text.contains(&place), "{text} does not name {place}");

    let log: LoggedFn<u32> = LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), 0);
    let line = line!() + 1;
    log.update(|_| panic!("a closure panics"));
    panic_of(|| *log.synchronize());
    let text = panic_of(|| *log.synchronize());
    let place = format!("{}:{line}", file!());
    assert!(text.contains(&place), "{text} does not name {place}");
}

#[test]
#[cfg(percolog_origin)]
fn an_operation_that_has_come_back_is_not_blamed_for_the_holder_of_a_guard() {
    let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
    log.queue(note(0));
    panic_of(|| {
        let guard = log.synchronize();
        assert_eq!(guard.len(), usize::MAX, "the holder panics");
        guard.len()
    });
    let text = panic_of(|| log.synchronize().len());
    assert!(!text.contains(file!()), "{text} names an innocent place");
}

/// Runs `f` with a way to make operations, and sees that none of them is left, or was dropped twice.
/// (A second drop would take the count below 1, and the state's own clone with it.)
fn each_dropped_once(f: impl FnOnce(&dyn Fn() -> Arc<()>)) {
    let kept = Arc::new(());
    f(&|| Arc::clone(&kept));
    assert_eq!(Arc::strong_count(&kept), 1);
}

fn counted(number: u32, kept: Arc<()>) -> Note {
    Note {
        _kept: Some(kept),
        ..note(number)
    }
}

#[test]
fn executed_operations_are_dropped_once() {
    each_dropped_once(|kept| {
        let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
        for number in 0..300 {
            log.queue(counted(number, kept()));
        }
        assert_eq!(log.synchronize().len(), 300);
        log.extend((0..300).map(|number| counted(number, kept())));
        while !log.drain(7).finished {}
        assert_eq!(log.synchronize().len(), 600);
    });
}

#[test]
fn refused_and_discarded_operations_are_dropped_once() {
    // Limits are a slot's: this test must not change slots.
    cpu::bind(CoreId::new(0));
    for policy in [Policy::Full, Policy::Discard] {
        each_dropped_once(|kept| {
            let log: Notes = Notes::builder()
                .mode(Mode::Deferring)
                .limit(3)
                .policy(policy)
                .build(Vec::new());
            for number in 0..5 {
                drop(log.try_queue(counted(number, kept())));
            }
            if policy == Policy::Discard {
                log.queue(counted(9, kept()));
            } else {
                assert!(panic_of(|| log.queue(counted(9, kept()))).contains("limit"));
                assert!(
                    panic_of(|| log.extend((0..40).map(|number| counted(number, kept()))))
                        .contains("limit")
                );
            }
            assert_eq!(log.synchronize().len(), 3);
        });
    }
}

#[test]
fn pending_operations_of_a_dropped_object_are_dropped_once() {
    for on_drop in [OnDrop::Apply, OnDrop::Discard] {
        each_dropped_once(|kept| {
            let log: Notes = Notes::builder()
                .mode(Mode::Deferring)
                .on_drop(on_drop)
                .build(Vec::new());
            for number in 0..10 {
                log.queue(counted(number, kept()));
            }
            // Some of them are in a batch.
            assert_eq!(log.drain(3).executed, 3);
            log.queue(counted(10, kept()));
        });
    }
}

#[test]
fn operations_around_a_panic_are_dropped_once() {
    each_dropped_once(|kept| {
        let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
        for number in 0..5 {
            log.queue(Note {
                panics: number == 2,
                ..counted(number, kept())
            });
        }
        panic_of(|| log.synchronize().len());
        drop(log);
    });
    each_dropped_once(|kept| {
        let log: Notes = LoggedBuilder::new().mode(Mode::Deferring).build(Vec::new());
        for number in 0..5 {
            log.queue(Note {
                panics: number == 2,
                ..counted(number, kept())
            });
        }
        panic_of(|| log.into_inner());
    });
}

#[test]
fn closures_are_dropped_once_wherever_they_end() {
    each_dropped_once(|kept| {
        let log: LoggedFn<usize> = LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), 0);
        for _ in 0..300 {
            let (one, two) = (kept(), kept());
            log.update(move |sum| *sum += Arc::strong_count(&one).min(1));
            log.update_boxed(move |sum| *sum += Arc::strong_count(&two).min(1));
        }
        assert_eq!(*log.synchronize(), 600);
        let bad = kept();
        log.update(move |_| panic!("a closure with {bad:?} panics"));
        let pending = kept();
        log.update(move |_| drop(pending));
        panic_of(|| *log.synchronize());
        drop(log);
    });
    each_dropped_once(|kept| {
        let log: LoggedFn<usize> = LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), 0);
        let held = kept();
        let closure = move |sum: &mut usize| *sum += Arc::strong_count(&held).min(1);
        // At the limit, the closure comes back, and can be used.
        cpu::bind(CoreId::new(0));
        for _ in 0..128 {
            log.update(|_| {});
        }
        let full = log.try_update(closure).expect_err("the queue is full");
        assert_eq!(full.reason, FullReason::Limit);
        let mut sum = 0;
        (full.operation)(&mut sum);
        assert_eq!(sum, 1);
    });
}

enum Kind {
    Write(u8),
    Open(AddToken),
    Close(RemoveToken),
}

/// Writes to a cell or opens and closes an entry; absorbs.
struct Edit {
    kind: Kind,
    _kept: Arc<()>,
}

impl Operation<usize> for Edit {
    const ABSORBS: bool = true;
    fn exec(self, executed: &mut usize) {
        *executed += 1;
    }
    fn absorb(&self) -> Absorb<'_> {
        match &self.kind {
            Kind::Write(key) => Absorb::Replace(u64::from(*key)),
            Kind::Open(birth) => Absorb::Add(birth),
            Kind::Close(death) => Absorb::Remove(death),
        }
    }
    fn replaces(&self, earlier: &Self) -> bool {
        matches!((&self.kind, &earlier.kind), (Kind::Write(key), Kind::Write(other)) if key == other)
    }
}

#[test]
fn absorbed_operations_are_dropped_once() {
    each_dropped_once(|kept| {
        let log: Logged<usize, Edit> = LoggedBuilder::new().mode(Mode::Deferring).build(0);
        thread::scope(|scope| {
            for slot in 0..3 {
                let log = &log;
                let kept: Vec<_> = (0..600).map(|_| kept()).collect();
                scope.spawn(move || {
                    cpu::bind(CoreId::new(slot));
                    for (at, kept) in kept.into_iter().enumerate() {
                        let edit = |kind| Edit {
                            kind,
                            _kept: Arc::clone(&kept),
                        };
                        match at % 3 {
                            0 => log.queue(edit(Kind::Write(at as u8 % 4))),
                            1 => {
                                let (birth, death) = token_pair();
                                log.queue(edit(Kind::Open(birth)));
                                log.queue(edit(Kind::Close(death)));
                            }
                            _ => drop(log.read()),
                        }
                    }
                });
            }
        });
        let executed = *log.synchronize();
        let stats = log.stats();
        assert_eq!(stats.executed, executed as u64);
        assert_eq!(stats.executed + stats.absorbed, 3 * 600);
        // Cancelling is certain where nobody reads between the two.
        assert_ne!(stats.absorbed, 0);
    });
}
