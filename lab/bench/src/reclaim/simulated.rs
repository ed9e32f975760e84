//! The workload of [`bare`](super::bare) on threads that stay on a core each of a simulated machine: for so many cycles, each call
//! timed alone.
//!
//! Under the simulator reading the clock costs what it costs on the described machine and disturbs nothing else, so one run gives both
//! the mean and the 99th percentile. The *throughput* of an operation is, as in the paper, what all cores would do if they did
//! nothing else: their number, over the mean time of that operation in this mixture. (The paper's figures for reads at 50 and 90 % of
//! updates are more than a mixture could have.)

use std::fmt;
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use super::node::{Account, Node};
use super::trace::{BLOCK, Part, Trace};
use super::{Handle, Reclaimer, ReclaimerKind, Visitor};
use percolog_validation::clock;
use percolog_validation::crew::{self, CrewError, Shift, Work};

/// The calls of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    /// How many.
    pub number: u64,
    /// The mean of their cycles.
    pub mean: f64,
    /// The cycles that 99 % of them did not exceed.
    pub p99: u64,
}

impl Calls {
    /// Millions of such operations a second, if `threads` cores of so many million cycles a second did nothing else.
    #[must_use]
    pub fn millions(&self, threads: usize, megahertz: f64) -> f64 {
        if self.number == 0 {
            0.0
        } else {
            threads as f64 * megahertz / self.mean.max(1.0)
        }
    }
}

/// What a cell has given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Its reads.
    pub reads: Calls,
    /// Its updates.
    pub updates: Calls,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reads, updates } = self;
        write!(
            f,
            "cell {} {:.3} {} {} {:.3} {}",
            reads.number, reads.mean, reads.p99, updates.number, updates.mean, updates.p99
        )
    }
}

/// Why a line is not the [`Cell`] that a guest prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotACell(String);

impl fmt::Display for NotACell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} says nothing about reads and updates", self.0)
    }
}

impl std::error::Error for NotACell {}

impl FromStr for Cell {
    type Err = NotACell;

    fn from_str(line: &str) -> Result<Self, NotACell> {
        let mut words = line.split_whitespace();
        let mut next = || words.next();
        let parsed = (|| {
            if next()? != "cell" {
                return None;
            }
            let mut calls = || {
                Some(Calls {
                    number: next()?.parse().ok()?,
                    mean: next()?.parse().ok()?,
                    p99: next()?.parse().ok()?,
                })
            };
            Some(Self {
                reads: calls()?,
                updates: calls()?,
            })
        })();
        parsed.ok_or_else(|| NotACell(line.to_owned()))
    }
}

/// Runs one cell with so many percent of updates; gives what the crew says of it, too.
///
/// # Errors
/// A thread could not be started, or objects were not freed, or freed twice.
pub fn run(
    kind: ReclaimerKind,
    percent_updates: u32,
    shift: Shift,
) -> Result<(Cell, Work), CrewError> {
    // Longer than the run for most; a thread that comes to the end of its part begins it again.
    let operations = shift.threads << 16;
    kind.accept(Run {
        trace: Trace::of(operations, percent_updates, shift.threads),
        shift,
    })
}

struct Run {
    trace: Trace,
    shift: Shift,
}

impl Visitor for Run {
    type Output = Result<(Cell, Work), CrewError>;

    fn visit<R: Reclaimer>(self) -> Self::Output {
        // On lines of their own, as everything that threads share here.
        let shared = Box::new(Apart((R::new(), Account::default())));
        let (reclaimer, account) = &shared.0;
        let all = Mutex::new([histogram(), histogram()]);
        let work = crew::run(self.shift, |thread| {
            have_memory(account);
            let mut worker = Worker {
                handle: reclaimer.register(),
                account,
                trace: self.trace.part(thread),
                block: 0,
                left: 0,
                current: account.allocate(),
                times: [histogram(), histogram()],
                clock: price_of_the_clock(),
                all: &all,
            };
            // The first operation is made before all threads are there, and time begins with the second.
            let mut first = true;
            let mut counted = None;
            move || {
                let counts = if first {
                    first = false;
                    false
                } else {
                    let now = clock::cycles();
                    now >= *counted.get_or_insert(now + self.shift.warm_up)
                };
                worker.operate(counts);
            }
        })?;
        reclaimer.finish();
        if account.check().is_err() {
            return work.checked(0, 1).map(|_| unreachable!("zero is not one"));
        }
        let [reads, updates] = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        let cell = Cell {
            reads: calls(&reads),
            updates: calls(&updates),
        };
        Ok((cell, work))
    }
}

/// Objects that a thread allocates and frees before anything else: more than any reclaimer keeps of it here. Otherwise memory that
/// nobody has used before would be what the first milliseconds measure.
const OBJECTS: usize = 6144;

fn have_memory(account: &Account) {
    let nodes: Vec<NonNull<Node>> = (0..OBJECTS).map(|_| account.allocate()).collect();
    account.retire(OBJECTS as u64);
    for node in nodes {
        // SAFETY: nobody else has it.
        unsafe { Node::free(node) };
    }
}

#[repr(align(128))]
struct Apart<T>(T);

fn calls(times: &Histogram<u64>) -> Calls {
    Calls {
        number: times.len(),
        mean: times.mean(),
        p99: times.value_at_quantile(0.99),
    }
}

fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, 1 << 40, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("these bounds are in order: {error}"),
    }
}

/// The cycles between two looks at the clock with nothing between them.
fn price_of_the_clock() -> u64 {
    (0..100)
        .map(|_| {
            let before = clock::cycles();
            clock::cycles() - before
        })
        .min()
        .unwrap_or(0)
}

/// One thread.
struct Worker<'a, H> {
    handle: H,
    account: &'a Account,
    trace: Part<'a>,
    /// The operations of the trace that come next, and how many they are.
    block: u64,
    left: u64,
    /// The line that the next update retires.
    current: NonNull<Node>,
    /// Of reads and of updates.
    times: [Histogram<u64>; 2],
    /// What timing a call adds to it.
    clock: u64,
    /// Where the times go when the thread has finished.
    all: &'a Mutex<[Histogram<u64>; 2]>,
}

impl<H: Handle> Worker<'_, H> {
    /// The next operation of the trace.
    #[inline]
    fn operate(&mut self, counts: bool) {
        if self.left == 0 {
            self.block = self.trace.next_block();
            self.left = BLOCK;
        }
        let is_update = self.block & 1 == 1;
        self.block >>= 1;
        self.left -= 1;
        let started = clock::cycles();
        if is_update {
            let old = std::mem::replace(&mut self.current, self.account.allocate());
            // SAFETY: it was in no place but `current`, and is retired this once; the thread is in no section.
            unsafe { self.handle.retire(old) };
        } else {
            self.handle.read();
        }
        let took = clock::cycles() - started;
        // Entered when nobody looks at the clock.
        self.account.retire(u64::from(is_update));
        if counts {
            self.times[usize::from(is_update)].saturating_record(took.saturating_sub(self.clock));
        }
    }
}

impl<H> Drop for Worker<'_, H> {
    fn drop(&mut self) {
        self.account.retire(1);
        // SAFETY: no other thread ever had it.
        unsafe { Node::free(self.current) };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for (all, own) in all.iter_mut().zip(&self.times) {
            // Cannot fail: all histograms have the same bounds.
            all.add(own).unwrap_or_else(|error| unreachable!("{error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIFT: Shift = Shift {
        threads: 3,
        warm_up: 100_000,
        cycles: 1_000_000,
    };

    /// Of a shift in which something was done: a busy machine may give nobody a processor for the whole of a short one.
    fn cell(kind: ReclaimerKind, percent: u32, is_done: impl Fn(&Cell) -> bool) -> Cell {
        let mut cells = (0..8).map(|tries| {
            let cycles = SHIFT.cycles << (2 * tries);
            let cell = run(kind, percent, Shift { cycles, ..SHIFT });
            cell.unwrap_or_else(|error| panic!("{kind:?}: {error}")).0
        });
        let done = cells.find(is_done);
        done.unwrap_or_else(|| panic!("{kind:?} does nothing"))
    }

    #[test]
    fn every_reclaimer_frees_everything_and_both_operations_are_timed() {
        for &kind in ReclaimerKind::ALL {
            let both = |cell: &Cell| cell.reads.number > 0 && cell.updates.number > 0;
            let cell = cell(kind, 50, both);
            // On a real machine a read can take no longer than the clock that times it; an update allocates.
            assert!(cell.updates.p99 > 0, "{kind:?}: {cell}");
        }
    }

    #[test]
    fn without_updates_there_are_none() {
        let cell = cell(ReclaimerKind::Percolog, 0, |cell| cell.reads.number > 0);
        assert_eq!(cell.updates, Calls::default());
        assert!(cell.updates.millions(40, 2000.0).abs() < 1e-9);
    }

    #[test]
    fn throughput_is_that_of_all_cores() {
        let calls = Calls {
            number: 1,
            mean: 80.0,
            p99: 90,
        };
        assert!((calls.millions(40, 2000.0) - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_printed_can_be_read() {
        let calls = |number| Calls {
            number,
            mean: 12.5,
            p99: 99,
        };
        let cell = Cell {
            reads: calls(7),
            updates: calls(8),
        };
        assert_eq!(cell.to_string().parse(), Ok(cell));
        for wrong in ["", "cell 1 2 3", "cell 1 2 x 4 5 6", "call 1 2 3 4 5 6"] {
            assert_eq!(wrong.parse::<Cell>(), Err(NotACell(wrong.to_owned())));
        }
    }
}
