//! What parallel sections move, on the 40 cores of their paper's machine and on the 48 of the others here: the workload of its §5.1,
//! in which each thread reads and updates by a trace of its own. A read is an empty section; an update allocates a line and retires
//! the one that the thread allocated before.
//!
//! The marks stand around single operations: around each section, from before it is entered until it has been left, or around each
//! update. All transfers and ownership upgrades between the marks count, whatever line they are of. So what sections move because
//! others free is counted with sections, and what the allocator moves with updates.
//!
//! `membarrier` interrupts other cores. The simulator does not model the kernel: lines are counted, what interrupts cost is not. The
//! fenced variants need nothing of the kernel.

use percolog::cpu::barrier::BarrierMode;
use percolog::reclaim::{Domain, DomainClock, DomainOptions};
use percolog_sim::assert::{Assertion, Measured};
use percolog_sim::machine::built_in;

use super::barrier::Barrier;
use super::measure_with;
use super::trace::{BLOCK, Trace};
use super::workloads::on_every_core;

/// What a section may move at any rate of updates. (Measured: 0.033 with 90 % of updates and a look for every 640 frees of a thread.)
const SECTION: f64 = 0.05;

/// What an update may move, allocator included. (Measured: 0.010, and 0.031 where one more of the few scans, of 40 lines each, falls
/// into what is marked; which of them do changes with the addresses of things.)
const UPDATE: f64 = 0.05;

/// The paper's machine: four chips of ten cores.
const XEON: (&str, usize) = ("xeon-40", 40);
/// Eight chips of six.
const OPTERON: (&str, usize) = ("opteron-48", 48);

/// Objects that a thread retires before it looks for quiescence, if 40 others are active: see `percolog::reclaim`.
const TARGET: u32 = 640;
/// The same if it takes a `membarrier`.
const TARGET_A_BARRIER: u32 = 1024;

/// How often each thread retires so many before anything counts, and while it does.
const ROUNDS_TO_WARM_UP: u32 = 2;
const ROUNDS: u32 = 2;

/// One block of the operations that count is marked out of so many, each thread's at another time: a mark takes as long to simulate
/// as a hundred sections.
const BLOCKS_PER_MARKED: usize = 8;

/// Updates after which a thread that has done nothing is looked at no more, and those that are counted then.
const UPDATES_TO_PARK: u64 = 300_000;
const UPDATES_BESIDE: u64 = 5_000;

/// What an update of a thread may move that is alone but for idle ones: nothing, up to a word or two of what they share.
const BESIDE_IDLE: f64 = 0.001;

/// The line that an update allocates.
#[repr(align(64))]
#[derive(Default)]
struct Line {
    _payload: [u64; 8],
}

fn allocate() -> *mut Line {
    Box::into_raw(Box::default())
}

/// # Safety
/// The line came from [`allocate`], and nobody uses it any more.
unsafe fn free(line: *mut Line) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(line) });
}

/// One thread's operations.
struct Worker<'d> {
    domain: &'d Domain,
    current: *mut Line,
}

impl<'d> Worker<'d> {
    fn new(domain: &'d Domain) -> Self {
        Self {
            domain,
            current: allocate(),
        }
    }

    #[inline]
    fn update(&mut self) {
        let old = std::mem::replace(&mut self.current, allocate());
        // SAFETY: no other thread has ever seen the line; it is retired this once, and any thread may free it.
        unsafe { self.domain.retire_with(old, free) };
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { free(self.current) };
    }
}

/// Which operations are between the marks.
#[derive(Clone, Copy, PartialEq)]
enum Counted {
    Sections,
    Updates,
}

/// A domain that tells the time as asked: a simulation of something else would say nothing.
fn domain(options: DomainOptions, clock: DomainClock) -> Domain {
    let domain = Domain::with(options);
    assert_eq!(domain.stats().clock, clock);
    domain
}

/// Blocks of operations in which a thread retires as many objects as it does between two looks, with so many updates in a hundred.
fn blocks_of_a_round(domain: &Domain, percent: u32) -> usize {
    let target = match domain.stats().barrier {
        BarrierMode::Membarrier => TARGET_A_BARRIER,
        _ => TARGET,
    };
    // Without updates there is nothing to look for.
    (target * 100)
        .checked_div(percent * BLOCK as u32)
        .map_or(16, |blocks| blocks as usize + 1)
}

/// The workload, with so many updates in a hundred.
fn mixed(threads: usize, domain: &Domain, percent: u32, counted: Counted) {
    let round = blocks_of_a_round(domain, percent);
    let (warm_up, all) = (
        round * ROUNDS_TO_WARM_UP as usize,
        round * (ROUNDS_TO_WARM_UP + ROUNDS) as usize,
    );
    // Short, and gone through several times: to draw it is simulated as well.
    let trace = Trace::of(64 * BLOCK as usize * threads, percent, threads);
    on_every_core(threads, |thread, together: &Barrier| {
        let mut worker = Worker::new(domain);
        let mut part = trace.part(thread);
        for block in 0..all {
            if block == warm_up {
                together.wait();
            }
            let marked = block >= warm_up && (block + thread).is_multiple_of(BLOCKS_PER_MARKED);
            let mut operations = part.next().expect("it never ends");
            for _ in 0..BLOCK {
                let update = operations & 1 == 1;
                operations >>= 1;
                let marked = marked && update == (counted == Counted::Updates);
                if marked {
                    percolog_roi::begin();
                }
                if update {
                    worker.update();
                } else {
                    drop(domain.enter());
                }
                if marked {
                    percolog_roi::end(1);
                }
            }
        }
    });
}

/// What the workload needs for each operation that counts; `None` where that cannot be found out.
#[track_caller]
fn measured(
    (machine, cores): (&str, usize),
    (options, clock): (DomainOptions, DomainClock),
    percent: u32,
    counted: Counted,
) -> Option<Measured> {
    let machine = built_in(machine).expect("it is built in");
    let assertion = Assertion::on(cores).machine(machine);
    measure_with(&assertion, || {
        mixed(cores, &domain(options, clock), percent, counted);
    })
}

const COARSE: (DomainOptions, DomainClock) = (DomainOptions::new(), DomainClock::Coarse);
const COARSE_FENCED: (DomainOptions, DomainClock) =
    (DomainOptions::new().fenced(), DomainClock::Coarse);
const TSC: (DomainOptions, DomainClock) = {
    // SAFETY: a simulated machine has one counter.
    (unsafe { DomainOptions::new().tsc() }, DomainClock::Tsc)
};
const TSC_FENCED: (DomainOptions, DomainClock) = (TSC.0.fenced(), DomainClock::Tsc);

#[track_caller]
fn keeps(
    machine: (&str, usize),
    variant: (DomainOptions, DomainClock),
    percent: u32,
    counted: Counted,
    bound: f64,
) {
    let Some(measured) = measured(machine, variant, percent, counted) else {
        return;
    };
    if let Err(exceeded) = measured.check(bound) {
        panic!("{exceeded}");
    }
}

macro_rules! tests {
    ($($name:ident: $machine:ident $variant:ident $percent:literal $counted:ident $bound:expr;)*) => {$(
        #[test]
        fn $name() {
            keeps($machine, $variant, $percent, Counted::$counted, $bound);
        }
    )*};
}

tests! {
    sections_without_updates: XEON COARSE 0 Sections 0.0;
    sections_without_updates_by_the_counter: XEON TSC 0 Sections 0.0;
    sections_at_10_percent: XEON COARSE_FENCED 10 Sections SECTION;
    sections_at_50_percent: XEON COARSE_FENCED 50 Sections SECTION;
    sections_at_90_percent: XEON COARSE_FENCED 90 Sections SECTION;
    sections_at_50_percent_by_the_counter: XEON TSC_FENCED 50 Sections SECTION;
    sections_at_90_percent_by_the_counter: XEON TSC_FENCED 90 Sections SECTION;
    sections_without_fences: XEON COARSE 90 Sections SECTION;
    sections_without_fences_by_the_counter: XEON TSC 90 Sections SECTION;
    sections_of_48_cores: OPTERON COARSE_FENCED 90 Sections SECTION;
    updates_at_10_percent: XEON COARSE_FENCED 10 Updates UPDATE;
    updates_at_90_percent: XEON COARSE_FENCED 90 Updates UPDATE;
    updates_at_90_percent_by_the_counter: XEON TSC_FENCED 90 Updates UPDATE;
}

/// Updates of one thread beside others that have been in a section and do nothing now.
fn beside_idle_threads(threads: usize, domain: &Domain) {
    on_every_core(threads, |thread, together: &Barrier| {
        drop(domain.enter());
        together.wait();
        if thread == 0 {
            let mut worker = Worker::new(domain);
            // Until those who are idle are known to be.
            for _ in 0..UPDATES_TO_PARK {
                worker.update();
            }
            assert!(domain.stats().active < 16, "idle threads are looked at");
            percolog_roi::begin();
            for _ in 0..UPDATES_BESIDE {
                worker.update();
            }
            percolog_roi::end(UPDATES_BESIDE);
        }
    });
}

/// What a free costs does not depend on how many threads are idle: none of their lines is read.
#[test]
fn updates_beside_idle_threads() {
    for (options, clock) in [COARSE_FENCED, TSC_FENCED] {
        for threads in [1, 200] {
            let machine = built_in(XEON.0)
                .map_err(|error| error.to_string())
                .and_then(|machine| machine.with_cores(200))
                .expect("twenty such chips");
            let assertion = Assertion::on(200).machine(machine);
            let beside = || beside_idle_threads(threads, &domain(options, clock));
            let Some(measured) = measure_with(&assertion, beside) else {
                return;
            };
            if let Err(exceeded) = measured.check(BESIDE_IDLE) {
                panic!("beside {} idle threads: {exceeded}", threads - 1);
            }
        }
    }
}
