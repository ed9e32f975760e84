//! What the command understands.

use clap::{Parser, Subcommand};
use percolog_cli::command_line::Presentation;
use percolog_cli::output::WIDTH;

use crate::{bench, figures, record, replay, trace_info};

/// The laboratory: the papers' figures, duels with other libraries, recorded programs.
#[derive(Debug, Parser)]
#[command(name = "lab", version, max_term_width = WIDTH)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// What the command can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the figures of the papers and the duels with other libraries, and a page of them
    Figures(figures::Arguments),
    /// Measure a mixture of your own on percolog's structures and on those that people use today
    Bench(bench::Arguments),
    /// Record a trace of a command and all its processes (needs strace)
    Record(record::Arguments),
    /// Say which subsystem of an operating system a recorded program would gain by, and how much
    Replay(replay::Arguments),
    /// Look at traces
    Trace(trace_info::Arguments),
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

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
            (&["record", "-o", "x"][..], "COMMAND", "`lab record --help`"),
            (
                &["bench", "map", "--threads", "0"][..],
                "at least one",
                "`lab bench --help`",
            ),
            (
                &["bench", "map", "--threads", "100000"][..],
                "512",
                "`lab bench --help`",
            ),
            (
                &["bench", "map", "--threads", "1,x"][..],
                "from 1 to 512",
                "`lab bench --help`",
            ),
            (&["trace", "inof"][..], "'info'", "`lab trace --help`"),
            (&["trace"][..], "command is missing", "`lab trace --help`"),
        ] {
            let line = refused(arguments);
            assert!(!line.contains('\n'), "{line}");
            assert!(line.contains(part), "{line} lacks {part}");
            assert!(line.ends_with(way_out), "{line} lacks {way_out}");
        }
    }
}
