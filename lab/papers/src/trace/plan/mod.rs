//! What the events of a trace mean to the objects of one subsystem, worked out once, before any thread runs.
//!
//! Follows the recorded processes event by event and writes down who enters and leaves what. Also names the
//! process that each event belongs to, and the event that each process waits for.

mod book;
mod descriptors;
mod follow;

use crate::subsystem::{Entry, Subsystem};
use crate::trace::{MAX_LOOKED_AT, Trace, TraceError};
use std::num::NonZeroU64;
use std::ops::Range;

/// One call of an object.
///
/// Identities are given out in the order in which entries come, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Enter { object: u32, entry: Entry },
    Leave { object: u32, entry: Entry },
    Read { object: u32, argument: u64 },
}

impl Update {
    /// The object that it concerns.
    pub(crate) fn object(&self) -> u32 {
        match *self {
            Update::Enter { object, .. }
            | Update::Leave { object, .. }
            | Update::Read { object, .. } => object,
        }
    }
}

/// One event of the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Whose event it is, in the sense of [`replay`](super).
    pub(crate) process: u32,
    /// Where its updates begin in the plan's; they end where the next step's begin.
    updates: usize,
    /// Whether any of its updates is a read.
    pub(crate) reads: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    updates: Vec<Update>,
    /// For each process, the event that it waits for; the first process has none.
    started_by: Vec<Option<usize>>,
    objects: usize,
    /// How many entries ever come.
    entries: usize,
    /// How many descriptors are copied.
    copies: usize,
}

/// How much a plan may come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    entries: usize,
    looked_at: u64,
}

impl Most {
    /// So many entries and copies of descriptors.
    pub(crate) fn of_entries(entries: usize) -> Most {
        Most {
            entries,
            looked_at: MAX_LOOKED_AT,
        }
    }

    const ANY: Most = Most {
        entries: usize::MAX,
        looked_at: u64::MAX,
    };
}

impl Plan {
    /// The plan of a trace that amounts to no more than `most`.
    ///
    /// # Errors
    /// When there is more.
    pub(crate) fn new(
        trace: &Trace,
        subsystem: Subsystem,
        truncate_every: Option<NonZeroU64>,
        most: Most,
    ) -> Result<Plan, TraceError> {
        follow::follow(trace, subsystem, truncate_every, most)
    }

    /// The plan of a trace whose size has been checked, as every trace's is when it is made.
    pub(crate) fn of(
        trace: &Trace,
        subsystem: Subsystem,
        truncate_every: Option<NonZeroU64>,
    ) -> Plan {
        match Plan::new(trace, subsystem, truncate_every, Most::ANY) {
            Ok(plan) => plan,
            Err(_) => unreachable!("there is never more than the largest numbers"),
        }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// Where the updates of a step are.
    pub(crate) fn updates_of(&self, step: usize) -> Range<usize> {
        let end = self
            .steps
            .get(step + 1)
            .map_or(self.updates.len(), |next| next.updates);
        self.steps[step].updates..end
    }

    /// How many processes there are, in the sense of [`replay`](super).
    pub(crate) fn processes(&self) -> usize {
        self.started_by.len()
    }

    /// The event that `process` waits for: it began then, or left those that it shared something with.
    pub(crate) fn started_by(&self, process: u32) -> Option<usize> {
        self.started_by[process as usize]
    }

    /// The process that brought `process` forth.
    pub(crate) fn parent(&self, process: u32) -> Option<u32> {
        self.started_by(process)
            .map(|event| self.steps[event].process)
    }

    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    /// How many entries ever come.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// How many entries or copies of descriptors there are, whichever are more.
    pub(crate) fn amount(&self) -> usize {
        self.entries.max(self.copies)
    }

    /// From the step `first` on, how many entries come or go, and how many reads there are.
    pub(crate) fn changes_and_reads(&self, first: usize) -> (u64, u64) {
        let from = self
            .steps
            .get(first)
            .map_or(self.updates.len(), |step| step.updates);
        let updates = &self.updates[from..];
        let reads = updates
            .iter()
            .filter(|update| matches!(update, Update::Read { .. }));
        let reads = reads.count();
        ((updates.len() - reads) as u64, reads as u64)
    }
}
