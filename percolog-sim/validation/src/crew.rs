//! Threads that start together, warm up, and count what they do in a fixed number of cycles.
//!
//! A fixed time, not a fixed number of operations: where a schedule is unfair, the threads that lag behind would otherwise
//! run on alone, and be measured without the contention that made them late.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, Mutex, PoisonError};
use std::thread;

use hdrhistogram::Histogram;

use super::alone::Alone;
use super::clock;

/// How many threads, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Threads, each on the core of its number.
    pub threads: usize,
    /// Cycles before anything is counted.
    pub warm_up: u64,
    /// Cycles that are counted, for each thread.
    pub cycles: u64,
}

/// What a crew has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Threads that worked.
    pub threads: usize,
    /// Operations that were counted.
    pub operations: u64,
    /// Cycles in which they were counted, added up over all threads: the same for each.
    pub cycles: u64,
    /// All operations, those of the warm-up included: what the final state must show.
    pub all: u64,
    /// How many of [`operations`](Self::operations) began in the second half of the counted time; nothing where no time was given.
    pub later: Option<u64>,
    /// Rare things that counted calls did besides their operations, of which they [told](Did).
    pub rare: u64,
    /// Cycles within which 99 of 100 counted calls ended, if somebody [looked](Watch).
    pub p99: Option<u64>,
}

impl Work {
    /// Cycles that a thread took for an operation.
    #[must_use]
    pub fn cycles_per_operation(&self) -> f64 {
        self.cycles as f64 / self.operations.max(1) as f64
    }

    /// The work, if it has led to the final state that it should have led to.
    ///
    /// # Errors
    /// It has not.
    pub fn checked(self, found: u64, expected: u64) -> Result<Self, CrewError> {
        if found == expected {
            Ok(self)
        } else {
            Err(CrewError::WrongState { found, expected })
        }
    }

    /// How many times the operations of the first half of the time the second half had; nothing where there were none.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        let later = self.later?;
        let drift = later as f64 / (self.operations - later) as f64;
        drift.is_finite().then_some(drift)
    }

    /// Operations in a thousand cycles, by all threads together.
    #[must_use]
    pub fn rate(&self) -> f64 {
        1000.0 * self.threads as f64 / self.cycles_per_operation()
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "threads={} operations={} cycles={} all={} rare={}",
            self.threads, self.operations, self.cycles, self.all, self.rare
        )?;
        for (name, value) in [("later", self.later), ("p99", self.p99)] {
            value.map_or(Ok(()), |value| write!(f, " {name}={value}"))?;
        }
        Ok(())
    }
}

/// Why a line is not the [`Work`] that a guest prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotWork(String);

impl fmt::Display for NotWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} says nothing about threads, operations and cycles",
            self.0
        )
    }
}

impl std::error::Error for NotWork {}

impl std::str::FromStr for Work {
    type Err = NotWork;

    fn from_str(line: &str) -> Result<Self, NotWork> {
        let value = |key: &str| {
            line.split_whitespace()
                .find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
                .ok_or_else(|| NotWork(line.to_owned()))
        };
        Ok(Self {
            threads: usize::try_from(value("threads")?).map_err(|_| NotWork(line.to_owned()))?,
            operations: value("operations")?,
            cycles: value("cycles")?,
            all: value("all")?,
            later: value("later").ok(),
            rare: value("rare")?,
            p99: value("p99").ok(),
        })
    }
}

/// Why a crew's work cannot be used.
#[derive(Debug)]
pub enum CrewError {
    /// The system refused a thread.
    Spawn(std::io::Error),
    /// A thread panicked.
    Panicked,
    /// The workload ended in a state that its operations cannot have led to.
    WrongState {
        /// What was found.
        found: u64,
        /// What should have been found.
        expected: u64,
    },
}

impl fmt::Display for CrewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn(error) => write!(f, "a thread could not be started: {error}"),
            Self::Panicked => write!(f, "a thread panicked"),
            Self::WrongState { found, expected } => {
                write!(f, "the final state is {found}, not {expected}")
            }
        }
    }
}

impl std::error::Error for CrewError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spawn(error) => Some(error),
            Self::Panicked | Self::WrongState { .. } => None,
        }
    }
}

/// Cycles from the moment at which all threads have arrived to that at which they start: enough for all of them to learn of it.
const HEAD_START: u64 = 100_000;

/// Cycles from the start of a core to that of the next. All start within the time of one transfer, and queue up for the first time
/// in the order of their numbers. Served in the order of arrival, as in the simulator, they stay so, and a line passes through a
/// chip's cores before it leaves the chip; hardware gets there by itself, as a chip serves its own requests first.
const APART: u64 = 2;

/// Keeps threads from working before it is known whether all of them could be started: a barrier would wait for ever for
/// one that could not.
#[derive(Default)]
struct Gate {
    /// Whether to work, once that is known.
    work: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Gate {
    fn open(&self, work: bool) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
        self.changed.notify_all();
    }

    fn wait(&self) -> bool {
        let mut known = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(work) = *known {
                return work;
            }
            known = self
                .changed
                .wait(known)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a call did: its operations, and rare things besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// How many operations it was.
    pub operations: u64,
    /// How many rare things it did besides, as a change of what others look up.
    pub rare: u64,
}

impl From<u64> for Did {
    #[inline]
    fn from(operations: u64) -> Self {
        Self {
            operations,
            rare: 0,
        }
    }
}

/// A call of a thread's operation: between two looks at the clock, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it began.
    pub from: u64,
    /// When it had ended.
    pub to: u64,
    /// How many operations it was.
    pub operations: u64,
}

impl Call {
    /// How long it took.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.to.wrapping_sub(self.from)
    }
}

/// What looks at how long calls take, on a thread of its own.
pub trait Watch: Send {
    /// The time that is counted.
    fn begins(&mut self, _counted: Range<u64>) {}

    /// The last call of the warm-up, which may reach far into the time that is counted, or beyond it.
    fn across_the_beginning(&mut self, _call: Call) {}

    /// A counted call: one that began within the time. The last one may end after it.
    fn took(&mut self, call: Call);
}

/// Does not look.
impl Watch for () {
    #[inline(always)]
    fn took(&mut self, _: Call) {}
}

impl Watch for Histogram<u64> {
    #[inline]
    fn took(&mut self, call: Call) {
        self.saturating_record(call.cycles());
    }
}

/// Runs `shift.threads` threads. Each calls `prepare` with its number, on its own core, and then what that returned: one
/// operation a call.
///
/// # Errors
/// A thread could not be started, or panicked.
pub fn run<P, O>(shift: Shift, prepare: P) -> Result<Work, CrewError>
where
    P: Fn(usize) -> O + Sync,
    O: FnMut(),
{
    run_counting(shift, |number| {
        let mut operation = prepare(number);
        move || {
            operation();
            1_u64
        }
    })
}

/// The same, where a call is as many operations as it says. (Calls themselves are what [`Work::all`] counts.)
///
/// # Errors
/// As [`run`].
pub fn run_counting<P, O, D>(shift: Shift, prepare: P) -> Result<Work, CrewError>
where
    P: Fn(usize) -> O + Sync,
    O: FnMut() -> D,
    D: Into<Did>,
{
    let (work, _) = run_watched(shift, || (), prepare)?;
    Ok(work)
}

/// The same, and each thread's watch is told how many cycles each counted call took; all watches are given back.
///
/// # Errors
/// As [`run`].
pub fn run_watched<P, O, D, W>(
    shift: Shift,
    watch: impl Fn() -> W + Sync,
    prepare: P,
) -> Result<(Work, Vec<W>), CrewError>
where
    P: Fn(usize) -> O + Sync,
    O: FnMut() -> D,
    D: Into<Did>,
    W: Watch,
{
    let hired = Barrier::new(shift.threads);
    // In lines of their own: those who wait read one while others still write the other.
    let arrived = Alone(AtomicUsize::new(0));
    let start = Alone(AtomicU64::new(0));
    let (arrived, start) = (&arrived.0, &start.0);
    let gate = Gate::default();

    let work = |number: usize| {
        percolog_roi::core(number);
        // A copy of this thread's own, for the same reason as below.
        let shift = std::hint::black_box(shift);
        let mut operation = prepare(number);
        let mut watch = watch();
        // What the operation needs is in this core's cache when it matters: otherwise those with the longest way to it would
        // come late.
        operation();
        // Nobody spins before all are there; but threads leave this barrier one after the other.
        hired.wait();
        if arrived.fetch_add(1, Ordering::Relaxed) + 1 == shift.threads {
            start.store(clock::cycles() + HEAD_START, Ordering::Relaxed);
        }
        // Relaxed: a number, and nothing else, is handed over.
        let start = loop {
            match start.load(Ordering::Relaxed) {
                0 => std::hint::spin_loop(),
                start => break start,
            }
        };
        clock::meet(start + number as u64 * APART);

        let counted = start + shift.warm_up;
        let finished = counted + shift.cycles;
        watch.begins(counted..finished);
        // The one above.
        let mut all = 1;
        let mut before = clock::cycles();
        let mut call = || {
            let Did { operations, rare } = operation().into();
            all += 1;
            let call = Call {
                from: before,
                to: clock::cycles(),
                operations,
            };
            before = call.to;
            (call, rare)
        };
        let last = loop {
            let (last, _) = call();
            if last.to >= counted {
                break last;
            }
        };
        watch.across_the_beginning(last);
        percolog_roi::begin();
        // What begins within the time counts: not the call across its beginning, but the one across its end.
        let (mut operations, mut earlier, mut rare, mut now) = (0, 0, 0, last.to);
        // A half after the other: which one a call is of is not asked for each.
        for end in [counted.midpoint(finished), finished] {
            earlier = operations;
            while now < end {
                let (counted, besides) = call();
                operations += counted.operations;
                rare += besides;
                now = counted.to;
                watch.took(counted);
            }
        }
        percolog_roi::end(operations);
        let work = Work {
            threads: 1,
            operations,
            cycles: shift.cycles,
            all,
            later: Some(operations - earlier),
            rare,
            p99: None,
        };
        (work, watch)
    };

    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(shift.threads);
        for number in 0..shift.threads {
            let (work, gate) = (&work, &gate);
            let spawned = thread::Builder::new()
                .spawn_scoped(scope, move || gate.wait().then(|| work(number)));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gate.open(false);
                    return Err(CrewError::Spawn(error));
                }
            }
        }
        gate.open(true);
        let mut total = Work {
            threads: shift.threads,
            operations: 0,
            cycles: 0,
            all: 0,
            later: Some(0),
            rare: 0,
            p99: None,
        };
        let mut watches = Vec::with_capacity(shift.threads);
        for thread in threads {
            let Ok(Some((own, watch))) = thread.join() else {
                return Err(CrewError::Panicked);
            };
            watches.push(watch);
            total.operations += own.operations;
            total.cycles += own.cycles;
            total.all += own.all;
            total.rare += own.rare;
            total.later = total.later.zip(own.later).map(|(all, own)| all + own);
        }
        Ok((total, watches))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_in_the_account() {
        let made = AtomicU64::new(0);
        let prepared = AtomicUsize::new(0);
        let shift = Shift {
            threads: 3,
            warm_up: 10_000,
            cycles: 100_000,
        };
        let work = run(shift, |number| {
            prepared.fetch_add(1 << (8 * number), Ordering::Relaxed);
            || {
                made.fetch_add(1, Ordering::Relaxed);
            }
        })
        .expect("threads can be started");
        assert_eq!(prepared.into_inner(), 0x01_0101);
        assert_eq!(work.threads, 3);
        assert_eq!(work.all, made.into_inner());
        assert!(work.operations <= work.all);
        assert_eq!(work.cycles, 300_000);
    }

    #[test]
    fn the_call_across_the_beginning_is_told_of_and_does_not_count() {
        #[derive(Default)]
        struct Seen {
            counted: Range<u64>,
            across: Vec<Call>,
            took: Vec<Call>,
        }
        impl Watch for Seen {
            fn begins(&mut self, counted: Range<u64>) {
                self.counted = counted;
            }

            fn across_the_beginning(&mut self, call: Call) {
                self.across.push(call);
            }

            fn took(&mut self, call: Call) {
                self.took.push(call);
            }
        }
        let shift = Shift {
            threads: 2,
            warm_up: 50_000,
            cycles: 500_000,
        };
        let (work, seen) =
            run_watched(shift, Seen::default, |_| || 3_u64).expect("threads can be started");
        let mut operations = 0;
        for seen in &seen {
            let [across] = seen.across[..] else {
                panic!("one call is the last of the warm-up: {:?}", seen.across);
            };
            // It begins later than that only where the system kept its thread for all of the warm-up.
            assert!(seen.counted.start <= across.to);
            assert_eq!(seen.counted.end - seen.counted.start, shift.cycles);
            // One begins where the one before it has ended, and all but the last end within the time.
            let ends = std::iter::once(across.to).chain(seen.took.iter().map(|call| call.to));
            assert!(ends.zip(&seen.took).all(|(end, call)| call.from == end));
            assert!(seen.took.iter().all(|call| call.from < seen.counted.end));
            operations += seen.took.iter().map(|call| call.operations).sum::<u64>();
        }
        assert_eq!(work.operations, operations);
    }

    #[test]
    fn rare_things_and_the_second_half_are_counted() {
        let shift = Shift {
            threads: 2,
            warm_up: 50_000,
            cycles: 500_000,
        };
        let work = run_counting(shift, |_| {
            let mut calls = 0_u64;
            move || {
                calls += 1;
                Did {
                    operations: 2,
                    rare: u64::from(calls.is_multiple_of(4)),
                }
            }
        })
        .expect("threads can be started");
        let calls = work.operations / 2;
        // Each thread has begun its fours elsewhere.
        assert!(work.rare.abs_diff(calls / 4) <= 2, "{work}");
        assert!(work.later.is_some_and(|later| later <= work.operations));
    }

    #[test]
    fn the_gate_keeps_nobody_who_could_not_work() {
        let gate = Gate::default();
        thread::scope(|scope| {
            let early = scope.spawn(|| gate.wait());
            gate.open(false);
            assert!(!early.join().expect("no panic"));
        });
        assert!(!gate.wait());
    }

    #[test]
    fn what_is_printed_can_be_read() {
        let work = Work {
            threads: 4,
            operations: 1000,
            cycles: 8000,
            all: 1200,
            later: None,
            rare: 0,
            p99: None,
        };
        assert_eq!(work.to_string().parse(), Ok(work));
        assert_eq!(work.drift(), None);
        let watched = Work {
            later: Some(600),
            rare: 3,
            p99: Some(77),
            ..work
        };
        assert_eq!(watched.to_string().parse(), Ok(watched));
        assert!((work.rate() - 500.0).abs() < 1e-9);
        assert_eq!(watched.drift(), Some(1.5));
        for wrong in [
            "",
            "threads=1 operations=2 cycles=3",
            "threads=x operations=2 cycles=3 all=4",
        ] {
            assert_eq!(wrong.parse::<Work>(), Err(NotWork(wrong.to_owned())));
        }
    }
}
