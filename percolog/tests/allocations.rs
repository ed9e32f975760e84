//! What is allocated: nothing by an object that is never updated, and nothing by updates and merges once
//! a slot has its queues.
#![cfg(not(percolog_loom))]

use percolog::cpu::{self, CoreId};
use percolog::oplog::{Absorb, Birth, Death, Logged, LoggedFn, Operation, unique};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Counts what the calling thread asks for; other tests do not disturb.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; the counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        LIVE.set(LIVE.get() + 1);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        LIVE.set(LIVE.get() + 1);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: by the caller's contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - 1);
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
    // A thread makes its record of what it holds once, with its first guard of anything.
    drop(LoggedFn::<u64>::new(0).synchronize());
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
    let log: Logged<u64, Add> = Logged::new(0);
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
    let log: Logged<u64, Add> = Logged::new(0);
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
    let log: LoggedFn<u64> = LoggedFn::new(0);
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
    Open(Birth),
    Close(Death),
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
            Self::Open(birth) => Absorb::Begin(birth),
            Self::Close(death) => Absorb::End(death),
        }
    }
    fn replaces(&self, earlier: &Self) -> bool {
        matches!((self, earlier), (Self::Set(key, _), Self::Set(other, _)) if key == other)
    }
}

#[test]
fn updates_that_absorb_allocate_nothing() {
    let log: Logged<BTreeMap<u64, u64>, Edit> = Logged::default();
    allocates_nothing(|| {
        for slot in 0..SLOTS {
            cpu::bind(CoreId::new(slot));
            for number in 0..500 {
                log.queue(Edit::Set((number % 20) as u8, number));
                let (birth, death) = unique();
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
    let log: Logged<BTreeMap<u64, u64>, Edit> = Logged::default();
    let churn = || {
        for number in 0..10_000 {
            log.queue(Edit::Set((number % 50) as u8, number));
            let (birth, death) = unique();
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
    let log: Logged<u64, Record> = Logged::new(0);
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
    let log: Logged<u64, Record> = Logged::<u64, Record>::builder().limit(5).build(0);
    for _ in 0..10 {
        log.extend((0..40).map(|_| Record(vec![1])));
        drop(log.synchronize());
    }
    let kept = std::iter::from_fn(|| log.spent()).count();
    assert!((1..=5).contains(&kept), "{kept} spent operations were kept");
}
