//! What came before the part of the program that was simulated.

use std::fmt;

use serde::Serialize;

/// What was not simulated because it was to be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SkippedSummary {
    /// The instructions.
    pub instructions: u64,
    /// Nanoseconds that they would take if no access to memory took any time.
    pub elapsed_ns: f64,
}

impl SkippedSummary {
    pub(super) fn of(instructions: u64, elapsed_ns: f64) -> Option<Self> {
        (instructions > 0).then_some(Self {
            instructions,
            elapsed_ns,
        })
    }
}

impl fmt::Display for SkippedSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "skipped before that: {:.1} million instructions, {:.3} ms of its time; the caches were empty where the figures begin",
            self.instructions as f64 / 1e6,
            self.elapsed_ns / 1e6
        )
    }
}
