//! A scrape, as a Prometheus server would read it.
//!
//! The parser is stricter than Prometheus in three ways: all series of a name have the same label keys, a histogram with a
//! negative sum has a negative bound, and there is no carriage return in any text.

// Each test file uses its part of this.
#![allow(dead_code)]

use openmetrics_parser::prometheus::parse_prometheus;
use openmetrics_parser::{MetricsExposition, PrometheusType, PrometheusValue};
use std::collections::BTreeMap;

/// What was scraped.
pub(crate) struct Scrape {
    exposition: MetricsExposition<PrometheusType, PrometheusValue>,
}

/// A histogram that was scraped.
#[derive(Debug, PartialEq)]
pub(crate) struct Distribution {
    /// Bounds, and the values up to each of them.
    pub(crate) buckets: Vec<(f64, u64)>,
    pub(crate) sum: f64,
    pub(crate) count: u64,
}

impl Scrape {
    /// Panics with the text if it is not Prometheus' format.
    pub(crate) fn parse(text: &str) -> Self {
        if text.is_empty() {
            // Nothing to show is a valid answer; this parser wants one family at least.
            let exposition = MetricsExposition::new();
            return Self { exposition };
        }
        match parse_prometheus(text) {
            Ok(exposition) => Self { exposition },
            Err(error) => panic!("{error}\nin:\n{text}"),
        }
    }

    pub(crate) fn family_type(&self, name: &str) -> &PrometheusType {
        &self.exposition.families[name].family_type
    }

    pub(crate) fn help(&self, name: &str) -> &str {
        &self.exposition.families[name].help
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self
            .exposition
            .families
            .keys()
            .map(|name| &**name)
            .collect();
        names.sort_unstable();
        names
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> &PrometheusValue {
        let family = &self.exposition.families[name];
        let expected: BTreeMap<_, _> = labels.iter().copied().collect();
        family
            .iter_samples()
            .find(|sample| {
                let own = sample.get_labelset().expect("labels have values");
                let own: BTreeMap<_, _> =
                    own.iter().map(|(key, value)| (&**key, &**value)).collect();
                own == expected
            })
            .map(|sample| &sample.value)
            .unwrap_or_else(|| panic!("{name} has no series with {labels:?}"))
    }

    /// A counter's value.
    pub(crate) fn counter(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        counter(name, self.value(name, labels))
    }

    /// The values of all counters of that name.
    pub(crate) fn counters(&self, name: &str) -> Vec<u64> {
        let samples = self.exposition.families[name].iter_samples();
        samples.map(|sample| counter(name, &sample.value)).collect()
    }

    /// A gauge's value.
    pub(crate) fn gauge(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        match self.value(name, labels) {
            PrometheusValue::Gauge(value) => value.as_f64(),
            other => panic!("{name} is not a gauge: {other:?}"),
        }
    }

    /// A histogram's buckets, sum and count.
    pub(crate) fn histogram(&self, name: &str, labels: &[(&str, &str)]) -> Distribution {
        match self.value(name, labels) {
            PrometheusValue::Histogram(histogram) => Distribution {
                buckets: histogram
                    .buckets
                    .iter()
                    .map(|bucket| {
                        let count = bucket.count.as_i64().expect("counts are whole");
                        (bucket.upper_bound, count.try_into().expect("not negative"))
                    })
                    .collect(),
                sum: histogram.sum.as_ref().expect("a sum").as_f64(),
                count: histogram.count.expect("a count"),
            },
            other => panic!("{name} is not a histogram: {other:?}"),
        }
    }
}

fn counter(name: &str, value: &PrometheusValue) -> u64 {
    match value {
        PrometheusValue::Counter(counter) => {
            let value = counter.value.as_i64().expect("counts are whole");
            value.try_into().expect("not negative")
        }
        other => panic!("{name} is not a counter: {other:?}"),
    }
}
