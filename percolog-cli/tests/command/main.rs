//! The command as its users meet it: one line and exit code 2 for bad input, whole files or none, text that fits.

mod chaos;
mod demo;
mod doctor;
mod refusals;
mod sim;
mod sim_report;
mod what_if;

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

/// The command in a folder of its own, with a clean environment as far as it reads it.
fn percolog(folder: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("percolog"));
    command
        .current_dir(folder)
        .env_remove("PERCOLOG_CORES")
        .env_remove("PERCOLOG_SLOTS")
        .env_remove("PERCOLOG_BARRIER")
        .env_remove("NO_COLOR");
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Runs the command to its end.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    percolog(folder)
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("the messages are UTF-8")
}

/// Asserts that the command refused its input: exit code 2, nothing on stdout, one line that contains `part`.
fn assert_refused(output: &Output, part: &str) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(stdout(output), "");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("percolog: "), "{message}");
    assert!(message.contains(part), "{message} lacks {part}");
}

/// Asserts success and gives what was printed.
fn assert_fine(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// Asserts that every line fits the terminal and none has colours (stdout is no terminal here).
fn assert_plain_and_narrow(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }
}

/// Whether programs can be simulated here. Where they must be, a missing simulator is a failure.
fn simulated() -> bool {
    match percolog_sim::run::available() {
        Ok(()) => true,
        Err(error) => {
            let required = std::env::var_os("PERCOLOG_SIM_REQUIRED").is_some_and(|set| set == "1");
            assert!(!required, "{error}");
            eprintln!("SKIPPED: {error}");
            false
        }
    }
}
