//! `percolog demo`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{
    assert_fine, assert_plain_and_narrow, assert_refused, command, folder, run, simulated, stderr,
    stdout,
};

/// The demonstration where nothing can be simulated: the stored run, and one short measurement.
fn without_qemu(folder: &Path, more: &[&str]) -> std::process::Output {
    command(folder)
        .env("PERCOLOG_QEMU", "/no/such/qemu")
        .args(["demo", "--quick", "--threads", "1,2"])
        .args(more)
        .output()
        .expect("the command starts")
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn without_qemu_a_stored_run_is_shown_and_marked() {
    let folder = folder();
    let text = assert_fine(&without_qemu(folder.path(), &[]));
    assert_plain_and_narrow(&text);
    for part in [
        "STORED RUN",
        "/no/such/qemu",
        "qemu-user",
        "FIND",
        "epyc-128",
        "percolog-cli/src/demo/program/before.rs:",
        "percolog::refcount::CoreArc",
        "- use std::sync::Arc;",
        "+ use percolog::refcount::CoreArc as Arc;",
        "PROVED",
        "MEASURED",
        "CPU before",
        "report.html",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(files(folder.path()), ["report.html"]);
    let page = fs::read_to_string(folder.path().join("report.html")).expect("a report");
    assert!(page.ends_with("</html>\n"));
    for part in ["A stored run.", "<svg", "prefers-color-scheme: dark"] {
        assert!(page.contains(part), "the page lacks {part}");
    }
    for outside in [
        "NaN", "inf", "http:", "https:", "<script", "src=", "url(", "@import", "<link",
    ] {
        assert!(!page.contains(outside), "the page contains {outside}");
    }
}

#[test]
fn the_data_has_both_parts() {
    let folder = folder();
    let text = assert_fine(&without_qemu(
        folder.path(),
        &["--json", "--output", "a.html"],
    ));
    let report: Value = serde_json::from_str(&text).expect("the output is JSON");
    let file = report["file"].as_str().expect("a path");
    assert!(Path::new(file).is_absolute() && file.ends_with("a.html"));
    assert!(
        report["stored_because"]
            .as_str()
            .is_some_and(|why| why.contains("/no/such/qemu"))
    );
    for figure in ["foretold", "real"] {
        assert!(report[figure].as_f64().expect("a number") > 1.0);
    }
    assert_eq!(report["fix"].as_array().map(Vec::len), Some(2));
    let rows = report["measured"]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    for (row, threads) in rows.iter().zip([1, 2]) {
        assert_eq!(row["threads"], threads);
        for version in ["before", "after"] {
            assert!(row[version]["per_ms"].as_f64().expect("a number") > 0.0);
        }
    }
}

#[test]
fn an_output_that_exists_is_refused_before_anything_is_measured() {
    let folder = folder();
    let output = folder.path().join("mine.html");
    fs::write(&output, "mine").expect("written");
    // Nothing on stdout: what is known stands there before the first measurement.
    assert_refused(
        &run(folder.path(), &["demo", "--output", "mine.html"]),
        "--force",
    );
    assert_eq!(fs::read_to_string(&output).expect("there"), "mine");
    assert_fine(&without_qemu(
        folder.path(),
        &["--output", "mine.html", "--force"],
    ));
    let page = fs::read_to_string(&output).expect("there");
    assert!(page.starts_with("<!DOCTYPE html>"));
    // Now it is a report, but the user named it: still refused.
    assert_refused(
        &run(folder.path(), &["demo", "--output", "mine.html"]),
        "--force",
    );
    assert_eq!(files(folder.path()), ["mine.html"]);
}

#[test]
fn an_earlier_report_is_made_anew_and_another_file_is_not() {
    let folder = folder();
    let report = folder.path().join("report.html");
    assert_fine(&without_qemu(folder.path(), &[]));
    assert_fine(&without_qemu(folder.path(), &[]));
    fs::write(&report, "<html>mine</html>").expect("written");
    assert_refused(&run(folder.path(), &["demo"]), "report.html exists");
    assert_eq!(
        fs::read_to_string(&report).expect("there"),
        "<html>mine</html>"
    );
}

#[test]
fn places_that_cannot_be_written_are_refused() {
    let folder = folder();
    assert_refused(&run(folder.path(), &["demo", "-o", "."]), "is a folder");
    assert_refused(
        &run(folder.path(), &["demo", "-o", "no/such/report.html"]),
        "cannot write no/such/report.html",
    );
    #[cfg(target_os = "linux")]
    assert_refused(
        &run(folder.path(), &["demo", "-o", "/dev/null", "--force"]),
        "no ordinary file",
    );
    assert_eq!(files(folder.path()), [""; 0]);
}

#[test]
fn the_program_runs_by_itself() {
    let folder = folder();
    for version in ["before", "after"] {
        let typed = ["demo-program", version, "--threads", "3", "--requests", "5"];
        let text = assert_fine(&run(folder.path(), &typed));
        assert_eq!(text, "3 threads answered 15 requests\n");
    }
}

/// Whether the slow tests are wanted, too. They are about an optimized program: that is what is simulated, and what was stored.
fn full() -> bool {
    !cfg!(debug_assertions) && std::env::var_os("PERCOLOG_TESTS").is_some_and(|set| set == "full")
}

#[test]
fn the_simulator_names_the_line_and_keeps_its_word() {
    if !full() || !simulated() {
        return;
    }
    let folder = folder();
    let output = run(
        folder.path(),
        &["demo", "--quick", "--threads", "1", "--json"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).expect("the output is JSON");
    assert_eq!(report["stored_because"], Value::Null);
    let found = &report["simulated"]["found"];
    let file = found["place"]["file"].as_str().expect("a file");
    assert_eq!(file, "percolog-cli/src/demo/program/before.rs");
    assert_eq!(found["fits"], "percolog::refcount::CoreArc");
    let (foretold, real) = (&report["foretold"], &report["real"]);
    let kept = real.as_f64().expect("a number") / foretold.as_f64().expect("a number");
    assert!((0.7..1.4).contains(&kept), "{foretold} and {real}");
}

#[test]
fn the_stored_run_is_what_the_simulator_says() {
    if !full() || !simulated() {
        return;
    }
    let folder = folder();
    assert_fine(&run(folder.path(), &["demo", "--store", "now.json"]));
    let read = |text: &str| -> Value { serde_json::from_str(text).expect("a stored run") };
    let now = read(&fs::read_to_string(folder.path().join("now.json")).expect("it was made"));
    let stored = read(include_str!("../../src/demo/stored.json"));
    assert_eq!(now["found"]["place"], stored["found"]["place"]);
    assert_eq!(now["found"]["fits"], stored["found"]["fits"]);
    let close = |now: &Value, stored: &Value| {
        let (now, stored) = (
            now.as_f64().expect("a number"),
            stored.as_f64().expect("a number"),
        );
        assert!(
            (now / stored - 1.0).abs() < 0.25,
            "{now} now, {stored} stored: make it anew with `percolog demo --store`"
        );
    };
    close(&now["found"]["foretold"], &stored["found"]["foretold"]);
    for version in ["before", "after"] {
        let (now, stored) = (&now[version], &stored[version]);
        let points = stored.as_array().expect("points");
        assert_eq!(now.as_array().map(Vec::len), Some(points.len()));
        // Between the ends it is chance, where there is contention, which chips' cores come next.
        for index in [0, points.len() - 1] {
            assert_eq!(now[index]["cores"], points[index]["cores"]);
            close(&now[index]["per_ms"], &points[index]["per_ms"]);
        }
    }
}
