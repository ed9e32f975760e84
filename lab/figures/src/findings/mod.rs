//! What results say: curves, who wins, what was published beside it, and how well the simulator agrees with what was measured.

mod doubt;
mod duel;
mod fidelity;
mod settled;

pub use doubt::{Doubt, FEWEST, Times, of_unknown_samples, times, too_few_samples};
pub(crate) use duel::EVEN;
pub use duel::{Duel, Standing, duels};
pub use fidelity::{Agreement, agreements};
pub use settled::{Settling, Unsettled, settling};

use std::fmt;

use crate::catalogue::{Contender, Figure, Role, Where};
use crate::store::{Found, Results, Spread};

/// A figure with what was found of it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The figure.
    pub figure: Figure,
    /// What was found.
    pub results: Results,
}

/// One point of a contender, in the unit of the axis.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// The value of what varies.
    pub x: u64,
    /// The value of what else varies.
    pub row: Option<u64>,
    /// The value drawn.
    pub y: Spread,
    /// All that was found of it.
    pub found: &'a Found,
    /// Why it is compared with nothing, if it is not.
    pub doubt: Option<Doubt>,
}

/// The points of a contender, by what varies.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// Whose.
    pub contender: &'a Contender,
    /// What there is of it.
    pub points: Vec<Point<'a>>,
    /// Why something is missing: each reason once.
    pub failures: Vec<&'a str>,
}

impl Series<'_> {
    /// The point at a place.
    #[must_use]
    pub fn point(&self, x: u64, row: Option<u64>) -> Option<&Point<'_>> {
        let mut points = self.points.iter();
        points.find(|point| point.x == x && point.row == row)
    }

    /// The value at a place that can be compared with others.
    #[must_use]
    pub fn at(&self, x: u64, row: Option<u64>) -> Option<f64> {
        let point = self.point(x, row)?;
        point.doubt.is_none().then_some(point.y.median)
    }
}

impl Shown {
    /// The contenders with their points.
    #[must_use]
    pub fn series(&self) -> Vec<Series<'_>> {
        let factor = self.figure.y.factor;
        let contenders = self.figure.contenders.iter();
        contenders
            .map(|contender| {
                let own = self
                    .results
                    .cells
                    .iter()
                    .filter(|found| found.contender == contender.name);
                let mut points: Vec<Point<'_>> = own
                    .clone()
                    .filter_map(|found| {
                        let y = found.median(&self.figure.y.value)?;
                        Some(Point {
                            x: found.x,
                            row: found.row,
                            y: Spread {
                                median: y.median * factor,
                                least: y.least * factor,
                                largest: y.largest * factor,
                            },
                            found,
                            doubt: self.doubt(found),
                        })
                    })
                    .collect();
                points.sort_by_key(|point| (point.row, point.x));
                let mut failures: Vec<&str> = Vec::new();
                for why in own.filter_map(|found| found.failure.as_deref()) {
                    if !failures.contains(&why) {
                        failures.push(why);
                    }
                }
                Series {
                    contender,
                    points,
                    failures,
                }
            })
            .collect()
    }

    /// All values of what varies that have a point, in order.
    #[must_use]
    pub fn xs(&self) -> Vec<u64> {
        let mut xs: Vec<u64> = self.results.cells.iter().map(|found| found.x).collect();
        xs.sort_unstable();
        xs.dedup();
        xs
    }

    /// All values of what else varies, as the figure orders them.
    #[must_use]
    pub fn rows(&self) -> Vec<Option<u64>> {
        let Some(axis) = &self.figure.rows else {
            return vec![None];
        };
        let there = |row: &u64| {
            self.results
                .cells
                .iter()
                .any(|found| found.row == Some(*row))
        };
        axis.values(self.results.host.processors)
            .into_iter()
            .filter(there)
            .map(Some)
            .collect()
    }

    /// What was published, beside ours.
    #[must_use]
    pub fn comparisons(&self) -> Vec<Comparison<'_>> {
        let series = self.series();
        let mut comparisons = Vec::new();
        for published in &self.figure.published {
            let find = |name: &Option<String>| {
                let name = name.as_ref()?;
                series.iter().find(|one| one.contender.name == *name)
            };
            let (ours, more) = (find(&published.contender), find(&published.saved_of));
            for &(x, value) in &published.points {
                // What varies is counted; a point between two counts is compared with nothing.
                let at = (x >= 0.0 && x.fract() == 0.0).then_some(x as u64);
                let point = |of: Option<&'_ Series<'_>>| {
                    let point = of?.point(at?, None)?;
                    Some((point.y.median, point.doubt.clone()))
                };
                let (ours, doubt) = match (point(ours), &published.saved_of) {
                    (Some((ours, doubt)), None) => (Some(ours), doubt),
                    (Some((ours, doubt)), Some(_)) => {
                        let more = point(more);
                        let saved = more.as_ref().map(|(more, _)| more - ours);
                        (saved, doubt.or(more.and_then(|(_, doubt)| doubt)))
                    }
                    (None, _) => (None, None),
                };
                comparisons.push(Comparison {
                    name: &published.name,
                    contender: published.contender.as_deref(),
                    saved_of: published.saved_of.as_deref(),
                    note: published.note.as_deref(),
                    x,
                    published: value,
                    ours,
                    fitted: published.fitted,
                    not_comparable: published.not_comparable.as_deref(),
                    is_measured: self.figure.machine == Where::Here,
                    doubt,
                });
            }
        }
        comparisons
    }
}

/// A number that was published, beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison<'a> {
    /// What the paper calls it.
    pub name: &'a str,
    /// Which of ours it is compared with.
    pub contender: Option<&'a str>,
    /// What is compared is how much less than this one of ours it has.
    pub saved_of: Option<&'a str>,
    /// Where the paper says so.
    pub note: Option<&'a str>,
    /// What varies.
    pub x: f64,
    /// Theirs.
    pub published: f64,
    /// Ours, if it was made.
    pub ours: Option<f64>,
    /// The machine's description or the workload was fitted to the published number: that ours meets it says little.
    pub fitted: bool,
    /// Why the two are of different things.
    pub not_comparable: Option<&'a str>,
    /// Ours was counted or measured where the figure was made; nothing was simulated.
    pub is_measured: bool,
    /// Why ours is compared with nothing, if it is not.
    pub doubt: Option<Doubt>,
}

/// What our number says about a published one.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// It was simulated, and nothing was fitted to the published one.
    Predicted,
    /// The machine's description or the workload was fitted to the published one.
    Fitted,
    /// It was counted or measured, and nothing was simulated.
    Measured,
    /// It is compared with nothing: the two are of different things, or ours is not good enough.
    NotComparable(String),
    /// It has not been made.
    NotMade,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Predicted => f.write_str("predicted"),
            Self::Fitted => f.write_str("fitted"),
            Self::Measured => f.write_str("measured"),
            Self::NotComparable(why) => write!(f, "× not comparable: {why}"),
            Self::NotMade => f.write_str("not made yet"),
        }
    }
}

impl Comparison<'_> {
    /// What ours says about theirs.
    #[must_use]
    pub fn claim(&self) -> Claim {
        match (&self.doubt, self.not_comparable) {
            (Some(doubt), _) => Claim::NotComparable(doubt.to_string()),
            (None, Some(why)) => Claim::NotComparable(why.to_owned()),
            (None, None) if self.ours.is_none() && self.contender.is_some() => Claim::NotMade,
            (None, None) if self.contender.is_none() => {
                Claim::NotComparable("nothing of ours stands beside it".to_owned())
            }
            (None, None) if self.fitted => Claim::Fitted,
            (None, None) if self.is_measured => Claim::Measured,
            (None, None) => Claim::Predicted,
        }
    }

    /// Ours over theirs, if theirs is not nothing and ours can be compared.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        if let Claim::NotComparable(_) = self.claim() {
            return None;
        }
        Some(self.ours? / self.published).filter(|ratio| ratio.is_finite())
    }

    /// The same, of a number that was predicted.
    #[must_use]
    pub fn prediction(&self) -> Option<f64> {
        self.ratio().filter(|_| self.claim() == Claim::Predicted)
    }
}

/// The best of some series at a place.
pub(crate) fn best<'s, 'a>(
    figure: &Figure,
    series: &'s [Series<'a>],
    wanted: impl Fn(Role) -> bool,
    x: u64,
    row: Option<u64>,
) -> Option<(&'s Series<'a>, f64)> {
    series
        .iter()
        .filter(|one| wanted(one.contender.role))
        .filter_map(|one| Some((one, one.at(x, row)?)))
        .reduce(|best, other| {
            if figure.y.better.ratio(other.1, best.1) > 1.0 {
                other
            } else {
                best
            }
        })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::catalogue;
    use crate::run::{Size, places};
    use crate::store::{Build, Host};
    use percolog_cells::Values;

    /// A figure of the catalogue, with values that a function gives.
    pub(crate) fn shown(
        kind: catalogue::Kind,
        value: impl Fn(&str, u64, Option<u64>) -> f64,
    ) -> Shown {
        let all = catalogue::all().expect("the catalogue is right");
        let fits = |figure: &Figure| {
            let rivals = figure.contenders.iter().any(|one| one.role.is_rival());
            let ours = figure.contenders.iter().any(|one| one.role == Role::Ours);
            figure.kind == kind && rivals && ours && figure.x.parameter == "threads"
        };
        let figure = all.into_iter().find(fits).expect("there is one");
        let host = Host::describe();
        let cells = places(&figure, Size::Full, host.processors)
            .iter()
            .map(|place| {
                let value = value(&place.contender, place.x, place.row);
                let values = Values::default().with(&figure.y.value, value / figure.y.factor);
                Found::of(place, vec![values], 0.1, None)
            })
            .collect();
        Shown {
            results: Results {
                figure: figure.name.clone(),
                size: Size::Full,
                build: Build::this(),
                host,
                seed: 1,
                cells,
            },
            figure,
        }
    }

    #[test]
    fn points_are_in_the_unit_of_the_axis_and_in_order() {
        let shown = shown(catalogue::Kind::Curve, |_, x, _| x as f64);
        let series = shown.series();
        for one in &series {
            for point in &one.points {
                assert!((point.y.median - point.x as f64).abs() < 1e-6);
            }
            assert!(one.points.is_sorted_by_key(|point| point.x));
        }
        assert_eq!(shown.xs()[0], 1);
        assert_eq!(shown.rows(), [None]);
    }
}
