//! Counting tests from what `cargo test` prints.

use std::fmt;
use std::ops::AddAssign;

/// What a test that skips itself writes, straight to the standard error stream (the harness swallows `eprintln!`):
/// `SKIPPED: name: why, and what to install`.
const SKIPPED: &str = "SKIPPED: ";
/// The same of a test that belongs into another step, whatever this machine has: `ELSEWHERE: name: why, and where it runs`.
const ELSEWHERE: &str = "ELSEWHERE: ";

/// How many tests passed, failed, and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// One test that passed.
    pub(crate) const ONE_PASSED: Self = Self {
        passed: 1,
        failed: 0,
        skipped: 0,
    };
    /// One test that failed.
    pub(crate) const ONE_FAILED: Self = Self {
        passed: 0,
        failed: 1,
        skipped: 0,
    };
    /// One test that was skipped.
    pub(crate) const ONE_SKIPPED: Self = Self {
        passed: 0,
        failed: 0,
        skipped: 1,
    };

    /// Sums the `test result:` lines in `output`. A test that announced that it skipped itself counts as skipped, although the
    /// harness, which cannot know, counts it among those that passed; so do tests marked `ignore`.
    pub(crate) fn read(output: &str) -> Self {
        let mut counts = Self::default();
        for line in output.lines() {
            let Some((_, result)) = line.split_once("test result: ") else {
                continue;
            };
            counts.passed += number_before(result, " passed");
            counts.failed += number_before(result, " failed");
            counts.skipped += number_before(result, " ignored");
        }
        let announced = (skips(output).len() + marked(output, ELSEWHERE).len()) as u64;
        counts.skipped += announced;
        counts.passed = counts.passed.saturating_sub(announced);
        counts
    }
}

/// What the tests that skipped themselves said, without the mark.
pub(crate) fn skips(output: &str) -> Vec<&str> {
    marked(output, SKIPPED)
}

fn marked<'a>(output: &'a str, mark: &str) -> Vec<&'a str> {
    output
        .lines()
        .filter_map(|line| line.split_once(mark).map(|(_, why)| why.trim()))
        .collect()
}

/// The number that stands right before `label`; 0 when there is none.
fn number_before(text: &str, label: &str) -> u64 {
    let Some(end) = text.find(label) else {
        return 0;
    };
    let start = text[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |place| place + 1);
    text[start..end].parse().unwrap_or(0)
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed() {
        let output = "\
running 12 tests
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
   Doc-tests percolog
test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.70s
";
        assert_eq!(
            Counts::read(output),
            Counts {
                passed: 15,
                failed: 2,
                skipped: 1
            }
        );
    }

    #[test]
    fn a_test_that_skips_itself_is_not_counted_as_passed() {
        let output = "\
test reads_a_trace ... SKIPPED: reads_a_trace: strace is missing: apt-get install strace
ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";
        assert_eq!(
            Counts::read(output),
            Counts {
                passed: 1,
                failed: 0,
                skipped: 1
            }
        );
        assert_eq!(
            skips(output),
            ["reads_a_trace: strace is missing: apt-get install strace"]
        );
    }

    #[test]
    fn a_test_that_another_step_runs_is_not_counted_and_lacks_nothing() {
        let output = "\
test lines ... ELSEWHERE: lines: of optimized code only: cargo test --release
ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";
        let counts = Counts::read(output);
        assert_eq!((counts.passed, counts.skipped), (1, 1));
        assert!(skips(output).is_empty());
    }

    #[test]
    fn other_output_counts_for_nothing() {
        assert_eq!(
            Counts::read("Compiling percolog\n12 passed\n"),
            Counts::default()
        );
    }
}
