//! Steps that only build: lints, documentation, targets, versions, packages.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Job, LIMIT};
use crate::process;
use crate::report::Counting;
use crate::toolchain::{self, Toolchain};
use crate::tools::{BARE, TARGETS};
use crate::workspace::Workspace;

/// The features of the library that change what can be used; the first two do without `std`.
const FEATURES: [(&str, &[&str]); 4] = [
    ("none", &[]),
    ("alloc", &["--features", "percolog/alloc"]),
    ("std", &["--features", "percolog/std"]),
    ("all", &["--all-features"]),
];

pub(super) fn clippy(job: &mut Job) {
    for (name, packages) in [
        ("clippy", &["--workspace", "--all-targets"][..]),
        (
            "clippy, all features of the library",
            &["-p", "percolog", "--all-targets", "--all-features"],
        ),
    ] {
        let mut command = job.cargo(&["clippy"]);
        command.args(packages).args(["--", "-D", "warnings"]);
        job.run(name, Counting::Nothing, command);
    }
}

pub(super) fn documentation(job: &mut Job) {
    let mut command = job.cargo(&["doc", "--no-deps", "--workspace", "--all-features"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    job.run("documentation", Counting::Nothing, command);
}

/// Each combination of the library's features builds without a warning.
pub(super) fn features(job: &mut Job) {
    for (name, features) in FEATURES {
        let mut command = job.cargo(&["clippy", "-p", "percolog", "--no-default-features"]);
        command.args(features).args(["--", "-D", "warnings"]);
        job.run(&format!("features: {name}"), Counting::Nothing, command);
    }
}

/// The real check of `no_std`: a target that has no `std` at all. The marks must build there, too: kernels are marked.
pub(super) fn bare_metal(job: &mut Job) {
    let from = usize::from(!job.full);
    for (name, features) in &FEATURES[from..2] {
        let mut arguments = vec![
            "-p",
            "percolog",
            "-p",
            "percolog-roi",
            "--no-default-features",
        ];
        arguments.extend(*features);
        for_target(
            job,
            &format!("bare metal, features: {name}"),
            "build",
            BARE,
            "core,alloc",
            &arguments,
        );
    }
}

/// The library on targets that it is not tested on. Checking needs no linker.
pub(super) fn other_targets(job: &mut Job) {
    for target in TARGETS {
        for_target(
            job,
            target,
            "check",
            target,
            "std,panic_abort",
            &["-p", "percolog", "--lib"],
        );
    }
}

/// Runs `cargo <verb>` for a target: with rustup's standard library where that is there, else with one built from source.
fn for_target(
    job: &mut Job,
    name: &str,
    verb: &str,
    target: &str,
    parts: &str,
    arguments: &[&str],
) {
    if toolchain::has_standard_library(target) {
        let mut command = job.cargo(&[verb, "--target", target]);
        command.args(arguments);
        job.run(name, Counting::Nothing, command);
    } else if let Some(toolchain) = Toolchain::find(job.workspace) {
        let mut command = toolchain.cargo(job.workspace, verb, "built-std", "");
        command
            .arg(format!("-Zbuild-std={parts}"))
            .args(["--target", target])
            .args(arguments);
        job.report
            .run_online(name, Counting::Nothing, LIMIT, &mut command);
    } else {
        let why = format!("{}, or rustup target add {target}", toolchain::MISSING);
        job.report.skip(name, why);
    }
}

/// The oldest Rust that the manifest promises. Where it is not installed, clippy's `incompatible_msrv` still checks which parts
/// of the standard library are used.
pub(super) fn oldest_rust(job: &mut Job) {
    const NAME: &str = "oldest Rust";
    let Some(version) = job.workspace.rust_version("percolog") else {
        return job
            .report
            .skip(NAME, "percolog/Cargo.toml declares no rust-version");
    };
    let available = Command::new("rustup")
        .args(["run", version, "rustc", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !available {
        let why = format!(
            "this toolchain is missing: rustup toolchain install {version} --profile minimal"
        );
        return job.report.skip(NAME, why);
    }
    let mut command = Command::new("rustup");
    process::clean(&mut command)
        .current_dir(&job.workspace.root)
        .args([
            "run",
            version,
            "cargo",
            "check",
            "--workspace",
            "--all-targets",
        ])
        .env("CARGO_TARGET_DIR", job.workspace.target_for("oldest-rust"));
    job.run(NAME, Counting::Nothing, command);
}

/// What would be published can be: the packages are made, and built from what is in them.
pub(super) fn publish(job: &mut Job) {
    const NAME: &str = "publishing, dry run";
    let mut command = job.cargo(&["publish", "--dry-run", "--workspace"]);
    command.env("CARGO_TARGET_DIR", job.workspace.target_for("publish"));
    if has_changes(job.workspace) {
        // What is not committed yet is packaged as it is.
        command.arg("--allow-dirty");
    }
    if let Err(error) = forget_unpacked(job.workspace) {
        return job.report.call(NAME, || Err(error));
    }
    job.report
        .run_online(NAME, Counting::Nothing, LIMIT, &mut command);
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
