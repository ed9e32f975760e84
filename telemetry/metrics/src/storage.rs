//! What stands behind the handles that programs hold.

use metrics::{CounterFn, GaugeFn, HistogramFn, Key};
use metrics_util::registry::Storage;
use percolog::counter::Counter;
use percolog_instruments::{Bounds, Gauge, Histogram};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A counter: the facade's whole numbers wrap around at 2⁶⁴, and so does the sum of a [`Counter`] read without a sign.
#[derive(Default)]
pub(crate) struct CounterCell {
    count: Counter,
    /// Held while a value is compared and raised, so that two threads do not raise it by the same amount.
    absolute: Mutex<()>,
}

impl CounterCell {
    pub(crate) fn value(&self) -> u64 {
        self.count.sum() as u64
    }
}

impl CounterFn for CounterCell {
    #[inline]
    fn increment(&self, value: u64) {
        self.count.add(value as i64);
    }

    fn absolute(&self, value: u64) {
        let _held = self.absolute.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.value();
        if now < value {
            self.increment(value - now);
        }
    }
}

/// A gauge.
#[derive(Default)]
pub(crate) struct GaugeCell(pub(crate) Gauge);

impl GaugeFn for GaugeCell {
    #[inline]
    fn increment(&self, value: f64) {
        self.0.add(value);
    }

    #[inline]
    fn decrement(&self, value: f64) {
        self.0.add(-value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
    }
}

/// A histogram.
pub(crate) struct HistogramCell(pub(crate) Histogram);

impl HistogramFn for HistogramCell {
    #[inline]
    fn record(&self, value: f64) {
        self.0.record(value);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.0.record_many(value, count as u64);
    }
}

/// A metric by way of an `Arc` that one thread clones again and again: aligned, so that the count of its clones lies in a line that no
/// other thread's does. Allocators give neighbouring pieces of memory to different threads.
#[repr(align(64))]
pub(crate) struct Own<T>(pub(crate) Arc<T>);

impl<T: CounterFn> CounterFn for Own<T> {
    #[inline]
    fn increment(&self, value: u64) {
        self.0.increment(value);
    }

    fn absolute(&self, value: u64) {
        self.0.absolute(value);
    }
}

impl<T: GaugeFn> GaugeFn for Own<T> {
    #[inline]
    fn increment(&self, value: f64) {
        self.0.increment(value);
    }

    #[inline]
    fn decrement(&self, value: f64) {
        self.0.decrement(value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
    }
}

impl<T: HistogramFn> HistogramFn for Own<T> {
    #[inline]
    fn record(&self, value: f64) {
        self.0.record(value);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.0.record_many(value, count);
    }
}

/// Makes the metrics of the registry.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// The bounds of histograms that have none of their own.
    pub(crate) bounds: Bounds,
    pub(crate) bounds_of: HashMap<String, Bounds>,
}

impl Storage<Key> for Cells {
    type Counter = Arc<CounterCell>;
    type Gauge = Arc<GaugeCell>;
    type Histogram = Arc<HistogramCell>;

    fn counter(&self, _: &Key) -> Self::Counter {
        Arc::default()
    }

    fn gauge(&self, _: &Key) -> Self::Gauge {
        Arc::default()
    }

    fn histogram(&self, key: &Key) -> Self::Histogram {
        let bounds = self.bounds_of.get(key.name()).unwrap_or(&self.bounds);
        Arc::new(HistogramCell(Histogram::new(bounds.clone())))
    }
}
