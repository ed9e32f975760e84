//! `percolog sim`: lines that cost nothing, and what it makes of further runs.

use std::fs;
use std::path::{Path, PathBuf};

use percolog_sim::report::FORMAT;
use serde_json::Value;

use crate::sim::{COUNTER, RESULTS, VERSION, compiled, leave, pretended_qemu, raw, with_qemu};
use crate::{assert_fine, assert_plain_and_narrow, folder, run, simulated, stderr, stdout};

/// A QEMU that leaves one result, and another one if something is to be free. It counts its runs.
fn answering_twice(folder: &Path, again: &str, status: u8) -> PathBuf {
    fs::write(folder.join("first"), raw(8, FORMAT)).expect("the folder can be written");
    fs::write(folder.join("again"), again).expect("the folder can be written");
    let script = format!(
        "{VERSION}\n{RESULTS}\n\
         echo run >>'{folder}/runs'\necho the guest\n\
         if grep -q '^free ' \"$config\"; then {again}; exit {status}; fi\n\
         {first}",
        folder = folder.display(),
        again = leave(&folder.join("again")),
        first = leave(&folder.join("first")),
    );
    pretended_qemu(folder, &script)
}

/// The result of a run with the line free: in half of the time, with the line used by the instruction at `pc`.
fn free(pc: u64) -> String {
    let line = format!(
        r#""free":[{{"lines":1,"events":8}}],"free_lines":[{{"line":4096,"counts":{{"cold":0,"memory":0,"reads":0,"writes":8,"upgrades":0,
        "invalidations":8,"stall":0,"queued":0,"cold_stall":0}},"readers":[],"writers":[0,1],"places":[{{"pc":{pc},"write":true,"events":8,
        "stall":0}}],"elsewhere":0,"label":null}}],"maps""#
    );
    raw(8, FORMAT)
        .replace("\"maps\"", &line)
        .replace("\"elapsed\":1000", "\"elapsed\":500")
}

fn runs(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs"))
        .expect("it ran")
        .lines()
        .count()
}

#[test]
fn the_worst_line_is_tried_and_what_the_program_prints_is_shown_once() {
    let folder = folder();
    let qemu = answering_twice(folder.path(), &free(64), 0);
    let output = with_qemu(folder.path(), &qemu, &["sim", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "the guest\n");
    assert_eq!(runs(folder.path()), 2);
    let report = stderr(&output);
    assert_plain_and_narrow(&report);
    assert!(
        report.contains("what if it cost nothing: 2.0 times as fast\n"),
        "{report}"
    );
    let output = with_qemu(folder.path(), &qemu, &["sim", "--json", "--", "true"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    assert_eq!(json["lines"][0]["what_if"]["speedup"], 2.0);
    assert_eq!(json["warnings"], serde_json::json!([]));
}

/// Lines of one block are free together, in one run, and the report says which they were.
#[test]
fn contended_lines_of_an_object_are_tried_together() {
    let folder = folder();
    let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
    let mut first = parsed(&raw(8, FORMAT));
    first["lines"][0]["label"] = Value::Null;
    first["lines"][0]["block"] = serde_json::json!({"address": 4096, "size": 128});
    let mut other = first["lines"][0].clone();
    other["line"] = serde_json::json!(4160);
    first["lines"]
        .as_array_mut()
        .expect("it is a list")
        .push(other);
    let mut again = parsed(&free(64));
    again["free"] = serde_json::json!([{"lines": 1, "events": 8}, {"lines": 1, "events": 8}]);
    let qemu = answering_twice(folder.path(), &again.to_string(), 0);
    fs::write(folder.path().join("first"), first.to_string()).expect("the folder can be written");
    let output = with_qemu(
        folder.path(),
        &qemu,
        &["sim", "--html", "page.html", "--", "true"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(runs(folder.path()), 2);
    let report = stderr(&output);
    assert_plain_and_narrow(&report);
    let said =
        "what if its 2 contended lines cost nothing: 2.0 times as fast; free were 0x1000, 0x1040";
    let one_line = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(said), "{report}");
    assert_eq!(report.matches("what if").count(), 1, "{report}");
    let page = fs::read_to_string(folder.path().join("page.html")).expect("there is a page");
    for part in [
        "If its 2 contended lines cost nothing",
        "Free were <code>0x1000</code>, <code>0x1040</code>.",
        "as fast if its 2 contended lines cost nothing",
    ] {
        assert!(page.contains(part), "the page lacks {part}");
    }
    let output = with_qemu(folder.path(), &qemu, &["sim", "--json", "--", "true"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    assert_eq!(json["lines"][0]["what_if"], Value::Null);
    assert_eq!(json["lines"][0]["what_if_object"]["speedup"], 2.0);
    assert_eq!(
        json["lines"][0]["what_if_object"]["lines"],
        serde_json::json!([4096, 4160])
    );
    assert_eq!(json["lines"][1]["what_if_object"], Value::Null);
    assert_eq!(json["warnings"], serde_json::json!([]));
}

/// What is to be free is so on each of the machines.
#[test]
fn a_sweep_has_lines_free_on_every_size() {
    let folder = folder();
    let qemu = answering_twice(folder.path(), &free(64), 0);
    let typed = [
        "sim",
        "--no-what-if",
        "--free",
        "0x1000",
        "--json",
        "--sweep",
        "1,2,4",
    ];
    let output = with_qemu(
        folder.path(),
        &qemu,
        &[&typed[..], &["--", "true"]].concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(runs(folder.path()), 3);
    let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
    assert_eq!(json["free"].as_array().map(Vec::len), Some(1));
    for point in json["scaling"]["points"].as_array().expect("it is a list") {
        // Twice as fast as with nothing free.
        let plain = with_qemu(
            folder.path(),
            &qemu,
            &["sim", "--no-what-if", "--json", "--", "true"],
        );
        let plain: Value = serde_json::from_slice(&plain.stdout).expect("stdout is JSON");
        let speed = |json: &Value| json["operations_per_ms"].as_f64().expect("a number");
        assert_eq!(speed(point), 2.0 * speed(&plain), "{point}");
    }
}

#[test]
fn nothing_is_run_again_unless_it_is_wanted() {
    for (flags, expected) in [
        (&["--no-what-if"][..], 1),
        (&["--what-if", "0"][..], 1),
        (&["--what-if", "5"][..], 2),
        (&["--no-what-if", "--what-if", "1"][..], 2),
        (&["--what-if", "1", "--no-what-if"][..], 1),
    ] {
        let folder = folder();
        let qemu = answering_twice(folder.path(), &free(64), 0);
        let typed: Vec<&str> = [&["sim"], flags, &["--", "true"]].concat();
        let output = with_qemu(folder.path(), &qemu, &typed);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(runs(folder.path()), expected, "{flags:?}");
    }
}

#[test]
fn a_line_that_is_not_met_again_gets_no_figure() {
    let unlike = raw(8, FORMAT).replace("\"exit\"", "\"deadlock\"");
    for (again, status, why) in [
        (free(65), 0, "its memory lay elsewhere"),
        (raw(8, FORMAT), 0, "its memory lay elsewhere"),
        (free(64), 3, "did something else"),
        (unlike, 0, "did something else"),
        ("{".to_owned(), 0, "did something else"),
    ] {
        let folder = folder();
        let qemu = answering_twice(folder.path(), &again, status);
        let output = with_qemu(folder.path(), &qemu, &["sim", "--json", "--", "true"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let json: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON");
        assert_eq!(json["lines"][0]["what_if"], Value::Null);
        let warning = json["warnings"][0].as_str().expect("a warning");
        assert!(warning.contains(why), "{warning} lacks {why}");
    }
}

#[test]
fn a_figure_that_may_not_come_again_is_marked() {
    let folder = folder();
    let qemu = answering_twice(folder.path(), &free(64), 0);
    let first = raw(8, FORMAT).replace(
        "\"not_reproducible\":[]",
        "\"not_reproducible\":[\"it reads a socket\"]",
    );
    fs::write(folder.path().join("first"), first).expect("the folder can be written");
    let report = stderr(&with_qemu(folder.path(), &qemu, &["sim", "--", "true"]));
    assert_plain_and_narrow(&report);
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("2.0 times as fast (not reproducible)"),
        "{report}"
    );
}

#[test]
fn a_name_that_no_line_has_is_refused_with_those_that_are_like_it() {
    let folder = folder();
    let none = raw(8, FORMAT).replace(
        "\"maps\"",
        r#""free":[{"lines":0,"events":0}],"labels":[{"name":"hits","address":4096,"size":8}],"maps""#,
    );
    let qemu = answering_twice(folder.path(), &none, 0);
    let output = with_qemu(
        folder.path(),
        &qemu,
        &["sim", "--free", "hit", "--", "true"],
    );
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.contains("--free hit: ") && message.contains("there are: hits"),
        "{message}"
    );
    let output = with_qemu(
        folder.path(),
        &qemu,
        &["sim", "--free", "0xhit", "--", "true"],
    );
    crate::assert_refused(&output, "names no line");
}

#[test]
fn a_free_variable_is_met_in_all_kinds_of_programs() {
    let folder = folder();
    if !simulated() || !compiled(folder.path(), "pie", COUNTER, &["-pie", "-fPIE"]) {
        return;
    }
    compiled(folder.path(), "fixed", COUNTER, &["-no-pie"]);
    compiled(folder.path(), "static", COUNTER, &["-static"]);
    for program in ["pie", "fixed", "static"] {
        let path = format!("./{program}");
        let sim = ["sim", "--cores", "4", "--what-if", "1", "--json"];
        let free = ["--free", "the_counter"];
        let json = |flags: &[&str]| {
            let typed: Vec<&str> = [&sim[..], flags, &["--", &path]].concat();
            let output = run(folder.path(), &typed);
            serde_json::from_str::<Value>(&assert_fine(&output)).expect("stdout is JSON")
        };
        let (paid, free) = (json(&[]), json(&free));
        assert_eq!(free["free"][0]["name"], "the_counter");
        assert_eq!(free["free"][0]["lines"], 1, "{program}");
        let time = |json: &Value| json["region"]["elapsed_ns"].as_f64().expect("a number");
        assert!(time(&free) * 2.0 < time(&paid), "{program}");
        // The run that was made for the worst line is the one in which it was named.
        let what_if = &paid["lines"][0]["what_if"];
        assert_eq!(what_if["elapsed_ns"], time(&free), "{program}");
        let speedup = what_if["speedup"].as_f64().expect("a number");
        assert!(
            (speedup - time(&paid) / time(&free)).abs() < 0.001,
            "{program}: {speedup}"
        );
    }
}

/// What is found for the lines of a variable together is what freeing the variable by its name comes to.
#[test]
fn the_lines_of_a_variable_together_are_the_variable() {
    let folder = folder();
    let array = COUNTER
        .replace(
            "static long the_counter;",
            "static long the_counter[32] __attribute__((aligned(64)));",
        )
        .replace(
            "__atomic_fetch_add(&the_counter,",
            "for (int j = 0; j < 32; j += 8) __atomic_fetch_add(&the_counter[j],",
        )
        .replace("return the_counter ==", "return the_counter[0] ==");
    if !simulated() || !compiled(folder.path(), "array", &array, &[]) {
        return;
    }
    let json = |flags: &[&str]| {
        let sim = ["sim", "--cores", "4", "--json"];
        let typed: Vec<&str> = [&sim[..], flags, &["--", "./array"]].concat();
        let output = run(folder.path(), &typed);
        serde_json::from_str::<Value>(&assert_fine(&output)).expect("stdout is JSON")
    };
    let tried = json(&["--what-if", "1"]);
    let free = json(&["--no-what-if", "--free", "the_counter"]);
    assert_eq!(free["free"][0]["lines"], 4);
    let lines = tried["lines"].as_array().expect("it is a list");
    let found = &lines[0]["what_if_object"];
    assert_eq!(found["elapsed_ns"], free["region"]["elapsed_ns"], "{found}");
    let which = found["lines"].as_array().expect("it is a list");
    assert_eq!(which.len(), 4, "{found}");
    assert_eq!(
        lines
            .iter()
            .filter(|line| line["what_if_object"] != Value::Null)
            .count(),
        1
    );
}
