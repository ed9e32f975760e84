//! A report for people: plain text, a hundred columns wide.

use std::fmt::Write as _;

use super::raw::Ending;
use super::summary::{LineSummary, SleeperSummary, Summary, Totals};

/// The widest line of a report.
const WIDTH: usize = 100;
/// How many lines of memory the text shows; the JSON has all that were kept.
const LINES: usize = 10;
/// How many places of each.
const PLACES: usize = 3;

impl Summary {
    /// The report as text: lines of at most 100 columns, without colours.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // First what the figures say nothing about: nobody should have read them before.
        if !self.unsimulated.is_empty() {
            paragraph(
                &mut text,
                &format!("NOT SIMULATED: {}", self.unsimulated.join("; ")),
                "  ",
            );
        }
        self.heading(&mut text);
        self.deadlock(&mut text);
        self.figures(&mut text);
        self.worst(&mut text);
        self.processes(&mut text);
        self.doubts(&mut text);
        text
    }

    fn heading(&self, text: &mut String) {
        let (machine, process) = (&self.machine, &self.process);
        paragraph(
            text,
            &format!(
                "{} on {}: {} at {} MHz, simulated",
                process.program,
                machine.name,
                plural(machine.cores as u64, "core"),
                machine.megahertz
            ),
            "  ",
        );
        let how = match process.ending {
            Ending::Exit if process.exit_code == 0 => String::new(),
            Ending::Exit => format!("; it ended with status {}", process.exit_code),
            Ending::Signal if process.exit_code != 0 => {
                format!("; it was killed by signal {}", process.exit_code)
            }
            Ending::Signal => "; it was killed by a signal".to_owned(),
            Ending::Deadlock => "; then all its threads slept".to_owned(),
            Ending::Exec => "; then it became another program".to_owned(),
            Ending::Running => "; it had not ended".to_owned(),
        };
        let timed_out = if self.timed_out {
            ", for it took too long"
        } else {
            ""
        };
        paragraph(
            text,
            &format!(
                "{}, {}, {} of its time{how}{timed_out}",
                plural(process.threads, "thread"),
                plural(process.instructions, "instruction"),
                time(process.elapsed_ns),
            ),
            "  ",
        );
    }

    fn deadlock(&self, text: &mut String) {
        if self.process.ending != Ending::Deadlock {
            return;
        }
        text.push('\n');
        paragraph(
            text,
            "DEADLOCK: every thread sleeps, and nobody is there to wake one",
            "  ",
        );
        let mut left: Vec<&SleeperSummary> = self.sleepers.iter().collect();
        while let Some(first) = left.first().copied() {
            let same = |other: &SleeperSummary| {
                (&other.why, other.address, other.pc) == (&first.why, first.address, first.pc)
            };
            let threads: Vec<u64> = left
                .iter()
                .filter(|other| same(other))
                .map(|other| other.thread)
                .collect();
            left.retain(|other| !same(other));
            let at = match (&first.memory, first.address) {
                (Some(memory), Some(address)) => format!(" at {address:#x} ({memory})"),
                _ => String::new(),
            };
            paragraph(
                text,
                &format!(
                    "  {}: {}{at}, in {}",
                    numbers(&threads, "thread"),
                    first.why,
                    place(&first.place)
                ),
                "      ",
            );
        }
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
            let _ = writeln!(text, "\nno line of memory went from core to core");
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
            line_of_memory(text, line);
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

    fn doubts(&self, text: &mut String) {
        text.push('\n');
        if self.not_reproducible.is_empty() {
            paragraph(
                text,
                "reproducible: another run with this seed gives the same figures",
                "  ",
            );
        } else {
            let hint = if self.spread.is_some() {
                ""
            } else {
                " (--seeds 5 shows the spread)"
            };
            paragraph(
                text,
                &format!(
                    "not reproducible: {}{hint}",
                    self.not_reproducible.join("; ")
                ),
                "  ",
            );
        }
        for warning in &self.warnings {
            paragraph(text, &format!("warning: {warning}"), "  ");
        }
        if self.forced > 0 || self.unordered > 0 {
            paragraph(
                text,
                &format!(
                    "out of order: accesses let go before their turn because the emulator needed the thread: {}; \
                     accesses counted only after they were made: {}",
                    grouped(self.forced),
                    grouped(self.unordered),
                ),
                "  ",
            );
        }
        paragraph(
            text,
            &format!("not modelled: {}", self.not_modelled.join(", ")),
            "  ",
        );
    }
}

fn line_of_memory(text: &mut String, line: &LineSummary) {
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
    for at in line.places.iter().take(PLACES) {
        let verb = if at.write { "written" } else { "read" };
        paragraph(
            text,
            &format!(
                "      {verb} in {}, {}",
                place(&at.place),
                percent(at.share)
            ),
            "          ",
        );
    }
    if line.places.len() > PLACES {
        let more = line.places.len() - PLACES;
        let _ = writeln!(text, "      and in {}", plural(more as u64, "more place"));
    }
}

fn place(place: &super::Place) -> String {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{} ({}:{line})", place.function, tail(file, 50)),
        (Some(file), None) => format!("{} ({})", place.function, tail(file, 50)),
        _ => place.function.clone(),
    }
}

/// The last `most` columns of a path, from a slash on if there is one.
fn tail(path: &str, most: usize) -> String {
    let length = path.chars().count();
    if length <= most {
        return path.to_owned();
    }
    let end: String = path.chars().skip(length + 1 - most).collect();
    match end.find('/') {
        Some(slash) if slash + 1 < end.len() => format!("…{}", &end[slash..]),
        _ => format!("…{end}"),
    }
}

/// `thread 3`, `47 threads: 1-47`.
fn numbers(numbers: &[u64], noun: &str) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let ranges: Vec<String> = ranges
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{noun}{plural} {}", ranges.join(", "))
}

/// Breaks `words` into lines that fit; all but the first begin with `indent`.
fn paragraph(text: &mut String, words: &str, indent: &str) {
    let lead: String = words.chars().take_while(|sign| *sign == ' ').collect();
    let mut line = lead;
    let mut empty = true;
    for word in words.split_whitespace() {
        let mut word = word;
        loop {
            let room = WIDTH.saturating_sub(line.chars().count() + usize::from(!empty));
            let length = word.chars().count();
            if length <= room {
                break;
            }
            if !empty {
                text.push_str(&line);
                text.push('\n');
                indent.clone_into(&mut line);
                empty = true;
                continue;
            }
            // Longer than a line: a C++ name, or a path.
            let cut = word
                .char_indices()
                .nth(room)
                .map_or(word.len(), |(at, _)| at);
            let (here, there) = word.split_at(cut);
            text.push_str(&line);
            text.push_str(here);
            text.push('\n');
            indent.clone_into(&mut line);
            word = there;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn plural(count: u64, noun: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {noun}{s}", grouped(count))
}

/// `24 000`: thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Three digits, at least two behind the point for small figures.
fn decimals(figure: f64) -> String {
    if figure >= 10_000.0 {
        grouped(figure.round() as u64)
    } else if figure >= 100.0 {
        format!("{figure:.0}")
    } else if figure >= 10.0 {
        format!("{figure:.1}")
    } else if figure > 0.0 && figure < 0.0995 {
        // Two digits that count: 0 is a promise.
        let places = (-figure.log10()).floor().clamp(0.0, 8.0) as usize + 2;
        format!("{figure:.places$}")
    } else {
        format!("{figure:.2}")
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn time(nanoseconds: f64) -> String {
    if nanoseconds >= 1e9 {
        format!("{:.2} s", nanoseconds / 1e9)
    } else if nanoseconds >= 1e6 {
        format!("{:.2} ms", nanoseconds / 1e6)
    } else if nanoseconds >= 1e3 {
        format!("{:.2} µs", nanoseconds / 1e3)
    } else {
        format!("{nanoseconds:.0} ns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_what_matters() {
        for (figure, text) in [
            (0.0, "0.00"),
            (0.000_417, "0.00042"),
            (0.05, "0.050"),
            (0.25, "0.25"),
            (1.0, "1.00"),
            (53.2, "53.2"),
            (1364.4, "1364"),
            (49_963.0, "49 963"),
        ] {
            assert_eq!(decimals(figure), text);
        }
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(9999), "9999");
        assert_eq!(time(1_500.0), "1.50 µs");
    }

    #[test]
    fn paragraphs_fit_whatever_the_words() {
        let mut text = String::new();
        let long = "x".repeat(250);
        paragraph(
            &mut text,
            &format!("  a few words, {long} and {}", "more words ".repeat(30)),
            "    ",
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert_eq!(text.matches('x').count(), 250);
        assert!(text.starts_with("  a few words,\n"), "{text}");
    }

    #[test]
    fn threads_are_named_in_ranges() {
        assert_eq!(numbers(&[3], "thread"), "thread 3");
        assert_eq!(
            numbers(&[0, 1, 2, 5, 7, 8], "thread"),
            "threads 0-2, 5, 7-8"
        );
    }

    #[test]
    fn paths_keep_their_ends() {
        assert_eq!(tail("src/main.rs", 50), "src/main.rs");
        assert_eq!(
            tail("/a/very/long/path/to/src/main.rs", 14),
            "…/src/main.rs"
        );
        assert_eq!(tail("abcdefghij", 5), "…ghij");
    }
}
