//! Where the workspace lies and what is in it, as cargo tells it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::process;

/// The workspace that this command was built from.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    rust_version: Option<String>,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Workspace {
    /// Asks cargo about the workspace around the current folder.
    pub(crate) fn find() -> Result<Self> {
        let mut command = Command::new("cargo");
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let output = process::clean(&mut command)
            .output()
            .context("running `cargo metadata`")?;
        if !output.status.success() {
            bail!(
                "`cargo metadata` failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let metadata: Metadata =
            serde_json::from_slice(&output.stdout).context("reading `cargo metadata`")?;
        Ok(Self {
            root: metadata.workspace_root,
            target: metadata.target_directory,
            packages: metadata.packages,
        })
    }

    /// Whether `package` has a benchmark of this name.
    pub(crate) fn has_bench(&self, package: &str, bench: &str) -> bool {
        self.packages
            .iter()
            .filter(|found| found.name == package)
            .flat_map(|found| &found.targets)
            .any(|target| target.name == bench && target.kind.iter().any(|kind| kind == "bench"))
    }

    /// The names of the integration tests of `package`.
    pub(crate) fn tests(&self, package: &str) -> Vec<&str> {
        self.packages
            .iter()
            .filter(|found| found.name == package)
            .flat_map(|found| &found.targets)
            .filter(|target| target.kind.iter().any(|kind| kind == "test"))
            .map(|target| target.name.as_str())
            .collect()
    }

    /// Whether cargo would unpack one of the workspace's packages to a folder of this name.
    pub(crate) fn unpacks_to(&self, folder: &str) -> bool {
        self.packages
            .iter()
            .any(|package| folder == format!("{}-{}", package.name, package.version))
    }

    /// The oldest Rust that `package` promises to build with.
    pub(crate) fn rust_version(&self, package: &str) -> Option<&str> {
        self.packages
            .iter()
            .find(|found| found.name == package)?
            .rust_version
            .as_deref()
    }

    /// A target folder of its own, for builds whose flags would otherwise throw away everything built before.
    pub(crate) fn target_for(&self, what: &str) -> PathBuf {
        self.target.join("xtask").join(what)
    }
}

/// The name of the commit that is checked out; empty where there is none.
pub(crate) fn commit(root: &Path) -> String {
    Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["rev-parse", "HEAD"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

/// The files of a working tree: what git tracks, and what it neither tracks nor ignores; paths relative to `root`.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    // A checkout made by another user, as in a container, is no danger when all that is asked is what it holds.
    let trusted = format!("safe.directory={}", root.display());
    let output = Command::new("git")
        .current_dir(root)
        .args(["-c", &trusted])
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .context("running `git ls-files`")?;
    if !output.status.success() {
        bail!(
            "`git ls-files` failed in {}: {}",
            root.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    // A file that was removed, but not yet from git's index, is no longer part of the tree.
    let mut files: Vec<PathBuf> = text
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|path| root.join(path).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
