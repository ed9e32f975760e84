//! `percolog figures`.
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, folder, run};

#[test]
fn lent_logs_take_the_memory_that_is_stated() {
    let folder = folder();
    let arguments = [
        "figures",
        "log-memory",
        "--objects",
        "300000",
        "--cores",
        "4",
        "--json",
    ];
    let figure: Value =
        serde_json::from_str(&assert_fine(&run(folder.path(), &arguments))).expect("JSON");
    assert_eq!(figure["objects"], 300_000);
    let rows = figure["rows"].as_array().expect("rows");
    let bytes = |at: usize| rows[at]["object_bytes"].as_u64().expect("a number");
    assert_eq!([bytes(0), bytes(1), bytes(2)], [192, 192 + 4 * 8, 200]);
    for (at, row) in rows.iter().enumerate() {
        // What is resident is at least what was asked for.
        let each = row["bytes_per_object"].as_f64().expect("a number");
        assert!(each >= bytes(at) as f64 * 0.99, "{row}");
    }
    // The cache is bounded, and full: each of the four cores has seen many more objects than it has places.
    let logs = rows[2]["logs"].as_u64().expect("a number");
    assert!((4 * 4000..=4 * 4096).contains(&logs), "{logs} logs");
    let file = figure["file"].as_str().expect("a path");
    assert!(
        std::fs::read_to_string(file)
            .expect("the page")
            .contains("</svg>")
    );
}

#[test]
fn the_figure_fits_a_terminal() {
    let folder = folder();
    let output = run(
        folder.path(),
        &["figures", "log-memory", "--objects", "1000"],
    );
    let text = assert_fine(&output);
    assert!(
        text.contains("log cache") && text.contains("report.html"),
        "{text}"
    );
    assert_plain_and_narrow(&text);
}

#[test]
fn more_objects_than_there_is_memory_are_refused() {
    let folder = folder();
    let arguments = [
        "figures",
        "log-memory",
        "--objects",
        "1000000000",
        "--cores",
        "4096",
    ];
    assert_refused(&run(folder.path(), &arguments), "--objects");
    assert_refused(&run(folder.path(), &["figures"]), "command is missing");
}
