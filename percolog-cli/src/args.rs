//! What the command understands.

use clap::{Parser, Subcommand};
use percolog_cli::output::WIDTH;

use crate::{advise, sim};

/// Find the cache line that stops a program from scaling, fix it, keep it fixed.
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
    /// Run a program on a machine that you do not have: which cache lines are in its way there? (needs QEMU)
    Sim(Box<sim::Sim>),
    /// Say what is in a program's way on many cores, and what would take its place (needs QEMU; runs it several times)
    Advise(Box<advise::Advise>),
    /// Say how percolog finds its slots and its clock here; exit with 1 if something is wrong
    Doctor,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;
    use percolog_cli::command_line::parse_from;
    use percolog_cli::failure::Failure;

    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let typed = std::iter::once("percolog")
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
            (&["demoo"][..], "'demo'", "`percolog --help`"),
            (&[][..], "command is missing", "`percolog --help`"),
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
