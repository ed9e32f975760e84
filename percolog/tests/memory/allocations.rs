//! What is allocated: nothing by an object that is never updated, and nothing by updates and merges once
//! a slot has its queues.
#![cfg(not(percolog_loom))]

use crate::{BYTES, CALLS, LIVE};
use percolog::collections::{EventQueue, Registry, Set, channel};
use percolog::cpu::{self, CoreId};
use percolog::oplog::{
    Absorb, AddToken, Logged, LoggedBuilder, LoggedFn, Mode, Operation, RemoveToken, token_pair,
};
use percolog::refcount::{self, CoreArc};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often `f` asked for memory on this thread.
fn allocations(f: impl FnOnce()) -> usize {
    let before = CALLS.get();
    f();
    CALLS.get() - before
}

/// Slots that one thread takes turns on.
const SLOTS: u32 = 3;

/// Runs `round` a few times to reach the steady state, then sees that it allocates nothing. A round
/// starts on slot 0 and may go on to others.
fn allocates_nothing(mut round: impl FnMut()) {
    let mut round = || {
        cpu::bind(CoreId::new(0));
        round();
    };
    for _ in 0..20 {
        round();
    }
    assert_eq!(allocations(|| (0..50).for_each(|_| round())), 0);
}

struct Add(u64);

impl Operation<u64> for Add {
    fn exec(self, sum: &mut u64) {
        *sum += self.0;
    }
}

#[test]
fn an_object_that_is_never_updated_allocates_nothing() {
    assert_eq!(allocations(|| drop(Logged::<u64, Add>::new(0))), 0);
    assert_eq!(allocations(|| drop(LoggedFn::<u64>::new(0))), 0);
    // A thread makes its record of what it reads once, with its first guard for reading.
    drop(LoggedFn::<u64>::new(0).read());
    let mut objects: Vec<Logged<u64, Add>> = Vec::with_capacity(1000);
    let calls = allocations(|| {
        objects.extend((0..1000).map(Logged::new));
        for object in &mut objects {
            assert!(object.drain(1).finished);
            drop(object.read());
            drop(object.synchronize());
            object.get_mut();
            assert_eq!(object.stats().pending, 0);
        }
        let sum: u64 = objects.drain(..).map(Logged::into_inner).sum();
        assert_eq!(sum, 999 * 1000 / 2);
    });
    assert_eq!(calls, 0);
}

#[test]
fn plain_updates_and_merges_allocate_nothing() {
    let log: Logged<u64, Add> = LoggedBuilder::new().mode(Mode::Deferring).build(0);
    allocates_nothing(|| {
        for slot in 0..SLOTS {
            cpu::bind(CoreId::new(slot));
            // Beyond the limit, so that updaters merge as well.
            for number in 0..300 {
                log.queue(Add(number));
            }
            assert!(log.try_queue(Add(1)).is_ok());
        }
        drop(log.synchronize());
        drop(log.read());
    });
}

#[test]
fn many_at_once_allocate_nothing() {
    let log: Logged<u64, Add> = LoggedBuilder::new().mode(Mode::Deferring).build(0);
    allocates_nothing(|| {
        for slot in 0..SLOTS {
            cpu::bind(CoreId::new(slot));
            log.extend((0..200).map(Add));
        }
        while !log.drain(50).finished {}
    });
}

#[test]
fn closures_allocate_nothing() {
    let log: LoggedFn<u64> = LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), 0);
    allocates_nothing(|| {
        for slot in 0..SLOTS {
            cpu::bind(CoreId::new(slot));
            for number in 0..200u64 {
                let words = [number; 5];
                log.update(move |sum| *sum += words[4]);
            }
        }
        drop(log.synchronize());
    });
    // But for those that may be of any size: one each.
    let words = [1u64; 20];
    assert_eq!(
        allocations(|| (0..10).for_each(|_| log.update_boxed(move |sum| *sum += words[19]))),
        10
    );
}

/// Sets a register, or opens and closes an entry.
enum Edit {
    Set(u8, u64),
    Open(AddToken),
    Close(RemoveToken),
}

impl Operation<BTreeMap<u64, u64>> for Edit {
    const ABSORBS: bool = true;
    fn exec(self, map: &mut BTreeMap<u64, u64>) {
        match self {
            Self::Set(key, value) => *map.entry(u64::from(key)).or_default() = value,
            Self::Open(_) | Self::Close(_) => {}
        }
    }
    fn absorb(&self) -> Absorb<'_> {
        match self {
            Self::Set(key, _) => Absorb::Replace(u64::from(*key)),
            Self::Open(birth) => Absorb::Add(birth),
            Self::Close(death) => Absorb::Remove(death),
        }
    }
    fn replaces(&self, earlier: &Self) -> bool {
        matches!((self, earlier), (Self::Set(key, _), Self::Set(other, _)) if key == other)
    }
}

#[test]
fn updates_that_absorb_allocate_nothing() {
    let log: Logged<BTreeMap<u64, u64>, Edit> = LoggedBuilder::new()
        .mode(Mode::Deferring)
        .build(BTreeMap::new());
    allocates_nothing(|| {
        for slot in 0..SLOTS {
            cpu::bind(CoreId::new(slot));
            for number in 0..500 {
                log.queue(Edit::Set((number % 20) as u8, number));
                let (birth, death) = token_pair();
                log.queue(Edit::Open(birth));
                if number % 4 == 0 {
                    // Closed by another slot.
                    cpu::bind(CoreId::new((slot + 1) % SLOTS));
                }
                log.queue(Edit::Close(death));
                cpu::bind(CoreId::new(slot));
            }
        }
        drop(log.synchronize());
    });
}

#[test]
fn a_queue_that_absorbs_for_ever_does_not_grow() {
    cpu::bind(CoreId::new(0));
    let log: Logged<BTreeMap<u64, u64>, Edit> = LoggedBuilder::new()
        .mode(Mode::Deferring)
        .build(BTreeMap::new());
    let churn = || {
        for number in 0..10_000 {
            log.queue(Edit::Set((number % 50) as u8, number));
            let (birth, death) = token_pair();
            log.queue(Edit::Open(birth));
            log.queue(Edit::Set(100, number));
            log.queue(Edit::Close(death));
        }
    };
    churn();
    let bytes = log.stats().queue_bytes;
    assert_eq!(allocations(churn), 0);
    let stats = log.stats();
    assert_eq!((stats.queue_bytes, stats.merges), (bytes, 0));
    assert_eq!(stats.pending, 51);
}

#[test]
fn changes_of_a_set_allocate_nothing() {
    let set: Set<u64> = Set::build(LoggedBuilder::new().mode(Mode::Deferring), BTreeSet::new());
    allocates_nothing(|| {
        for slot in 0..SLOTS {
            cpu::bind(CoreId::new(slot));
            for number in 0..1000 {
                set.insert(number % 100);
                set.remove((number + 7) % 100);
            }
        }
    });
    assert_eq!(set.stats().merges, 0);
    // Nor do removals when they are executed.
    allocates_nothing(|| {
        set.remove(3);
        assert!(!set.contains(&3));
    });
}

/// An operation that owns memory, and leaves it to its slot.
struct Record(Vec<u64>);

impl Operation<u64> for Record {
    fn exec(self, sum: &mut u64) {
        *sum += self.0.iter().sum::<u64>();
    }
    fn exec_keeping(self, sum: &mut u64) -> Option<Self> {
        *sum += self.0.iter().sum::<u64>();
        Some(self)
    }
}

#[test]
fn spent_operations_come_back_to_their_slot_and_are_used_again() {
    let log: Logged<u64, Record> = LoggedBuilder::new().mode(Mode::Deferring).build(0);
    let mut made = 0;
    let mut round = || {
        for slot in 0..SLOTS {
            cpu::bind(CoreId::new(slot));
            for _ in 0..100 {
                let mut record = log.spent().unwrap_or_else(|| {
                    made += 1;
                    Record(Vec::with_capacity(8))
                });
                record.0.clear();
                record.0.extend([1; 8]);
                log.queue(record);
            }
        }
        // Freed by nobody: the thread that merges only adds up.
        let live = LIVE.get();
        drop(log.synchronize());
        drop(log.synchronize());
        assert!(LIVE.get() >= live);
    };
    // Spent operations are with the queue that was taken, and come back when it is exchanged again.
    (0..6).for_each(|_| round());
    assert_eq!(allocations(|| (0..20).for_each(|_| round())), 0);
    assert!(made <= 2 * 3 * 100, "{made} records were made");
    assert_eq!(log.into_inner(), 26 * 3 * 100 * 8);
}

#[test]
fn no_more_spent_operations_are_kept_than_the_limit() {
    cpu::bind(CoreId::new(0));
    let log: Logged<u64, Record> = Logged::<u64, Record>::builder()
        .mode(Mode::Deferring)
        .limit(5)
        .build(0);
    for _ in 0..10 {
        log.extend((0..40).map(|_| Record(vec![1])));
        drop(log.synchronize());
    }
    let kept = std::iter::from_fn(|| log.spent()).count();
    assert!((1..=5).contains(&kept), "{kept} spent operations were kept");
}

/// Lets `step` use a fresh object many times, and compares what the object says of its memory with what the
/// allocator has been asked for, at each step. Returns the largest figure.
fn memory_is_as_stated<O: Operation<BTreeMap<u64, u64>>>(
    limit: usize,
    mut step: impl FnMut(&Logged<BTreeMap<u64, u64>, O>, u64),
) -> usize {
    // A thread makes its record of what it holds with its first guard of anything.
    drop(LoggedFn::<u64>::new(0).read());
    let before = BYTES.get();
    let log: Logged<BTreeMap<u64, u64>, O> = Logged::<BTreeMap<u64, u64>, O>::builder()
        .mode(Mode::Deferring)
        .limit(limit)
        .build(BTreeMap::new());
    let mut largest = 0;
    for number in 0..400 {
        // On slots with places in different tables.
        cpu::bind(CoreId::new([0, 1, 63, 64, 700][number as usize % 5]));
        step(&log, number);
        let stated = log.memory_usage();
        assert_eq!(
            BYTES.get() - before,
            stated.total() as isize,
            "{stated:?} after step {number}"
        );
        largest = largest.max(stated.total());
    }
    assert!(log.memory_usage().queues > 0 && log.memory_usage().merging > 0);
    drop(log);
    assert_eq!(BYTES.get(), before);
    largest
}

/// Counts, in a state that allocates nothing.
struct Nothing<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Operation<BTreeMap<u64, u64>> for Nothing<BYTES> {
    fn exec(self, _: &mut BTreeMap<u64, u64>) {}
}

/// The last word on a register, of which nothing is kept.
struct Word(u64);

impl Operation<BTreeMap<u64, u64>> for Word {
    const ABSORBS: bool = true;
    fn exec(self, _: &mut BTreeMap<u64, u64>) {}
    fn exec_keeping(self, _: &mut BTreeMap<u64, u64>) -> Option<Self> {
        Some(self)
    }
    fn absorb(&self) -> Absorb<'_> {
        Absorb::Replace(self.0)
    }
    fn replaces(&self, earlier: &Self) -> bool {
        self.0 == earlier.0
    }
}

#[test]
fn the_memory_an_object_says_it_takes_is_what_it_asked_the_allocator_for() {
    fn plain<const BYTES: usize>(limit: usize) -> usize {
        memory_is_as_stated::<Nothing<BYTES>>(limit, |log, number| {
            log.queue(Nothing([0; BYTES]));
            if number % 3 == 0 {
                log.extend((0..number).map(|_| Nothing([0; BYTES])));
            }
            if number % 50 == 49 {
                drop(log.synchronize());
            }
        })
    }
    // Rows that are smaller than a line, that fill lines, and that end within one.
    for limit in [1, 3, 100, 5000] {
        plain::<0>(limit);
        plain::<5>(limit);
        plain::<56>(limit);
        // All slots have both their queues by then.
        assert!(plain::<200>(limit) > 2 * 5 * 208 * limit.min(1024));
    }
    for limit in [2, 128] {
        memory_is_as_stated::<Word>(limit, |log, number| {
            log.queue(Word(number));
            log.queue(Word(number % 7));
            if number % 40 == 0 {
                drop(log.synchronize());
                let _ = log.spent();
            }
            if number % 90 == 0 {
                log.drain(3);
            }
        });
    }
}

#[test]
fn closures_state_their_memory_too() {
    cpu::bind(CoreId::new(0));
    drop(LoggedFn::<u64>::new(0).read());
    let before = BYTES.get();
    let log: LoggedFn<u64> = LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), 0);
    assert_eq!(log.memory_usage().total(), 0);
    for _ in 0..300 {
        log.update(|sum| *sum += 1);
        assert_eq!(BYTES.get() - before, log.memory_usage().total() as isize);
    }
    assert_eq!(*log.read(), 300);
    assert_eq!(BYTES.get() - before, log.memory_usage().total() as isize);
}

#[test]
fn memory_is_told_of_a_poisoned_object_too_and_to_no_holder_of_a_guard() {
    let log: LoggedFn<u64> = LoggedFn::build(LoggedBuilder::new().mode(Mode::Deferring), 0);
    log.update(|_| panic!("on purpose"));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(log.synchronize()))).is_err());
    assert!(log.is_poisoned());
    assert!(log.memory_usage().total() > 0);
    log.clear_poison();
    let guard = log.read();
    assert!(catch_unwind(AssertUnwindSafe(|| log.memory_usage())).is_err());
    drop(guard);
    assert!(log.memory_usage().total() > 0);
}

#[test]
fn an_event_queue_states_its_memory() {
    // A thread makes its record of what it holds with its first guard of anything.
    drop(LoggedFn::<u64>::new(0).read());
    let before = BYTES.get();
    let queue = EventQueue::new(600);
    let mut consumer = queue.consumer().expect("there is no other");
    for number in 0..2000 {
        cpu::bind(CoreId::new([0, 1, 63, 64, 700][number as usize % 5]));
        queue.push(number);
        if number % 7 == 0 {
            let _ = consumer.try_next();
        }
        if number % 900 == 899 {
            consumer.drain(drop);
        }
        // First: it brings together what has come.
        let stated = consumer.memory_usage() as isize;
        assert_eq!(BYTES.get() - before, stated, "after {number}");
    }
    drop(consumer);
    drop(queue);
    assert_eq!(BYTES.get(), before);
}

#[test]
fn a_registry_states_its_memory() {
    drop(LoggedFn::<u64>::new(0).read());
    let registry: Registry<[u64; 3]> = Registry::new();
    let mut handles = Vec::with_capacity(2000);
    let before = BYTES.get();
    for number in 0..2000 {
        cpu::bind(CoreId::new([0, 1, 63, 64, 700][number % 5]));
        handles.push(registry.register([7; 3]));
        if number % 3 == 0 {
            drop(handles.swap_remove(number / 3));
        }
        if number % 9 == 0 {
            let stated = registry.memory_usage() as isize;
            assert_eq!(BYTES.get() - before, stated, "after {number}");
        }
    }
    assert!(registry.memory_usage() > 1000 * 32);
}

/// What was never hot leaves nothing at the last drop, with no round and no row.
#[test]
fn cold_references_leave_nothing_at_once() {
    let before = (LIVE.get(), BYTES.get());
    let inline = CoreArc::new(7u64);
    let boxed: CoreArc<str> = CoreArc::from("text");
    assert_eq!(LIVE.get(), before.0 + 3);
    let weak = CoreArc::downgrade(&inline);
    drop((inline.clone(), inline, boxed));
    assert_eq!(LIVE.get(), before.0 + 1);
    drop(weak);
    assert_eq!((LIVE.get(), BYTES.get()), before);
}

/// Whatever a value came in, moving it out leaves nothing: nor does its destruction.
#[test]
fn references_leave_nothing_when_their_value_is_gone() {
    let round = || {
        let inline = CoreArc::new(7u64);
        let boxed: CoreArc<u64> = CoreArc::from(Box::new(8u64));
        let atomic: CoreArc<u64> = CoreArc::from(Box::new(9u64));
        assert!(CoreArc::switch_to_atomic(&atomic));
        let hot = CoreArc::into_hot(CoreArc::new(6u64));
        for (arc, number) in [(inline, 7), (boxed, 8), (atomic, 9), (hot, 6)] {
            assert_eq!(CoreArc::try_unwrap(arc).ok(), Some(number));
        }
        for number in [10, 11] {
            let dropped: CoreArc<u64> = CoreArc::from(Box::new(number));
            let weak = CoreArc::downgrade(&dropped);
            drop(dropped);
            assert!(weak.upgrade().is_none());
        }
        let hot: CoreArc<u64> = CoreArc::into_hot(CoreArc::from(Box::new(12u64)));
        drop((CoreArc::downgrade(&hot), hot));
        refcount::reclaim();
    };
    // The thread's row, and what rounds keep.
    (0..3).for_each(|_| round());
    let before = (LIVE.get(), BYTES.get());
    (0..10).for_each(|_| round());
    assert_eq!((LIVE.get(), BYTES.get()), before);
}

/// A channel's segments go back to their sender, wherever in them a round begins; nothing is left in the end.
#[test]
fn a_channel_allocates_nothing_once_warm() {
    let before = (LIVE.get(), BYTES.get());
    for capacity in [400, usize::MAX] {
        let (sender, mut receiver) = channel::bounded(capacity);
        let other = sender.clone();
        let mut round = || {
            for number in 0..300u64 {
                sender.send(number).expect("the receiver is there");
                other.send(number).expect("the receiver is there");
            }
            assert_eq!(receiver.drain(drop), 600);
        };
        (0..4).for_each(|_| round());
        assert_eq!(allocations(|| (0..50).for_each(|_| round())), 0);
        drop((other, sender));
        assert!(receiver.is_disconnected());
    }
    assert_eq!((LIVE.get(), BYTES.get()), before);
}

/// Neither events nor entries that come and go are allocated for, once there are queues.
#[test]
fn events_and_entries_allocate_nothing_once_warm() {
    cpu::bind(CoreId::new(0));
    let queue = EventQueue::new(1000);
    let registry = Registry::new();
    let mut consumer = queue.consumer().expect("there is no other");
    let mut round = || {
        for number in 0..300u64 {
            queue.push(number);
            drop(registry.register(number));
        }
        assert_eq!(consumer.drain(drop), 300);
        assert!(registry.is_empty());
    };
    // Two queues and two rows of waiting events, which are exchanged.
    (0..4).for_each(|_| round());
    assert_eq!(allocations(&mut round), 0);
}
