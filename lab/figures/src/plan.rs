//! Which cells a figure is made of.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalogue::{Contender, Figure, Need, TimeOf, Where};

/// How much of a figure is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Few values and short: to try, not to judge by.
    Quick,
    /// All of it.
    Full,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quick => "quick",
            Self::Full => "full",
        })
    }
}

/// The longest that a measurement of a quick run takes, and the most of them.
const QUICK: (Duration, u32) = (Duration::from_millis(60), 3);

/// How many times less of the cycles that there are for each thread a quick run takes.
const QUICKER: u64 = 16;

/// What one process does: the same cell in two figures is measured once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// The machine: `here`, or a simulated one.
    pub machine: String,
    /// What is run.
    pub program: String,
    /// With which parameters, threads and time among them.
    pub parameters: BTreeMap<String, String>,
    /// How often: once, if it is simulated, since it would be the same again.
    pub repetitions: u32,
    /// The version of the experiment.
    pub revision: u32,
}

impl Cell {
    /// How many threads it has.
    #[must_use]
    pub fn threads(&self) -> u32 {
        let threads = self.parameters.get("threads");
        threads
            .and_then(|threads| threads.parse().ok())
            .unwrap_or(1)
    }

    /// Whether it runs on this machine.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.machine == Where::Here.to_string()
    }

    /// The words that a process of its own is given.
    pub fn words(&self) -> impl Iterator<Item = String> + '_ {
        let pairs = self.parameters.iter();
        std::iter::once(self.program.clone())
            .chain(pairs.map(|(key, value)| format!("{key}={value}")))
    }
}

/// Where in a figure a cell is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Whose.
    pub contender: String,
    /// The value of what varies.
    pub x: u64,
    /// The value of what else varies.
    pub row: Option<u64>,
    /// What is run for it.
    pub cell: Cell,
    /// Without what it is skipped.
    pub needs: Option<Need>,
}

/// All cells of a figure, on a machine with so many processors; contenders take turns, so that a slow moment meets all of them alike.
#[must_use]
pub fn places(figure: &Figure, size: Size, processors: u64) -> Vec<Place> {
    let values = |axis: &crate::catalogue::Axis| match size {
        Size::Quick => axis.quick_values(processors),
        Size::Full => axis.values(processors),
    };
    let rows: Vec<Option<u64>> = match &figure.rows {
        None => vec![None],
        Some(axis) => values(axis).into_iter().map(Some).collect(),
    };
    let mut places = Vec::new();
    for row in rows {
        for x in values(&figure.x) {
            for contender in &figure.contenders {
                places.push(Place {
                    contender: contender.name.clone(),
                    x,
                    row,
                    cell: cell(figure, contender, size, x, row),
                    needs: contender.needs.clone(),
                });
            }
        }
    }
    places
}

fn cell(figure: &Figure, contender: &Contender, size: Size, x: u64, row: Option<u64>) -> Cell {
    let mut parameters: BTreeMap<String, String> = figure
        .parameters
        .iter()
        .chain(&contender.with)
        .map(|(key, value)| (key.clone(), value.to_string()))
        .collect();
    parameters
        .entry("threads".to_owned())
        .or_insert_with(|| "1".to_owned());
    parameters.insert(figure.x.parameter.clone(), x.to_string());
    if let (Some(axis), Some(value)) = (&figure.rows, row) {
        parameters.insert(axis.parameter.clone(), value.to_string());
    }
    let threads = parameters["threads"].parse().unwrap_or(1);
    let repetitions = match contender.time.unwrap_or(figure.time) {
        TimeOf::Wall {
            duration,
            repetitions,
        } => {
            let (duration, repetitions) = match size {
                Size::Quick => (duration.min(QUICK.0), repetitions.min(QUICK.1)),
                Size::Full => (duration, repetitions),
            };
            let milliseconds = duration.as_millis().to_string();
            parameters.insert("milliseconds".to_owned(), milliseconds);
            repetitions
        }
        TimeOf::Cycles { warm_up, counted } => {
            let cycles = |(first, each): (u64, u64)| {
                let each = match size {
                    Size::Quick => each / QUICKER,
                    Size::Full => each,
                };
                (first + each * threads).to_string()
            };
            parameters.insert("warm_up".to_owned(), cycles(warm_up));
            parameters.insert("cycles".to_owned(), cycles(counted));
            1
        }
    };
    Cell {
        machine: figure.machine.to_string(),
        program: contender.program.clone(),
        parameters,
        repetitions,
        revision: figure.revision.number,
    }
}

/// The cell of a place of a figure, by the contender's name; nothing if there is no such contender.
#[must_use]
pub(crate) fn cell_of(
    figure: &Figure,
    size: Size,
    contender: &str,
    x: u64,
    row: Option<u64>,
) -> Option<Cell> {
    let contender = figure.contenders.iter().find(|one| one.name == contender)?;
    Some(cell(figure, contender, size, x, row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn every_figure_has_cells_of_every_contender() {
        for figure in catalogue::all().expect("the catalogue is right") {
            for size in [Size::Quick, Size::Full] {
                let places = places(&figure, size, 2);
                for contender in &figure.contenders {
                    let own = places
                        .iter()
                        .filter(|place| place.contender == contender.name);
                    assert!(own.count() > 0, "{}: {}", figure.name, contender.name);
                }
                for place in &places {
                    let mut same = places.iter().filter(|other| {
                        (&other.contender, other.x, other.row)
                            == (&place.contender, place.x, place.row)
                    });
                    assert!(same.next().is_some() && same.next().is_none());
                    assert!(place.cell.repetitions >= 1);
                    assert!(place.cell.words().count() > 2);
                }
            }
        }
    }
}
