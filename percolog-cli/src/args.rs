//! What the command understands.

use clap::{Parser, Subcommand};
use percolog_cli::command_line::Presentation;
use percolog_cli::output::WIDTH;

use crate::{advise, demo, sim};

/// Find the cache line that stops a program from scaling, fix it, keep it fixed.
#[derive(Debug, Parser)]
#[command(name = "percolog", version, max_term_width = WIDTH)]
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
    /// Find, fix, proved: one small program, in half a minute; writes report.html
    Demo(demo::Demo),
    /// Run a program on a machine that you do not have: which cache lines are in its way there? (needs QEMU)
    Sim(Box<sim::Sim>),
    /// Say what is in a program's way on many cores, and what would take its place (needs QEMU; runs it several times)
    Advise(Box<advise::Advise>),
    /// Say how percolog finds its slots and its clock here; exit with 1 if something is wrong
    Doctor,
    /// The program of the demonstration, by itself
    #[command(hide = true)]
    DemoProgram(demo::program::Program),
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;
    use percolog_cli::command_line::{Parsed, parse_from};
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
            (&["--json"][..], "command is missing", "`percolog --help`"),
            (
                &["sim", "--cores", "0", "--", "machines"][..],
                "1..=1024",
                "`percolog sim --help`",
            ),
            (
                &["sim", "nproc"][..],
                "behind `--`",
                "`percolog sim -- nproc`",
            ),
            (
                &["sim", "--cores", "4", "./a b", "-x"][..],
                "behind `--`",
                "`percolog sim --cores 4 -- './a b' -x`",
            ),
            (&["advise", "./x"][..], "./x", "`percolog advise -- ./x`"),
            (
                &["sim", "assert", "--max-transfers-per-op", "1", "./x"][..],
                "./x",
                "`percolog sim assert --max-transfers-per-op 1 -- ./x`",
            ),
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

    fn explained(arguments: &[&str]) -> String {
        let typed = std::iter::once("percolog").chain(arguments.iter().copied());
        match parse_from::<Arguments>(typed.map(OsString::from).collect()) {
            Ok(Parsed::Explain(text)) => text,
            other => panic!("{arguments:?} gave {other:?}"),
        }
    }

    #[test]
    fn the_name_alone_shows_the_commands() {
        let text = explained(&[]);
        for command in ["demo", "sim", "advise", "doctor"] {
            assert!(
                text.lines()
                    .any(|line| line.trim_start().starts_with(command)),
                "{text}"
            );
        }
        assert!(!text.contains("demo-program"), "{text}");
    }

    #[test]
    fn what_stands_for_the_number_of_cores_survives_the_help() {
        for (arguments, parts) in [
            (
                &["sim", "--help"][..],
                &["{cores} or {n} in an argument", "{n} is the number"][..],
            ),
            (
                &["advise", "--help"][..],
                &["{cores} or {n} in an argument"][..],
            ),
            (
                &["sim", "assert", "--help"][..],
                &["{cores} or {n} in an argument"][..],
            ),
        ] {
            let text = explained(arguments)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            for part in parts {
                assert!(text.contains(part), "{text} lacks {part}");
            }
            assert!(!text.contains(['⦃', '⦄']), "{text}");
        }
    }
}
