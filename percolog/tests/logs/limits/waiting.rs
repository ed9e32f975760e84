//! Who waits for room, for how long, and who is not waited for.

use crate::limits::{Push, Pushes, deferring, stay};
use percolog::cpu::CoreId;
use percolog::oplog::{FullReason, Logged, Mode, Operation, SynchronizeError};
use percolog::testing::Environment;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn while_somebody_has_the_object_queues_grow_to_the_hard_limit_and_then_wait() {
    let log: Pushes = deferring().limit(4).hard_limit(9).build(Vec::new());
    let queued = AtomicUsize::new(0);
    thread::scope(|scope| {
        let guard = log.synchronize();
        let updater = scope.spawn(|| {
            stay();
            for number in 0..30 {
                log.queue(Push(number));
                queued.fetch_add(1, Ordering::SeqCst);
            }
        });
        while queued.load(Ordering::SeqCst) < 9 {
            thread::yield_now();
        }
        // Time enough for a thread that does not wait to give itself away.
        thread::sleep(Duration::from_millis(20));
        assert_eq!(queued.load(Ordering::SeqCst), 9);
        assert!(!updater.is_finished());
        drop(guard);
        updater.join().expect("let go when the guard is dropped");
    });
    assert!(log.synchronize().iter().copied().eq(0..30));
}

/// A step of the test below.
enum Step {
    Count,
    /// Says that it runs, and waits.
    Stop(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>),
}

impl Operation<usize> for Step {
    fn exec(self, counted: &mut usize) {
        match self {
            Self::Count => *counted += 1,
            Self::Stop(tell, go_on) => {
                tell.send(()).expect("somebody waits");
                go_on.recv().expect("somebody lets it go on");
            }
        }
    }
}

#[test]
fn who_has_waited_while_its_queue_was_merged_does_not_merge_again() {
    use std::sync::mpsc::channel;
    stay();
    let log: Logged<usize, Step> = Logged::<usize, Step>::builder()
        .mode(Mode::Deferring)
        .limit(4)
        .hard_limit(4)
        .build(0);
    let (tell, told) = channel();
    let (let_go_on, go_on) = channel();
    log.queue(Step::Count);
    log.queue(Step::Stop(tell, go_on));
    // The second one is left in the batch: it will be executed before the next cut is made.
    assert_eq!(log.drain(1).executed, 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            stay();
            assert_eq!(*log.synchronize(), 5);
        });
        told.recv().expect("it says so");
        let (begin, begun) = channel();
        let log = &log;
        let updater = scope.spawn(move || {
            stay();
            (0..4).for_each(|_| log.queue(Step::Count));
            begin.send(()).expect("somebody waits");
            // The queue is full and the object taken; the merge that this waits for has yet to take the queue.
            log.queue(Step::Count);
        });
        begun.recv().expect("it says so");
        // So that it does wait. If it came late, it would find room at once: the test would show nothing, and not fail.
        thread::sleep(Duration::from_millis(100));
        let_go_on.send(()).expect("it waits");
        updater.join().expect("no panic");
    });
    assert_eq!((log.stats().updater_merges, log.stats().pending), (0, 1));
    assert_eq!(*log.synchronize(), 6);
}

#[test]
fn who_waits_for_room_goes_on_when_its_queue_is_taken() {
    use std::sync::mpsc::channel;
    stay();
    let log: Logged<usize, Step> = Logged::<usize, Step>::builder()
        .mode(Mode::Deferring)
        .limit(4)
        .hard_limit(4)
        .build(0);
    let stop = || {
        let ((tell, told), (let_go_on, go_on)) = (channel(), channel());
        (Step::Stop(tell, go_on), told, let_go_on)
    };
    // Left in the batch: it will be executed before the next cut is made, the other one after it.
    let (before, told_before, let_go_on_before) = stop();
    let (behind, told_behind, let_go_on_behind) = stop();
    log.queue(Step::Count);
    log.queue(before);
    assert_eq!(log.drain(1).executed, 1);
    thread::scope(|scope| {
        let merges = scope.spawn(|| {
            stay();
            assert_eq!(*log.synchronize(), 4);
        });
        told_before.recv().expect("it says so");
        let (begin, begun) = channel();
        let log = &log;
        let updater = scope.spawn(move || {
            stay();
            log.queue(behind);
            (0..3).for_each(|_| log.queue(Step::Count));
            begin.send(()).expect("somebody waits");
            log.queue(Step::Count);
        });
        begun.recv().expect("it says so");
        // So that it does wait. If it came late, it would find room at once: the test would show nothing, and not fail.
        thread::sleep(Duration::from_millis(100));
        let_go_on_before.send(()).expect("it waits");
        told_behind.recv().expect("it says so");
        // The object is still held by who executes what was taken.
        updater.join().expect("no panic");
        assert!(log.try_synchronize().is_err());
        let_go_on_behind.send(()).expect("it waits");
        merges.join().expect("no panic");
    });
    assert_eq!((log.stats().updater_merges, log.stats().pending), (0, 1));
    assert_eq!(*log.synchronize(), 5);
}

#[test]
fn who_does_not_want_to_wait_is_told_that_somebody_has_the_object() {
    let log: Pushes = deferring().build(Vec::new());
    log.queue(Push(1));
    let guard = log.synchronize();
    thread::scope(|scope| {
        scope.spawn(|| {
            log.queue(Push(2));
            let wait = Duration::from_millis(1);
            assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Busy)));
            assert!(matches!(log.try_read(), Err(SynchronizeError::Busy)));
            assert!(matches!(
                log.synchronize_for(wait),
                Err(SynchronizeError::Busy)
            ));
            assert!(matches!(log.read_for(wait), Err(SynchronizeError::Busy)));
            let drained = log.drain(1);
            assert_eq!((drained.executed, drained.finished), (0, false));
            assert_eq!(format!("{log:?}"), "Logged { <in use>, .. }");
        });
    });
    drop(guard);
    let long = Duration::MAX;
    assert_eq!(*log.synchronize_for(long).expect("nobody has it"), [1, 2]);
    // Readers of a clean object do not exclude each other.
    let shared = log.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(*log.try_read().expect("shared"), [1, 2]);
            assert!(matches!(log.try_synchronize(), Err(SynchronizeError::Busy)));
            // To show an update, the object has to be had alone.
            log.queue(Push(3));
            assert!(matches!(log.try_read(), Err(SynchronizeError::Busy)));
        });
    });
    drop(shared);
    assert_eq!(*log.read(), [1, 2, 3]);
}

/// A machine on which one updater can be stopped while it has its slot's queue. Clones are the same
/// machine.
#[derive(Clone, Default)]
struct Machine(Arc<Parts>);

#[derive(Default)]
struct Parts {
    stop: AtomicBool,
    stopped: AtomicBool,
    now: AtomicU64,
}

impl Environment for Machine {
    fn slot(&self) -> CoreId {
        CoreId::new(3)
    }

    fn stamp(&self) -> u64 {
        self.0.now.fetch_add(1, Ordering::SeqCst)
    }

    /// Asked by a slot's first update after a merge, which has the slot's queue by then.
    fn chip(&self) -> usize {
        while self.0.stop.load(Ordering::SeqCst) {
            self.0.stopped.store(true, Ordering::SeqCst);
            thread::yield_now();
        }
        0
    }
}

#[test]
fn a_queue_in_use_is_not_waited_for_by_who_does_not_want_to() {
    let machine = Machine::default();
    let parts = &machine.0;
    parts.stop.store(true, Ordering::SeqCst);
    let log: Logged<Vec<u32>, Push, Machine> = deferring().build_in(Vec::new(), machine.clone());
    thread::scope(|scope| {
        scope.spawn(|| log.queue(Push(0)));
        while !parts.stopped.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let full = log.try_queue(Push(1)).expect_err("the queue is in use");
        assert_eq!((full.reason, full.operation.0), (FullReason::Busy, 1));
        parts.stop.store(false, Ordering::SeqCst);
    });
    assert_eq!(log.into_inner(), [0]);
}
