//! Programs for 64-bit ARM: what moves lines, whether the address of each access is known before it happens, and what they
//! see of the kernel. Where the compiler or the emulator for them is missing, that is said, and nothing is tested.

use std::path::Path;
use std::process::Command;

use crate::common::PATIENCE;
use crate::common::program::Program;
use crate::common::skip::{is_here, skip};
use crate::common::verified::addresses_compared;
use percolog_sim::machine;
use percolog_sim::report::{Ending, LineSummary, ObjectKind, ProcessResult, Summary};
use percolog_sim::run::{Run, Simulation, available_for_aarch64};

const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// Threads and rounds of the guest.
const THREADS: u64 = 8;
const OPERATIONS: u64 = THREADS * 200;
/// Each thread warms up with one operation.
const ALL: u64 = OPERATIONS + THREADS;

struct Guest(Program);

impl Guest {
    /// Compiles the program; nothing if that is not possible here.
    fn compile(source: &str, options: &[&str]) -> Option<Guest> {
        if !is_here(available_for_aarch64()) {
            return None;
        }
        let compiler = |_: &Path| {
            let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../percolog-roi/include");
            let mut compiler = Command::new(COMPILER);
            compiler.args(["-g", "-O1", "-pthread", "-I"]).arg(include);
            compiler.args(options);
            compiler
        };
        Program::compile(&format!("tests/guests/{source}"), compiler).map(Guest)
    }

    fn run(&self, simulation: &Simulation, how: &str) -> Run {
        let run = simulation
            .run(&self.0.path, [how])
            .expect("the simulation leaves a result");
        assert!(!run.timed_out, "{how} hangs");
        assert!(run.status.success(), "{how}: {}", said(&run));
        run
    }

    /// Counts in the given way, and returns what the process did.
    fn count(&self, how: &str, sum: u64) -> ProcessResult {
        let run = self.run(&simulation(), how);
        assert_eq!(String::from_utf8_lossy(&run.stdout), format!("{sum}\n"));
        let process = run.main().expect("a process was simulated").clone();
        assert_eq!(process.region.operations, OPERATIONS, "{how}");
        assert_eq!((process.ending, process.exit_code), (Ending::Exit, 0));
        assert_eq!(process.unsimulated, [""; 0]);
        assert_eq!(process.not_reproducible, [""; 0]);
        process
    }
}

fn said(run: &Run) -> String {
    format!(
        "{}\n{}{}",
        run.status,
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    )
}

fn simulation() -> Simulation {
    Simulation::new(machine::built_in("opteron-48").expect("it is built in"))
        .capture(true)
        .timeout(PATIENCE)
}

#[test]
fn an_update_of_a_shared_line_moves_it_and_one_of_ones_own_does_not() {
    let Some(guest) = Guest::compile("arm.c", &["-static"]) else {
        return;
    };
    let shared = guest.count("shared", ALL).region;
    let writes = shared.counts.writes;
    assert!(
        writes * 10 >= OPERATIONS * 9 && writes <= OPERATIONS + THREADS,
        "{:?}",
        shared.counts
    );
    let apart = guest.count("apart", 2 * ALL).region;
    // What the threads share (the barrier's words) is read once after it was written.
    assert!(apart.counts.events() <= 4 * THREADS, "{:?}", apart.counts);
    assert!(apart.elapsed * 3 < shared.elapsed);
}

#[test]
fn a_conditional_store_that_fails_is_tried_again() {
    let Some(guest) = Guest::compile("arm.c", &["-static"]) else {
        return;
    };
    let counts = guest.count("exclusive", ALL).region.counts;
    // The load and the store both have to ask for the line, unless nobody comes in between.
    assert!(counts.events() >= OPERATIONS, "{counts:?}");
}

#[test]
fn clearing_a_block_takes_each_of_its_lines() {
    let Some(guest) = Guest::compile("arm.c", &["-static"]) else {
        return;
    };
    let process = guest.count("zero", 0);
    let counts = process.region.counts;
    // Eight lines an operation, which others want at the same time.
    assert!(counts.writes >= 6 * OPERATIONS, "{counts:?}");
    assert!(counts.writes <= 8 * (OPERATIONS + THREADS), "{counts:?}");
    assert_eq!(process.unordered, 0);
}

#[test]
fn threads_that_spin_or_sleep_for_a_lock_come_to_an_end() {
    let Some(guest) = Guest::compile("arm.c", &["-static"]) else {
        return;
    };
    let ticket = guest.count("ticket", ALL);
    assert!(ticket.region.counts.events() >= OPERATIONS);
    guest.count("mutex", ALL);
}

#[test]
fn a_second_run_gives_the_same_figures() {
    let Some(guest) = Guest::compile("arm.c", &["-static"]) else {
        return;
    };
    let figures = || {
        let process = guest.count("mutex", ALL);
        assert_eq!(process.forced, 0);
        format!(
            "{:?} {:?} {:?} {} {}",
            process.whole,
            process.region,
            process.cores_detail,
            process.elapsed,
            process.instructions
        )
    };
    assert_eq!(figures(), figures());
}

#[test]
fn addresses_are_known_before_the_access() {
    let Some(guest) = Guest::compile("arm.c", &["-static"]) else {
        return;
    };
    for (how, least) in [
        ("instructions", 3_000),
        ("mutex", 10_000),
        ("exclusive", 10_000),
    ] {
        let run = guest.run(&simulation().verify(true), how);
        if how == "instructions" {
            assert_eq!(String::from_utf8_lossy(&run.stdout), "0 1 1\n");
        }
        let said = said(&run);
        let compared = addresses_compared(&said);
        assert!(
            compared > least,
            "{how}: {compared} addresses were compared"
        );
    }
}

#[test]
fn processes_are_forked_executed_and_waited_for_and_time_is_simulated() {
    let Some(guest) = Guest::compile("arm.c", &["-static"]) else {
        return;
    };
    let run = guest.run(&simulation(), "processes");
    assert_eq!(
        String::from_utf8_lossy(&run.stdout),
        format!("3600 seconds on 48 cores\n5\n{ALL}\n"),
        "{}",
        said(&run)
    );
    assert_eq!(run.processes.len(), 2, "both programs");
    let before = &run.processes[0].processes;
    assert_eq!(
        before.len(),
        2,
        "{before:?}: the child runs on the machine of the first"
    );
}

/// Runs a program without arguments, and returns what it wrote.
fn output(guest: &Guest, status: i32) -> String {
    let run = simulation()
        .run(&guest.0.path, [""; 0])
        .expect("the simulation leaves a result");
    assert_eq!(run.status.code(), Some(status), "{}", said(&run));
    let first = run
        .processes
        .iter()
        .find(|process| process.pid == run.first);
    let first = first.expect("the first process leaves a result");
    assert_eq!((first.ending, first.exit_code), (Ending::Exit, status));
    assert_eq!(first.unsimulated, [""; 0]);
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn the_kernel_does_what_it_does_for_programs_of_the_host() {
    for (source, status, expected) in [
        ("exit_running.c", 7, "leaving\n"),
        ("fork_threaded.c", 0, "8000 counts, 10 children\n"),
        (
            "sleepers.c",
            0,
            "2 select\n3 poll\n4 semaphore\n5 condition\n6 nanosleep until the wall clock\n7 nanosleep until\n8 usleep\n\
             3600 hour\n",
        ),
        ("broadcast.c", 0, "800\n"),
        ("futexes.c", 0, "done\n"),
        ("signals.c", 0, "4 handled, results 15\n"),
    ] {
        let Some(guest) = Guest::compile(source, &["-static"]) else {
            return;
        };
        assert_eq!(output(&guest, status), expected, "{source}");
    }
}

/// Nothing if the libraries of such programs are missing.
fn summary(source: &str, adjust: impl Fn(Simulation) -> Simulation) -> Option<Summary> {
    if !Path::new("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1").is_file() {
        skip("the libraries for aarch64 are not where Debian has them");
        return None;
    }
    let guest = Guest::compile(source, &[])?;
    let run = adjust(simulation())
        .run(&guest.0.path, [""; 0])
        .expect("the simulation leaves a result");
    assert!(run.status.success(), "{}", said(&run));
    let summary = run.summary();
    assert_eq!(summary.unsimulated, [""; 0]);
    Some(summary)
}

/// All on whose behalf instructions waited for a line.
fn users(line: &LineSummary) -> Vec<&str> {
    let places = line.places.iter().flat_map(|place| {
        let callers = place.callers.iter().map(|caller| &caller.place);
        std::iter::once(&place.place).chain(callers)
    });
    places.map(|place| place.function.as_str()).collect()
}

#[test]
fn objects_and_users_of_a_dynamic_program_are_named() {
    let Some(summary) = summary("bank.c", |simulation| simulation) else {
        return;
    };
    let worst = &summary.lines[0];
    // The mutex shares the line with what it guards, and with what is used without it.
    let object = worst.object.as_ref().expect("it is a variable");
    assert_eq!(object.kind, ObjectKind::Static, "{}", object.name);
    let users = users(worst);
    assert!(
        users.contains(&"deposit") && users.contains(&"balance"),
        "{users:?}"
    );
    let objects: Vec<&str> = summary
        .lines
        .iter()
        .filter_map(|line| Some(line.object.as_ref()?.name.as_str()))
        .collect();
    assert!(
        objects
            .iter()
            .any(|name| name.contains("128 bytes allocated in make_entry (bank.c:")),
        "{objects:?}"
    );
}

#[test]
fn a_function_is_the_region() {
    for (function, operations) in [("fib", 4 * 11), ("doubled", 4 * 10)] {
        let Some(summary) = summary("recursion.c", |simulation| {
            simulation.region_function(function)
        }) else {
            return;
        };
        let region = summary.region.expect("it is called");
        assert_eq!(
            (region.operations, region.threads),
            (operations, 4),
            "{function}"
        );
    }
}
