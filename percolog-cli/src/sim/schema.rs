//! `percolog sim schema`: what the JSON and machine files look like, for programs that read or write them.

use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

/// Arguments of `percolog sim schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The schema of a machine's file (TOML) instead
    #[arg(long)]
    machine: bool,
}

/// Prints a schema.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    output.write(if arguments.machine {
        percolog_sim::machine::SCHEMA
    } else {
        percolog_sim::report::SCHEMA
    })
}
