//! The demonstration on a terminal: lines of at most [`WIDTH`](percolog_cli::output::WIDTH) columns that say the same without colours.

use std::path::Path;

use super::duel::{Cell, Duel};
use super::program::{self, Changed};
use super::simulate::{Point, Simulated};
use percolog_cli::format::{left, number, plural, ratio, right, wrap};
use percolog_cli::output::Output;

/// The column of names.
const NAME: usize = 26;
/// A column of figures.
const FIGURE: usize = 12;
/// What names a paragraph's first line.
const KEY: usize = 12;

/// The lines that the fix changes, as a difference shows them.
pub(super) fn fix() -> Vec<String> {
    program::fix()
        .into_iter()
        .map(|changed| match changed {
            Changed::Removed(line) => format!("- {line}"),
            Changed::Added(line) => format!("+ {line}"),
        })
        .collect()
}

/// Find, fix, and the simulated half of the proof.
pub(super) fn simulated(output: &Output, run: &Simulated, stored: Option<&str>) -> String {
    let found = &run.found;
    let cores = run.machine.cores;
    let (before, after) = run.growth();
    let mut text = String::new();
    if let Some(why) = stored {
        let note = wrap(
            &format!(
                "STORED RUN: nothing can be simulated here: {why}. What follows was simulated with percolog {} and QEMU {}.",
                run.percolog, run.qemu
            ),
            "",
        );
        text.push_str(&format!("{}\n\n", output.warning(&note)));
    }
    text.push_str(&format!(
        "{}\n",
        output.strong(&format!(
            "FIND   a small server on {cores} simulated cores ({}, QEMU {})",
            run.machine.name, run.qemu
        ))
    ));
    text.push_str(&paragraph(
        "speed",
        &format!(
            "{cores} cores answer {} as many requests as one; {:.0} % of their time goes into waiting for cache lines",
            ratio(before),
            found.stall_share * 100.0
        ),
    ));
    text.push_str(&paragraph(
        "the line",
        &format!(
            "{:.0} % of the waiting is for {}: {}",
            found.share * 100.0,
            found.name,
            found.users
        ),
    ));
    text.push_str(&paragraph(
        "the code",
        &format!("{} in {}", found.place.shown(), found.place.function),
    ));
    text.push_str(&paragraph("what helps", &found.advice));
    text.push_str(&paragraph(
        "foretold",
        &format!(
            "{} as fast if that line cost nothing",
            exactly(found.foretold)
        ),
    ));
    text.push_str(&format!(
        "\n{}\n",
        output.strong("FIX    two lines of a diff")
    ));
    for line in fix() {
        let line = format!("  {line}");
        let styled = if line.starts_with("  +") {
            output.good(&line)
        } else {
            output.bad(&line)
        };
        text.push_str(&format!("{styled}\n"));
    }
    text.push_str(&format!(
        "\n{}\n",
        output.strong(&format!(
            "PROVED {} foretold, {} real on {cores} simulated cores",
            exactly(found.foretold),
            exactly(run.real())
        ))
    ));
    text.push_str(&points(output, run));
    text.push_str(&wrap(
        &format!(
            "{cores} cores are {} as fast as one now, and were {}.",
            ratio(after),
            ratio(before)
        ),
        "  ",
    ));
    text.push_str("\n\n");
    text
}

/// A ratio that is to be compared with another: with a digit more.
pub(super) fn exactly(ratio: f64) -> String {
    format!("{ratio:.1}×")
}

/// `  key   text`, wrapped.
fn paragraph(key: &str, text: &str) -> String {
    let indent = " ".repeat(KEY + 2);
    let wrapped = wrap(text, &indent);
    let body = wrapped.strip_prefix(&indent).unwrap_or(&wrapped);
    format!("  {}{body}\n", left(key, KEY))
}

/// Requests a millisecond by number of cores.
fn points(output: &Output, run: &Simulated) -> String {
    let row = |name: &str, figure: &dyn Fn(&Point, &Point) -> String| {
        let mut line = left(&format!("  {name}"), NAME);
        for (before, after) in run.before.iter().zip(&run.after) {
            line.push_str(&right(&figure(before, after), FIGURE));
        }
        line
    };
    let head = row("simulated cores", &|before, _| before.cores.to_string());
    [
        output.faint(&head),
        row("requests a ms, before", &|before, _| number(before.per_ms)),
        row("requests a ms, after", &|_, after| number(after.per_ms)),
        row("times as fast", &|before, after| {
            ratio(after.per_ms / before.per_ms)
        }),
        row("lines moved, before", &|before, _| number(before.transfers)),
        row("lines moved, after", &|_, after| number(after.transfers)),
    ]
    .map(|line| line.trim_end().to_owned() + "\n")
    .concat()
}

/// The measured half of the proof.
pub(super) fn measured(output: &Output, duel: &Duel) -> String {
    let heading = format!(
        "MEASURED on this machine: {}, {}",
        super::chart::short(&duel.processor, 50),
        plural(duel.cpus as u64, "CPU")
    );
    let mut text = format!("{}\n", output.strong(&heading));
    let columns = |name: &str, cells: [&str; 6]| {
        let mut line = left(&format!("  {name}"), 10);
        for cell in cells {
            line.push_str(&right(cell, 14));
        }
        line.trim_end().to_owned()
    };
    text.push_str(&output.faint(&columns(
        "threads",
        [
            "before",
            "after",
            "faster",
            "CPU before",
            "CPU after",
            "less CPU",
        ],
    )));
    text.push('\n');
    let known = |figure: Option<f64>, show: &dyn Fn(f64) -> String| {
        figure.map_or_else(|| "unknown".to_owned(), show)
    };
    let time = |ns: f64| format!("{} ns", number(ns));
    for row in &duel.rows {
        let cpu = |cell: &Cell| known(cell.cpu_ns, &time);
        let mut line = columns(
            &row.threads.to_string(),
            [
                &time(row.before.wall_ns),
                &time(row.after.wall_ns),
                &ratio(row.faster),
                &cpu(&row.before),
                &cpu(&row.after),
                &known(row.faster_by_cpu, &ratio),
            ],
        );
        if row.is_disturbed() {
            line.push_str(" !");
        }
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&output.faint("  (a request on its thread: time, and CPU time; medians)"));
    text.push('\n');
    if let Some(doubt) = duel.doubt() {
        text.push_str(&format!(
            "{}\n",
            output.warning(&wrap(&format!("! {doubt}"), "  "))
        ));
    }
    if duel.cpus < 8 {
        text.push_str(&wrap(
            "So few CPUs show little of it: that is why the larger machine is simulated.",
            "  ",
        ));
        text.push('\n');
    }
    text.push('\n');
    text
}

/// Where the page is, and what to do next.
pub(super) fn end(output: &Output, page: &Path) -> String {
    format!(
        "The page with charts: {}\nFor a program of yours: percolog advise -- ./program {{n}}\n",
        output.strong(&page.display().to_string())
    )
}

#[cfg(test)]
mod tests {
    use super::super::duel::Row;
    use super::super::stored::stored;
    use super::*;
    use percolog_cli::output::WIDTH;

    fn duel() -> Duel {
        let cell = Cell {
            per_ms: 123_456.7,
            wall_ns: 1234.5,
            cpu_ns: Some(1234.5),
        };
        let row = |threads, had| Row {
            threads,
            before: cell,
            after: Cell {
                cpu_ns: None,
                ..cell
            },
            faster: 1.0,
            faster_by_cpu: None,
            had,
        };
        Duel {
            processor:
                "A processor with a name that is longer than any that anybody has seen so far"
                    .to_owned(),
            cpus: 2,
            rows: vec![row(1, None), row(512, Some(0.5))],
        }
    }

    #[test]
    fn everything_fits_the_terminal() {
        let output = Output::new(true, false);
        let run = stored().expect("it can be read");
        let why = "qemu-x86_64 is not here; install Debian's package `qemu-user` (version 7.2), or name the program in PERCOLOG_QEMU";
        for text in [
            simulated(&output, &run, None),
            simulated(&output, &run, Some(why)),
            measured(&output, &duel()),
        ] {
            for line in text.lines() {
                assert!(console::measure_text_width(line) <= WIDTH, "{line}");
                assert!(!line.contains('\u{1b}'), "{line}");
            }
        }
    }

    #[test]
    fn a_stored_run_and_a_disturbed_measurement_say_so() {
        let output = Output::new(true, false);
        let run = stored().expect("it can be read");
        let text = simulated(&output, &run, Some("there is no QEMU"));
        assert!(text.starts_with("STORED RUN: nothing can be simulated here: there is no QEMU."));
        assert!(!simulated(&output, &run, None).contains("STORED"));
        let text = measured(&output, &duel());
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("only 50 %"), "{text}");
        assert!(
            text.lines()
                .any(|line| line.starts_with("  512") && line.ends_with(" !"))
        );
    }
}
