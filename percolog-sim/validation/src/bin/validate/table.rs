//! The validation table: as text, as Markdown and as data.

use std::fmt::Write as _;

use percolog_cli::failure::Failure;
use percolog_cli::format;
use percolog_cli::output::Output;
use percolog_validation::experiments::{Experiment, Findings};
use percolog_validation::rows::{Row, Value, Verdict};
use serde::Serialize;

/// What was found in one experiment.
pub(super) type Section = (Experiment, Findings);

/// A row in words, one for each column.
struct Cells([String; 7]);

const HEADINGS: [&str; 7] = [
    "",
    "cores",
    "published",
    "formula",
    "simulated",
    "ratio",
    "verdict",
];

/// Columns of text: the first is left-aligned, and so is the last.
const WIDTHS: [usize; 7] = [46, 5, 10, 8, 10, 7, 8];

impl Cells {
    fn of(row: &Row, note: Option<usize>) -> Self {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
        let given = if row.given { " (fitted)" } else { "" };
        let bound = match row.criterion {
            percolog_validation::rows::Criterion::AtMost => "≤ ",
            percolog_validation::rows::Criterion::AtLeast => "≥ ",
            _ => "",
        };
        let verdict = match (row.verdict(), note) {
            (Verdict::Holds, _) => "holds".to_owned(),
            (Verdict::Explained, Some(note)) => format!("miss [{note}]"),
            (Verdict::Explained | Verdict::Unexplained, _) => "MISS".to_owned(),
        };
        Self([
            format!("{}{given}", row.what),
            row.cores.map_or(String::new(), |cores| cores.to_string()),
            format!("{bound}{}", row.published),
            or_dash(row.closed.as_ref().map(Value::to_string)),
            row.simulated.to_string(),
            or_dash(row.error().map(|ratio| format!("{ratio:.2}"))),
            verdict,
        ])
    }
}

/// The rows of a table as words, and the explanations that they point to. Numbers go on where the section before has stopped.
fn cells(rows: &[Row]) -> (Vec<Cells>, Vec<&'static str>) {
    let mut explanations: Vec<&'static str> = Vec::new();
    let cells = rows
        .iter()
        .map(|row| {
            let note = row
                .explanation
                .filter(|_| row.verdict() == Verdict::Explained)
                .map(|explanation| {
                    let known = explanations.iter().position(|known| *known == explanation);
                    known.unwrap_or_else(|| {
                        explanations.push(explanation);
                        explanations.len() - 1
                    }) + 1
                });
            Cells::of(row, note)
        })
        .collect();
    (cells, explanations)
}

/// Writes sections as text.
pub(super) fn text(results: &[Section], output: &mut Output) -> Result<(), Failure> {
    for (experiment, findings) in results {
        output.line(&output.strong(experiment.title()))?;
        output.line(&output.faint(&line(&HEADINGS.map(str::to_owned))))?;
        let (cells, explanations) = cells(&findings.rows);
        for (row, Cells(words)) in findings.rows.iter().zip(cells) {
            let (wide, words) = apart(row, words);
            let shown = line(&words);
            output.line(&match row.verdict() {
                Verdict::Holds => shown,
                Verdict::Explained => output.warning(&shown),
                Verdict::Unexplained => output.bad(&shown),
            })?;
            for words in wide {
                output.line(&format::wrap(&words, "    "))?;
            }
        }
        for (number, explanation) in (1..).zip(explanations) {
            output.line(&format::wrap(&format!("[{number}] {explanation}"), "  "))?;
        }
        for note in &findings.notes {
            output.line(&format::wrap(note, "  "))?;
        }
        output.line("")?;
    }
    Ok(())
}

/// Orders have no place in columns: they get lines of their own.
fn apart(row: &Row, mut words: [String; 7]) -> (Vec<String>, [String; 7]) {
    let mut lines = Vec::new();
    if let (Value::Order(_), Value::Order(_)) = (&row.published, &row.simulated) {
        lines.push(format!("published: {}", row.published));
        lines.push(format!("simulated: {}", row.simulated));
        words[2] = "—".to_owned();
        words[4] = "—".to_owned();
    }
    (lines, words)
}

fn line(words: &[String; 7]) -> String {
    let mut line = String::new();
    for (at, (word, width)) in words.iter().zip(WIDTHS).enumerate() {
        let cell = if at == 0 || at == WIDTHS.len() - 1 {
            format::left(word, width)
        } else {
            format::right(word, width)
        };
        let _ = write!(line, "{cell} ");
    }
    line.trim_end().to_owned()
}

/// Sections as Markdown.
pub(super) fn markdown(results: &[Section]) -> String {
    let mut text = String::new();
    for (experiment, findings) in results {
        let _ = writeln!(text, "**{}**\n", experiment.title());
        let _ = writeln!(text, "| {} |", HEADINGS.join(" | "));
        let _ = writeln!(text, "|---|---:|---:|---:|---:|---:|---|");
        let (cells, explanations) = cells(&findings.rows);
        for Cells(words) in cells {
            let _ = writeln!(text, "| {} |", words.join(" | "));
        }
        text.push('\n');
        for (number, explanation) in (1..).zip(explanations) {
            let _ = writeln!(text, "[{number}] {explanation}\n");
        }
        for note in &findings.notes {
            let _ = writeln!(text, "{note}\n");
        }
    }
    text
}

/// One line that sums up.
pub(super) fn tally(results: &[Section]) -> String {
    let count = |verdict| {
        results
            .iter()
            .flat_map(|(_, findings)| &findings.rows)
            .filter(|row| row.verdict() == verdict)
            .count()
    };
    format!(
        "{} of {} hold, {} missed for a known reason, {} for no known one.",
        count(Verdict::Holds),
        format::plural(
            results
                .iter()
                .map(|(_, found)| found.rows.len() as u64)
                .sum(),
            "figure"
        ),
        count(Verdict::Explained),
        count(Verdict::Unexplained)
    )
}

/// Whether every miss has an explanation.
pub(super) fn nothing_unexplained(results: &[Section]) -> bool {
    results
        .iter()
        .flat_map(|(_, findings)| &findings.rows)
        .all(|row| row.verdict() != Verdict::Unexplained)
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    /// The number of this format.
    version: u32,
    /// Whether every miss has an explanation.
    accepted: bool,
    experiments: Vec<ExperimentData>,
}

#[derive(Debug, Serialize)]
struct ExperimentData {
    name: &'static str,
    title: &'static str,
    rows: Vec<RowData>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RowData {
    what: String,
    cores: Option<u32>,
    published: ValueData,
    formula: Option<ValueData>,
    simulated: ValueData,
    /// Simulated by published.
    ratio: Option<f64>,
    /// The machine or the workload was fitted to this figure.
    fitted: bool,
    verdict: &'static str,
    explanation: Option<&'static str>,
}

/// A figure: a number with its unit, or words.
#[derive(Debug, Serialize)]
struct ValueData {
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    text: String,
}

impl From<&Value> for ValueData {
    fn from(value: &Value) -> Self {
        let unit = match value {
            Value::Cycles(_) => "cycles",
            Value::Share(_) => "share",
            Value::Cores(_) | Value::NoCollapse => "cores",
            Value::Rate(_) => "operations per millisecond",
            Value::Times(_) => "ratio",
            Value::Order(_) => "order",
        };
        Self {
            unit,
            value: value.number(),
            text: value.to_string(),
        }
    }
}

/// The results as data.
pub(super) fn data(results: &[Section]) -> Data {
    let experiments = results
        .iter()
        .map(|(experiment, findings)| ExperimentData {
            name: experiment.name(),
            title: experiment.title(),
            rows: findings
                .rows
                .iter()
                .map(|row| RowData {
                    what: row.what.clone(),
                    cores: row.cores,
                    published: (&row.published).into(),
                    formula: row.closed.as_ref().map(ValueData::from),
                    simulated: (&row.simulated).into(),
                    ratio: row.error(),
                    fitted: row.given,
                    verdict: match row.verdict() {
                        Verdict::Holds => "holds",
                        Verdict::Explained => "explained",
                        Verdict::Unexplained => "unexplained",
                    },
                    explanation: row
                        .explanation
                        .filter(|_| row.verdict() == Verdict::Explained),
                })
                .collect(),
            notes: findings.notes.clone(),
        })
        .collect();
    Data {
        version: 1,
        accepted: nothing_unexplained(results),
        experiments,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use percolog_cli::output::WIDTH;
    use percolog_validation::experiments::{Experiment, Findings};
    use percolog_validation::rows::Criterion;

    fn results() -> Vec<(Experiment, Findings)> {
        let row = |what: &str, simulated| {
            let published = Value::Cycles(182.0);
            Row::new(
                what,
                Some(48),
                published,
                Value::Cycles(simulated),
                Criterion::Level,
            )
        };
        let names = ["local", "global", "basic", "lock-free"];
        let order = Value::order(&names);
        let rows = vec![
            row("holds", 200.0).given().because("never shown"),
            row("explained", 500.0).because("another machine"),
            row("for the same reason", 600.0).because("another machine"),
            Row::new("order", Some(48), order.clone(), order, Criterion::Exact),
        ];
        let findings = Findings {
            rows,
            notes: vec!["A note.".to_owned()],
        };
        vec![(Experiment::Stores, findings)]
    }

    #[test]
    fn a_line_of_the_table_fits() {
        assert!(WIDTHS.iter().sum::<usize>() + WIDTHS.len() - 1 <= WIDTH);
        for (row, Cells(words)) in results()[0]
            .1
            .rows
            .iter()
            .zip(cells(&results()[0].1.rows).0)
        {
            let (wide, words) = apart(row, words);
            assert!(line(&words).chars().count() <= WIDTH);
            assert!(wide.iter().all(|line| line.len() < WIDTH));
        }
    }

    #[test]
    fn a_reason_is_told_once_and_only_if_needed() {
        let text = markdown(&results());
        assert_eq!(text.matches("another machine").count(), 1);
        assert_eq!(text.matches("miss [1]").count(), 2);
        assert!(!text.contains("never shown"));
        assert!(
            text.contains("| holds (fitted) | 48 | 182 | — | 200 | 1.10 | holds |"),
            "{text}"
        );
        assert!(text.contains("A note."));
    }

    #[test]
    fn only_what_nobody_understands_fails() {
        let mut results = results();
        assert!(nothing_unexplained(&results) && data(&results).accepted);
        assert_eq!(
            tally(&results),
            "2 of 4 figures hold, 2 missed for a known reason, 0 for no known one."
        );
        results[0].1.rows[1].explanation = None;
        assert!(!nothing_unexplained(&results) && !data(&results).accepted);
    }
}
