//! From which read ratio a structure loses to a peer.

/// One point of a sweep: at `reads` reads an update, our rate and the peer's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Reads an update.
    pub reads: f64,
    /// Updates a second of the structure in question.
    pub ours: f64,
    /// Updates a second of the peer.
    pub peer: f64,
}

/// Where a structure stands against a peer over a sweep of read ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crossing {
    /// It wins at every ratio that was measured.
    Never,
    /// It loses at every ratio that was measured, also without reads.
    Always,
    /// It wins with fewer reads an update than this, and loses from here on.
    From(f64),
}

/// The first ratio, in ascending order, from which `ours` stays behind `peer`.
///
/// Between two points the ratio is interpolated on logarithmic scales, since both rates and ratios span decades; from a
/// point without reads the crossing is put at the next point measured, because no logarithm leads to zero. A single
/// lost point among won ones (noise) is no crossing: what counts is from where on every point is lost.
#[must_use]
pub fn crossing(points: &[Point]) -> Crossing {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.reads.total_cmp(&b.reads));
    let Some(last_won) = sorted.iter().rposition(|point| point.ours >= point.peer) else {
        return Crossing::Always;
    };
    let (won, Some(lost)) = (sorted[last_won], sorted.get(last_won + 1)) else {
        return Crossing::Never;
    };
    if won.reads <= 0.0 {
        return Crossing::From(lost.reads);
    }
    // The lead, as a logarithm, goes from ≥ 0 at `won` to < 0 at `lost`: the crossing is where the line meets zero.
    let lead_won = (won.ours / won.peer).ln();
    let lead_lost = (lost.ours / lost.peer).ln();
    let share = lead_won / (lead_won - lead_lost);
    Crossing::From((won.reads.ln() + share * (lost.reads.ln() - won.reads.ln())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(reads: f64, ours: f64) -> Point {
        Point {
            reads,
            ours,
            peer: 10.0,
        }
    }

    #[test]
    fn the_crossing_lies_where_the_rates_meet() {
        // Ten times faster at 10⁻⁴, ten times slower at 10⁻²: they meet at 10⁻³.
        let Crossing::From(ratio) = crossing(&[point(1e-2, 1.0), point(1e-4, 100.0)]) else {
            panic!("there is a crossing");
        };
        assert!((ratio / 1e-3 - 1.0).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn one_noisy_point_is_no_crossing() {
        let points = [
            point(0.0, 50.0),
            point(1e-6, 9.0),
            point(1e-3, 40.0),
            point(1e-1, 5.0),
        ];
        let Crossing::From(ratio) = crossing(&points) else {
            panic!("there is a crossing");
        };
        assert!(ratio > 1e-3 && ratio < 1e-1, "{ratio}");
    }

    #[test]
    fn always_and_never() {
        assert_eq!(crossing(&[]), Crossing::Always);
        assert_eq!(
            crossing(&[point(0.0, 9.0), point(0.1, 1.0)]),
            Crossing::Always
        );
        assert_eq!(
            crossing(&[point(0.0, 20.0), point(0.1, 11.0)]),
            Crossing::Never
        );
        assert_eq!(
            crossing(&[point(0.0, 20.0), point(1e-6, 1.0)]),
            Crossing::From(1e-6)
        );
    }
}
