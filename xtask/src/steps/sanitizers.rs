//! The library's tests under AddressSanitizer and ThreadSanitizer; and bugs that each of these must find.

use super::{Job, LIMIT, library};
use crate::report::Counting;
use crate::toolchain::{self, Toolchain};

const HOST: &str = "x86_64-unknown-linux-gnu";

/// Use after free, out of bounds, and memory that is never freed.
pub(super) fn address(job: &mut Job) {
    const NAME: &str = "AddressSanitizer";
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        job.report.skip(NAME, "run on x86-64 Linux only");
        return;
    }
    let folder = job.workspace.target_for("address-sanitizer");
    let test = |job: &Job, arguments: &[&str]| {
        let mut command = job.cargo(&["test", "--no-fail-fast", "--target", HOST]);
        command
            .args(arguments)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .env("CARGO_TARGET_DIR", &folder);
        job.less_work(&mut command);
        command
    };
    let tests = test(job, &library::tests(job.workspace));
    job.run(NAME, Counting::Tests, tests);
    let name = "AddressSanitizer finds a planted bug";
    let mut buggy = test(job, &planted("use_after_free"));
    job.report
        .run_finding(name, "heap-use-after-free", LIMIT, &mut buggy);
    let name = "LeakSanitizer finds a planted leak";
    let mut buggy = test(job, &planted("leak"));
    job.report
        .run_finding(name, "detected memory leaks", LIMIT, &mut buggy);
}

/// Data races. `std` is rebuilt with the same instrumentation: without it, what `std` synchronizes looks like a race.
pub(super) fn thread(job: &mut Job) {
    const NAME: &str = "ThreadSanitizer";
    let Some(toolchain) = Toolchain::find(job.workspace) else {
        job.report.skip(NAME, toolchain::MISSING);
        return;
    };
    let Some(runtime) = toolchain.thread_sanitizer() else {
        job.report.skip(
            NAME,
            "neither this compiler nor rustup's brings librustc-stable_rt.tsan.a for x86-64 Linux",
        );
        return;
    };
    // The runtime is named by its path, so that nothing needs to be put into the compiler's own folders; before everything
    // else, as the compiler would do it, so that its versions of the C library's functions win.
    let flags = format!(
        "-Zsanitizer=thread -Zexternal-clangrt -Zpre-link-arg=-Wl,--whole-archive -Zpre-link-arg={} \
         -Zpre-link-arg=-Wl,--no-whole-archive",
        runtime.display()
    );
    let test = |job: &Job, arguments: &[&str]| {
        let mut command = toolchain.cargo(job.workspace, "test", "thread-sanitizer", &flags);
        command
            .args(["-Zbuild-std", "--no-fail-fast", "--target", HOST])
            .args(arguments);
        job.less_work(&mut command);
        command
    };
    let mut tests = test(job, &library::tests(job.workspace));
    job.report
        .run_online(NAME, Counting::Tests, LIMIT, &mut tests);
    let name = "ThreadSanitizer finds a planted race";
    let mut buggy = test(job, &planted("race"));
    job.report
        .run_finding(name, "ThreadSanitizer: data race", LIMIT, &mut buggy);
}

/// A test with a bug that the sanitizer must find: if it does not, finding nothing elsewhere means nothing.
pub(super) fn planted(test: &str) -> [&str; 4] {
    [
        "--manifest-path",
        "xtask/planted/Cargo.toml",
        "--test",
        test,
    ]
}
