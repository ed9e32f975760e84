//! The workload itself: empty sections, and updates of memory that nobody reads.

use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::node::{Account, Node};
use super::trace::{BLOCK, Part, Trace};
use super::{Handle, Reclaimer, ReclaimerKind, Visitor};
use crate::runner::{self, Cell, RunError, Settings, Workload};

/// What a cell of the workload gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Reads and updates together, and their time, which ends when everything has been freed.
    pub cell: Cell,
    /// The reads of them.
    pub reads: u64,
    /// The updates of them.
    pub updates: u64,
    /// The most objects that were retired and not yet freed, where the cell was [watched].
    pub peak: u64,
}

impl Throughput {
    /// Reads a second, all threads together.
    #[must_use]
    pub fn reads_a_second(&self) -> f64 {
        self.reads as f64 / self.cell.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Updates a second, all threads together.
    #[must_use]
    pub fn updates_a_second(&self) -> f64 {
        self.updates as f64 / self.cell.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// The times of single calls, in nanoseconds; each has the time of reading the clock in it, which is also given.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Of a read.
    pub read: Histogram<u64>,
    /// Of an update.
    pub update: Histogram<u64>,
    /// Of nothing: what timing a call costs by itself.
    pub clock: Histogram<u64>,
}

impl Latency {
    /// The mean time of a call, without that of the clock.
    #[must_use]
    pub fn mean(&self, calls: &Histogram<u64>) -> f64 {
        (calls.mean() - self.clock.mean()).max(0.0)
    }

    /// The time that 99 % of the calls do not exceed, less the median of the clock.
    #[must_use]
    pub fn p99(&self, calls: &Histogram<u64>) -> f64 {
        let clock = self.clock.value_at_quantile(0.5);
        calls.value_at_quantile(0.99).saturating_sub(clock) as f64
    }
}

/// Runs one cell.
///
/// # Errors
/// Something was not freed, or was freed twice, or a thread could not be started.
pub fn throughput(
    kind: ReclaimerKind,
    trace: &Trace,
    settings: Settings,
) -> Result<Throughput, RunError> {
    kind.accept(Run {
        trace,
        settings,
        watched: false,
    })
}

/// Runs one cell in which each thread looks, after each 64 operations, how many objects are not freed yet. That costs
/// time: the rates of such a cell are not shown.
///
/// # Errors
/// As for [`throughput`].
pub fn watched(
    kind: ReclaimerKind,
    trace: &Trace,
    settings: Settings,
) -> Result<Throughput, RunError> {
    kind.accept(Run {
        trace,
        settings,
        watched: true,
    })
}

/// Runs the same operations with nothing to protect readers: sections are nothing, and an update frees at once. Nobody
/// can be faster, and only because nobody reads what is freed may anybody do so.
///
/// # Errors
/// As for [`throughput`].
pub fn limit(trace: &Trace, settings: Settings) -> Result<Throughput, RunError> {
    let run = Run {
        trace,
        settings,
        watched: false,
    };
    run.visit::<Unprotected>()
}

/// Times each call of one cell.
///
/// # Errors
/// As for [`throughput`].
pub fn latency(
    kind: ReclaimerKind,
    trace: &Trace,
    settings: Settings,
) -> Result<Latency, RunError> {
    kind.accept(Time { trace, settings })
}

/// See [`limit`].
struct Unprotected;

impl Reclaimer for Unprotected {
    const NAME: &'static str = "nothing protected";
    const WAITS: bool = false;
    type Handle<'r> = Self;

    fn new() -> Self {
        Self
    }

    fn register(&self) -> Self {
        Self
    }

    fn finish(&self) {}
}

impl Handle for Unprotected {
    #[inline]
    fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        // The compiler must not make one long section of many.
        std::hint::black_box(inside())
    }

    #[inline]
    unsafe fn retire(&mut self, node: NonNull<Node>) {
        // SAFETY: in this file no other thread ever has it.
        unsafe { Node::free(node) };
    }
}

/// A visitor that runs a cell.
struct Run<'t> {
    trace: &'t Trace,
    settings: Settings,
    watched: bool,
}

impl Visitor for Run<'_> {
    type Output = Result<Throughput, RunError>;

    fn visit<R: Reclaimer>(self) -> Self::Output {
        let duel = Duel::<R>::new(self.trace, self.watched);
        let cell = runner::run(R::NAME, &Rates(&duel), self.settings)?;
        // Relaxed, here and below: the workers have been joined.
        let updates = duel.updates.load(Ordering::Relaxed);
        Ok(Throughput {
            cell,
            reads: cell.operations - updates,
            updates,
            peak: duel.account.peak(),
        })
    }
}

/// A visitor that times calls.
struct Time<'t> {
    trace: &'t Trace,
    settings: Settings,
}

impl Visitor for Time<'_> {
    type Output = Result<Latency, RunError>;

    fn visit<R: Reclaimer>(self) -> Self::Output {
        let duel = Duel::<R>::new(self.trace, false);
        let times = Mutex::new(Latency {
            read: histogram(),
            update: histogram(),
            clock: histogram(),
        });
        runner::run(R::NAME, &Times(&duel, &times), self.settings)?;
        Ok(times.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the threads of a cell share.
struct Duel<'t, R> {
    reclaimer: R,
    account: Account,
    trace: &'t Trace,
    watched: bool,
    /// Updates of the threads that have finished.
    updates: AtomicU64,
}

/// One thread of a cell.
struct Worker<'d, H> {
    handle: H,
    account: &'d Account,
    trace: Part<'d>,
    /// The line that the next update retires.
    current: NonNull<Node>,
    updates: u64,
}

impl<'t, R: Reclaimer> Duel<'t, R> {
    fn new(trace: &'t Trace, watched: bool) -> Self {
        Self {
            reclaimer: R::new(),
            account: Account::default(),
            trace,
            watched,
            updates: AtomicU64::new(0),
        }
    }

    fn worker(&self, thread: usize) -> Worker<'_, R::Handle<'_>> {
        let mut handle = self.reclaimer.register();
        // Whatever a thread does at its first section is not what is measured.
        handle.read();
        Worker {
            handle,
            account: &self.account,
            trace: self.trace.part(thread),
            current: self.account.allocate(),
            updates: 0,
        }
    }

    /// Ends a thread: its last line never was anybody else's.
    fn leave(&self, worker: Worker<'_, R::Handle<'_>>) {
        self.account.retire(1);
        // SAFETY: no other thread ever had it.
        unsafe { Node::free(worker.current) };
        // Relaxed: read after this thread has been joined.
        self.updates.fetch_add(worker.updates, Ordering::Relaxed);
    }
}

impl<H: Handle> Worker<'_, H> {
    #[inline]
    fn update(&mut self) {
        let old = mem::replace(&mut self.current, self.account.allocate());
        // SAFETY: it was in no place but `current`, and is retired this once; the thread is in no section.
        unsafe { self.handle.retire(old) };
    }
}

/// The pass that counts operations.
struct Rates<'d, 't, R>(&'d Duel<'t, R>);

impl<'d, R: Reclaimer> Workload for Rates<'d, '_, R> {
    type Worker = Worker<'d, R::Handle<'d>>;
    type Left = ();

    fn worker(&self, thread: usize) -> Self::Worker {
        self.0.worker(thread)
    }

    fn block(&self, worker: &mut Self::Worker) -> u64 {
        let mut operations = worker.trace.next_block();
        let updates = u64::from(operations.count_ones());
        for _ in 0..BLOCK {
            if operations & 1 == 1 {
                worker.update();
            } else {
                worker.handle.read();
            }
            operations >>= 1;
        }
        worker.updates += updates;
        self.0.account.retire(updates);
        if self.0.watched {
            self.0.account.look();
        }
        BLOCK
    }

    fn leave(&self, worker: Self::Worker) {
        self.0.leave(worker);
    }

    fn settle(&self) {
        self.0.reclaimer.finish();
    }

    fn check(&self, _left: &[()]) -> Result<(), String> {
        self.0.account.check()
    }
}

/// The pass that times calls.
struct Times<'d, 't, R>(&'d Duel<'t, R>, &'d Mutex<Latency>);

impl<'d, R: Reclaimer> Workload for Times<'d, '_, R> {
    type Worker = (Worker<'d, R::Handle<'d>>, Latency);
    type Left = ();

    fn worker(&self, thread: usize) -> Self::Worker {
        let mut clock = histogram();
        for _ in 0..10_000 {
            timed(&mut clock, || ());
        }
        let latency = Latency {
            read: histogram(),
            update: histogram(),
            clock,
        };
        (self.0.worker(thread), latency)
    }

    fn block(&self, (worker, times): &mut Self::Worker) -> u64 {
        let mut operations = worker.trace.next_block();
        let updates = u64::from(operations.count_ones());
        for _ in 0..BLOCK {
            if operations & 1 == 1 {
                timed(&mut times.update, || worker.update());
            } else {
                timed(&mut times.read, || worker.handle.read());
            }
            operations >>= 1;
        }
        worker.updates += updates;
        self.0.account.retire(updates);
        BLOCK
    }

    fn leave(&self, (worker, times): Self::Worker) {
        self.0.leave(worker);
        let mut all = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut all.read, &times.read);
        add(&mut all.update, &times.update);
        add(&mut all.clock, &times.clock);
    }

    fn settle(&self) {
        self.0.reclaimer.finish();
    }

    fn check(&self, _left: &[()]) -> Result<(), String> {
        self.0.account.check()
    }
}

/// Three significant digits of nanoseconds, up to ten seconds.
fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, 10_000_000_000, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("these bounds are in order: {error}"),
    }
}

/// Adds one thread's calls to those of all.
fn add(all: &mut Histogram<u64>, own: &Histogram<u64>) {
    // Cannot fail: all histograms have the same bounds.
    all.add(own).unwrap_or_else(|error| unreachable!("{error}"));
}

#[inline]
fn timed(times: &mut Histogram<u64>, call: impl FnOnce()) {
    let started = Instant::now();
    call();
    let elapsed: Duration = started.elapsed();
    // A call of more than ten seconds would be shown as one of ten.
    times.saturating_record(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
}
