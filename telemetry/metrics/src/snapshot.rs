//! What was recorded, as data.

use metrics::Unit;
use percolog_instruments::HistogramSnapshot;

/// Everything that a recorder has recorded.
///
/// Its text (`to_string()`, [`RecorderHandle::render`](crate::RecorderHandle::render)) is what Prometheus scrapes.
///
/// ```
/// use percolog_metrics::{Recorder, Value};
///
/// let recorder = Recorder::new();
/// let handle = recorder.handle();
/// metrics::with_local_recorder(&recorder, || {
///     metrics::counter!("requests", "path" => "/").increment(3);
/// });
/// let seen = handle.snapshot();
/// assert_eq!(seen.get("requests", &[("path", "/")]), Some(&Value::Counter(3)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// By name, and by kind where a name is used for several kinds.
    pub families: Vec<Family>,
}

/// All series of one name and kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// As the program wrote it.
    pub name: String,
    /// What its series are.
    pub kind: MetricKind,
    /// As last described.
    pub help: Option<String>,
    /// As last described.
    pub unit: Option<Unit>,
    /// By labels.
    pub series: Vec<Series>,
}

/// One value, and what tells it from others of its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Keys and values, sorted.
    pub labels: Vec<(String, String)>,
    /// What was recorded.
    pub value: Value,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetricKind {
    /// Only goes up.
    Counter,
    /// Goes up and down, and is set.
    Gauge,
    /// Counts values by size.
    Histogram,
}

/// What was recorded of one series.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Of a counter.
    Counter(u64),
    /// Of a gauge.
    Gauge(f64),
    /// Of a histogram.
    Histogram(HistogramSnapshot),
}

impl Snapshot {
    /// The value of the series with this name and exactly these labels, in any order; the counter, if there are several.
    #[must_use]
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<&Value> {
        let mut labels = labels.to_vec();
        labels.sort_unstable();
        self.families
            .iter()
            .filter(|family| family.name == name)
            .flat_map(|family| &family.series)
            .find(|series| {
                let own = series.labels.iter();
                own.map(|(key, value)| (&**key, &**value))
                    .eq(labels.iter().copied())
            })
            .map(|series| &series.value)
    }
}
