//! In a registry of `prometheus_client`: beside its own metrics, and at full speed.

use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::{MetricsExposition, OpenMetricsType, OpenMetricsValue};
use percolog_prometheus::{Bounds, CounterF64, CounterU64, GaugeF64, GaugeI64, Histogram};
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{TypedMetric, counter, gauge, histogram};
use prometheus_client::registry::Registry;
use std::sync::atomic::{AtomicI64, AtomicU64};

type Labels = Vec<(String, String)>;

fn labels(value: usize) -> Labels {
    vec![("kind".to_owned(), format!("\"{value}\"\\\n"))]
}

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("strings take everything");
    text
}

fn parse(text: &str) -> MetricsExposition<OpenMetricsType, OpenMetricsValue> {
    parse_openmetrics(text).unwrap_or_else(|error| panic!("{error}\nin:\n{text}"))
}

/// One of each kind, stored as the type says.
struct Metrics<C: 'static, A: 'static, L: 'static, R: 'static, H: 'static> {
    registry: Registry,
    count: Counter<u64, C>,
    amount: Counter<f64, A>,
    level: Gauge<i64, L>,
    reading: Gauge<f64, R>,
    size: H,
    by_kind: Family<Labels, Counter<u64, C>>,
    size_by_kind: Family<Labels, H, fn() -> H>,
}

impl<C, A, L, R, H> Metrics<C, A, L, R, H>
where
    C: counter::Atomic<u64> + Default + std::fmt::Debug + Send + Sync,
    A: counter::Atomic<f64> + Default + std::fmt::Debug + Send + Sync,
    L: gauge::Atomic<i64> + Default + std::fmt::Debug + Send + Sync,
    R: gauge::Atomic<f64> + Default + std::fmt::Debug + Send + Sync,
    H: EncodeMetric + TypedMetric + Clone + std::fmt::Debug + Send + Sync,
    fn() -> H: MetricConstructor<H>,
{
    fn new(make: fn() -> H) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            count: Counter::default(),
            amount: Counter::default(),
            level: Gauge::default(),
            reading: Gauge::default(),
            size: make(),
            by_kind: Family::default(),
            size_by_kind: Family::new_with_constructor(make),
        };
        let registry = &mut metrics.registry;
        registry.register("count", "A \\ count", metrics.count.clone());
        registry.register("amount", "An amount", metrics.amount.clone());
        registry.register("level", "A level", metrics.level.clone());
        registry.register("reading", "A reading", metrics.reading.clone());
        registry.register("size", "A size", metrics.size.clone());
        registry.register("by_kind", "Counts", metrics.by_kind.clone());
        registry.register("size_by_kind", "Sizes", metrics.size_by_kind.clone());
        metrics
    }
}

const BOUNDS: [f64; 3] = [1.0, 2.0, 4.0];

type Ours = Metrics<CounterU64, CounterF64, GaugeI64, GaugeF64, Histogram>;
type Theirs = Metrics<AtomicU64, AtomicU64, AtomicI64, AtomicU64, histogram::Histogram>;

fn ours() -> Ours {
    Metrics::new(|| Histogram::new(Bounds::new(BOUNDS).expect("increasing")))
}

fn theirs() -> Theirs {
    Metrics::new(|| histogram::Histogram::new(BOUNDS))
}

/// The same operations on metrics stored in any way. Amounts are eighths, which doubles add up exactly.
macro_rules! work {
    ($metrics:expr, $rounds:expr) => {{
        let metrics = $metrics;
        let by_kind = metrics.by_kind.get_or_create_owned(&labels(1));
        let size_by_kind = metrics.size_by_kind.get_or_create_owned(&labels(2));
        for round in 0..$rounds {
            let eighths = (round % 48) as f64 / 8.0;
            metrics.level.inc_by(3);
            metrics.count.inc();
            metrics.count.inc_by(2);
            metrics.amount.inc();
            metrics.amount.inc_by(eighths);
            metrics.reading.inc();
            metrics.reading.inc_by(eighths);
            metrics.reading.dec();
            metrics.reading.dec_by(0.125);
            metrics.size.observe(eighths);
            by_kind.inc();
            size_by_kind.observe(eighths);
            metrics.level.dec();
            metrics.level.dec_by(2);
        }
    }};
}

#[test]
fn the_text_is_that_of_the_clients_own_metrics() {
    let (ours, theirs) = (ours(), theirs());
    work!(&ours, 1000);
    work!(&theirs, 1000);
    assert_eq!(text(&ours.registry), text(&theirs.registry));
    assert_eq!(
        (ours.level.set(-7), ours.reading.set(2.5)),
        (theirs.level.set(-7), theirs.reading.set(2.5))
    );
    work!(&ours, 100);
    work!(&theirs, 100);
    assert_eq!(
        (ours.count.get(), ours.level.get(), ours.reading.get()),
        (3300, -7, theirs.reading.get())
    );
    assert_eq!(text(&ours.registry), text(&theirs.registry));
    parse(&text(&ours.registry));
}

#[test]
fn increments_return_nothing_and_sets_the_value_before() {
    let metrics = ours();
    for _ in 0..3 {
        assert_eq!((metrics.count.inc(), metrics.count.inc_by(5)), (0, 0));
        assert_eq!(
            (metrics.amount.inc(), metrics.amount.inc_by(0.5)),
            (0.0, 0.0)
        );
        assert_eq!(
            (
                metrics.level.inc(),
                metrics.level.inc_by(2),
                metrics.level.dec_by(1)
            ),
            (0, 0, 0)
        );
        assert_eq!((metrics.reading.inc(), metrics.reading.dec()), (0.0, 0.0));
    }
    assert_eq!(metrics.level.set(1), 6);
    assert_eq!(metrics.reading.set(1.0), 0.0);
}

#[test]
fn counters_wrap_around_as_atomics_do() {
    let metrics = ours();
    metrics.count.inc_by(u64::MAX);
    assert_eq!(metrics.count.get(), u64::MAX);
    metrics.count.inc_by(3);
    assert_eq!(metrics.count.get(), 2);
    metrics.level.set(i64::MIN);
    metrics.level.dec_by(i64::MIN);
    assert_eq!(metrics.level.get(), 0);
}

#[test]
fn eight_threads_are_scraped_at_full_speed() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 24_000;
    let (ours, theirs) = (ours(), theirs());
    let mut last = (0.0, 0);
    let mut scrapes = 0;
    std::thread::scope(|scope| {
        let threads: [_; THREADS] = std::array::from_fn(|_| scope.spawn(|| work!(&ours, ROUNDS)));
        while threads.iter().any(|thread| !thread.is_finished()) {
            let scrape = parse(&text(&ours.registry));
            scrapes += 1;
            let value = |name: &str| {
                let sample = scrape.families[name].iter_samples().next();
                sample
                    .map(|sample| sample.value.clone())
                    .expect("one series")
            };
            let count = match value("count") {
                OpenMetricsValue::Counter(counter) => counter.value.as_f64(),
                other => panic!("not a counter: {other:?}"),
            };
            let size = match value("size") {
                OpenMetricsValue::Histogram(histogram) => histogram,
                other => panic!("not a histogram: {other:?}"),
            };
            let sizes = size.count.expect("a count");
            assert_eq!(
                size.buckets.last().expect("the last bucket").count.as_i64(),
                Some(sizes as i64)
            );
            assert!(
                count >= last.0 && sizes >= last.1,
                "{count}, {sizes} after {last:?}"
            );
            last = (count, sizes);
        }
    });
    println!("{scrapes} scrapes");
    // One thread alone comes to the same, in the client's own metrics.
    for _ in 0..THREADS {
        work!(&theirs, ROUNDS);
    }
    assert_eq!(text(&ours.registry), text(&theirs.registry));
    assert_eq!(ours.count.get(), (THREADS * ROUNDS * 3) as u64);
}
