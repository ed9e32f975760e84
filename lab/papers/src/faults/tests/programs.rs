//! The paper's programs, in their steps: each looks at its end whether it has done what it should have.

use super::super::workloads::{
    Change, Grep, Memclone, Regions, Workload, WorkloadError, ZeroFill, segment, system,
};
use super::super::{Choice, FaultError, System};
use super::with_each_choice;
use percolog::cpu::{self, CoreId};
use std::sync::Barrier;
use std::thread;

const THREADS: usize = 3;
const PAGES: u64 = 20;

/// Runs all steps on all threads; says how many faults were made.
fn run<W: Workload>(workload: W) -> Result<u64, WorkloadError> {
    let barrier = Barrier::new(THREADS);
    let steps = |thread: usize| {
        cpu::bind(CoreId::new(thread as u32));
        let mut result = workload.warm_up(thread).map(|()| 0);
        for _ in 0..workload.rounds() {
            barrier.wait();
            result = result.and_then(|faults| workload.prepare(thread).map(|()| faults));
            barrier.wait();
            result = result.and_then(|faults| workload.approach(thread).map(|()| faults));
            barrier.wait();
            result = result.and_then(|faults| {
                if workload.runs(thread) {
                    Ok(faults + workload.run(thread)?)
                } else {
                    Ok(faults)
                }
            });
        }
        result
    };
    let faults = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let steps = &steps;
                scope.spawn(move || steps(thread))
            })
            .collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        results.sum::<Result<u64, _>>()
    })?;
    workload.end()?;
    Ok(faults)
}

#[test]
fn programs_do_what_they_should() {
    let all = THREADS as u64 * PAGES;
    with_each_choice(|choice| {
        let system = system(choice, THREADS, PAGES).expect("there is room");
        let faults = |result: Result<u64, WorkloadError>| result.expect("there is memory");
        let memclone = Memclone::new(&system, THREADS, PAGES).expect("there is room");
        assert_eq!(faults(run(memclone)), all);
        let modified = Memclone::modified(&system, THREADS, PAGES).expect("there is room");
        assert_eq!(faults(run(modified)), all);
        let grep = Grep::new(&system, THREADS, PAGES).expect("there is room");
        assert_eq!(faults(run(grep)), all);
        for change in [Change::Map, Change::Unmap, Change::UnmapTouched] {
            let regions = Regions::new(&system, change, 7).expect("there is room");
            // One at a time: its way to other slots' tables is paid for by it alone.
            assert_eq!((regions.rounds(), faults(run(regions))), (7, 7));
        }
        assert_eq!(system.free(), system.frames());
    });
    assert_eq!(
        run(ZeroFill::new(THREADS, PAGES)).expect("it has its frames"),
        all
    );
}

#[test]
fn a_program_without_memory_fails() {
    let system = System::new(Choice::DISTRIBUTED, 8, 2).expect("there is room");
    let memclone = Memclone::new(&system, THREADS, PAGES).expect("there is room");
    let failed = run(memclone).expect_err("there is none");
    assert!(
        matches!(failed, WorkloadError::Fault(FaultError::OutOfMemory(_))),
        "{failed}"
    );
    assert_eq!(system.free(), 8, "the process has ended");
}

#[test]
fn segments_are_told_apart_by_a_shift() {
    for pages in [1, 3, 4, 200, 2500] {
        let segment = segment(pages);
        assert!(segment.is_power_of_two() && segment > pages);
    }
}
