//! How a name, a folder or a file that is wrong ends the command.

use percolog_cli::failure::Failure;
use percolog_figures::catalogue::CatalogueError;
use percolog_figures::store::StoreError;

/// A name or a catalogue that is wrong.
pub(super) fn wrong_name(error: CatalogueError) -> Failure {
    match error {
        CatalogueError::NoSuchFigure { .. } => Failure::Input(error.to_string()),
        CatalogueError::Wrong { .. } => Failure::Work(error.to_string()),
    }
}

/// A folder or a file that is wrong is the user's; one that cannot be written is the machine's.
pub(super) fn wrong_store(error: StoreError) -> Failure {
    match error {
        StoreError::Unwritten { .. } => Failure::Work(error.to_string()),
        _ => Failure::Input(error.to_string()),
    }
}
