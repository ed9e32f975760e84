//! Page faults on the simulated machine of the paper on clustered objects: what one moves that all threads of a process make on the same
//! pages of the same file, which have been there before.

use percolog_papers::faults::{Choice, Kind, System};
use percolog_sim::assert::{Assertion, Measured};
use percolog_sim::machine::built_in;

use super::barrier::Barrier;
use super::measure_with;
use super::workloads::on_every_core;

/// The paper's processors.
const CORES: usize = 24;

/// Pages of the file.
const PAGES: u64 = 12;

/// How often each thread faults on each of them, and how often before anything counts.
const ROUNDS: u64 = 4;

/// Objects that are not distributed are waited for by all: fewer faults show it.
const FEW: u64 = 1;

fn fault_again(choice: Choice, rounds: u64) {
    let system = System::new(choice, 64, 64).expect("there is room");
    let file = system.open().expect("there is room");
    let space = system.start().expect("there is room");
    space
        .map_file(100, PAGES, &file, 0)
        .expect("nothing is there");
    let all = |rounds| {
        for _ in 0..rounds {
            for page in 100..100 + PAGES {
                space.fault(page).expect("there is memory");
            }
        }
    };
    on_every_core(CORES, |_, together: &Barrier| {
        // Each object gets its representative on this slot, and each page its replica.
        all(2);
        together.wait();
        all(1);
        together.wait();
        percolog_roi::begin();
        all(rounds);
        percolog_roi::end(rounds * PAGES);
    });
    assert_eq!(file.resident(), PAGES as usize);
}

fn measured(choice: Choice, rounds: u64) -> Option<Measured> {
    let machine = built_in("s85-24").expect("it is built in");
    let assertion = Assertion::on(CORES).machine(machine);
    measure_with(&assertion, || fault_again(choice, rounds))
}

/// Two threads of a process fault on the same page of the same file without any memory in common.
#[test]
fn faults_on_resident_pages() {
    if let Some(measured) = measured(Choice::DISTRIBUTED, ROUNDS)
        && let Err(exceeded) = measured.check(0.02)
    {
        panic!("{exceeded}");
    }
}

/// The list of regions and its lock are what all of them need.
#[test]
fn faults_in_a_shared_process() {
    let choice = Choice {
        process: Kind::Shared,
        ..Choice::DISTRIBUTED
    };
    if let Some(measured) = measured(choice, FEW) {
        assert!(
            measured.check(0.5).is_err(),
            "{:.3} per fault",
            measured.per_operation()
        );
    }
}
