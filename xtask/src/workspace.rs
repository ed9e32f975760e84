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
    manifest_path: PathBuf,
    targets: Vec<Target>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Missing where the crate itself needs it.
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

impl Workspace {
    /// Asks cargo about the workspace around the current folder.
    pub(crate) fn find() -> Result<Self> {
        Self::at(Path::new("."))
    }

    /// Asks cargo about the workspace around `folder`.
    pub(crate) fn at(folder: &Path) -> Result<Self> {
        let mut command = Command::new("cargo");
        command.current_dir(folder);
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

    /// The names of the packages.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.packages.iter().map(|package| package.name.as_str())
    }

    /// Each package with its manifest and what it depends on; and whether only its tests, examples and benchmarks do.
    pub(crate) fn dependencies(&self) -> impl Iterator<Item = (&str, &Path, Vec<(&str, bool)>)> {
        self.packages.iter().map(|package| {
            let dependencies = package.dependencies.iter().map(|dependency| {
                let for_tests = dependency.kind.as_deref() == Some("dev");
                (dependency.name.as_str(), for_tests)
            });
            (
                package.name.as_str(),
                package.manifest_path.as_path(),
                dependencies.collect(),
            )
        })
    }

    /// The folders of the files that libraries and programs begin with; of files beside each other once.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = self
            .packages
            .iter()
            .flat_map(|package| &package.targets)
            .filter(|target| {
                target
                    .kind
                    .iter()
                    .any(|kind| kind.contains("lib") || kind == "bin")
            })
            .filter_map(|target| Some(target.src_path.parent()?.to_owned()))
            .collect();
        roots.sort();
        roots.dedup();
        roots
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
