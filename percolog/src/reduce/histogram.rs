//! Distributions of values, such as latencies.

use super::{BarrierError, Merge, Reducer};
use core::fmt;
use core::time::Duration;

/// What is counted within a share. The crate's histograms grow when a value needs it.
type Counts = hdrhistogram::Histogram<u64>;

/// The range and precision of an [`HdrHistogram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HdrBounds {
    low: u64,
    high: u64,
    figures: u8,
}

impl HdrBounds {
    /// Every `u64`, to two significant figures: within one percent.
    pub const ALL: Self = Self {
        low: 1,
        high: u64::MAX,
        figures: 2,
    };

    /// Values up to `high`, to that many significant figures, in units of `low` (rounded down to a power of two).
    ///
    /// So a latency in nanoseconds that matters from a microsecond to a minute, to one percent, has the bounds 1000 to
    /// 60,000,000,000 with 2 figures.
    ///
    /// # Errors
    /// Says which of these is not so: `low` is at least 1; `high` is at least twice `low`; there are 1 to 5 figures; `low`
    /// leaves the figures room in 64 bits.
    pub const fn new(low: u64, high: u64, figures: u8) -> Result<Self, HdrBoundsError> {
        if low == 0 {
            return Err(HdrBoundsError::LowIsZero);
        }
        if low > high / 2 {
            return Err(HdrBoundsError::HighBelowTwiceLow);
        }
        // Bits that tell values of so many figures apart, up to twice the next power of ten.
        let bits = match figures {
            1 => 5,
            2 => 8,
            3 => 11,
            4 => 15,
            5 => 18,
            _ => return Err(HdrBoundsError::Figures),
        };
        if low.ilog2() + bits > 63 {
            return Err(HdrBoundsError::LowTooHigh);
        }
        Ok(Self { low, high, figures })
    }

    /// The unit: values below it are counted with 0.
    #[must_use]
    pub const fn low(self) -> u64 {
        self.low
    }

    /// The largest value that is told apart from larger ones.
    #[must_use]
    pub const fn high(self) -> u64 {
        self.high
    }

    /// How many significant figures of a value are kept.
    #[must_use]
    pub const fn figures(self) -> u8 {
        self.figures
    }

    /// What both can be counted in.
    fn common(self, other: Self) -> Self {
        Self {
            low: self.low.max(other.low),
            high: self.high.max(other.high),
            figures: self.figures.min(other.figures),
        }
    }

    /// Room for the smallest values; it grows.
    fn counts(self) -> Option<Counts> {
        // The crate finds the power of two by a logarithm in floating point, which is exact for powers of two.
        let unit = 1 << self.low.ilog2();
        let mut counts = Counts::new_with_bounds(unit, 2 * unit, self.figures).ok()?;
        counts.auto(true);
        Some(counts)
    }
}

impl Default for HdrBounds {
    fn default() -> Self {
        Self::ALL
    }
}

/// An error of [`HdrBounds::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HdrBoundsError {
    /// The unit is 0.
    LowIsZero,
    /// The largest value is not at least two units.
    HighBelowTwiceLow,
    /// There are no figures, or more than 5.
    Figures,
    /// So many figures of so large a unit do not fit into 64 bits.
    LowTooHigh,
}

impl fmt::Display for HdrBoundsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LowIsZero => "the lowest value of a histogram is 0; it must be at least 1",
            Self::HighBelowTwiceLow => {
                "the highest value of a histogram must be at least twice the lowest"
            }
            Self::Figures => "a histogram keeps 1 to 5 significant figures",
            Self::LowTooHigh => {
                "the lowest value of a histogram is too high for its significant figures; choose fewer, or a lower one"
            }
        })
    }
}

impl core::error::Error for HdrBoundsError {}

/// A histogram that threads record to without contention, and that is read exactly.
///
/// Before: one lock, which every request takes.
///
/// ```
/// use hdrhistogram::Histogram;
/// use std::sync::Mutex;
///
/// let latency = Mutex::new(Histogram::<u64>::new(2)?);
/// latency.lock().expect("nobody panics").record(1500)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// After:
///
/// ```
/// use percolog::reduce::HdrHistogram;
///
/// static LATENCY: HdrHistogram = HdrHistogram::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for micros in 1..=1000 {
///                 LATENCY.record(micros);
///             }
///         });
///     }
/// });
/// let latency = LATENCY.read();
/// assert_eq!(latency.count(), 4000);
/// assert_eq!(latency.max(), Some(1000));
/// assert_eq!(latency.mean(), Some(500.5));
/// let median = latency.quantile(0.5).expect("there are values");
/// assert!((500..=505).contains(&median));
/// ```
///
/// # Contract
///
/// That of a [`Reducer`]: a [`read`](Self::read) is one moment of all threads, each value is in it or not, whole; each value
/// is in exactly one [`take`](Self::take).
///
/// * Count, minimum, maximum, sum and mean are exact.
/// * Quantiles are those of a value that differs from the exact one by less than one part in 10<sup>figures</sup>, or by
///   less than the unit, if that is more.
/// * A value above [`HdrBounds::high`] counts as `high` in quantiles, and is counted in
///   [`saturated`](HdrSnapshot::saturated); minimum, maximum, sum and mean have it as it is.
/// * What would take the count beyond `u64::MAX` is not counted.
///
/// # What not to use it for
///
/// Values that are read one by one, in order: keep those. Histograms by the thousand that each get a few values: see the
/// memory. For a handful of buckets with bounds of your own a [`Reducer`] of an array is smaller and faster.
///
/// # Cost
///
/// *Time:* a record is some nanoseconds of plain instructions on memory of this thread. *Memory:* as much as the largest value
/// that a thread recorded needs: with 2 figures 2 KiB for values up to 256 units, and 1 KiB more for each doubling; with 3
/// figures 16 KiB up to 2048 units, and 8 KiB more; for the largest `u64` 58 KiB and 440 KiB. A read merges as much for each
/// thread, and a record that meets it waits for its own thread's part. Growing allocates, and is rare: the first time that a thread meets a value so large.
///
/// A histogram of each thread is Gil Tene's *HdrHistogram*, of the crate `hdrhistogram`.
pub struct HdrHistogram {
    bounds: HdrBounds,
    shares: Reducer<HdrSnapshot>,
}

impl HdrHistogram {
    /// Creates a histogram of any values, to two significant figures ([`HdrBounds::ALL`]). Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_bounds(HdrBounds::ALL)
    }

    /// Creates a histogram with bounds of your own. Allocates nothing.
    ///
    /// ```
    /// use percolog::reduce::{HdrBounds, HdrHistogram};
    ///
    /// static BYTES: HdrHistogram = HdrHistogram::with_bounds(match HdrBounds::new(64, 1 << 30, 3) {
    ///     Ok(bounds) => bounds,
    ///     Err(_) => panic!("the numbers above are right"),
    /// });
    /// BYTES.record(1500);
    /// assert_eq!(BYTES.read().max(), Some(1500));
    /// ```
    #[must_use]
    pub const fn with_bounds(bounds: HdrBounds) -> Self {
        Self {
            bounds,
            shares: Reducer::new(),
        }
    }

    /// What this histogram tells apart.
    #[must_use]
    pub const fn bounds(&self) -> HdrBounds {
        self.bounds
    }

    /// Counts a value.
    ///
    /// *Progress:* wait-free while nobody reads, but for the allocator where a thread's share grows. *Cost:* no transfer and no
    /// allocation in steady state; see [the type](Self#cost).
    #[inline]
    pub fn record(&self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value so many times.
    ///
    /// *Progress* and *cost:* as [`record`](Self::record).
    #[inline]
    pub fn record_n(&self, value: u64, times: u64) {
        self.shares
            .update(move |share| share.record(&self.bounds, value, times));
    }

    /// Counts a duration, in nanoseconds.
    #[inline]
    pub fn record_duration(&self, value: Duration) {
        // Five centuries and more count as five centuries.
        self.record(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What was recorded up to one moment.
    ///
    /// *Progress* and *cost:* as [`Reducer::read`], with shares of some kilobytes each.
    ///
    /// # Panics
    /// Where [`try_read`](Self::try_read) fails.
    #[must_use]
    pub fn read(&self) -> HdrSnapshot {
        self.shares.read().bounded(self.bounds)
    }

    /// As [`read`](Self::read), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`]: see there.
    pub fn try_read(&self) -> Result<HdrSnapshot, BarrierError> {
        Ok(self.shares.try_read()?.bounded(self.bounds))
    }

    /// Takes out what was recorded up to one moment, and begins anew: each value is in exactly one take.
    ///
    /// *Progress* and *cost:* as [`Reducer::take`]; the shares allocate again.
    ///
    /// # Panics
    /// Where [`try_take`](Self::try_take) fails.
    #[must_use = "what was taken is nowhere else"]
    pub fn take(&self) -> HdrSnapshot {
        self.shares.take().bounded(self.bounds)
    }

    /// As [`take`](Self::take), and says so if the kernel makes reading impossible.
    ///
    /// # Errors
    /// [`BarrierError`], and nothing is taken.
    pub fn try_take(&self) -> Result<HdrSnapshot, BarrierError> {
        Ok(self.shares.try_take()?.bounded(self.bounds))
    }
}

impl Default for HdrHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the bounds, and not what was recorded: no log line should read every thread's share by accident.
impl fmt::Debug for HdrHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HdrHistogram")
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

/// The contents of an [`HdrHistogram`] at one moment.
///
/// Snapshots, of one histogram or of several, can be [merged](Merge). What had different bounds is then told apart as far as both
/// do: with the larger unit and the fewer figures, up to the larger of the highest values. A snapshot that would take the count
/// beyond `u64::MAX` is not merged.
#[derive(Debug, Clone)]
pub struct HdrSnapshot {
    bounds: Option<HdrBounds>,
    /// Of all values no more than a `u64` counts.
    counts: Option<Counts>,
    /// Of the values as they were recorded, as are the next two.
    sum: u128,
    /// The largest `u64` before anything was recorded.
    min: u64,
    /// The smallest `u64` before anything was recorded.
    max: u64,
    saturated: u64,
}

impl Default for HdrSnapshot {
    fn default() -> Self {
        Self {
            bounds: None,
            counts: None,
            sum: 0,
            min: u64::MAX,
            max: 0,
            saturated: 0,
        }
    }
}

impl HdrSnapshot {
    #[inline]
    fn record(&mut self, bounds: &HdrBounds, value: u64, times: u64) {
        // The share's own copy of the bounds: the histogram's lies beside what readers write to.
        let (Some(counts), Some(HdrBounds { high, .. })) = (&mut self.counts, self.bounds) else {
            return self.record_first(bounds, value, times);
        };
        let times = times.min(u64::MAX - counts.len());
        if times == 0 {
            return;
        }
        let mut counted = value;
        if value > high {
            counted = high;
            self.saturated += times;
        }
        if counts.record_n(counted, times).is_err() {
            // Only where memory for so many counts cannot be addressed.
            counts.saturating_record_n(counted, times);
            self.saturated += times;
        }
        // Fewer than 2^64 values below 2^64.
        self.sum += u128::from(value) * u128::from(times);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    #[cold]
    fn record_first(&mut self, bounds: &HdrBounds, value: u64, times: u64) {
        self.bounds = Some(*bounds);
        self.counts = bounds.counts();
        if self.counts.is_some() {
            self.record(bounds, value, times);
        }
    }

    /// The same of a histogram with these bounds, also where nothing was recorded.
    fn bounded(mut self, bounds: HdrBounds) -> Self {
        self.bounds.get_or_insert(bounds);
        self
    }

    /// What was told apart; [`HdrBounds::ALL`] of a snapshot that is none of any histogram.
    #[must_use]
    pub fn bounds(&self) -> HdrBounds {
        self.bounds.unwrap_or_default()
    }

    /// How many values were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.as_ref().map_or(0, Counts::len)
    }

    /// Returns whether no values were recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many of them were above [`HdrBounds::high`].
    #[must_use]
    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// The smallest value. Exact.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min)
    }

    /// The largest value. Exact, also of values above [`HdrBounds::high`].
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max)
    }

    /// The sum of all values. Exact.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The mean of all values, exact but for the rounding of a float.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The smallest value that this share of all values is not above, to the [bounds](Self::bounds)' figures: `quantile(0.5)`
    /// is the median. A share below 0, or not a number, counts as 0, and one above 1 as 1.
    ///
    /// *Cost:* a walk over the counts, some microseconds.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let counts = self.counts.as_ref().filter(|counts| !counts.is_empty())?;
        let value = counts.value_at_quantile(share.max(0.0));
        let high = self.bounds().high;
        if share >= 1.0 {
            return Some(self.max.min(high));
        }
        Some(value.clamp(self.min.min(high), self.max.min(high)))
    }

    /// How many values were not above this one, as far as the [bounds](Self::bounds) tell: values that count as equal to it are
    /// among them.
    ///
    /// *Cost:* as [`quantile`](Self::quantile).
    #[must_use]
    pub fn count_at_most(&self, value: u64) -> u64 {
        self.counts
            .as_ref()
            .map_or(0, |counts| counts.count_between(0, value))
    }

    /// Each value that was recorded, as the largest that counts as equal to it, and how often; in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().flat_map(|counts| {
            counts
                .iter_recorded()
                .map(|value| (value.value_iterated_to(), value.count_at_value()))
        })
    }
}

impl Merge for HdrSnapshot {
    fn merge(&mut self, other: &Self) {
        let mine = self.bounds;
        let Some(others) = other.bounds else {
            return;
        };
        if self.count().checked_add(other.count()).is_none() {
            return;
        }
        let common = mine.map_or(others, |mine| mine.common(others));
        self.bounds = Some(common);
        self.saturated = self.saturated.saturating_add(other.saturated);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if self.counts.is_none() && common == others {
            self.counts.clone_from(&other.counts);
            return;
        }
        if mine != Some(common) {
            let finer = core::mem::replace(&mut self.counts, common.counts());
            add(&mut self.counts, finer.as_ref());
        }
        if self.counts.is_none() {
            self.counts = common.counts();
        }
        add(&mut self.counts, other.counts.as_ref());
    }
}

/// Adds counts to others that are no finer.
fn add(to: &mut Option<Counts>, from: Option<&Counts>) {
    let (Some(to), Some(from)) = (to, from) else {
        return;
    };
    if to.add(from).is_err() {
        // Only where memory for so many counts cannot be addressed: what does not fit counts as the largest that does.
        for value in from.iter_recorded() {
            to.saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
    }
}
