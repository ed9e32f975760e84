//! Runs one workload on N threads for a fixed time or until each has done enough, and checks what it left behind.
//!
//! All threads are created first and wait at a gate; the cell's time runs from the first thread that passes it to
//! the last one that finishes its block, plus the final read. Threads look at the stop flag once a block (tens to
//! hundreds of operations), so that the flag costs nothing; all of the last block's work is counted.

mod cycles;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::host;
use percolog_validation::crew::Shift;

/// What one cell runs: a shared structure and the work of each thread on it.
pub trait Workload: Sync {
    /// What one thread keeps between its blocks; it is made, used and given up on that thread.
    type Worker;

    /// What the final check needs of a thread.
    type Left: Send;

    /// The state of thread `thread` before its first operation.
    fn worker(&self, thread: usize) -> Self::Worker;

    /// Runs one block of operations and returns how many there were.
    fn block(&self, worker: &mut Self::Worker) -> u64;

    /// The same where time is counted in cycles of a simulated machine: fewer operations, since each may take thousands, and nobody looks
    /// at a flag that costs anything.
    fn step(&self, worker: &mut Self::Worker) -> u64 {
        self.block(worker)
    }

    /// Ends a thread's work, after its last block; not part of its time.
    fn leave(&self, worker: Self::Worker) -> Self::Left;

    /// The final read, whose time counts: whatever brings the structure's state together.
    fn settle(&self);

    /// Compares the final state with what the workers did.
    ///
    /// # Errors
    /// Says what differs.
    fn check(&self, left: &[Self::Left]) -> Result<(), String>;
}

/// Why a cell gave no figure.
#[derive(Debug)]
pub enum RunError {
    /// The structure's final state, or an answer on the way, was wrong.
    WrongState {
        /// Which structure.
        structure: &'static str,
        /// What differs.
        detail: String,
    },
    /// The operating system refused to create a thread.
    Spawn {
        /// How many threads were asked for.
        threads: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A worker panicked; its message has already been printed.
    Panicked {
        /// Which structure.
        structure: &'static str,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongState { structure, detail } => {
                write!(f, "{structure} gave a wrong result: {detail}")
            }
            Self::Spawn { threads, source } => {
                write!(f, "could not start {threads} threads: {source}")
            }
            Self::Panicked { structure } => write!(f, "a thread that used {structure} panicked"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spawn { source, .. } => Some(source),
            Self::WrongState { .. } | Self::Panicked { .. } => None,
        }
    }
}

/// How long and on how many threads a cell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Threads that work at the same time (at least one).
    pub threads: usize,
    /// How long they work.
    pub pace: Pace,
    /// Each thread stays on one processor of this machine. (On a simulated one each has a core of its own.)
    pub pinned: bool,
}

/// How long the threads of a cell work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// For so long by the wall's clock; the final read counts.
    For(Duration),
    /// Until each thread has done so many operations, however long that takes: for tests of what is left.
    Operations(u64),
    /// For so many cycles of a simulated machine, each thread on the core of its number, between marks for the simulator: what a program
    /// gets that goes on, so the final read does not count. Natively the cycles are those of the processor's counter.
    Cycles {
        /// Before anything is counted.
        warm_up: u64,
        /// Counted, for each thread.
        counted: u64,
    },
}

impl Settings {
    /// So many threads, for so long.
    #[must_use]
    pub const fn new(threads: usize, duration: Duration) -> Self {
        Self {
            threads,
            pace: Pace::For(duration),
            pinned: false,
        }
    }

    /// So many threads, each until it has done so many operations.
    #[must_use]
    pub const fn until(threads: usize, operations: u64) -> Self {
        Self {
            threads,
            pace: Pace::Operations(operations),
            pinned: false,
        }
    }
}

/// What one cell measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Operations that all threads finished.
    pub operations: u64,
    /// From the first operation to the end of the final read.
    pub elapsed: Duration,
    /// How many times the operations of its first half the second half had, where time is counted in cycles: far from 1, it had not settled.
    pub drift: Option<f64>,
}

impl Cell {
    /// Operations a second, all threads together.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Operations of a [`Workload::step`], where it is shorter than a block; even, as some come in pairs.
pub const STEP: u64 = 16;

/// A figure to show: the median of a few cells, with the slowest and the fastest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Operations a second in the median cell (the lower of the two in the middle of an even number).
    pub median: f64,
    /// Operations a second in the slowest cell.
    pub slowest: f64,
    /// Operations a second in the fastest cell.
    pub fastest: f64,
}

impl Figure {
    /// The figure of these rates, or `None` if there are none.
    #[must_use]
    pub fn of(rates: &[f64]) -> Option<Self> {
        let mut sorted = rates.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: *sorted.get(sorted.len().checked_sub(1)? / 2)?,
            slowest: *sorted.first()?,
            fastest: *sorted.last()?,
        })
    }

    /// Nanoseconds from one operation to the next on one thread of `threads`.
    #[must_use]
    pub fn nanoseconds(&self, threads: usize) -> f64 {
        1e9 * threads as f64 / self.median
    }
}

/// Runs one cell of `workload`; `structure` names it in errors.
///
/// # Errors
/// A thread could not be created or panicked, or the result was wrong.
pub fn run<W: Workload>(
    structure: &'static str,
    workload: &W,
    settings: Settings,
) -> Result<Cell, RunError> {
    let threads = settings.threads;
    let builder = |index| thread::Builder::new().name(format!("worker {index}"));
    match settings.pace {
        Pace::For(duration) => run_on(
            structure,
            workload,
            settings,
            Until::Told(duration),
            builder,
        ),
        Pace::Operations(operations) => run_on(
            structure,
            workload,
            settings,
            Until::Done(operations),
            builder,
        ),
        Pace::Cycles { warm_up, counted } => {
            let shift = Shift {
                threads,
                warm_up,
                cycles: counted,
            };
            cycles::run(structure, workload, shift)
        }
    }
}

/// When a thread stops.
#[derive(Clone, Copy)]
enum Until {
    /// When it is told, after so long.
    Told(Duration),
    /// When it has done so many operations.
    Done(u64),
}

/// [`run`], on threads as `builder` makes them.
fn run_on<W: Workload>(
    structure: &'static str,
    workload: &W,
    settings: Settings,
    until: Until,
    builder: impl Fn(usize) -> thread::Builder,
) -> Result<Cell, RunError> {
    let Settings {
        threads, pinned, ..
    } = settings;
    let gate = Gate::default();
    let stop = AtomicBool::new(false);
    let finished = thread::scope(|scope| {
        let mut handles = Vec::with_capacity(threads);
        for index in 0..threads {
            let (gate, stop) = (&gate, &stop);
            let spawned = builder(index).spawn_scoped(scope, move || {
                work(workload, index, pinned, gate, (until, stop))
            });
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(source) => {
                    // The threads that exist wait at the gate, and the scope waits for them: send them home.
                    gate.open(Signal::GoHome);
                    return Err(RunError::Spawn { threads, source });
                }
            }
        }
        gate.wait_until_all_are_here(threads);
        gate.open(Signal::Work);
        if let Until::Told(duration) = until {
            thread::sleep(duration);
            // Relaxed: the flag carries no data; joining the threads orders what they wrote before what follows.
            stop.store(true, Ordering::Relaxed);
        }
        // Every handle is joined, also after a panic: a handle left over would make the scope panic as well.
        let joined: Vec<_> = handles.into_iter().map(|handle| handle.join()).collect();
        joined
            .into_iter()
            .map(|result| {
                result
                    .ok()
                    .flatten()
                    .ok_or(RunError::Panicked { structure })
            })
            .collect::<Result<Vec<_>, _>>()
    })?;

    let settling = Instant::now();
    workload.settle();
    let settled = settling.elapsed();

    let started = finished.iter().map(|done| done.started).min();
    let ended = finished.iter().map(|done| done.ended).max();
    let worked = match (started, ended) {
        (Some(started), Some(ended)) => ended.duration_since(started),
        _ => Duration::ZERO,
    };
    let operations = finished.iter().map(|done| done.operations).sum();
    let left: Vec<W::Left> = finished.into_iter().map(|done| done.left).collect();
    workload
        .check(&left)
        .map_err(|detail| RunError::WrongState { structure, detail })?;
    Ok(Cell {
        operations,
        elapsed: worked + settled,
        drift: None,
    })
}

/// What one thread did between the gate and the stop flag.
struct Done<L> {
    left: L,
    started: Instant,
    ended: Instant,
    operations: u64,
}

/// The life of one thread of a cell; `None` if it was sent home before it worked.
fn work<W: Workload>(
    workload: &W,
    index: usize,
    pinned: bool,
    gate: &Gate,
    (until, stop): (Until, &AtomicBool),
) -> Option<Done<W::Left>> {
    // Counted as present even if making the worker panics: the gate would otherwise wait for it forever.
    let arrival = Arrival(gate);
    if pinned {
        // A panic, as for all that goes wrong on a thread: the cell then ends with an error.
        host::pin(index).expect("a thread can be kept on a processor that it may use");
    }
    let mut worker = workload.worker(index);
    drop(arrival);
    if gate.wait() == Signal::GoHome {
        return None;
    }
    let started = Instant::now();
    // One block at least, also when a busy machine let this thread start after the end: a rate of zero would be no
    // statement about the structure.
    let mut operations = workload.block(&mut worker);
    loop {
        let goes_on = match until {
            // Relaxed: see the store.
            Until::Told(_) => !stop.load(Ordering::Relaxed),
            Until::Done(enough) => operations < enough,
        };
        if !goes_on {
            break;
        }
        operations += workload.block(&mut worker);
    }
    let ended = Instant::now();
    Some(Done {
        left: workload.leave(worker),
        started,
        ended,
        operations,
    })
}

/// Tells the gate, when dropped, that one thread has arrived.
struct Arrival<'a>(&'a Gate);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.arrive();
    }
}

/// What waiting threads are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Work,
    GoHome,
}

/// A barrier that can also send everybody home, which `std::sync::Barrier` cannot: needed when the system refuses
/// the last of the threads.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, Option<Signal>)>,
    changed: Condvar,
}

impl Gate {
    fn arrive(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
    }

    fn wait_until_all_are_here(&self, threads: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 < threads {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self, signal: Signal) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some(signal);
        self.changed.notify_all();
    }

    fn wait(&self) -> Signal {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(signal) = state.1 {
                return signal;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Counts blocks; loses one in the total when told to.
    struct Counting {
        total: AtomicU64,
        lose_one: bool,
    }

    impl Workload for Counting {
        type Worker = u64;
        type Left = u64;

        fn worker(&self, _thread: usize) -> u64 {
            0
        }

        fn block(&self, done: &mut u64) -> u64 {
            *done += 10;
            self.total.fetch_add(10, Ordering::Relaxed);
            10
        }

        fn leave(&self, done: u64) -> u64 {
            done
        }

        fn settle(&self) {
            if self.lose_one {
                self.total.fetch_sub(1, Ordering::Relaxed);
            }
        }

        fn check(&self, workers: &[u64]) -> Result<(), String> {
            let expected: u64 = workers.iter().sum();
            let found = self.total.load(Ordering::Relaxed);
            if expected == found {
                Ok(())
            } else {
                Err(format!("{found} instead of {expected}"))
            }
        }
    }

    const SHORT: Settings = Settings::until(3, 1000);

    #[test]
    fn every_finished_block_is_counted() {
        let workload = Counting {
            total: AtomicU64::new(0),
            lose_one: false,
        };
        let cell = run("counting", &workload, SHORT).expect("the counts agree");
        assert_eq!(cell.operations, workload.total.load(Ordering::Relaxed));
        assert_eq!(cell.operations, 3 * 1000);
        assert!(cell.rate() > 0.0);
    }

    #[test]
    fn a_wrong_final_state_is_an_error_and_not_a_figure() {
        let workload = Counting {
            total: AtomicU64::new(0),
            lose_one: true,
        };
        let error = run("counting", &workload, SHORT).expect_err("one operation was lost");
        assert!(
            matches!(
                error,
                RunError::WrongState {
                    structure: "counting",
                    ..
                }
            ),
            "{error}"
        );
    }

    /// Panics on one of its threads, either before the gate or behind it.
    struct Panicking {
        before_the_gate: bool,
    }

    impl Workload for Panicking {
        type Worker = usize;
        type Left = ();

        fn worker(&self, thread: usize) -> usize {
            assert!(!(self.before_the_gate && thread == 1), "on purpose");
            thread
        }

        fn block(&self, thread: &mut usize) -> u64 {
            assert!(self.before_the_gate || *thread != 1, "on purpose");
            thread::yield_now();
            1
        }

        fn leave(&self, _thread: usize) {}

        fn settle(&self) {}

        fn check(&self, _left: &[()]) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn a_cell_of_cycles_counts_what_all_threads_did() {
        let workload = Counting {
            total: AtomicU64::new(0),
            lose_one: false,
        };
        let settings = Settings {
            threads: 2,
            pace: Pace::Cycles {
                warm_up: 10_000,
                counted: 1_000_000,
            },
            pinned: false,
        };
        // A busy machine may keep both threads for as long as operations count: then once more.
        let cell = loop {
            let cell = run("counting", &workload, settings).expect("the counts agree");
            if cell.operations > 0 {
                break cell;
            }
            workload.total.store(0, Ordering::Relaxed);
        };
        assert!(!cell.elapsed.is_zero());
        // The warm-up's are in the final state, and not in the figure.
        assert!(cell.operations < workload.total.load(Ordering::Relaxed));
        let lost = Counting {
            total: AtomicU64::new(0),
            lose_one: true,
        };
        assert!(matches!(
            run("counting", &lost, settings),
            Err(RunError::WrongState { .. })
        ));
    }

    #[test]
    fn a_panic_ends_the_cell_with_an_error() {
        for before_the_gate in [true, false] {
            let error = run("panicking", &Panicking { before_the_gate }, SHORT)
                .expect_err("a worker panicked");
            assert!(matches!(error, RunError::Panicked { .. }), "{error}");
        }
    }

    #[test]
    fn a_thread_that_cannot_be_had_sends_the_others_home() {
        let workload = Counting {
            total: AtomicU64::new(0),
            lose_one: false,
        };
        // No system has room for the last one's stack.
        let error = run_on("counting", &workload, SHORT, Until::Done(1), |index| {
            let builder = thread::Builder::new();
            if index == 2 {
                builder.stack_size(1 << 60)
            } else {
                builder
            }
        })
        .expect_err("two threads are not three");
        assert!(
            matches!(error, RunError::Spawn { threads: 3, .. }),
            "{error}"
        );
        assert_eq!(workload.total.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_cell_without_time_has_a_rate_all_the_same() {
        let workload = Counting {
            total: AtomicU64::new(0),
            lose_one: false,
        };
        let cell =
            run("counting", &workload, Settings::new(2, Duration::ZERO)).expect("the counts agree");
        assert!(cell.operations >= 20);
        assert!(cell.rate().is_finite() && cell.rate() > 0.0);
    }

    #[test]
    fn a_figure_is_the_median_between_the_extremes() {
        assert_eq!(Figure::of(&[]), None);
        let figure = Figure::of(&[5.0, 1.0, 9.0]).expect("three rates");
        assert_eq!(
            (figure.slowest, figure.median, figure.fastest),
            (1.0, 5.0, 9.0)
        );
        let even = Figure::of(&[4.0, 2.0]).expect("two rates");
        assert_eq!(even.median, 2.0);
    }
}
