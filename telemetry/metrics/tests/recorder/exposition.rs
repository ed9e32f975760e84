//! What is rendered, read back by a parser that refuses what Prometheus refuses.

use crate::common::{Distribution, Scrape};
use metrics::{Key, Label, Recorder as _, SharedString, Unit, with_local_recorder};
use openmetrics_parser::PrometheusType;
use percolog_metrics::{Bounds, MetricKind, Recorder, Value};
use proptest::prelude::*;
use std::collections::HashSet;

static METADATA: metrics::Metadata<'static> =
    metrics::Metadata::new("exposition", metrics::Level::INFO, None);

#[test]
fn every_kind_comes_back_with_labels_and_description() {
    let recorder = Recorder::builder()
        .bounds_of("size", Bounds::new([1.0, 10.0]).expect("increasing"))
        .build();
    with_local_recorder(&recorder, || {
        metrics::describe_counter!("hits", Unit::Count, "one");
        metrics::describe_counter!("hits", Unit::Count, "Back\\slash, \"quote\"\nand line.");
        metrics::counter!("hits", "path" => "/a\"b\\c\nd", "verb" => "GET").increment(7);
        metrics::counter!("all").increment(u64::from(u32::MAX));
        metrics::gauge!("level", "of" => "water").set(-2.5);
        metrics::gauge!("level", "of" => "heat").set(f64::INFINITY);
        metrics::histogram!("own_size", "le" => "mine").record(10.0);
        metrics::histogram!("size").record_many(0.5, 3);
        metrics::histogram!("size").record(11.0);
    });
    let text = recorder.handle().render();
    let scrape = Scrape::parse(&text);
    assert_eq!(scrape.names(), ["all", "hits", "level", "own_size", "size"]);
    assert_eq!(scrape.family_type("hits"), &PrometheusType::Counter);
    assert_eq!(scrape.family_type("level"), &PrometheusType::Gauge);
    assert_eq!(scrape.family_type("size"), &PrometheusType::Histogram);
    assert_eq!(scrape.help("hits"), "Back\\slash, \"quote\"\nand line.");
    assert!(text.contains("# UNIT hits count\n"));
    assert_eq!(
        scrape.counter("hits", &[("path", "/a\"b\\c\nd"), ("verb", "GET")]),
        7
    );
    assert_eq!(scrape.counter("all", &[]), u64::from(u32::MAX));
    assert_eq!(scrape.gauge("level", &[("of", "water")]), -2.5);
    assert_eq!(scrape.gauge("level", &[("of", "heat")]), f64::INFINITY);
    assert_eq!(
        scrape.histogram("size", &[]),
        Distribution {
            buckets: vec![(1.0, 3), (10.0, 3), (f64::INFINITY, 4)],
            sum: 12.5,
            count: 4
        }
    );
    let mine = scrape.histogram("own_size", &[("exported_le", "mine")]);
    assert_eq!((mine.sum, mine.count), (10.0, 1));
}

#[test]
fn labels_in_another_order_are_the_same_series() {
    let recorder = Recorder::new();
    with_local_recorder(&recorder, || {
        metrics::counter!("hits", "a" => "1", "b" => "2").increment(1);
        metrics::counter!("hits", "b" => "2", "a" => "1").increment(1);
    });
    let seen = recorder.handle().snapshot();
    assert_eq!(
        seen.get("hits", &[("b", "2"), ("a", "1")]),
        Some(&Value::Counter(2))
    );
    assert_eq!(seen.get("hits", &[("a", "1")]), None);
}

#[test]
fn what_collides_is_named_and_the_rest_stays() {
    let recorder = Recorder::new();
    with_local_recorder(&recorder, || {
        metrics::counter!("a.b").increment(1);
        metrics::counter!("a_b").increment(2);
        metrics::gauge!("a.b").set(3.0);
        metrics::histogram!("time").record(4.0);
        metrics::gauge!("time_sum").set(5.0);
        metrics::counter!("same", "k.k" => "v").increment(6);
        metrics::counter!("same", "k_k" => "v").increment(7);
    });
    let handle = recorder.handle();
    let text = handle.render();
    let scrape = Scrape::parse(&text);
    assert_eq!(scrape.names(), ["a_b", "same", "time"]);
    assert_eq!(scrape.counter("a_b", &[]), 1);
    assert_eq!(scrape.counter("same", &[("k_k", "v")]), 6);
    let comments: Vec<_> = text
        .lines()
        .filter(|line| line.contains("left out"))
        .collect();
    assert_eq!(
        comments,
        [
            "# gauge a.b is left out: a_b is another metric's name already",
            "# counter a_b is left out: a_b is another metric's name already",
            "# A series of same is left out: {k_k=\"v\"} is another one's labels already",
            "# gauge time_sum is left out: time_sum is another metric's name already",
        ]
    );
    // As data, everything is there.
    let seen = handle.snapshot();
    assert_eq!(seen.families.len(), 6);
    assert_eq!(seen.get("a_b", &[]), Some(&Value::Counter(2)));
    let gauge = seen
        .families
        .iter()
        .find(|family| family.name == "a.b" && family.kind == MetricKind::Gauge);
    assert_eq!(
        gauge.expect("it is there").series[0].value,
        Value::Gauge(3.0)
    );
}

#[test]
fn nothing_recorded_is_nothing_shown() {
    let recorder = Recorder::new();
    with_local_recorder(&recorder, || metrics::describe_gauge!("level", "Not yet."));
    assert_eq!(recorder.handle().render(), "");
}

#[test]
fn a_second_recorder_is_refused() {
    percolog_metrics::install().expect("the first of this process");
    let error = percolog_metrics::install().expect_err("the second");
    assert!(
        error
            .to_string()
            .starts_with("another metrics recorder is installed already")
    );
}

/// Names as programs should not have them. Carriage returns are left out: Prometheus takes them, this parser does not.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        "[a-c._:0-9]{0,3}",
        any::<String>().prop_map(|text| text.replace('\r', ""))
    ]
}

/// The metrics of one name and kind: what kind, what it is called, the keys of its labels, its description, and for each
/// series the values of its labels and what is recorded. (All series have the same keys: the parser wants that, Prometheus does not.)
type Metrics = (u8, String, Vec<String>, String, Vec<(Vec<String>, f64)>);

fn metrics() -> impl Strategy<Value = Metrics> {
    (0..4usize).prop_flat_map(|labels| {
        let series = (prop::collection::vec(text(), labels), any::<f64>());
        (
            0..3u8,
            text(),
            prop::collection::vec(text(), labels),
            text(),
            prop::collection::vec(series, 1..4),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a program calls its metrics, Prometheus reads them.
    #[test]
    fn any_name_label_and_text_is_rendered_validly(
        families in prop::collection::vec(metrics(), 1..6),
    ) {
        let recorder = Recorder::new();
        let mut used = HashSet::new();
        for (kind, name, keys, help, series) in families {
            if !used.insert((kind, name.clone())) {
                continue;
            }
            let help = SharedString::from(help);
            let described = name.clone().into();
            match kind {
                0 => recorder.describe_counter(described, None, help),
                1 => recorder.describe_gauge(described, Some(Unit::Seconds), help),
                _ => recorder.describe_histogram(described, None, help),
            }
            for (values, number) in series {
                let labels: Vec<_> = keys.iter().cloned().zip(values).map(|pair| Label::from(&pair)).collect();
                let key = Key::from_parts(name.clone(), labels);
                match kind {
                    0 => recorder.register_counter(&key, &METADATA).increment(number.to_bits() >> 12),
                    1 => recorder.register_gauge(&key, &METADATA).set(number),
                    // Not negative: this parser wants a negative bound then, which Prometheus does not.
                    _ => recorder.register_histogram(&key, &METADATA).record(number.abs()),
                }
            }
        }
        let text = recorder.handle().render();
        prop_assert!(!Scrape::parse(&text).names().is_empty());
    }
}
