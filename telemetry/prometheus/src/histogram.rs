//! A histogram that `prometheus_client` encodes.

use percolog_instruments::{Bounds, HistogramSnapshot};
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::sync::Arc;

/// In place of [`prometheus_client::metrics::histogram::Histogram`], which takes one lock for all threads. Clones are the same
/// histogram.
///
/// ```
/// use percolog_prometheus::{Bounds, Histogram};
/// use prometheus_client::metrics::family::Family;
/// use prometheus_client::metrics::histogram::exponential_buckets;
///
/// let bounds = Bounds::new(exponential_buckets(0.001, 10.0, 4))?;
/// let latency = Histogram::new(bounds.clone());
/// latency.observe(0.02);
/// assert_eq!(latency.read().counts(), [0, 0, 1, 0, 0]);
///
/// // With labels: a family makes them as it needs them.
/// let make = move || Histogram::new(bounds.clone());
/// let by_path = Family::<Vec<(String, String)>, Histogram, _>::new_with_constructor(make);
/// by_path.get_or_create_owned(&vec![("path".into(), "/".into())]).observe(0.5);
/// # Ok::<(), percolog_prometheus::BoundsError>(())
/// ```
///
/// *Contract*, *cost* and *progress:* those of [`percolog_instruments::Histogram`]. There are no exemplars, and no native buckets.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<percolog_instruments::Histogram>);

impl Histogram {
    /// A histogram of nothing.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self(Arc::new(percolog_instruments::Histogram::new(bounds)))
    }

    /// Counts `value`.
    #[inline]
    pub fn observe(&self, value: f64) {
        self.0.record(value);
    }

    /// Everything that was counted.
    #[must_use]
    pub fn read(&self) -> HistogramSnapshot {
        self.0.read()
    }
}

/// With Prometheus' customary bounds for durations in seconds.
impl Default for Histogram {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder) -> Result<(), std::fmt::Error> {
        let seen = self.read();
        let bounds = seen.bounds().iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(seen.counts().iter().copied()).collect();
        encoder.encode_histogram::<NoLabelSet>(seen.sum(), seen.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
