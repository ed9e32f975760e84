//! The published schema is true: reports are what it says, and it says all that is in them.

use std::io::Write as _;

use serde_json::{Value, json};

use super::examples::{known, run};
use super::*;
use crate::model::Machine;
use crate::run::Simulation;

/// The schema, but nothing is allowed that it does not name. The published one allows fields of later releases.
fn strict() -> jsonschema::Validator {
    fn close(schema: &mut Value) {
        if let Value::Object(fields) = schema {
            if fields.contains_key("properties") {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
            fields.values_mut().for_each(close);
        } else if let Value::Array(items) = schema {
            items.iter_mut().for_each(close);
        }
    }
    let mut schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    close(&mut schema);
    jsonschema::draft202012::new(&schema).expect("the schema is one")
}

fn assert_valid(summary: &Summary) {
    let report = serde_json::to_value(summary).expect("it can be written as JSON");
    let wrong: Vec<String> = strict()
        .iter_errors(&report)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn reports_are_what_the_schema_says() {
    let run = run();
    let summary = run.summary();
    assert_valid(&summary);
    let baseline = Baseline::of(&run).expect("it has operations");
    let points = vec![
        ScalingPoint::failed(1, "time was up"),
        ScalingPoint::of(&summary),
    ];
    let mut full = summary
        .clone()
        .against(baseline)
        .with_spread(std::slice::from_ref(&summary))
        .with_scaling(Scaling::of(points, None));
    known(&mut full.lines[0]);
    assert_valid(&full);
    let gain = full.lines[0].what_if.take().expect("it is known");
    full.lines[0].what_if_object = Some(ObjectWhatIf {
        gain,
        lines: vec![4096, 4160],
    });
    full.process.ending = Ending::Deadlock;
    assert_valid(&full);
    // And the test can fail.
    let mut wrong = serde_json::to_value(&full).expect("it can be written as JSON");
    wrong["lines"][0]["colour"] = json!("red");
    assert!(!strict().is_valid(&wrong));
    wrong["lines"][0] = json!(null);
    assert!(!strict().is_valid(&wrong));
}

#[test]
fn a_real_report_is_what_the_schema_says() {
    if let Err(error) = crate::run::available() {
        let required = std::env::var_os("PERCOLOG_SIM_REQUIRED").is_some_and(|set| set == "1");
        assert!(!required, "{error}");
        // Past the harness, which keeps to itself what a test that passes prints.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: a_real_report_is_what_the_schema_says: {error}"
        );
        return;
    }
    let run = Simulation::new(Machine::flat("flat", 2))
        .capture(true)
        .run("sh", ["-c", "echo one | cat; exit 3"])
        .expect("it can be simulated");
    assert_valid(&run.summary());
}

#[test]
fn the_schema_is_of_this_version() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    assert_eq!(schema["properties"]["version"]["const"], VERSION);
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
}
