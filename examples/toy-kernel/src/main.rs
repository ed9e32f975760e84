//! A toy kernel that runs on the host: its processors are threads, its tasks hop between them.
//!
//! What a real kernel would take from here is [`ToyKernel`], its [`Platform`], and the one line
//! [`percolog::platform!`]: the library finds slots, time and pre-emption through it at link time,
//! and is built without `std`.

use percolog::counter::Counter;
use percolog::cpu::{self, Platform, SlotSource};
use percolog::oplog::{Absorb, AddToken, RemoveToken, Logged, Operation, token_pair};
use percolog::reclaim::{Domain, Link, Owned};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const PROCESSORS: usize = 4;
const TASKS: u64 = 64;
const STEPS: u64 = 500;

/// What percolog needs to know of this kernel.
struct ToyKernel;

percolog::platform!(ToyKernel);

std::thread_local! {
    /// The processor this host thread plays.
    static PROCESSOR: Cell<u32> = const { Cell::new(0) };
    /// How deeply pre-emption is switched off on it.
    static NO_PREEMPTION: Cell<u32> = const { Cell::new(0) };
}

// SAFETY: stamps come from one counter, so each is greater than all before it; no method panics, or uses percolog.
unsafe impl Platform for ToyKernel {
    fn slot() -> u32 {
        PROCESSOR.get()
    }

    fn stamp() -> u64 {
        // One clock for all processors. A kernel on x86-64 with synchronized time stamp counters
        // would return `percolog::cpu::clock::tsc()`.
        static CLOCK: AtomicU64 = AtomicU64::new(1);
        CLOCK.fetch_add(1, Ordering::Relaxed)
    }

    fn relax() {
        // A kernel would say `pause`; these processors are threads that share the host's.
        std::thread::yield_now();
    }

    fn without_preemption(f: &mut dyn FnMut()) {
        NO_PREEMPTION.set(NO_PREEMPTION.get() + 1);
        f();
        NO_PREEMPTION.set(NO_PREEMPTION.get() - 1);
    }

    fn count() -> usize {
        PROCESSORS
    }
}

/// How many system calls there were: each processor adds to a cell of its own.
static SYSTEM_CALLS: Counter = Counter::new();

/// Who is mapped where. Updated at every step, read when memory runs out.
static REVERSE_MAP: Logged<BTreeMap<u64, u64>, Map> = Logged::new(BTreeMap::new());

enum Map {
    Add(AddToken, u64),
    Remove(RemoveToken),
}

impl Operation<BTreeMap<u64, u64>> for Map {
    const ABSORBS: bool = true;

    fn exec(self, map: &mut BTreeMap<u64, u64>) {
        match self {
            Map::Add(mapping, task) => {
                map.insert(mapping.id(), task);
            }
            Map::Remove(mapping) => {
                map.remove(&mapping.id());
            }
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Map::Add(mapping, _) => Absorb::Add(mapping),
            Map::Remove(mapping) => Absorb::Remove(mapping),
        }
    }
}

/// The sections in which the timetable is read.
static READERS: Domain = Domain::new();

/// Who may run for how long: read at every step, and now and then replaced by another one.
static TIMETABLE: Link<Timetable> = Link::null();

struct Timetable {
    /// By task; all the same, so that half of one table and half of another would show.
    slices: [u64; TASKS as usize],
}

/// What the timetable says of a task. Another task may replace it at any time; so may this one, which
/// goes on reading the old one.
fn slice(task: u64, replace: bool) -> u64 {
    let section = READERS.enter();
    let Some(timetable) = TIMETABLE.load(&section) else {
        return 0;
    };
    let slice = timetable.slices[0];
    if replace {
        replace_timetable(slice + 1);
    }
    assert_eq!(
        timetable.slices[task as usize], slice,
        "a timetable was freed while it was read"
    );
    slice
}

fn replace_timetable(slice: u64) {
    let new = Owned::new(Timetable {
        slices: [slice; TASKS as usize],
    });
    if let Some(old) = TIMETABLE.swap(Some(new)) {
        // SAFETY: only this link led to it, and it is read in sections of READERS.
        unsafe { READERS.retire(old) };
    }
}

/// A task: it maps something at each step and unmaps what it mapped the step before.
struct Task {
    number: u64,
    steps: u64,
    mapped: Option<RemoveToken>,
}

impl Task {
    /// Runs one step; `false` when the task has nothing left to do.
    fn step(&mut self) -> bool {
        if let Some(mapping) = self.mapped.take() {
            REVERSE_MAP.queue(Map::Remove(mapping));
            SYSTEM_CALLS.increment();
        }
        if self.steps == 0 {
            return false;
        }
        self.steps -= 1;
        assert_ne!(slice(self.number, self.steps.is_multiple_of(10)), 0);
        let (birth, death) = token_pair();
        REVERSE_MAP.queue(Map::Add(birth, self.number));
        SYSTEM_CALLS.increment();
        self.mapped = Some(death);
        true
    }
}

fn main() {
    assert_eq!(cpu::slot_source(), SlotSource::Platform);
    let ready = Mutex::new(
        (0..TASKS)
            .map(|number| Task {
                number,
                steps: STEPS,
                mapped: None,
            })
            .collect::<VecDeque<_>>(),
    );
    replace_timetable(1);
    let finished = AtomicUsize::new(0);
    let out_of_order = AtomicBool::new(false);

    std::thread::scope(|host| {
        for processor in 0..PROCESSORS as u32 {
            let (ready, finished, out_of_order) = (&ready, &finished, &out_of_order);
            host.spawn(move || {
                PROCESSOR.set(processor);
                while finished.load(Ordering::Relaxed) < TASKS as usize {
                    let Some(mut task) = ready.lock().expect("no task panics").pop_front() else {
                        std::thread::yield_now();
                        continue;
                    };
                    // A time slice of three steps; then the task goes on elsewhere.
                    if (0..3).all(|_| task.step()) {
                        // Memory is short, now and then: who maps what? At most one mapping a task.
                        if task.steps.is_multiple_of(100)
                            && REVERSE_MAP.with(|map| map.len()) > TASKS as usize
                        {
                            out_of_order.store(true, Ordering::Relaxed);
                        }
                        ready.lock().expect("no task panics").push_back(task);
                    } else {
                        finished.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });

    // Each processor frees what tasks have retired on it.
    for processor in 0..PROCESSORS as u32 {
        PROCESSOR.set(processor);
        READERS.collect();
    }
    let timetables = READERS.stats();

    let calls = SYSTEM_CALLS.sum();
    let stats = REVERSE_MAP.stats();
    println!("{PROCESSORS} processors, {TASKS} tasks, {calls} system calls");
    println!(
        "reverse map: {} updates executed, {} never had to be",
        stats.executed, stats.absorbed
    );
    println!(
        "timetable: {} replaced, {} of them freed",
        timetables.retired, timetables.destroyed
    );
    assert_eq!(calls, (TASKS * STEPS * 2) as i64, "a system call was not counted");
    assert!(REVERSE_MAP.synchronize().is_empty(), "a mapping was left behind");
    assert!(!out_of_order.into_inner(), "a mapping was removed too late");
    assert!(stats.slots <= PROCESSORS, "only processors have slots");
    assert_eq!(stats.clock_violations, 0);
    assert!(timetables.retired > 0, "nothing was replaced");
    assert_eq!(timetables.unreclaimed, 0, "a timetable was left behind");
    println!("everything is accounted for");
}
