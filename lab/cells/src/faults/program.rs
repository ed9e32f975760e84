//! Programs that fault, and how their threads are run.

use std::error::Error;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use percolog_papers::counters::Counting;
use percolog_papers::faults::Choice;
use percolog_papers::faults::workloads::{
    Change, Grep, Memclone, Regions, Workload, WorkloadError, ZeroFill, system,
};
use percolog_validation::clock;
use percolog_validation::crew::{self, Shift};

/// What threads do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Each touches fresh memory of a region of its own.
    Memclone,
    /// Each touches its part of one region.
    Modified,
    /// Each reads the same file, again.
    Grep,
    /// Each fills frames with zeros, and nothing else.
    Bound,
    /// One maps or unmaps regions.
    Regions(Change),
}

/// Each thread makes requests, one after the other.
pub(super) fn requests(
    counting: Counting,
    shift: Shift,
    trip: u64,
) -> Result<crew::Work, Box<dyn Error>> {
    let counter = counting.create()?;
    let work = crew::run(shift, |_| {
        move || {
            clock::spin(trip);
            // Nobody destroys it before all have ended; if it were gone, not all would be counted.
            let _ = counter.call(|counter| counter.increment());
        }
    })?;
    let counted = counter.call(|counter| counter.value())?;
    counter.destroy()?;
    Ok(work.checked(counted, work.all)?)
}

/// Regions that are mapped or unmapped: few, since a process finds them one after the other.
const REGIONS: u64 = 16;

impl Work {
    /// Has so many threads do it, with so many pages each.
    pub(super) fn run(
        self,
        choice: Choice,
        threads: usize,
        pages: u64,
    ) -> Result<crew::Work, Box<dyn Error>> {
        let system = || system(choice, threads, pages);
        match self {
            Self::Bound => work(ZeroFill::new(threads, pages), threads),
            Self::Memclone => work(Memclone::new(&system()?, threads, pages)?, threads),
            Self::Modified => work(Memclone::modified(&system()?, threads, pages)?, threads),
            Self::Grep => work(Grep::new(&system()?, threads, pages)?, threads),
            Self::Regions(change) => work(Regions::new(&system()?, change, REGIONS)?, threads),
        }
    }
}

/// Shares its lines with nothing else.
#[repr(align(256))]
struct Alone<T>(T);

/// Cycles from the moment at which all threads have arrived to that at which they start.
const HEAD_START: u64 = 100_000;

/// Each thread goes through the workload's steps on a core of its own. What counts are the cycles that each takes to run: not the same for all, and
/// who comes late may run alone. That is what the paper measures.
fn work<W: Workload>(workload: W, threads: usize) -> Result<crew::Work, Box<dyn Error>> {
    // In lines of their own: threads that leave a barrier write to it, while others look for the start.
    let (barrier, start) = (Alone(Barrier::new(threads)), Alone(AtomicU64::new(0)));
    let (barrier, start) = (&barrier.0, &start.0);
    let one = |thread: usize| -> Result<(u64, u64), WorkloadError> {
        percolog_roi::core(thread);
        // Who fails goes on to the next barrier: others wait there.
        let mut result = workload.warm_up(thread);
        barrier.wait();
        result = result.and_then(|()| workload.prepare(thread));
        barrier.wait();
        result = result.and_then(|()| workload.approach(thread));
        if barrier.wait().is_leader() {
            start.store(clock::cycles() + HEAD_START, Ordering::Relaxed);
        }
        // Relaxed: a number, and nothing else, is handed over.
        let start = loop {
            match start.load(Ordering::Relaxed) {
                0 => std::hint::spin_loop(),
                start => break start,
            }
        };
        clock::meet(start);
        let done = if workload.runs(thread) {
            percolog_roi::begin();
            let before = clock::cycles();
            let faults = result.and_then(|()| workload.run(thread));
            let cycles = clock::cycles().wrapping_sub(before);
            percolog_roi::end(faults.as_ref().map_or(0, |faults| *faults));
            faults.map(|faults| (faults, cycles))
        } else {
            result.map(|()| (0, 0))
        };
        // A thread that ends gives back what it had of the process, beside what others still read.
        barrier.wait();
        done
    };
    let mut total = crew::Work {
        threads,
        operations: 0,
        cycles: 0,
        all: 0,
        p99: None,
    };
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let one = &one;
                scope.spawn(move || one(thread))
            })
            .collect();
        for thread in running {
            let (faults, cycles) = thread.join().map_err(|_| "a thread panicked")??;
            total.operations += faults;
            total.cycles += cycles;
        }
        Ok(())
    })?;
    total.all = total.operations;
    workload.end()?;
    Ok(total)
}
