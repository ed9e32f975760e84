//! What a cell gives: numbers by name.

use std::collections::BTreeMap;

use percolog_bench::runner::Cell;
use percolog_validation::crew::Work;
use serde::{Deserialize, Serialize};

/// Numbers by name. Names end with their unit where they have one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(pub BTreeMap<String, f64>);

impl Values {
    /// Operations a second, by all threads together.
    pub const RATE: &'static str = "rate";

    /// How many times the operations of the first half of the time the second half had.
    pub const DRIFT: &'static str = "drift";

    /// Operations that were counted.
    pub const OPERATIONS: &'static str = "operations";

    /// What a cell of a duel gives: `rate`, `operations`, and `drift` where time is counted in cycles.
    #[must_use]
    pub fn of_cell(cell: &Cell) -> Self {
        let values = Self::default()
            .with(Self::RATE, cell.rate())
            .with(Self::OPERATIONS, cell.operations as f64);
        values.drifting(cell.drift)
    }

    /// What a crew gives, a cycle of which takes so many nanoseconds: `rate`, `operations`, `cycles` (of a thread, for an operation),
    /// `drift` where a time was given, and `p99_ns` if somebody looked.
    #[must_use]
    pub fn of_work(work: &Work, nanoseconds_of_a_cycle: f64) -> Self {
        let values = Self::default()
            .with(
                Self::RATE,
                // Nobody may have come to an operation.
                if work.operations == 0 {
                    0.0
                } else {
                    work.rate() / 1000.0 / nanoseconds_of_a_cycle * 1e9
                },
            )
            .with(Self::OPERATIONS, work.operations as f64)
            .with("cycles", work.cycles_per_operation())
            .drifting(work.drift());
        match work.p99 {
            Some(p99) => values.with("p99_ns", p99 as f64 * nanoseconds_of_a_cycle),
            None => values,
        }
    }

    /// With how far the second half of the time is from the first, if that is known.
    #[must_use]
    pub fn drifting(self, drift: Option<f64>) -> Self {
        match drift.filter(|drift| drift.is_finite()) {
            Some(drift) => self.with(Self::DRIFT, drift),
            None => self,
        }
    }

    /// With how often something was done, as `NAME_count`: what was never done is not measured, nor compared.
    #[must_use]
    pub fn counted(self, name: &str, times: u64) -> Self {
        self.with(&format!("{name}_count"), times as f64)
    }

    /// How often something was done, by name, where that was counted.
    pub fn counts(&self) -> impl Iterator<Item = (&str, f64)> {
        let all = self.0.iter();
        all.filter_map(|(name, times)| Some((name.strip_suffix("_count")?, *times)))
    }

    /// One more.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}
