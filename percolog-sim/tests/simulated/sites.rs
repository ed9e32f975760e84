//! What is found out about programs that mark nothing: the objects of their lines, who uses their locks, and what a
//! function of theirs does. Where QEMU or a compiler is missing, that is said, and nothing is tested.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::PATIENCE;
use crate::common::program::Program;
use crate::common::skip::is_here;
use percolog_sim::machine;
use percolog_sim::report::{Ending, LineSummary, ObjectKind, ObjectSummary, Place, Summary};
use percolog_sim::run::{FunctionFault, Simulation, SimulationError, Skip, available};

/// A program of `tests/guests`.
struct Guest(Program);

impl Guest {
    /// Compiles it with these options; nothing if that is not possible here.
    fn compile(source: &str, options: &[&str]) -> Option<Guest> {
        if !is_here(available()) {
            return None;
        }
        let compiler = |_: &Path| {
            let is_rust = source.ends_with(".rs");
            let mut compiler = Command::new(if is_rust { "rustc" } else { "cc" });
            compiler.args(options);
            compiler
        };
        Program::compile(&format!("tests/guests/{source}"), compiler).map(Guest)
    }

    #[track_caller]
    fn run(&self, simulation: Simulation) -> Summary {
        let run = simulation
            .capture(true)
            .timeout(PATIENCE)
            .run(&self.0.path, [""; 0])
            .expect("the simulation leaves a result");
        assert!(!run.timed_out && run.status.success(), "{}", run.status);
        run.summary()
    }

    fn refused(&self, function: &str) -> FunctionFault {
        let run = on_8_cores()
            .region_function(function)
            .capture(true)
            .run(&self.0.path, [""; 0]);
        match run {
            Err(SimulationError::Function { why, .. }) => why,
            other => panic!("{function}: {other:?}"),
        }
    }
}

fn on_8_cores() -> Simulation {
    let machine = machine::built_in("opteron-48").expect("it is built in");
    Simulation::new(machine.with_cores(8).expect("eight are some"))
}

fn object(line: &LineSummary) -> Option<&ObjectSummary> {
    line.object.as_ref()
}

/// The line of the object whose name has this in it.
#[track_caller]
fn line_of<'a>(summary: &'a Summary, name: &str) -> &'a LineSummary {
    let found = summary
        .lines
        .iter()
        .find(|line| object(line).is_some_and(|object| object.name.contains(name)));
    found.unwrap_or_else(|| {
        let names: Vec<_> = summary.lines.iter().map(object).collect();
        panic!("{name} is not among {names:#?}")
    })
}

/// All on whose behalf instructions waited for a line.
fn users(line: &LineSummary) -> Vec<&str> {
    let mut users: Vec<&str> = line
        .places
        .iter()
        .flat_map(|place| {
            let callers = place.callers.iter().map(|caller| &caller.place);
            std::iter::once(&place.place).chain(callers)
        })
        .map(|place: &Place| place.function.as_str())
        .collect();
    users.sort_unstable();
    users.dedup();
    users
}

const C: [&str; 3] = ["-O1", "-g", "-pthread"];

#[test]
fn users_of_a_mutex_are_named_and_not_the_c_library() {
    let Some(guest) = Guest::compile("bank.c", &C) else {
        return;
    };
    let summary = guest.run(on_8_cores());
    let worst = &summary.lines[0];
    let mutex = object(worst).expect("it is a variable");
    assert_eq!((mutex.kind, &*mutex.name), (ObjectKind::Static, "mutex"));
    let users = users(worst);
    assert!(
        users.contains(&"deposit") && users.contains(&"balance"),
        "{users:?}"
    );
    assert!(users.iter().all(|user| !user.contains("libc")), "{users:?}");
    // Inlined functions of the C library come before the one that was called where its debugging information is installed.
    let frames = &worst.places[0].frames;
    let position = |wanted: &str| {
        frames
            .iter()
            .position(|frame| frame.function.contains(wanted))
    };
    let (lock, work) = (position("pthread_mutex"), position("work"));
    assert!(lock.is_some() && lock < work, "{frames:?}");
}

#[test]
fn blocks_of_the_heap_are_named_after_who_allocated_them() {
    let Some(guest) = Guest::compile("bank.c", &C) else {
        return;
    };
    let summary = guest.run(on_8_cores());
    let line = line_of(&summary, "make_entry");
    let object = object(line).expect("it was found by its name");
    assert_eq!((object.kind, object.size), (ObjectKind::Heap, Some(128)));
    let behind = object.address.wrapping_add_signed(object.offset);
    assert_eq!(behind, line.address);
    let allocated: Vec<&str> = object
        .allocated
        .iter()
        .map(|place| place.function.as_str())
        .collect();
    assert_eq!(allocated[..2], ["make_entry", "main"], "{allocated:?}");
    assert!(object.name.contains("(bank.c:"), "{}", object.name);
    // Freed before the end, and not known to anybody who does not look.
    let blind = guest.run(on_8_cores().objects(false));
    assert!(
        blind
            .lines
            .iter()
            .all(|line| line.places[0].frames.is_empty())
    );
    assert_eq!(summary.totals.transfers, blind.totals.transfers);
    assert_eq!(summary.process.elapsed_ns, blind.process.elapsed_ns);
}

#[test]
fn memory_of_every_kind_is_told_apart() {
    let Some(guest) = Guest::compile("mapped.c", &C) else {
        return;
    };
    let summary = guest.run(on_8_cores());
    let found = |kind| {
        let found = summary
            .lines
            .iter()
            .filter_map(object)
            .find(|object| object.kind == kind);
        found.unwrap_or_else(|| panic!("{kind:?} is not among {:#?}", summary.lines))
    };
    let mapped = found(ObjectKind::Mapped);
    assert!(
        mapped
            .name
            .starts_with("8192 bytes mapped in map_page (mapped.c:"),
        "{}",
        mapped.name
    );
    assert_eq!(mapped.offset, 64);
    let heap = found(ObjectKind::Heap);
    assert!(
        heap.name.starts_with("4096 bytes allocated in grow ("),
        "{}",
        heap.name
    );
    assert_eq!(found(ObjectKind::Stack).name, "a thread's stack");
}

#[test]
fn a_stripped_program_has_blocks_and_callers_too() {
    let Some(guest) = Guest::compile("bank.c", &["-O1", "-s", "-pthread"]) else {
        return;
    };
    let summary = guest.run(on_8_cores());
    let users = users(&summary.lines[0]);
    assert!(
        users.iter().all(|user| user.starts_with("bank+")),
        "{users:?}"
    );
    let line = line_of(&summary, "128 bytes allocated in bank+");
    assert!(object(line).is_some_and(|object| object.allocated.len() > 1));
    assert_eq!(guest.refused("deposit"), FunctionFault::Absent(Vec::new()));
}

#[test]
fn objects_and_locks_of_a_rust_program() {
    for options in [&["-O", "-g"][..], &["-g"]] {
        let Some(guest) = Guest::compile("cache.rs", options) else {
            return;
        };
        let summary = guest.run(on_8_cores());
        let worst = &summary.lines[0];
        let object = object(worst).expect("it is from the heap");
        assert!(
            object.name.contains("Cache::new (cache.rs:"),
            "{}",
            object.name
        );
        let users = users(worst);
        for user in ["Cache::get", "Cache::insert"] {
            assert!(users.iter().any(|name| name.ends_with(user)), "{users:?}");
        }
        let region = guest.run(on_8_cores().region_function("Cache::get"));
        assert_eq!(region.region.map(|region| region.operations), Some(400));
    }
}

#[test]
fn a_function_is_the_region() {
    let Some(guest) = Guest::compile("recursion.c", &["-O2", "-g", "-pthread"]) else {
        return;
    };
    let summary = guest.run(on_8_cores().region_function("fib"));
    let region = summary.region.expect("it is called");
    // Calls from outside: the one that is left by a jump never returns.
    assert_eq!((region.operations, region.threads), (4 * 11, 4));
    assert!(summary.warnings.is_empty(), "{:?}", summary.warnings);
    let again = guest.run(on_8_cores().region_function("fib"));
    assert_eq!(summary.totals.transfers, again.totals.transfers);
    let summary = guest.run(on_8_cores().region_function("doubled"));
    let region = summary.region.expect("it is called");
    assert_eq!(region.operations, 4 * 10, "another function returns for it");

    assert!(matches!(
        guest.refused("fibonacci"),
        FunctionFault::Absent(_)
    ));
    assert_eq!(guest.refused("inlined_away"), FunctionFault::Inlined);
}

#[test]
fn several_functions_of_a_name_are_listed() {
    let Some(guest) = Guest::compile("cache.rs", &["-g"]) else {
        return;
    };
    let FunctionFault::Ambiguous(candidates) = guest.refused("new") else {
        panic!("every type has one");
    };
    assert!(candidates.len() > 1, "{candidates:?}");
}

#[test]
fn what_is_skipped_is_not_counted() {
    let Some(guest) = Guest::compile("recursion.c", &["-O2", "-g", "-pthread"]) else {
        return;
    };
    let whole = guest.run(on_8_cores());
    assert_eq!(whole.skipped, None);
    for how in [
        Skip::Instructions(500_000),
        Skip::Time(Duration::from_micros(300)),
    ] {
        let part = guest.run(on_8_cores().skip(how));
        let skipped = part.skipped.expect("it was skipped");
        // How many of them are loading the program depends on the environment.
        assert!(skipped.instructions >= 100_000, "{skipped:?}");
        assert_eq!(
            part.process.instructions + skipped.instructions,
            whole.process.instructions,
            "the program does what it does: {how:?}"
        );
        assert!(part.totals.cold < whole.totals.cold && part.totals.transfers > 0);
        assert!(part.process.elapsed_ns < whole.process.elapsed_ns);
    }
    let region = guest.run(on_8_cores().region_function("fib").skip(Skip::Region));
    let skipped = region.skipped.expect("it was skipped");
    assert!(skipped.instructions > 900_000, "{skipped:?}");
    assert_eq!(region.region.map(|region| region.operations), Some(44));
    let nothing = guest.run(on_8_cores().skip(Skip::Instructions(1 << 60)));
    assert!(nothing.check().is_err(), "all of it was skipped");
}

#[test]
fn a_program_is_ended_when_it_was_measured_for_long_enough() {
    let Some(guest) = Guest::compile("recursion.c", &["-O2", "-g", "-pthread"]) else {
        return;
    };
    let time = Duration::from_micros(100);
    let part = guest.run(on_8_cores().measure_for(time));
    assert_eq!(part.process.ending, Ending::Stopped);
    // The end is seen at the next access to memory.
    assert!(
        (100_000.0..110_000.0).contains(&part.process.elapsed_ns),
        "{}",
        part.process.elapsed_ns
    );
    let time = Duration::from_micros(2);
    let part = guest.run(on_8_cores().region_function("fib").measure_for(time));
    assert_eq!(part.process.ending, Ending::Stopped);
    assert!(part.region.is_some_and(|region| region.entered > 0));
    assert!(
        part.process.elapsed_ns > 100_000.0,
        "it is measured from the first call on"
    );
}
