//! Whoever has a guard, or is being executed, and would wait for itself.

use crate::limits::{Push, Pushes, deferring, panic_of, refusal, stay};
use percolog::cpu::{self, CoreId};
use percolog::oplog::{
    FullReason, Logged, LoggedBuilder, LoggedFn, Mode, Operation, SynchronizeError,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[test]
fn the_holder_of_a_guard_may_queue_up_to_the_hard_limit() {
    stay();
    let log: Pushes = deferring().build(Vec::new());
    let guard = log.synchronize();
    for number in 0..129 {
        log.queue(Push(number));
    }
    assert_eq!(refusal(&log), FullReason::Limit);
    for number in 129..16 * 128 {
        log.queue(Push(number));
    }
    let text = panic_of(|| log.queue(Push(0)));
    assert!(text.contains("holds the object"), "{text}");
    assert_eq!(refusal(&log), FullReason::Limit);
    assert!(
        guard.is_empty(),
        "what is queued takes effect after the guard"
    );
    drop(guard);
    assert!(
        !log.is_poisoned(),
        "the panic was over before the guard was dropped"
    );
    assert!(log.synchronize().iter().copied().eq(0..16 * 128));
}

#[test]
fn a_second_guard_of_the_same_object_is_refused() {
    let log: Pushes = deferring().build(Vec::new());
    let one = log.synchronize();
    assert!(panic_of(|| log.synchronize().len()).contains("waiting for itself"));
    assert!(panic_of(|| log.read().len()).contains("waiting for itself"));
    assert!(panic_of(|| log.with(|all| all.len())).contains("waiting for itself"));
    let wait = Duration::from_secs(3600);
    assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Held)));
    assert!(matches!(log.try_read(), Err(SynchronizeError::Held)));
    assert!(matches!(
        log.synchronize_for(wait),
        Err(SynchronizeError::Held)
    ));
    assert!(matches!(log.read_for(wait), Err(SynchronizeError::Held)));
    assert!(!log.drain(1).finished);
    drop(one);
    let shared = log.read();
    assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Held)));
    drop(shared);
    assert!(!log.is_poisoned());
    assert!(log.try_synchronize().is_ok());
}

#[test]
fn another_object_is_another_matter() {
    let (one, other) = (Pushes::default(), Pushes::default());
    other.queue(Push(5));
    let mut guard = one.synchronize();
    guard.extend_from_slice(&other.synchronize());
    assert!(other.drain(1).finished);
    drop(guard);
    assert_eq!(*one.synchronize(), [5]);
    // Guards of both, given back in the order they were taken.
    let (first, second) = (one.synchronize(), other.synchronize());
    drop(first);
    assert!(matches!(
        other.try_synchronize(),
        Err(SynchronizeError::Held)
    ));
    assert!(one.try_synchronize().is_ok());
    drop(second);
}

/// Queues to its own object while it is executed.
enum Flood {
    Leaf,
    /// Queues leaves, and panics where `queue` does.
    Queue(usize),
    /// Queues leaves until one comes back.
    TryQueue,
    /// Asks for a guard of its own object.
    Synchronize,
}

static FLOODED: Logged<usize, Flood> = LoggedBuilder::new().mode(Mode::Deferring).build(0);

impl Operation<usize> for Flood {
    fn exec(self, leaves: &mut usize) {
        match self {
            Self::Leaf => *leaves += 1,
            Self::Queue(count) => (0..count).for_each(|_| FLOODED.queue(Self::Leaf)),
            Self::TryQueue => {
                let reason = loop {
                    if let Err(full) = FLOODED.try_queue(Self::Leaf) {
                        break full.reason;
                    }
                };
                assert_eq!(reason, FullReason::Limit);
                assert!(matches!(
                    FLOODED.try_synchronize(),
                    Err(SynchronizeError::Held)
                ));
                assert!(!FLOODED.drain(1).finished);
            }
            Self::Synchronize => drop(FLOODED.synchronize()),
        }
    }
}

#[test]
fn an_operation_may_queue_to_its_own_object_up_to_the_hard_limit() {
    stay();
    let hard_limit = 16 * 128;
    FLOODED.queue(Flood::Queue(129));
    assert_eq!(
        *FLOODED.synchronize(),
        0,
        "that takes effect after this merge"
    );
    assert_eq!(*FLOODED.synchronize(), 129);

    FLOODED.queue(Flood::TryQueue);
    assert_eq!(*FLOODED.synchronize(), 129);
    assert_eq!(*FLOODED.synchronize(), 129 + 128);

    FLOODED.queue(Flood::Queue(hard_limit + 1));
    let text = panic_of(|| *FLOODED.synchronize());
    assert!(text.contains("holds the object"), "{text}");
    assert!(FLOODED.is_poisoned());
    FLOODED.clear_poison();
    assert_eq!(*FLOODED.synchronize(), 129 + 128 + hard_limit);

    FLOODED.queue(Flood::Synchronize);
    let text = panic_of(|| *FLOODED.synchronize());
    assert!(text.contains("waiting for itself"), "{text}");
    FLOODED.clear_poison();

    // The same where an updater merges.
    let before = *FLOODED.synchronize();
    FLOODED.queue(Flood::Queue(129));
    for _ in 0..127 {
        FLOODED.queue(Flood::Leaf);
    }
    FLOODED.queue(Flood::Leaf);
    assert_eq!(*FLOODED.synchronize(), before + 129 + 128);
}

#[test]
fn a_budget_is_kept_and_reads_see_the_rest_as_well() {
    let log: Pushes = deferring().build(Vec::new());
    for number in 0..10 {
        cpu::bind(CoreId::new(number % 3));
        log.queue(Push(number));
    }
    let drained = log.drain(0);
    assert_eq!((drained.executed, drained.finished), (0, false));
    let drained = log.drain(3);
    assert_eq!((drained.executed, drained.finished), (3, false));
    assert_eq!(format!("{log:?}"), "Logged { merged: [0, 1, 2], .. }");
    // Behind what has been taken already.
    log.queue(Push(10));
    assert_eq!(log.stats().pending, 8);
    let drained = log.drain(7);
    assert_eq!((drained.executed, drained.finished), (7, false));
    let drained = log.drain(2);
    assert_eq!((drained.executed, drained.finished), (1, true));
    assert!(log.drain(0).finished);
    log.queue(Push(11));
    log.drain(0);
    assert!(log.synchronize().iter().copied().eq(0..12));
    log.queue(Push(12));
    log.drain(0);
    assert!(
        log.read().iter().copied().eq(0..13),
        "also where the marks are clean"
    );
}

#[test]
fn a_forgotten_guard_does_not_lock_what_comes_to_lie_in_its_place() {
    let mut place: Box<LoggedFn<u32>> = Box::default();
    for round in 0..2 {
        std::mem::forget(place.synchronize());
        let again = catch_unwind(AssertUnwindSafe(|| drop(place.synchronize())));
        assert!(again.is_err(), "the guard is still out");
        // The same address, another object.
        *place = LoggedFn::new(round);
    }
    assert_eq!(*place.synchronize(), 1);
}
