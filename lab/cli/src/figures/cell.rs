//! `percolog figures-cell`: one cell of a figure, in a process of its own.

use percolog_figures::programs::{self, ProgramError};

use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

/// Arguments of `percolog figures-cell`.
#[derive(Debug, clap::Args)]
pub(crate) struct CellArguments {
    /// What to run.
    program: String,

    /// Its parameters, as `key=value`.
    parameters: Vec<String>,
}

/// Runs it, and prints its values as a line of JSON.
pub(crate) fn run(arguments: &CellArguments, output: &mut Output) -> Result<(), Failure> {
    let pairs = arguments.parameters.iter().map(String::as_str);
    let values = programs::run(&arguments.program, pairs).map_err(|error| match error {
        ProgramError::Failed(_) => Failure::Work(error.to_string()),
        _ => Failure::Input(error.to_string()),
    })?;
    output.data(&values)
}
