//! What the command understands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use percolog_cli::output::WIDTH;

use crate::{bench, figures, replay};

/// As many as a replay accepts. More than anyone can mean: each needs a stack, and the figures would say nothing.
const MOST_THREADS: usize = percolog_papers::replay::MAX_THREADS;

/// The laboratory: the papers' figures, duels with other libraries, recorded programs.
#[derive(Debug, Parser)]
#[command(name = "lab", version, max_term_width = WIDTH)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print data as JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print without colours (also: NO_COLOR in the environment)
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

/// What the command can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the figures of the papers and the duels with other libraries, and a page of them
    Figures(figures::Arguments),
    /// Measure a mixture of your own on percolog's structures and on those that people use today
    Bench(bench::Arguments),
    /// One cell of a figure
    #[command(hide = true)]
    FiguresCell(figures::CellArguments),
    /// Record a trace of a command and all its processes (needs strace)
    Record(Record),
    /// Say which subsystem of an operating system a recorded program would gain by, and how much
    Replay(replay::Arguments),
    /// One replay, as `replay --sim` simulates it
    #[command(hide = true)]
    ReplayGuest(replay::GuestArguments),
    /// Look at traces
    Trace(Trace),
}

/// Arguments of `lab record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Record {
    /// Where the trace goes
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Replace the output if it exists
    #[arg(long)]
    pub(crate) force: bool,

    /// What the command builds or runs, for people who read the trace later
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) package: String,

    /// Tell the files' names: `all` with their whole paths, or `system` the last name of those that belong
    /// to the operating system; a hash that nothing can be guessed from stands for all others
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "all")]
    pub(crate) names: Names,

    /// The command to record, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How much a trace tells of the files' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Names {
    /// A hash for each
    None,
    /// The last name of those of the operating system
    System,
    /// Whole paths
    All,
}

impl From<Names> for percolog_papers::trace::Names {
    fn from(names: Names) -> Self {
        match names {
            Names::None => Self::None,
            Names::System => Self::System,
            Names::All => Self::All,
        }
    }
}

/// Arguments of `lab trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct Trace {
    /// What to look at.
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

/// What `lab trace` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Say what a trace holds: which subsystems it updates and reads, and how many processes share a file
    Info {
        /// The trace: a file, or one that is built in (default: exim)
        trace: Option<PathBuf>,
    },
    /// List the traces that are built in
    List,
}

/// A number of threads from the command line.
pub(crate) fn thread_count(text: &str) -> Result<usize, String> {
    let count: usize = text
        .trim()
        .parse()
        .map_err(|_| format!("a number from 1 to {MOST_THREADS} is needed"))?;
    match count {
        0 => Err("at least one thread is needed".to_owned()),
        1..=MOST_THREADS => Ok(count),
        _ => Err(format!("at most {MOST_THREADS} threads can be measured")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use percolog_cli::command_line::parse_from;
    use percolog_cli::failure::Failure;

    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let typed = std::iter::once("lab")
            .chain(arguments.iter().copied())
            .map(OsString::from)
            .collect();
        match parse_from::<Arguments>(typed) {
            Err(Failure::Input(line)) => line,
            Err(other) => panic!("{arguments:?} failed as {other:?}"),
            Ok(_) => panic!("{arguments:?} was accepted"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_refusal_is_one_line_with_the_way_out() {
        for (arguments, part, way_out) in [
            (
                &["record", "--", "true"][..],
                "--output",
                "`lab record --help`",
            ),
            (
                &["record", "-o", "x"][..],
                "COMMAND",
                "`lab record --help`",
            ),
            (&["trace", "inof"][..], "'info'", "`lab trace --help`"),
            (
                &["trace"][..],
                "command is missing",
                "`lab trace --help`",
            ),
        ] {
            let line = refused(arguments);
            assert!(!line.contains('\n'), "{line}");
            assert!(line.contains(part), "{line} lacks {part}");
            assert!(line.ends_with(way_out), "{line} lacks {way_out}");
        }
    }
}
