//! What the user typed, and one clear line when it cannot be understood.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::advise;
use crate::bench;
use crate::failure::Failure;
use crate::figures;
use crate::output::WIDTH;
use crate::replay;
use crate::sim;

/// As many as a replay accepts. More than anyone can mean: each needs a stack, and the figures would say nothing.
const MOST_THREADS: usize = percolog_papers::replay::MAX_THREADS;

/// Per-core logs: shared structures whose updates touch no shared cache line.
#[derive(Debug, Parser)]
#[command(name = "percolog", version, max_term_width = WIDTH)]
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
    /// Measure what you have against what percolog offers, on this machine (about half a minute)
    Demo(Demo),
    /// Say how percolog finds its slots and its clock here; exit with 1 if something is wrong
    Doctor,
    /// Say which subsystem of an operating system a recorded program would gain by, and how much
    Replay(replay::Arguments),
    /// One replay, as `replay --sim` simulates it
    #[command(hide = true)]
    ReplayGuest(replay::GuestArguments),
    /// Make the figures of the papers and the duels with other libraries, and a page of them
    Figures(figures::Arguments),
    /// Measure a mixture of your own on percolog's structures and on those that people use today
    Bench(bench::Arguments),
    /// One cell of a figure
    #[command(hide = true)]
    FiguresCell(figures::CellArguments),
    /// Record a trace of a command and all its processes (needs strace)
    Record(Record),
    /// Look at traces
    Trace(Trace),
    /// Run a program on a machine that you do not have: which cache lines are in its way there? (needs QEMU)
    Sim(Box<sim::Sim>),
    /// Say what is in a program's way on many cores, and what would take its place (needs QEMU; runs it several times)
    Advise(Box<advise::Advise>),
}

/// Arguments of `percolog demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Numbers of threads to measure, separated by commas; one thread is always shown
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = thread_count, default_value = "1,2,8")]
    pub(crate) threads: Vec<usize>,

    /// How long one measurement lasts, in milliseconds (default: 220; with --quick: 20)
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) cell_ms: Option<u64>,

    /// Where the report goes (default: report.html; an earlier report of that name is replaced)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace the output if it exists
    #[arg(long)]
    pub(crate) force: bool,

    /// Run this part alone
    #[arg(long, value_name = "PART")]
    pub(crate) only: Option<Part>,

    /// Measure each figure once and shortly: to try the command, not to judge by
    #[arg(long)]
    pub(crate) quick: bool,
}

/// A part of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// A `static AtomicU64` and its successors
    Counters,
    /// A `Mutex`-guarded set and its successors
    Sets,
    /// A recorded program through the reverse map
    Trace,
}

/// Arguments of `percolog record`.
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

/// Arguments of `percolog trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct Trace {
    /// What to look at.
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

/// What `percolog trace` can do.
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

/// What is to be done after the arguments have been read.
pub(crate) enum Parsed {
    /// Run the command.
    Run(Box<Arguments>),
    /// Print the help or the version that was asked for.
    Explain(String),
}

/// Reads the arguments of this process.
pub(crate) fn parse() -> Result<Parsed, Failure> {
    parse_from(std::env::args_os().collect())
}

fn parse_from(typed: Vec<OsString>) -> Result<Parsed, Failure> {
    let no_color = typed.iter().any(|argument| argument == "--no-color");
    let command = Arguments::command().color(if no_color {
        ColorChoice::Never
    } else {
        ColorChoice::Auto
    });
    let way_out = way_out(&command, &typed);
    let parsed = command
        .try_get_matches_from(typed)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    match parsed {
        Ok(arguments) => Ok(Parsed::Run(Box::new(arguments))),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Ok(Parsed::Explain(error.to_string()))
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                Err(Failure::Input(format!(
                    "a command is missing; see `{way_out}`"
                )))
            }
            _ => Err(Failure::Input(format!(
                "{}; see `{way_out}`",
                one_line(&error.to_string())
            ))),
        },
    }
}

/// The help to look at: that of the deepest command the user named rightly.
fn way_out(command: &clap::Command, typed: &[OsString]) -> String {
    let mut at = command;
    let mut name = String::from("percolog");
    // Behind `--` stands another program's command line.
    let ours = typed.iter().take_while(|argument| *argument != "--");
    for argument in ours.skip(1) {
        if let Some(inner) = named(at, argument) {
            name = format!("{name} {}", inner.get_name());
            at = inner;
        }
    }
    format!("{name} --help")
}

fn named<'a>(command: &'a clap::Command, argument: &OsStr) -> Option<&'a clap::Command> {
    command.find_subcommand(argument)
}

/// What a message of several paragraphs says, on one line: without the usage and the pointer to the help.
fn one_line(message: &str) -> String {
    let mut line = String::new();
    for part in message
        .lines()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more information"))
    {
        let part = part.strip_prefix("error: ").unwrap_or(part);
        let part = part.strip_prefix("tip: ").unwrap_or(part);
        if line.ends_with(':') || part.starts_with('[') {
            line.push(' ');
        } else if !line.is_empty() {
            line.push_str("; ");
        }
        line.push_str(part);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let typed = std::iter::once("percolog")
            .chain(arguments.iter().copied())
            .map(OsString::from)
            .collect();
        match parse_from(typed) {
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
            (&["demoo"][..], "'demo'", "`percolog --help`"),
            (&[][..], "command is missing", "`percolog --help`"),
            (
                &["demo", "--thread", "1"][..],
                "--threads",
                "`percolog demo --help`",
            ),
            (
                &["demo", "--threads", "0"][..],
                "at least one",
                "`percolog demo --help`",
            ),
            (
                &["demo", "--threads", "100000"][..],
                "512",
                "`percolog demo --help`",
            ),
            (
                &["demo", "--threads", "1,x"][..],
                "from 1 to 512",
                "`percolog demo --help`",
            ),
            (
                &["demo", "--threads", "-1"][..],
                "'-1'",
                "`percolog demo --help`",
            ),
            (
                &["demo", "--only", "sest"][..],
                "sets",
                "`percolog demo --help`",
            ),
            (
                &["demo", "--cell-ms", "0"][..],
                "1..=10000",
                "`percolog demo --help`",
            ),
            (
                &["record", "--", "true"][..],
                "--output",
                "`percolog record --help`",
            ),
            (
                &["record", "-o", "x"][..],
                "COMMAND",
                "`percolog record --help`",
            ),
            (&["trace", "inof"][..], "'info'", "`percolog trace --help`"),
            (
                &["trace"][..],
                "command is missing",
                "`percolog trace --help`",
            ),
            (
                &["sim", "--cores", "0", "--", "machines"][..],
                "1..=1024",
                "`percolog sim --help`",
            ),
            (&["sim", "nproc"][..], "'nproc'", "`percolog sim --help`"),
            (
                &["sim", "--core", "4", "--", "nproc"][..],
                "--cores",
                "`percolog sim --help`",
            ),
            (
                &["sim", "assert", "--", "nproc"][..],
                "--max-transfers-per-op",
                "`percolog sim assert --help`",
            ),
            (
                &["sim", "assert", "--max-transfers-per-op", "-1", "--", "x"][..],
                "'-1'",
                "`percolog sim assert --help`",
            ),
            (
                &["sim", "assert", "--max-transfers-per-op", "nan", "--", "x"][..],
                "at least 0",
                "`percolog sim assert --help`",
            ),
        ] {
            let line = refused(arguments);
            assert!(!line.contains('\n'), "{line}");
            assert!(line.contains(part), "{line} lacks {part}");
            assert!(line.ends_with(way_out), "{line} lacks {way_out}");
        }
    }
}
