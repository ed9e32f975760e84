//! What was published of large machines is found by the simulator: the figures that `cargo xtask validate` prints, as tests, so that
//! mutations of the model can name one that has to fail.

use std::io::Write;
use std::process::Command;

use percolog_sim::run::available;

/// Simulates a figure, and fails if a row of it is missed for no known reason.
#[track_caller]
fn holds(figure: &str) {
    if cfg!(debug_assertions) {
        // Nobody may be listening.
        let _ = writeln!(
            std::io::stderr(),
            "ELSEWHERE: {figure}: programs that are not optimized take other times: cargo test --release -p percolog-validation"
        );
        return;
    }
    if let Err(missing) = available() {
        let required = std::env::var_os("PERCOLOG_SIM_REQUIRED").is_some_and(|set| set == "1");
        assert!(!required, "PERCOLOG_SIM_REQUIRED=1, but {missing}");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {figure}: {missing}");
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_validate"))
        .args(["--quick", "--only", figure])
        .output()
        .expect("it was built with this test");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn stores_to_one_line() {
    holds("stores");
}

#[test]
fn locks() {
    holds("locks");
}

#[test]
fn references_to_one_name() {
    holds("references");
}

#[test]
fn pushes_to_a_list() {
    holds("pushes");
}

#[test]
fn counted_requests() {
    holds("requests");
}
