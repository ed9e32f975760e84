//! `lab replay`.

use std::fs;

use percolog_papers::trace::Trace;
use serde_json::Value;

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, folder, run, simulated};

fn data(text: &str) -> Value {
    serde_json::from_str(text).expect("the output is JSON")
}

fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let list = list.as_array().expect("a list");
    list.iter()
        .map(|item| item[key].as_str().expect("a name"))
        .collect()
}

#[test]
fn every_subsystem_of_the_built_in_trace_agrees_with_the_model() {
    let folder = folder();
    let replayed = data(&assert_fine(&run(
        folder.path(),
        &[
            "replay",
            "--check-only",
            "--threads",
            "2",
            "--events",
            "3000",
            "--truncate-every",
            "50",
            "--json",
        ],
    )));
    let checks = replayed["checks"].as_array().expect("checks");
    let mut subsystems = names(&replayed["checks"], "subsystem");
    subsystems.dedup();
    assert_eq!(
        subsystems,
        ["files", "memory", "names", "open-files", "events"]
    );
    let of_files: Vec<_> = checks
        .iter()
        .filter(|check| check["subsystem"] == "files")
        .map(|check| check["implementation"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        of_files,
        [
            "mutex",
            "rwlock",
            "percpu",
            "lockfree",
            "harris",
            "oplog",
            "oplog-absorb",
            "ldu-global",
            "ldu-percore"
        ]
    );
    for check in checks {
        // Every 50 events a read is put in.
        assert!(
            check["comparisons"].as_u64().expect("a number") > 50,
            "{check}"
        );
        assert!(
            check["entries_compared"].as_u64().expect("a number") > 0,
            "{check}"
        );
    }
    assert_eq!(replayed["subsystems"], Value::Array(Vec::new()));
    assert_eq!(replayed["source"]["truncate_every"], 50);
}

#[test]
fn the_report_says_what_would_gain_and_who_says_so() {
    let folder = folder();
    let sound = Trace::named("apache").expect("it comes with the command");
    let bytes = sound
        .expect("it is sound")
        .to_bytes()
        .expect("it can be written");
    fs::write(folder.path().join("own.trace"), bytes).expect("written");
    let arguments = [
        "replay",
        "own.trace",
        "--events",
        "2000",
        "--threads",
        "2",
        "--cell-ms",
        "1",
        "--impl",
        "oplog",
    ];
    let text = assert_fine(&run(
        folder.path(),
        &[&arguments[..], &["-o", "gain.html"]].concat(),
    ));
    assert_plain_and_narrow(&text);
    for part in [
        "What would gain",
        "reverse map of files",
        "name cache",
        "list of open files",
        "event queue",
        "measured, 2 threads",
        "updates and reads a second",
    ] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
    let page = fs::read_to_string(folder.path().join("gain.html")).expect("a page");
    assert!(page.contains("What a recorded program would gain") && page.contains("name cache"));
    assert!(!page.contains("Simulated"));
    assert_refused(
        &run(
            folder.path(),
            &[&arguments[..], &["-o", "gain.html"]].concat(),
        ),
        "--force",
    );

    let replayed = data(&assert_fine(&run(
        folder.path(),
        &[&arguments[..], &["--no-check", "--json"]].concat(),
    )));
    assert_eq!(replayed["checks"], Value::Array(Vec::new()));
    for sheet in replayed["subsystems"].as_array().expect("a list") {
        // The mutex is always there.
        assert_eq!(
            names(&sheet["section"]["series"], "name"),
            ["mutex", "oplog"]
        );
        let columns = sheet["section"]["columns"].as_array().expect("a list");
        assert_eq!(columns.len(), 2, "one thread is always shown: {sheet}");
        for gain in sheet["gains"].as_array().expect("a list") {
            assert_eq!(gain["implementation"], "oplog");
            assert!(gain["ratio"].as_f64().expect("a number") > 0.0);
        }
    }
}

#[test]
fn a_loop_of_the_papers_is_replayed() {
    let folder = folder();
    let replayed = data(&assert_fine(&run(
        folder.path(),
        &[
            "replay",
            "--loop",
            "fork-truncate",
            "--processes",
            "3",
            "--forks",
            "4",
            "--forks-per-truncate",
            "2",
            "--threads",
            "1",
            "--cell-ms",
            "1",
            "--json",
        ],
    )));
    let sheets = replayed["subsystems"].as_array().expect("a list");
    assert_eq!(sheets.len(), 1);
    // Three processes truncate twice, which is each time a longer and a shorter file.
    assert_eq!(sheets[0]["reads"], 3 * 2 * 2);
    // They fork four times: 48 mappings come and go; and go again at their own ends.
    assert_eq!(sheets[0]["updates"], 3 * (4 * 2 * 48 + 48));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder();
    for (arguments, part) in [
        (&["--impl", "mutexx"][..], "ldu-percore"),
        (&["--subsystem", "nets"][..], "open-files"),
        (&["--cores", "4"][..], "--sim"),
        (&["--sim", "pdp-11"][..], "opteron-48"),
        (&["--sim", "opteron-48", "--cores", "0"][..], "at least one"),
        (&["--sim", "opteron-48", "--check-only"][..], "--check-only"),
        (&["--loop", "fork"][..], "fork-exit"),
        (&["make", "--loop", "fork-exit"][..], "--loop"),
        (&["--forks", "3"][..], "--loop"),
        (&["--truncate-every", "0"][..], "0"),
        (&["--events", "0"][..], "0"),
        (
            &[
                "--loop",
                "fork-exit",
                "--processes",
                "512",
                "--forks",
                "10000",
            ][..],
            "--forks",
        ),
        (
            &["--loop", "fork-exit", "--subsystem", "names"][..],
            "name cache",
        ),
        (&["--force"][..], "--output"),
    ] {
        let arguments = [&["replay"][..], arguments].concat();
        assert_refused(&run(folder.path(), &arguments), part);
    }
}

#[test]
fn the_same_replay_is_simulated_and_says_so() {
    if !simulated() {
        return;
    }
    let folder = folder();
    let arguments = [
        "replay",
        "--loop",
        "fork-exit",
        "--processes",
        "4",
        "--forks",
        "8",
        "--impl",
        "oplog-absorb",
        "--no-check",
        "--threads",
        "1",
        "--cell-ms",
        "1",
        "--sim",
        "opteron-48",
        "--cores",
        "2,4",
    ];
    let replayed = data(&assert_fine(&run(
        folder.path(),
        &[&arguments[..], &["--json"]].concat(),
    )));
    let sheet = &replayed["subsystems"][0];
    let columns = sheet["section"]["columns"].as_array().expect("a list");
    let kinds: Vec<_> = columns
        .iter()
        .map(|column| column["instrument"]["kind"].as_str().expect("a kind"))
        .collect();
    assert_eq!(kinds, ["measured", "simulated", "simulated"]);
    assert_eq!(columns[2]["threads"], 4);
    let moved = sheet["moved"].as_array().expect("a list");
    assert_eq!(moved.len(), 4);
    for moved in moved {
        assert!(moved["calls_per_second"].as_f64().expect("a number") > 0.0);
        assert!(moved["transfers_per_update"].as_f64().expect("a number") > 0.0);
        assert!(moved["transfers_per_fork"].as_f64().expect("a number") > 0.0);
    }
    // Behind one lock, all cores want the same lines.
    let transfers = |row: usize| {
        moved[row]["transfers_per_update"]
            .as_f64()
            .expect("a number")
    };
    assert!(transfers(2) > 2.0 * transfers(3), "{moved:?}");

    let text = assert_fine(&run(
        folder.path(),
        &[&arguments[..], &["-o", "gain.html"]].concat(),
    ));
    assert_plain_and_narrow(&text);
    assert!(text.contains("simulated, 4 cores of opteron-48"), "{text}");
    let page = fs::read_to_string(folder.path().join("gain.html")).expect("a page");
    assert!(
        page.contains("How this was simulated")
            && page.contains("4 cores of opteron-48, simulated")
    );
}
