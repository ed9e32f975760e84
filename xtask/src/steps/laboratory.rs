//! The laboratory: a workspace of its own, built here into the folder of the main one, so that what both need is compiled once.

use std::process::Command;

use super::{Job, SIMULATIONS_LIMIT};
use crate::report::Counting;

fn cargo(job: &Job, verb: &str, arguments: &[&str]) -> Command {
    let mut command = job.cargo(&[verb, "--manifest-path", "lab/Cargo.toml"]);
    command
        .args(arguments)
        .env("CARGO_TARGET_DIR", &job.workspace.target);
    command
}

/// It compiles without a warning, and its unit tests pass.
pub(super) fn check(job: &mut Job) {
    let lints = ["--workspace", "--all-targets", "--", "-D", "warnings"];
    let command = cargo(job, "clippy", &lints);
    job.run("laboratory, clippy", Counting::Nothing, command);
    let command = cargo(
        job,
        "test",
        &["--workspace", "--lib", "--bins", "--no-fail-fast"],
    );
    job.run("laboratory, unit tests", Counting::Tests, command);
}

/// All of its tests, of optimized code: some simulate large machines.
pub(super) fn tests(job: &mut Job) {
    let mut command = cargo(job, "test", &["--release", "--workspace", "--no-fail-fast"]);
    job.require_simulator(&mut command);
    job.report.run(
        "laboratory, all tests",
        Counting::Tests,
        SIMULATIONS_LIMIT,
        &mut command,
    );
}

/// The reclaimers in C beside ours: the workload that checks ours is also true of them.
pub(super) fn c_peers(job: &mut Job) {
    const NAME: &str = "laboratory, peers in C";
    if !job.tools.c_peers {
        return job.report.skip(
            NAME,
            "liburcu-dev or libck-dev is missing: cargo xtask full --install",
        );
    }
    let arguments = [
        "--release",
        "--no-fail-fast",
        "-p",
        "percolog-bench",
        "--features",
        "c-peers",
        "--test",
        "reclaimers",
    ];
    let command = cargo(job, "test", &arguments);
    job.run(NAME, Counting::Tests, command);
}

/// Every figure of the catalogue in a quick look, from a cell to the page. A cell that fails, though it could be run, fails the step.
pub(super) fn figures(job: &mut Job) {
    let mut command = job.cargo(&[
        "xtask",
        "lab",
        "figures",
        "run",
        "--quick",
        "--again",
        "--results",
    ]);
    command
        .arg(job.workspace.target.join("xtask/figures"))
        .env("CARGO_TARGET_DIR", &job.workspace.target);
    job.report.run(
        "laboratory, all figures",
        Counting::One,
        SIMULATIONS_LIMIT,
        &mut command,
    );
}
