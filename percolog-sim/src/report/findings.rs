//! What is found out about a line beyond its counts: the object it belongs to, how its bytes are shared, what it costs the program, and
//! what is usually done about it.

use serde::{Deserialize, Serialize};

use crate::symbols::Place;

/// The object of the program that a line is part of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ObjectSummary {
    /// What kind of memory it is.
    pub kind: ObjectKind,
    /// Its name: a variable, a label, or where it was allocated.
    pub name: String,
    /// Its first byte.
    pub address: u64,
    /// Its bytes, if that is known.
    pub size: Option<u64>,
    /// Where the line begins in it; negative if the line begins in front of it.
    pub offset: i64,
    /// The calls that allocated it, the innermost of the program's own first. Empty for what was not allocated.
    pub allocated: Vec<Place>,
}

/// What kind of memory an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ObjectKind {
    /// A variable of the program or of a library.
    Static,
    /// Given by an allocator.
    Heap,
    /// On a thread's stack.
    Stack,
    /// Mapped by the program itself.
    Mapped,
}

/// How the bytes of a line are shared.
///
/// A line that comes to a core because another one has written to it is *truly* shared if the core then uses bytes that were
/// written, and *falsely* if it uses only others: padding would have spared it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Sharing {
    /// How often it came for bytes that others had written.
    pub true_events: u64,
    /// How often it came only for other bytes.
    pub false_events: u64,
    /// What that comes to.
    pub verdict: Verdict,
}

/// Whether a line is shared for what lies in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verdict {
    /// Nearly always for bytes that others write.
    True,
    /// Nearly always only because of its neighbours.
    False,
    /// Both happen.
    Mixed,
    /// Too little was seen of it.
    #[default]
    Unknown,
}

impl Sharing {
    /// How often a line has to come before anything is said of it.
    const FEW: u64 = 8;

    /// Of so many events. `undecided` ones came because of another's write, but not all that the core then did was seen.
    pub(crate) fn of(true_events: u64, false_events: u64, undecided: u64) -> Self {
        /// Nine in ten are nearly all.
        const NEARLY: u64 = 10;
        let decided = true_events.saturating_add(false_events);
        let verdict = if decided < Self::FEW || undecided > decided {
            Verdict::Unknown
        } else if false_events <= decided / NEARLY {
            Verdict::True
        } else if true_events <= decided / NEARLY {
            Verdict::False
        } else {
            Verdict::Mixed
        };
        Self {
            true_events,
            false_events,
            verdict,
        }
    }
}

/// Bytes of a line that instructions access together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SpanSummary {
    /// The first of them, counted from the beginning of the line.
    pub offset: u32,
    /// How many.
    pub size: u32,
    /// The cores that read them.
    pub readers: Vec<u32>,
    /// The cores that wrote them.
    pub writers: Vec<u32>,
    /// How often the line, or the right to write it, had to come for them.
    pub events: u64,
    /// The variable or field, if that is known.
    pub name: Option<String>,
}

/// What the program gains if a line costs nothing: found by running it again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WhatIf {
    /// How many times as fast it is then.
    pub speedup: f64,
    /// Simulated nanoseconds that it takes then: of the region, if there is one.
    pub elapsed_ns: f64,
    /// Whether a line that was free is a lock's: then nobody waits for who holds it, either.
    #[serde(default)]
    pub never_held: bool,
}

impl WhatIf {
    /// What is to be said with the figure, if anything.
    #[must_use]
    pub fn note(&self) -> Option<&'static str> {
        self.never_held
            .then_some("a lock: as if nobody held it when another wants it")
    }
}

/// What the program gains if all contended lines of an object cost nothing at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ObjectWhatIf {
    /// How much that is.
    #[serde(flatten)]
    pub gain: WhatIf,
    /// The lines that were free: their addresses, in ascending order.
    pub lines: Vec<u64>,
}

/// What is usually done about a line like this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Suggestion {
    /// What the line looks like.
    pub pattern: Pattern,
    /// What helps, in a sentence.
    pub text: String,
    /// The type of percolog's that fits, if one does: `percolog::counter::Counter`.
    pub fits: Option<String>,
}

/// What the uses of a line look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Pattern {
    /// Numbers are added to it.
    Counter,
    /// Counted up and down by clones and drops.
    ReferenceCount,
    /// A pointer that is exchanged if it is still the same.
    ListHead,
    /// Taken and given back.
    LockWord,
    /// Fields of different cores that happen to be neighbours.
    PackedFields,
    /// One core writes what many read.
    Published,
    /// A lock, a log or the readers' marks of one of percolog's own objects.
    LoggedObject,
}

#[cfg(test)]
mod tests {
    use super::{Sharing, Verdict};

    #[test]
    fn nine_in_ten_are_nearly_all_and_few_are_nothing() {
        for (events, verdict) in [
            ((0, 0, 0), Verdict::Unknown),
            ((7, 0, 0), Verdict::Unknown),
            ((8, 0, 0), Verdict::True),
            ((0, 8, 0), Verdict::False),
            ((90, 10, 0), Verdict::True),
            ((89, 11, 0), Verdict::Mixed),
            ((11, 89, 0), Verdict::Mixed),
            ((10, 90, 0), Verdict::False),
            ((10, 90, 101), Verdict::Unknown),
        ] {
            let sharing = Sharing::of(events.0, events.1, events.2);
            assert_eq!(sharing.verdict, verdict, "{events:?}");
        }
    }
}
