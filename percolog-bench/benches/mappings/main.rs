//! Figures 9 and 10 of Q. Wang, T. Stamler and G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*: mapping and
//! unmapping single pages and 1024 at once, the mean and the 99th percentile; the mapping database of
//! [`percolog_papers::mapdb`] beside the same behind one lock, behind a lock for each address space, and beside the kernel.
//!
//! `cargo bench -p percolog-bench --bench mappings` simulates the 40 cores of the paper's machine: page tables in memory, and processors that
//! flush their TLBs on a tick. `-- --native` measures on this one, with real memory as well, and Linux' own `mmap` and `munmap`, which
//! can be measured here only. `-- --trace NAME` asks for what a recorded program has asked for, instead of the paper's mixture: one of the traces that
//! `percolog_papers` comes with, or a file. `-- --json` for programs, `-- --quick` for fewer cells, `-- --only NAME` for one database.
//!
//! The paper's program is one process of many threads (`shared`); `own` gives each thread an address space of its own.

mod cell;
mod subjects;

use std::process::ExitCode;
use std::time::Duration;

use cell::{CLASSES, Cell};
use percolog_bench::validation::crew::Shift;
use percolog_papers::mapdb::requests;
use percolog_papers::trace::Trace;
use percolog_sim::machine::built_in;
use percolog_sim::model::Machine;
use percolog_sim::run::Simulation;
use subjects::Kind;

/// The paper's machine.
const MACHINE: &str = "xeon-40";

/// The paper's numbers of cores.
const CORES: [usize; 5] = [1, 10, 20, 30, 40];

/// Requests of a thread before it gives everything back and begins again.
const REQUESTS: usize = 25;

/// The same of a recorded program: the first ones it has made.
const RECORDED: usize = 100;

/// ... and no more pages than so many: two threads' are to fit into what the system lets a process map.
const RECORDED_PAGES: u32 = 8192;

/// The longest a cell may take on the wall's clock.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// Asks this program to be the guest.
const GUEST: &str = "--guest";

/// One cell of the table.
struct Row {
    kind: Kind,
    own: bool,
    threads: usize,
    /// What it gave, and lines moved for each call; or why it gave nothing.
    found: Result<(Cell, f64), String>,
}

#[derive(Default)]
struct Wanted {
    json: bool,
    quick: bool,
    native: bool,
    benchmarking: bool,
    only: Option<String>,
    trace: Option<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == GUEST) {
        return guest(&arguments[1..]);
    }
    let mut wanted = Wanted::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => wanted.json = true,
            "--quick" => wanted.quick = true,
            "--native" => wanted.native = true,
            // What cargo passes to every benchmark.
            "--bench" => wanted.benchmarking = true,
            "--only" => wanted.only = arguments.next(),
            "--trace" => wanted.trace = arguments.next(),
            other => {
                eprintln!(
                    "mappings: unknown argument {other:?}; there are --json, --quick, --native, --only NAME and --trace NAME"
                );
                return ExitCode::from(2);
            }
        }
    }
    let rows = match if wanted.native {
        natively(&wanted)
    } else {
        simulated(&wanted)
    } {
        Ok(rows) => rows,
        Err(code) => return code,
    };
    let megahertz = if wanted.native {
        subjects::megahertz()
    } else {
        built_in(MACHINE).map_or(1.0, |machine| f64::from(machine.megahertz))
    };
    if wanted.json {
        show_json(&rows, megahertz, wanted.native);
    } else {
        show(&rows, megahertz, wanted.native);
    }
    ExitCode::SUCCESS
}

/// What a thread asks for: the paper's mixture, or the beginning of what a recorded program has asked for.
fn asked(trace: Option<&str>) -> Result<Vec<u32>, ExitCode> {
    let Some(name) = trace else {
        return Ok(requests::papers(REQUESTS));
    };
    match Trace::named(name).unwrap_or_else(|| Trace::open(name.as_ref())) {
        Ok(trace) => {
            let mut pages = 0;
            let requests = requests::recorded(&trace).into_iter();
            let beginning = requests.take(RECORDED).take_while(|request| {
                pages += request;
                pages <= RECORDED_PAGES
            });
            Ok(beginning.collect())
        }
        Err(error) => {
            eprintln!("mappings: {name}: {error}");
            Err(ExitCode::FAILURE)
        }
    }
}

fn kinds(wanted: &Wanted) -> impl Iterator<Item = Kind> {
    let is_wanted = |kind: &Kind| wanted.only.as_ref().is_none_or(|only| only == kind.name());
    Kind::ALL.into_iter().filter(is_wanted)
}

fn tell(row: &Row) {
    // It takes minutes: whoever waits sees where it is.
    let place = if row.own { "own" } else { "shared" };
    match &row.found {
        Ok((cell, lines)) => eprintln!(
            "{}, {place}, {}: {cell} lines {lines:.2}",
            row.kind.name(),
            row.threads
        ),
        Err(why) => eprintln!("{}, {place}, {}: {why}", row.kind.name(), row.threads),
    }
}

fn natively(wanted: &Wanted) -> Result<Vec<Row>, ExitCode> {
    let requests = asked(wanted.trace.as_deref())?;
    let second = (subjects::megahertz() * 1e6) as u64;
    let mut rows = Vec::new();
    for own in [false, true] {
        for kind in kinds(wanted).filter(|kind| !own || kind.has_spaces()) {
            for threads in [1, 2] {
                let shift = Shift {
                    threads,
                    warm_up: second / 5,
                    cycles: if wanted.quick { second / 5 } else { second },
                };
                let found = subjects::run(kind, own, false, &requests, shift);
                let row = Row {
                    kind,
                    own,
                    threads,
                    found: found
                        .map(|cell| (cell, 0.0))
                        .map_err(|error| error.to_string()),
                };
                tell(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn simulated(wanted: &Wanted) -> Result<Vec<Row>, ExitCode> {
    let machine = built_in(MACHINE).map_err(|error| {
        eprintln!("mappings: {error}");
        ExitCode::FAILURE
    })?;
    if let Err(error) = percolog_sim::run::available() {
        eprintln!("mappings: {error}");
        // `cargo test --all-targets` runs benchmarks too, also where there is no simulator.
        return Err(ExitCode::from(u8::from(wanted.benchmarking)));
    }
    asked(wanted.trace.as_deref())?;
    let mut rows = Vec::new();
    for own in [false, true] {
        for kind in kinds(wanted).filter(|kind| kind.can_be_simulated()) {
            for threads in CORES {
                // `cargo test --all-targets`: see that one cell works.
                if (wanted.quick && ![1, 40].contains(&threads))
                    || (!wanted.benchmarking && !rows.is_empty())
                {
                    continue;
                }
                let row = Row {
                    kind,
                    own,
                    threads,
                    found: simulate(&machine, kind, own, threads, wanted.trace.as_deref()),
                };
                tell(&row);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn simulate(
    machine: &Machine,
    kind: Kind,
    own: bool,
    threads: usize,
    trace: Option<&str>,
) -> Result<(Cell, f64), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // Each thread is to go through its requests a few times, also where all wait for each other; a few threads more often, so that there is
    // something that 99 % do not exceed.
    let waiting = if kind.waits(own) { threads as u64 } else { 1 };
    let round = kind.round_cycles() * waiting;
    let rounds = (20 / threads as u64).max(2);
    let mut words = vec![
        GUEST.to_owned(),
        kind.name().to_owned(),
        u8::from(own).to_string(),
        threads.to_string(),
        round.to_string(),
        (rounds * round).to_string(),
    ];
    words.extend(trace.map(ToOwned::to_owned));
    let run = Simulation::new(machine.clone())
        .follow(false)
        .top_lines(0)
        .timeout(TIMEOUT)
        .capture(true)
        .run(&program, &words)
        .map_err(|error| error.to_string())?;
    if run.timed_out {
        return Err(format!("took longer than {} s", TIMEOUT.as_secs()));
    }
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        let last = said.lines().last().unwrap_or("");
        return Err(format!("{}: {last}", run.status));
    }
    let cell = String::from_utf8_lossy(&run.stdout)
        .lines()
        .find_map(Cell::parse)
        .ok_or("it printed no result")?;
    let region = &run.main().ok_or("nothing was simulated")?.region;
    let moved = region.counts.transfers() + region.counts.upgrades;
    Ok((cell, moved as f64 / region.operations.max(1) as f64))
}

/// Runs one cell, and prints what it gave.
fn guest(words: &[String]) -> ExitCode {
    let parsed = (|| {
        let [name, own, threads, warm_up, cycles, rest @ ..] = words else {
            return None;
        };
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
        let shift = Shift {
            threads: threads.parse().ok()?,
            warm_up: warm_up.parse().ok()?,
            cycles: cycles.parse().ok()?,
        };
        Some((kind, own == "1", shift, rest.first()))
    })();
    let Some((kind, own, shift, trace)) = parsed else {
        eprintln!("mappings: {GUEST} NAME OWN THREADS WARM_UP CYCLES [TRACE]");
        return ExitCode::from(2);
    };
    let requests = match asked(trace.map(String::as_str)) {
        Ok(requests) => requests,
        Err(code) => return code,
    };
    match subjects::run(kind, own, true, &requests, shift) {
        Ok(cell) => {
            println!("{cell}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("mappings: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(rows: &[Row], megahertz: f64, native: bool) {
    let microseconds = |cycles: f64| cycles / megahertz;
    if native {
        println!("On this machine: microseconds for a call, the mean and what 99 % do not exceed.");
    } else {
        println!(
            "Simulated on {MACHINE}: microseconds for a call, the mean and what 99 % do not exceed, and lines moved for each call."
        );
    }
    print!("{:<22} {:<6} {:>5}", "", "space", "cores");
    for class in CLASSES {
        print!(" {class:>19}");
    }
    println!();
    for row in rows {
        let place = if row.own { "own" } else { "shared" };
        print!("{:<22} {place:<6} {:>5}", row.kind.name(), row.threads);
        match &row.found {
            Err(why) => println!(" {why}"),
            Ok((cell, lines)) => {
                for calls in &cell.0 {
                    print!(
                        " {:>9.2} {:>9.2}",
                        microseconds(calls.mean),
                        microseconds(calls.p99 as f64)
                    );
                }
                if native {
                    println!();
                } else {
                    println!(" {lines:>7.1}");
                }
            }
        }
    }
}

fn show_json(rows: &[Row], megahertz: f64, native: bool) {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let mut json = serde_json::json!({
                "database": row.kind.name(),
                "space": if row.own { "own" } else { "shared" },
                "cores": row.threads,
            });
            match &row.found {
                Err(why) => json["error"] = why.clone().into(),
                Ok((cell, lines)) => {
                    for (class, calls) in CLASSES.into_iter().zip(&cell.0) {
                        json[class] = serde_json::json!({
                            "calls": calls.number,
                            "mean_microseconds": calls.mean / megahertz,
                            "p99_microseconds": calls.p99 as f64 / megahertz,
                        });
                    }
                    if !native {
                        json["lines_per_call"] = (*lines).into();
                    }
                }
            }
            json
        })
        .collect();
    let machine = if native { "this one" } else { MACHINE };
    println!(
        "{:#}",
        serde_json::json!({ "machine": machine, "cells": rows })
    );
}
