//! `validation-guest NAME KEY=NUMBER…`: one of the programs that `validate` simulates. It prints one line with what it did.
//!
//! Bad input ends with exit code 2, a program that failed with exit code 1; both with one line.

use std::process::ExitCode;

use percolog_cli::failure::Failure;
use percolog_cli::output::Output;
use percolog_validation::crew::CrewError;
use percolog_validation::guest::{Guest, names};

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("validation-guest"),
    }
}

fn run(words: Vec<String>) -> Result<(), Failure> {
    let Some((name, parameters)) = words.split_first() else {
        return Err(Failure::Input(format!(
            "the name of a program is missing; there are {}",
            names().join(", ")
        )));
    };
    let (guest, shift) = Guest::parse(name, parameters.iter().map(String::as_str))
        .map_err(|error| Failure::Input(error.to_string()))?;
    let work = guest.run(shift).map_err(|error| match error {
        CrewError::Spawn(_) => Failure::Input(format!("{error}; ask for fewer")),
        CrewError::Panicked | CrewError::WrongState { .. } => {
            Failure::Work(format!("{name}: {error}"))
        }
    })?;
    Output::new(true, false).line(&work.to_string())
}
