//! The page, made of what the runs have left.

use std::fmt::Write as _;

use serde_json::Value;

use super::kept::{Kept, Record};
use super::pairs;
use super::programs::{Expected, PROGRAMS, Program};

/// The least share of all waiting that is worth a name.
const STANDS_OUT: f64 = 0.05;

/// What stands in front of the table.
const HEAD: &str = "<!-- Made by `cargo xtask worst-lines`. -->\n\n\
# The worst lines of ten programs\n\n\
Ten programs that nobody here wrote, run under `percolog sim` as they are. For each the page says what is known to be in its way, and who says so; \
*agrees* is computed: it says which of the report's three worst lines names it. \
*If it were free* is how many times as fast the program is when the line costs nothing, or, where several lines of its object are contended, all of them.\n\n\
`cargo xtask worst-lines` makes the programs, runs them and writes this page; `cargo xtask worst-lines NAME` runs one of them again. What \
a run has left lies in `results/worst-lines.json`.\n\n";

/// What stands in front of the what-ifs.
const WHAT_IFS: &str = "## Was it true?\n\n\
A what-if foretells how many times as fast a program is without a line, and if it is a lock's, without waiting for its holder. Here the line \
was really removed. All on 48 simulated cores; the last column is two threads of a virtual machine (AMD EPYC, Zen 4), measured.\n\n\
| line | what was done | foretold | really | off by | two threads |\n|---|---|---:|---:|---:|---:|\n";

/// Makes the page of what is kept.
pub(super) fn render(kept: &Kept) -> String {
    let mut rows = String::new();
    let mut chapters = String::new();
    for program in &PROGRAMS {
        let Some(record) = kept.programs.get(program.name) else {
            let _ = writeln!(chapters, "## {}\n\nNot run here.\n", program.title);
            continue;
        };
        row(&mut rows, program, record);
        chapter(&mut chapters, program, record);
    }
    format!(
        "{HEAD}| program | cores | the worst line | of waiting | if it were free | agrees | time | memory |\n|---|---:|---|---:|---:|---|---:|---:|\n{rows}\n{chapters}{WHAT_IFS}{}{}",
        pairs::rows(&kept.what_ifs),
        include_str!("what_ifs.md")
    )
}

fn row(text: &mut String, program: &Program, record: &Record) {
    let worst = record.lines.first();
    let share = worst.map_or(0.0, share);
    let name = worst.map_or_else(
        || "none".to_owned(),
        |line| format!("{}, {}", object(line), place(line)),
    );
    let memory = record.kilobytes.map_or_else(
        || "?".to_owned(),
        |kilobytes| format!("{} MB", kilobytes / 1024),
    );
    let _ = writeln!(
        text,
        "| {} | {} | {name} | {:.1} % | {} | {} | {:.0} s | {memory} |",
        program.title,
        program.cores,
        share * 100.0,
        worst
            .and_then(gain)
            .map_or_else(String::new, |gain| format!("× {gain:.1}")),
        agrees(program, record),
        record.seconds,
    );
}

fn chapter(text: &mut String, program: &Program, record: &Record) {
    let _ = writeln!(
        text,
        "## {}\n\n{} ({}) {}\n\n```console\n$ {}\n{}\n```\n",
        program.title,
        program.known,
        program.source,
        program.story,
        record.command,
        record.screen.trim_end()
    );
}

fn share(line: &Value) -> f64 {
    line["share"].as_f64().unwrap_or(0.0)
}

/// What the line is part of.
fn object(line: &Value) -> String {
    let name = line["label"]
        .as_str()
        .or_else(|| line["object"]["name"].as_str())
        .or_else(|| line["memory"].as_str());
    let name = short(name.unwrap_or("?"));
    format!("`{}`", name.replace('|', "\\|"))
}

/// Where it is waited for most.
fn place(line: &Value) -> String {
    let place = &line["places"][0];
    let function = place["function"].as_str().unwrap_or("?");
    let function = short(function);
    let at = match (place["file"].as_str(), place["line"].as_u64()) {
        (Some(file), Some(line)) => {
            let file = file.rsplit('/').next().unwrap_or(file);
            format!(" ({file}:{line})")
        }
        _ => String::new(),
    };
    format!("`{function}`{at}")
}

/// What the program gains if the line costs nothing, or where several of its object are contended all of those do; if that was tried.
pub(super) fn gain(line: &Value) -> Option<f64> {
    ["what_if", "what_if_object"]
        .iter()
        .find_map(|tried| line[*tried]["speedup"].as_f64())
}

/// A name without the parameters of its types, which are in the chapter; where it was allocated is kept.
fn short(name: &str) -> String {
    let Some((front, rest)) = name.split_once('<') else {
        return name.to_owned();
    };
    let place = rest.rfind(" (").map_or("", |at| &rest[at..]);
    let is_place = place.ends_with(')') && place.contains(':');
    format!("{front}{}", if is_place { place } else { "" })
}

/// Whether the report names what is known.
fn agrees(program: &Program, record: &Record) -> String {
    match program.expected {
        Expected::Nothing => match record.lines.first().map_or(0.0, share) {
            share if share <= STANDS_OUT => "yes: no line".to_owned(),
            _ => "**no**".to_owned(),
        },
        Expected::One(_) => match record.known {
            Some(0) => "yes".to_owned(),
            Some(rank) => format!("line {}", rank + 1),
            None => "**no**".to_owned(),
        },
    }
}

/// The report in what percolog has written to stderr: behind what the program itself wrote there.
pub(super) fn screen(said: &str) -> &str {
    let begin = said
        .match_indices(" MHz, simulated")
        .last()
        .map_or(0, |(at, _)| {
            said[..at].rfind('\n').map_or(0, |newline| newline + 1)
        });
    &said[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_object_is_asked_where_a_line_was_not_tried_alone() {
        let (alone, together) = (json!({"speedup": 2.0}), json!({"speedup": 3.0}));
        let gain_of = |line, object| gain(&json!({"what_if": line, "what_if_object": object}));
        assert_eq!(gain_of(alone, Value::Null), Some(2.0));
        assert_eq!(gain_of(Value::Null, together), Some(3.0));
        assert_eq!(gain_of(Value::Null, Value::Null), None);
    }
}
