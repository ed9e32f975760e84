//! `percolog sim schema`: what the JSON looks like, for programs that read it.

use percolog_cli::failure::Failure;
use percolog_cli::output::Output;

/// Prints the schema.
pub(super) fn run(output: &mut Output) -> Result<(), Failure> {
    output.write(percolog_sim::report::SCHEMA)
}
