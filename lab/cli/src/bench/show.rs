//! A table of rates, or of how long operations took; and the same as data.

use percolog_cells::Values;
use percolog_figures::store::{Build, Found, Host};
use serde::Serialize;

use super::{Arguments, Row};
use percolog_cli::failure::Failure;
use percolog_cli::format::{self, left, right};
use percolog_cli::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Data<'a> {
    build: Build,
    host: Host,
    machine: &'a str,
    structure: &'a str,
    /// Of a million operations.
    reads: u32,
    keys: u64,
    skew: f64,
    rate: Option<u64>,
    cells: Vec<&'a Found>,
}

/// Shows them.
pub(super) fn show(
    arguments: &Arguments,
    rows: &[Row],
    output: &mut Output,
) -> Result<(), Failure> {
    if output.is_json() {
        return output.data(&Data {
            build: Build::this(),
            host: Host::describe(),
            machine: arguments.machine.as_deref().unwrap_or("here"),
            structure: &arguments.kind,
            reads: arguments.reads,
            keys: arguments.keys,
            skew: arguments.distribution as f64 / 1000.0,
            rate: arguments.rate,
            cells: rows.iter().flat_map(|row| &row.cells).collect(),
        });
    }
    let mut text = String::new();
    let place = match &arguments.machine {
        Some(machine) => format!("simulated on {machine}"),
        None => "measured here".to_owned(),
    };
    let skew = match arguments.distribution {
        0 => "uniform".to_owned(),
        skew => format!("Zipf {}", skew as f64 / 1000.0),
    };
    let heading = output.strong(&format!(
        "{}: {} % reads, {} keys, {skew}, {place}",
        arguments.kind,
        f64::from(arguments.reads) / 10_000.0,
        arguments.keys
    ));
    text.push_str(&heading);
    text.push_str("\n\n");
    match arguments.rate {
        None => rates(rows, output, &mut text),
        Some(rate) => times(rows, rate, output, &mut text),
    }
    failures(rows, output, &mut text);
    output.write(&text)
}

fn thread_counts(rows: &[Row]) -> Vec<u64> {
    let first = rows.first().into_iter();
    first
        .flat_map(|row| row.cells.iter().map(|cell| cell.x))
        .collect()
}

/// A column.
const COLUMN: usize = 11;

fn rates(rows: &[Row], output: &Output, text: &mut String) {
    let counts = thread_counts(rows);
    // What does not fit goes into further tables.
    for part in counts.chunks(6) {
        let mut heads = left("million operations a second", 30);
        for threads in part {
            heads.push_str(&right(&format::threads(*threads as usize), COLUMN));
        }
        text.push_str(&output.faint(&heads));
        text.push('\n');
        let best: Vec<f64> = part
            .iter()
            .map(|threads| {
                let rates = rows.iter().filter_map(|row| rate_at(row, *threads));
                rates.fold(0.0, f64::max)
            })
            .collect();
        for row in rows {
            let mark = if row.subject.is_ours() { "* " } else { "  " };
            text.push_str(&left(&format!("{mark}{}", row.subject.name()), 30));
            for (threads, best) in part.iter().zip(&best) {
                let cell = match rate_at(row, *threads) {
                    None => right("—", COLUMN),
                    Some(rate) => {
                        let cell = right(&format::number(rate / 1e6), COLUMN);
                        if rate >= *best {
                            output.good(&cell)
                        } else {
                            cell
                        }
                    }
                };
                text.push_str(&cell);
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text.push_str(
        &output.faint("* percolog's; medians; with more threads than processors they take turns"),
    );
    text.push('\n');
}

fn rate_at(row: &Row, threads: u64) -> Option<f64> {
    let cell = row.cells.iter().find(|cell| cell.x == threads)?;
    Some(cell.median(Values::RATE)?.median)
}

fn times(rows: &[Row], rate: u64, output: &Output, text: &mut String) {
    text.push_str(&format!(
        "Operations are due {rate} a second, and each is timed from the moment at which it was due.\n\n"
    ));
    let mut heads = left("microseconds", 30);
    for head in [
        "threads",
        "median",
        "99 %",
        "99.9 %",
        "longest",
        "of the rate",
    ] {
        heads.push_str(&right(head, COLUMN));
    }
    text.push_str(&output.faint(&heads));
    text.push('\n');
    for row in rows {
        let mark = if row.subject.is_ours() { "* " } else { "  " };
        let mut name = format!("{mark}{}", row.subject.name());
        for cell in &row.cells {
            text.push_str(&left(&name, 30));
            name.clear();
            text.push_str(&right(&cell.x.to_string(), COLUMN));
            for value in ["p50_ns", "p99_ns", "p999_ns", "longest_ns"] {
                let shown = cell.median(value).map_or_else(
                    || "—".to_owned(),
                    |time| format::number(time.median / 1000.0),
                );
                text.push_str(&right(&shown, COLUMN));
            }
            let reached = cell.median(Values::RATE).map_or_else(
                || "—".to_owned(),
                |found| format!("{:.0} %", 100.0 * found.median / rate as f64),
            );
            text.push_str(&right(&reached, COLUMN));
            text.push('\n');
        }
    }
    text.push('\n');
    text.push_str(&output.faint("* percolog's; medians of the repetitions"));
    text.push('\n');
}

fn failures(rows: &[Row], output: &Output, text: &mut String) {
    for row in rows {
        for cell in &row.cells {
            if let Some(why) = &cell.failure {
                let line = format!(
                    "{}, {}: {why}",
                    row.subject.name(),
                    format::threads(cell.x as usize)
                );
                text.push_str(&output.bad(&format::wrap(&line, "  ")));
                text.push('\n');
            }
        }
    }
}
