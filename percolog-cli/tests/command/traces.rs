//! `percolog replay`, `record` and `trace`.

use std::fs;
use std::io::Write;
use std::process::Command;

use percolog_papers::trace::Trace;
use serde_json::Value;

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, folder, run};

fn built_in() -> Vec<u8> {
    Trace::bundled()
        .expect("the built-in trace is sound")
        .to_bytes()
        .expect("a trace that was read can be written")
}

#[test]
fn the_built_in_trace_is_described() {
    let folder = folder();
    let text = assert_fine(&run(folder.path(), &["trace", "info"]));
    assert_plain_and_narrow(&text);
    assert!(text.contains("processes"), "{text}");
    let data = assert_fine(&run(folder.path(), &["trace", "info", "--json"]));
    let info: Value = serde_json::from_str(&data).expect("the output is JSON");
    let trace = Trace::bundled().expect("the built-in trace is sound");
    assert_eq!(info["events"], trace.events().len());
    assert_eq!(info["additions"], info["removals"]);
    let kinds = info["events_by_kind"].as_object().expect("a table");
    let total: u64 = kinds.values().filter_map(Value::as_u64).sum();
    assert_eq!(total, trace.events().len() as u64);
}

#[test]
fn the_built_in_trace_is_replayed_and_agrees_with_the_model() {
    let folder = folder();
    let data = assert_fine(&run(
        folder.path(),
        &["replay", "--check-only", "--threads", "2", "--json"],
    ));
    let replayed: Value = serde_json::from_str(&data).expect("the output is JSON");
    let checks = replayed["checks"].as_array().expect("checks");
    let structures: Vec<_> = checks.iter().map(|check| &check["structure"]).collect();
    assert_eq!(structures, ["mutex", "logged", "logged-absorbing"]);
    for check in checks {
        assert!(check["comparisons"].as_u64().expect("a number") > 1);
        assert!(check["mappings_compared"].as_u64().expect("a number") > 0);
    }
    assert!(replayed["timing"].is_null());
}

#[test]
fn a_trace_in_a_file_is_replayed_and_timed() {
    let folder = folder();
    fs::write(folder.path().join("own.trace"), built_in()).expect("written");
    let text = assert_fine(&run(
        folder.path(),
        &["replay", "own.trace", "--threads", "1", "--cell-ms", "1"],
    ));
    assert_plain_and_narrow(&text);
    assert!(text.contains("logged-absorbing on 1 thread"), "{text}");
    assert!(text.contains("events a second"), "{text}");
}

#[test]
fn damaged_traces_are_refused() {
    let folder = folder();
    let sound = built_in();
    let path = folder.path().join("bad.trace");
    let refused = |bytes: &[u8], part: &str| {
        fs::write(&path, bytes).expect("written");
        for arguments in [
            &["trace", "info", "bad.trace"][..],
            &["replay", "bad.trace"][..],
        ] {
            let output = run(folder.path(), arguments);
            assert_refused(&output, "bad.trace: ");
            assert_refused(&output, part);
        }
    };
    // Cut at the front, in the middle, and before the last byte.
    for length in [0, 3, sound.len() / 2, sound.len() - 1] {
        refused(&sound[..length], "");
    }
    // One bit anywhere.
    for place in [0, 9, 100, sound.len() / 2, sound.len() - 1] {
        let mut flipped = sound.clone();
        flipped[place] ^= 0x10;
        refused(&flipped, "");
    }
    refused(
        b"a text file that is no trace at all, of some length",
        "no percolog trace",
    );
    let mut longer = sound.clone();
    longer.push(0);
    refused(&longer, "follow the end");
}

#[test]
fn traces_that_cannot_be_read_are_refused() {
    let folder = folder();
    assert_refused(
        &run(folder.path(), &["replay", "nowhere.trace"]),
        "nowhere.trace: ",
    );
    assert_refused(&run(folder.path(), &["trace", "info", "."]), ".: ");
}

#[test]
fn recording_refuses_what_cannot_work_before_it_runs_anything() {
    let folder = folder();
    fs::write(folder.path().join("there.trace"), "mine").expect("written");
    assert_refused(
        &run(
            folder.path(),
            &["record", "-o", "there.trace", "--", "touch", "ran"],
        ),
        "--force",
    );
    assert_refused(
        &run(
            folder.path(),
            &["record", "-o", "x.trace", "--", "no-such-program-anywhere"],
        ),
        "no-such-program-anywhere",
    );
    assert!(!folder.path().join("ran").exists());
    assert!(!folder.path().join("x.trace").exists());
    assert_eq!(
        fs::read_to_string(folder.path().join("there.trace")).expect("there"),
        "mine"
    );
}

/// Needs `strace` and permission to trace: without them it says so and ends.
#[test]
fn a_recording_can_be_replayed() {
    let works = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !works {
        // Not `eprintln!`: the harness keeps what tests print to itself, and nobody would learn of it.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: a_recording_can_be_replayed: strace is not installed, or may not trace here: apt-get install strace"
        );
        return;
    }
    let folder = folder();
    let text = assert_fine(&run(
        folder.path(),
        &["record", "-o", "own.trace", "--", "sh", "-c", "true; true"],
    ));
    assert!(text.contains("own.trace"), "{text}");
    let data = assert_fine(&run(
        folder.path(),
        &["trace", "info", "own.trace", "--json"],
    ));
    let info: Value = serde_json::from_str(&data).expect("the output is JSON");
    assert!(info["events_by_kind"]["exec"].as_u64().expect("a number") >= 1);
    assert_fine(&run(
        folder.path(),
        &["replay", "own.trace", "--check-only", "--threads", "2"],
    ));
}
