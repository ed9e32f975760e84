//! How a duel that went wrong ends the command.

use percolog_bench::runner::RunError;
use percolog_cli::failure::Failure;

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            // More threads than the system allows is the user's number, not a defect.
            RunError::Spawn { .. } => Self::Input(format!("{error}; ask for fewer with --threads")),
            RunError::WrongState { .. } | RunError::Panicked { .. } => Self::Work(format!(
                "{error}; this is a defect, please report it with the output of `percolog doctor`"
            )),
        }
    }
}
