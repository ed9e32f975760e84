//! The results' text: JSON, one line for the version, one for each figure, one for each cell.
//!
//! A figure's line holds what its cells have in common, and for each contender what that one's have; a cell's line holds the rest. So a
//! line is short, `grep` and `diff` find what has changed, and a cell is still whole: no catalogue is needed to read it.
//! Numbers have five significant digits, more than any page shows and than a repetition would give again.

use std::collections::BTreeMap;

use percolog_cells::Values;
use serde::{Deserialize, Serialize};

use super::{Build, Found, Host, Results, VERSION};
use crate::plan::{Cell, Size};

/// Why a text is none of results.
#[derive(Debug, PartialEq)]
pub(super) enum Wrong {
    /// It is damaged, or something else: so it says.
    Damaged(String),
    /// It is of another version.
    Version(u32),
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct First {
    version: u32,
    figures: usize,
}

/// The line of a figure.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    figure: String,
    cells: usize,
    size: Size,
    build: Build,
    host: Host,
    seed: u64,
    /// What all cells have in common.
    all: Part,
    /// The parameter that is `x`, if it is in all cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    /// What all cells of a contender have in common besides.
    each: BTreeMap<String, Part>,
}

/// Some of what was run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repetitions: Option<u32>,
    /// The version of the experiment, if it is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<u32>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    with: BTreeMap<String, String>,
}

/// The line of a cell.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// The contender.
    of: String,
    x: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<u64>,
    #[serde(default, skip_serializing_if = "Part::is_empty")]
    run: Part,
    /// By name, one for each repetition.
    values: BTreeMap<String, Numbers>,
    seconds: Number,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    skipped: bool,
}

/// The version of most experiments.
const FIRST: u32 = 1;

/// A value of each repetition: of one alone, without a list.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(Number),
    Many(Vec<Option<Number>>),
}

/// A number that is written without a point if it has no fraction.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Broken(f64),
}

impl Number {
    /// Of five significant digits.
    fn rounded(value: f64) -> Self {
        let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
        // Whole numbers up to here are exact.
        if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
            Self::Whole(rounded as i64)
        } else {
            Self::Broken(rounded)
        }
    }

    fn value(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Broken(number) => number,
        }
    }
}

impl Part {
    fn of(cell: &Cell) -> Self {
        Self {
            machine: Some(cell.machine.clone()),
            program: Some(cell.program.clone()),
            repetitions: Some(cell.repetitions),
            revision: Some(cell.revision).filter(|revision| *revision != FIRST),
            with: cell.parameters.clone(),
        }
    }

    fn is_empty(&self) -> bool {
        self.machine.is_none()
            && self.program.is_none()
            && self.repetitions.is_none()
            && self.revision.is_none()
            && self.with.is_empty()
    }

    /// What all of them have; nothing, if there are none.
    fn common(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts = parts.into_iter();
        let Some(mut common) = parts.next() else {
            return Self::default();
        };
        for part in parts {
            common.machine = common
                .machine
                .filter(|one| part.machine.as_ref() == Some(one));
            common.program = common
                .program
                .filter(|one| part.program.as_ref() == Some(one));
            common.repetitions = common
                .repetitions
                .filter(|one| part.repetitions == Some(*one));
            common.revision = common.revision.filter(|one| part.revision == Some(*one));
            common
                .with
                .retain(|key, value| part.with.get(key) == Some(value));
        }
        common
    }

    /// This without what the other one has.
    fn without(mut self, other: &Self) -> Self {
        if other.machine.is_some() {
            self.machine = None;
        }
        if other.program.is_some() {
            self.program = None;
        }
        if other.repetitions.is_some() {
            self.repetitions = None;
        }
        if other.revision.is_some() {
            self.revision = None;
        }
        self.with.retain(|key, _| !other.with.contains_key(key));
        self
    }

    /// This, and what is missing from the other one.
    fn and(mut self, other: &Self) -> Self {
        self.machine = self.machine.or_else(|| other.machine.clone());
        self.program = self.program.or_else(|| other.program.clone());
        self.repetitions = self.repetitions.or(other.repetitions);
        self.revision = self.revision.or(other.revision);
        for (key, value) in &other.with {
            self.with
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
        self
    }
}

/// The text of these figures, in the order of their names.
pub(super) fn write<'r>(figures: impl IntoIterator<Item = &'r Results>) -> String {
    let mut figures: Vec<&Results> = figures.into_iter().collect();
    figures.sort_by(|one, other| one.figure.cmp(&other.figure));
    let mut text = String::new();
    let first = First {
        version: VERSION,
        figures: figures.len(),
    };
    line(&mut text, &first);
    for results in figures {
        write_figure(&mut text, results);
    }
    text
}

fn line(text: &mut String, value: &impl Serialize) {
    let json = serde_json::to_string(value)
        .unwrap_or_else(|error| unreachable!("names and numbers are JSON: {error}"));
    text.push_str(&json);
    text.push('\n');
}

fn write_figure(text: &mut String, results: &Results) {
    let cells = &results.cells;
    let all = Part::common(cells.iter().map(|found| Part::of(&found.cell)));
    let x = x_parameter(cells).filter(|x| !all.with.contains_key(x));
    let rest = |found: &Found| {
        let mut part = Part::of(&found.cell).without(&all);
        if let Some(x) = &x {
            part.with.remove(x);
        }
        part
    };
    let mut each: BTreeMap<String, Part> = BTreeMap::new();
    for found in cells {
        if !each.contains_key(&found.contender) {
            let same = cells
                .iter()
                .filter(|other| other.contender == found.contender);
            each.insert(found.contender.clone(), Part::common(same.map(&rest)));
        }
    }
    let lines: Vec<Line> = cells
        .iter()
        .map(|found| Line {
            of: found.contender.clone(),
            x: found.x,
            row: found.row,
            run: rest(found).without(&each[&found.contender]),
            values: columns(&found.values),
            seconds: Number::rounded(found.seconds),
            failure: found.failure.clone(),
            skipped: found.skipped,
        })
        .collect();
    each.retain(|_, part| !part.is_empty());
    line(
        text,
        &Header {
            figure: results.figure.clone(),
            cells: lines.len(),
            size: results.size,
            build: results.build.clone(),
            host: results.host.clone(),
            seed: results.seed,
            all,
            x,
            each,
        },
    );
    for cell in &lines {
        line(text, cell);
    }
}

/// A parameter whose value is `x` in all cells.
fn x_parameter(cells: &[Found]) -> Option<String> {
    let mut first = cells.first()?.cell.parameters.keys();
    let is_x = |key: &&String| {
        cells
            .iter()
            .all(|found| found.cell.parameters.get(*key) == Some(&found.x.to_string()))
    };
    first.find(is_x).cloned()
}

/// The values of repetitions, by name.
fn columns(values: &[Values]) -> BTreeMap<String, Numbers> {
    let mut columns: BTreeMap<String, Numbers> = BTreeMap::new();
    for name in values.iter().flat_map(|one| one.0.keys()) {
        if columns.contains_key(name) {
            continue;
        }
        let numbers = match values {
            [one] => one
                .get(name)
                .map(|value| Numbers::One(Number::rounded(value))),
            many => Some(Numbers::Many(
                many.iter()
                    .map(|one| one.get(name).map(Number::rounded))
                    .collect(),
            )),
        };
        columns.extend(numbers.map(|numbers| (name.clone(), numbers)));
    }
    columns
}

/// The same the other way round.
fn repetitions(columns: BTreeMap<String, Numbers>) -> Vec<Values> {
    let mut values: Vec<Values> = Vec::new();
    for (name, numbers) in columns {
        let numbers = match numbers {
            Numbers::One(number) => vec![Some(number)],
            Numbers::Many(numbers) => numbers,
        };
        values.resize_with(values.len().max(numbers.len()), Values::default);
        for (one, number) in values.iter_mut().zip(numbers) {
            one.0
                .extend(number.map(|number| (name.clone(), number.value())));
        }
    }
    values
}

/// The figures that a text holds.
pub(super) fn read(text: &str) -> Result<BTreeMap<String, Results>, Wrong> {
    let mut lines = text.lines();
    let First { version, figures } = parse(lines.next().unwrap_or_default())?;
    if version != VERSION {
        return Err(Wrong::Version(version));
    }
    let mut all = BTreeMap::new();
    while let Some(text) = lines.next() {
        let results = read_figure(parse(text)?, &mut lines)?;
        all.insert(results.figure.clone(), results);
    }
    if all.len() != figures {
        return Err(Wrong::Damaged(format!(
            "it has {} of {figures} figures",
            all.len()
        )));
    }
    Ok(all)
}

fn parse<'t, T: Deserialize<'t>>(line: &'t str) -> Result<T, Wrong> {
    serde_json::from_str(line).map_err(|error| Wrong::Damaged(error.to_string()))
}

fn read_figure<'t>(
    header: Header,
    lines: &mut impl Iterator<Item = &'t str>,
) -> Result<Results, Wrong> {
    let damaged = |what: &str| Wrong::Damaged(format!("`{}`: {what}", header.figure));
    let nothing = Part::default();
    let mut cells = Vec::with_capacity(header.cells.min(1 << 16));
    for _ in 0..header.cells {
        let text = lines.next().ok_or_else(|| damaged("cells are missing"))?;
        let line: Line = parse(text)?;
        let each = header.each.get(&line.of).unwrap_or(&nothing);
        let mut part = line.run.and(each).and(&header.all);
        if let Some(x) = &header.x {
            part.with.insert(x.clone(), line.x.to_string());
        }
        let (Some(machine), Some(program), Some(repetitions_wanted)) =
            (part.machine, part.program, part.repetitions)
        else {
            return Err(damaged("it does not say what was run"));
        };
        cells.push(Found {
            contender: line.of,
            x: line.x,
            row: line.row,
            cell: Cell {
                machine,
                program,
                parameters: part.with,
                repetitions: repetitions_wanted,
                revision: part.revision.unwrap_or(FIRST),
            },
            values: repetitions(line.values),
            seconds: line.seconds.value(),
            failure: line.failure,
            skipped: line.skipped,
        });
    }
    Ok(Results {
        figure: header.figure,
        size: header.size,
        build: header.build,
        host: header.host,
        seed: header.seed,
        cells,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::results;

    fn again(results: &Results) -> Results {
        let mut all = read(&write([results])).expect("it can be read");
        all.remove(&results.figure).expect("it is there")
    }

    #[test]
    fn all_of_a_figure_is_read_again() {
        let mut figure = results("a");
        // Cells with little in common, one that failed, and one with a value that only one repetition has.
        figure.cells[1].cell.machine = "opteron-48".to_owned();
        figure.cells[1].row = Some(4);
        figure.cells[1].cell.revision = 2;
        figure.cells.push(Found {
            contender: "another".to_owned(),
            failure: Some("it \"failed\"\n".to_owned()),
            values: vec![
                Values::default().with("rate", -0.25).with("more", 1e300),
                Values::default().with("rate", 1e-9),
            ],
            ..figure.cells[0].clone()
        });
        let skipped = figure.cells[2].cell.clone();
        figure.cells.push(Found {
            contender: "another".to_owned(),
            x: 9,
            row: None,
            cell: Cell {
                parameters: BTreeMap::from([("threads".to_owned(), "7".to_owned())]),
                ..skipped
            },
            values: Vec::new(),
            seconds: 0.0,
            failure: Some("not here".to_owned()),
            skipped: true,
        });
        assert_eq!(again(&figure), figure);
        figure.cells.clear();
        assert_eq!(again(&figure), figure);
    }

    #[test]
    fn what_cells_have_in_common_is_written_once() {
        let text = write([&results("a")]);
        assert_eq!(text.lines().count(), 4, "{text}");
        for once in ["\"counters\"", "\"here\"", "\"threads\""] {
            assert_eq!(text.matches(once).count(), 1, "{once}: {text}");
        }
    }

    #[test]
    fn numbers_keep_five_digits() {
        for (value, text) in [
            (0.0, "0"),
            (345_118_261.596, "345120000"),
            (272.851_296, "272.85"),
            (0.000_123_456, "0.00012346"),
            (-3.0, "-3"),
        ] {
            let number = Number::rounded(value);
            assert_eq!(serde_json::to_string(&number).expect("a number"), text);
            assert_eq!(Number::rounded(number.value()).value(), number.value());
        }
    }

    #[test]
    fn a_text_that_is_cut_off_is_told_of() {
        let text = write([&results("a"), &results("b")]);
        assert_eq!(read(&text).expect("it is whole").len(), 2);
        let lines: Vec<&str> = text.lines().collect();
        for until in 0..lines.len() {
            let cut = lines[..until].join("\n");
            assert!(matches!(read(&cut), Err(Wrong::Damaged(_))), "{cut}");
        }
    }
}
