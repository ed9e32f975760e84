//! Rows of the validation table: what was published, what a formula says, what was simulated, and whether that will do.

use std::fmt;

/// A figure with its unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Cycles.
    Cycles(f64),
    /// A share of the time.
    Share(f64),
    /// A number of cores.
    Cores(f64),
    /// Operations in a millisecond.
    Rate(f64),
    /// A ratio.
    Times(f64),
    /// Throughput does not fall with more cores.
    NoCollapse,
    /// The contenders, the one with the most of it first; those in one group have about the same.
    Order(Vec<Vec<&'static str>>),
}

impl Value {
    /// An order without a tie.
    #[must_use]
    pub fn order(names: &[&'static str]) -> Self {
        Self::Order(names.iter().map(|name| vec![*name]).collect())
    }

    /// The order of contenders by what they have. Those within 5 % of the first of their group are in a tie with it: a simulation
    /// a little longer, or on a machine a little different, may well change places.
    #[must_use]
    pub fn ranked(mut named: Vec<(&'static str, f64)>) -> Self {
        named.sort_by(|one, other| other.1.total_cmp(&one.1));
        let mut groups: Vec<Vec<&'static str>> = Vec::new();
        let mut most = f64::INFINITY;
        for (name, value) in named {
            match groups.last_mut() {
                Some(group) if value >= 0.95 * most => group.push(name),
                _ => {
                    most = value;
                    groups.push(vec![name]);
                }
            }
        }
        Self::Order(groups)
    }

    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match *self {
            Self::Cycles(value)
            | Self::Share(value)
            | Self::Cores(value)
            | Self::Rate(value)
            | Self::Times(value) => Some(value),
            Self::NoCollapse | Self::Order(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycles(value) | Self::Rate(value) => write!(f, "{value:.0}"),
            Self::Share(value) => write!(f, "{:.1} %", 100.0 * value),
            Self::Cores(value) => write!(f, "{value:.0}"),
            Self::Times(value) if *value < 9.95 => write!(f, "× {value:.2}"),
            Self::Times(value) => write!(f, "× {value:.1}"),
            Self::NoCollapse => f.write_str("none"),
            Self::Order(groups) => {
                let groups = groups.iter().map(|group| group.join(" = "));
                f.write_str(&groups.collect::<Vec<_>>().join(" > "))
            }
        }
    }
}

/// What a simulated figure has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// Within a factor of 2 of the published one. A share of the time, of which that says little, is off by 15 % of the time at
    /// most, too.
    Level,
    /// Within a factor of 1.5 of the published one; a collapse where one was published.
    Position,
    /// The published one at most: the paper gives a bound.
    AtMost,
    /// The published one at least: the paper gives a bound.
    AtLeast,
    /// The same.
    Exact,
}

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The criterion is met.
    Holds,
    /// It is not, and the row says why.
    Explained,
    /// It is not, and nobody knows why.
    Unexplained,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is looked at.
    pub what: String,
    /// How many cores, where it is a figure at one number of them.
    pub cores: Option<u32>,
    /// What the paper says.
    pub published: Value,
    /// What a formula says, from the constants of the machine file.
    pub closed: Option<Value>,
    /// What was simulated.
    pub simulated: Value,
    /// What will do.
    pub criterion: Criterion,
    /// Whether the machine file was calibrated with this figure, or the workload derived from it: then it proves little.
    pub given: bool,
    /// Why the criterion is not met, where that is known.
    pub explanation: Option<&'static str>,
}

impl Row {
    /// A row without a formula and without an explanation.
    #[must_use]
    pub fn new(
        what: impl Into<String>,
        cores: Option<u32>,
        published: Value,
        simulated: Value,
        criterion: Criterion,
    ) -> Self {
        Self {
            what: what.into(),
            cores,
            published,
            closed: None,
            simulated,
            criterion,
            given: false,
            explanation: None,
        }
    }

    /// The row with what a formula says.
    #[must_use]
    pub fn closed(mut self, closed: Value) -> Self {
        self.closed = Some(closed);
        self
    }

    /// The row, marked as one that the simulation was fitted to.
    #[must_use]
    pub fn given(mut self) -> Self {
        self.given = true;
        self
    }

    /// The row with the reason for a miss. It is shown only if there is one.
    #[must_use]
    pub fn because(mut self, explanation: &'static str) -> Self {
        self.explanation = Some(explanation);
        self
    }

    /// The simulated figure as a multiple of the published one.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let published = self.published.number().filter(|value| *value != 0.0)?;
        Some(self.simulated.number()? / published)
    }

    /// Whether the criterion is met.
    #[must_use]
    pub fn holds(&self) -> bool {
        let within = |factor: f64, ratio: f64| (1.0 / factor..=factor).contains(&ratio);
        match (self.criterion, self.error()) {
            (Criterion::Exact, _) | (_, None) => self.published == self.simulated,
            (Criterion::Level, Some(ratio)) => {
                let near = match (&self.published, &self.simulated) {
                    (Value::Share(published), Value::Share(simulated)) => {
                        (simulated - published).abs() <= 0.15
                    }
                    _ => true,
                };
                within(2.0, ratio) && near
            }
            (Criterion::Position, Some(ratio)) => within(1.5, ratio),
            (Criterion::AtMost, Some(ratio)) => ratio <= 1.0,
            (Criterion::AtLeast, Some(ratio)) => ratio >= 1.0,
        }
    }

    /// What the row says.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.holds(), self.explanation) {
            (true, _) => Verdict::Holds,
            (false, Some(_)) => Verdict::Explained,
            (false, None) => Verdict::Unexplained,
        }
    }
}

/// Throughput at several numbers of cores, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve(pub Vec<(u32, f64)>);

impl Curve {
    /// The throughput at `cores`.
    #[must_use]
    pub fn at(&self, cores: u32) -> Option<f64> {
        let point = self.0.iter().find(|(at, _)| *at == cores)?;
        Some(point.1)
    }

    /// The number of cores with the highest throughput, and that throughput.
    #[must_use]
    pub fn peak(&self) -> Option<(u32, f64)> {
        self.0
            .iter()
            .copied()
            .max_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Where it collapses: at its peak, if a fifth of the throughput is lost between there and the end.
    #[must_use]
    pub fn collapse(&self) -> Value {
        match (self.peak(), self.0.last()) {
            (Some((cores, most)), Some((_, last))) if *last < 0.8 * most => {
                Value::Cores(f64::from(cores))
            }
            _ => Value::NoCollapse,
        }
    }

    /// From how many cores on more of them bring nothing: the first number of them with 95 % of the highest throughput.
    #[must_use]
    pub fn plateau(&self) -> Option<u32> {
        let (_, most) = self.peak()?;
        let (cores, _) = self.0.iter().find(|(_, rate)| *rate >= 0.95 * most)?;
        Some(*cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(criterion: Criterion, published: Value, simulated: Value) -> bool {
        Row::new("row", None, published, simulated, criterion).holds()
    }

    #[test]
    fn levels_may_be_off_by_two_positions_by_one_and_a_half_and_bounds_not_at_all() {
        use Criterion::{AtLeast, AtMost, Level, Position};
        let rate = Value::Rate;
        assert!(judged(Level, rate(100.0), rate(50.0)) && judged(Level, rate(100.0), rate(200.0)));
        assert!(
            !judged(Level, rate(100.0), rate(49.0)) && !judged(Level, rate(100.0), rate(201.0))
        );
        let cores = Value::Cores;
        assert!(
            judged(Position, cores(12.0), cores(8.0)) && judged(Position, cores(12.0), cores(18.0))
        );
        assert!(
            !judged(Position, cores(12.0), cores(7.0))
                && !judged(Position, cores(12.0), cores(19.0))
        );
        let times = Value::Times;
        assert!(judged(AtMost, times(6.0), times(6.0)) && !judged(AtMost, times(6.0), times(6.1)));
        assert!(
            judged(AtLeast, times(6.0), times(6.0)) && !judged(AtLeast, times(6.0), times(5.9))
        );
    }

    #[test]
    fn a_share_is_near_besides() {
        let judged = |published, simulated| {
            judged(
                Criterion::Level,
                Value::Share(published),
                Value::Share(simulated),
            )
        };
        assert!(judged(0.8, 0.9) && judged(0.8, 0.66) && !judged(0.8, 0.6) && !judged(0.8, 0.96));
        // Near, but less than half.
        assert!(!judged(0.2, 0.09));
    }

    #[test]
    fn a_collapse_that_is_none_is_a_miss() {
        let collapse = Value::Cores(13.0);
        assert!(!judged(
            Criterion::Position,
            collapse.clone(),
            Value::NoCollapse
        ));
        assert!(!judged(Criterion::Position, Value::NoCollapse, collapse));
        assert!(judged(
            Criterion::Position,
            Value::NoCollapse,
            Value::NoCollapse
        ));
        let order = Value::order;
        assert!(judged(
            Criterion::Exact,
            order(&["a", "b"]),
            order(&["a", "b"])
        ));
        assert!(!judged(
            Criterion::Exact,
            order(&["a", "b"]),
            order(&["b", "a"])
        ));
    }

    #[test]
    fn those_within_a_twentieth_of_the_first_are_in_a_tie() {
        let order = Value::ranked(vec![("c", 90.5), ("a", 100.0), ("b", 95.0), ("d", 80.0)]);
        // `c` is as near to `b` as `b` is to `a`, but not near to `a`.
        assert_eq!(order.to_string(), "a = b > c > d");
        assert!(!judged(
            Criterion::Exact,
            Value::order(&["a", "b", "c", "d"]),
            order
        ));
        let apart = Value::ranked(vec![("b", 94.0), ("a", 100.0)]);
        assert_eq!(apart, Value::order(&["a", "b"]));
    }

    #[test]
    fn a_miss_is_excused_by_its_explanation_alone() {
        let row = |simulated| {
            Row::new(
                "row",
                None,
                Value::Rate(1.0),
                Value::Rate(simulated),
                Criterion::Level,
            )
        };
        assert_eq!(row(1.5).because("anything").verdict(), Verdict::Holds);
        assert_eq!(row(3.0).verdict(), Verdict::Unexplained);
        assert_eq!(
            row(3.0).because("the paper's list is another").verdict(),
            Verdict::Explained
        );
    }

    #[test]
    fn curves_have_peaks_collapses_and_plateaus() {
        let curve = Curve(vec![(1, 1.0), (4, 4.0), (8, 5.0), (16, 4.1), (32, 3.9)]);
        assert_eq!(curve.peak(), Some((8, 5.0)));
        assert_eq!(curve.collapse(), Value::Cores(8.0));
        assert_eq!(curve.at(16), Some(4.1));
        assert_eq!(curve.at(17), None);
        let flat = Curve(vec![(1, 1.0), (4, 4.0), (8, 4.9), (16, 5.0)]);
        assert_eq!(flat.collapse(), Value::NoCollapse);
        assert_eq!(flat.plateau(), Some(8));
    }

    #[test]
    fn values_look_as_in_the_table() {
        let shown = [
            (Value::Cycles(182.4), "182"),
            (Value::Share(0.994), "99.4 %"),
            (Value::Times(1.0149), "× 1.01"),
            (Value::Times(19.04), "× 19.0"),
            (Value::NoCollapse, "none"),
            (Value::order(&["a", "b"]), "a > b"),
            (Value::Order(vec![vec!["a", "b"], vec!["c"]]), "a = b > c"),
        ];
        for (value, text) in shown {
            assert_eq!(value.to_string(), text);
        }
    }
}
