//! What is skipped runs without being looked at, and what comes after it is counted as if nothing had come before. Where
//! QEMU or a compiler is missing, that is said, and nothing is tested.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::PATIENCE;
use crate::common::program::Program;
use crate::common::skip::is_here;
use percolog_sim::machine;
use percolog_sim::report::{LineSummary, ProcessResult, Summary};
use percolog_sim::run::{Run, Simulation, Skip, available, available_for_aarch64};

/// As in `tests/guests/skipped.c`.
const ROUNDS: u64 = 500;
/// The lines of the tables that it fills in its beginning.
const LINES: u64 = 2 * (1 << 17) * 8 / 64;
/// More accesses than there are lines that a program touches before its first system call.
const FEW: u64 = 1000;

fn compile(compiler: &str, options: &[&str]) -> Option<Program> {
    let compiler = |_: &Path| {
        let mut command = Command::new(compiler);
        command.args(["-O1", "-g", "-pthread", "-static"]);
        command.args(options);
        command
    };
    Program::compile("tests/guests/skipped.c", compiler)
}

fn x86_64(options: &[&str]) -> Option<Program> {
    if is_here(available()) {
        compile("cc", options)
    } else {
        None
    }
}

fn simulation(skip: Option<Skip>) -> Simulation {
    let machine = machine::built_in("opteron-48").expect("it is built in");
    let simulation = Simulation::new(machine.with_cores(8).expect("eight are some"));
    match skip {
        Some(skip) => simulation.skip(skip),
        None => simulation,
    }
}

#[track_caller]
fn run(program: &Program, simulation: Simulation) -> Run {
    let run = simulation
        .capture(true)
        .timeout(PATIENCE)
        .run(&program.path, [""; 0])
        .expect("the simulation leaves a result");
    assert!(!run.timed_out && run.status.success(), "{}", run.status);
    run
}

fn raw(run: &Run) -> &ProcessResult {
    &run.processes[0]
}

/// What has to be the same in each run.
fn figures(run: &Run) -> ProcessResult {
    let mut result = raw(run).clone();
    (result.pid, result.parent) = (0, 0);
    for process in &mut result.processes {
        (process.pid, process.parent) = (0, 0);
    }
    result.maps.clear();
    result
}

/// How often the line of this variable, or of the block that this function has allocated, went from core to core.
#[track_caller]
fn moves(summary: &Summary, name: &str) -> u64 {
    let is_its = |line: &&LineSummary| {
        let object = line.object.as_ref();
        line.memory == name || object.is_some_and(|object| object.name.contains(name))
    };
    let line = summary.lines.iter().find(is_its);
    line.unwrap_or_else(|| panic!("{name} is in {:?}", summary.lines))
        .totals
        .transfers
}

/// Both translations of the program are of one program: the region begins while its threads sleep, watch and compute, and what
/// they do in it is counted as if the beginning had been simulated.
fn counts_the_same(program: &Program) {
    let whole = run(program, simulation(None)).summary();
    let first = run(program, simulation(Some(Skip::Region)));
    let part = first.summary();
    assert_eq!(
        part.region.as_ref().map(|region| region.operations),
        Some(ROUNDS),
        "{:?}",
        part.region
    );
    // Each round of the thread that watches is one.
    assert_eq!(moves(&whole, "pong"), ROUNDS);
    assert_eq!(moves(&part, "pong"), ROUNDS);
    // How the additions of two threads take turns depends on when they begin.
    let (before, after) = (moves(&whole, "make_shared"), moves(&part, "make_shared"));
    assert!(before.abs_diff(after) < ROUNDS / 5, "{before} and {after}");
    let skipped = part.skipped.expect("it was skipped");
    assert!(skipped.instructions > 4 * (1 << 17) * 4, "{skipped:?}");
    for _ in 0..3 {
        let again = run(program, simulation(Some(Skip::Region)));
        assert_eq!(figures(&again), figures(&first));
    }
}

#[test]
fn what_comes_after_is_counted_as_if_nothing_had_come_before() {
    if let Some(program) = x86_64(&[]) {
        counts_the_same(&program);
    }
}

#[test]
fn what_comes_after_is_counted_on_aarch64_too() {
    if !is_here(available_for_aarch64()) {
        return;
    }
    if let Some(program) = compile("aarch64-linux-gnu-gcc", &[]) {
        counts_the_same(&program);
    }
}

#[test]
fn accesses_of_what_is_skipped_are_not_looked_at() {
    let Some(program) = x86_64(&[]) else { return };
    let time = Skip::Time(Duration::from_millis(1));
    for skip in [Skip::Region, time, Skip::Instructions(4_000_000)] {
        let run = run(&program, simulation(Some(skip)));
        if !run.qemu.starts_with("7.") {
            return crate::common::skip::skip(
                "only QEMU 7.2 can translate what is skipped without callbacks",
            );
        }
        let raw = raw(&run);
        assert!(raw.skipped_instructions > 2_000_000, "{skip:?}");
        assert!(
            raw.skipped_but_looked_at < FEW,
            "{skip:?}: {}",
            raw.skipped_but_looked_at
        );
        assert_eq!(raw.forced, 0, "{skip:?}: nobody is let go for it");
    }
    // Where somebody needs the accesses, they are there.
    let verified = run(&program, simulation(Some(Skip::Region)).verify(true));
    let looked_at = raw(&verified).skipped_but_looked_at;
    assert!(looked_at > LINES, "{looked_at}");
    assert_eq!(
        raw(&run(&program, simulation(None))).skipped_but_looked_at,
        0
    );
}

#[test]
fn what_is_skipped_may_end_where_a_function_begins() {
    let Some(program) = x86_64(&["-DUNMARKED"]) else {
        return;
    };
    let function = |skip: Option<Skip>| {
        let run = run(&program, simulation(skip).region_function("add"));
        let summary = run.summary();
        (
            summary.region.as_ref().map(|region| region.operations),
            moves(&summary, "make_shared"),
        )
    };
    let (operations, before) = function(None);
    assert_eq!(operations, Some(2));
    let (operations, after) = function(Some(Skip::Region));
    assert_eq!(operations, Some(2));
    assert!(before.abs_diff(after) < ROUNDS / 5, "{before} and {after}");
}
