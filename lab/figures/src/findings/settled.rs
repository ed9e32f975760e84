//! Whether what was simulated had settled when it was counted: the second half of the time is compared with the first.

use super::Shown;
use percolog_cells::Values;

/// A cell that had not settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsettled<'a> {
    /// Whose.
    pub contender: &'a str,
    /// The value of what varies.
    pub x: u64,
    /// The value of what else varies.
    pub row: Option<u64>,
    /// How many times the operations of the first half of the time the second half had.
    pub drift: f64,
}

/// From how many times more or less on a cell has not settled.
const SETTLED: f64 = 1.5;

/// The cells of a figure that had not settled, and of how many it is known.
#[must_use]
pub fn unsettled(shown: &Shown) -> (Vec<Unsettled<'_>>, usize) {
    let drifts: Vec<Unsettled<'_>> = shown
        .results
        .cells
        .iter()
        .filter_map(|found| {
            Some(Unsettled {
                contender: &found.contender,
                x: found.x,
                row: found.row,
                drift: found.median(Values::DRIFT)?.median,
            })
        })
        .collect();
    let known = drifts.len();
    let outside = |one: &Unsettled<'_>| !(1.0 / SETTLED..=SETTLED).contains(&one.drift);
    (drifts.into_iter().filter(outside).collect(), known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Kind;
    use crate::findings::tests::shown;

    #[test]
    fn a_cell_whose_halves_differ_has_not_settled() {
        let mut figure = shown(Kind::Curve, |_, _, _| 1.0);
        assert_eq!(unsettled(&figure), (Vec::new(), 0));
        for (found, drift) in figure.results.cells.iter_mut().zip([1.0, 0.1, 1.4, 3.0]) {
            found.values[0] = found.values[0].clone().with(Values::DRIFT, drift);
        }
        let (found, known) = unsettled(&figure);
        let drifts: Vec<f64> = found.iter().map(|one| one.drift).collect();
        assert_eq!((drifts, known), (vec![0.1, 3.0], 4));
    }
}
