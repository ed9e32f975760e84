//! The simulated part: the program as it was found, its worst line free, and the program with the fix, on a machine that is not here.

use std::time::Duration;

use percolog_sim::machine;
use percolog_sim::model::Machine;
use percolog_sim::report::{LineSummary, Place, Summary};
use percolog_sim::run::{Run, Simulation};
use percolog_sim::what_if;
use serde::{Deserialize, Serialize};

use super::program::Version;
use crate::sim::how::{came_to_an_end, failure, with_cores};
use percolog_cli::failure::Failure;
use percolog_cli::output::bar;

/// The machine: one of those that come with percolog.
const MACHINE: &str = "epyc-128";
/// The numbers of cores: the last one is what is talked about.
const CORES: [usize; 5] = [1, 6, 12, 24, 48];
/// Those of `--quick`.
const QUICK_CORES: [usize; 2] = [1, 48];
/// Requests that each worker answers there.
const REQUESTS: u64 = 200;
/// Long enough on any machine: no run takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(300);

/// What was simulated; also the form in which a run is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Simulated {
    /// The machine.
    pub(super) machine: SimulatedMachine,
    /// The version of percolog.
    pub(super) percolog: String,
    /// The version of QEMU.
    pub(super) qemu: String,
    /// The worst line of the program as it was found.
    pub(super) found: Found,
    /// How it grows with the cores, as it was found.
    pub(super) before: Vec<Point>,
    /// And with the fix.
    pub(super) after: Vec<Point>,
}

/// The machine that was simulated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SimulatedMachine {
    /// What percolog calls it.
    pub(super) name: String,
    /// How many of its cores were used.
    pub(super) cores: usize,
    /// Million cycles in a second.
    pub(super) megahertz: u32,
}

/// A contended line of memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Found {
    /// What it is.
    pub(super) name: String,
    /// Who uses it.
    pub(super) users: String,
    /// Where the program uses it most.
    pub(super) place: At,
    /// Where its memory was allocated, if that is known.
    pub(super) allocated: Option<At>,
    /// The share of all time that cores wait for lines. 0 to 1.
    pub(super) stall_share: f64,
    /// The share of all waiting that is for this one. 0 to 1.
    pub(super) share: f64,
    /// How many times as fast the program would be if the line cost nothing.
    pub(super) foretold: f64,
    /// What helps.
    pub(super) advice: String,
    /// The type of percolog's that fits.
    pub(super) fits: Option<String>,
}

/// A place in the source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct At {
    pub(super) function: String,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
}

impl At {
    /// `file:line`, or the function where the file is not known.
    pub(super) fn shown(&self) -> String {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.clone(),
            (None, _) => self.function.clone(),
        }
    }
}

/// A run on so many cores.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Point {
    /// The cores.
    pub(super) cores: usize,
    /// Requests a millisecond of simulated time.
    pub(super) per_ms: f64,
    /// Lines that go from core to core for each.
    pub(super) transfers: f64,
}

impl Simulated {
    /// How many times as fast the fix has made it on all cores.
    pub(super) fn real(&self) -> f64 {
        match (self.before.last(), self.after.last()) {
            (Some(before), Some(after)) => after.per_ms / before.per_ms,
            _ => 1.0,
        }
    }

    /// How many times as fast all cores are as one: before, and after.
    pub(super) fn growth(&self) -> (f64, f64) {
        let of = |points: &[Point]| match (points.first(), points.last()) {
            (Some(one), Some(all)) => all.per_ms / one.per_ms,
            _ => 1.0,
        };
        (of(&self.before), of(&self.after))
    }
}

/// Simulates both versions.
pub(super) fn simulate(quick: bool) -> Result<Simulated, Failure> {
    let sizes: &[usize] = if quick { &QUICK_CORES } else { &CORES };
    let bar = bar();
    bar.set_length(2 * sizes.len() as u64 + 1);
    let kind = machine::built_in(MACHINE)
        .map_err(|error| Failure::Work(format!("machine {MACHINE}: {error}")))?;
    let mut last = None;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (version, points) in [(Version::Before, &mut before), (Version::After, &mut after)] {
        for &cores in sizes {
            bar.set_message(format!("{}, {cores} simulated cores", version.name()));
            bar.tick();
            let simulation = on(&kind, cores)?;
            let run = start(&simulation, version)?;
            let summary = run.summary();
            points.push(point(&summary, cores)?);
            if version == Version::Before {
                last = Some((simulation, run, summary));
            }
            bar.inc(1);
        }
    }
    let Some((simulation, run, summary)) = last else {
        return Err(Failure::Work(
            "no run of the demonstration was made".to_owned(),
        ));
    };
    bar.set_message("what if the worst line cost nothing");
    bar.tick();
    let found = found(&simulation, &run, summary)?;
    bar.finish_and_clear();
    Ok(Simulated {
        machine: SimulatedMachine {
            name: run.machine.name.clone(),
            cores: run.machine.cores,
            megahertz: run.machine.megahertz,
        },
        percolog: env!("CARGO_PKG_VERSION").to_owned(),
        qemu: run.qemu,
        found,
        before,
        after,
    })
}

fn on(kind: &Machine, cores: usize) -> Result<Simulation, Failure> {
    let machine = with_cores(kind.clone(), cores)?;
    Ok(Simulation::new(machine).capture(true).timeout(PATIENCE))
}

/// Runs this very command as the program.
fn start(simulation: &Simulation, version: Version) -> Result<Run, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::Work(format!("cannot find this command's own file: {error}")))?;
    let (threads, requests) = (simulation.machine().cores.to_string(), REQUESTS.to_string());
    let arguments = [
        "demo-program",
        version.name(),
        "--threads",
        &threads,
        "--requests",
        &requests,
    ];
    let run = simulation
        .run(program, arguments)
        .map_err(|error| failure(&error))?;
    came_to_an_end(&run)?;
    if run.status.success() {
        Ok(run)
    } else {
        let said = String::from_utf8_lossy(&run.stderr);
        Err(Failure::Work(format!(
            "the program of the demonstration failed ({}): {said}",
            run.status
        )))
    }
}

fn point(summary: &Summary, cores: usize) -> Result<Point, Failure> {
    let nothing = || Failure::NothingSimulated(format!("{cores} cores: no request was simulated"));
    Ok(Point {
        cores,
        per_ms: summary.operations_per_ms.ok_or_else(nothing)?,
        transfers: summary.per_operation.ok_or_else(nothing)?.transfers,
    })
}

/// The worst line, and what the program would gain without it: found by running it again.
fn found(simulation: &Simulation, run: &Run, mut summary: Summary) -> Result<Found, Failure> {
    let nothing = || Failure::Work("the simulated program has no contended line".to_owned());
    let candidate = what_if::worst(run, &summary, 1)
        .into_iter()
        .next()
        .ok_or_else(nothing)?;
    let without = start(&candidate.simulation(simulation), Version::Before)?;
    let gain = candidate.compare(run, &without).map_err(|why| {
        Failure::Work(format!("what if the line cost nothing is not known: {why}"))
    })?;
    candidate.note(gain, &mut summary);
    let line: &LineSummary = summary.lines.get(candidate.worst()).ok_or_else(nothing)?;
    // Who writes is to blame, more than who finds the line gone.
    let writing = line.places.iter().find(|place| place.write);
    let place = writing.or(line.places.first()).ok_or_else(nothing)?;
    let at = |place: &Place| At {
        function: place.function.clone(),
        file: place.file.as_deref().map(in_the_repository),
        line: place.line,
    };
    Ok(Found {
        name: line.name(),
        users: line.users(),
        place: at(&place.place),
        allocated: line
            .object
            .as_ref()
            .and_then(|object| object.allocated.first())
            .map(at),
        stall_share: summary.stall_share,
        share: line.share,
        foretold: gain.speedup,
        advice: line.advice(),
        fits: line
            .suggestion
            .as_ref()
            .and_then(|suggestion| suggestion.fits.clone()),
    })
}

/// The file as it is called in the repository, wherever that was when this command was compiled.
fn in_the_repository(file: &str) -> String {
    let folder = concat!(env!("CARGO_PKG_NAME"), "/src/");
    file.find(folder)
        .map_or(file, |begin| &file[begin..])
        .to_owned()
}
