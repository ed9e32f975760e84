//! `lab replay`: which subsystem of an operating system would a recorded program gain by, how much, and who says so?
//!
//! Every subsystem that the program updates is replayed on its own, with everything that it can be made of: each state is compared with
//! a sequential model, then each is measured on this machine and, if asked for, simulated on another.

mod checks;
mod gain;
mod measure;
mod show;
mod simulate;
mod source;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use percolog::cpu;
use percolog_bench::host::Host;
use percolog_cli::destination::Destination;
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;
use percolog_papers::replay::{Load, ReplayError};
use percolog_papers::subsystem::{Implementation, Subsystem};
use serde::Serialize;

use crate::numbers::thread_count;
use crate::report::{self, Report, Section, page};
use checks::Checked;
use gain::Gain;
use simulate::{Machine, Moved};
use source::Source;

/// Arguments of `lab replay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Figures of real threads are measured on this machine, and say so; those of --sim are simulated on a described one, and \
                  say so. Each state that a replay reaches is compared with a sequential model before anything is measured.\n\
                  A gain is that of the subsystem's updates and reads alone: how much of a program's time they are, a trace does not tell."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: source::Chosen,

    /// Numbers of threads to measure, separated by commas; one thread is always shown
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = thread_count, default_value = "1,2")]
    threads: Vec<usize>,

    /// What to replay, separated by commas: files, memory, names, open-files, events (default: every subsystem that the trace
    /// updates)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = one_of::<Subsystem>)]
    subsystem: Vec<Subsystem>,

    /// What to make it of, separated by commas: mutex (always shown), spinlock (names alone), rwlock, percpu, lockfree, harris,
    /// oplog (names: references taken on condition), oplog-absorb, ldu-global, ldu-percore (default: everything there is)
    #[arg(long = "impl", value_name = "NAME,…", value_delimiter = ',', value_parser = one_of::<Implementation>)]
    implementation: Vec<Implementation>,

    /// Compare every state with a sequential model, and measure nothing
    #[arg(long, conflicts_with = "no_check")]
    check_only: bool,

    /// Do not compare states
    #[arg(long)]
    no_check: bool,

    /// How long one measurement lasts, in milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000), default_value_t = 100)]
    cell_ms: u64,

    /// Simulate the same replay on this machine, too: one of `percolog sim machines`, or a file (needs QEMU; some minutes)
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "check_only")]
    sim: Option<String>,

    /// Numbers of cores of that machine, separated by commas (default: all it has)
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = thread_count, requires = "sim")]
    cores: Vec<usize>,

    /// Write a page with charts
    #[arg(long, short, value_name = "FILE", conflicts_with = "check_only")]
    output: Option<PathBuf>,

    /// Replace the page if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

fn one_of<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.trim()
        .parse()
        .map_err(|error: T::Err| error.to_string())
}

/// What `lab replay --json` prints.
#[derive(Serialize)]
struct Replayed {
    /// What was replayed.
    source: source::Described,
    /// The states that were compared.
    checks: Vec<Checked>,
    /// The subsystems that were measured.
    subsystems: Vec<Sheet>,
    /// Where the page is.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
}

/// What was found about one subsystem.
#[derive(Serialize)]
struct Sheet {
    subsystem: &'static str,
    objects: usize,
    updates: u64,
    reads: u64,
    /// The figures.
    section: Section,
    /// What the logs did in one pass on the largest number of threads.
    logs: Vec<measure::Logs>,
    /// The lines that moved in the simulations.
    moved: Vec<Moved>,
    /// What it would gain, by each instrument.
    gains: Vec<Gain>,
}

/// Replays what was asked for.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let source = Source::open(&arguments.source)?;
    let machine = arguments
        .sim
        .as_deref()
        .map(|name| Machine::find(name, &arguments.cores))
        .transpose()?;
    let destination = arguments
        .output
        .as_deref()
        .map(|path| Destination::choose(Some(path), arguments.force))
        .transpose()?;
    let loads = arguments.loads(&source)?;
    if !output.is_json() {
        let heading = source.heading(output);
        output.write(&heading)?;
    }

    let mut checks = Vec::new();
    if !arguments.no_check {
        let most = arguments.threads.iter().copied().max().unwrap_or(1);
        for load in &loads {
            let checked = checks::run(load, &arguments.made_of(load), most)?;
            if !output.is_json() {
                output.line(&checks::sentence(load, &checked))?;
            }
            checks.extend(checked);
        }
    }
    let mut sheets = Vec::new();
    let host = Host::describe();
    if !arguments.check_only {
        for load in &loads {
            let sheet = arguments.sheet(&source, load, &host, machine.as_ref())?;
            if !output.is_json() {
                let text = show::sheet(output, &sheet);
                output.write(&text)?;
            }
            sheets.push(sheet);
        }
        if !output.is_json() {
            let text = show::summary(output, &sheets);
            output.write(&text)?;
        }
    }

    let described = source.described();
    let mut page = None;
    if let Some(destination) = destination {
        let report = Report {
            title: "What a recorded program would gain",
            subject: source.title(),
            version: env!("CARGO_PKG_VERSION"),
            machine: machine_of(host),
            cell_milliseconds: arguments.cell_ms,
            cells: measure::CELLS,
            sections: sheets.iter().map(|sheet| sheet.section.clone()).collect(),
        };
        let written = destination.write(&page::html(&report))?;
        page = Some(written.display().to_string());
    }
    if output.is_json() {
        return output.data(&Replayed {
            source: described,
            checks,
            subsystems: sheets,
            page,
        });
    }
    match page {
        Some(page) => {
            let path = output.strong(&page);
            output.line(&format!("The report with charts: {path}"))
        }
        None => Ok(()),
    }
}

impl Arguments {
    /// What the source means to each subsystem that shall be replayed.
    fn loads(&self, source: &Source) -> Result<Vec<Arc<Load>>, Failure> {
        let wanted = if self.subsystem.is_empty() {
            source.subsystems()
        } else {
            self.subsystem.clone()
        };
        let loads: Vec<Arc<Load>> = wanted
            .into_iter()
            .map(|subsystem| Arc::new(source.load(subsystem)))
            .filter(|load| load.updates() > 0 || self.subsystem.contains(&load.subsystem()))
            .collect();
        for load in &loads {
            if load.updates() == 0 {
                return Err(Failure::Input(format!(
                    "nothing in this trace updates the {}; `lab trace info` says what it updates",
                    load.subsystem().title()
                )));
            }
        }
        if loads.is_empty() {
            return Err(Failure::Input(
                "this trace updates none of the subsystems; `lab trace info` says what it holds"
                    .to_owned(),
            ));
        }
        Ok(loads)
    }

    /// What a subsystem shall be made of, the mutex first.
    fn made_of(&self, load: &Load) -> Vec<Implementation> {
        Implementation::ALL
            .into_iter()
            .filter(|implementation| {
                self.implementation.is_empty()
                    || *implementation == Implementation::Mutex
                    || self.implementation.contains(implementation)
            })
            .filter(|implementation| implementation.serves(load.subsystem()))
            .collect()
    }

    fn sheet(
        &self,
        source: &Source,
        load: &Arc<Load>,
        host: &Host,
        machine: Option<&Machine>,
    ) -> Result<Sheet, Failure> {
        let made_of = self.made_of(load);
        let measured = measure::run(
            load,
            &made_of,
            &self.threads,
            Duration::from_millis(self.cell_ms),
            source.work(),
            host.cpus,
        )?;
        let mut section = measured.section;
        let mut moved = Vec::new();
        if let Some(machine) = machine {
            moved = simulate::run(source, load, &made_of, machine, &mut section)?;
        }
        let gains = gain::of(&section, &made_of, host.cpus);
        gain::tell(&mut section, &gains, &moved);
        Ok(Sheet {
            subsystem: load.subsystem().name(),
            objects: load.objects(),
            updates: load.updates(),
            reads: load.reads(),
            section,
            logs: measured.logs,
            moved,
            gains,
        })
    }
}

/// The machine that is measured.
fn machine_of(host: Host) -> report::Machine {
    let clock = cpu::clock::health();
    report::Machine {
        processor: host.processor,
        cpus: host.cpus,
        platform: host.platform,
        slots: format!("{}, {}", cpu::count(), cpu::slot_source()),
        clock: format!("{}, since {}", clock.source, clock.why),
    }
}

/// How a replay that failed is reported.
fn failure(error: ReplayError) -> Failure {
    match error {
        ReplayError::Threads(_) | ReplayError::Spawn { .. } => {
            Failure::Input(format!("{error}; choose other numbers with --threads"))
        }
        ReplayError::NotMade { .. } => Failure::Input(error.to_string()),
        _ => Failure::Work(format!(
            "{error}; this is a defect, please report it with the output of `percolog doctor`"
        )),
    }
}
