//! What a cell gives: calls of four kinds, each timed alone.

use hdrhistogram::Histogram;
use percolog_bench::reclaim::simulated::Calls;

/// What calls are told apart by.
pub(super) const CLASSES: [&str; 4] = ["map", "map_many", "unmap", "unmap_many"];

/// The calls of each class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell(pub(super) [Calls; 4]);

/// Times by class.
#[derive(Debug, Clone)]
pub(super) struct Times([Histogram<u64>; 4]);

impl Times {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| {
            match Histogram::new_with_bounds(1, 1 << 40, 3) {
                Ok(histogram) => histogram,
                Err(error) => unreachable!("these bounds are in order: {error}"),
            }
        }))
    }

    pub(super) fn record(&mut self, unmap: bool, pages: u32, cycles: u64) {
        let class = 2 * usize::from(unmap) + usize::from(pages > 1);
        self.0[class].saturating_record(cycles);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (all, own) in self.0.iter_mut().zip(&other.0) {
            // Cannot fail: all histograms have the same bounds.
            all.add(own).unwrap_or_else(|error| unreachable!("{error}"));
        }
    }

    pub(super) fn cell(&self) -> Cell {
        Cell(std::array::from_fn(|class| {
            let times = &self.0[class];
            Calls {
                number: times.len(),
                mean: times.mean(),
                p99: times.value_at_quantile(0.99),
            }
        }))
    }
}
