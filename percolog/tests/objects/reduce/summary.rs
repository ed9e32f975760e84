//! Summaries against the list of all numbers.

use percolog::reduce::{Merge, Summary, SummarySnapshot};
use proptest::prelude::*;
use std::thread;

/// Equal but for what floats lose: `scale` is the largest number that went in, or its square.
fn close(one: Option<f64>, two: Option<f64>, scale: f64) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => (one - two).abs() <= 1e-9 * scale,
        (one, two) => one == two,
    }
}

fn check(read: &SummarySnapshot, values: &[f64]) {
    let finite: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    let count = finite.len() as f64;
    let some = |value: f64| (!finite.is_empty()).then_some(value);
    let mean = some(finite.iter().sum::<f64>() / count);
    let variance = mean.map(|mean| {
        finite
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / count
    });
    let scale = finite
        .iter()
        .fold(1.0f64, |scale, value| scale.max(value.abs()));
    assert_eq!(read.count(), finite.len() as u64);
    assert_eq!(read.not_finite(), (values.len() - finite.len()) as u64);
    assert_eq!(
        read.min(),
        some(finite.iter().copied().fold(f64::INFINITY, f64::min))
    );
    assert_eq!(
        read.max(),
        some(finite.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    );
    assert!(close(read.mean(), mean, scale), "{read:?} {mean:?}");
    assert!(
        close(read.variance(), variance, scale * scale),
        "{read:?} {variance:?}"
    );
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    let number = prop_oneof![
        20 => -1e6..1e6,
        // Far from zero and close together: where sums of squares cancel.
        10 => (0.0..1.0).prop_map(|value| 1e6 + value),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
    ];
    proptest::collection::vec(number, 0..40)
}

proptest! {
    #[test]
    fn a_summary_knows_what_the_list_knows(parts in proptest::collection::vec(numbers(), 1..4)) {
        let summary = Summary::new();
        thread::scope(|scope| {
            for part in &parts {
                let summary = &summary;
                scope.spawn(move || part.iter().for_each(|value| summary.record(*value)));
            }
        });
        let all: Vec<f64> = parts.concat();
        check(&summary.read(), &all);
        check(&summary.try_read().expect("not refused"), &all);
        check(&summary.take(), &all);
        check(&summary.try_take().expect("not refused"), &[]);
    }

    #[test]
    fn summaries_merge(one in numbers(), two in numbers()) {
        let [mut merged, other] = [&one, &two].map(|values| {
            let summary = Summary::default();
            values.iter().for_each(|value| summary.record(*value));
            summary.read()
        });
        merged.merge(&other);
        check(&merged, &[one, two].concat());
    }
}

#[test]
fn a_small_variance_far_from_zero_is_not_lost() {
    let summary = Summary::new();
    for at in 0..1000 {
        summary.record(1e9 + f64::from(at % 2));
    }
    let variance = summary.read().variance().expect("there are numbers");
    assert!((variance - 0.25).abs() < 1e-6, "{variance}");
    assert_eq!(format!("{summary:?}"), "Summary { .. }");
}
