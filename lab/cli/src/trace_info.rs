//! `lab trace`: what a trace holds, and which are built in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use percolog_cli::failure::Failure;
use percolog_cli::format::{left, wrap};
use percolog_cli::output::{Output, WIDTH};
use percolog_papers::trace::{self, Trace};
use serde::Serialize;

use crate::traces::open;

/// Arguments of `lab trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to look at.
    #[command(subcommand)]
    command: TraceCommand,
}

/// What `lab trace` can do.
#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Say what a trace holds: which subsystems it updates and reads, and how many processes share a file
    Info {
        /// The trace: a file, or one that is built in (default: exim)
        trace: Option<PathBuf>,
    },
    /// List the traces that are built in
    List,
}

/// What `lab trace info --json` prints.
#[derive(Serialize)]
struct Info {
    package: String,
    command: String,
    recorded: String,
    recorder: String,
    names: trace::Names,
    lines_not_understood: u64,
    duration_microseconds: u64,
    processes: u64,
    threads: u64,
    peak_tasks: usize,
    events: usize,
    events_by_kind: BTreeMap<&'static str, u64>,
    subsystems: Vec<Amount>,
    peak_mappings: usize,
    truncates_of_mapped: u64,
    files: BTreeMap<String, usize>,
    files_by_processes: BTreeMap<&'static str, usize>,
    most_shared: Vec<Shared>,
}

/// What a trace amounts to for one subsystem.
#[derive(Serialize)]
struct Amount {
    subsystem: &'static str,
    entered: u64,
    left: u64,
    updates: u64,
    reads: u64,
    /// Nothing when nobody reads.
    updates_per_read: Option<f64>,
}

/// A file that many processes touch.
#[derive(Serialize)]
struct Shared {
    file: String,
    processes: usize,
    mappings: u64,
}

/// A trace that is built in.
#[derive(Serialize)]
struct BuiltIn {
    name: &'static str,
    package: String,
    command: String,
    events: usize,
    tasks: u32,
}

/// Lists the traces that are built in.
fn list(output: &mut Output) -> Result<(), Failure> {
    let mut traces = Vec::new();
    for name in Trace::names() {
        let trace = open(Some(Path::new(name)))?;
        let header = trace.header();
        traces.push(BuiltIn {
            name,
            package: header.package.clone(),
            command: header.command.clone(),
            events: trace.events().len(),
            tasks: header.tasks,
        });
    }
    if output.is_json() {
        return output.data(&traces);
    }
    for trace in traces {
        output.line(&wrap(
            &format!(
                "{}  {} events of {} processes and threads: {}",
                left(trace.name, 12),
                trace.events,
                trace.tasks,
                trace.package
            ),
            "",
        ))?;
    }
    Ok(())
}

/// Looks at a trace.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let trace = match &arguments.command {
        TraceCommand::Info { trace } => open(trace.as_deref())?,
        TraceCommand::List => return list(output),
    };
    let info = trace.info();
    if !output.is_json() {
        for line in info.to_string().lines() {
            // Tables are narrow and keep their columns.
            if line.chars().count() <= WIDTH {
                output.line(line)?;
            } else {
                output.line(&wrap(line, ""))?;
            }
        }
        return Ok(());
    }
    let sharing = info.sharing;
    output.data(&Info {
        events: trace.events().len(),
        events_by_kind: info.counts.by_kind().into_iter().collect(),
        package: info.package,
        command: info.command,
        recorded: info.recorded,
        recorder: info.recorder,
        names: info.names,
        lines_not_understood: info.not_understood,
        duration_microseconds: info.duration,
        processes: info.processes,
        threads: info.threads,
        peak_tasks: info.peak_tasks,
        subsystems: info
            .subsystems
            .iter()
            .map(|amount| Amount {
                subsystem: amount.subsystem.name(),
                entered: amount.entered,
                left: amount.left,
                updates: amount.updates(),
                reads: amount.reads,
                updates_per_read: amount.updates_per_read(),
            })
            .collect(),
        peak_mappings: info.peak_mappings,
        truncates_of_mapped: info.truncates_of_mapped,
        files: info
            .files
            .iter()
            .map(|(kind, count)| (kind.to_string(), *count))
            .collect(),
        files_by_processes: BTreeMap::from([
            ("1", sharing.one),
            ("2-9", sharing.few),
            ("10-99", sharing.tens),
            ("100+", sharing.hundreds),
        ]),
        most_shared: sharing
            .most
            .into_iter()
            .map(|shared| Shared {
                file: shared.name,
                processes: shared.processes,
                mappings: shared.mappings,
            })
            .collect(),
    })
}
