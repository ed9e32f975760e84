//! What a report comes to, in one or two sentences.

use super::findings::{Pattern, Suggestion, Verdict};
use super::summary::{LineSummary, Summary};
use super::text::{noted, plural};

/// Less waiting than this, as a share of time, is in nobody's way.
const LITTLE: f64 = 0.05;
/// A program that reaches this share of what its cores could do scales.
const SCALES: f64 = 0.8;
/// Cores that have a thread for less than this share of the time are idle.
const IDLE: f64 = 0.5;

impl Summary {
    /// Whether lines of memory are in the program's way.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.stall_share >= LITTLE && !self.lines.is_empty()
    }

    /// That no line went from core to core, if none did, with what is known of other processes.
    #[must_use]
    pub fn nothing_moved(&self) -> String {
        let within = if self.shared_memory.is_empty() {
            ""
        } else {
            " on any machine"
        };
        let all: u64 = self.processes.iter().map(|process| process.transfers).sum();
        let others = match all.saturating_sub(self.process.transfers) {
            0 => String::new(),
            moved => format!(
                "; in other processes it happened {} (--full lists them)",
                plural(moved, "time")
            ),
        };
        format!("no line of memory went from core to core{within}{others}")
    }

    /// The lines that are in the way, the worst first: at most `most`, and none that hardly anybody waits for.
    pub fn culprits(&self, most: usize) -> impl Iterator<Item = &LineSummary> {
        const HARDLY: f64 = 0.01;
        self.lines
            .iter()
            .take(most)
            .filter(|line| line.share >= HARDLY)
    }

    /// What the report comes to, in one or two sentences.
    #[must_use]
    pub fn conclusion(&self) -> String {
        let cores = self.machine.cores;
        let curve = self.scaling.as_ref();
        let efficiency = curve
            .and_then(|scaling| scaling.efficiency)
            .or_else(|| Some(self.one_core?.speedup / cores as f64));
        let last = curve.and_then(|scaling| scaling.last());
        let scales = efficiency.is_some_and(|share| share >= SCALES);
        let speedup = match (last, &self.one_core) {
            (Some((_, speedup)), _) => Some(speedup),
            (None, Some(one)) => Some(one.speedup),
            _ => None,
        };
        let times = speedup.map_or_else(String::new, |speedup| format!(" ({speedup:.1} times)"));
        if !self.is_contended() {
            if !self.shared_memory.is_empty() {
                return "Whether anything is contended is not known: processes on machines of their own share memory."
                    .to_owned();
            }
            return match efficiency {
                Some(_) if scales => {
                    format!("Nothing here is contended: it scales to {cores} cores{times}.")
                }
                Some(_) if self.busy_share < IDLE => format!(
                    "No line is in the way, but {cores} cores are not {cores} times as fast{times}: they have nothing to do for \
                     {:.0} % of the time. Threads sleep, or there are too few, or one part is not divided among them.",
                    (1.0 - self.busy_share) * 100.0
                ),
                Some(_) => format!(
                    "No line is in the way, but {cores} cores are not {cores} times as fast{times}: the work itself grows with \
                     them, or one part is not divided among them."
                ),
                None => format!(
                    "Nothing here is contended: the cores wait for lines in {:.1} % of their time.",
                    self.stall_share * 100.0
                ),
            };
        }
        let grows = match curve.and_then(|scaling| scaling.stops_at) {
            Some(1) => "More cores never make it faster: ".to_owned(),
            Some(at) => format!("It stops growing at {at} cores: "),
            None if scales => format!("It scales to {cores} cores{times}, so far: "),
            None => String::new(),
        };
        let Some(worst) = self.lines.first() else {
            return String::new();
        };
        let mut text = format!(
            "{grows}{:.0} % of the time goes into waiting for lines, and {:.0} % of that for {}",
            self.stall_share * 100.0,
            worst.share * 100.0,
            worst.name()
        );
        if worst.sharing.verdict == Verdict::False {
            text.push_str(", which is shared falsely");
        }
        text.push('.');
        if let Some(gain) = worst.gain() {
            let without = match worst.freed_with() {
                [] => "that line".to_owned(),
                _ => worst.freed(),
            };
            text.push_str(&format!(
                " Without {without} it would be {:.1} times as fast{}.",
                gain.speedup,
                noted("; it is ", gain)
            ));
        }
        match &worst.suggestion {
            Some(Suggestion {
                fits: Some(fits), ..
            }) => text.push_str(&format!(" {fits} may take its place.")),
            Some(Suggestion {
                pattern: Pattern::PackedFields,
                ..
            }) => text.push_str(" Its fields need lines of their own."),
            _ => {}
        }
        text
    }
}

impl LineSummary {
    /// What helps, or why nothing is suggested.
    #[must_use]
    pub fn advice(&self) -> String {
        if let Some(suggestion) = &self.suggestion {
            return suggestion.text.clone();
        }
        if self.writers.is_empty() {
            "No type fits: it is only read, and each core fetches it once. A longer run divides that among more operations.".to_owned()
        } else {
            "No type is suggested: its instructions show no pattern that is known, so it is data that cores hand to each other. What              helps is to divide it among the cores, or to hand over more at a time."
                .to_owned()
        }
    }
}
