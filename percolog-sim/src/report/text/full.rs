//! The figures in full: all counts, ten lines of memory, the processes.

use std::fmt::Write as _;

use super::words::{decimals, grouped, paragraph, percent, place, plural, tail, time};
use crate::report::sharing_text;
use crate::report::summary::{LineSummary, Summary, Totals};

/// How many lines of memory the text shows; the JSON has all that were kept.
const LINES: usize = 10;
/// How many places of each.
const PLACES: usize = 3;

impl Summary {
    /// All figures, as tables.
    pub(super) fn tables(&self, text: &mut String) {
        self.figures(text);
        self.worst(text);
        self.processes(text);
    }

    fn figures(&self, text: &mut String) {
        let totals = &self.totals;
        let per = |figure: Option<f64>| figure.map_or_else(String::new, decimals);
        let operation = self.per_operation;
        let head = format!(
            "{:<34}{:>16}{:>20}",
            if self.region.is_some() {
                "in the marked region"
            } else {
                "in the whole run"
            },
            "total",
            if operation.is_some() {
                "per operation"
            } else {
                ""
            }
        );
        let _ = writeln!(text, "\n{}", head.trim_end());
        let mut row = |name: &str, total: u64, each: Option<f64>| {
            let line = format!("  {name:<32}{:>16}{:>20}", grouped(total), per(each));
            let _ = writeln!(text, "{}", line.trim_end());
        };
        if let Some(region) = &self.region {
            row("operations", region.operations, None);
        }
        row(
            "transfers from core to core",
            totals.transfers,
            operation.map(|per| per.transfers),
        );
        row("  to be read", totals.reads, None);
        row("  to be written", totals.writes, None);
        row(
            "ownership upgrades",
            totals.upgrades,
            operation.map(|per| per.upgrades),
        );
        row(
            "copies invalidated",
            totals.invalidations,
            operation.map(|per| per.invalidations),
        );
        row(
            "cold lines from memory",
            totals.cold,
            operation.map(|per| per.cold),
        );
        if totals.memory > 0 {
            row("lines from memory again", totals.memory, None);
        }
        let _ = writeln!(
            text,
            "  {:<32}{:>16}   ({} in a queue)",
            "time waiting for lines",
            percent(self.stall_share),
            percent(self.queue_share)
        );
        if let Some(throughput) = self.operations_per_ms {
            let relative = match &self.one_core {
                Some(one) => format!(
                    "   ({} times one core's {})",
                    decimals(one.speedup),
                    grouped(one.operations_per_ms.round() as u64)
                ),
                None => "   (--baseline compares it with one core's)".to_owned(),
            };
            let _ = writeln!(
                text,
                "  {:<32}{:>16}{relative}",
                "operations in a millisecond",
                grouped(throughput.round() as u64)
            );
        }
        if let Some(spread) = &self.spread {
            let _ = writeln!(
                text,
                "\n{:<34}{:>16}{:>16}{:>16}",
                format!("with {} seeds", spread.seeds.len()),
                "least",
                "median",
                "most"
            );
            for figure in &spread.figures {
                let _ = writeln!(
                    text,
                    "  {:<32}{:>16}{:>16}{:>16}",
                    figure.name,
                    decimals(figure.least),
                    decimals(figure.median),
                    decimals(figure.most)
                );
            }
        }
    }

    fn worst(&self, text: &mut String) {
        if self.lines.is_empty() {
            text.push('\n');
            paragraph(text, &self.nothing_moved(), "  ");
            return;
        }
        let shown = self.lines.len().min(LINES);
        let of = if self.lines_seen > shown as u64 {
            format!(" (the worst {shown} of {})", grouped(self.lines_seen))
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "\n{:<46}{:>11}{:>10}{:>11}{:>9}{:>9}",
            format!("lines by waiting{of}"),
            "transfers",
            "upgrades",
            "of waiting",
            "readers",
            "writers"
        );
        for line in self.lines.iter().take(LINES) {
            line_of_memory(text, line, self.not_reproducible.is_empty());
        }
    }

    fn processes(&self, text: &mut String) {
        if self.processes.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "\n{:<55}{:>9}{:>18}{:>16}",
            "processes (the figures above are of one)", "threads", "time", "transfers"
        );
        for process in self.processes.iter().take(LINES) {
            let _ = writeln!(
                text,
                "  {:<53}{:>9}{:>18}{:>16}",
                tail(&process.program, 52),
                grouped(process.threads),
                time(process.elapsed_ns),
                grouped(process.transfers)
            );
        }
        if self.processes.len() > LINES {
            let _ = writeln!(text, "  and {} more", self.processes.len() - LINES);
        }
    }
}

fn line_of_memory(text: &mut String, line: &LineSummary, reproducible: bool) {
    let Totals {
        transfers,
        upgrades,
        ..
    } = line.totals;
    let name = match &line.label {
        Some(label) => format!("{label}: {}", line.memory),
        None => line.memory.clone(),
    };
    let head = format!("{:#x} {name}", line.address);
    let figures = format!(
        "{:>11}{:>10}{:>11}{:>9}{:>9}",
        grouped(transfers),
        grouped(upgrades),
        percent(line.share),
        line.readers.len(),
        line.writers.len()
    );
    if head.chars().count() <= 44 {
        let _ = writeln!(text, "  {head:<44}{figures}");
    } else {
        // A long name has a line of its own.
        paragraph(text, &format!("  {head}"), "      ");
        let _ = writeln!(text, "{:<46}{figures}", "");
    }
    let places = line.user_places();
    for at in places.iter().take(PLACES) {
        let several = match at.count() {
            1 => String::new(),
            count => format!(" by {}", plural(count as u64, "instruction")),
        };
        paragraph(
            text,
            &format!(
                "      {} {}, {}{several}",
                at.verb(),
                place(at.place()),
                percent(at.share())
            ),
            "          ",
        );
    }
    if places.len() > PLACES {
        let more = places.len() - PLACES;
        let _ = writeln!(text, "      and in {}", plural(more as u64, "more place"));
    }
    for found in sharing_text::of_line(line, reproducible) {
        paragraph(text, &format!("      {found}"), "          ");
    }
}
