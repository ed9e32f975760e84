//! Where traces come from: files, and what comes with the command.

use std::path::Path;

use percolog_papers::trace::Trace;

use percolog_cli::failure::Failure;

/// The trace that comes with the command.
fn built_in() -> Result<Trace, Failure> {
    // It can only fail if this very program is damaged.
    Trace::bundled().map_err(|error| Failure::Work(format!("the built-in trace: {error}")))
}

/// Reads the trace in a file, or the one of this name that is built in; without a name, the first of these.
pub(crate) fn open(path: Option<&Path>) -> Result<Trace, Failure> {
    let Some(path) = path else {
        return built_in();
    };
    // A file of that name comes first: who has one means it.
    if !path.exists()
        && let Some(trace) = path.to_str().and_then(Trace::named)
    {
        return trace.map_err(|error| Failure::Work(format!("the built-in trace: {error}")));
    }
    Trace::open(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}
