//! `percolog replay`, `record` and `trace`: recorded runs of real programs.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use percolog_bench::host::Host;
use percolog_papers::replay::{self, CheckReport, Progress, ReplayError, Structure};
use percolog_papers::trace::{self, RecordError, Request, Trace};
use serde::Serialize;

use crate::args::{self, TraceCommand};
use crate::demo;
use crate::failure::Failure;
use crate::format::{plural, threads, wrap};
use crate::output::Output;
use crate::report::Section;

/// Reads the trace in a file, or the one that is built in.
fn open(path: Option<&Path>) -> Result<Trace, Failure> {
    match path {
        Some(path) => Trace::open(path)
            .map_err(|error| Failure::Input(format!("{}: {error}", path.display()))),
        None => built_in(),
    }
}

/// The trace that comes with the command.
pub(crate) fn built_in() -> Result<Trace, Failure> {
    // It can only fail if this very program is damaged.
    Trace::bundled().map_err(|error| Failure::Work(format!("the built-in trace: {error}")))
}

/// How a replay that failed is reported.
pub(crate) fn replay_failure(error: ReplayError) -> Failure {
    match error {
        ReplayError::Threads(_) | ReplayError::Spawn { .. } => {
            Failure::Input(format!("{error}; choose other numbers with --threads"))
        }
        _ => Failure::Work(format!(
            "{error}; this is a defect, please report it with the output of `percolog doctor`"
        )),
    }
}

/// What `percolog replay --json` prints.
#[derive(Serialize)]
struct Replayed {
    checks: Vec<Checked>,
    timing: Option<Section>,
}

/// One structure's states, compared with the model's on one number of threads.
#[derive(Serialize)]
struct Checked {
    structure: &'static str,
    threads: usize,
    processes: usize,
    files: usize,
    events: usize,
    updates: u64,
    reads: u64,
    comparisons: u64,
    mappings_compared: u64,
}

impl Checked {
    fn new(structure: Structure, report: &CheckReport) -> Self {
        Self {
            structure: structure.name(),
            threads: report.threads,
            processes: report.processes,
            files: report.files,
            events: report.events,
            updates: report.updates,
            reads: report.reads,
            comparisons: report.comparisons,
            mappings_compared: report.mappings_compared,
        }
    }
}

/// Drives a trace through every structure: first compared with a sequential model, then timed.
pub(crate) fn replay(arguments: &args::Replay, output: &mut Output) -> Result<(), Failure> {
    let trace = Arc::new(open(arguments.trace.as_deref())?);
    let mut numbers = arguments.threads.clone();
    numbers.sort_unstable();
    numbers.dedup();
    let mut checks = Vec::new();
    for &number in &numbers {
        for structure in Structure::ALL {
            let bar = bar(&format!("checking {structure}, {}", threads(number)));
            let checked = replay::check(&trace, structure, number, &|progress: Progress| {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
            });
            bar.finish_and_clear();
            let report = checked.map_err(replay_failure)?;
            if !output.is_json() {
                output.line(&wrap(
                    &format!(
                        "{structure} on {}: {} compared at {}, all as the sequential model has them.",
                        threads(number),
                        plural(report.mappings_compared, "mapping"),
                        plural(report.comparisons, "moment"),
                    ),
                    "",
                ))?;
            }
            checks.push(Checked::new(structure, &report));
        }
    }
    let timing = if arguments.check_only {
        None
    } else {
        let cell = Duration::from_millis(arguments.cell_ms);
        Some(demo::time_trace(trace, numbers, cell, &Host::describe())?)
    };
    if output.is_json() {
        return output.data(&Replayed { checks, timing });
    }
    if let Some(section) = timing {
        output.line("")?;
        let text = demo::show(output, &section);
        output.write(&text)?;
    }
    Ok(())
}

fn bar(message: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(1), target);
    if let Ok(style) = ProgressStyle::with_template("[{bar:24}] {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(message.to_owned());
    bar
}

/// Records a command with all its processes.
pub(crate) fn record(arguments: &args::Record, output: &mut Output) -> Result<(), Failure> {
    let recorded = trace::record(&Request {
        command: &arguments.command,
        output: &arguments.output,
        force: arguments.force,
        package: &arguments.package,
    })
    .map_err(|error| {
        let line = error.to_string();
        match error {
            RecordError::NoCommand
            | RecordError::NoSuchProgram(_)
            | RecordError::OutputExists(_)
            | RecordError::Output { .. } => Failure::Input(line),
            _ => Failure::Work(line),
        }
    })?;
    let events = recorded.trace.events().len() as u64;
    if output.is_json() {
        return output.data(&Recorded {
            output: arguments.output.display().to_string(),
            bytes: recorded.bytes,
            events,
            processes: recorded.trace.header().processes,
            command_succeeded: recorded.status.success(),
        });
    }
    if !recorded.status.success() {
        output.line(&format!("The command failed ({}).", recorded.status))?;
    }
    output.line(&format!(
        "{} of {} are in {} ({} bytes).",
        plural(events, "event"),
        // English, and the only plural of its kind here.
        match recorded.trace.header().processes {
            1 => "1 process".to_owned(),
            processes => format!("{processes} processes"),
        },
        arguments.output.display(),
        recorded.bytes
    ))
}

/// What `percolog record --json` prints.
#[derive(Serialize)]
struct Recorded {
    output: String,
    bytes: u64,
    events: u64,
    processes: u32,
    command_succeeded: bool,
}

/// What `percolog trace info --json` prints.
#[derive(Serialize)]
struct Info {
    package: String,
    command: String,
    recorded: String,
    recorder: String,
    duration_microseconds: u64,
    processes: u32,
    address_spaces: usize,
    peak_processes: usize,
    events: usize,
    events_by_kind: BTreeMap<&'static str, u64>,
    additions: u64,
    removals: u64,
    peak_mappings: usize,
    truncates_of_mapped: u64,
    files: BTreeMap<String, usize>,
    popular: Vec<Popular>,
}

/// A file that many processes map.
#[derive(Serialize)]
struct Popular {
    file: String,
    mappings: u64,
    peak_processes: usize,
}

/// Looks at a trace.
pub(crate) fn trace(arguments: &args::Trace, output: &mut Output) -> Result<(), Failure> {
    let TraceCommand::Info { trace } = &arguments.command;
    let trace = open(trace.as_deref())?;
    let info = trace.info();
    if !output.is_json() {
        for line in info.to_string().lines() {
            let text = line.trim_start();
            let indent = " ".repeat(line.len() - text.len());
            output.line(&wrap(text, &indent))?;
        }
        return Ok(());
    }
    output.data(&Info {
        events: trace.events().len(),
        events_by_kind: BTreeMap::from([
            ("map", info.counts.map),
            ("unmap", info.counts.unmap),
            ("fork", info.counts.fork),
            ("share", info.counts.share),
            ("exec", info.counts.exec),
            ("exit", info.counts.exit),
            ("truncate", info.counts.truncate),
        ]),
        package: info.package,
        command: info.command,
        recorded: info.recorded,
        recorder: info.recorder,
        duration_microseconds: info.duration,
        processes: info.processes,
        address_spaces: info.address_spaces,
        peak_processes: info.peak_processes,
        additions: info.additions,
        removals: info.removals,
        peak_mappings: info.peak_mappings,
        truncates_of_mapped: info.truncates_of_mapped,
        files: info
            .files
            .iter()
            .map(|(kind, count)| (kind.to_string(), *count))
            .collect(),
        popular: info
            .popular
            .into_iter()
            .map(|(file, mappings, peak_processes)| Popular {
                file,
                mappings,
                peak_processes,
            })
            .collect(),
    })
}
