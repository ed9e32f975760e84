//! What runs have left: one file, `results/worst-lines.json`, of which the page is made.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::programs::{Expected, Program};

/// The version of the file.
const VERSION: u32 = 1;

/// How many of the report's lines may hold what is known.
pub(super) const WORST: usize = 3;

/// All of them, by name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    version: u32,
    pub(super) programs: BTreeMap<String, Record>,
    pub(super) what_ifs: BTreeMap<String, Confirmed>,
}

/// What a run of a program left.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The command, as one would type it.
    pub(super) command: String,
    /// How long it took.
    pub(super) seconds: f64,
    /// The memory of its largest process, the simulator's share included; none if `time` is missing.
    pub(super) kilobytes: Option<u64>,
    /// What the report says on a terminal.
    pub(super) screen: String,
    /// Which of the worst lines names what is known to be in the program's way.
    pub(super) known: Option<usize>,
    /// The worst lines: what the page shows of them.
    pub(super) lines: Vec<Value>,
}

/// What came of a what-if.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Confirmed {
    /// How many times as fast, said the what-if of the worst line.
    pub(super) foretold: f64,
    /// How many times as fast it was.
    pub(super) really: f64,
    /// How many times as fast it was on two threads of the machine that the results were made on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<f64>,
}

impl Kept {
    /// Where it is.
    pub(super) fn path(root: &Path) -> PathBuf {
        root.join("results").join("worst-lines.json")
    }

    /// What is there; nothing, if there is no file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Ok(Self {
                version: VERSION,
                programs: BTreeMap::new(),
                what_ifs: BTreeMap::new(),
            });
        }
        let what = || format!("reading {}", path.display());
        let text = fs::read_to_string(path).with_context(what)?;
        let kept: Self = serde_json::from_str(&text).with_context(what)?;
        if kept.version != VERSION {
            bail!(
                "{} has version {}, not {VERSION}; run all programs again without it",
                path.display(),
                kept.version
            );
        }
        Ok(kept)
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("results")?;
        fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }
}

/// The worst lines of a report as they are kept, and which of them names what is known.
pub(super) fn worst(program: &Program, report: &Value) -> (Vec<Value>, Option<usize>) {
    let none = Vec::new();
    let lines = report["lines"].as_array().unwrap_or(&none);
    let lines = &lines[..lines.len().min(WORST)];
    let known = match program.expected {
        Expected::Nothing => None,
        Expected::One(names) => lines.iter().position(|line| {
            let text = line.to_string();
            names.iter().any(|name| text.contains(name))
        }),
    };
    (lines.iter().map(kept_of).collect(), known)
}

/// Of a line what the page shows.
fn kept_of(line: &Value) -> Value {
    let some = |value: &Value, keys: &[&str]| {
        let mut kept = Map::new();
        for key in keys {
            if !value[key].is_null() {
                kept.insert((*key).to_owned(), value[key].clone());
            }
        }
        kept
    };
    let mut kept = some(
        line,
        &["share", "label", "memory", "what_if", "what_if_object"],
    );
    if !line["object"]["name"].is_null() {
        kept.insert("object".to_owned(), some(&line["object"], &["name"]).into());
    }
    let place = some(&line["places"][0], &["function", "file", "line"]);
    kept.insert("places".to_owned(), Value::Array(vec![place.into()]));
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worst::programs::PROGRAMS;
    use serde_json::json;

    #[test]
    fn a_line_keeps_what_is_shown_and_what_names_it_is_looked_for_in_all_of_it() {
        let program = PROGRAMS
            .iter()
            .find(|program| matches!(program.expected, Expected::One(_)))
            .expect("there is one");
        let Expected::One(names) = program.expected else {
            panic!("it was chosen for that");
        };
        let line = |stack: &str| {
            json!({"share": 0.5, "label": null, "memory": "heap", "by_core": [1, 2], "places": [
                {"function": "f", "file": "a.c", "line": 3, "stack": [stack]}, {"function": "g"}]})
        };
        let report = json!({"lines": [line("other"), line(names[0]), line("x"), line("y")]});
        let (lines, known) = worst(program, &report);
        assert_eq!(known, Some(1));
        assert_eq!(lines.len(), WORST);
        let shown = json!({"share": 0.5, "memory": "heap",
            "places": [{"function": "f", "file": "a.c", "line": 3}]});
        assert_eq!(lines[0], shown);
    }
}
