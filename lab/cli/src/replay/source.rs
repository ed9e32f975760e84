//! What is replayed: a trace in a file, one that is built in, or a loop of the papers.

use std::fmt::Write;
use std::io::Write as _;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::ValueEnum;
use percolog_cli::failure::Failure;
use percolog_cli::format::{plural, wrap};
use percolog_cli::output::Output;
use percolog_papers::loops::{self, FILES, REGIONS};
use percolog_papers::replay::Load;
use percolog_papers::subsystem::Subsystem;
use percolog_papers::trace::{Trace, TraceError};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::traces;

/// What to replay.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Chosen {
    /// The trace: a file, or one that is built in (see `lab trace list`; default: exim)
    #[arg(value_name = "TRACE", conflicts_with = "loop")]
    trace: Option<PathBuf>,

    /// Instead of a trace, a loop of the papers
    #[arg(long, value_name = "LOOP")]
    r#loop: Option<Loop>,

    /// How many processes the loop has, each on a thread of its own
    #[arg(long, value_name = "N", requires = "loop", value_parser = clap::value_parser!(u32).range(1..=512), default_value_t = 48)]
    processes: u32,

    /// How often each process of the loop forks
    #[arg(long, value_name = "N", requires = "loop", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value_t = 40)]
    forks: u32,

    /// In fork-truncate, how often each process forks before it truncates a file
    #[arg(long, value_name = "N", requires = "loop", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value_t = 3)]
    forks_per_truncate: u32,

    /// Replay the first so many events only; whoever is alive then exits
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    events: Option<u64>,

    /// After every so many events, read the object that was updated last
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    truncate_every: Option<u64>,

    /// Cycles of other work before each event
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u64).range(0..=10_000_000), default_value_t = 0)]
    work: u64,
}

/// A loop of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Loop {
    /// On every core: fork a child that exits at once (thesis, section 3.2)
    ForkExit,
    /// The same with 48 files that all map, and truncates of them in between (section 8.2)
    ForkTruncate,
}

fn too_much(error: TraceError) -> Failure {
    Failure::Input(format!("{error}; ask for less with --processes or --forks"))
}

/// What is replayed.
pub(super) struct Source {
    arguments: Chosen,
    trace: Trace,
}

/// What was replayed, for programs.
#[derive(Serialize)]
pub(super) struct Described {
    /// What was recorded, or which loop it is.
    title: String,
    /// The command that was recorded.
    command: String,
    events: usize,
    processes: u32,
    /// After how many events there is a read that was put in.
    truncate_every: Option<u64>,
    /// Cycles of other work before each event.
    work: u64,
}

impl Source {
    /// Finds and reads it.
    pub(super) fn open(arguments: &Chosen) -> Result<Self, Failure> {
        let mut trace = match arguments.r#loop {
            None => traces::open(arguments.trace.as_deref())?,
            Some(Loop::ForkExit) => {
                loops::fork_exit(arguments.processes, REGIONS, arguments.forks).map_err(too_much)?
            }
            Some(Loop::ForkTruncate) => loops::fork_truncate(
                arguments.processes,
                FILES,
                arguments.forks,
                arguments.forks_per_truncate,
            )
            .map_err(too_much)?,
        };
        if let Some(events) = arguments.events {
            let events = usize::try_from(events).unwrap_or(usize::MAX);
            trace = loops::first(&trace, events)
                .map_err(|error| Failure::Work(format!("the first {events} events: {error}")))?;
        }
        Ok(Self {
            arguments: arguments.clone(),
            trace,
        })
    }

    /// What it means to a subsystem.
    pub(super) fn load(&self, subsystem: Subsystem) -> Load {
        let load = Load::new(&self.trace, subsystem, self.every());
        match self.arguments.r#loop {
            None => load,
            Some(Loop::ForkExit) => load.after(loops::set_up(self.arguments.processes, REGIONS)),
            Some(Loop::ForkTruncate) => load.after(loops::set_up(self.arguments.processes, FILES)),
        }
    }

    /// The subsystems that are worth a look. The loops are about the reverse map of files.
    pub(super) fn subsystems(&self) -> Vec<Subsystem> {
        match self.arguments.r#loop {
            Some(_) => vec![Subsystem::Files],
            None => Subsystem::ALL.to_vec(),
        }
    }

    fn every(&self) -> Option<NonZeroU64> {
        self.arguments.truncate_every.and_then(NonZeroU64::new)
    }

    /// Cycles of other work before each event.
    pub(super) fn work(&self) -> u64 {
        self.arguments.work
    }

    /// What it is, in a few words.
    pub(super) fn title(&self) -> String {
        let header = self.trace.header();
        if header.package.is_empty() {
            header.command.clone()
        } else {
            format!("{}: {}", header.package, header.command)
        }
    }

    /// What stands above everything.
    pub(super) fn heading(&self, output: &Output) -> String {
        let mut text = format!("{}\n", output.strong(&wrap(&self.title(), "")));
        let mut facts = format!(
            "{} of {}",
            plural(self.trace.events().len() as u64, "event"),
            match self.trace.header().tasks {
                1 => "1 process".to_owned(),
                processes => format!("{processes} processes and threads"),
            }
        );
        // Writing to a String cannot fail.
        if let Some(every) = self.arguments.truncate_every {
            let _ = write!(facts, "; a read after every {}", plural(every, "event"));
        }
        if self.work() > 0 {
            let _ = write!(
                facts,
                "; {} of other work before each event",
                plural(self.work(), "cycle")
            );
        }
        let _ = writeln!(text, "{}\n", output.faint(&wrap(&facts, "")));
        text
    }

    /// The same for programs.
    pub(super) fn described(&self) -> Described {
        Described {
            title: self.title(),
            command: self.trace.header().command.clone(),
            events: self.trace.events().len(),
            processes: self.trace.header().tasks,
            truncate_every: self.arguments.truncate_every,
            work: self.work(),
        }
    }

    /// A file with the trace as it is replayed, for a cell to read; none for a loop, which a cell makes itself.
    pub(super) fn file(&self) -> Result<Option<NamedTempFile>, Failure> {
        if self.arguments.r#loop.is_some() {
            return Ok(None);
        }
        let failed = |what: String| Failure::Work(format!("cannot write a temporary file: {what}"));
        let bytes = self
            .trace
            .to_bytes()
            .map_err(|error| failed(error.to_string()))?;
        let mut file = NamedTempFile::new().map_err(|error| failed(error.to_string()))?;
        file.write_all(&bytes)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Some(file))
    }

    /// The parameters by which a cell replays this source; its trace is in this file.
    pub(super) fn parameters(&self, file: Option<&NamedTempFile>) -> Result<Vec<String>, Failure> {
        let arguments = &self.arguments;
        let mut parameters = Vec::new();
        let mut give = |name: &str, value: String| parameters.push(format!("{name}={value}"));
        if let Some(which) = arguments.r#loop {
            let name = which
                .to_possible_value()
                .map(|value| value.get_name().to_owned());
            give("source", name.unwrap_or_default());
            give("processes", arguments.processes.to_string());
            give("forks", arguments.forks.to_string());
            if which == Loop::ForkTruncate {
                let forks = arguments.forks_per_truncate;
                give("forks_per_truncate", forks.to_string());
            }
            if let Some(events) = arguments.events {
                // As many as a cell accepts, and more than any trace has.
                give("events", events.min(u64::from(u32::MAX)).to_string());
            }
        } else if let Some(file) = file {
            let path = file.path().to_str().ok_or_else(|| {
                Failure::Input(
                    "the folder of temporary files has a name that is not UTF-8; choose another with TMPDIR".to_owned(),
                )
            })?;
            give("source", "file".to_owned());
            give("trace", path.to_owned());
        }
        if let Some(every) = arguments.truncate_every {
            give("reads_every", every.to_string());
        }
        give("work", arguments.work.to_string());
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simulated cell makes a loop itself: it must be told all that this process knows of it.
    #[test]
    fn a_cell_replays_as_many_events_of_a_loop() {
        let chosen = Chosen {
            r#loop: Some(Loop::ForkTruncate),
            processes: 2,
            forks: 5,
            forks_per_truncate: 3,
            events: Some(30),
            truncate_every: Some(7),
            ..Chosen::default()
        };
        let source = Source::open(&chosen).expect("there is such a loop");
        let file = source.file().expect("none is needed");
        let parameters = source.parameters(file.as_ref()).expect("no path is in it");
        assert_eq!(
            parameters,
            [
                "source=fork-truncate",
                "processes=2",
                "forks=5",
                "forks_per_truncate=3",
                "events=30",
                "reads_every=7",
                "work=0"
            ]
        );
    }
}
