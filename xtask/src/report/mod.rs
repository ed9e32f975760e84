//! Running steps one after another: each is announced, timed and remembered, and a table closes the run.

mod failure;
mod folders;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::counts::{self, Counts};
use crate::process::{self, Outcome};
pub(crate) use failure::print_failure;
use folders::{Folders, size};

/// Columns for a step's name; with them the table stays below 100.
const WIDEST: usize = 48;

/// Why a step that needs the crate registry is skipped.
const OFFLINE: &str = "the crate registry cannot be reached from here; run it again with a network";

/// What a step contributes to the count of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The tests that its output reports.
    Tests,
    /// It is one test itself: its exit status is the verdict.
    One,
    /// Nothing while it passes: formatting, lints, builds.
    Nothing,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
    pub(crate) counts: Counts,
    /// Tests inside the step that skipped themselves.
    pub(crate) skips: Vec<String>,
}

/// The steps so far.
pub(crate) struct Report {
    logs: PathBuf,
    verbose: bool,
    started: Instant,
    /// The most that the target folder has held after a step, in bytes.
    peak: u64,
    rows: Vec<Row>,
    folders: Folders,
}

impl Report {
    /// Nothing has run yet; the output of each step will lie in `logs`.
    pub(crate) fn new(logs: PathBuf, verbose: bool) -> Result<Self> {
        fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
        Ok(Self {
            logs,
            verbose,
            started: Instant::now(),
            peak: 0,
            rows: Vec::new(),
            folders: Folders::Kept,
        })
    }

    /// Removes what a step builds in a folder of its own, once no step needs it any more.
    pub(crate) fn sweeping(mut self) -> Self {
        self.folders = Folders::Swept(None);
        self
    }

    /// The folder that a command builds into, where it has one of its own.
    fn folder_of(&self, command: &Command) -> Option<PathBuf> {
        let (_, folder) = command
            .get_envs()
            .find(|(name, _)| *name == "CARGO_TARGET_DIR")?;
        let own = self.logs.parent()?;
        folder
            .map(PathBuf::from)
            .filter(|folder| folder.starts_with(own))
    }

    /// The rows after the first so many.
    pub(crate) fn rows_from(&self, from: usize) -> &[Row] {
        &self.rows[from..]
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Runs one command as a step.
    pub(crate) fn run(
        &mut self,
        name: &str,
        counting: Counting,
        limit: Duration,
        command: &mut Command,
    ) {
        self.run_judged(name, counting, limit, command, |outcome| {
            judge(outcome, limit)
        })
    }

    /// Runs one command as a step that needs the crate registry: without a network it is skipped, and says so.
    pub(crate) fn run_online(
        &mut self,
        name: &str,
        counting: Counting,
        limit: Duration,
        command: &mut Command,
    ) {
        self.run_judged(name, counting, limit, command, |outcome| {
            match judge(outcome, limit) {
                Verdict::Failed(_) if is_offline(&outcome.output) => {
                    Verdict::Skipped(OFFLINE.to_owned())
                }
                verdict => verdict,
            }
        })
    }

    /// Runs one command that must fail, and say `sign`: an instrument that has to find a bug planted for it.
    pub(crate) fn run_finding(
        &mut self,
        name: &str,
        sign: &str,
        limit: Duration,
        command: &mut Command,
    ) {
        self.run_judged(name, Counting::One, limit, command, |outcome| {
            match judge(outcome, limit) {
                Verdict::Failed(_) if outcome.output.contains(sign) => Verdict::Passed,
                Verdict::Failed(_) if is_offline(&outcome.output) => {
                    Verdict::Skipped(OFFLINE.to_owned())
                }
                Verdict::Passed => {
                    Verdict::Failed(format!("nothing was found, but `{sign}` was planted"))
                }
                verdict => verdict,
            }
        });
    }

    fn run_judged(
        &mut self,
        name: &str,
        counting: Counting,
        limit: Duration,
        command: &mut Command,
        judge: impl FnOnce(&Outcome) -> Verdict,
    ) {
        println!("── {name}\n   {}", process::display(command));
        self.folders.turn_to(self.folder_of(command));
        let log = self.logs.join(format!(
            "{}.log",
            name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
        ));
        let started = Instant::now();
        let outcome = match process::run(command, limit, Some(&log), self.verbose) {
            Ok(outcome) => outcome,
            Err(error) => return self.broken(name, started, &error),
        };
        let verdict = judge(&outcome);
        if !self.verbose && matches!(verdict, Verdict::Failed(_)) {
            print_failure(&outcome.output);
            println!("   all of its output: {}", log.display());
        }
        let skips: Vec<String> = counts::skips(&outcome.output)
            .into_iter()
            .map(str::to_owned)
            .collect();
        let tests = match (counting, &verdict) {
            (Counting::Tests, _) => Counts::read(&outcome.output),
            (Counting::One, Verdict::Passed) if skips.is_empty() => Counts::ONE_PASSED,
            (Counting::One, Verdict::Passed) => Counts::ONE_SKIPPED,
            (Counting::One | Counting::Nothing, _) => Counts::default(),
        };
        self.record(Row {
            name: name.to_owned(),
            verdict,
            took: outcome.took,
            counts: tests,
            skips,
        });
    }

    /// A step that cannot run here; `why` ends with the way out.
    pub(crate) fn skip(&mut self, name: &str, why: impl Into<String>) {
        println!("── {name}");
        self.record(Row {
            name: name.to_owned(),
            verdict: Verdict::Skipped(why.into()),
            took: Duration::ZERO,
            counts: Counts::default(),
            skips: Vec::new(),
        });
    }

    /// A step that passed in an earlier run, for the same tree: what it took and counted then.
    pub(crate) fn earlier(&mut self, name: &str, took: Duration, counts: Counts) {
        println!("── {name}\n   nothing that it depends on has changed since it passed");
        self.record(Row {
            name: name.to_owned(),
            verdict: Verdict::Passed,
            took,
            counts,
            skips: Vec::new(),
        });
    }

    /// A step that is a function of this program; it prints for itself, and returns its tests and what failed.
    pub(crate) fn call(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<(Counts, Option<String>)>,
    ) {
        println!("── {name}");
        self.folders.turn_to(None);
        let started = Instant::now();
        match step() {
            Ok((counts, failure)) => {
                let verdict = failure.map_or(Verdict::Passed, Verdict::Failed);
                let took = started.elapsed();
                self.record(Row {
                    name: name.to_owned(),
                    verdict,
                    took,
                    counts,
                    skips: Vec::new(),
                });
            }
            Err(error) => self.broken(name, started, &error),
        }
    }

    /// A step that could not be carried out; the others still can.
    fn broken(&mut self, name: &str, started: Instant, error: &anyhow::Error) {
        self.record(Row {
            name: name.to_owned(),
            verdict: Verdict::Failed(format!("{error:#}")),
            took: started.elapsed(),
            counts: Counts::default(),
            skips: Vec::new(),
        });
    }

    /// Remembers a step. Its failure, or its being skipped, counts even where no test said so.
    fn record(&mut self, mut row: Row) {
        match &row.verdict {
            Verdict::Passed if row.counts == Counts::default() => {
                println!("   passed in {}", seconds(row.took));
            }
            Verdict::Passed => println!("   passed in {}: {}", seconds(row.took), row.counts),
            Verdict::Failed(why) => {
                if row.counts.failed == 0 {
                    row.counts += Counts::ONE_FAILED;
                }
                println!("   FAILED after {}: {why}", seconds(row.took));
            }
            Verdict::Skipped(why) => {
                row.counts += Counts::ONE_SKIPPED;
                println!("   SKIPPED: {why}");
            }
        }
        for skip in &row.skips {
            println!("   SKIPPED: {skip}");
        }
        if let Some(target) = self.logs.ancestors().nth(2) {
            self.peak = self.peak.max(size(target));
        }
        self.rows.push(row);
    }

    /// Prints the table and the line that counts tests, and tells whether nothing failed.
    pub(crate) fn finish(&mut self) -> bool {
        self.folders.turn_to(None);
        println!("\n{}", self.table());
        let mut total = Counts::default();
        for row in &self.rows {
            total += row.counts;
            match &row.verdict {
                Verdict::Passed => {}
                Verdict::Failed(why) => println!("FAILED   {}: {why}", row.name),
                Verdict::Skipped(why) => println!("SKIPPED  {}: {why}", row.name),
            }
            for skip in &row.skips {
                println!("SKIPPED  {}: {skip}", row.name);
            }
        }
        if self.rows.is_empty() {
            println!("FAILED   no step has such a name");
            total += Counts::ONE_FAILED;
        }
        println!(
            "took {}; the target folder had at most {:.1} GB",
            seconds(self.started.elapsed()),
            self.peak as f64 / 1e9
        );
        println!("{total}");
        total.failed == 0
    }

    fn table(&self) -> String {
        let width = self
            .rows
            .iter()
            .map(|row| row.name.chars().count())
            .max()
            .unwrap_or(0)
            .clamp(4, WIDEST);
        let mut table = format!(
            "{:<width$}  {:<8} {:>9} {:>8} {:>8} {:>8}\n",
            "step", "outcome", "time", "passed", "failed", "skipped"
        );
        table.push_str(&"─".repeat(width + 47));
        for row in &self.rows {
            let outcome = match row.verdict {
                Verdict::Passed => "passed",
                Verdict::Failed(_) => "FAILED",
                Verdict::Skipped(_) => "SKIPPED",
            };
            let Counts {
                passed,
                failed,
                skipped,
            } = row.counts;
            table.push_str(&format!(
                "\n{:<width$.width$}  {outcome:<8} {:>9} {:>8} {:>8} {:>8}",
                row.name,
                seconds(row.took),
                blank_zero(passed),
                blank_zero(failed),
                blank_zero(skipped),
            ));
        }
        table
    }
}

fn judge(outcome: &Outcome, limit: Duration) -> Verdict {
    match outcome.status {
        Some(status) if status.success() => Verdict::Passed,
        Some(status) => Verdict::Failed(status.to_string()),
        None => Verdict::Failed(format!("still running after {}: killed", seconds(limit))),
    }
}

/// Whether cargo failed because it could not reach the registry.
fn is_offline(output: &str) -> bool {
    [
        "Could not resolve host",
        "Couldn't resolve host",
        "Could not connect to server",
        "Couldn't connect to server",
        "Failed to connect to",
        "spurious network error",
        "network failure seems to have happened",
        "attempting to make an HTTP request, but --offline was specified",
    ]
    .iter()
    .any(|sign| output.contains(sign))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn blank_zero(number: u64) -> String {
    if number == 0 {
        String::new()
    } else {
        number.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn report(folder: &tempfile::TempDir) -> Report {
        Report::new(folder.path().join("xtask/logs"), false).unwrap()
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn a_failed_step_fails_the_run_even_when_all_its_tests_passed() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report(&folder);
        report.run(
            "good",
            Counting::Tests,
            LIMIT,
            &mut shell("echo 'test result: ok. 3 passed; 0 failed; 0 ignored'"),
        );
        assert!(report.finish());
        // A sanitizer that finds something ends the process with an error after the last test has passed.
        report.run(
            "bad",
            Counting::Tests,
            LIMIT,
            &mut shell("echo 'test result: ok. 3 passed; 0 failed; 0 ignored'; exit 66"),
        );
        assert!(!report.finish());
        assert_eq!(
            report.rows[1].counts,
            Counts {
                passed: 3,
                failed: 1,
                skipped: 0
            }
        );
    }

    #[test]
    fn a_skipped_step_is_counted_and_does_not_fail_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report(&folder);
        report.skip("musl", "musl-gcc is missing");
        assert!(report.finish());
        assert_eq!(report.rows[0].counts, Counts::ONE_SKIPPED);
    }

    #[test]
    fn a_sweeping_run_keeps_what_the_next_step_still_needs_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report(&folder).sweeping();
        let place = |name| folder.path().join("xtask").join(name);
        let (shared, own) = (place("shared"), place("own"));
        let build = |target: &Path, script: &str| {
            let mut command = shell(script);
            command.env("CARGO_TARGET_DIR", target);
            command
        };
        let make = "mkdir -p \"$CARGO_TARGET_DIR\"";
        let still_there = "test -d \"$CARGO_TARGET_DIR\"";
        let main = folder.path().join("main");
        report.run("m", Counting::One, LIMIT, &mut build(&main, make));
        report.run("a", Counting::One, LIMIT, &mut build(&shared, make));
        report.run("b", Counting::One, LIMIT, &mut build(&shared, still_there));
        report.run("c", Counting::One, LIMIT, &mut build(&own, make));
        assert!(!shared.exists() && own.exists());
        assert!(report.finish());
        // What all others build into stays.
        assert!(main.exists());
        assert!(!own.exists() && place("logs/a.log").exists());
    }

    #[test]
    fn only_an_unreachable_registry_excuses_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report(&folder);
        report.run_online("offline", Counting::Nothing, LIMIT, &mut shell("echo '[6] Could not resolve hostname (Could not resolve host: index.crates.io)'; exit 101"));
        report.run_online(
            "broken",
            Counting::Nothing,
            LIMIT,
            &mut shell("echo 'error: 1 files in the working directory'; exit 101"),
        );
        assert!(matches!(report.rows[0].verdict, Verdict::Skipped(_)));
        assert!(matches!(report.rows[1].verdict, Verdict::Failed(_)));
    }

    #[test]
    fn an_instrument_must_find_what_was_planted() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report(&folder);
        report.run_finding(
            "seen",
            "data race",
            LIMIT,
            &mut shell("echo 'WARNING: data race'; exit 66"),
        );
        assert!(report.finish());
        report.run_finding("blind", "data race", LIMIT, &mut shell("exit 0"));
        report.run_finding(
            "broken",
            "data race",
            LIMIT,
            &mut shell("echo 'cannot link'; exit 101"),
        );
        report.run_finding(
            "ignored",
            "data race",
            LIMIT,
            &mut shell("echo 'WARNING: data race'; exit 0"),
        );
        for row in &report.rows[1..] {
            assert!(matches!(row.verdict, Verdict::Failed(_)), "{}", row.name);
        }
    }

    #[test]
    fn a_step_that_skips_itself_has_not_passed() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report(&folder);
        report.run(
            "one",
            Counting::One,
            LIMIT,
            &mut shell("echo 'SKIPPED: one: no valgrind'"),
        );
        assert_eq!(report.rows[0].counts, Counts::ONE_SKIPPED);
        assert_eq!(report.rows[0].skips, ["one: no valgrind"]);
    }

    #[test]
    fn a_run_of_no_step_fails() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!report(&folder).finish());
    }

    #[test]
    fn the_table_fits_100_columns() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report(&folder);
        report.skip(
            "a step whose name is rather longer than it should ever be, to be sure",
            "because",
        );
        assert!(
            report
                .table()
                .lines()
                .all(|line| line.chars().count() <= 100),
            "{}",
            report.table()
        );
    }
}
