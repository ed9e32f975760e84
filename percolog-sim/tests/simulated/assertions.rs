//! Assertions as a user writes them, and what they say when they fail.

use std::hint::black_box;
use std::process::{Command, Output};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use percolog_sim::assert::{Assertion, MeasureError, Measured};

const ADDS: u64 = 100;

/// Threads that add to the counters that `mine` gives them: once unmarked, by the same code, so that each core has what it needs; then
/// [`ADDS`] times.
fn add<'a>(threads: usize, mine: impl Fn(usize) -> &'a AtomicU64) {
    let together = Barrier::new(threads);
    let add = |counter: &AtomicU64, times: u64| {
        for _ in 0..times {
            counter.fetch_add(1, Ordering::Relaxed);
            // Long enough for any other core to get the line: otherwise one adds often while it has it.
            for turn in 0..1000 {
                black_box(turn);
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..threads {
            let (counter, together, add) = (mine(number), &together, &add);
            scope.spawn(move || {
                percolog_roi::core(number);
                add(counter, 1);
                together.wait();
                percolog_roi::begin();
                add(counter, ADDS);
                percolog_roi::end(ADDS);
                together.wait();
            });
        }
    });
}

/// One counter for all threads.
fn shared(threads: usize) {
    let counter = AtomicU64::new(0);
    percolog_roi::label(&counter, "the shared counter");
    add(threads, |_| &counter);
}

/// A counter for each thread, on lines of their own.
fn padded(threads: usize) {
    #[derive(Default)]
    #[repr(align(128))]
    struct Padded(AtomicU64);
    let counters: Vec<Padded> = (0..threads).map(|_| Padded::default()).collect();
    add(threads, |number| &counters[number].0);
}

mod within {
    //! The name of a test has its modules in front.

    use super::*;

    #[test]
    fn padded_counters_keep_their_lines() {
        percolog_sim::assert_transfers(8, 0.0, || padded(8));
    }
}

#[test]
fn a_shared_counter_moves_once_for_each_add_and_is_named() {
    let Some(measured) = Assertion::on(8).measure_or_skip(|| shared(8)) else {
        return;
    };
    assert_eq!(
        (measured.cores, measured.threads, measured.operations),
        (8, 8, 8 * ADDS)
    );
    // Meanwhile another core has had it, nearly always.
    assert!(
        (0.9..=1.1).contains(&measured.per_operation()),
        "{measured:?}"
    );
    let exceeded = measured
        .check(0.8)
        .expect_err("that is more than 0.8")
        .to_string();
    assert!(exceeded.contains("the shared counter"), "{exceeded}");
}

#[test]
fn several_measurements_in_one_test_are_each_their_own() {
    let mut found: Vec<Measured> = Vec::new();
    for (cores, workload) in [(2, padded as fn(usize)), (4, shared), (6, padded)] {
        match Assertion::on(cores).measure_or_skip(|| workload(cores)) {
            Some(measured) => found.push(measured),
            None => return,
        }
    }
    let cores: Vec<usize> = found.iter().map(|measured| measured.cores).collect();
    assert_eq!(cores, [2, 4, 6]);
    assert_eq!(found[0].per_operation(), 0.0);
    assert!(found[1].per_operation() > 0.8, "{:?}", found[1]);
    assert_eq!(found[2].per_operation(), 0.0);
}

#[test]
fn a_workload_that_marks_nothing_is_an_error() {
    match Assertion::on(2).measure(|| ()) {
        Err(MeasureError::NothingMarked | MeasureError::Unavailable(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_workload_that_panics_is_an_error_with_its_message() {
    match Assertion::on(2).measure(|| panic!("five is not four")) {
        Err(error @ MeasureError::Failed { .. }) => {
            assert!(error.to_string().contains("five is not four"), "{error}");
        }
        Err(MeasureError::Unavailable(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_impossible_machine_is_an_error() {
    match Assertion::on(0).measure(|| ()) {
        Err(MeasureError::Machine(why)) => assert!(why.contains("0 cores"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Runs another test of this file where there is no QEMU.
fn without_qemu(test: &str, required: bool) -> Output {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command
        .args(["--exact", test])
        .env("PERCOLOG_QEMU", "/nonexistent/qemu-x86_64")
        .env_remove("PERCOLOG_SIM_REQUIRED");
    if required {
        command.env("PERCOLOG_SIM_REQUIRED", "1");
    }
    command.output().expect("this program can be started again")
}

#[test]
fn without_qemu_a_test_is_skipped_and_says_how_to_get_it() {
    let output = without_qemu(
        "assertions::within::padded_counters_keep_their_lines",
        false,
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("SKIPPED: assertions::within::padded_counters_keep_their_lines: "),
        "{said}"
    );
    assert!(said.contains("`qemu-user`"), "{said}");
}

#[test]
fn without_qemu_a_test_fails_where_the_simulator_is_required() {
    let output = without_qemu("assertions::within::padded_counters_keep_their_lines", true);
    assert!(!output.status.success());
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("PERCOLOG_SIM_REQUIRED=1, but"), "{said}");
}
