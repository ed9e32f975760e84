//! What the structures promise about 48 and 256 cores, and what is promised of the simulator.

use super::{Job, SIMULATIONS_LIMIT};
use crate::report::Counting;

/// How many cache lines an operation moves, of optimized code, which is what users run. Without QEMU these tests skip themselves; with
/// it, one that cannot use it fails.
pub(super) fn transfers(job: &mut Job) {
    let mut command = job.cargo(&["test", "--release", "--no-fail-fast", "--test", "transfers"]);
    command
        .args(["-p", "percolog", "-p", "percolog-metrics"])
        .env(
            "PERCOLOG_TRANSFER_CORES",
            if job.full { "48,256" } else { "48" },
        );
    job.require_simulator(&mut command);
    job.report.run(
        "transfers",
        Counting::Tests,
        SIMULATIONS_LIMIT,
        &mut command,
    );
}

/// The simulator and the command as users run them: optimized. Some tests are about nothing else.
pub(super) fn optimized(job: &mut Job) {
    let mut command = job.cargo(&["test", "--release", "--no-fail-fast"]);
    command.args(["-p", "percolog-sim", "-p", "percolog-cli"]);
    job.require_simulator(&mut command);
    job.all_the_work(&mut command);
    job.report.run(
        "simulator and command, optimized",
        Counting::Tests,
        SIMULATIONS_LIMIT,
        &mut command,
    );
}

/// The simulator beside what was published of large machines.
pub(super) fn validation(job: &mut Job) {
    const NAME: &str = "validation of the simulator";
    if !job.tools.simulator {
        return job
            .report
            .skip(NAME, "qemu-x86_64 is missing: cargo xtask full --install");
    }
    let mut command = job.cargo(&["xtask", "validate", "--quick"]);
    job.report
        .run(NAME, Counting::One, SIMULATIONS_LIMIT, &mut command);
}

/// A crate of somebody who knows the simulator from its documentation alone: its tests on simulated machines, as its owner runs them.
pub(super) fn stranger(job: &mut Job) {
    const NAME: &str = "a stranger's crate";
    let folder = job.workspace.root.join("percolog-sim/examples/stranger");
    let mut command = job.cargo(&["test"]);
    command
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", job.workspace.target_for("stranger"));
    job.require_simulator(&mut command);
    job.run(NAME, Counting::Tests, command)
}
