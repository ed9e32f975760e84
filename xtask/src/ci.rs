//! `cargo xtask ci`: every check that a change must pass, then every test.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::counts::Counts;
use crate::report::{Counting, Report};
use crate::test::{self, LESS_WORK, LIMIT, SIMULATIONS_LIMIT, cargo};
use crate::toolchain::{self, Toolchain};
use crate::tools::Tools;
use crate::workspace::Workspace;
use crate::{layers, mutate};

const HOST: &str = "x86_64-unknown-linux-gnu";
const BARE: &str = "x86_64-unknown-none";

/// The features of the library, alone and together: each combination that a user can ask for. The first two have no `std`.
const FEATURES: [(&str, &[&str]); 4] = [
    ("none", &[]),
    ("alloc", &["--features", "alloc"]),
    ("std", &["--features", "std"]),
    ("all", &["--all-features"]),
];

/// Runs every check and every test, and mutations until so much time has passed.
pub(crate) fn run(workspace: &Workspace, tools: &Tools, time: Duration, report: &mut Report) {
    report.run(
        "formatting",
        Counting::Nothing,
        LIMIT,
        &mut cargo(
            workspace,
            &["fmt", "--all", "--check", "--", "--color", "never"],
        ),
    );
    report.call("layers", || {
        let failures = layers::check(workspace)?;
        Ok((
            Counts::default(),
            (failures > 0).then(|| format!("{failures} broken rules, listed above")),
        ))
    });
    clippy(workspace, tools, report);
    documentation(workspace, tools, report);
    features(workspace, report);
    bare_metal(workspace, report);
    oldest_rust(workspace, report);
    publish(workspace, report);
    figures(workspace, report);
    address_sanitizer(workspace, report);
    thread_sanitizer(workspace, report);
    test::run(workspace, tools, report);
    mutations(workspace, time.saturating_sub(report.elapsed()), report);
}

/// Every package with all of its features; without the libraries of the peers in C, the benchmarks and what is made of them without those.
fn all_features(tools: &Tools) -> &'static [&'static [&'static str]] {
    if tools.c_peers {
        &[&["--workspace", "--all-features"]]
    } else {
        &[
            &[
                "--workspace",
                "--exclude",
                "percolog-bench",
                "--exclude",
                "percolog-figures",
                "--exclude",
                "percolog-cli",
                "--all-features",
            ],
            &[
                "-p",
                "percolog-bench",
                "-p",
                "percolog-figures",
                "-p",
                "percolog-cli",
            ],
        ]
    }
}

fn clippy(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    for packages in all_features(tools) {
        let mut command = cargo(workspace, &["clippy", "--all-targets"]);
        command.args(*packages).args(["--", "-D", "warnings"]);
        report.run("clippy", Counting::Nothing, LIMIT, &mut command);
    }
}

fn documentation(workspace: &Workspace, tools: &Tools, report: &mut Report) {
    for packages in all_features(tools) {
        let mut command = cargo(workspace, &["doc", "--no-deps"]);
        command.args(*packages).env("RUSTDOCFLAGS", "-D warnings");
        report.run("documentation", Counting::Nothing, LIMIT, &mut command);
    }
}

/// Every figure of the catalogue, in a quick look: from a cell to the page. A cell that fails, though it could be run, fails the step.
fn figures(workspace: &Workspace, report: &mut Report) {
    let folder = workspace.target_for("figures");
    let mut command = cargo(workspace, &["run", "--release", "--", "figures", "run"]);
    command.args(["--quick", "--results"]).arg(folder);
    report.run(
        "figures, a quick look",
        Counting::One,
        SIMULATIONS_LIMIT,
        &mut command,
    );
}

/// Each promise, broken once: the tests must notice.
fn mutations(workspace: &Workspace, time: Duration, report: &mut Report) {
    const NAME: &str = "mutations";
    match mutate::read(&workspace.root) {
        Ok(mutations) if mutations.is_empty() => {
            report.skip(NAME, "xtask/mutations.toml lists none yet")
        }
        Ok(_) if time.is_zero() => report.skip(
            NAME,
            "everything else took all the time there is; `cargo xtask mutate` tries them",
        ),
        Ok(mutations) => report.call(NAME, || mutate::step(workspace, &mutations, time)),
        Err(error) => report.call(NAME, || Err(error)),
    }
}

/// Each combination of the library's features builds without a warning.
fn features(workspace: &Workspace, report: &mut Report) {
    for (name, features) in FEATURES {
        let mut command = cargo(
            workspace,
            &["clippy", "-p", "percolog", "--no-default-features"],
        );
        command.args(features).args(["--", "-D", "warnings"]);
        report.run(
            &format!("features: {name}"),
            Counting::Nothing,
            LIMIT,
            &mut command,
        );
    }
}

/// The real check of `no_std`: a target that has no `std` at all.
fn bare_metal(workspace: &Workspace, report: &mut Report) {
    for (name, features) in &FEATURES[..2] {
        let name = format!("bare metal, features: {name}");
        // The marks have neither features nor, there, anything to say; kernels that are marked must still build.
        let arguments = [
            "-p",
            "percolog",
            "-p",
            "percolog-roi",
            "--no-default-features",
            "--target",
            BARE,
        ];
        if toolchain::has_standard_library(BARE) {
            let mut command = cargo(workspace, &["build"]);
            command
                .args(arguments)
                .args(*features)
                .env("CARGO_TARGET_DIR", workspace.target_for("bare-metal"));
            report.run(&name, Counting::Nothing, LIMIT, &mut command);
        } else if let Some(toolchain) = Toolchain::find(workspace) {
            let mut command = toolchain.cargo(workspace, "build", "bare-metal", "");
            command
                .arg("-Zbuild-std=core,alloc")
                .args(arguments)
                .args(*features);
            report.run_online(&name, Counting::Nothing, LIMIT, &mut command);
        } else {
            report.skip(
                &name,
                format!("{}, or rustup target add {BARE}", toolchain::MISSING),
            );
        }
    }
}

/// The oldest Rust that the manifest promises. Where it is not installed, clippy's `incompatible_msrv` still checks which parts
/// of the standard library are used.
fn oldest_rust(workspace: &Workspace, report: &mut Report) {
    let Some(version) = workspace.rust_version("percolog") else {
        report.skip(
            "oldest Rust",
            "percolog/Cargo.toml declares no rust-version",
        );
        return;
    };
    let name = format!("oldest Rust: {version}");
    let available = Command::new("rustup")
        .args(["run", version, "rustc", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !available {
        report.skip(
            &name,
            format!(
                "this toolchain is not here: rustup toolchain install {version} --profile minimal"
            ),
        );
        return;
    }
    let mut command = Command::new("rustup");
    crate::process::clean(&mut command)
        .current_dir(&workspace.root)
        .args([
            "run",
            version,
            "cargo",
            "check",
            "--workspace",
            "--all-targets",
        ])
        .env("CARGO_TARGET_DIR", workspace.target_for("oldest-rust"));
    report.run(&name, Counting::Nothing, LIMIT, &mut command)
}

/// What would be published can be: the packages are made, and built from what is in them.
fn publish(workspace: &Workspace, report: &mut Report) {
    let mut command = cargo(workspace, &["publish", "--dry-run", "--workspace"]);
    command.env("CARGO_TARGET_DIR", workspace.target_for("publish"));
    if has_changes(workspace) {
        // What is not committed yet is packaged as it is.
        command.arg("--allow-dirty");
    }
    if let Err(error) = forget_unpacked(workspace) {
        report.call("publish, dry run", || Err(error));
        return;
    }
    report.run_online("publish, dry run", Counting::Nothing, LIMIT, &mut command)
}

/// Removes what an earlier dry run unpacked of these packages, and built.
///
/// A dry run publishes to a registry in a folder, and cargo takes the packages of a registry for what never changes: it keeps them, unpacked
/// and built, by the registry's path and their versions. A second run in the same place would use the first one's.
fn forget_unpacked(workspace: &Workspace) -> Result<()> {
    let built = workspace.target_for("publish");
    if built.exists() {
        std::fs::remove_dir_all(&built)
            .with_context(|| format!("cannot remove {}", built.display()))?;
    }
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .context("neither CARGO_HOME nor HOME says where cargo keeps its packages")?;
    let registries = home.join("registry/src");
    let Ok(registries) = std::fs::read_dir(&registries) else {
        // Nothing was unpacked yet.
        return Ok(());
    };
    for registry in registries {
        let registry = registry?;
        // Registries that lie in a folder have no host, which is what the name starts with for all others.
        if !registry.file_name().to_string_lossy().starts_with('-') {
            continue;
        }
        for package in std::fs::read_dir(registry.path())? {
            let package = package?;
            let name = package.file_name();
            let name = name.to_string_lossy();
            if workspace.unpacks_to(&name) {
                std::fs::remove_dir_all(package.path())
                    .with_context(|| format!("cannot remove {}", package.path().display()))?;
            }
        }
    }
    Ok(())
}

fn has_changes(workspace: &Workspace) -> bool {
    Command::new("git")
        .current_dir(&workspace.root)
        .args(["status", "--porcelain"])
        .output()
        .is_ok_and(|output| !output.stdout.is_empty())
}

/// Use after free, out of bounds, and memory that is never freed.
fn address_sanitizer(workspace: &Workspace, report: &mut Report) {
    const NAME: &str = "AddressSanitizer";
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        report.skip(NAME, "run on x86-64 Linux only");
        return;
    }
    let test = |arguments: &[&str]| {
        let mut command = cargo(workspace, &["test", "--no-fail-fast", "--target", HOST]);
        command
            .args(arguments)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .env(LESS_WORK.0, LESS_WORK.1)
            .env(
                "CARGO_TARGET_DIR",
                workspace.target_for("address-sanitizer"),
            );
        command
    };
    let library = test::library(workspace);
    report.run(NAME, Counting::Tests, LIMIT, &mut test(&library));
    let name = "AddressSanitizer finds a planted bug";
    report.run_finding(
        name,
        "heap-use-after-free",
        LIMIT,
        &mut test(&planted("use_after_free")),
    );
    let name = "LeakSanitizer finds a planted leak";
    report.run_finding(
        name,
        "detected memory leaks",
        LIMIT,
        &mut test(&planted("leak")),
    );
}

/// Data races. `std` is rebuilt with the same instrumentation: without it, what `std` synchronizes looks like a race.
fn thread_sanitizer(workspace: &Workspace, report: &mut Report) {
    const NAME: &str = "ThreadSanitizer";
    let Some(toolchain) = Toolchain::find(workspace) else {
        report.skip(NAME, toolchain::MISSING);
        return;
    };
    let Some(runtime) = toolchain.thread_sanitizer() else {
        report.skip(
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
    let test = |arguments: &[&str]| {
        let mut command = toolchain.cargo(workspace, "test", "thread-sanitizer", &flags);
        command
            .args(["-Zbuild-std", "--no-fail-fast", "--target", HOST])
            .args(arguments)
            .env(LESS_WORK.0, LESS_WORK.1);
        command
    };
    let library = test::library(workspace);
    report.run_online(NAME, Counting::Tests, LIMIT, &mut test(&library));
    let name = "ThreadSanitizer finds a planted race";
    report.run_finding(
        name,
        "ThreadSanitizer: data race",
        LIMIT,
        &mut test(&planted("race")),
    );
}

/// A test with a bug that the sanitizer must find: if it does not, finding nothing elsewhere means nothing.
fn planted(test: &str) -> [&str; 4] {
    [
        "--manifest-path",
        "xtask/planted/Cargo.toml",
        "--test",
        test,
    ]
}
