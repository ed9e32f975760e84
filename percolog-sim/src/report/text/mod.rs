//! A report for people: plain text, a hundred columns wide.
//!
//! The first screen says whose fault it is: the speed-up, where it stops growing, and the lines that are in the way, the worst
//! first. All other figures follow where they are asked for.

mod curve;
mod diff;
mod full;
mod line;
mod words;

pub(super) use line::noted;
pub(super) use words::{decimals, grouped, plural, time};
use words::{numbers, paragraph, percent, place};

use super::summary::{SleeperSummary, Summary};
use crate::raw::Ending;

/// The widest line of a report.
const WIDTH: usize = 100;
/// How many contended lines the first screen shows.
const WORST: usize = 5;
/// Of how many of them all is said.
const WHOLE: usize = 2;

impl Summary {
    /// The report as text, on about a screen: lines of at most 100 columns, without colours.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.text(false)
    }

    /// The report as text, with all figures.
    #[must_use]
    pub fn to_full_text(&self) -> String {
        self.text(true)
    }

    /// What is in the way and what would take its place, as text: the conclusion first.
    #[must_use]
    pub fn to_advice(&self) -> String {
        let mut text = self.first_lines();
        paragraph(&mut text, &self.conclusion(), "");
        text.push('\n');
        self.heading(&mut text);
        self.deadlock(&mut text);
        self.speed(&mut text);
        if self.is_contended() {
            text.push('\n');
            for (index, line) in self.culprits(WORST).enumerate() {
                let is_reproducible = self.not_reproducible.is_empty();
                line::line(
                    &mut text,
                    index + 1,
                    line,
                    line::Say::Advice,
                    is_reproducible,
                );
            }
        }
        self.doubts(&mut text);
        text
    }

    fn text(&self, full: bool) -> String {
        let mut text = self.first_lines();
        for free in &self.free {
            paragraph(
                &mut text,
                &format!(
                    "FREE: {} ({}) costs nothing here, though it was asked for {}",
                    free.name,
                    plural(free.lines, "line"),
                    plural(free.events, "time")
                ),
                "  ",
            );
        }
        self.heading(&mut text);
        if let Some(skipped) = &self.skipped {
            paragraph(&mut text, &skipped.to_string(), "  ");
        }
        self.deadlock(&mut text);
        self.speed(&mut text);
        self.waiting(&mut text);
        self.contended(&mut text);
        if full {
            self.tables(&mut text);
        }
        self.doubts(&mut text);
        text
    }

    /// What the figures say nothing about, as text: what was not simulated, and all [caveats](super::Caveat). Empty if there is
    /// nothing to say. Every report begins with it: nobody should read the figures before.
    #[must_use]
    pub fn first_lines(&self) -> String {
        let mut text = String::new();
        if !self.unsimulated.is_empty() {
            let all = self.unsimulated.join("; ");
            paragraph(&mut text, &format!("NOT SIMULATED: {all}"), "  ");
        }
        for caveat in &self.caveats {
            let line = format!("{}: {}", caveat.kind.heading(), caveat.text);
            paragraph(&mut text, &line, "  ");
        }
        text
    }

    fn heading(&self, text: &mut String) {
        let (machine, process) = (&self.machine, &self.process);
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
            Ending::Stopped => "; it was ended on purpose, as `--for` asks".to_owned(),
        };
        let timed_out = if self.timed_out {
            ", for it took too long"
        } else {
            ""
        };
        paragraph(
            text,
            &format!(
                "{} on {}: {} at {} MHz, simulated; {}, {} of its time{how}{timed_out}",
                process.program,
                machine.name,
                plural(machine.cores as u64, "core"),
                machine.megahertz,
                process.threads_of_processes(),
                time(process.elapsed_ns),
            ),
            "  ",
        );
    }

    /// How fast it is, and how that grows with the number of cores.
    fn speed(&self, text: &mut String) {
        if let Some(scaling) = &self.scaling {
            let sentence = scaling.sentence().unwrap_or_else(|| {
                "how it scales is not known: only one number of cores has figures".to_owned()
            });
            paragraph(
                text,
                &format!(
                    "speed-up: {sentence}; compared by {}",
                    scaling.measure.text()
                ),
                "  ",
            );
            curve::curve(text, scaling);
        } else if let (Some(one), Some(throughput)) = (&self.one_core, self.operations_per_ms) {
            paragraph(
                text,
                &format!(
                    "speed-up: {} cores are {} times as fast as one: {} operations a millisecond, one core does {}",
                    self.machine.cores,
                    decimals(one.speedup),
                    grouped(throughput.round() as u64),
                    grouped(one.operations_per_ms.round() as u64),
                ),
                "  ",
            );
        } else {
            let speed = match self.operations_per_ms {
                Some(throughput) => format!(
                    "{} operations a millisecond",
                    grouped(throughput.round() as u64)
                ),
                None => "not known".to_owned(),
            };
            paragraph(
                text,
                &format!(
                    "speed-up: {speed}; --sweep 1,2,4,…,{} shows how it grows",
                    self.machine.cores
                ),
                "  ",
            );
        }
    }

    /// How much of the time is lost, and above all for what.
    fn waiting(&self, text: &mut String) {
        let where_ = if self.region.is_some() {
            "of the time in the marked region"
        } else {
            "of the cores' time"
        };
        let mut words = format!(
            "waiting for lines: {} {where_} ({} in queues)",
            percent(self.stall_share),
            percent(self.queue_share)
        );
        if let Some(per) = &self.per_operation {
            words.push_str(&format!(
                "; an operation moves {} and upgrades {}",
                decimals(per.transfers),
                decimals(per.upgrades)
            ));
        }
        if let Some(worst) = self.lines.first().filter(|_| self.is_contended()) {
            words.push_str(&format!(
                "; {} of it for {}",
                percent(worst.share),
                worst.name()
            ));
            if let Some(user) = worst.worst_users().first()
                && let (Some(file), Some(line)) = (&user.place().file, user.place().line)
            {
                words.push_str(&format!(" ({}:{line})", words::tail(file, 40)));
            }
        }
        paragraph(text, &words, "  ");
    }

    fn contended(&self, text: &mut String) {
        if self.lines.is_empty() {
            paragraph(text, &self.nothing_moved(), "  ");
            return;
        }
        if self.culprits(1).next().is_none() {
            text.push_str("no line of memory is waited for\n");
            return;
        }
        let head = if self.is_contended() {
            "contended lines of memory, by their share of all waiting"
        } else {
            "nothing is contended; the lines that are waited for, by their share of that little"
        };
        text.push_str(&format!("\n{head}\n"));
        for (index, line) in self.culprits(WORST).enumerate() {
            let say = if index < WHOLE {
                line::Say::Whole
            } else {
                line::Say::Short
            };
            let is_reproducible = self.not_reproducible.is_empty();
            line::line(text, index + 1, line, say, is_reproducible);
        }
        let shown = self.culprits(WORST).count() as u64;
        if self.lines_seen > shown {
            text.push_str(&format!(
                "    and {} that went from core to core\n",
                plural(self.lines_seen - shown, "more line")
            ));
        }
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

#[cfg(test)]
mod tests {
    use super::super::examples::{known, run};
    use super::super::{ObjectWhatIf, Scaling, ScalingPoint};
    use super::*;

    /// A report about which all is known, with as many lines.
    fn report(lines: usize) -> Summary {
        let mut summary = run().summary();
        let mut line = summary.lines[0].clone();
        known(&mut line);
        line.share = 0.6;
        line.label = None;
        summary.lines = vec![line; lines];
        summary.lines_seen = lines as u64;
        let point = |cores: usize, speed: f64| ScalingPoint {
            cores,
            operations_per_ms: Some(speed),
            ..ScalingPoint::default()
        };
        let points = vec![point(1, 10.0), point(2, 18.0), point(4, 6.0)];
        summary.with_scaling(Scaling::of(points, None))
    }

    #[test]
    fn the_culprit_is_on_the_first_lines() {
        let text = report(3).to_text();
        let first: Vec<&str> = text.lines().take(12).collect();
        let first = first.join("\n");
        for part in [
            "4 cores are slower than one",
            "it stops growing at 2 cores (1.8 times)",
            "60.0 % of it for new",
            "(main.c:3)",
        ] {
            let one_line = first.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(one_line.contains(part), "{first} lacks {part}");
        }
    }

    #[test]
    fn all_that_is_known_of_a_line_is_said() {
        let text = report(1).to_text();
        for part in [
            " 1   60.0 %  new: on the heap, 80 bytes, allocated in main\n",
            "             shared truly and falsely: read by 1 core, written by 2; bytes 8-11 (count)\n",
            "             written in main (main.c:3)\n",
            "             what if it cost nothing: 3.5 times as fast\n",
            "             → Move it.\n",
        ] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
        let advice = report(1).to_advice();
        assert!(
            advice.starts_with("It stops growing at 2 cores: 56 % of the time goes into waiting"),
            "{advice}"
        );
    }

    #[test]
    fn a_gain_of_a_lock_says_what_it_leaves_out() {
        let mut report = report(1);
        let said = "a lock: as if nobody held it when another wants it";
        let texts = |report: &Summary| {
            [
                report.to_text(),
                report.to_full_text(),
                report.to_advice(),
                report.conclusion(),
            ]
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        for text in texts(&report) {
            assert!(!text.contains(said), "{text}");
        }
        let gain = report.lines[0].what_if.as_mut().expect("it is known");
        gain.never_held = true;
        for text in texts(&report) {
            assert!(text.contains(said), "{text}");
        }
        for line in report.to_text().lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn a_place_is_named_once_for_all_its_instructions() {
        let mut report = report(1);
        let line = &mut report.lines[0];
        line.places[0].share = 0.5;
        for (pc, write, share) in [(72, true, 0.25), (80, false, 0.125)] {
            let mut further = line.places[0].clone();
            (further.pc, further.write, further.share) = (pc, write, share);
            line.places.push(further);
        }
        let text = report.to_text();
        let said = "             written and read in main (main.c:3), by 3 instructions (87.5 %)\n";
        assert!(text.contains(said), "{text}");
        let said = "      written and read in main (main.c:3), 87.5 % by 3 instructions\n";
        let full = report.to_full_text();
        assert!(full.contains(said), "{full}");
        assert!(!full.contains("more place"), "{full}");
    }

    #[test]
    fn lines_that_were_free_together_are_named() {
        let mut report = report(2);
        let line = &mut report.lines[0];
        let gain = line.what_if.take().expect("it is known");
        line.what_if_object = Some(ObjectWhatIf {
            gain,
            lines: (1..6).map(|line| line * 64).collect(),
        });
        let said = "what if its 5 contended lines cost nothing: 3.5 times as fast; free were 0x40, 0x80, 0xc0 and 2 more";
        let one_line = |text: String| text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let text = one_line(report.to_text());
        assert!(text.contains(said), "{text}");
        let full = one_line(report.to_full_text());
        assert!(
            full.contains("free were 0x40, 0x80, 0xc0, 0x100, 0x140"),
            "{full}"
        );
        let advice = one_line(report.to_advice());
        assert!(
            advice.contains("Without its 5 contended lines it would be 3.5 times as fast."),
            "{advice}"
        );
    }

    #[test]
    fn it_fits_a_screen_whatever_is_found() {
        let mut report = report(20);
        report.lines_seen = 123_456;
        let text = report.to_text();
        assert!(text.lines().count() <= 50, "{text}");
        for line in &mut report.lines {
            line.places[0].place.function = "a::very::long::name".repeat(20);
            line.places[0].frames[0].function = "another".repeat(20);
            if let Some(object) = &mut line.object {
                object.name = "an object".repeat(20);
            }
            if let Some(suggestion) = &mut line.suggestion {
                suggestion.text = "A lot: to say. ".repeat(20);
            }
        }
        for text in [report.to_text(), report.to_full_text(), report.to_advice()] {
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
        assert!(report.to_full_text().contains("ownership upgrades"));
    }

    #[test]
    fn nothing_contended_is_said_so() {
        let mut report = report(1);
        report.stall_share = 0.01;
        report.busy_share = 0.9;
        let text = report.to_text();
        assert!(text.contains("\nnothing is contended"), "{text}");
        assert!(
            report
                .conclusion()
                .starts_with("No line is in the way, but")
        );
        report.scaling = None;
        assert!(report.conclusion().starts_with("Nothing here is contended"));
        report.lines.clear();
        assert!(report.to_text().contains("no line of memory went"));
    }
}
