//! Page faults on the simulated machine of the paper on clustered objects: what one moves that all threads of a process make on the same
//! pages of the same file, which have been there before.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::io::{self, Write};
use std::sync::{Barrier, mpsc};
use std::thread;

use percolog_papers::faults::{Choice, Kind, System};
use percolog_sim::assert::{Assertion, Measured};
use percolog_sim::machine::built_in;

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
    on_every_core(|together| {
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

/// Runs `body` on threads that stay on a core each, all of them until the last is done: a thread that ends writes to memory that others
/// have nearby.
fn on_every_core(body: impl Fn(&Barrier) + Sync) {
    let (together, body) = (&Barrier::new(CORES), &body);
    thread::scope(|scope| {
        for core in 0..CORES {
            let (started, has_started) = mpsc::channel();
            scope.spawn(move || {
                percolog_roi::core(core);
                started.send(()).expect("somebody waits for it");
                together.wait();
                body(together);
                together.wait();
            });
            // One after the other: those who begin together fight over the allocator's lines, which takes long to simulate.
            has_started.recv().expect("it starts");
        }
    });
}

fn measured(choice: Choice, rounds: u64) -> Option<Measured> {
    if cfg!(debug_assertions) {
        // Without optimization, setting a bit atomically is a loop that first reads the word: one more transfer, which nobody ships.
        let _ = writeln!(
            io::stderr(),
            "ELSEWHERE: counts lines of optimized code only: cargo test --release --manifest-path lab/Cargo.toml -p percolog-papers --test transfers"
        );
        return None;
    }
    let machine = built_in("s85-24").expect("it is built in");
    let assertion = Assertion::on(CORES).machine(machine);
    assertion.measure_or_skip(|| fault_again(choice, rounds))
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
