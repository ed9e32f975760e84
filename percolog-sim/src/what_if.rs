//! What would the program gain if an object cost nothing? Found by running it again.
//!
//! ```no_run
//! # fn of(simulation: percolog_sim::run::Simulation) -> Result<(), Box<dyn std::error::Error>> {
//! use percolog_sim::what_if;
//!
//! let first = simulation.run("./stress", ["--threads", "48"])?;
//! let mut summary = first.summary();
//! for candidate in what_if::worst(&first, &summary, 3) {
//!     let second = candidate.simulation(&simulation).run("./stress", ["--threads", "48"])?;
//!     if let Ok(found) = candidate.compare(&first, &second) {
//!         candidate.note(found, &mut summary);
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! Everything but the time stays as it was: who has the line, in which order it is asked for, who is woken by it. So the figure is what a
//! change would bring that spares the waiting and nothing else: padding, a copy for each core, a counter that is
//! added up when it is read. It is no bound: a change may save instructions as well, or cost some. If a line is a lock's, nobody waits for
//! its holder, either, and what it guards costs nothing, as if each thread had a lock of its own: [`WhatIf::note`] says so with the figure.
//!
//! Contended lines of one object are tried together. Where an array has twelve lines and each thread has to pass them all, freeing
//! one of them brings nothing, though a change of the array would change all twelve. What one object is, the program says by its labels,
//! its variables and its allocations. Memory that it has mapped itself is none: whatever it keeps there lies in it.

use std::fmt;

use crate::report::{
    LabelResult, LineResult, LineSummary, ObjectKind, ObjectWhatIf, Pattern, ProcessResult,
    Summary, WhatIf,
};
use crate::run::{Free, Run, Simulation};
use crate::symbols::Symbols;

/// A line that is worth trying, with the other contended lines of its object.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// Which of the summary's lines they are, the worst first; at least one.
    pub lines: Vec<usize>,
    /// How each of them is named in the second run.
    pub free: Vec<Free>,
    /// Whether a lock is among them: nobody waits for its holder then.
    pub is_lock: bool,
}

/// What tells one object from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity<'a> {
    /// Bytes that the program has given a label: their first, and how many.
    Labelled(u64, u64),
    /// A variable or a block of the heap: its name, its first byte and its size.
    Known(&'a str, u64, u64),
}

/// Why a second run says nothing about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomparable {
    /// Time was up before it ended.
    TimedOut,
    /// It ended in another way than the first one, or marked another region.
    Different,
    /// It did not use the line: its memory lay elsewhere.
    NotMet,
}

impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "the program did not end when it was run again",
            Self::Different => "the program did something else when it was run again",
            Self::NotMet => "its memory lay elsewhere when the program was run again",
        })
    }
}

impl std::error::Error for Incomparable {}

/// The worst `most` objects of `first`, whose summary is `summary`, as far as anybody waited for them: of each all lines that the
/// summary has. A line that belongs to no object that is known stands for itself.
#[must_use]
pub fn worst(first: &Run, summary: &Summary, most: usize) -> Vec<Candidate> {
    let Some(process) = first.main() else {
        return Vec::new();
    };
    let symbols = Symbols::new(&process.maps);
    let waited_for = process
        .lines
        .iter()
        .zip(&summary.lines)
        .enumerate()
        .filter(|(_, (line, _))| line.counts.stall > 0);
    // The identity, how long its lines were waited for, and which they are.
    let mut objects: Vec<(Option<Identity<'_>>, u64, Vec<usize>)> = Vec::new();
    for (index, (line, known)) in waited_for {
        let identity = identity(process, line, known);
        let same = objects
            .iter_mut()
            .find(|(other, ..)| other.is_some() && *other == identity);
        match same {
            Some((_, stall, lines)) => {
                *stall = stall.saturating_add(line.counts.stall);
                lines.push(index);
            }
            None => objects.push((identity, line.counts.stall, vec![index])),
        }
    }
    // A stable sort: those alike stay in the order of their worst lines.
    objects.sort_by_key(|(_, stall, _)| std::cmp::Reverse(*stall));
    objects.truncate(most);
    objects
        .into_iter()
        .map(|(_, _, lines)| Candidate {
            free: lines
                .iter()
                .map(|index| named(process, &process.lines[*index], &symbols))
                .collect(),
            is_lock: lines.iter().any(|&index| is_lock(&summary.lines[index])),
            lines,
        })
        .collect()
}

fn is_lock(line: &LineSummary) -> bool {
    line.suggestion
        .as_ref()
        .is_some_and(|suggestion| suggestion.pattern == Pattern::LockWord)
}

/// The object that a line is part of. Nothing if that is not known: it must not be taken for part of another.
fn identity<'a>(
    process: &ProcessResult,
    line: &LineResult,
    known: &'a LineSummary,
) -> Option<Identity<'a>> {
    if let Some(label) = labels(process, line).next() {
        return Some(Identity::Labelled(label.address, label.size));
    }
    let object = known.object.as_ref()?;
    match (object.kind, object.size) {
        (ObjectKind::Static | ObjectKind::Heap, Some(size)) => {
            Some(Identity::Known(&object.name, object.address, size))
        }
        _ => None,
    }
}

/// The labels of a line.
fn labels<'a>(
    process: &'a ProcessResult,
    line: &LineResult,
) -> impl Iterator<Item = &'a LabelResult> {
    let start = line.line;
    let behind = start.saturating_add(process.line_size.max(1));
    process.labels.iter().filter(move |label| {
        label.address < behind && label.address.saturating_add(label.size) > start
    })
}

/// How a line is found again, even if its address is another one then.
fn named(process: &ProcessResult, line: &LineResult, symbols: &Symbols) -> Free {
    for label in labels(process, line) {
        let alike = |other: &&LabelResult| other.name == label.name;
        if process.labels.iter().filter(alike).count() == 1 {
            return Free::Named {
                name: label.name.clone(),
                offset: Some(line.line.saturating_sub(label.address)),
            };
        }
    }
    match symbols.in_file(line.line) {
        Some((path, start)) => Free::Mapped {
            path: path.into(),
            start,
            size: 1,
        },
        None => Free::Address(line.line),
    }
}

impl Candidate {
    /// The same simulation with these lines free. What the program prints is kept: it has been shown before.
    pub fn simulation(&self, simulation: &Simulation) -> Simulation {
        let simulation = simulation.clone().capture(true).free_waits(self.is_lock);
        self.free
            .iter()
            .fold(simulation, |simulation, free| simulation.free(free.clone()))
    }

    /// Which of the summary's lines is the worst of these: where the gain is shown.
    #[must_use]
    pub fn worst(&self) -> usize {
        self.lines.first().copied().unwrap_or(0)
    }

    /// How much of all waiting was for these lines, 0 to 1.
    #[must_use]
    pub fn share(&self, summary: &Summary) -> f64 {
        let lines = self
            .lines
            .iter()
            .filter_map(|index| summary.lines.get(*index));
        lines.map(|line| line.share).sum()
    }

    /// Adds to the summary what was found, at the worst line, with the addresses of all lines that were free.
    pub fn note(&self, mut found: WhatIf, summary: &mut Summary) {
        found.never_held = self.is_lock;
        let mut lines: Vec<u64> = self
            .lines
            .iter()
            .filter_map(|index| Some(summary.lines.get(*index)?.address))
            .collect();
        lines.sort_unstable();
        let Some(worst) = summary.lines.get_mut(self.worst()) else {
            return;
        };
        if lines.len() > 1 {
            worst.what_if_object = Some(ObjectWhatIf { gain: found, lines });
        } else {
            worst.what_if = Some(found);
        }
    }

    /// What the second run says.
    ///
    /// # Errors
    ///
    /// When it says nothing about the line.
    pub fn compare(&self, first: &Run, second: &Run) -> Result<WhatIf, Incomparable> {
        if first.timed_out || second.timed_out {
            return Err(Incomparable::TimedOut);
        }
        let (Some(before), Some(after)) = (first.main(), second.main()) else {
            return Err(Incomparable::Different);
        };
        let alike = |process: &ProcessResult| {
            (
                process.program.clone(),
                process.ending,
                process.region.entered > 0,
                process.region.operations > 0,
            )
        };
        if first.status != second.status || alike(before) != alike(after) {
            return Err(Incomparable::Different);
        }
        if !self.is_met(second) {
            return Err(Incomparable::NotMet);
        }
        for (at, (index, free)) in self.lines.iter().zip(&self.free).enumerate() {
            let (Free::Address(_), Some(line)) = (free, before.lines.get(*index)) else {
                continue;
            };
            let same = match at {
                0 => is_the_same(line, after),
                _ => !is_anothers(line, after),
            };
            if !same {
                return Err(Incomparable::NotMet);
            }
        }
        WhatIf::of(before, after).ok_or(Incomparable::Different)
    }

    fn is_met(&self, second: &Run) -> bool {
        let freed = second.freed();
        let worst = self.free.first();
        freed
            .iter()
            .rev()
            .find(|freed| Some(&freed.wish) == worst)
            .is_some_and(|freed| freed.events > 0)
    }
}

/// Whether what lies at the line's address in another run is used by the same instruction, and more than by the way: who spins for a
/// lock asks for it many times, and hardly ever once it is free.
fn is_the_same(line: &LineResult, after: &ProcessResult) -> bool {
    let Some(worst) = line.places.first() else {
        return false;
    };
    after.free_lines.iter().any(|free| {
        free.line == line.line
            && free.places.iter().any(|place| place.pc == worst.pc)
            && free.counts.events() >= line.counts.events() / 64
    })
}

/// Whether what lies at the line's address in another run is used by other instructions only. If nobody uses it there, that it was
/// free has changed nothing: of an object whose worst line was met that is no reason to doubt the figure.
fn is_anothers(line: &LineResult, after: &ProcessResult) -> bool {
    after.free_lines.iter().any(|free| {
        let known = |pc: u64| line.places.iter().any(|place| place.pc == pc);
        free.line == line.line
            && !free.places.is_empty()
            && !free.places.iter().any(|place| known(place.pc))
    })
}

impl WhatIf {
    /// How the second of two runs compares with the first. `None` if no time passed.
    fn of(before: &ProcessResult, after: &ProcessResult) -> Option<Self> {
        let marked = before.region.entered > 0;
        let time = |process: &ProcessResult| {
            let ticks = if marked {
                process.region.elapsed
            } else {
                process.elapsed
            };
            process.nanoseconds(ticks)
        };
        // Operations, where they are counted, need not be as many again.
        let work = |process: &ProcessResult| match process.region.operations {
            0 => 1.0,
            operations => operations as f64,
        };
        let (one, other) = (time(before), time(after));
        (one > 0.0 && other > 0.0).then(|| Self {
            speedup: (work(after) / other) / (work(before) / one),
            elapsed_ns: other,
            never_held: false,
        })
    }
}

#[cfg(test)]
mod tests;
