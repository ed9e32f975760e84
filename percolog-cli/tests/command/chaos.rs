//! `percolog sim --chaos`: what it refuses, and how it says what it found.

use crate::{assert_plain_and_narrow, assert_refused, folder, run, simulated, stderr, stdout};

const LIMITS: &str = "This finds interleavings, not memory-order bugs";

#[test]
fn its_options_belong_to_it() {
    let folder = folder();
    for (arguments, part) in [
        (&["--runs", "3"][..], "--chaos"),
        (&["--for-wall", "3"], "--chaos"),
        (&["--expect-status", "3"], "--chaos"),
        (&["--chaos", "--runs", "3", "--for-wall", "3"], "--for-wall"),
        (&["--chaos", "--runs", "0"], "1.."),
        (&["--chaos", "--seeds", "2"], "--seeds"),
        (&["--chaos", "--html", "x.html"], "--html"),
    ] {
        let line = [&["sim"], arguments, &["--", "true"]].concat();
        assert_refused(&run(folder.path(), &line), part);
    }
    assert_refused(
        &run(folder.path(), &["sim", "--chaos"]),
        "a program to run is missing",
    );
}

#[test]
fn a_program_that_survives_is_told_what_was_not_looked_for() {
    if !simulated() {
        return;
    }
    let folder = folder();
    let line = [
        "sim", "--chaos", "--cores", "2", "--runs", "2", "--", "true",
    ];
    let output = run(folder.path(), &line);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_plain_and_narrow(&said);
    for part in ["survived: 2 runs", "nothing was tried", LIMITS] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
}

#[test]
fn a_program_that_fails_anyway_is_told_so_with_its_last_lines() {
    if !simulated() {
        return;
    }
    let folder = folder();
    let line = [
        "sim",
        "--chaos",
        "--cores",
        "2",
        "--",
        "sh",
        "-c",
        "echo so; exit 3",
    ];
    let output = run(folder.path(), &line);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_plain_and_narrow(&said);
    for part in [
        "FAILED with no thread held back: the program ended with status 3",
        "  so\n",
        "percolog sim --cores 2 -- sh -c 'echo so; exit 3'",
        LIMITS,
    ] {
        assert!(said.contains(part), "{said} lacks {part}");
    }
}

#[test]
fn data_has_the_failure_and_the_limits() {
    if !simulated() {
        return;
    }
    let folder = folder();
    let line = ["--json", "sim", "--chaos", "--cores", "2", "--", "false"];
    let output = run(folder.path(), &line);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let data: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
    assert_eq!(data["version"], 1);
    assert_eq!(data["runs"], 0);
    assert_eq!(data["failure"]["seed"], serde_json::Value::Null);
    assert_eq!(data["failure"]["how"]["ending"], "exit");
    assert_eq!(data["failure"]["how"]["number"], 1);
    assert_eq!(data["reproduce"], "percolog sim --cores 2 -- false");
    assert!(
        data["limits"]
            .as_str()
            .is_some_and(|limits| limits.starts_with(LIMITS))
    );
}
