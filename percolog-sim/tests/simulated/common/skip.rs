//! Tests of what is not here.

use percolog_sim::run::SimulationError;
use std::io::Write;

/// Says that this test is skipped, past the harness, which keeps to itself what a test that passes prints.
pub(crate) fn skip(why: &str) {
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    // Nobody may be listening.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// Whether there is a simulator. If not, this test is skipped, or fails where one is required.
#[track_caller]
pub(crate) fn is_here(simulator: Result<(), SimulationError>) -> bool {
    if let Err(missing) = &simulator {
        let required = std::env::var_os("PERCOLOG_SIM_REQUIRED").is_some_and(|set| set == "1");
        assert!(!required, "PERCOLOG_SIM_REQUIRED=1, but {missing}");
        skip(&missing.to_string());
    }
    simulator.is_ok()
}
