//! What metrics libraries show, made so that recording touches no shared cache line and reading is exact.
//!
//! | you have | you take |
//! |---|---|
//! | a value that threads raise, lower and set, in whole numbers | [`IntGauge`] |
//! | the same with fractions, as most metrics libraries have it | [`Gauge`] |
//! | amounts that only add up (seconds, joules, prices) | [`FloatSum`] |
//! | a distribution over fixed bounds, as Prometheus wants it | [`Histogram`] |
//! | a plain count | [`percolog::counter::Counter`] |
//!
//! Most programs use these through `percolog-metrics` (for the `metrics` facade) or `percolog-prometheus` (for
//! `prometheus-client`), and never name this crate.
//!
//! # Before and after
//!
//! ```
//! use std::sync::atomic::{AtomicI64, Ordering};
//!
//! // Every thread that opens or closes a connection fetches this line from the one that did so last.
//! static OPEN: AtomicI64 = AtomicI64::new(0);
//! OPEN.fetch_add(1, Ordering::Relaxed);
//! assert_eq!(OPEN.load(Ordering::Relaxed), 1);
//! ```
//!
//! ```
//! use percolog_instruments::IntGauge;
//!
//! // Each thread writes a line of its own; the reader collects them.
//! static OPEN: IntGauge = IntGauge::new();
//! OPEN.add(1);
//! assert_eq!(OPEN.value(), 1);
//! ```
//!
//! # What "exact" means
//!
//! Every update that finished before a read began (on the same thread, or on one that has synchronized with it since) is in
//! the value read, once. An update that overlaps the read is in it or not, each for itself. No update is ever lost, and none
//! is estimated or sampled.
//!
//! Fractions are added up as whole multiples of 2⁻⁶⁴, in integers, and rounded when they are read: ten times 0.1 in any order
//! on any number of threads is the double that is nearest to the sum. See [`FloatSum`] for what that leaves out.

mod exact;
mod gauge;
mod histogram;
mod slots;
mod sum;
mod whole;

pub use gauge::Gauge;
pub use histogram::{Bounds, BoundsError, Histogram, HistogramSnapshot};
pub use sum::FloatSum;
pub use whole::IntGauge;
