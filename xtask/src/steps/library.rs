//! The library's tests where something below them differs: the model checker, how slots are found, the C library, the processor,
//! no operating system at all.

use super::{Job, LIMIT, sanitizers};
use crate::report::Counting;
use crate::toolchain::{self, Toolchain};
use crate::workspace::Workspace;

/// Linux with the other C library: no rseq registration, other thread-local storage, other locks.
const MUSL: &str = "x86_64-unknown-linux-musl";
const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// Test programs that nothing about the machine below them can change: models of processors, what the compiler says, what a page
/// says, and what is simulated.
const ANYWHERE: [&str; 2] = ["anywhere", "transfers"];

/// The library's tests that are run again where the machine below them differs, or is watched. Examples in the documentation are left
/// out: a sanitizer's flags would not reach them.
pub(super) fn tests(workspace: &Workspace) -> Vec<&str> {
    let mut arguments = vec!["-p", "percolog", "--lib"];
    for test in workspace.tests("percolog") {
        if !ANYWHERE.contains(&test) {
            arguments.extend(["--test", test]);
        }
    }
    arguments
}

/// The same tests where no slot belongs to a core: without rseq, as on an old kernel, or where threads move too often.
pub(super) fn slot_for_each_thread(job: &mut Job) {
    let mut command = job.cargo(&["test", "--no-fail-fast"]);
    command
        .args(tests(job.workspace))
        .env("PERCOLOG_SLOTS", "thread");
    job.less_work(&mut command);
    job.run("a slot for each thread", Counting::Tests, command);
}

/// The library as checkers are given it: with nothing in it that they cannot follow.
pub(super) fn portable(job: &mut Job) {
    let mut command = job.cargo(&["test", "--no-fail-fast"]);
    command
        .args(tests(job.workspace))
        .env("RUSTFLAGS", "--cfg percolog_portable")
        .env("CARGO_TARGET_DIR", job.workspace.target_for("portable"));
    job.less_work(&mut command);
    job.run("portable", Counting::Tests, command);
}

/// Unit tests that Miri gets through in minutes: of the modules on which all others stand.
const UNDER_MIRI: [&str; 7] = [
    "cpu::",
    "sync::",
    "counter::word",
    "oplog::entry",
    "oplog::row",
    "reclaim::queue",
    "reclaim::records",
];

/// Undefined behaviour that no sanitizer sees: of aliasing, of provenance, of uninitialized memory.
pub(super) fn miri(job: &mut Job) {
    const NAME: &str = "Miri";
    if !toolchain::has_miri() {
        job.report.skip(
            NAME,
            "Miri is missing: rustup toolchain install nightly --profile minimal --component miri,rust-src",
        );
        return;
    }
    let mut command = toolchain::miri(job.workspace);
    command
        .args(["test", "-p", "percolog", "--lib", "--no-fail-fast", "--"])
        .args(UNDER_MIRI);
    job.report
        .run_online(NAME, Counting::Tests, LIMIT, &mut command);
    let name = "Miri finds a planted bug";
    let mut buggy = toolchain::miri(job.workspace);
    buggy
        .arg("test")
        .args(sanitizers::planted("use_after_free"));
    job.report
        .run_finding(name, "Undefined Behavior", LIMIT, &mut buggy);
}

/// What can be switched when building: operations that remember where they were queued, another line size.
pub(super) fn switched(job: &mut Job) {
    let mut command = job.cargo(&[
        "test",
        "-p",
        "percolog",
        "--no-fail-fast",
        "--lib",
        "--test",
        "logs",
    ]);
    command
        .env(
            "RUSTFLAGS",
            "--cfg percolog_origin --cfg percolog_line_size=\"64\"",
        )
        .env("CARGO_TARGET_DIR", job.workspace.target_for("switched"));
    job.less_work(&mut command);
    job.run("origins, 64-byte lines", Counting::Tests, command);
}

/// Every interleaving of the small models, within bounds that keep them to a minute or two.
pub(super) fn loom(job: &mut Job) {
    let mut command = job.cargo(&[
        "test",
        "-p",
        "percolog",
        "--release",
        "--lib",
        "--no-fail-fast",
    ]);
    command
        .env("RUSTFLAGS", "--cfg percolog_loom")
        .env("LOOM_MAX_PREEMPTIONS", "2")
        .env("LOOM_MAX_BRANCHES", "10000")
        .env("CARGO_TARGET_DIR", job.workspace.target_for("loom"));
    job.run("loom models", Counting::Tests, command)
}

/// The library on aarch64, under emulation: the other processor with a clock and a slot number of its own, read in assembly.
/// Only what takes seconds there.
pub(super) fn aarch64(job: &mut Job) {
    const NAME: &str = "aarch64, emulated";
    const EMULATOR: &str = "qemu-aarch64 -L /usr/aarch64-linux-gnu";
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        job.report.skip(NAME, "set up for x86-64 Linux only");
        return;
    }
    if !job.tools.aarch64 {
        job.report.skip(
            NAME,
            "the cross compiler or the emulator is missing: cargo xtask full --install",
        );
        return;
    }
    let Some(toolchain) = Toolchain::find(job.workspace) else {
        job.report.skip(NAME, toolchain::MISSING);
        return;
    };
    for (name, tests) in [
        (NAME, &["--lib"][..]),
        (
            "aarch64, emulated: what holds of every log",
            &[
                "--test",
                "logs",
                "--",
                "contract::",
                "poison::",
                "properties::",
            ],
        ),
    ] {
        let mut command = toolchain.cargo(job.workspace, "test", "aarch64", "");
        command
            .args(["-Zbuild-std", "-p", "percolog", "--no-fail-fast"])
            .args(["--target", AARCH64])
            .args(tests)
            .env(
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
                "aarch64-linux-gnu-gcc",
            )
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", EMULATOR)
            // For tests that start themselves again.
            .env("PERCOLOG_TEST_EMULATOR", EMULATOR);
        job.report
            .run_online(name, Counting::Tests, LIMIT, &mut command);
    }
}

/// The library on musl: with rustup's standard library for it where that is there, else with one built from source.
pub(super) fn musl(job: &mut Job) {
    const NAME: &str = "musl";
    let mut arguments = tests(job.workspace);
    arguments.extend(["--no-fail-fast", "--target", MUSL]);
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        job.report.skip(NAME, "built for x86-64 Linux only");
        return;
    }
    if toolchain::has_standard_library(MUSL) {
        let mut command = job.cargo(&["test"]);
        command
            .args(arguments)
            .env("CARGO_TARGET_DIR", job.workspace.target_for("musl"));
        job.less_work(&mut command);
        job.run(NAME, Counting::Tests, command);
        return;
    }
    if !job.tools.musl_gcc {
        job.report
            .skip(NAME, "musl-gcc is missing: cargo xtask full --install");
        return;
    }
    let Some(toolchain) = Toolchain::find(job.workspace) else {
        job.report.skip(
            NAME,
            format!("{}, or rustup target add {MUSL}", toolchain::MISSING),
        );
        return;
    };
    let unwinder = match toolchain::unwinder_for_musl(job.workspace) {
        Ok(folder) => folder,
        Err(error) => return job.report.call(NAME, || Err(error)),
    };
    // musl-gcc brings start files of its own, and only those for programs that are loaded where they were linked.
    let flags = format!(
        "-Clink-self-contained=no -Crelocation-model=static -Lnative={}",
        unwinder.display()
    );
    let mut command = toolchain.cargo(job.workspace, "test", "musl", &flags);
    command
        .arg("-Zbuild-std")
        .args(arguments)
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "musl-gcc");
    job.less_work(&mut command);
    job.report
        .run_online(NAME, Counting::Tests, LIMIT, &mut command)
}

/// The library inside a program that plays a kernel: slots, time and preemption come from `platform!`, and there is no `std`.
pub(super) fn toy_kernel(job: &mut Job) {
    const NAME: &str = "toy kernel";
    let folder = job.workspace.root.join("examples/toy-kernel");
    let mut command = job.cargo(&["run"]);
    command
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", job.workspace.target_for("toy-kernel"));
    job.run(NAME, Counting::One, command)
}

/// The instruction counts of the single-thread paths, against their budgets.
pub(super) fn instructions(job: &mut Job) {
    const NAME: &str = "instruction budgets";
    if !job.tools.valgrind {
        return job
            .report
            .skip(NAME, "valgrind is missing: cargo xtask full --install");
    }
    let command = job.cargo(&["bench", "-p", "percolog", "--bench", "instructions"]);
    job.run(NAME, Counting::One, command);
}
