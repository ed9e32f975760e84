//! `cargo xtask test`: every test there is.

use std::process::Command;
use std::time::Duration;

use crate::process;
use crate::report::{Counting, Report};
use crate::toolchain::{self, Toolchain};
use crate::tools::Tools;
use crate::workspace::Workspace;

/// No step may run longer: a deadlock must become a failure. The slowest one, all tests under ThreadSanitizer, takes half of this on two
/// cores.
pub(crate) const LIMIT: Duration = Duration::from_secs(1500);

/// The same for simulations: how long they take depends on how fast a machine switches between threads, which differs by a factor of three.
pub(crate) const SIMULATIONS_LIMIT: Duration = Duration::from_secs(2700);

/// Linux with the other C library: no rseq registration, other thread-local storage, other locks.
const MUSL: &str = "x86_64-unknown-linux-musl";
const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// The packages whose tests start programs under the simulator: they take longer, and are a step of their own.
const SIMULATED: [&str; 3] = ["percolog-sim", "percolog-bench", "percolog-metrics"];

/// Tests that nothing about the machine below them can change: models of processors, what the compiler says, and what a page says.
const ANYWHERE: [&str; 3] = ["litmus", "compile_errors", "readme"];

/// How much of their work those tests do that can do less, in percent: where everything takes several times as long, and where the same
/// was done in another way already.
pub(crate) const LESS_WORK: (&str, &str) = ("PERCOLOG_WORK", "25");

/// The library's tests that are run again where the machine below them differs, or is watched. Examples in the documentation are left
/// out: a sanitizer's flags would not reach them.
pub(crate) fn library(workspace: &Workspace) -> Vec<&str> {
    let mut arguments = vec!["-p", "percolog", "--lib"];
    for test in workspace.tests("percolog") {
        if !ANYWHERE.contains(&test) {
            arguments.extend(["--test", test]);
        }
    }
    arguments
}

/// `cargo <arguments>` in the workspace, with the compiler that the user has.
pub(crate) fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    process::clean(&mut command)
        .current_dir(&workspace.root)
        .args(arguments);
    command
}

/// Runs every test.
pub(crate) fn run(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    let mut tests = cargo(workspace, &["test", "--workspace", "--no-fail-fast"]);
    let elsewhere = SIMULATED.iter().chain(&["xtask"]);
    tests.args(elsewhere.flat_map(|package| ["--exclude", package]));
    report.run("tests", Counting::Tests, LIMIT, &mut tests);
    let mut own = cargo(workspace, &["test", "--no-fail-fast", "-p", "xtask"]);
    report.run("tests of these commands", Counting::Tests, LIMIT, &mut own);
    simulated(workspace, tools, report);
    c_peers(workspace, tools, report);
    slots(workspace, report);
    loom(workspace, report);
    musl(workspace, tools, report);
    aarch64(workspace, tools, report);
    toy_kernel(workspace, report);
    stranger(workspace, tools, report);
    instructions(workspace, tools, report)
}

/// The same tests, with the slots found in the ways that other machines would have to use.
fn slots(workspace: &Workspace, report: &mut Report) {
    let again = || {
        let mut command = cargo(workspace, &["test", "--no-fail-fast"]);
        command
            .args(library(workspace))
            .env(LESS_WORK.0, LESS_WORK.1);
        command
    };
    let mut command = again();
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    report.run("tests without rseq", Counting::Tests, LIMIT, &mut command);
    let mut command = again();
    command.env("PERCOLOG_SLOTS", "thread");
    report.run(
        "tests with a slot for each thread",
        Counting::Tests,
        LIMIT,
        &mut command,
    );
    // What can be switched when building: operations that remember where they were queued, another line size.
    let mut command = cargo(
        workspace,
        &[
            "test",
            "-p",
            "percolog",
            "--no-fail-fast",
            "--lib",
            "--test",
            "poison",
        ],
    );
    command
        .env(
            "RUSTFLAGS",
            "--cfg percolog_origin --cfg percolog_line_size=\"64\"",
        )
        .env("CARGO_TARGET_DIR", workspace.target_for("switched"));
    report.run(
        "tests with origins and 64-byte lines",
        Counting::Tests,
        LIMIT,
        &mut command,
    )
}

/// Every interleaving of the small models, within bounds that keep them to a minute or two.
fn loom(workspace: &Workspace, report: &mut Report) {
    let mut command = cargo(
        workspace,
        &[
            "test",
            "-p",
            "percolog",
            "--release",
            "--lib",
            "--no-fail-fast",
        ],
    );
    command
        .env("RUSTFLAGS", "--cfg percolog_loom")
        .env("LOOM_MAX_PREEMPTIONS", "2")
        .env("LOOM_MAX_BRANCHES", "10000")
        .env("CARGO_TARGET_DIR", workspace.target_for("loom"));
    report.run("loom models", Counting::Tests, LIMIT, &mut command)
}

/// The library on aarch64, under emulation: the other processor with a clock and a slot number of its own, read in assembly.
/// Only what takes seconds there.
fn aarch64(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    const NAME: &str = "tests on aarch64, emulated";
    const EMULATOR: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        report.skip(NAME, "set up for x86-64 Linux only");
        return;
    }
    if !tools.aarch64 {
        report.skip(
            NAME,
            "the cross compiler or the emulator is missing: cargo xtask test --install",
        );
        return;
    }
    let Some(toolchain) = Toolchain::find(workspace) else {
        report.skip(NAME, toolchain::MISSING);
        return;
    };
    let mut command = toolchain.cargo(workspace, "test", "aarch64", "");
    command
        .args(["-Zbuild-std", "-p", "percolog", "--no-fail-fast", "--lib"])
        .args([
            "--test",
            "contract",
            "--test",
            "poison",
            "--test",
            "properties",
        ])
        .args(["--target", AARCH64])
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        )
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", EMULATOR)
        // For tests that start themselves again.
        .env("PERCOLOG_TEST_EMULATOR", EMULATOR);
    report.run_online(NAME, Counting::Tests, LIMIT, &mut command)
}

/// The library on musl: with rustup's standard library for it where that is there, else with one built from source.
fn musl(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    const NAME: &str = "tests on musl";
    let mut arguments = library(workspace);
    arguments.extend(["--no-fail-fast", "--target", MUSL]);
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        report.skip(NAME, "built for x86-64 Linux only");
        return;
    }
    if toolchain::has_standard_library(MUSL) {
        let mut command = cargo(workspace, &["test"]);
        command
            .args(arguments)
            .env(LESS_WORK.0, LESS_WORK.1)
            .env("CARGO_TARGET_DIR", workspace.target_for("musl"));
        report.run(NAME, Counting::Tests, LIMIT, &mut command);
        return;
    }
    if !tools.musl_gcc {
        report.skip(NAME, "musl-gcc is missing: cargo xtask test --install");
        return;
    }
    let Some(toolchain) = Toolchain::find(workspace) else {
        report.skip(
            NAME,
            format!("{}, or rustup target add {MUSL}", toolchain::MISSING),
        );
        return;
    };
    let unwinder = match toolchain::unwinder_for_musl(workspace) {
        Ok(folder) => folder,
        Err(error) => return report.call(NAME, || Err(error)),
    };
    // musl-gcc brings start files of its own, and only those for programs that are loaded where they were linked.
    let flags = format!(
        "-Clink-self-contained=no -Crelocation-model=static -Lnative={}",
        unwinder.display()
    );
    let mut command = toolchain.cargo(workspace, "test", "musl", &flags);
    command
        .arg("-Zbuild-std")
        .args(arguments)
        .env(LESS_WORK.0, LESS_WORK.1)
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "musl-gcc");
    report.run_online(NAME, Counting::Tests, LIMIT, &mut command)
}

/// The simulator, and what the structures promise about 48 and 256 cores: of optimized code, which is what users run. Without QEMU
/// those tests skip themselves; with it, one that cannot use it fails.
fn simulated(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    let mut command = cargo(workspace, &["test", "--release", "--no-fail-fast"]);
    command.args(SIMULATED.iter().flat_map(|package| ["-p", package]));
    if tools.simulator {
        command.env("PERCOLOG_SIM_REQUIRED", "1");
    }
    report.run(
        "tests on simulated machines",
        Counting::Tests,
        SIMULATIONS_LIMIT,
        &mut command,
    );

    const VALIDATION: &str = "validation of the simulator";
    if !tools.simulator {
        report.skip(
            VALIDATION,
            "there is no qemu-x86_64; `--install` installs it",
        );
        return;
    }
    let mut command = cargo(workspace, &["run", "--release", "-p", "percolog-cli", "--"]);
    command.args(["sim", "validate", "--quick"]);
    report.run(VALIDATION, Counting::One, LIMIT, &mut command)
}

/// The reclaimers in C beside ours: the workload that checks ours is also true of them.
fn c_peers(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    const NAME: &str = "reclaimers in C";
    if !tools.c_peers {
        report.skip(
            NAME,
            "liburcu-dev or libck-dev is missing: cargo xtask test --install",
        );
        return;
    }
    let mut command = cargo(workspace, &["test", "--release", "--no-fail-fast"]);
    command.args([
        "-p",
        "percolog-bench",
        "--features",
        "c-peers",
        "--test",
        "reclaimers",
    ]);
    report.run(NAME, Counting::Tests, LIMIT, &mut command)
}

/// The library inside a program that plays a kernel: slots, time and preemption come from `platform!`, and there is no `std`.
fn toy_kernel(workspace: &Workspace, report: &mut Report) {
    const NAME: &str = "toy kernel";
    let folder = workspace.root.join("examples/toy-kernel");
    if !folder.join("Cargo.toml").exists() {
        report.skip(NAME, "there is no examples/toy-kernel in this tree");
        return;
    }
    let mut command = cargo(workspace, &["run"]);
    command
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", workspace.target_for("toy-kernel"));
    report.run(NAME, Counting::One, LIMIT, &mut command)
}

/// A crate of somebody who knows the simulator from its documentation alone: its tests on simulated machines, as its owner runs them.
fn stranger(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    const NAME: &str = "a stranger's crate";
    let folder = workspace.root.join("percolog-sim/examples/stranger");
    let mut command = cargo(workspace, &["test"]);
    command
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", workspace.target_for("stranger"));
    if tools.simulator {
        command.env("PERCOLOG_SIM_REQUIRED", "1");
    }
    report.run(NAME, Counting::Tests, LIMIT, &mut command)
}

/// The instruction counts of the single-thread paths, against their budgets.
fn instructions(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    const NAME: &str = "instruction budgets";
    if false {
        report.skip(
            NAME,
            "percolog-bench has no benchmark `instructions` in this tree",
        );
        return;
    }
    if !tools.valgrind {
        report.skip(NAME, "valgrind is missing: cargo xtask test --install");
        return;
    }
    let mut command = cargo(
        workspace,
        &["bench", "-p", "percolog-bench", "--bench", "instructions"],
    );
    report.run(NAME, Counting::One, LIMIT, &mut command)
}
