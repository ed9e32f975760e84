//! Minimum, maximum, mean and variance.

use super::{BarrierError, Merge, Reducer};
use core::fmt;

/// Minimum, maximum, mean and variance of observations, recorded by threads without contention.
///
/// Before: a lock around some numbers, which every thread takes.
///
/// ```
/// use std::sync::Mutex;
///
/// struct Load {
///     count: u32,
///     sum: f64,
///     max: f64,
/// }
///
/// static LOAD: Mutex<Load> = Mutex::new(Load { count: 0, sum: 0.0, max: f64::MIN });
///
/// let mut load = LOAD.lock().expect("nobody panics");
/// load.count += 1;
/// load.sum += 1.5;
/// load.max = load.max.max(1.5);
/// assert_eq!(load.sum / f64::from(load.count), load.max);
/// ```
///
/// After:
///
/// ```
/// use percolog::reduce::Summary;
///
/// static LOAD: Summary = Summary::new();
///
/// std::thread::scope(|scope| {
///     for thread in 1..=4 {
///         scope.spawn(move || LOAD.record(f64::from(thread)));
///     }
/// });
/// let load = LOAD.read();
/// assert_eq!((load.min(), load.max()), (Some(1.0), Some(4.0)));
/// // The last bits depend on which thread saw what.
/// assert!((load.mean().unwrap() - 2.5).abs() < 1e-12);
/// assert!((load.variance().unwrap() - 1.25).abs() < 1e-12);
/// ```
///
/// # Contract
///
/// That of a [`Reducer`]: a [`read`](Self::read) is one moment of all threads, and each number is in exactly one
/// [`take`](Self::take). Count, minimum and maximum are exact; mean and variance are as exact as floats are, computed by updates
/// that do not cancel (B. Welford, 1962; T. Chan and others, 1979), and their last bits depend on which thread saw what. A number that is
/// infinite, or none, is counted in [`not_finite`](SummarySnapshot::not_finite) and nowhere else.
///
/// # What not to use it for
///
/// Latencies of which you want to know more than the mean: the `Histogram` of the feature `histogram` has quantiles. Integers
/// whose sum must be exact: a [`Reducer`] of [`Sum`](super::Sum), [`Min`](super::Min) and [`Max`](super::Max).
///
/// # Cost
///
/// As a [`Reducer`]; a share is one line.
pub struct Summary {
    shares: Reducer<SummarySnapshot>,
}

impl Summary {
    /// Creates a summary of nothing. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            shares: Reducer::new(),
        }
    }

    /// Takes in a number.
    ///
    /// *Progress:* wait-free while nobody reads; see [`Reducer`](Reducer#progress). *Cost:* no transfer and no allocation in steady
    /// state.
    #[inline]
    pub fn record(&self, value: f64) {
        self.shares.update(move |share| share.record(value));
    }

    /// What was observed up to one moment.
    ///
    /// *Progress* and *cost:* as [`Reducer::read`].
    ///
    /// # Panics
    /// As [`Reducer::read`].
    #[must_use]
    pub fn read(&self) -> SummarySnapshot {
        self.shares.read()
    }

    /// As [`read`](Self::read), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`]: see there.
    pub fn try_read(&self) -> Result<SummarySnapshot, BarrierError> {
        self.shares.try_read()
    }

    /// Takes out what was observed up to one moment, and begins anew: each number is in exactly one take.
    ///
    /// *Progress* and *cost:* as [`Reducer::take`].
    ///
    /// # Panics
    /// As [`Reducer::take`].
    #[must_use = "what was taken is nowhere else"]
    pub fn take(&self) -> SummarySnapshot {
        self.shares.take()
    }

    /// As [`take`](Self::take), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`], and nothing is taken.
    pub fn try_take(&self) -> Result<SummarySnapshot, BarrierError> {
        self.shares.try_take()
    }
}

impl Default for Summary {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows that there is one, and no numbers: no log line should read every thread's share by accident.
impl fmt::Debug for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summary").finish_non_exhaustive()
    }
}

/// The contents of a [`Summary`] at one moment.
///
/// Those of several can be [merged](Merge).
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct SummarySnapshot {
    count: u64,
    not_finite: u64,
    min: f64,
    max: f64,
    mean: f64,
    /// The sum of the squares of the distances from the mean.
    squares: f64,
}

impl SummarySnapshot {
    #[inline]
    fn record(&mut self, value: f64) {
        if !value.is_finite() {
            self.not_finite += 1;
            return;
        }
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        }
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// How many numbers were observed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many more were infinite, or no numbers.
    #[must_use]
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    fn of_some(&self, value: f64) -> Option<f64> {
        (self.count > 0).then_some(value)
    }

    /// The smallest.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.of_some(self.min)
    }

    /// The largest.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.of_some(self.max)
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.of_some(self.mean)
    }

    /// The variance of these numbers; its root is their standard deviation.
    ///
    /// (To estimate that of what they are a sample of, multiply by *count* / (*count* − 1).)
    #[must_use]
    pub fn variance(&self) -> Option<f64> {
        self.of_some(self.squares / self.count as f64)
    }
}

impl Merge for SummarySnapshot {
    fn merge(&mut self, other: &Self) {
        self.not_finite += other.not_finite;
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            let not_finite = self.not_finite;
            *self = Self {
                not_finite,
                ..*other
            };
            return;
        }
        let (mine, others) = (self.count as f64, other.count as f64);
        let between = other.mean - self.mean;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.mean += between * (others / (mine + others));
        self.squares += other.squares + between * between * (mine * others / (mine + others));
    }
}
