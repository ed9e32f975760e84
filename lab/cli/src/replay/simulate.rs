//! The same replay on a machine that is not here: this command runs itself under the coherence simulator.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use percolog_papers::replay::Load;
use percolog_papers::subsystem::Implementation;
use percolog_sim::machine;
use percolog_sim::model;
use percolog_sim::run::Simulation;
use serde::Serialize;

use super::checks::capital;
use super::guest::Done;
use super::source::Source;
use percolog_cli::failure::Failure;
use percolog_cli::output;
use crate::report::{Column, Instrument, Rate, Section};
use crate::sim;

/// The longest that a simulation may take before it is given up.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// A described machine, with several numbers of its cores.
pub(crate) struct Machine {
    name: String,
    sizes: Vec<model::Machine>,
}

/// The lines that moved in one simulation.
#[derive(Clone, Serialize)]
pub(crate) struct Moved {
    pub(crate) implementation: &'static str,
    pub(crate) machine: String,
    pub(crate) cores: usize,
    /// Updates and reads in a simulated second.
    pub(crate) calls_per_second: f64,
    /// The same without the last look at each object: what a program gets that goes on.
    pub(crate) calls_per_second_before_the_last_look: f64,
    /// Lines that went from core to core, for each update.
    pub(crate) transfers_per_update: f64,
    /// Lines that others had to give up so that a core could write them, for each update.
    pub(crate) upgrades_per_update: f64,
    /// Lines that went from core to core, for each process that was forked. None if none was.
    pub(crate) transfers_per_fork: Option<f64>,
    /// The share of the time in which cores waited for lines.
    pub(crate) waiting: f64,
}

impl Machine {
    /// Finds a machine, with the numbers of cores that are asked for, or with all it has.
    pub(crate) fn find(name: &str, cores: &[usize]) -> Result<Self, Failure> {
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
            .map(|cores| sim::with_cores(found.clone(), cores))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: found.name,
            sizes,
        })
    }
}

/// Simulates every implementation on every number of cores, and adds a column for each to the section.
pub(crate) fn run(
    source: &Source,
    load: &Load,
    made_of: &[Implementation],
    machine: &Machine,
    section: &mut Section,
) -> Result<Vec<Moved>, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::Work(format!("cannot find the command itself: {error}")))?;
    let cut_off = source.cut_off()?;
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
            bar.set_message(format!(
                "{}, {implementation}, {} cores of {}, simulated",
                capital(load.subsystem().title()),
                size.cores,
                machine.name
            ));
            let words = source.words(cut_off.as_ref().map(|file| file.path()));
            let result = one(&program, words, load, implementation, size);
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
    program: &PathBuf,
    source: Vec<OsString>,
    load: &Load,
    implementation: Implementation,
    machine: &model::Machine,
) -> Result<Moved, Failure> {
    let mut words: Vec<OsString> = vec!["replay-guest".into()];
    for (name, value) in [
        ("subsystem", load.subsystem().name().to_owned()),
        ("impl", implementation.name().to_owned()),
        ("threads", machine.cores.to_string()),
    ] {
        words.push(format!("--{name}={value}").into());
    }
    words.extend(source);
    let run = Simulation::new(machine.clone())
        .capture(true)
        .timeout(TIMEOUT)
        .run(program, &words)
        .map_err(|error| sim::failure(&error))?;
    let what = || {
        format!(
            "the simulated {}, {implementation}, {} cores",
            load.subsystem().title(),
            machine.cores
        )
    };
    sim::came_to_an_end(&run).map_err(|failure| match failure {
        Failure::Work(line) => Failure::Work(format!("{}: {line}", what())),
        other => other,
    })?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        return Err(Failure::Work(format!("{} failed: {said}", what())));
    }
    let summary = run.summary();
    let done: Done = serde_json::from_slice(&run.stdout)
        .map_err(|error| Failure::Work(format!("{} said something else: {error}", what())))?;
    if summary.region.is_none() || done.nanoseconds <= 0.0 {
        return Err(Failure::NothingSimulated(format!(
            "{}: nothing was simulated",
            what()
        )));
    }
    let calls = (load.updates() + load.reads()) as f64;
    let updates = (load.updates() as f64).max(1.0);
    let transfers = summary.totals.transfers as f64;
    Ok(Moved {
        implementation: implementation.name(),
        machine: machine.name.clone(),
        cores: machine.cores,
        calls_per_second: calls * 1e9 / done.nanoseconds,
        calls_per_second_before_the_last_look: calls * 1e9
            / (done.nanoseconds - done.looking_nanoseconds),
        transfers_per_update: transfers / updates,
        upgrades_per_update: summary.totals.upgrades as f64 / updates,
        transfers_per_fork: (load.forks() > 0).then(|| transfers / load.forks() as f64),
        waiting: summary.stall_share,
    })
}
