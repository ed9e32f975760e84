//! Every contender of every figure of the papers runs here, with two threads, for a moment.
//!
//! What a figure is made of is read from its file as it is, so that neither a program nor a parameter can be misspelled in one.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

const GROUPS: [&str; 5] = ["oplog", "osdi10", "sections", "ldu", "k42"];

/// The files of a group, by name.
fn files(group: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("catalogue")
        .join(group);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{group}: {error}"));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    files
}

fn figure(path: &Path) -> Table {
    let text = fs::read_to_string(path).expect("it can be read");
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => panic!("{other:?} is neither text nor a number"),
    }
}

/// A contender's words, with two threads and a tiny time, and a load that is no larger than it has to be.
fn words(figure: &Table, contender: &Table) -> Vec<String> {
    let mut words = Table::new();
    let x = figure["x"].as_table().expect("a table");
    if let Some(first) = x["values"].as_array().and_then(|values| values.first()) {
        words.insert(text(&x["parameter"]), first.clone());
    }
    for parameters in [figure.get("parameters"), contender.get("with")] {
        let parameters = parameters.and_then(Value::as_table);
        words.extend(parameters.cloned().unwrap_or_default());
    }
    let mut at_most = |key: &str, most: i64| {
        if let Some(Value::Integer(number)) = words.get_mut(key) {
            *number = most.min(*number);
        }
    };
    at_most("forks", 2);
    at_most("forks_per_truncate", 2);
    at_most("events", 300);
    at_most("work", 100);
    at_most("objects", 1000);
    at_most("pages", 8);
    at_most("keys", 500);
    at_most("total", 30_000);
    at_most("section", 400);
    words.insert("threads".to_owned(), Value::Integer(2));
    words.insert("milliseconds".to_owned(), Value::Integer(1));
    words
        .iter()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect()
}

fn every_contender_of(group: &str) {
    let files = files(group);
    assert!(!files.is_empty(), "{group} has no figures");
    for path in files {
        let figure = figure(&path);
        let wanted = text(&figure["y"]["value"]);
        for contender in figure["contenders"].as_array().expect("contenders") {
            let contender = contender.as_table().expect("a table");
            let feature = contender.get("needs").map(|needs| text(&needs["feature"]));
            let is_built_in = match feature.as_deref() {
                None => true,
                Some("c-peers") => cfg!(feature = "c-peers"),
                Some(other) => panic!("nobody knows the feature {other}"),
            };
            if !is_built_in {
                continue;
            }
            let words = words(&figure, contender);
            let program = text(&contender["program"]);
            let what = || format!("{}: {program} {}", path.display(), words.join(" "));
            let values = percolog_cells::run(&program, words.iter().map(String::as_str))
                .unwrap_or_else(|error| panic!("{}: {error}", what()));
            for (name, value) in &values.0 {
                assert!(value.is_finite(), "{}: {name} is {value}", what());
            }
            // Simulated cells have these besides; and in a moment not every kind of call is made.
            let besides = ["lines", "waiting"].contains(&&*wanted);
            let is_of_calls = ["sections", "mappings"].contains(&&*program);
            assert!(
                besides || is_of_calls || values.get(&wanted).is_some(),
                "{}: there is no {wanted}: {values:?}",
                what()
            );
        }
    }
}

#[test]
fn the_thesis() {
    every_contender_of("oplog");
}

#[test]
fn osdi_2010() {
    every_contender_of("osdi10");
}

#[test]
fn parallel_sections() {
    every_contender_of("sections");
}

#[test]
fn deferred_updates() {
    every_contender_of("ldu");
}

#[test]
fn k42() {
    every_contender_of("k42");
}

#[test]
fn what_is_published_has_a_contender_and_a_section() {
    for group in GROUPS {
        for path in files(group) {
            let figure = figure(&path);
            let name = path.display();
            assert!(figure["source"]["section"].is_str(), "{name}");
            assert!(figure["differs"].is_str(), "{name}");
            let contenders: Vec<String> = figure["contenders"]
                .as_array()
                .expect("contenders")
                .iter()
                .map(|contender| text(&contender["name"]))
                .collect();
            let published = figure.get("published").and_then(Value::as_array);
            for published in published.into_iter().flatten() {
                let of = published.get("contender").map(text);
                assert!(
                    of.is_none_or(|of| contenders.contains(&of)),
                    "{name}: {published:?}"
                );
            }
        }
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let refused = |program: &str, words: &[&str]| {
        let all = ["threads=1", "milliseconds=1"]
            .into_iter()
            .chain(words.iter().copied());
        percolog_cells::run(program, all)
            .expect_err("it makes no sense")
            .to_string()
    };
    let error = refused("replay", &["source=nothing", "implementation=mutex"]);
    assert!(error.contains("fork-exit"), "{error}");
    let error = refused("replay", &["source=fork-exit", "implementation=mutex"]);
    assert!(error.contains("`forks=VALUE`"), "{error}");
    let error = refused(
        "replay",
        &["source=exim", "events=10", "implementation=spinlock"],
    );
    assert!(error.contains("there is no spinlock"), "{error}");
    let error = refused(
        "open-files",
        &["implementation=spinlock", "work=1", "cycles_per_walk=1000"],
    );
    assert!(error.contains("spinlock"), "{error}");
    let error = refused("mappings", &["database=kernel", "space=own"]);
    assert!(error.contains("one space for all threads"), "{error}");
    let error = refused("serial-section", &["lock=ticket", "section=10", "total=9"]);
    assert!(error.contains("from 10"), "{error}");
    let error = refused(
        "objects",
        &["structure=shared", "objects=4294967296", "cores=4096"],
    );
    assert!(error.contains("need up to"), "{error}");
    let error = refused(
        "lines-of-code",
        &["subsystem=names", "implementation=oplog"],
    );
    assert!(error.contains("nobody counts"), "{error}");
}
