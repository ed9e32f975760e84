//! Storage for [`prometheus_client`]'s counters and gauges, and a histogram of its kind, that threads record into without moving a cache line
//! between them, and that are exact when they are scraped.
//!
//! # Before and after
//!
//! Only the type changes:
//!
//! ```
//! use prometheus_client::metrics::counter::Counter;
//! use prometheus_client::metrics::family::Family;
//!
//! // Before: every increment of every thread goes to the one line of that counter.
//! let hits: Counter = Counter::default();
//! let by_path: Family<Vec<(String, String)>, Counter> = Family::default();
//! # drop((hits, by_path));
//! ```
//!
//! ```
//! use percolog_prometheus::CounterU64;
//! use prometheus_client::metrics::counter::Counter;
//! use prometheus_client::metrics::family::Family;
//!
//! // After.
//! let hits: Counter<u64, CounterU64> = Counter::default();
//! let by_path: Family<Vec<(String, String)>, Counter<u64, CounterU64>> = Family::default();
//!
//! let home = by_path.get_or_create_owned(&vec![("path".into(), "/".into())]);
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| {
//!             hits.inc();
//!             home.inc_by(2);
//!         });
//!     }
//! });
//! assert_eq!((hits.get(), home.get()), (4, 8));
//! ```
//!
//! # What an increment returns
//!
//! **Zero, always.** The traits say that `inc`, `inc_by`, `dec` and `dec_by` return the value before. Whoever wants to know that must fetch what all other
//! threads have counted, which is the very cost that these types are here to avoid; so they do not know it, and return 0 rather than something
//! that looks like it. Code that uses what an increment returns (to number things, or to act on every thousandth) needs an
//! `AtomicU64`. [`Gauge::set`](prometheus_client::metrics::gauge::Gauge::set) does return the value before: it has to collect it anyway.
//!
//! # The types
//!
//! | instead of | write | recording | reading (`get`, a scrape) |
//! |---|---|---|---|
//! | `Counter` | `Counter<u64, `[`CounterU64`]`>` | an add to a [`percolog::counter::Counter`] | exact; wraps around at 2⁶⁴ |
//! | `Counter<f64, AtomicU64>` | `Counter<f64, `[`CounterF64`]`>` | the same for whole amounts; a lock of the caller's slot, which no other core wants, for fractions | exact, but for what is smaller than 2⁻⁶⁴: [`FloatSum`](percolog_instruments::FloatSum) |
//! | `Gauge` | `Gauge<i64, `[`GaugeI64`]`>` | as a counter; `set` takes a lock, and collects | exact: [`IntGauge`](percolog_instruments::IntGauge) |
//! | `Gauge<f64, AtomicU64>` | `Gauge<f64, `[`GaugeF64`]`>` | as `CounterF64`; `set` takes a lock, and collects | as `CounterF64`: [`Gauge`](percolog_instruments::Gauge) |
//! | `Histogram` | [`Histogram`] | a lock of the caller's slot; `prometheus_client`'s has one lock for all | exact; buckets, count and sum always fit together |
//!
//! "Exact" means: whatever finished before a read began is in it, once; what overlaps it is in it or not, each update for itself. A gauge's `set`
//! discards what finished before it and keeps what begins after it; what overlaps it is discarded or kept, each update for itself.
//!
//! # Families
//!
//! [`Family::get_or_create`](prometheus_client::metrics::family::Family::get_or_create) takes a lock of the family shared, which is an atomic update
//! of a line that all threads use. Where it matters, keep what
//! [`get_or_create_owned`](prometheus_client::metrics::family::Family::get_or_create_owned) returns: recording through it moves nothing. Each combination of labels
//! lives until it is removed, and each thread that counts in it takes 16 bytes more (with fractions 512, and 128 for each slot; in a histogram 512, and 256): a label must not be anything
//! that the outside world chooses freely.

mod count;
mod gauge;
mod histogram;

pub use count::{CounterF64, CounterU64};
pub use gauge::{GaugeF64, GaugeI64};
pub use histogram::Histogram;
pub use percolog_instruments::{Bounds, BoundsError, HistogramSnapshot};
