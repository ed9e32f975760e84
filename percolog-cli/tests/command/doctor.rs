//! `percolog doctor`.

use serde_json::Value;

use crate::{assert_plain_and_narrow, command, folder, run, stderr, stdout};

fn diagnosis(output: &std::process::Output) -> Value {
    serde_json::from_str(&stdout(output)).expect("the output is JSON")
}

#[test]
fn the_diagnosis_names_what_it_looked_at() {
    let folder = folder();
    let output = run(folder.path(), &["doctor", "--json"]);
    let diagnosis = diagnosis(&output);
    // The machine's clock may really be sick; then the exit code must say so too.
    let healthy = diagnosis["healthy"].as_bool().expect("a verdict");
    assert_eq!(output.status.code(), Some(if healthy { 0 } else { 1 }));
    assert_eq!(
        healthy,
        diagnosis["problems"].as_array().expect("a list").is_empty()
    );
    assert!(diagnosis["slots"]["count"].as_u64().expect("a number") >= 1);
    assert!(diagnosis["slots"]["source"].is_string());
    assert!(diagnosis["clock"]["source"].is_string());
    assert!(diagnosis["clock"]["why"].is_string());
    assert!(diagnosis["barrier"]["mode"].is_string());
    assert!(diagnosis["barrier"]["why"].is_string());
    assert_eq!(
        diagnosis["clock"]["sick"].as_bool().expect("a verdict"),
        diagnosis["clock"]["violations"].as_u64() != Some(0)
    );
    for part in ["rseq", "topology", "skew", "variables", "fallbacks"] {
        assert!(!diagnosis[part].is_boolean(), "{part}");
        assert!(diagnosis.get(part).is_some(), "{part}");
    }
    #[cfg(target_os = "linux")]
    {
        let cpus = diagnosis["topology"]["allowed_cpus"]
            .as_array()
            .expect("Linux says")
            .len();
        let pairs = diagnosis["skew"]["pairs"].as_array().expect("compared");
        assert_eq!(pairs.len(), cpus * (cpus - 1) / 2);
    }
}

#[test]
fn the_text_is_plain_and_fits() {
    let folder = folder();
    let text = stdout(&run(folder.path(), &["doctor", "--no-color"]));
    assert_plain_and_narrow(&text);
    for heading in ["Slots", "Topology", "rseq", "Clock", "Barriers"] {
        assert!(text.lines().any(|line| line == heading), "{text}");
    }
}

#[test]
fn a_variable_without_effect_is_a_problem() {
    let folder = folder();
    for (name, value) in [
        ("PERCOLOG_CORES", "many"),
        ("PERCOLOG_CORES", "0"),
        ("PERCOLOG_SLOTS", "cpu"),
        ("PERCOLOG_BARRIER", "none"),
    ] {
        let output = command(folder.path())
            .args(["doctor", "--json"])
            .env(name, value)
            .output()
            .expect("the command starts");
        assert_eq!(output.status.code(), Some(1), "{name}={value}");
        assert_eq!(stderr(&output), "");
        let diagnosis = diagnosis(&output);
        assert_eq!(diagnosis["healthy"], false);
        assert_eq!(diagnosis["variables"][0]["name"], name);
        assert_eq!(diagnosis["variables"][0]["valid"], false);
        assert!(
            diagnosis["problems"]
                .as_array()
                .expect("a list")
                .iter()
                .any(|problem| problem.as_str().is_some_and(|text| text.contains(name)))
        );
    }
}

#[test]
fn a_chosen_count_is_followed() {
    let folder = folder();
    let output = command(folder.path())
        .args(["doctor", "--json"])
        .env("PERCOLOG_CORES", "7")
        .output()
        .expect("the command starts");
    let diagnosis = diagnosis(&output);
    assert_eq!(diagnosis["slots"]["count"], 7);
    assert_eq!(diagnosis["variables"][0]["valid"], true);
}

#[test]
fn slots_by_thread_are_a_fallback_and_no_problem() {
    let folder = folder();
    let output = command(folder.path())
        .args(["doctor", "--json"])
        .env("PERCOLOG_SLOTS", "thread")
        .output()
        .expect("the command starts");
    let diagnosis = diagnosis(&output);
    assert_eq!(diagnosis["slots"]["source"], "one slot a thread");
    assert_eq!(diagnosis["rseq"]["used"], false);
    assert!(
        diagnosis["fallbacks"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|fallback| fallback
                .as_str()
                .is_some_and(|text| text.contains("PERCOLOG_SLOTS")))
    );
}

#[test]
fn chosen_fences_are_a_fallback_and_no_problem() {
    let folder = folder();
    let output = command(folder.path())
        .args(["doctor", "--json"])
        .env("PERCOLOG_BARRIER", "fence")
        .output()
        .expect("the command starts");
    let diagnosis = diagnosis(&output);
    assert_eq!(diagnosis["barrier"]["mode"], "fence");
    assert_eq!(diagnosis["barrier"]["why"], "PERCOLOG_BARRIER says so");
    assert_eq!(diagnosis["variables"][0]["valid"], true);
    assert!(
        diagnosis["fallbacks"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|fallback| fallback
                .as_str()
                .is_some_and(|text| text.contains("PERCOLOG_BARRIER")))
    );
}

/// `percolog doctor | head -1`: the reader goes away, and nobody is told of a panic.
#[test]
#[cfg(unix)]
fn a_reader_that_goes_away_is_no_panic() {
    use std::process::Stdio;

    let folder = folder();
    for arguments in [&["doctor"][..], &["--help"][..], &["doctor", "--json"][..]] {
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("percolog"))
            .args(arguments)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        // Closed before anything is written: every write fails.
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the command ends");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(message, "");
        assert!(output.status.code().is_some(), "ended by a signal");
    }
}
