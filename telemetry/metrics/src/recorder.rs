//! The recorder, how it is made, and who reads it.

use crate::cache::{self, Remembered};
use crate::snapshot::{Family, MetricKind, Series, Snapshot, Value};
use crate::storage::{Cells, Own};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use metrics_util::registry::Registry;
use percolog_instruments::Bounds;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// Records what the `metrics` macros say. See [the crate](crate).
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

/// Reads a [`Recorder`]. Clones read the same one.
///
/// *Progress:* a read takes the registry's locks shared, so that a metric that is new to the recorder waits for it. *Cost:* for
/// each counter and gauge a walk over the rows of all threads ([`percolog::counter::Counter::sum`]), for each histogram one over
/// the slots that recorded. Recording itself is not held up.
#[derive(Clone, Debug)]
pub struct RecorderHandle {
    shared: Arc<Shared>,
}

/// Settings of a [`Recorder`].
///
/// ```
/// use percolog_metrics::{Bounds, Recorder};
///
/// let recorder = Recorder::builder()
///     .bounds(Bounds::new([0.001, 0.01, 0.1, 1.0])?)
///     .bounds_of("response_bytes", Bounds::new([1e3, 1e6, 1e9])?)
///     .build();
/// # drop(recorder);
/// # Ok::<(), percolog_metrics::BoundsError>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "settings do nothing until `build` or `install`"]
pub struct RecorderBuilder {
    cells: Cells,
}

/// There is a recorder already.
#[derive(Clone, Copy, Debug, Error)]
#[error(
    "another metrics recorder is installed already: install one recorder, once, at the start of the program"
)]
pub struct InstallError;

/// The number of the next recorder.
static NEXT: AtomicU64 = AtomicU64::new(1);

struct Shared {
    /// No other recorder's number, ever.
    number: u64,
    registry: Registry<Key, Cells>,
    descriptions: Mutex<HashMap<(MetricKind, KeyName), Description>>,
}

#[derive(Clone)]
struct Description {
    unit: Option<Unit>,
    text: SharedString,
}

impl RecorderBuilder {
    /// The bounds of histograms that have none of their own: instead of Prometheus' customary ones for durations in seconds.
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.cells.bounds = bounds;
        self
    }

    /// The bounds of the histograms that are called `name`, whatever their labels.
    pub fn bounds_of(mut self, name: impl Into<String>, bounds: Bounds) -> Self {
        self.cells.bounds_of.insert(name.into(), bounds);
        self
    }

    /// A recorder that nothing records to yet: for [`metrics::with_local_recorder`], and for layers around it.
    #[must_use]
    pub fn build(self) -> Recorder {
        let shared = Shared {
            // Relaxed: numbers only have to differ.
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            registry: Registry::new(self.cells),
            descriptions: Mutex::default(),
        };
        Recorder {
            shared: Arc::new(shared),
        }
    }

    /// Makes a recorder, and has the whole program record to it.
    ///
    /// # Errors
    /// If the program has a recorder already.
    pub fn install(self) -> Result<RecorderHandle, InstallError> {
        self.build().install()
    }
}

impl Recorder {
    /// A recorder with the usual settings.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Settings, to be changed.
    pub fn builder() -> RecorderBuilder {
        RecorderBuilder::default()
    }

    /// Who reads what is recorded.
    #[must_use]
    pub fn handle(&self) -> RecorderHandle {
        RecorderHandle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Has the whole program record here.
    ///
    /// # Errors
    /// If the program has a recorder already.
    pub fn install(self) -> Result<RecorderHandle, InstallError> {
        let handle = self.handle();
        metrics::set_global_recorder(self).map_err(|_| InstallError)?;
        Ok(handle)
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl RecorderHandle {
    /// Everything recorded, as Prometheus' text format (version 0.0.4) has it.
    #[must_use]
    pub fn render(&self) -> String {
        self.snapshot().to_string()
    }

    /// Everything recorded, by kind and name.
    ///
    /// Each series is exact for itself; of several, those that are read later can contain what happened meanwhile.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut families: BTreeMap<(String, MetricKind), Vec<Series>> = BTreeMap::new();
        let mut keep = |kind, key: &Key, value| {
            let mut labels: Vec<_> = key
                .labels()
                .map(|label| (label.key().to_owned(), label.value().to_owned()))
                .collect();
            labels.sort();
            families
                .entry((key.name().to_owned(), kind))
                .or_default()
                .push(Series { labels, value });
        };
        let registry = &self.shared.registry;
        registry.visit_counters(|key, cell| {
            keep(MetricKind::Counter, key, Value::Counter(cell.value()));
        });
        registry
            .visit_gauges(|key, cell| keep(MetricKind::Gauge, key, Value::Gauge(cell.0.value())));
        registry.visit_histograms(|key, cell| {
            keep(MetricKind::Histogram, key, Value::Histogram(cell.0.read()));
        });

        let descriptions = self.shared.descriptions();
        let families = families
            .into_iter()
            .map(|((name, kind), mut series)| {
                series.sort_by(|a, b| a.labels.cmp(&b.labels));
                let description = descriptions.get(&(kind, KeyName::from(name.clone())));
                Family {
                    name,
                    kind,
                    help: description.map(|description| description.text.to_string()),
                    unit: description.and_then(|description| description.unit),
                    series,
                }
            })
            .collect();
        Snapshot { families }
    }
}

impl Shared {
    /// The handle of `key`: this thread's, if it has looked it up before. Otherwise `look_up` finds a handle to give out, and another
    /// one in an `Arc` that no other thread has.
    fn find<H: Remembered>(&self, key: &Key, look_up: impl FnOnce() -> (H, H)) -> H {
        cache::recall(self.number, key).unwrap_or_else(|| {
            let (shared, own) = look_up();
            cache::remember(self.number, key, own);
            shared
        })
    }

    fn describe(&self, kind: MetricKind, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.descriptions()
            .insert((kind, name), Description { unit, text });
    }

    fn descriptions(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<(MetricKind, KeyName), Description>> {
        self.descriptions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.shared.describe(MetricKind::Counter, name, unit, text);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.shared.describe(MetricKind::Gauge, name, unit, text);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.shared
            .describe(MetricKind::Histogram, name, unit, text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.shared.find(key, || {
            let registry = &self.shared.registry;
            registry.get_or_create_counter(key, |cell| {
                let own = Arc::new(Own(Arc::clone(cell)));
                (Counter::from_arc(Arc::clone(cell)), Counter::from_arc(own))
            })
        })
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.shared.find(key, || {
            let registry = &self.shared.registry;
            registry.get_or_create_gauge(key, |cell| {
                let own = Arc::new(Own(Arc::clone(cell)));
                (Gauge::from_arc(Arc::clone(cell)), Gauge::from_arc(own))
            })
        })
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.shared.find(key, || {
            let registry = &self.shared.registry;
            registry.get_or_create_histogram(key, |cell| {
                let own = Arc::new(Own(Arc::clone(cell)));
                (
                    Histogram::from_arc(Arc::clone(cell)),
                    Histogram::from_arc(own),
                )
            })
        })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("described", &self.descriptions().len())
            .finish_non_exhaustive()
    }
}
