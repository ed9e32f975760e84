//! `percolog sim`: how a program would run on a machine that is not here.

mod assert;
mod chaos;
mod diff;
pub(crate) mod how;
mod machines;
pub(crate) mod page;
mod part;
pub(crate) mod run;
mod schema;
pub(crate) mod sizes;
mod sweep;
mod what_if;

use clap::Subcommand;
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

/// Arguments of `percolog sim`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "percolog sim [OPTIONS] -- COMMAND…\n       percolog sim <SUBCOMMAND>",
    after_help = "The program's output goes where it always goes, the report to stderr; with --json the report goes to \
                  stdout, and the program's output to stderr.\n\
                  The status is that of the program (128 + N if signal N killed it), 1 for a deadlock or when time is up, \
                  2 for wrong arguments, 3 if nothing was simulated that figures could be about."
)]
pub(crate) struct Sim {
    /// What to do other than to run a program.
    #[command(subcommand)]
    pub(crate) command: Option<SimCommand>,

    /// How and what to run.
    #[command(flatten)]
    pub(crate) run: run::Arguments,
}

/// What `percolog sim` can do besides.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// List the machines that come with percolog, or print the file of one
    Machines(machines::Arguments),
    /// Run a program that marks a region; exit with 1 if its operations move more lines than allowed
    Assert(assert::Arguments),
    /// Say what has changed between two reports that --json made
    Diff(diff::Arguments),
    /// Print the JSON Schema of the reports that --json makes, or of a machine's file
    Schema(schema::Arguments),
}

/// Runs `percolog sim`.
pub(crate) fn run(sim: &Sim, output: &mut Output) -> Result<(), Failure> {
    match &sim.command {
        None => run::run(&sim.run, output),
        Some(SimCommand::Machines(machines)) => machines::run(machines, output),
        Some(SimCommand::Assert(assert)) => assert::run(assert, output),
        Some(SimCommand::Diff(diff)) => diff::run(diff, output),
        Some(SimCommand::Schema(schema)) => schema::run(schema, output),
    }
}
