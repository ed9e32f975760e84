//! What gauges are stored in.

use percolog_instruments::{Gauge, IntGauge};
use prometheus_client::metrics::gauge::Atomic;

/// Stores a `Gauge<i64, GaugeI64>`.
///
/// `inc`, `dec` and their like [return 0, always](crate#what-an-increment-returns); `set` returns the value before. *Contract*,
/// *cost* and *progress:* those of [`IntGauge`].
///
/// ```
/// use percolog_prometheus::GaugeI64;
/// use prometheus_client::metrics::gauge::Gauge;
///
/// let open: Gauge<i64, GaugeI64> = Gauge::default();
/// open.inc_by(5);
/// open.dec();
/// assert_eq!(open.set(10), 4);
/// assert_eq!(open.get(), 10);
/// ```
#[derive(Debug, Default)]
pub struct GaugeI64(IntGauge);

impl Atomic<i64> for GaugeI64 {
    #[inline]
    fn inc(&self) -> i64 {
        self.inc_by(1)
    }

    #[inline]
    fn inc_by(&self, v: i64) -> i64 {
        self.0.add(v);
        0
    }

    #[inline]
    fn dec(&self) -> i64 {
        self.inc_by(-1)
    }

    #[inline]
    fn dec_by(&self, v: i64) -> i64 {
        self.inc_by(v.wrapping_neg())
    }

    fn set(&self, v: i64) -> i64 {
        self.0.set(v)
    }

    fn get(&self) -> i64 {
        self.0.value()
    }
}

/// Stores a `Gauge<f64, GaugeF64>`.
///
/// `inc`, `dec` and their like [return 0, always](crate#what-an-increment-returns); `set` returns the value before. *Contract*,
/// *cost* and *progress:* those of [`percolog_instruments::Gauge`].
#[derive(Debug, Default)]
pub struct GaugeF64(Gauge);

impl Atomic<f64> for GaugeF64 {
    #[inline]
    fn inc(&self) -> f64 {
        self.inc_by(1.0)
    }

    #[inline]
    fn inc_by(&self, v: f64) -> f64 {
        self.0.add(v);
        0.0
    }

    #[inline]
    fn dec(&self) -> f64 {
        self.inc_by(-1.0)
    }

    #[inline]
    fn dec_by(&self, v: f64) -> f64 {
        self.inc_by(-v)
    }

    fn set(&self, v: f64) -> f64 {
        self.0.set(v)
    }

    fn get(&self) -> f64 {
        self.0.value()
    }
}
