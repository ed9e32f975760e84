//! Distributions over fixed bounds.

use crate::exact::Exact;
use crate::slots::PerSlot;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use thiserror::Error;

/// Counts that lie together, and with nobody else's: what a slot counts shares no line with what another one does.
#[repr(align(128))]
#[derive(Clone, Copy)]
struct Line([u64; COUNTS]);

const COUNTS: usize = 16;

/// What one slot has recorded.
struct Part {
    /// How many values lie in each bucket, the last being beyond all bounds; some counts more, to fill a line.
    counts: Box<[Line]>,
    sum: Exact,
}

impl Part {
    fn new(buckets: usize) -> Self {
        Self {
            counts: vec![Line([0; COUNTS]); buckets.div_ceil(COUNTS)].into(),
            sum: Exact::ZERO,
        }
    }
}

/// The upper bounds of a histogram's buckets, from the least to the greatest; each belongs to its bucket.
///
/// Beyond the last bound there is always one more bucket, the one that Prometheus calls `+Inf`.
///
/// ```
/// use percolog_instruments::Bounds;
///
/// let bounds = Bounds::new([0.1, 0.5, 1.0])?;
/// assert_eq!(&bounds[..], [0.1, 0.5, 1.0]);
/// assert!(Bounds::new([1.0, 0.5]).is_err());
/// # Ok::<(), percolog_instruments::BoundsError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds(Arc<[f64]>);

/// Why numbers cannot be the bounds of a histogram.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum BoundsError {
    /// A bound is an infinity, or not a number.
    #[error(
        "bound {0} is not finite: leave it out, the bucket beyond the last bound is always there"
    )]
    NotFinite(f64),
    /// A bound is not greater than the one before it.
    #[error("bound {1} follows {0}: sort the bounds, and leave out what is there twice")]
    NotIncreasing(f64, f64),
}

impl Bounds {
    /// The bounds `bounds`, which may be none at all: then there is one bucket.
    ///
    /// # Errors
    /// If a bound is not finite, or not greater than the one before it.
    pub fn new(bounds: impl IntoIterator<Item = f64>) -> Result<Self, BoundsError> {
        let bounds: Arc<[f64]> = bounds.into_iter().collect();
        if let Some(&bound) = bounds.iter().find(|bound| !bound.is_finite()) {
            return Err(BoundsError::NotFinite(bound));
        }
        match bounds.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(BoundsError::NotIncreasing(pair[0], pair[1])),
            None => Ok(Self(bounds)),
        }
    }

    /// The number of the bucket that `value` belongs to. What is not a number belongs to the last.
    fn bucket(&self, value: f64) -> usize {
        if value.is_nan() {
            return self.0.len();
        }
        self.0.partition_point(|bound| *bound < value)
    }
}

/// Prometheus' customary bounds for durations in seconds: from 5 ms to 10 s.
impl Default for Bounds {
    fn default() -> Self {
        Self(Arc::new([
            0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
        ]))
    }
}

impl Deref for Bounds {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.0
    }
}

/// A distribution that any number of threads record into without moving a cache line between them.
///
/// ```
/// use percolog_instruments::{Bounds, Histogram};
///
/// let latency = Histogram::new(Bounds::new([0.1, 0.5, 1.0])?);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             latency.record(0.1);
///             latency.record(0.3);
///             latency.record(7.0);
///         });
///     }
/// });
/// let seen = latency.read();
/// assert_eq!(seen.counts(), [4, 4, 0, 4]);
/// assert_eq!(seen.count(), 12);
/// assert_eq!(seen.sum(), 29.6);
/// # Ok::<(), percolog_instruments::BoundsError>(())
/// ```
///
/// # Contract
///
/// * [`read`](Self::read) shows every record that finished before it, and each of those under way or not. A record is shown
///   in its bucket, in the count and in the sum, or in none of them: they always fit together.
/// * The sum is as exact as that of a [`FloatSum`](crate::FloatSum), and no count is estimated.
/// * No count and, if nothing negative is recorded, no sum ever goes back from one read to the next.
///
/// # Cost
///
/// *Time:* a record looks for the bucket, and takes a lock of the caller's slot: two atomic updates of a line that no other core
/// writes. A read takes the lock of each slot that ever recorded, one after the other, for as long as adding up its buckets takes.
/// *Memory:* 88 bytes; from the first record on 512 more, and for each slot that ever recorded 256 for the first 16 buckets, and
/// 128 for each further 16.
///
/// *Progress:* blocking, for as long as a thread in the middle of a record in the same slot has lost its processor.
pub struct Histogram {
    bounds: Bounds,
    parts: PerSlot<Part>,
}

impl Histogram {
    /// A histogram of nothing.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            parts: PerSlot::new(),
        }
    }

    /// The bounds of the buckets.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Records `value`. What is not a number is counted beyond all bounds, and makes the sum not a number.
    #[inline]
    pub fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    /// Records `value` `times` times, for the price of one.
    #[inline]
    pub fn record_many(&self, value: f64, times: u64) {
        if times == 0 {
            return;
        }
        let bucket = self.bounds.bucket(value);
        self.parts.update(
            || Part::new(self.bounds.len() + 1),
            |part| {
                let count = &mut part.counts[bucket / COUNTS].0[bucket % COUNTS];
                *count = count.wrapping_add(times);
                part.sum.add_times(value, times);
            },
        );
    }

    /// Everything that was recorded.
    #[must_use]
    pub fn read(&self) -> HistogramSnapshot {
        let mut counts = vec![0u64; self.bounds.len() + 1];
        let mut sum = Exact::ZERO;
        self.parts.each(|part| {
            let of_part = part.counts.iter().flat_map(|line| line.0);
            for (count, more) in counts.iter_mut().zip(of_part) {
                *count = count.wrapping_add(more);
            }
            sum.merge(&part.sum);
        });
        HistogramSnapshot {
            bounds: self.bounds.clone(),
            counts,
            sum: sum.value(),
        }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

/// What a histogram had recorded when it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSnapshot {
    bounds: Bounds,
    counts: Vec<u64>,
    sum: f64,
}

impl HistogramSnapshot {
    /// The bounds of the buckets.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// How many values lie in each bucket: one more than there are bounds.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Each bound with the number of values up to it, as Prometheus shows them; the last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds
            .zip(&self.counts)
            .scan(0u64, |so_far, (bound, count)| {
                *so_far = so_far.wrapping_add(*count);
                Some((bound, *so_far))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::new(Bounds::new([-1.0, 0.0, 1.0]).expect("increasing"));
        for value in [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5] {
            histogram.record(value);
        }
        assert_eq!(histogram.read().counts(), [2, 2, 2, 1]);
        assert_eq!(histogram.read().sum(), -0.5);
        let cumulative: Vec<_> = histogram.read().cumulative().collect();
        assert_eq!(
            cumulative,
            [(-1.0, 2), (0.0, 4), (1.0, 6), (f64::INFINITY, 7)]
        );
    }

    #[test]
    fn what_is_no_number_lies_beyond_all_bounds() {
        let histogram = Histogram::new(Bounds::default());
        histogram.record(f64::NAN);
        histogram.record(f64::INFINITY);
        histogram.record(f64::NEG_INFINITY);
        let seen = histogram.read();
        assert_eq!(
            (seen.counts()[0], seen.counts()[11], seen.count()),
            (1, 2, 3)
        );
        assert!(seen.sum().is_nan());
    }

    #[test]
    fn many_at_once_are_as_many_one_by_one() {
        let [at_once, one_by_one] = [(); 2].map(|()| Histogram::new(Bounds::default()));
        at_once.record_many(0.3, 1000);
        at_once.record_many(0.3, 0);
        for _ in 0..1000 {
            one_by_one.record(0.3);
        }
        assert_eq!(at_once.read(), one_by_one.read());
        assert_eq!(at_once.read().sum(), 300.0);
    }

    #[test]
    fn more_buckets_than_a_line_holds() {
        let histogram = Histogram::new(Bounds::new((0..40).map(f64::from)).expect("increasing"));
        for value in 0..50 {
            histogram.record(f64::from(value));
        }
        let seen = histogram.read();
        assert_eq!(seen.counts().len(), 41);
        assert!(seen.counts()[..40].iter().all(|&count| count == 1));
        assert_eq!(seen.counts()[40], 10);
    }

    #[test]
    fn bounds_are_checked() {
        assert_eq!(
            Bounds::new([1.0, 1.0]),
            Err(BoundsError::NotIncreasing(1.0, 1.0))
        );
        assert_eq!(
            Bounds::new([1.0, f64::INFINITY]),
            Err(BoundsError::NotFinite(f64::INFINITY))
        );
        assert!(Bounds::new([f64::NAN]).is_err());
        let none = Histogram::new(Bounds::new([]).expect("no bounds are bounds"));
        none.record(3.0);
        assert_eq!(none.read().counts(), [1]);
    }
}
