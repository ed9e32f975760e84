//! The same replay on a machine that is not here: the cell `replay` under the coherence simulator.

use std::path::Path;
use std::time::Duration;

use percolog_cells::Values;
use percolog_cli::companion;
use percolog_cli::failure::Failure;
use percolog_cli::output;
use percolog_cli::terminal::harmless;
use percolog_papers::replay::Load;
use percolog_papers::subsystem::Implementation;
use percolog_sim::machine;
use percolog_sim::model;
use percolog_sim::report::Ending;
use percolog_sim::run::{Run, Simulation, SimulationError};
use serde::Serialize;

use super::checks::capital;
use super::source::Source;
use crate::report::{Column, Instrument, Rate, Section};

/// The longest that a simulation may take before it is given up.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// A described machine, with several numbers of its cores.
pub(super) struct Machine {
    name: String,
    sizes: Vec<model::Machine>,
}

/// The lines that moved in one simulation.
#[derive(Clone, Serialize)]
pub(super) struct Moved {
    pub(super) implementation: &'static str,
    pub(super) machine: String,
    pub(super) cores: usize,
    /// Updates and reads in a simulated second.
    pub(super) calls_per_second: f64,
    /// The same without the last look at each object: what a program gets that goes on.
    pub(super) calls_per_second_before_the_last_look: f64,
    /// Lines that went from core to core, for each update.
    pub(super) transfers_per_update: f64,
    /// Lines that others had to give up so that a core could write them, for each update.
    pub(super) upgrades_per_update: f64,
    /// Lines that went from core to core, for each process that was forked. None if none was.
    pub(super) transfers_per_fork: Option<f64>,
    /// The share of the time in which cores waited for lines.
    pub(super) waiting: f64,
}

impl Machine {
    /// Finds a machine, with the numbers of cores that are asked for, or with all it has.
    pub(super) fn find(name: &str, cores: &[usize]) -> Result<Self, Failure> {
        let found = machine::load(name)
            .map_err(|error| Failure::Input(format!("{error}; see `percolog sim machines`")))?
            .machine;
        let mut numbers = cores.to_vec();
        if numbers.is_empty() {
            numbers.push(found.cores);
        }
        numbers.sort_unstable();
        numbers.dedup();
        let sizes = numbers
            .into_iter()
            .map(|cores| {
                found.clone().with_cores(cores).map_err(|error| {
                    Failure::Input(format!(
                        "machine {} with {cores} cores: {error}",
                        found.name
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: found.name,
            sizes,
        })
    }
}

/// Simulates every implementation on every number of cores, and adds a column for each to the section.
pub(super) fn run(
    source: &Source,
    load: &Load,
    made_of: &[Implementation],
    machine: &Machine,
    section: &mut Section,
) -> Result<Vec<Moved>, Failure> {
    let cell = companion::beside("lab-cell", percolog_cells::BUILT_BY)?;
    let file = source.file()?;
    let parameters = source.parameters(file.as_ref())?;
    let bar = output::bar();
    bar.set_length((machine.sizes.len() * made_of.len()) as u64);
    let mut moved = Vec::new();
    for size in &machine.sizes {
        section.columns.push(Column {
            threads: size.cores,
            instrument: Instrument::Simulated {
                machine: machine.name.clone(),
            },
        });
        for (row, &implementation) in made_of.iter().enumerate() {
            let message = format!(
                "{}, {implementation}, {} cores of {}, simulated",
                capital(load.subsystem().title()),
                size.cores,
                machine.name
            );
            bar.set_message(harmless(&message).into_owned());
            let result = one(&cell, &parameters, load, implementation, size);
            bar.inc(1);
            let result = match result {
                Ok(result) => result,
                Err(failure) => {
                    bar.finish_and_clear();
                    return Err(failure);
                }
            };
            // One simulation is like another: there is no spread.
            section.series[row].rates.push(Rate {
                median: result.calls_per_second,
                slowest: result.calls_per_second,
                fastest: result.calls_per_second,
            });
            moved.push(result);
        }
    }
    bar.finish_and_clear();
    Ok(moved)
}

fn one(
    cell: &Path,
    parameters: &[String],
    load: &Load,
    implementation: Implementation,
    machine: &model::Machine,
) -> Result<Moved, Failure> {
    let words = [
        "replay".to_owned(),
        format!("subsystem={}", load.subsystem().name()),
        format!("implementation={}", implementation.name()),
        format!("threads={}", machine.cores),
        // One pass, however long it takes.
        "warm_up=0".to_owned(),
        "cycles=1".to_owned(),
    ];
    let run = Simulation::new(machine.clone())
        .capture(true)
        .timeout(TIMEOUT)
        .run(cell, words.iter().chain(parameters))
        .map_err(|error| failure(&error))?;
    let what = || {
        format!(
            "the simulated {}, {implementation}, {} cores",
            load.subsystem().title(),
            machine.cores
        )
    };
    if let Some(why) = why_no_end(&run) {
        return Err(Failure::Work(format!("{}: {why}", what())));
    }
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        return Err(Failure::Work(format!("{} failed: {said}", what())));
    }
    let summary = run.summary();
    let values: Values = serde_json::from_slice(&run.stdout)
        .map_err(|error| Failure::Work(format!("{} said something else: {error}", what())))?;
    let (Some(rate), Some(going_on), Some(_)) = (
        values.get(Values::RATE),
        values.get("rate_going_on"),
        &summary.region,
    ) else {
        return Err(Failure::NothingSimulated(format!(
            "{}: nothing was simulated",
            what()
        )));
    };
    let updates = (load.updates() as f64).max(1.0);
    let transfers = summary.totals.transfers as f64;
    Ok(Moved {
        implementation: implementation.name(),
        machine: machine.name.clone(),
        cores: machine.cores,
        calls_per_second: rate,
        calls_per_second_before_the_last_look: going_on,
        transfers_per_update: transfers / updates,
        upgrades_per_update: summary.totals.upgrades as f64 / updates,
        transfers_per_fork: (load.forks() > 0).then(|| transfers / load.forks() as f64),
        waiting: summary.stall_share,
    })
}

/// How a simulation that failed is reported.
fn failure(error: &SimulationError) -> Failure {
    match error {
        SimulationError::NoResult { .. } => Failure::NothingSimulated(error.to_string()),
        _ => Failure::Work(error.to_string()),
    }
}

/// Why the program did not end by itself, if it did not.
fn why_no_end(run: &Run) -> Option<&'static str> {
    if run.timed_out {
        Some("time was up before the program ended")
    } else if run
        .processes
        .iter()
        .any(|process| process.ending == Ending::Deadlock)
    {
        Some("the program deadlocked")
    } else {
        None
    }
}
