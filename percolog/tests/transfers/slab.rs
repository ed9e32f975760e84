//! Objects of a slab, and names, that every core makes and takes back; and cores that all use a slab for the first time at once.

use std::sync::atomic::{AtomicU64, Ordering};

use percolog::namespace::Namespace;
use percolog::reclaim::{Domain, DomainOptions};
use percolog::slab::Slab;

use super::barrier::Barrier;
use super::workloads::{Alone, on_every_core};
use super::{FEW_CORES, keeps, keeps_on, measure_with};
use percolog_sim::assert::Assertion;

/// So many a core has at a time.
const BATCH: usize = 64;

/// How often it does so before anything counts: its memory is there then; ids have come round.
const FEW: usize = 8;
const MANY: usize = 64;

/// ... and while it counts.
const COUNTED: usize = 32;

/// What a core moves for an object that it makes and destroys while all others do so, too: nothing, but for the first time that each looks
/// at something.
const OBJECTS: f64 = 0.01;

/// The same of names. Ids are given out again when nobody can be looking them up: for each hundred or so that it has taken back, a core looks how
/// far the others are, or finds that another one has looked.
const NAMES: f64 = 0.12;

/// Cycles from the moment at which all want an object for the first time until each has one, for each core: they make what is their own
/// one after the other.
const FIRST: u64 = 100_000;

/// Sections are not what is looked at, and the kernel's barrier is not among what is simulated.
fn domain() -> Alone<Domain> {
    Alone(Domain::with(DomainOptions::new().fenced()))
}

/// Every core makes a batch and takes it back, again and again.
fn make_and_take_back<T>(
    cores: usize,
    to_warm_up: usize,
    make: impl Fn(u64) -> T + Sync,
    take: impl Fn(T) + Sync,
) {
    on_every_core(cores, |_, together: &Barrier| {
        let mut mine = Vec::with_capacity(BATCH);
        let mut batches = |many| {
            for _ in 0..many {
                mine.extend((0..BATCH as u64).map(&make));
                mine.drain(..).for_each(&take);
            }
        };
        together.alone(|| batches(1));
        together.wait();
        batches(to_warm_up - 1);
        together.wait();
        percolog_roi::begin();
        batches(COUNTED);
        percolog_roi::end((COUNTED * BATCH) as u64);
    });
}

fn objects(cores: usize) {
    let domain = domain();
    let slab = Alone(Slab::<u64>::new(&domain.0));
    let insert = |value| slab.0.insert(value).expect("there is memory");
    make_and_take_back(cores, FEW, insert, drop);
}

#[test]
fn objects_made_and_destroyed_on_every_core() {
    keeps(objects, OBJECTS);
}

fn names(cores: usize) {
    let domain = domain();
    let names = Alone(Namespace::<u64>::new(&domain.0));
    let insert = |value| names.0.insert(value).expect("there are ids");
    let remove = |id| {
        names.0.remove(id).expect("it is there");
    };
    make_and_take_back(cores, MANY, insert, remove);
}

#[test]
fn names_given_out_and_taken_back_on_every_core() {
    // Of more cores, each would have thousands of ids that wait, and go through them before they come round.
    keeps_on(FEW_CORES, names, NAMES);
}

/// Cycles of the simulated machine.
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// They make what is their own one after the other. Who sleeps meanwhile must not wake together with all the others, again and again.
#[test]
fn all_cores_use_a_slab_for_the_first_time() {
    let cores = super::SMALL;
    let measured = measure_with(&Assertion::on(cores), || {
        let domain = domain();
        let slab = Alone(Slab::<u64>::new(&domain.0));
        let worst = Alone(AtomicU64::new(0));
        on_every_core(cores, |_, together: &Barrier| {
            together.wait();
            let before = cycles();
            percolog_roi::begin();
            drop(slab.0.insert(1).expect("there is memory"));
            percolog_roi::end(1);
            // Relaxed: read when all threads have ended.
            worst.0.fetch_max(cycles() - before, Ordering::Relaxed);
        });
        let worst = worst.0.into_inner();
        assert!(worst <= FIRST * cores as u64, "{worst} cycles");
    });
    if let Some(measured) = measured {
        assert_eq!(measured.operations, cores as u64);
    }
}
