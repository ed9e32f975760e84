//! A recorder for the [`metrics`] facade whose counters, gauges and histograms touch no shared cache line when they are
//! recorded into, and are exact when they are scraped.
//!
//! # Before and after
//!
//! What the program records stays as it is; only what is installed changes:
//!
//! ```
//! // Before: every increment of every thread goes to the one line of that metric.
//! let handle = metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()?;
//! # Ok::<(), metrics_exporter_prometheus::BuildError>(())
//! ```
//!
//! ```
//! // After.
//! let handle = percolog_metrics::install()?;
//!
//! let requests = metrics::counter!("requests_total", "path" => "/");
//! let open = metrics::gauge!("connections_open");
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| {
//!             open.increment(1.0);
//!             requests.increment(1);
//!             metrics::histogram!("request_seconds").record(0.03);
//!             open.decrement(1.0);
//!         });
//!     }
//! });
//!
//! let text = handle.render(); // what GET /metrics answers: see examples/scrape.rs
//! assert!(text.contains("requests_total{path=\"/\"} 4\n"));
//! assert!(text.contains("connections_open 0\n"));
//! assert!(text.contains("request_seconds_bucket{le=\"0.05\"} 4\n"));
//! # Ok::<(), percolog_metrics::InstallError>(())
//! ```
//!
//! # What is exact
//!
//! Whatever finished before a scrape began is in it, once; what overlaps it is in it or not, each update for itself. Counters never go
//! back. In a histogram the buckets, the count and the sum always fit together. Of several metrics, those that are read later can
//! contain what happened meanwhile: a scrape is not one instant.
//!
//! | | recording | exact |
//! |---|---|---|
//! | `counter.increment(n)` | an add to a [`percolog::counter::Counter`] | yes; wraps around at 2⁶⁴ |
//! | `counter.absolute(n)` | a lock and a walk over all threads' rows: for values that something else counts, once in a while | the counter becomes *n* if it was less. Increments that overlap it count before it or after it, each for itself |
//! | `gauge.increment(n)`, `decrement(n)`, *n* whole | as a counter | yes |
//! | the same, *n* a fraction | a lock of the caller's slot, which no other core wants | yes, for amounts from 2⁻¹² on; of smaller ones, what is below 2⁻⁶⁴ is cut off: [`FloatSum`](percolog_instruments::FloatSum) |
//! | `gauge.set(v)` | a lock of the gauge, and a walk if it is also incremented | discards what finished before it, keeps what begins after it; what overlaps it is discarded or kept, each update for itself: [`Gauge`](percolog_instruments::Gauge) |
//! | `histogram.record(v)` | a lock of the caller's slot | counts yes, the sum as a gauge's |
//!
//! # Handles and macros
//!
//! Recording through a handle that is kept (in a `static`, a struct, a thread-local value) writes only lines of this thread's own.
//! So does `counter!("hits").increment(1)` where it happens, from the second time on that a thread comes by: it remembers
//! the handles that it looked up, up to 1024 of each kind, and then begins anew. The first time, it takes a lock that
//! all threads share. That neither moves a line is asserted on 48 simulated cores (`tests/transfers.rs`).
//!
//! Nanoseconds an operation on each of two threads that record into the same metric (and on one thread alone), on two processors of
//! a virtual machine with an AMD EPYC (Zen 4), in one run of `cargo bench -p percolog-metrics --bench handles`:
//!
//! | | this recorder | `metrics-exporter-prometheus` 0.18 | ratio |
//! |---|---|---|---|
//! | a counter's handle | 4.1 (4.2) | 31 (4.8) | 7.4 (1.2) |
//! | `counter!("hits").increment(1)` | 15 (15) | 470 (53) | 32 (3.6) |
//! | a gauge's handle, whole amounts | 5.4 (5.4) | 68 (4.7) | 13 (**0.87**) |
//! | a gauge's handle, fractions | 12 (11) | 65 (4.7) | 5.3 (**0.41**) |
//! | a histogram's handle | 19 (18) | 193 (18) | 10 (**0.96**) |
//!
//! # How many metrics
//!
//! Each combination of a name and labels is a series of its own, and lives as long as the recorder. It costs
//!
//! * its entry in the registry: some 100 bytes, and its labels;
//! * what it counts with: a counter 56 bytes, a gauge 192, a histogram 104; and for each thread that records into it 16 bytes. Histograms, and
//!   gauges with fractions, take 512 bytes at the first record, and for each slot that records 256 (with up to 16 buckets) and 128;
//! * for each thread that looks it up, and as long as that remembers it, some 200 bytes;
//! * at each scrape, a walk over the rows of all threads.
//!
//! So a label must not be a user's name, a URL with numbers in it, or anything else that the outside world chooses: group such values first.
//!
//! # Names, labels, units
//!
//! Names are made valid as `metrics-exporter-prometheus` does it (`http.requests` is shown as `http_requests`). Labels that Prometheus keeps for itself
//! (`__name__`, and `le` in a histogram) are shown as `exported…`. Where two metrics would get the same name, or two series the same labels, the first is
//! shown and a comment in the text names the other: [`RecorderHandle::snapshot`] has both, under the names that the program used. Descriptions are
//! kept for each name and kind, the last one counts; a zero byte in them, or in a label, is shown as U+FFFD, for Prometheus takes it for the end; units are shown in a comment and change no name.

mod cache;
mod recorder;
mod snapshot;
mod storage;
mod text;

pub use percolog_instruments::{Bounds, BoundsError, HistogramSnapshot};
pub use recorder::{InstallError, Recorder, RecorderBuilder, RecorderHandle};
pub use snapshot::{Family, MetricKind, Series, Snapshot, Value};

/// Makes a recorder with the usual settings, and has the whole program record to it.
///
/// # Errors
/// If the program has a recorder already.
pub fn install() -> Result<RecorderHandle, InstallError> {
    Recorder::new().install()
}
