//! Figures 4 to 6 of Q. Wang, T. Stamler and G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*, simulated: on the
//! 40 cores of its machine, reads and updates of each reclaimer in turn, at four rates of updates.
//!
//! `cargo bench -p percolog-bench --features c-peers --bench sections`; `-- --json` for programs, `-- --quick` for fewer cells,
//! `-- --only NAME` for one reclaimer. The program starts itself again under the simulator, once for each cell.
//!
//! What the figures do not contain: the interrupts of `membarrier` (the simulator does not model the kernel; a call costs a
//! constant), and whatever else `percolog-sim` says it leaves out. The fenced variants contain everything.

mod show;

use std::process::ExitCode;
use std::time::Duration;

use percolog_bench::reclaim::ReclaimerKind;
use percolog_bench::reclaim::simulated::{self, Cell};
use percolog_bench::validation::crew::Shift;
use percolog_sim::machine::built_in;
use percolog_sim::model::Machine;
use percolog_sim::run::Simulation;

/// The paper's machine.
const MACHINE: &str = "xeon-40";

/// The paper's numbers of cores.
const CORES: [usize; 5] = [1, 10, 20, 30, 40];

/// The paper's rates of updates: Figures 4 and 5.
const PERCENT: [u32; 4] = [0, 10, 50, 90];

/// The longest a cell may take on the wall's clock.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Asks this program to be the guest.
const GUEST: &str = "--guest";

/// One cell of the table.
pub(crate) struct Row {
    pub(crate) kind: ReclaimerKind,
    pub(crate) percent: u32,
    pub(crate) cores: usize,
    /// What it gave, or why it gave nothing.
    pub(crate) found: Result<Found, String>,
}

/// What a cell gave.
pub(crate) struct Found {
    pub(crate) cell: Cell,
    /// Transfers and ownership upgrades for each operation, of both kinds together.
    pub(crate) lines: f64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == GUEST) {
        return guest(&arguments[1..]);
    }
    let (mut json, mut quick, mut benchmarking, mut only) = (false, false, false, None);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--quick" => quick = true,
            // What cargo passes to every benchmark.
            "--bench" => benchmarking = true,
            "--only" => only = arguments.next(),
            other => {
                eprintln!(
                    "sections: unknown argument {other:?}; there are --json, --quick and --only NAME"
                );
                return ExitCode::from(2);
            }
        }
    }
    let machine = match built_in(MACHINE) {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("sections: {error}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = percolog_sim::run::available() {
        eprintln!("sections: {error}");
        // `cargo test --all-targets` runs benchmarks too, also where there is no simulator.
        return ExitCode::from(u8::from(benchmarking));
    }
    let kinds: Vec<ReclaimerKind> = shown()
        .filter(|kind| only.as_ref().is_none_or(|only| only == kind.name()))
        .collect();
    if kinds.is_empty() {
        eprintln!("sections: no reclaimer of that name; there are {}", names());
        return ExitCode::from(2);
    }
    let mut rows = Vec::new();
    for kind in kinds {
        for percent in PERCENT {
            for cores in CORES {
                // `cargo test --all-targets`: see that one cell works.
                if (quick && ![1, 40].contains(&cores)) || (!benchmarking && !rows.is_empty()) {
                    continue;
                }
                let found = simulate(&machine, kind, percent, cores);
                // It takes minutes: whoever waits sees where it is.
                match &found {
                    Ok(found) => eprintln!(
                        "{}, {percent} %, {cores} cores: {}",
                        kind.name(),
                        found.cell
                    ),
                    Err(why) => eprintln!("{}, {percent} %, {cores} cores: {why}", kind.name()),
                }
                rows.push(Row {
                    kind,
                    percent,
                    cores,
                    found,
                });
            }
        }
    }
    let megahertz = f64::from(machine.megahertz);
    if json {
        show::json(&rows, megahertz);
    } else {
        show::tables(&rows, megahertz);
    }
    ExitCode::SUCCESS
}

/// Those of the paper's figures, and ours. What single optimizations are worth is another question.
fn shown() -> impl Iterator<Item = ReclaimerKind> {
    ReclaimerKind::ALL.iter().copied().filter(|kind| {
        !matches!(
            kind,
            ReclaimerKind::ClockAtExit
                | ReclaimerKind::NotBorrowing
                | ReclaimerKind::Forgetting
                | ReclaimerKind::ScansInOrder
        )
    })
}

fn names() -> String {
    let names: Vec<&str> = shown().map(ReclaimerKind::name).collect();
    names.join(", ")
}

/// How long to warm up, and to count: each thread of the reclaimers that do not wait is to look for quiescence a few times.
fn cycles(kind: ReclaimerKind, percent: u32, cores: usize) -> (u64, u64) {
    if kind.waits() {
        return (300_000, 600_000);
    }
    match (percent, cores) {
        (0, _) => (50_000, 200_000),
        // Few threads look after 128 objects, 40 after 640.
        (..=10, 1..=10) => (300_000, 900_000),
        (..=10, _) => (1_500_000, 1_500_000),
        (_, _) => (500_000, 1_000_000),
    }
}

fn simulate(
    machine: &Machine,
    kind: ReclaimerKind,
    percent: u32,
    cores: usize,
) -> Result<Found, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let (warm_up, cycles) = cycles(kind, percent, cores);
    let words = [
        GUEST.to_owned(),
        kind.name().to_owned(),
        percent.to_string(),
        cores.to_string(),
        warm_up.to_string(),
        cycles.to_string(),
    ];
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
        return Err(format!(
            "{}: {}",
            run.status,
            said.lines().last().unwrap_or("")
        ));
    }
    let cell = String::from_utf8_lossy(&run.stdout)
        .lines()
        .find_map(|line| line.parse().ok())
        .ok_or("it printed no result")?;
    let region = &run.main().ok_or("nothing was simulated")?.region;
    let moved = region.counts.transfers() + region.counts.upgrades;
    Ok(Found {
        cell,
        lines: moved as f64 / region.operations.max(1) as f64,
    })
}

/// Runs one cell, and prints what it gave.
fn guest(words: &[String]) -> ExitCode {
    let parsed = (|| {
        let [name, percent, threads, warm_up, cycles] = words else {
            return None;
        };
        let kind = ReclaimerKind::ALL.iter().find(|kind| kind.name() == name)?;
        let shift = Shift {
            threads: threads.parse().ok()?,
            warm_up: warm_up.parse().ok()?,
            cycles: cycles.parse().ok()?,
        };
        Some((*kind, percent.parse().ok()?, shift))
    })();
    let Some((kind, percent, shift)) = parsed else {
        eprintln!("sections: {GUEST} NAME PERCENT THREADS WARM_UP CYCLES");
        return ExitCode::from(2);
    };
    match simulated::run(kind, percent, shift) {
        Ok(cell) => {
            println!("{cell}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("sections: {error}");
            ExitCode::FAILURE
        }
    }
}
