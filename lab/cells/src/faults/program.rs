//! Programs that fault, and how their threads are run.

use std::error::Error;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use percolog_papers::counters::Counting;
use percolog_papers::faults::workloads::{
    Change, Grep, Memclone, Regions, Workload, WorkloadError, ZeroFill, segment, system,
};
use percolog_papers::faults::{Choice, FileKind};
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

/// Regions that are mapped or unmapped, one in each round.
const REGIONS: u64 = 120;

/// Tables of a file that all threads use, if it is in parts: a fixed number, as in the paper; as many as the largest of its machines has cores.
const TABLES: u32 = 24;

/// The power of two that says how many pages lie in one of its tables side by side: fewer than one thread touches, so that threads meet.
const RUN: u32 = 2;

impl Work {
    /// How files are in parts here, among so many threads of so many pages each.
    pub(super) fn parts(self, threads: usize, pages: u64) -> FileKind {
        let (masters, shift) = match self {
            // The file of all threads.
            Self::Modified | Self::Grep => (TABLES, RUN),
            // A file has one page.
            Self::Regions(_) => (1, 0),
            // A file is one thread's.
            Self::Memclone | Self::Bound => (threads as u32, segment(pages).trailing_zeros()),
        };
        FileKind::Partitioned { masters, shift }
    }

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
        let (mut faults, mut cycles, mut started) = (0, 0, 0);
        for _ in 0..workload.rounds() {
            barrier.wait();
            result = result.and_then(|()| workload.prepare(thread));
            barrier.wait();
            result = result.and_then(|()| workload.approach(thread));
            if barrier.wait().is_leader() {
                start.store(clock::cycles() + HEAD_START, Ordering::Relaxed);
            }
            // Relaxed: a number, and nothing else, is handed over. That of the round before is still there.
            started = loop {
                match start.load(Ordering::Relaxed) {
                    start if start == started => std::hint::spin_loop(),
                    start => break start,
                }
            };
            clock::meet(started);
            if workload.runs(thread) {
                percolog_roi::begin();
                let before = clock::cycles();
                let run = result.and_then(|()| workload.run(thread));
                cycles += clock::cycles().wrapping_sub(before);
                percolog_roi::end(run.as_ref().map_or(0, |faults| *faults));
                result = run.map(|run| faults += run);
            }
        }
        // A thread that ends gives back what it had of the process, beside what others still read.
        barrier.wait();
        result.map(|()| (faults, cycles))
    };
    let mut total = crew::Work {
        threads,
        operations: 0,
        cycles: 0,
        all: 0,
        later: None,
        rare: 0,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn threads_of_one_file_meet_in_its_tables_and_a_page_has_one() {
        let tables = |work: Work, pages: std::ops::Range<u64>| -> BTreeSet<u64> {
            let FileKind::Partitioned { masters, shift } = work.parts(24, 80) else {
                panic!("it is in parts");
            };
            let table = |page: u64| (page >> shift) % u64::from(masters);
            pages.map(table).collect()
        };
        let part = segment(80);
        let (one, other) = (
            tables(Work::Modified, 0..80),
            tables(Work::Modified, part..part + 80),
        );
        assert!(one.intersection(&other).count() > 10);
        let regions = Work::Regions(Change::Unmap).parts(24, 80);
        assert!(matches!(regions, FileKind::Partitioned { masters: 1, .. }));
    }

    #[test]
    fn a_region_is_unmapped_in_each_round() {
        for change in [Change::Map, Change::Unmap, Change::UnmapTouched] {
            let work = Work::Regions(change);
            let choice = Choice {
                file: work.parts(2, 1),
                ..Choice::DISTRIBUTED
            };
            let done = work.run(choice, 2, 1).expect("there is room");
            assert_eq!(done.operations, REGIONS, "{change:?}");
        }
    }
}
