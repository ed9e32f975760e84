//! Whether what was simulated had settled when it was counted: the second half of the time is compared with the first.

use super::Shown;
use crate::store::Found;
use percolog_cells::Values;

/// What is known of the cells of a figure that are not [in doubt](super::Doubt) anyhow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settling<'a> {
    /// Those that had not settled.
    pub unsettled: Vec<Unsettled<'a>>,
    /// Of how many it is known.
    pub known: usize,
    /// Of how many it is not: they are fixed work, or from before it was noted.
    pub unknown: usize,
}

/// A cell that had not settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsettled<'a> {
    /// Which.
    pub found: &'a Found,
    /// How many times the operations of the first half of the time the second half had.
    pub drift: f64,
}

/// From how many times more or less on a cell has not settled.
const SETTLED: f64 = 1.5;

/// Which simulated cells of a figure had settled.
#[must_use]
pub fn settling(shown: &Shown) -> Settling<'_> {
    let mut settling = Settling::default();
    let value = &shown.figure.y.value;
    let counted = |found: &&Found| {
        found.is_simulated()
            && found.median(value).is_some()
            && found.median(Values::OPERATIONS).is_some()
            && shown.doubt(found).is_none()
    };
    for found in shown.results.cells.iter().filter(counted) {
        let Some(drift) = found.median(Values::DRIFT) else {
            settling.unknown += 1;
            continue;
        };
        settling.known += 1;
        let drift = drift.median;
        if !(1.0 / SETTLED..=SETTLED).contains(&drift) {
            settling.unsettled.push(Unsettled { found, drift });
        }
    }
    settling
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Kind, Where};
    use crate::findings::tests::shown;

    #[test]
    fn a_cell_whose_halves_differ_has_not_settled() {
        let mut figure = shown(Kind::Curve, |_, _, _| 1.0);
        figure.figure.machine = Where::Simulated("opteron-48".to_owned());
        let cells = figure.results.cells.len();
        for found in &mut figure.results.cells {
            found.cell.machine = "opteron-48".to_owned();
            found.values[0] = found.values[0].clone().with(Values::OPERATIONS, 1000.0);
        }
        let unknown = Settling {
            unknown: cells,
            ..Settling::default()
        };
        assert_eq!(settling(&figure), unknown);
        for (found, drift) in figure.results.cells.iter_mut().zip([1.0, 0.1, 1.4, 3.0]) {
            found.values[0] = found.values[0].clone().with(Values::DRIFT, drift);
        }
        let found = settling(&figure);
        let drifts: Vec<f64> = found.unsettled.iter().map(|one| one.drift).collect();
        assert_eq!((drifts, found.known), (vec![0.1, 3.0], 4));
        // What is in doubt is not looked at.
        figure.results.cells[1].cell.revision += 1;
        assert_eq!(settling(&figure).unsettled.len(), 1);
    }
}
