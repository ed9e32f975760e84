//! Builds that also compile the standard library: for a machine without an operating system, for ThreadSanitizer (which
//! reports races that are none if it cannot see into `std`), and for another C library.
//!
//! They need a compiler whose own sources lie beside it: rustup's, with the component `rust-src`, or the distribution's, with its
//! package of sources. Both are stable compilers, told by `RUSTC_BOOTSTRAP` that unstable options are fine here.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// What to do when there is no such compiler.
pub(crate) const MISSING: &str = "no compiler with the sources of the standard library: cargo xtask full --install, or rustup component add rust-src";

/// A compiler that comes with the sources of the standard library.
#[derive(Debug)]
pub(crate) struct Toolchain {
    cargo: OsString,
    /// `None`: whatever cargo finds itself.
    compilers: Option<(PathBuf, PathBuf)>,
    root: PathBuf,
}

impl Toolchain {
    /// The one to use here.
    pub(crate) fn find(workspace: &Workspace) -> Option<Self> {
        of_rustup_with_sources().or_else(|| of_the_distribution(workspace.rust_version("percolog")))
    }

    /// `cargo <verb>` with the unstable options allowed, building into a folder of its own.
    pub(crate) fn cargo(
        &self,
        workspace: &Workspace,
        verb: &str,
        target: &str,
        flags: &str,
    ) -> Command {
        let mut command = Command::new(&self.cargo);
        process::clean(&mut command)
            .current_dir(&workspace.root)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", workspace.target_for(target))
            .arg(verb);
        if !flags.is_empty() {
            command.env("RUSTFLAGS", flags);
        }
        if let Some((rustc, rustdoc)) = &self.compilers {
            command.env("RUSTC", rustc).env("RUSTDOC", rustdoc);
        }
        command
    }

    /// The runtime library of ThreadSanitizer. Distributions leave it out; rustup's compilers bring it.
    pub(crate) fn thread_sanitizer(&self) -> Option<PathBuf> {
        let candidates = [Some(self.root.clone()), sysroot(Path::new("rustc"))];
        candidates
            .into_iter()
            .flatten()
            .map(|root| {
                root.join("lib/rustlib/x86_64-unknown-linux-gnu/lib/librustc-stable_rt.tsan.a")
            })
            .find(|file| file.exists())
    }
}

/// The compiler on the search path, if it has the sources beside it.
pub(crate) fn of_rustup_with_sources() -> Option<Toolchain> {
    let root = sysroot(Path::new("rustc"))?;
    has_sources(&root).then(|| Toolchain {
        cargo: "cargo".into(),
        compilers: None,
        root,
    })
}

/// The compiler that the distribution installs beside rustup's, unless it is older than what the library needs.
fn of_the_distribution(oldest: Option<&str>) -> Option<Toolchain> {
    let (cargo, rustc, rustdoc) = (
        "/usr/bin/cargo",
        Path::new("/usr/bin/rustc"),
        Path::new("/usr/bin/rustdoc"),
    );
    let root = sysroot(rustc)?;
    let version = ask(rustc, &["--version"])?;
    let usable = Path::new(cargo).exists()
        && rustdoc.exists()
        && has_sources(&root)
        && oldest.is_none_or(|oldest| minor(&version) >= minor(oldest));
    usable.then(|| Toolchain {
        cargo: cargo.into(),
        compilers: Some((rustc.to_owned(), rustdoc.to_owned())),
        root,
    })
}

/// The 88 of "1.88" or of "rustc 1.88.0 (…)".
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

fn has_sources(root: &Path) -> bool {
    root.join("lib/rustlib/src/rust/library/std/Cargo.toml")
        .exists()
}

fn sysroot(rustc: &Path) -> Option<PathBuf> {
    ask(rustc, &["--print", "sysroot"]).map(PathBuf::from)
}

/// What a compiler says to a question; nothing if it is not there.
fn ask(rustc: &Path, question: &[&str]) -> Option<String> {
    let mut command = Command::new(rustc);
    let output = process::clean(&mut command).args(question).output().ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| answer.trim().to_owned())
}

/// Whether rustup has the standard library for `target` ready-made.
pub(crate) fn has_standard_library(target: &str) -> bool {
    sysroot(Path::new("rustc"))
        .is_some_and(|root| root.join("lib/rustlib").join(target).join("lib").exists())
}

/// `cargo miri` with the newest nightly compiler, which alone has it.
pub(crate) fn miri(workspace: &Workspace) -> Command {
    let mut command = Command::new("rustup");
    process::clean(&mut command)
        .current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", workspace.target_for("miri"))
        .args(["run", "nightly", "cargo", "miri"]);
    command
}

/// Whether it is installed.
pub(crate) fn has_miri() -> bool {
    let mut command = Command::new("rustup");
    process::clean(&mut command)
        .args(["run", "nightly", "cargo", "miri", "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Makes the library `libunwind.a` that `std` asks for on musl, out of the compiler's own unwinder and what that expects of glibc.
/// Returns the folder that it lies in.
pub(crate) fn unwinder_for_musl(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target_for("musl-unwinder");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let object = folder.join("find_object.o");
    let output = Command::new("musl-gcc")
        .args(["-O2", "-Wall", "-Werror", "-c", "-o"])
        .arg(&object)
        .arg(workspace.root.join("xtask/musl/find_object.c"))
        .output()
        .context("starting musl-gcc")?;
    if !output.status.success() {
        bail!(
            "musl-gcc failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    // A linker script in place of an archive: the linker reads the two files named here.
    let library = folder.join("libunwind.a");
    fs::write(
        &library,
        format!("INPUT(\"{}\" -lgcc_eh)\n", object.display()),
    )
    .with_context(|| format!("writing {}", library.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(minor("1.88"), Some(88));
        assert_eq!(
            minor("rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)"),
            Some(96)
        );
        assert!(minor("rustc 1.9.0") < minor("1.88"));
        assert!(minor("no version") < minor("1.88"));
    }
}
