//! Promise 4, bounded: what each policy does at the limit, and that a thread that would wait for itself
//! is told so instead.
#![cfg(not(percolog_loom))]

use percolog::cpu::{self, CoreId, Environment};
use percolog::oplog::{Logged, LoggedFn, Operation, Policy, Reason, SynchronizeError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

struct Push(u32);

impl Operation<Vec<u32>> for Push {
    fn exec(self, all: &mut Vec<u32>) {
        all.push(self.0);
    }
}

type Pushes = Logged<Vec<u32>, Push>;

/// Limits are a slot's: most tests here must stay on one.
fn stay() {
    cpu::bind(CoreId::new(0));
}

fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let panic = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("a panic was expected"),
        Err(panic) => panic,
    };
    *panic.downcast::<String>().expect("a panic with a text")
}

fn refusal(log: &Pushes) -> Reason {
    let full = log.try_queue(Push(77)).expect_err("the queue is full");
    assert_eq!(full.into_inner().0, 77, "the operation comes back");
    log.try_queue(Push(77)).expect_err("it is still").reason
}

#[test]
fn merging_keeps_queues_short() {
    stay();
    let log: Pushes = Pushes::builder().limit(10).build(Vec::new());
    for number in 0..1000 {
        log.queue(Push(number));
        assert!(log.stats().pending <= 10);
    }
    let stats = log.stats();
    assert_eq!(
        stats.updater_merges, 99,
        "one for each 10 updates but the last"
    );
    assert_eq!(stats.longest_updater_merge, 10);
    assert!(log.synchronize().iter().copied().eq(0..1000));
}

#[test]
fn the_limit_is_128_unless_said_otherwise() {
    stay();
    let log = Pushes::default();
    for number in 0..128 {
        log.try_queue(Push(number)).expect("below the limit");
    }
    assert_eq!(refusal(&log), Reason::Limit);
    assert_eq!(log.stats().updater_merges, 0);
    log.queue(Push(128));
    assert_eq!((log.stats().updater_merges, log.stats().pending), (1, 1));
}

#[test]
fn many_at_once_merge_once_a_limit() {
    stay();
    let log = Pushes::default();
    log.extend((0..1280).map(Push));
    assert!(log.stats().updater_merges <= 10, "{:?}", log.stats());
    // Where the limit is no multiple of what is queued at a time, too.
    let odd: Pushes = Pushes::builder().limit(100).build(Vec::new());
    odd.extend((0..1000).map(Push));
    assert!(odd.stats().updater_merges <= 10, "{:?}", odd.stats());
    assert!(odd.synchronize().iter().copied().eq(0..1000));
    assert!(log.synchronize().iter().copied().eq(0..1280));
}

#[test]
fn growing_never_merges() {
    stay();
    let log: Pushes = Pushes::builder()
        .limit(4)
        .policy(Policy::Grow)
        .build(Vec::new());
    for number in 0..1000 {
        if number % 2 == 0 {
            log.queue(Push(number));
        } else {
            log.try_queue(Push(number)).expect("grows");
        }
    }
    log.extend((1000..1100).map(Push));
    assert_eq!((log.stats().merges, log.stats().pending), (0, 1100));
    assert!(log.synchronize().iter().copied().eq(0..1100));
}

#[test]
fn full_is_full() {
    stay();
    let log: Pushes = Pushes::builder()
        .limit(4)
        .policy(Policy::Full)
        .build(Vec::new());
    log.extend((0..4).map(Push));
    assert_eq!(refusal(&log), Reason::Limit);
    assert!(panic_of(|| log.queue(Push(4))).contains("limit"));
    assert!(panic_of(|| log.extend([Push(4)])).contains("limit"));
    assert!(!log.is_poisoned(), "nothing has happened to the structure");
    assert_eq!(*log.synchronize(), [0, 1, 2, 3]);
    log.queue(Push(4));
    // Another slot has room of its own.
    cpu::bind(CoreId::new(1));
    log.extend((5..8).map(Push));
    assert_eq!(*log.synchronize(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(log.stats().updater_merges, 0);
}

#[test]
fn what_is_discarded_is_counted() {
    stay();
    let log: Pushes = Pushes::builder()
        .limit(4)
        .policy(Policy::Discard)
        .build(Vec::new());
    log.extend((0..10).map(Push));
    log.queue(Push(10));
    assert_eq!(refusal(&log), Reason::Limit);
    assert_eq!((log.stats().discarded, log.stats().pending), (7, 4));
    assert_eq!(*log.synchronize(), [0, 1, 2, 3]);
    log.queue(Push(11));
    assert_eq!(*log.synchronize(), [0, 1, 2, 3, 11]);
    assert_eq!(log.stats().discarded, 7);
}

#[test]
fn at_the_limit_it_is_merged_or_while_somebody_has_the_object_discarded() {
    stay();
    let log: Pushes = Pushes::builder()
        .limit(4)
        .policy(Policy::MergeOrDiscard)
        .build(Vec::new());
    (0..5).for_each(|number| log.queue(Push(number)));
    let stats = log.stats();
    assert_eq!(
        (stats.updater_merges, stats.executed, stats.pending),
        (1, 4, 1)
    );
    assert_eq!(stats.discarded, 0);
    let guard = log.synchronize();
    assert_eq!(*guard, [0, 1, 2, 3, 4]);
    // Room for four; neither the holder nor anybody else waits for the guard.
    (5..11).for_each(|number| log.queue(Push(number)));
    assert_eq!(refusal(&log), Reason::Limit);
    assert_eq!((log.stats().discarded, log.stats().pending), (2, 4));
    drop(guard);
    log.queue(Push(11));
    assert_eq!(log.stats().updater_merges, 2);
    assert_eq!(*log.synchronize(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 11]);
}

#[test]
fn while_somebody_has_the_object_queues_grow_to_the_hard_limit_and_then_wait() {
    let log: Pushes = Pushes::builder().limit(4).hard_limit(9).build(Vec::new());
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
fn the_holder_of_a_guard_may_queue_up_to_the_hard_limit() {
    stay();
    let log = Pushes::default();
    let guard = log.synchronize();
    for number in 0..129 {
        log.queue(Push(number));
    }
    assert_eq!(refusal(&log), Reason::Limit);
    for number in 129..16 * 128 {
        log.queue(Push(number));
    }
    let text = panic_of(|| log.queue(Push(0)));
    assert!(text.contains("holds the object"), "{text}");
    assert_eq!(refusal(&log), Reason::Limit);
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
    let log = Pushes::default();
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

#[test]
fn who_does_not_want_to_wait_is_told_that_somebody_has_the_object() {
    let log = Pushes::default();
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

static FLOODED: Logged<usize, Flood> = Logged::new(0);

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
                assert_eq!(reason, Reason::Limit);
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
    let log: Logged<Vec<u32>, Push, Machine> =
        Pushes::builder().build_in(Vec::new(), machine.clone());
    thread::scope(|scope| {
        scope.spawn(|| log.queue(Push(0)));
        while !parts.stopped.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let full = log.try_queue(Push(1)).expect_err("the queue is in use");
        assert_eq!((full.reason, full.operation.0), (Reason::Busy, 1));
        parts.stop.store(false, Ordering::SeqCst);
    });
    assert_eq!(log.into_inner(), [0]);
}

#[test]
fn a_budget_is_kept_and_reads_see_the_rest_as_well() {
    let log = Pushes::default();
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
fn thread_exit_loses_nothing() {
    /// Queues when its thread has nearly gone.
    struct Last(Arc<Pushes>, u32);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.queue(Push(self.1));
        }
    }
    thread_local! {
        static LAST: Mutex<Option<Last>> = const { Mutex::new(None) };
    }
    let log = Arc::new(Pushes::default());
    for group in 0..100 {
        let threads: Vec<_> = (0..10)
            .map(|at| {
                let log = Arc::clone(&log);
                thread::spawn(move || {
                    let number = 2 * (group * 10 + at);
                    LAST.with(|last| {
                        *last.lock().expect("no panic") = Some(Last(Arc::clone(&log), number + 1));
                    });
                    log.queue(Push(number));
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
    }
    let mut all = log.synchronize().clone();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..2000));
}

#[test]
fn any_number_is_a_slot() {
    let log: LoggedFn<Vec<u32>> = LoggedFn::default();
    let slots = [0, 5000, 8191, 8192, 100_000, u32::MAX - 1, u32::MAX];
    for round in 0..3 {
        for slot in slots {
            cpu::bind(CoreId::new(slot));
            log.update(move |all| all.push(slot));
        }
        assert_eq!(log.synchronize().len(), (round + 1) * slots.len());
    }
    cpu::unbind();
    assert!(log.into_inner().chunks(slots.len()).all(|all| all == slots));
}

/// What the process was told by its environment is what it does. The next test runs this one.
#[test]
fn the_environment_is_obeyed() {
    let cores = std::env::var("PERCOLOG_CORES").ok();
    let slots = std::env::var("PERCOLOG_SLOTS").ok();
    let chosen = cores
        .as_deref()
        .and_then(|cores| cores.parse::<usize>().ok())
        .filter(|cores| (1..=CoreId::PLACES).contains(cores));
    match chosen {
        Some(cores) => assert_eq!(cpu::count(), cores),
        None => assert_eq!(
            cpu::count(),
            thread::available_parallelism().map_or(1, usize::from)
        ),
    }
    let rseq_off = std::env::var("GLIBC_TUNABLES").is_ok_and(|value| value.contains("rseq=0"));
    if slots.as_deref() == Some("thread") || rseq_off {
        assert_eq!(cpu::source(), cpu::SlotSource::Thread);
    }
    let mut unusable = Vec::new();
    if cores.is_some() && chosen.is_none() {
        unusable.push("PERCOLOG_CORES");
    }
    if slots.is_some_and(|slots| slots != "thread") {
        unusable.push("PERCOLOG_SLOTS");
    }
    let reported = cpu::variables();
    assert!(
        reported.iter().map(|variable| variable.name).eq(unusable),
        "{reported:?}"
    );
    for variable in reported {
        let text = variable.to_string();
        assert!(
            text.contains(variable.name) && text.contains(variable.expected),
            "{text}"
        );
        assert!(!text.contains('\n'));
    }
}

#[test]
fn slots_come_from_where_the_environment_says() {
    const TESTS: [&str; 4] = [
        "the_environment_is_obeyed",
        "thread_exit_loses_nothing",
        "any_number_is_a_slot",
        "merging_keeps_queues_short",
    ];
    for variables in [
        &[("PERCOLOG_SLOTS", "thread")][..],
        &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
        &[("PERCOLOG_CORES", "3")],
        &[("PERCOLOG_CORES", "0"), ("PERCOLOG_SLOTS", "socket")],
        &[("PERCOLOG_CORES", "8193")],
        &[("PERCOLOG_CORES", "many")],
    ] {
        let output = std::process::Command::new(std::env::current_exe().expect("it runs"))
            .arg("--exact")
            .args(TESTS)
            .env_remove("PERCOLOG_CORES")
            .env_remove("PERCOLOG_SLOTS")
            .envs(variables.iter().copied())
            .output()
            .expect("a test program can be started");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("4 passed"),
            "with {variables:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
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
