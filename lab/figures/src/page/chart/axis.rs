//! Axes: which values they have marks at, and how these are written.

use super::short;

/// The marks of an axis of what varies: its values, as far as they do not stand in each other's way. `place` says where a value is, in pixels.
pub(super) fn marks(values: &[f64], place: impl Fn(f64) -> f64, apart: f64) -> Vec<f64> {
    let Some((&last, others)) = values.split_last() else {
        return Vec::new();
    };
    let mut marks: Vec<f64> = Vec::new();
    for &value in others {
        let free = |other: f64| (place(value) - place(other)).abs() >= apart;
        if marks.last().is_none_or(|mark| free(*mark)) && free(last) {
            marks.push(value);
        }
    }
    marks.push(last);
    marks
}

/// The ends of an axis of values, and its marks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) marks: Vec<f64>,
}

/// An axis from zero, for values up to this.
pub(super) fn linear(largest: f64) -> Scale {
    let largest = if largest > 0.0 { largest } else { 1.0 };
    let rough = largest / 4.5;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * power);
    let steps = (largest / step * 1.04).ceil();
    Scale {
        low: 0.0,
        high: step * steps,
        marks: (0..=steps as u32).map(|at| f64::from(at) * step).collect(),
    }
}

/// A logarithmic axis for positive values between these.
pub(super) fn logarithmic(least: f64, largest: f64) -> Scale {
    let (low, high) = (least / 1.5, largest * 1.5);
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let factors: &[f64] = match high / low {
        span if span > 1e4 => &[1.0],
        span if span > 60.0 => &[1.0, 3.0],
        _ => &[1.0, 2.0, 5.0],
    };
    let marks = decades
        .flat_map(|decade| {
            factors
                .iter()
                .map(move |factor| factor * 10_f64.powi(decade))
        })
        .filter(|mark| (low..=high).contains(mark))
        .collect();
    Scale { low, high, marks }
}

/// How a mark is written.
pub(super) fn written(value: f64) -> String {
    short(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_are_too_near_are_left_out_and_the_ends_stay() {
        let log = |value: f64| 100.0 * value.log2();
        assert_eq!(
            marks(&[1.0, 2.0, 4.0, 6.0, 48.0], log, 90.0),
            [1.0, 2.0, 4.0, 48.0]
        );
        assert_eq!(marks(&[1.0, 46.0, 48.0], |x| x, 30.0), [1.0, 48.0]);
        assert_eq!(marks(&[], |x| x, 1.0), [] as [f64; 0]);
    }

    #[test]
    fn scales_hold_what_they_are_for() {
        for largest in [0.37, 1.0, 9.9, 1234.0, 5.2e9] {
            let scale = linear(largest);
            assert!(
                scale.high >= largest && scale.high < 1.5 * largest,
                "{scale:?}"
            );
            assert!((4..=8).contains(&scale.marks.len()), "{scale:?}");
        }
        for (least, largest) in [(1.0, 2.0), (3.0, 5000.0), (0.01, 1e7)] {
            let scale = logarithmic(least, largest);
            assert!(scale.low < least && scale.high > largest);
            assert!((2..=14).contains(&scale.marks.len()), "{scale:?}");
        }
    }
}
