//! What the tests of all commands use. The test program that includes it says which one it tests: `PROGRAM`, its path.

use std::io::Write;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

use crate::PROGRAM;

/// The command in a folder of its own, with a clean environment as far as it reads it.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .current_dir(folder)
        .env_remove("PERCOLOG_CORES")
        .env_remove("PERCOLOG_SLOTS")
        .env_remove("PERCOLOG_BARRIER")
        .env_remove("NO_COLOR");
    command
}

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Runs the command to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder)
        .args(arguments)
        .output()
        .expect("the command starts")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the messages are UTF-8")
}

/// Asserts that the command refused its input: exit code 2, nothing on stdout, one line that contains `part`.
pub(crate) fn assert_refused(output: &Output, part: &str) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(stdout(output), "");
    assert_eq!(message.lines().count(), 1, "{message}");
    let name = Path::new(PROGRAM).file_stem().expect("a program's name");
    let name = name.to_str().expect("its name is ASCII");
    assert!(message.starts_with(&format!("{name}: ")), "{message}");
    assert!(message.contains(part), "{message} lacks {part}");
}

/// Asserts success and gives what was printed.
pub(crate) fn assert_fine(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// Asserts that every line fits the terminal and none has colours (stdout is no terminal here).
pub(crate) fn assert_plain_and_narrow(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }
}

/// Whether programs can be simulated here. Where they must be, a missing simulator is a failure.
pub(crate) fn simulated() -> bool {
    match percolog_sim::run::available() {
        Ok(()) => true,
        Err(error) => {
            let required = std::env::var_os("PERCOLOG_SIM_REQUIRED").is_some_and(|set| set == "1");
            assert!(!required, "{error}");
            skip(&error.to_string());
            false
        }
    }
}

/// Says that this test, or a part of it, is skipped: past the harness, which keeps to itself what a test that passes prints.
pub(crate) fn skip(why: &str) {
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    writeln!(std::io::stderr(), "SKIPPED: {test}: {why}").expect("standard error is open");
}
