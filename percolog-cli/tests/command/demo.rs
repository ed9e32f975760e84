//! `percolog demo`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, folder, run};

/// The whole demonstration, as short as it can be.
const QUICK: [&str; 6] = ["demo", "--quick", "--cell-ms", "2", "--threads", "2"];

fn quick(folder: &Path, more: &[&str]) -> std::process::Output {
    let arguments: Vec<&str> = QUICK.iter().chain(more).copied().collect();
    run(folder, &arguments)
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
fn the_demonstration_shows_every_part_and_writes_the_report() {
    let folder = folder();
    let text = assert_fine(&quick(folder.path(), &[]));
    assert_plain_and_narrow(&text);
    for part in [
        "You have a static AtomicU64",
        "percolog Counter",
        "contatori Unsigned",
        "You have a set behind a Mutex",
        "Logged with absorption",
        "DashSet",
        "every id is new",
        "recorded run",
        "1 thread",
        "2 threads",
        "report.html",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(files(folder.path()), ["report.html"]);
    let page = fs::read_to_string(folder.path().join("report.html")).expect("a report");
    assert!(page.ends_with("</html>\n"));
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn the_data_has_a_figure_for_each_structure_and_number_of_threads() {
    let folder = folder();
    let text = assert_fine(&quick(
        folder.path(),
        &["--only", "sets", "--json", "--output", "sets.html"],
    ));
    let report: Value = serde_json::from_str(&text).expect("the output is JSON");
    let file = report["file"].as_str().expect("a path");
    assert!(Path::new(file).is_absolute() && file.ends_with("sets.html"));
    let sections = report["sections"].as_array().expect("sections");
    assert_eq!(sections.len(), 2);
    let column =
        |threads| serde_json::json!({ "threads": threads, "instrument": { "kind": "measured" } });
    assert_eq!(
        sections[0]["columns"],
        serde_json::json!([column(1), column(2)])
    );
    for (section, structures) in sections.iter().zip([4, 3]) {
        let columns = section["columns"].as_array().expect("columns").len();
        let series = section["series"].as_array().expect("series");
        assert_eq!(series.len(), structures);
        assert_eq!(series[0]["role"], "today");
        for one in series {
            let rates = one["rates"].as_array().expect("rates");
            assert_eq!(rates.len(), columns);
            for rate in rates {
                let figure = |name: &str| rate[name].as_f64().expect("a number");
                assert!(figure("slowest") > 0.0);
                assert!(figure("slowest") <= figure("median"));
                assert!(figure("median") <= figure("fastest"));
            }
        }
        assert!(!section["findings"].as_array().expect("findings").is_empty());
    }
    assert_eq!(files(folder.path()), ["sets.html"]);
}

#[test]
fn an_output_that_exists_is_refused_before_anything_is_measured() {
    let folder = folder();
    let output = folder.path().join("mine.html");
    fs::write(&output, "mine").expect("written");
    // Nothing on stdout: the heading stands there before the first measurement.
    assert_refused(
        &run(folder.path(), &["demo", "--output", "mine.html"]),
        "--force",
    );
    assert_eq!(fs::read_to_string(&output).expect("there"), "mine");
    assert_fine(&quick(
        folder.path(),
        &["--only", "counters", "--output", "mine.html", "--force"],
    ));
    assert!(
        fs::read_to_string(&output)
            .expect("there")
            .starts_with("<!DOCTYPE html>")
    );
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
    assert_fine(&quick(folder.path(), &["--only", "counters"]));
    let first = fs::read_to_string(&report).expect("a report");
    assert_fine(&quick(folder.path(), &["--only", "sets"]));
    assert_ne!(fs::read_to_string(&report).expect("a report"), first);
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
