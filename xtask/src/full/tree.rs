//! What is checked, as git names it: the hash of each file or folder, of the working tree as it is.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::Step;
use crate::workspace::Workspace;

/// The working tree, with what is neither committed nor ignored.
pub(super) struct Tree {
    root: PathBuf,
    /// Its hash.
    pub(super) id: String,
    /// The commit that it is; `None` if something was changed since.
    pub(super) commit: Option<String>,
}

/// What decides how a step ends, by its path or by what it is.
pub(super) type Key = BTreeMap<String, String>;

impl Tree {
    /// The one that is checked out.
    pub(super) fn of(workspace: &Workspace) -> Result<Self> {
        let root = workspace.root.clone();
        if git(&root, &["status", "--porcelain"])?.is_empty() {
            let commit = Some(git(&root, &["rev-parse", "HEAD"])?);
            let id = git(&root, &["rev-parse", "HEAD^{tree}"])?;
            return Ok(Self { root, id, commit });
        }
        // An index of its own, so that what the user has staged stays as it is.
        let folder = workspace.target_for("full");
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let index = folder.join("index");
        let with_index = |arguments: &[&str]| {
            let mut command = command(&root, arguments);
            answer(command.env("GIT_INDEX_FILE", &index))
        };
        with_index(&["read-tree", "HEAD"])?;
        with_index(&["add", "--all"])?;
        let id = with_index(&["write-tree"])?;
        Ok(Self {
            root,
            id,
            commit: None,
        })
    }

    /// What decides how a step ends.
    pub(super) fn key(&self, step: &Step, compiler: &str) -> Result<Key> {
        let mut key = Key::from([("compiler".to_owned(), compiler.to_owned())]);
        for path in &step.paths {
            let hash = match path.as_str() {
                "." => self.id.clone(),
                path => git(
                    &self.root,
                    &[
                        "rev-parse",
                        "--verify",
                        "--quiet",
                        &format!("{}:{path}", self.id),
                    ],
                )
                .with_context(|| {
                    format!("`{}` depends on {path}, which is not there", step.name)
                })?,
            };
            key.insert(path.clone(), hash);
        }
        let beside = step.beside();
        if !beside.is_empty() {
            key.insert("mutations".to_owned(), self.hash(&beside)?);
        }
        Ok(key)
    }

    fn hash(&self, text: &str) -> Result<String> {
        let mut command = command(&self.root, &["hash-object", "--stdin"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting git")?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(text.as_bytes()).context("writing to git")?;
        }
        let output = child.wait_with_output().context("waiting for git")?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// The files that differ from those of a commit.
pub(super) fn changed(root: &Path, base: &str) -> Result<Vec<String>> {
    let committed = git(root, &["diff", "--name-only", base])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    Ok(committed
        .lines()
        .chain(new.lines())
        .map(str::to_owned)
        .collect())
}

/// The compiler's version.
pub(super) fn compiler() -> Result<String> {
    answer(Command::new("rustc").arg("--version"))
}

fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    // A checkout made by another user, as in a container, is no danger when all that is asked is what it holds.
    let trusted = format!("safe.directory={}", root.display());
    command
        .current_dir(root)
        .args(["-c", &trusted])
        .args(arguments);
    command
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    answer(&mut command(root, arguments))
}

fn answer(command: &mut Command) -> Result<String> {
    let name = crate::process::display(command);
    let output = command
        .output()
        .with_context(|| format!("running `{name}`"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("`{name}` failed: {why}");
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
