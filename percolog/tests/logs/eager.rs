//! Updates that are executed at once: what they do, and when they are not.
#![cfg(not(percolog_loom))]

use crate::panics::Mark;
use percolog::cpu::CoreId;
use percolog::oplog::{
    Full, LogStats, Logged, LoggedBuilder, LoggedFn, Mode, ModeReason, Operation, Policy,
    SynchronizeError,
};
use percolog::testing::Environment;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

struct Push(u32);

impl Operation<Vec<u32>> for Push {
    fn exec(self, all: &mut Vec<u32>) {
        all.push(self.0);
    }
}

type Pushes = Logged<Vec<u32>, Push>;

#[test]
fn one_thread_executes_what_it_queues() {
    let log = Pushes::default();
    log.queue(Push(1));
    assert!(log.try_queue(Push(2)).is_ok());
    log.extend((3..40).map(Push));
    let stats = log.stats();
    assert_eq!((stats.at_once, stats.executed, stats.pending), (39, 39, 0));
    assert_eq!((stats.mode, stats.slots), (Mode::Eager, 0));
    assert_eq!(log.memory_usage().total(), 0);
    assert_eq!(*log.read(), (1..40).collect::<Vec<_>>());
    assert_eq!(log.into_inner().len(), 39);
}

#[test]
fn what_is_logged_while_somebody_has_the_object_comes_first() {
    for mode in [Mode::Adaptive, Mode::Eager] {
        let log: Pushes = LoggedBuilder::new().mode(mode).build(vec![0]);
        let guard = log.synchronize();
        // By this thread, and by one that waits in vain.
        log.queue(Push(1));
        thread::scope(|scope| {
            scope.spawn(|| log.queue(Push(2)));
        });
        assert_eq!(*guard, [0]);
        drop(guard);
        assert_eq!(log.stats().pending, 2);
        log.queue(Push(3));
        assert_eq!(log.stats().pending, 0);
        assert_eq!(*log.read(), [0, 1, 2, 3]);
    }
}

#[test]
fn nothing_is_merged_for_others_by_who_does_not_want_to() {
    let log: Pushes = LoggedBuilder::new()
        .mode(Mode::Eager)
        .policy(Policy::Full)
        .limit(2)
        .build(Vec::new());
    let guard = log.read();
    log.queue(Push(1));
    drop(guard);
    // Neither this nor `queue` with a policy that never merges.
    assert!(log.try_queue(Push(2)).is_ok());
    let Err(Full { operation, .. }) = log.try_queue(Push(3)) else {
        panic!("there is no room")
    };
    assert_eq!(operation.0, 3);
    assert_eq!((log.stats().pending, log.stats().at_once), (2, 0));
    assert_eq!(*log.synchronize(), [1, 2]);
    log.queue(Push(4));
    assert_eq!(log.stats().at_once, 1);
    assert_eq!(log.into_inner(), [1, 2, 4]);
}

#[test]
fn what_a_drain_has_left_comes_first() {
    let log: Pushes = LoggedBuilder::new().mode(Mode::Eager).build(Vec::new());
    let guard = log.synchronize();
    log.extend((0..5).map(Push));
    drop(guard);
    assert_eq!(log.drain(2).executed, 2);
    log.queue(Push(5));
    assert_eq!(*log.read(), [0, 1, 2, 3, 4, 5]);
}

/// An operation runs in no other one, whatever objects they are of: it could need what that one has taken apart.
#[test]
fn operations_do_not_run_inside_each_other() {
    type Trace = Arc<Mutex<Vec<&'static str>>>;
    let trace = Trace::default();
    let (one, other) = (
        Arc::new(LoggedFn::<()>::new(())),
        Arc::new(LoggedFn::<()>::new(())),
    );
    let note = |trace: &Trace, what| trace.lock().expect("no panic").push(what);
    {
        let (trace, same, other) = (trace.clone(), one.clone(), other.clone());
        one.update(move |()| {
            note(&trace, "begins");
            let theirs = trace.clone();
            other.update(move |()| note(&theirs, "of another"));
            let theirs = trace.clone();
            same.update(move |()| note(&theirs, "of the same"));
            note(&trace, "ends");
        });
    }
    assert_eq!(*trace.lock().expect("no panic"), ["begins", "ends"]);
    drop(other.synchronize());
    drop(one.synchronize());
    assert_eq!(
        *trace.lock().expect("no panic"),
        ["begins", "ends", "of another", "of the same"]
    );
    // Nor while this thread has any object.
    let guard = one.read();
    other.update(|()| ());
    assert_eq!(other.stats().pending, 1);
    drop(guard);
    other.update(|()| ());
    assert_eq!(other.stats().pending, 0);
}

#[test]
fn a_panic_poisons_and_does_not_reach_who_queued() {
    let log: LoggedFn<u32> = LoggedFn::new(0);
    log.update(|sum| *sum += 1);
    log.update(|sum| {
        *sum += 1;
        panic!("on purpose");
    });
    assert!(log.is_poisoned());
    // Logged from now on, and in order.
    log.update(|sum| *sum *= 10);
    assert_eq!(log.stats().pending, 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(log.synchronize()))).is_err());
    log.clear_poison();
    log.update(|sum| *sum += 3);
    assert_eq!(*log.read(), 23);
}

#[test]
fn a_panic_of_who_asks_poisons() {
    let log: LoggedFn<u32> = LoggedFn::new(0);
    let asked = catch_unwind(AssertUnwindSafe(|| {
        log.with(|sum| {
            *sum = 7;
            panic!("on purpose");
        })
    }));
    assert!(asked.is_err() && log.is_poisoned());
    log.clear_poison();
    assert_eq!(log.with(|sum| *sum), 7);
}

/// A clock that goes on when it is looked at: what takes no stamps takes no time.
#[derive(Default)]
struct Looked(AtomicU64);

impl Environment for &Looked {
    fn slot(&self) -> CoreId {
        CoreId::new(0)
    }

    fn stamp(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Raises the number so often, with a reader after every so many.
fn raised(reads: u64) -> LogStats {
    let clock = Looked::default();
    let log = LoggedBuilder::new().build_in(0, &clock);
    for n in 1..=50_000 {
        log.queue(Mark(n));
        if n.is_multiple_of(reads) {
            assert_eq!(log.with(|highest| *highest), n);
        }
    }
    let stats = log.stats();
    assert_eq!(log.into_inner(), 50_000);
    stats
}

#[test]
fn what_is_tried_comes_to_an_end_without_a_reader() {
    let stats = raised(u64::MAX);
    assert!(stats.merges >= 2, "{stats:?}");
    assert!(stats.absorbed > 0 && stats.at_once > 40_000, "{stats:?}");
}

#[test]
fn deferring_that_saves_nothing_is_given_up() {
    for reads in [1, 10, 1000] {
        let stats = raised(reads);
        assert_eq!(stats.mode, Mode::Eager, "{stats:?}");
        assert!(
            stats.mode_changes >= 2 && stats.at_once > 40_000,
            "{stats:?}"
        );
        assert_eq!(stats.mode_reason, ModeReason::DeferringWasNotFaster);
    }
}

#[test]
fn a_panic_in_a_merge_leaves_the_rest_in_order() {
    let log: LoggedFn<Vec<u32>> = LoggedFn::default();
    let guard = log.synchronize();
    log.update(|all| all.push(1));
    log.update(|_| panic!("on purpose"));
    log.update(|all| all.push(2));
    drop(guard);
    // Merges first, comes upon the panic, and is logged behind the rest.
    log.update(|all| all.push(3));
    assert!(log.is_poisoned());
    log.clear_poison();
    assert_eq!(*log.synchronize(), [1, 2, 3]);
}

/// Takes a lock that whoever queues it may have.
struct Report(Arc<Mutex<u32>>);

impl Operation<u32> for Report {
    const AT_ONCE: bool = false;

    fn exec(self, sum: &mut u32) {
        *sum += 1;
        *self.0.lock().expect("no panic") = *sum;
    }
}

#[test]
fn an_operation_can_refuse_to_run_inside_its_caller() {
    let log: Logged<u32, Report> = Logged::new(0);
    let seen = Arc::new(Mutex::new(0));
    let mine = seen.lock().expect("no panic");
    log.queue(Report(seen.clone()));
    assert!(log.try_queue(Report(seen.clone())).is_ok());
    drop(mine);
    assert_eq!(*seen.lock().expect("no panic"), 0);
    assert_eq!(*log.synchronize(), 2);
    assert_eq!(*seen.lock().expect("no panic"), 2);
    assert_eq!(log.stats().at_once, 0);
}

#[test]
fn a_thread_that_forgot_a_guard_logs() {
    thread::spawn(|| {
        std::mem::forget(Pushes::default().synchronize());
        let log = Pushes::default();
        log.queue(Push(1));
        assert_eq!(log.stats().pending, 1);
        assert_eq!(*log.synchronize(), [1]);
    })
    .join()
    .expect("no panic");
}

#[test]
fn guards_are_refused_as_they_were() {
    let log = Pushes::default();
    log.queue(Push(1));
    let guard = log.synchronize();
    assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Held)));
    thread::scope(|scope| {
        scope.spawn(|| assert!(matches!(log.try_read(), Err(SynchronizeError::Busy))));
    });
    drop(guard);
    assert_eq!(*log.try_read().expect("nobody has it"), [1]);
}
