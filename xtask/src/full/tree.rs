//! What is checked, as git names it: the hash of each file or folder, of the working tree as it is.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
            .stderr(Stdio::piped())
            .spawn()
            .context("starting git")?;
        let written = match child.stdin.take() {
            Some(mut input) => input.write_all(text.as_bytes()),
            None => Ok(()),
        };
        // That it no longer reads is not why it failed.
        let hash = read(&child.wait_with_output().context("waiting for git")?)
            .context("`git hash-object` failed")?;
        written.context("writing to git")?;
        Ok(hash)
    }
}

/// The files that differ from those of a commit; of one that was renamed both names.
pub(super) fn changed(root: &Path, base: &str) -> Result<Vec<String>> {
    let committed = git(root, &["diff", "-z", "--name-only", "--no-renames", base])?;
    let new = git(root, &["ls-files", "-z", "--others", "--exclude-standard"])?;
    Ok(committed
        .split('\0')
        .chain(new.split('\0'))
        .filter(|path| !path.is_empty())
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
    read(&output).with_context(|| format!("`{name}` failed"))
}

/// What a command has printed, if it has not failed.
fn read(output: &Output) -> Result<String> {
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(str::from_utf8(&output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with one file in it, committed.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let lines: String = (0..50).map(|line| format!("line {line}\n")).collect();
        std::fs::write(folder.path().join("old"), lines).unwrap();
        git(folder.path(), &["init", "--quiet"]).unwrap();
        commit(folder.path());
        folder
    }

    fn commit(root: &Path) {
        git(root, &["add", "--all"]).unwrap();
        let author = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let commit = ["commit", "--quiet", "--message", "a"];
        git(root, &[&author[..], &commit].concat()).unwrap();
    }

    #[test]
    fn a_renamed_file_has_changed_under_both_names() {
        let folder = repository();
        let root = folder.path();
        let base = git(root, &["rev-parse", "HEAD"]).unwrap();
        std::fs::rename(root.join("old"), root.join("néw")).unwrap();
        commit(root);
        std::fs::write(root.join("untracked"), "").unwrap();
        assert_eq!(changed(root, &base).unwrap(), ["néw", "old", "untracked"]);
    }

    #[test]
    fn what_git_cannot_hash_is_an_error() {
        let folder = repository();
        let tree = |root: &Path| Tree {
            root: root.to_owned(),
            id: String::new(),
            commit: None,
        };
        assert_eq!(tree(folder.path()).hash("text").unwrap().len(), 40);
        std::fs::write(folder.path().join(".git/config"), "[damaged\n").unwrap();
        let error = tree(folder.path()).hash("text").unwrap_err();
        assert!(format!("{error:#}").contains("hash-object"), "{error:#}");
    }
}
