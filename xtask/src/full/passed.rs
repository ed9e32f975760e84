//! What has passed: kept for the next run, and stamped for who wants to see it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::tree::{Key, Tree};
use crate::counts::Counts;
use crate::report::{Row, Verdict};

/// How a step ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Done {
    name: String,
    /// "passed", "failed", or "skipped" where it, a part of it or one of its tests could not run.
    outcome: Outcome,
    tests_passed: u64,
    tests_failed: u64,
    tests_skipped: u64,
    seconds: u64,
    /// What it has checked: files and folders with the hashes that git gives them.
    checked: Key,
}

/// From the best to the worst: a step is as bad as its worst part.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Passed,
    Skipped,
    Failed,
}

impl Done {
    /// What the rows of a step say together.
    pub(super) fn of(name: &str, checked: Key, rows: &[Row]) -> Self {
        let mut counts = Counts::default();
        let mut took = Duration::ZERO;
        let mut outcome = Outcome::Passed;
        for row in rows {
            counts += row.counts;
            took += row.took;
            let of_row = match row.verdict {
                Verdict::Failed(_) => Outcome::Failed,
                Verdict::Passed if row.skips.is_empty() => Outcome::Passed,
                Verdict::Passed | Verdict::Skipped(_) => Outcome::Skipped,
            };
            outcome = outcome.max(of_row);
        }
        Self {
            name: name.to_owned(),
            outcome,
            tests_passed: counts.passed,
            tests_failed: counts.failed,
            tests_skipped: counts.skipped,
            seconds: took.as_secs(),
            checked,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            passed: self.tests_passed,
            failed: self.tests_failed,
            skipped: self.tests_skipped,
        }
    }

    /// Whether it has not failed, and has not passed either, since something that it needs is not here.
    pub(super) fn is_incomplete(&self) -> bool {
        self.outcome == Outcome::Skipped
    }

    pub(super) fn took(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// The steps that have passed, each as it was when it last did.
#[derive(Default)]
pub(super) struct Passed(Vec<Done>);

impl Passed {
    /// What earlier runs have left in a file.
    pub(super) fn read(file: &Path) -> Result<Self> {
        match fs::read(file) {
            Ok(text) => Ok(Self(
                serde_json::from_slice(&text)
                    .with_context(|| format!("reading {}", file.display()))?,
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
        }
    }

    pub(super) fn find(&self, name: &str, checked: &Key) -> Option<&Done> {
        self.0
            .iter()
            .find(|done| done.name == name && done.checked == *checked)
    }

    /// Remembers a step that has passed, and forgets one that no longer does.
    pub(super) fn add(&mut self, done: &Done) {
        self.0.retain(|earlier| earlier.name != done.name);
        if done.outcome == Outcome::Passed {
            self.0.push(done.clone());
        }
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        write(file, &self.0)
    }
}

/// What a run has checked.
#[derive(Serialize)]
pub(super) struct Stamp {
    /// The commit; missing where something was changed since.
    commit: Option<String>,
    tree: String,
    compiler: String,
    /// Which of how many shards; missing where everything was run.
    shard: Option<(usize, usize)>,
    steps: Vec<Done>,
}

impl Stamp {
    pub(super) fn new(tree: &Tree, compiler: &str, shard: Option<(usize, usize)>) -> Self {
        Self {
            commit: tree.commit.clone(),
            tree: tree.id.clone(),
            compiler: compiler.to_owned(),
            shard,
            steps: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, done: Done) {
        self.steps.push(done);
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        write(file, self)
    }
}

/// Writes a file whole: a run that is ended meanwhile leaves the one before.
fn write(file: &Path, content: &impl Serialize) -> Result<()> {
    if let Some(folder) = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    let new = file.with_extension("new");
    fs::write(&new, serde_json::to_vec_pretty(content)?)?;
    fs::rename(&new, file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(verdict: Verdict, passed: u64) -> Row {
        Row {
            name: "row".to_owned(),
            verdict,
            took: Duration::from_secs(2),
            counts: Counts {
                passed,
                ..Counts::default()
            },
            skips: Vec::new(),
        }
    }

    fn key(hash: &str) -> Key {
        Key::from([("percolog".to_owned(), hash.to_owned())])
    }

    #[test]
    fn what_has_passed_is_found_until_something_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("full/passed.json");
        let mut passed = Passed::read(&file).unwrap();
        let rows = [row(Verdict::Passed, 3), row(Verdict::Passed, 4)];
        passed.add(&Done::of("loom", key("a"), &rows));
        passed.write(&file).unwrap();

        let mut passed = Passed::read(&file).unwrap();
        let found = passed.find("loom", &key("a")).unwrap();
        assert_eq!((found.counts().passed, found.took().as_secs()), (7, 4));
        assert!(passed.find("loom", &key("b")).is_none());
        assert!(passed.find("musl", &key("a")).is_none());

        passed.add(&Done::of(
            "loom",
            key("b"),
            &[row(Verdict::Failed("broken".to_owned()), 0)],
        ));
        assert!(passed.find("loom", &key("a")).is_none());
    }

    #[test]
    fn only_what_ran_and_passed_is_kept() {
        let mut passed = Passed::default();
        for verdict in [
            Verdict::Failed("broken".to_owned()),
            Verdict::Skipped("no QEMU".to_owned()),
        ] {
            let rows = [
                row(Verdict::Passed, 3),
                row(verdict, 0),
                row(Verdict::Passed, 3),
            ];
            passed.add(&Done::of("transfers", key("a"), &rows));
            assert!(passed.find("transfers", &key("a")).is_none());
        }
    }

    #[test]
    fn a_step_is_not_kept_while_one_of_its_tests_has_skipped_itself() {
        let mut passed = Passed::default();
        let mut rows = [row(Verdict::Passed, 3), row(Verdict::Passed, 3)];
        rows[0].skips.push("a test: no strace".to_owned());
        let done = Done::of("cargo test", key("a"), &rows);
        assert!(done.is_incomplete());
        passed.add(&done);
        assert!(passed.find("cargo test", &key("a")).is_none());
        rows[0].skips.clear();
        passed.add(&Done::of("cargo test", key("a"), &rows));
        assert!(passed.find("cargo test", &key("a")).is_some());
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passed.json");
        fs::write(&file, "[").unwrap();
        assert!(Passed::read(&file).is_err());
    }
}
