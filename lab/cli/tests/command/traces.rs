//! `lab replay`, `record` and `trace`.

use std::fs;

use percolog_papers::trace::{Description, Trace};
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
    let subsystems = info["subsystems"].as_array().expect("a list");
    let names: Vec<_> = subsystems
        .iter()
        .map(|amount| amount["subsystem"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["files", "memory", "names", "open-files", "events"]);
    for name in names {
        assert!(text.contains(&format!("\n{name} ")), "{text}");
    }
    let files = &subsystems[0];
    assert_eq!(files["entered"], files["left"]);
    // Nobody truncates a file, so nobody reads its map; names are read by whoever removes a file.
    assert!(files["updates_per_read"].is_null());
    let names = &subsystems[2];
    let updates = names["updates"].as_f64().expect("a number");
    let reads = names["reads"].as_f64().expect("a number");
    let ratio = names["updates_per_read"].as_f64().expect("a number");
    assert!((ratio * reads - updates).abs() < 0.001, "{names}");
    let shared: u64 = info["files_by_processes"]
        .as_object()
        .expect("a table")
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert!(shared > 0 && shared <= trace.files().len() as u64);
    let most = info["most_shared"].as_array().expect("a list");
    let processes: Vec<_> = most
        .iter()
        .map(|file| file["processes"].as_u64().expect("a number"))
        .collect();
    assert!(processes.is_sorted_by(|a, b| a >= b) && processes[0] >= 100);
    assert_eq!(info["lines_not_understood"], 0);
    let kinds = info["events_by_kind"].as_object().expect("a table");
    let total: u64 = kinds.values().filter_map(Value::as_u64).sum();
    assert_eq!(total, trace.events().len() as u64);
}

#[test]
fn what_is_built_in_is_listed_and_found_by_its_name() {
    let folder = folder();
    let text = assert_fine(&run(folder.path(), &["trace", "list"]));
    assert_plain_and_narrow(&text);
    for name in ["exim", "make", "postgresql", "apache", "memcached"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
        assert_fine(&run(folder.path(), &["trace", "info", name]));
    }
    // A file of that name is meant first.
    fs::write(folder.path().join("make"), "no trace").expect("written");
    assert_refused(&run(folder.path(), &["trace", "info", "make"]), "make: ");
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
fn escape_sequences_of_others_do_not_reach_the_terminal() {
    let folder = folder();
    let sound = Trace::bundled().expect("the built-in trace is sound");
    let order = |what: &str| format!("{what} \u{1b}]0;title\u{7}\u{1b}[2J\u{9b}1m");
    let foreign = Description {
        command: order("command"),
        package: order("package"),
        recorded: order("recorded"),
        recorder: order("recorder"),
        page_size: 4096,
        ..Description::default()
    };
    let trace = Trace::new(foreign, sound.files().to_vec(), sound.events().to_vec())
        .expect("events and files are sound");
    let bytes = trace.to_bytes().expect("it can be written");
    fs::write(folder.path().join("own.trace"), bytes).expect("written");
    let replay = ["replay", "own.trace", "--check-only", "--events", "100"];
    for arguments in [&["trace", "info", "own.trace"][..], &replay] {
        for format in [&[][..], &["--json"]] {
            let text = assert_fine(&run(folder.path(), &[arguments, format].concat()));
            let order = text.chars().find(|sign| sign.is_control() && *sign != '\n');
            assert_eq!(order, None, "{arguments:?}: {text:?}");
            assert!(text.contains("package"), "{text}");
        }
    }
    let data = assert_fine(&run(
        folder.path(),
        &["trace", "info", "own.trace", "--json"],
    ));
    let info: Value = serde_json::from_str(&data).expect("the output is JSON");
    assert_eq!(info["package"], order("package"));
    fs::write(folder.path().join(order("a file")), "no trace").expect("written");
    let refused = run(folder.path(), &["trace", "info", &order("a file")]);
    assert_refused(&refused, "\\u{1b}[2J\\u{9b}1m: ");
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
fn other_formats_are_refused_with_the_way_out() {
    let folder = folder();
    let mut bytes = built_in();
    for (version, part) in [
        (1, "format 1, this program reads format 2; record it again"),
        (
            3,
            "format 3, this program reads format 2; use a newer percolog",
        ),
    ] {
        bytes[16] = version;
        fs::write(folder.path().join("x.trace"), &bytes).expect("written");
        assert_refused(&run(folder.path(), &["trace", "info", "x.trace"]), part);
    }
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
