//! `cargo xtask lab` and `cargo xtask validate`: builds a program that `cargo run` does not, and runs it.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// Builds the laboratory's programs, and runs its command.
pub(crate) fn laboratory(workspace: &Workspace, arguments: &[OsString]) -> Result<bool> {
    let laboratory = Workspace::at(&workspace.root.join("lab"))?;
    run(&laboratory, &[], "lab", arguments)
}

/// Builds the programs of the simulator's validation, and runs it.
pub(crate) fn validation(workspace: &Workspace, arguments: &[OsString]) -> Result<bool> {
    run(
        workspace,
        &["-p", "percolog-validation"],
        "validate",
        arguments,
    )
}

/// Builds all programs of a workspace, or of a package, in release mode, for one may start the others; then runs one where the user is.
fn run(
    workspace: &Workspace,
    packages: &[&str],
    program: &str,
    arguments: &[OsString],
) -> Result<bool> {
    let built = process::forget(&mut Command::new("cargo"))
        .args(["build", "--release", "--bins", "--manifest-path"])
        .arg(workspace.root.join("Cargo.toml"))
        .args(packages)
        .status()
        .context("starting cargo")?;
    if !built.success() {
        bail!("`{program}` was not built");
    }
    let file = workspace.target.join("release").join(program);
    let file = file.with_extension(std::env::consts::EXE_EXTENSION);
    let status = process::forget(&mut Command::new(&file))
        .args(arguments)
        .status()
        .with_context(|| format!("starting {}", file.display()))?;
    match status.code() {
        Some(code) => std::process::exit(code),
        None => bail!("`{program}` was ended: {status}"),
    }
}
