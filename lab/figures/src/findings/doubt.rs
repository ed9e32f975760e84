//! What a cell must have counted before it is compared with anything: the one rule, for texts, tables, charts and programs.
//!
//! A cell in doubt is shown, and marked; it wins and loses nothing, is no prediction, and validates nobody.

use std::fmt;

use super::Shown;
use crate::plan;
use crate::store::Found;
use percolog_cells::Values;

/// The fewest operations that say something about their rate.
pub const FEWEST: f64 = 100.0;

/// How many samples have to lie beyond a percentile.
const BEYOND: f64 = 10.0;

/// Why a cell is compared with nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// The catalogue has another experiment there by now.
    Superseded,
    /// Fewer operations were counted than [`FEWEST`].
    Few(f64),
    /// Something that belongs to the workload was not done once while it was counted.
    Never(String),
    /// The same, as far as is known: no thread had come to so many operations, after which it does it.
    PerhapsNever(u64),
    /// What is shown is a percentile, with too few samples for it.
    Samples(f64),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superseded => f.write_str("superseded"),
            Self::Few(operations) if *operations == 1.0 => f.write_str("1 operation"),
            Self::Few(operations) => write!(f, "{operations:.0} operations"),
            Self::Never(what) => write!(f, "no {}", what.replace('_', " ")),
            Self::PerhapsNever(each) => write!(f, "perhaps no read: each comes after {each}"),
            Self::Samples(samples) => write!(f, "a percentile of {samples:.0} samples"),
        }
    }
}

/// How many times something was done that a value is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Times {
    /// So often.
    Known(f64),
    /// At most so often: how many of a cell's operations were of this kind is not known.
    AtMost(f64),
    /// Nobody has counted.
    Unknown,
}

impl Times {
    /// The number, if it is certainly less than that.
    fn below(self, bound: f64) -> Option<f64> {
        match self {
            Self::Known(times) | Self::AtMost(times) => Some(times).filter(|times| *times < bound),
            Self::Unknown => None,
        }
    }
}

/// How many operations are behind a value: those of the kind that its name begins with, where they were counted.
#[must_use]
pub fn times(found: &Found, value: &str) -> Times {
    let known = |name: &str| found.median(name).map(|spread| spread.median);
    let mut kinds = value.match_indices('_').map(|(end, _)| &value[..end]).rev();
    if let Some(times) = kinds.find_map(|kind| known(&format!("{kind}_count"))) {
        return Times::Known(times);
    }
    match known(Values::OPERATIONS) {
        // `read_p99_cycles` is of the reads among them.
        Some(times) if percentile(value).is_some_and(|(at, _)| at > 0) => Times::AtMost(times),
        Some(times) => Times::Known(times),
        None => Times::Unknown,
    }
}

/// Where in a value's name it says which percentile it is, and how many samples that needs: `p99_ns` a thousand.
fn percentile(value: &str) -> Option<(usize, f64)> {
    value.split('_').enumerate().find_map(|(at, part)| {
        let digits = part.strip_prefix('p')?;
        let share: f64 = format!("0.{digits}").parse().ok()?;
        (share < 1.0).then(|| (at, (BEYOND / (1.0 - share)).round()))
    })
}

/// Of how many samples a percentile is, if they are certainly too few for it. Nothing for other values.
#[must_use]
pub fn too_few_samples(found: &Found, value: &str) -> Option<f64> {
    let (_, needed) = percentile(value)?;
    times(found, value).below(needed)
}

/// Whether a value is a percentile, of nobody knows how many samples.
#[must_use]
pub fn of_unknown_samples(found: &Found, value: &str) -> bool {
    let known = || match times(found, value) {
        Times::Known(_) => true,
        Times::AtMost(_) | Times::Unknown => too_few_samples(found, value).is_some(),
    };
    percentile(value).is_some() && found.median(value).is_some() && !known()
}

/// What is wrong with a cell by itself, whose value is shown.
fn shortfall(found: &Found, value: &str) -> Option<Doubt> {
    // What has failed says so, and has no value.
    found.median(value)?;
    if let Some(operations) = times(found, value).below(FEWEST) {
        return Some(Doubt::Few(operations));
    }
    let counts = found.values.iter().flat_map(Values::counts);
    if let Some((what, _)) = counts.into_iter().find(|(_, times)| *times == 0.0) {
        return Some(Doubt::Never(what.to_owned()));
    }
    if let Some(each) = perhaps_never(found) {
        return Some(Doubt::PerhapsNever(each));
    }
    too_few_samples(found, value).map(Doubt::Samples)
}

/// After how many updates of a thread it reads, if perhaps no thread has come that far.
fn perhaps_never(found: &Found) -> Option<u64> {
    let parameter = |name: &str| found.cell.parameters.get(name)?.parse::<u64>().ok();
    let each = parameter("updates_per_read").filter(|each| *each > 0)?;
    let operations = found.median(Values::OPERATIONS)?.median;
    let threads = parameter("threads").unwrap_or(1);
    (operations < each.saturating_mul(threads) as f64).then_some(each)
}

impl Shown {
    /// Why a cell of this figure is compared with nothing, if it is not.
    #[must_use]
    pub fn doubt(&self, found: &Found) -> Option<Doubt> {
        let wanted = plan::cell_of(
            &self.figure,
            self.results.size,
            &found.contender,
            found.x,
            found.row,
        );
        if wanted.as_ref() != Some(&found.cell) {
            return Some(Doubt::Superseded);
        }
        shortfall(found, &self.figure.y.value)
    }

    /// The cells that are in doubt, with the reason.
    #[must_use]
    pub fn doubts(&self) -> Vec<(&Found, Doubt)> {
        let there = self.results.cells.iter();
        there
            .filter_map(|found| Some((found, self.doubt(found)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Kind;
    use crate::findings::duels;
    use crate::findings::tests::shown;

    fn found(values: &[(&str, f64)], parameters: &[(&str, &str)]) -> Found {
        let mut found = shown(Kind::Curve, |_, _, _| 1.0)
            .results
            .cells
            .swap_remove(0);
        let none = Values::default();
        let values = values.iter();
        found.values = vec![values.fold(none, |all, (name, value)| all.with(name, *value))];
        for (key, value) in parameters {
            let pair = ((*key).to_owned(), (*value).to_owned());
            found.cell.parameters.extend([pair]);
        }
        found
    }

    #[test]
    fn a_cell_that_has_counted_too_little_is_in_doubt() {
        for (operations, doubt) in [(99.0, Some(Doubt::Few(99.0))), (100.0, None)] {
            let found = found(&[("rate", 5.0), ("operations", operations)], &[]);
            assert_eq!(shortfall(&found, "rate"), doubt);
        }
        // What nobody counts, as bytes, is not too little.
        assert_eq!(shortfall(&found(&[("bytes", 5.0)], &[]), "bytes"), None);
    }

    #[test]
    fn a_value_of_one_kind_of_operation_needs_enough_of_that_kind() {
        let cell = found(
            &[
                ("unmap_many_us", 5.0),
                ("operations", 500.0),
                ("unmap_many_count", 20.0),
                ("unmap_count", 480.0),
            ],
            &[],
        );
        assert_eq!(shortfall(&cell, "unmap_many_us"), Some(Doubt::Few(20.0)));
        assert_eq!(times(&cell, "unmap_us"), Times::Known(480.0));
        assert_eq!(times(&cell, "rate"), Times::Known(500.0));
    }

    #[test]
    fn a_cell_whose_writer_or_reader_never_came_is_in_doubt() {
        let values = [("rate", 5.0), ("operations", 500.0), ("change_count", 0.0)];
        let never = Doubt::Never("change".to_owned());
        assert_eq!(shortfall(&found(&values, &[]), "rate"), Some(never));
        let values = [("rate", 5.0), ("operations", 5000.0)];
        let parameters = [("threads", "6"), ("updates_per_read", "1000")];
        let perhaps = Some(Doubt::PerhapsNever(1000));
        assert_eq!(shortfall(&found(&values, &parameters), "rate"), perhaps);
        let parameters = [("threads", "5"), ("updates_per_read", "1000")];
        assert_eq!(shortfall(&found(&values, &parameters), "rate"), None);
    }

    #[test]
    fn a_percentile_needs_its_samples() {
        for (operations, doubt) in [(999.0, Some(Doubt::Samples(999.0))), (1000.0, None)] {
            let found = found(&[("p99_ns", 5.0), ("operations", operations)], &[]);
            assert_eq!(shortfall(&found, "p99_ns"), doubt);
            assert!(!of_unknown_samples(&found, "p99_ns"));
        }
        // Of a mixture it is known how many operations it had, but not how many reads.
        let mixture =
            |operations| found(&[("read_p99_cycles", 5.0), ("operations", operations)], &[]);
        assert_eq!(
            too_few_samples(&mixture(900.0), "read_p99_cycles"),
            Some(900.0)
        );
        assert_eq!(too_few_samples(&mixture(2000.0), "read_p99_cycles"), None);
        assert!(of_unknown_samples(&mixture(2000.0), "read_p99_cycles"));
        assert_eq!(percentile("p999_ns"), Some((0, 10_000.0)));
        assert_eq!(percentile("per_second"), None);
    }

    #[test]
    fn a_cell_of_an_earlier_experiment_is_superseded() {
        let mut figure = shown(Kind::Curve, |_, _, _| 1.0);
        assert_eq!(figure.doubts(), []);
        figure.results.cells[0].cell.revision += 1;
        let other = ("another".to_owned(), "parameter".to_owned());
        figure.results.cells[1].cell.parameters.extend([other]);
        figure.results.cells[2].contender = "somebody who has left".to_owned();
        let superseded = figure.doubts();
        assert_eq!(superseded.len(), 3);
        assert!(
            superseded
                .iter()
                .all(|(_, doubt)| *doubt == Doubt::Superseded)
        );
    }

    #[test]
    fn what_is_in_doubt_is_compared_with_nothing() {
        let sure = shown(Kind::Curve, |_, x, _| x as f64);
        let all = duels(std::slice::from_ref(&sure))[0].standings.len();
        let last = *sure.xs().last().expect("some");
        let mut doubted = sure.clone();
        for found in &mut doubted.results.cells {
            let operations = if found.x == last { 7.0 } else { 7000.0 };
            found.values[0] = found.values[0].clone().with(Values::OPERATIONS, operations);
        }
        let duels = duels(std::slice::from_ref(&doubted));
        assert_eq!(duels[0].standings.len(), all - 1);
        assert!(duels[0].standings.iter().all(|one| one.x != last));
        let points = doubted.series().into_iter().flat_map(|one| one.points);
        assert!(
            points
                .into_iter()
                .all(|point| point.doubt.is_some() == (point.x == last))
        );
    }
}
