//! What a cell gives: calls of four kinds, each timed alone.

use std::fmt;

use hdrhistogram::Histogram;
use percolog_bench::reclaim::simulated::Calls;

/// What calls are told apart by.
pub(crate) const CLASSES: [&str; 4] = ["map 1", "map more", "unmap 1", "unmap more"];

/// The calls of each class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell(pub(crate) [Calls; 4]);

impl Cell {
    /// What a guest has printed.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("cell ")?.split_whitespace();
        let mut cell = Self([Calls::default(); 4]);
        for calls in &mut cell.0 {
            *calls = Calls {
                number: words.next()?.parse().ok()?,
                mean: words.next()?.parse().ok()?,
                p99: words.next()?.parse().ok()?,
            };
        }
        Some(cell)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cell")?;
        for calls in &self.0 {
            write!(f, " {} {:.3} {}", calls.number, calls.mean, calls.p99)?;
        }
        Ok(())
    }
}

/// Times by class.
#[derive(Debug, Clone)]
pub(crate) struct Times([Histogram<u64>; 4]);

impl Times {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| {
            match Histogram::new_with_bounds(1, 1 << 40, 3) {
                Ok(histogram) => histogram,
                Err(error) => unreachable!("these bounds are in order: {error}"),
            }
        }))
    }

    pub(crate) fn record(&mut self, unmap: bool, pages: u32, cycles: u64) {
        let class = 2 * usize::from(unmap) + usize::from(pages > 1);
        self.0[class].saturating_record(cycles);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (all, own) in self.0.iter_mut().zip(&other.0) {
            // Cannot fail: all histograms have the same bounds.
            all.add(own).unwrap_or_else(|error| unreachable!("{error}"));
        }
    }

    pub(crate) fn cell(&self) -> Cell {
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
