//! What counters are stored in.

use percolog_instruments::FloatSum;
use prometheus_client::metrics::counter::Atomic;

/// Stores a `Counter<u64, CounterU64>`.
///
/// `inc` and `inc_by` [return 0, always](crate#what-an-increment-returns). *Cost* and *progress:* those of
/// [`percolog::counter::Counter`].
#[derive(Debug, Default)]
pub struct CounterU64(percolog::counter::Counter);

impl CounterU64 {
    /// What it counts with: for [estimates](percolog::counter::Counter::estimate), which look at no thread's memory.
    #[must_use]
    pub fn counter(&self) -> &percolog::counter::Counter {
        &self.0
    }
}

impl Atomic<u64> for CounterU64 {
    #[inline]
    fn inc(&self) -> u64 {
        self.0.increment();
        0
    }

    #[inline]
    fn inc_by(&self, v: u64) -> u64 {
        // Both wrap around: a sum of 64 bits is the same with a sign and without.
        self.0.add(v as i64);
        0
    }

    fn get(&self) -> u64 {
        self.0.sum() as u64
    }
}

/// Stores a `Counter<f64, CounterF64>`.
///
/// `inc` and `inc_by` [return 0, always](crate#what-an-increment-returns). *Cost* and *progress:* those of [`FloatSum`].
///
/// ```
/// use percolog_prometheus::CounterF64;
/// use prometheus_client::metrics::counter::Counter;
///
/// let seconds: Counter<f64, CounterF64> = Counter::default();
/// for _ in 0..10 {
///     seconds.inc_by(0.1);
/// }
/// assert_eq!(seconds.get(), 1.0); // one by one, in doubles, it would be 0.9999999999999999
/// ```
#[derive(Debug, Default)]
pub struct CounterF64(FloatSum);

impl Atomic<f64> for CounterF64 {
    #[inline]
    fn inc(&self) -> f64 {
        self.inc_by(1.0)
    }

    #[inline]
    fn inc_by(&self, v: f64) -> f64 {
        self.0.add(v);
        0.0
    }

    fn get(&self) -> f64 {
        self.0.value()
    }
}
