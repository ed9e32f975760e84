//! Histograms against the sorted list of all values.

use percolog::reduce::{HdrBounds, HdrBoundsError, HdrHistogram, HdrSnapshot, Merge};
use proptest::prelude::*;
use std::time::Duration;

fn bounds() -> impl Strategy<Value = HdrBounds> {
    (0u32..40, 1u32..30, 1u8..=3).prop_filter_map("valid", |(low, room, figures)| {
        HdrBounds::new(1 << low, 1 << (low + room).min(63), figures).ok()
    })
}

/// Values of every magnitude.
fn values() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(
        (0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift),
        0..80,
    )
}

/// By how much a value may be off that is told apart within these bounds.
fn tolerance(bounds: HdrBounds, value: u64) -> u64 {
    (value / 10u64.pow(u32::from(bounds.figures()))).max(bounds.low() - 1)
}

/// The snapshot says of the values what it promises.
fn check(snapshot: &HdrSnapshot, bounds: HdrBounds, values: &[u64]) {
    let mut values = values.to_vec();
    values.sort_unstable();
    assert_eq!(snapshot.bounds(), bounds);
    assert_eq!(snapshot.count(), values.len() as u64);
    assert_eq!(snapshot.is_empty(), values.is_empty());
    assert_eq!(snapshot.min(), values.first().copied());
    assert_eq!(snapshot.max(), values.last().copied());
    let sum: u128 = values.iter().copied().map(u128::from).sum();
    assert_eq!(snapshot.sum(), sum);
    let mean = (!values.is_empty()).then(|| sum as f64 / values.len() as f64);
    assert_eq!(snapshot.mean(), mean);
    assert_eq!(snapshot.quantile(0.5).is_none(), values.is_empty());

    let listed: Vec<(u64, u64)> = snapshot.iter().collect();
    assert!(listed.is_sorted_by(|one, two| one.0 < two.0));
    assert_eq!(
        listed.iter().map(|(_, times)| times).sum::<u64>(),
        values.len() as u64
    );
    let (high, tolerance_of_high) = (bounds.high(), tolerance(bounds, bounds.high()));
    assert!(
        listed
            .iter()
            .all(|(value, _)| *value <= high.saturating_add(tolerance_of_high))
    );
    for (at, value) in values.iter().enumerate() {
        let counted = (*value).min(bounds.high());
        let tolerance = tolerance(bounds, counted);
        // In the middle of its rank, where the rounding of floats does not matter.
        let quantile = snapshot
            .quantile((at as f64 + 0.5) / values.len() as f64)
            .expect("not empty");
        assert!(
            quantile.abs_diff(counted) <= tolerance,
            "{quantile} for {value} in {bounds:?}"
        );
        let at_most = values.partition_point(|other| other <= value) as u64;
        assert!(snapshot.count_at_most(*value) >= at_most);
        let surely_above = values
            .iter()
            .filter(|other| (**other).min(bounds.high()) > counted.saturating_add(tolerance))
            .count() as u64;
        assert!(snapshot.count_at_most(*value) <= values.len() as u64 - surely_above);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn a_histogram_knows_what_the_list_knows(bounds in bounds(), values in values()) {
        let histogram = HdrHistogram::with_bounds(bounds);
        std::thread::scope(|scope| {
            for part in values.chunks(30) {
                let histogram = &histogram;
                scope.spawn(move || part.iter().for_each(|value| histogram.record(*value)));
            }
        });
        let snapshot = histogram.read();
        check(&snapshot, bounds, &values);
        let above = values.iter().filter(|value| **value > bounds.high()).count();
        prop_assert_eq!(snapshot.saturated(), above as u64);
        check(&histogram.take(), bounds, &values);
        check(&histogram.read(), bounds, &[]);
    }

    /// Merging is as good as recording all with what both can tell apart.
    #[test]
    fn snapshots_of_any_bounds_merge(
        one in (bounds(), values()),
        two in (bounds(), values()),
    ) {
        let [first, second] = [&one, &two].map(|(bounds, values)| {
            let histogram = HdrHistogram::with_bounds(*bounds);
            // Within both, so that what is saturated is a matter for the other test.
            for value in values {
                histogram.record(*value & 1);
                histogram.record(value % one.0.high().min(two.0.high()));
            }
            (histogram.read(), values)
        });
        let common = HdrBounds::new(
            one.0.low().max(two.0.low()),
            one.0.high().max(two.0.high()),
            one.0.figures().min(two.0.figures()),
        )
        .expect("both are valid");
        let whole = HdrHistogram::with_bounds(common);
        for value in first.1.iter().chain(second.1) {
            whole.record(*value & 1);
            whole.record(value % one.0.high().min(two.0.high()));
        }
        for (left, right) in [(&first.0, &second.0), (&second.0, &first.0)] {
            let mut merged = left.clone();
            merged.merge(right);
            prop_assert_eq!(merged.bounds(), common);
            prop_assert_eq!(merged.sum(), whole.read().sum());
            prop_assert_eq!(merged.min(), whole.read().min());
            prop_assert_eq!(merged.max(), whole.read().max());
            prop_assert!(merged.iter().eq(whole.read().iter()));
            // What is no histogram's changes nothing, on either side.
            let mut nothing = HdrSnapshot::default();
            nothing.merge(&merged);
            nothing.merge(&HdrSnapshot::default());
            prop_assert_eq!(nothing.bounds(), common);
            prop_assert!(nothing.iter().eq(merged.iter()));
        }
    }
}

#[test]
fn bounds_that_make_no_histogram_are_refused() {
    assert_eq!(HdrBounds::new(0, 10, 2), Err(HdrBoundsError::LowIsZero));
    assert_eq!(
        HdrBounds::new(6, 11, 2),
        Err(HdrBoundsError::HighBelowTwiceLow)
    );
    assert_eq!(
        HdrBounds::new(u64::MAX, u64::MAX, 2),
        Err(HdrBoundsError::HighBelowTwiceLow)
    );
    assert_eq!(HdrBounds::new(1, 10, 0), Err(HdrBoundsError::Figures));
    assert_eq!(HdrBounds::new(1, 10, 6), Err(HdrBoundsError::Figures));
    assert_eq!(
        HdrBounds::new(1 << 55, u64::MAX, 3),
        Err(HdrBoundsError::LowTooHigh)
    );
    assert_eq!(HdrBounds::default(), HdrBounds::ALL);
    // Every other one counts.
    for figures in 1..=5 {
        // Many figures take megabytes of counts.
        for shift in (0..63).step_by(if figures < 3 { 1 } else { 20 }) {
            for low in [1 << shift, (1 << shift) + 1, (2 << shift) - 1] {
                for high in [2 * low, u64::MAX] {
                    let Ok(bounds) = HdrBounds::new(low, high, figures) else {
                        continue;
                    };
                    let histogram = HdrHistogram::with_bounds(bounds);
                    histogram.record(0);
                    histogram.record(high);
                    assert_eq!(histogram.read().count(), 2, "{bounds:?}");
                    // As fine as promised, and no more cells than that.
                    if high == 2 * low {
                        check(&histogram.read(), bounds, &[0, high]);
                    }
                }
            }
        }
    }
}

#[test]
fn the_ends_of_what_can_be_counted() {
    static HISTOGRAM: HdrHistogram = HdrHistogram::new();
    HISTOGRAM.record_duration(Duration::MAX);
    HISTOGRAM.record_duration(Duration::from_micros(3));
    HISTOGRAM.record(0);
    HISTOGRAM.record_n(7, 0);
    check(&HISTOGRAM.read(), HdrBounds::ALL, &[0, 3000, u64::MAX]);
    assert_eq!(HISTOGRAM.read().quantile(f64::NAN), Some(0));
    assert_eq!(HISTOGRAM.read().quantile(-1.0), Some(0));
    assert_eq!(HISTOGRAM.read().quantile(7.0), Some(u64::MAX));
    // Counting ends where a count does.
    HISTOGRAM.record_n(1, u64::MAX - 5);
    HISTOGRAM.record_n(2, 100);
    HISTOGRAM.record(3);
    let full = HISTOGRAM.read();
    assert_eq!(full.count(), u64::MAX);
    assert_eq!(full.count_at_most(1), u64::MAX - 4);
    assert_eq!(full.count_at_most(2), u64::MAX - 2);
    assert_eq!(full.quantile(0.5), Some(1));
    let mut more = full.clone();
    more.merge(&full);
    assert_eq!((more.count(), more.sum()), (full.count(), full.sum()));
    assert_eq!(
        HISTOGRAM.try_take().map(|taken| taken.count()),
        Ok(u64::MAX)
    );
    assert_eq!(HISTOGRAM.try_read().map(|read| read.count()), Ok(0));
    assert_eq!(
        format!("{:?}", HISTOGRAM.bounds()),
        format!("{:?}", HdrBounds::ALL)
    );
}
