//! `percolog sim guest`: the programs that `percolog sim validate` simulates. They are inside the command, so that it needs no other
//! file.

use percolog_validation::crew::CrewError;
use percolog_validation::guest::{Guest, names};

use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

/// Arguments of `percolog sim guest`.
#[derive(Debug, clap::Args)]
pub(crate) struct GuestArguments {
    /// Which program
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(names()))]
    pub(crate) name: String,

    /// Its parameters: `threads`, `warm_up` and `cycles`, and its own
    #[arg(value_name = "KEY=NUMBER")]
    pub(crate) parameters: Vec<String>,
}

/// Runs the program and prints one line with what it did.
pub(crate) fn run(arguments: &GuestArguments, output: &mut Output) -> Result<(), Failure> {
    let parameters = arguments.parameters.iter().map(String::as_str);
    let (guest, shift) = Guest::parse(&arguments.name, parameters)
        .map_err(|error| Failure::Input(error.to_string()))?;
    let work = guest.run(shift).map_err(|error| match error {
        CrewError::Spawn(_) => Failure::Input(format!("{error}; ask for fewer")),
        CrewError::Panicked | CrewError::WrongState { .. } => {
            Failure::Work(format!("{}: {error}", arguments.name))
        }
    })?;
    output.line(&work.to_string())
}
