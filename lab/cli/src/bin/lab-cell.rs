//! `lab-cell PROGRAM KEY=VALUE…`: runs one cell of a figure, and prints its values as JSON.
//!
//! Bad input ends with exit code 2, a cell that failed with exit code 1; both with one line.

use std::process::ExitCode;

use percolog_cells::ProgramError;
use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("lab-cell"),
    }
}

fn run(words: Vec<String>) -> Result<(), Failure> {
    let Some((program, parameters)) = words.split_first() else {
        return Err(Failure::Input(
            "the name of a program is missing".to_owned(),
        ));
    };
    let values =
        percolog_cells::run(program, parameters.iter().map(String::as_str)).map_err(|error| {
            match error {
                ProgramError::Failed(_) => Failure::Work(error.to_string()),
                _ => Failure::Input(error.to_string()),
            }
        })?;
    Output::new(true, true).data(&values)
}
