//! What a panic takes with it, and what goes on behind it: of operations, destructors, keys, and of what says the time.

use crate::common::eventually::eventually;
use percolog::collections::event_queue::EventQueueBuilder;
use percolog::collections::{Lru, LruBuilder, Registry, TableCache};
use percolog::cpu::{self, CoreId};
use percolog::ldu::{Entry, Fifo, Stamped};
use percolog::oplog::{
    Absorb, Cached, Lent, LogCache, LogCacheBuilder, Logged, LoggedFn, Mode, OnDrop, Operation,
};
use percolog::reduce::{CounterMap, TopK};
use percolog::testing::{Environment, Native};
use std::cell::Cell;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// Counted, and panics when it is dropped if it is told to.
#[derive(Clone)]
struct Value {
    number: u64,
    #[allow(dead_code, reason = "it is counted")]
    alive: Arc<()>,
}

/// Which values panic when they are dropped.
const ANGRY: u64 = 1000;

impl Drop for Value {
    fn drop(&mut self) {
        if self.number >= ANGRY {
            // Says nothing: there are many.
            resume_unwind(Box::new("a destructor panics"));
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

/// So many values, some of which panic; and how many there are.
fn values(count: u64) -> (impl Iterator<Item = Value>, Arc<()>) {
    let alive = Arc::new(());
    let counted = alive.clone();
    let number = |at| if at % 3 == 1 { ANGRY + at } else { at };
    let all = (0..count).map(move |at| Value {
        number: number(at),
        alive: alive.clone(),
    });
    (all, counted)
}

/// Nothing is left of what is dropped, whose destructor panics.
fn dropped_to_the_end<T>(what: T, alive: &Arc<()>) {
    assert!(panics(|| drop(what)), "the first panic goes on");
    assert_eq!(Arc::strong_count(alive), 1);
}

struct Keep(Value);

impl Operation<Vec<Value>> for Keep {
    fn exec(self, all: &mut Vec<Value>) {
        all.push(self.0);
    }
}

#[test]
fn discarded_operations_are_dropped_to_the_last_one() {
    let build = || {
        Logged::<Vec<Value>, Keep>::builder()
            .mode(Mode::Deferring)
            .on_drop(OnDrop::Discard)
            .build(Vec::new())
    };
    let (all, alive) = values(300);
    let log = build();
    for (at, value) in all.enumerate() {
        cpu::bind(CoreId::new(at as u32 % 3));
        log.queue(Keep(value));
    }
    dropped_to_the_end(log, &alive);
    // The same of what has been taken already, and of both.
    let (all, alive) = values(9);
    let log = build();
    for (at, value) in all.enumerate() {
        cpu::bind(CoreId::new(at as u32 % 3));
        log.queue(Keep(value));
        if at == 5 {
            assert_eq!(log.drain(0).executed, 0);
        }
    }
    dropped_to_the_end(log, &alive);
}

impl Operation<u8> for Keep {
    fn exec(self, _: &mut u8) {}
}

percolog::log_cache!(
    u8,
    Keep,
    LogCacheBuilder::new().objects(
        percolog::oplog::LoggedBuilder::new()
            .mode(Mode::Deferring)
            .on_drop(OnDrop::Discard)
    )
);

#[test]
fn those_of_lent_queues_too() {
    let (all, alive) = values(100);
    let object = Lent::<u8, Keep>::boxed(0);
    for (at, value) in all.enumerate() {
        cpu::bind(CoreId::new(at as u32 % 3));
        object.as_ref().queue(Keep(value));
    }
    dropped_to_the_end(object, &alive);
}

#[test]
fn tables_are_dropped_to_the_last_value() {
    let (all, alive) = values(100);
    let table = TableCache::new();
    for value in all {
        let number = value.number;
        assert!(table.insert(number, value).is_none());
        if number < ANGRY {
            assert!(table.get(&number).is_some(), "this core has a copy, too");
        }
    }
    dropped_to_the_end(table, &alive);

    let (all, alive) = values(100);
    let registry = Registry::new();
    all.for_each(|value| std::mem::forget(registry.register(value)));
    assert_eq!(registry.len(), 100);
    dropped_to_the_end(registry, &alive);

    let (all, alive) = values(100);
    let recent = Lru::new();
    all.for_each(|value| recent.insert(value));
    assert_eq!(recent.len(), 100);
    dropped_to_the_end(recent, &alive);

    let (all, alive) = values(100);
    let (map, top) = (CounterMap::new(200), TopK::new(200));
    for value in all {
        map.increment(&value);
        top.increment(&value);
        panics(|| drop(value));
    }
    assert!(Arc::strong_count(&alive) > 200, "both have copies");
    assert!(panics(|| drop(map)));
    dropped_to_the_end(top, &alive);
}

/// A value's destructor panics while cores bring their registrations together: nobody lists until somebody has said that it may be, and
/// what comes and goes meanwhile leaves nothing.
#[test]
fn a_poisoned_registry_does_not_grow_and_can_be_cured() {
    let registry = Registry::new();
    let on = |slot| cpu::bind(CoreId::new(slot));
    let stays = registry.register(Value {
        number: 1,
        alive: Arc::default(),
    });
    for _ in 0..2 {
        on(0);
        let angry = registry.register(Value {
            number: ANGRY,
            alive: Arc::default(),
        });
        assert_eq!(registry.len(), 2);
        on(1);
        drop(angry);
        assert!(panics(|| registry.len()));
        assert!(registry.is_poisoned() && panics(|| registry.len()));
        let alive = Arc::new(());
        for _ in 0..5_000 {
            on(0);
            let handle = registry.register(Value {
                number: 2,
                alive: alive.clone(),
            });
            on(1);
            drop(handle);
        }
        assert!(registry.stats().pending < 2 * 2 * 128 + 2);
        assert!(Arc::strong_count(&alive) <= 2 * 128 + 1);
        assert!(registry.is_poisoned(), "nobody has said otherwise");
        registry.clear_poison();
        assert!(!registry.is_poisoned());
        assert_eq!(registry.list().get(stays.id()).map(|it| it.number), Some(1));
        assert_eq!(registry.len(), 1);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

/// Even if it is all of them.
#[test]
fn a_registry_of_nothing_but_panics_does_not_grow() {
    let (registry, alive) = (Registry::new(), Arc::new(()));
    for _ in 0..2_000 {
        cpu::bind(CoreId::new(0));
        let handle = registry.register(Value {
            number: ANGRY,
            alive: alive.clone(),
        });
        cpu::bind(CoreId::new(1));
        drop(handle);
    }
    assert!(registry.is_poisoned());
    assert!(registry.stats().pending < 2 * 2 * 128 + 2);
    dropped_to_the_end(registry, &alive);
}

#[test]
fn a_poisoned_event_queue_goes_on_and_can_be_cured() {
    cpu::bind(CoreId::new(0));
    let (all, _) = values(3);
    let queue = EventQueueBuilder::new(2).build();
    queue.extend(all);
    queue.push(Value {
        number: ANGRY,
        alive: Arc::default(),
    });
    let mut consumer = queue.consumer().expect("there is no other");
    // The last one is lost, and its destructor panics.
    assert!(panics(|| consumer.try_next().is_some()));
    assert!(queue.is_poisoned());
    for _ in 0..20_000 {
        // More than a core's queue holds at most.
        queue.push(Value {
            number: 1,
            alive: Arc::default(),
        });
    }
    assert!(queue.stats().pending <= 256);
    assert!(panics(|| consumer.try_next().is_some()));
    queue.clear_poison();
    let mut events = Vec::new();
    consumer.drain_batch(&mut events);
    assert_eq!(events.len(), 3, "two events and an overflow");
    for event in events {
        panics(|| drop(event));
    }
}

#[test]
fn a_poisoned_fifo_goes_on_and_can_be_cured() {
    cpu::bind(CoreId::new(0));
    let fifo = Fifo::new();
    let entry = |number| {
        Entry::new(Stamped::new(Value {
            number,
            alive: Arc::default(),
        }))
    };
    let stays = entry(1);
    fifo.push(&stays).expect("it is in no queue");
    let angry = entry(ANGRY);
    fifo.push(&angry).expect("it is in no queue");
    drop(fifo.synchronize());
    fifo.remove(&angry).expect("it is there");
    drop(angry);
    // The queue has the last handle.
    assert!(panics(|| fifo.pop().is_some()));
    assert!(fifo.is_poisoned() && panics(|| fifo.pop().is_some()));
    let others: Vec<_> = (0..5_000).map(|_| entry(2)).collect();
    for other in &others {
        fifo.push(other).expect("the queue merges");
    }
    assert!(fifo.stats().pending <= 128);
    fifo.clear_poison();
    let first = fifo.pop().expect("it is there");
    assert!(first.number == 1);
    let left = std::iter::from_fn(|| fifo.pop()).count();
    assert_eq!(left, others.len());
}

/// A key whose comparison panics if the thread is told to.
#[derive(Clone, Debug)]
struct Touchy(u32);

thread_local! {
    static PANIC: Cell<bool> = const { Cell::new(false) };
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        assert!(!PANIC.get(), "as asked");
        self.0 == other.0
    }
}

impl Eq for Touchy {}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn a_poisoned_lru_goes_on_and_can_be_cured() {
    cpu::bind(CoreId::new(0));
    for builder in [LruBuilder::new(), LruBuilder::new().lossless()] {
        // So that the touch is left to who reads.
        let builder = builder.mode(Mode::Deferring);
        let recent = builder.build_with_hasher(BuildHasherDefault::<DefaultHasher>::new());
        (0..3).for_each(|key| recent.insert(Touchy(key)));
        assert_eq!(recent.len(), 3);
        recent.touch(Touchy(0));
        PANIC.set(true);
        assert!(panics(|| recent.len()));
        PANIC.set(false);
        assert!(recent.is_poisoned() && panics(|| recent.len()));
        for key in 3..5_000 {
            recent.insert(Touchy(key));
            recent.touch(Touchy(key));
            recent.remove(Touchy(key));
        }
        let stats = recent.stats();
        assert!(stats.pending <= 128, "{stats:?}");
        recent.clear_poison();
        // The touch that panicked is as if it had not been made.
        let order: Vec<_> = recent.order().into_iter().map(|key| key.0).collect();
        assert_eq!(order, [0, 1, 2]);
    }
}

/// A machine that panics when it is asked for a chip, or for the time, if the thread is told to.
#[derive(Clone, Copy, Default)]
struct Faulty;

thread_local! {
    static NO_CHIP: Cell<bool> = const { Cell::new(false) };
    static STAMPS: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Environment for Faulty {
    fn slot(&self) -> CoreId {
        CoreId::new(2)
    }

    fn stamp(&self) -> u64 {
        static NOW: AtomicU64 = AtomicU64::new(0);
        STAMPS.set(STAMPS.get().checked_sub(1).expect("no stamp is left"));
        NOW.fetch_add(1, Ordering::SeqCst)
    }

    fn chip(&self) -> usize {
        assert!(!NO_CHIP.get(), "no chip");
        0
    }
}

struct Push(u32);

impl Operation<Vec<u32>> for Push {
    fn exec(self, all: &mut Vec<u32>) {
        all.push(self.0);
    }
}

#[test]
fn a_machine_that_panics_hides_no_later_update() {
    let log = Logged::<Vec<u32>, Push>::builder()
        .mode(Mode::Deferring)
        .build_in(Vec::new(), Faulty);
    NO_CHIP.set(true);
    assert!(panics(|| log.queue(Push(1))));
    assert!(panics(|| log.try_queue(Push(2)).is_ok()));
    NO_CHIP.set(false);
    log.queue(Push(3));
    assert_eq!(*log.synchronize(), [3]);
    assert!(!log.is_poisoned());
    // A cut without a stamp.
    log.queue(Push(4));
    STAMPS.set(0);
    assert!(panics(|| log.synchronize().len()));
    STAMPS.set(usize::MAX);
    log.queue(Push(5));
    assert_eq!(*log.synchronize(), [3, 4, 5]);
}

// SAFETY: made once.
unsafe impl Cached<Vec<u32>, Faulty> for Push {
    fn cache() -> &'static LogCache<Vec<u32>, Self, Faulty> {
        static CACHE: OnceLock<LogCache<Vec<u32>, Push, Faulty>> = OnceLock::new();
        CACHE.get_or_init(|| deferring().places(4).build_in(Faulty))
    }
}

#[test]
fn a_machine_that_panics_takes_no_operation_along() {
    let object = Lent::<Vec<u32>, Push, Faulty>::boxed(Vec::new());
    object.as_ref().queue(Push(1));
    STAMPS.set(0);
    assert!(panics(|| object.synchronize().len()));
    STAMPS.set(usize::MAX);
    object.as_ref().queue(Push(2));
    assert_eq!(*object.synchronize(), [1, 2]);
}

/// What counts is the highest.
pub(crate) struct Mark(pub(crate) u64);

impl Operation<u64> for Mark {
    const ABSORBS: bool = true;

    fn exec(self, highest: &mut u64) {
        *highest = self.0.max(*highest);
    }

    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(0)
    }

    fn replaces(&self, earlier: &Self) -> bool {
        self.0 >= earlier.0
    }
}

/// A rule that is not symmetric is asked about what is earlier, whichever queues the two are in.
#[test]
fn a_high_water_mark_is_never_lowered() {
    // From the slot that is looked at last to the first, and the other way.
    for slots in [[2, 1, 0], [0, 1, 2], [1, 2, 0]] {
        for marks in [[5, 3, 4], [3, 5, 4], [4, 3, 5], [5, 5, 1], [1, 2, 3]] {
            let log = Logged::<u64, Mark>::new(0);
            for (slot, mark) in slots.into_iter().zip(marks) {
                cpu::bind(CoreId::new(slot));
                log.queue(Mark(mark));
            }
            let highest = marks.into_iter().max();
            assert_eq!(Some(*log.synchronize()), highest, "{slots:?} {marks:?}");
        }
    }
    cpu::bind(CoreId::new(1));
    let log: Logged<u64, Mark> = Logged::<u64, Mark>::builder()
        .mode(Mode::Deferring)
        .build(0);
    log.queue(Mark(1));
    cpu::bind(CoreId::new(0));
    log.queue(Mark(2));
    assert_eq!(*log.synchronize(), 2);
    let stats = log.stats();
    assert_eq!((stats.absorbed, stats.executed), (1, 1));
}

#[test]
fn a_boxed_closure_fits_whatever_room_there_is() {
    #[repr(align(64))]
    struct Aligned([u8; 64]);

    fn check<const N: usize>() {
        let log: LoggedFn<u64, N> = LoggedFn::default();
        let (bytes, aligned) = ([1u8; 100], Aligned([2; 64]));
        for _ in 0..200 {
            log.update_boxed(move |sum| *sum += bytes.iter().map(|it| u64::from(*it)).sum::<u64>());
        }
        log.update_boxed(move |sum| *sum += u64::from(aligned.0[63]));
        log.update(|sum| *sum += 1);
        assert_eq!(log.into_inner(), 200 * 100 + 2 + 1);
    }
    check::<0>();
    check::<1>();
    check::<8>();
    check::<15>();
    check::<17>();
    check::<48>();
}

/// Owns a handle of an object of its kind.
struct Own(Option<Pin<Arc<Lent<u16, Own>>>>);

impl Operation<u16> for Own {
    fn exec(self, executed: &mut u16) {
        drop(self.0);
        *executed += 1;
    }
}

percolog::log_cache!(u16, Own, deferring().places(1));

const fn deferring() -> LogCacheBuilder {
    LogCacheBuilder::new().objects(percolog::oplog::LoggedBuilder::new().mode(Mode::Deferring))
}

/// An operation that has the last handle of its own object is executed by a thread that needs the object's place for another one. The
/// thread cannot go on, and the object cannot go away: the process is told so, and ends, instead of waiting for ever.
#[test]
fn an_operation_that_ends_its_own_object_does_not_wait_for_itself() {
    const CHILD: &str = "PERCOLOG_TEST_ENDS_ITS_OWN_OBJECT";
    const NAME: &str = "panics::an_operation_that_ends_its_own_object_does_not_wait_for_itself";
    cpu::bind(CoreId::new(0));
    if std::env::var_os(CHILD).is_some() {
        let (one, other) = (Arc::pin(Lent::new(0)), Arc::pin(Lent::new(0)));
        one.as_ref().queue(Own(Some(one.clone())));
        drop(one);
        other.as_ref().queue(Own(None));
        unreachable!("it is not executed to the end");
    }
    let program = std::env::current_exe().expect("it runs");
    let mut child = Command::new(program)
        .args(["--exact", NAME, "--nocapture"])
        .env(CHILD, "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it can be started again");
    let ended = eventually(|| child.try_wait().expect("it is ours").is_some());
    if !ended {
        child.kill().expect("it is ours");
    }
    let output = child.wait_with_output().expect("it is ours");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(ended && !output.status.success(), "{text}");
    assert!(text.contains("the last handle"), "{text}");
}

/// The handle of another object may be the last one, wherever it is dropped.
#[test]
fn an_operation_may_end_another_object() {
    cpu::bind(CoreId::new(1));
    let [one, other, third] = [(); 3].map(|()| Arc::pin(Lent::<u16, Own>::new(0)));
    one.as_ref().queue(Own(None));
    other.as_ref().queue(Own(Some(one)));
    // Evicts the other one, whose operation ends the first.
    third.as_ref().queue(Own(None));
    assert_eq!((*other.synchronize(), *third.synchronize()), (1, 1));
}

struct Count(u64);

impl Operation<u64> for Count {
    fn exec(self, sum: &mut u64) {
        *sum += self.0;
    }
}

// SAFETY: made once.
unsafe impl Cached<u64, Native> for Count {
    fn cache() -> &'static LogCache<u64, Self> {
        static CACHE: LogCache<u64, Count> = deferring().places(1).build();
        &CACHE
    }
}

/// An object that nobody uses has the place, for as long as nobody reads it: an update that may not merge it is taken all the same.
#[test]
fn an_idle_object_keeps_nobody_from_trying() {
    cpu::bind(CoreId::new(0));
    let idle = Lent::<u64, Count>::boxed(0);
    idle.as_ref().queue(Count(1));
    let others: Vec<_> = (0..20).map(|_| Lent::<u64, Count>::boxed(0)).collect();
    for _ in 0..10 {
        for other in &others {
            let queued = other.as_ref().try_queue(Count(1));
            assert!(queued.is_ok(), "{queued:?}");
        }
        let queued = idle.as_ref().try_queue(Count(1));
        assert!(queued.is_ok(), "{queued:?}");
    }
    let cache = <Count as Cached<u64>>::cache();
    assert_eq!(cache.stats().merges, 0, "nothing was merged for that");
    assert_eq!(*idle.synchronize(), 11);
    for other in &others {
        assert_eq!(*other.synchronize(), 10);
    }
    assert_eq!(cache.stats().aside, 0);
}
