//! What a figure is.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Which figures it belongs to: a paper's, duels with peers, …
    pub group: String,
    /// How it is called on the command line.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What a reader would ask.
    pub question: String,
    /// The workload, and what an operation is.
    pub about: String,
    /// Which figure of which paper it is, if it is one.
    pub source: Option<Source>,
    /// Why ours and the published figures differ.
    pub differs: Option<String>,
    /// How it is drawn.
    pub kind: Kind,
    /// The machine.
    pub machine: Where,
    /// Parameters of all cells.
    pub parameters: BTreeMap<String, Word>,
    /// Further values that the table shows.
    pub columns: Vec<String>,
    /// What varies.
    pub x: Axis,
    /// What else varies, in a heat map.
    pub rows: Option<Axis>,
    /// What is drawn.
    pub y: Quantity,
    /// For how long cells run.
    pub time: TimeOf,
    /// Who is compared.
    pub contenders: Vec<Contender>,
    /// What was published.
    pub published: Vec<Published>,
    /// Which version of the experiment this is.
    pub revision: Revision,
}

/// A version of an experiment: results of another one are superseded. A parameter that has changed needs none: it says so by itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// Its number.
    pub number: u32,
    /// What was wrong with the one before.
    pub why: Option<String>,
}

impl Default for Revision {
    fn default() -> Self {
        Self {
            number: 1,
            why: None,
        }
    }
}

impl Figure {
    /// Whether it is meant by this word: its name, or its group's.
    #[must_use]
    pub fn answers_to(&self, word: &str) -> bool {
        self.name == word || self.group == word
    }
}

/// A figure of a paper.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Which paper.
    pub paper: Paper,
    /// Its number there, if it is a figure.
    #[serde(default)]
    pub figure: Option<String>,
    /// Where it is described.
    pub section: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.figure {
            Some(figure) => write!(
                f,
                "{}, figure {figure} (§{})",
                self.paper.short(),
                self.section
            ),
            None => write!(f, "{}, §{}", self.paper.short(), self.section),
        }
    }
}

/// The papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Boyd-Wickizer's thesis.
    Oplog,
    /// Boyd-Wickizer et al., OSDI 2010.
    Osdi10,
    /// Wang, Stamler, Parmer, EuroSys 2016.
    Sections,
    /// Joohyun Kyong and Sung-Soo Lim.
    Ldu,
    /// Appavoo et al., TOCS 2007.
    K42,
}

impl Paper {
    /// In a few words.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Self::Oplog => "OpLog thesis",
            Self::Osdi10 => "An Analysis of Linux Scalability",
            Self::Sections => "Parallel Sections",
            Self::Ldu => "LDU",
            Self::K42 => "K42",
        }
    }
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A line for each contender.
    Curve,
    /// A bar for each contender, grouped by what varies.
    Bars,
    /// Who wins, by two things that vary.
    Heat,
    /// As a table alone.
    Table,
}

/// Where a figure's cells run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// On this machine.
    Here,
    /// On a machine that is described to the simulator.
    Simulated(String),
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("here"),
            Self::Simulated(machine) => f.write_str(machine),
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Word {
    /// A whole number.
    Number(i64),
    /// A fraction.
    Fraction(f64),
    /// Text.
    Text(String),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Fraction(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// What varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Which parameter.
    pub parameter: String,
    /// What the axis says.
    pub label: String,
    /// Its values.
    pub values: AxisValues,
    /// Those of a quick run; empty: the first and the last.
    pub quick: Vec<u64>,
    /// How values are called, if not by their number.
    pub names: Vec<String>,
}

/// The values of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisValues {
    /// These.
    Listed(Vec<u64>),
    /// One thread, two, four, … as many as there are processors here, and four times as many.
    Machine,
}

impl Axis {
    /// The values on a machine with so many processors.
    #[must_use]
    pub fn values(&self, processors: u64) -> Vec<u64> {
        match &self.values {
            AxisValues::Listed(values) => values.clone(),
            AxisValues::Machine => {
                let mut values: Vec<u64> =
                    std::iter::successors(Some(1_u64), |threads| threads.checked_mul(2))
                        .take_while(|threads| *threads < processors)
                        .collect();
                values.extend([processors.max(1), 4 * processors.max(1)]);
                values.dedup();
                values
            }
        }
    }

    /// Those of a quick run.
    #[must_use]
    pub fn quick_values(&self, processors: u64) -> Vec<u64> {
        let all = self.values(processors);
        if self.quick.is_empty() && self.values != AxisValues::Machine {
            let mut ends = vec![all[0], all[all.len() - 1]];
            ends.dedup();
            return ends;
        }
        if self.quick.is_empty() {
            let mut few = vec![1, processors.max(1), 4 * processors.max(1)];
            few.dedup();
            return few;
        }
        all.into_iter()
            .filter(|value| self.quick.contains(value))
            .collect()
    }

    /// A value with what it is: `48 cores`, `1 core`.
    #[must_use]
    pub fn in_words(&self, value: u64) -> String {
        let name = self.name_of(value);
        let label = match self.label.strip_suffix('s') {
            Some(one) if value == 1 && name == "1" => one,
            _ => &self.label,
        };
        format!("{name} {label}")
    }

    /// How a value is called.
    #[must_use]
    pub fn name_of(&self, value: u64) -> String {
        let AxisValues::Listed(values) = &self.values else {
            return value.to_string();
        };
        let at = values.iter().position(|known| *known == value);
        at.and_then(|at| self.names.get(at))
            .cloned()
            .unwrap_or_else(|| value.to_string())
    }
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Which of the values that a program gives.
    pub value: String,
    /// What it is multiplied with.
    #[serde(default = "one")]
    pub factor: f64,
    /// What the axis says.
    pub label: String,
    /// Whether more is better, or less.
    pub better: Better,
    /// Whether the axis is logarithmic.
    #[serde(default)]
    pub log: bool,
}

fn one() -> f64 {
    1.0
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A rate.
    More,
    /// A time, or bytes.
    Less,
}

impl Better {
    /// How many times better one is than the other.
    #[must_use]
    pub fn ratio(self, one: f64, other: f64) -> f64 {
        match self {
            Self::More => one / other,
            Self::Less => other / one,
        }
    }
}

/// For how long a cell runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeOf {
    /// By the wall's clock, so many times.
    Wall {
        /// Each time.
        duration: Duration,
        /// How often.
        repetitions: u32,
    },
    /// In cycles of the simulated machine: the first number, and the second for each thread.
    Cycles {
        /// Before anything is counted.
        warm_up: (u64, u64),
        /// Counted.
        counted: (u64, u64),
    },
}

/// One of those that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Contender {
    /// As the legend shows it.
    pub name: String,
    /// What it is to the reader.
    pub role: Role,
    /// What is run.
    pub program: String,
    /// With which parameters.
    pub with: BTreeMap<String, Word>,
    /// For how long, if not as the figure says.
    pub time: Option<TimeOf>,
    /// Without what it is skipped.
    pub needs: Option<Need>,
}

/// What is not everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// A feature of this crate, to be built in.
    Feature(String),
    /// A command of this name, to be installed.
    Command(String),
}

/// What a contender is to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// percolog's.
    Ours,
    /// What users have today.
    Today,
    /// Another library's.
    Peer,
    /// The paper's own form.
    Paper,
    /// What the machine allows.
    Bound,
}

impl Role {
    /// Whether it is somebody to win against.
    #[must_use]
    pub fn is_rival(self) -> bool {
        matches!(self, Self::Today | Self::Peer)
    }
}

/// Numbers that a paper states.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What the paper calls it.
    pub name: String,
    /// Which of ours it is to be compared with.
    #[serde(default)]
    pub contender: Option<String>,
    /// What is compared is how much less than this one of ours it has: where the paper's numbers are of more than was made here, so that only
    /// their differences can be.
    #[serde(default)]
    pub saved_of: Option<String>,
    /// The machine's description or the workload was fitted to these points: they are no predictions.
    #[serde(default)]
    pub fitted: bool,
    /// Why ours is of something else, so that the two stand beside each other and are not compared.
    #[serde(default)]
    pub not_comparable: Option<String>,
    /// What varies, and the number in the unit of the axis.
    pub points: Vec<(f64, f64)>,
    /// Where it says so.
    #[serde(default)]
    pub note: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: AxisValues, quick: &[u64]) -> Axis {
        Axis {
            parameter: "threads".to_owned(),
            label: "threads".to_owned(),
            values,
            quick: quick.to_vec(),
            names: Vec::new(),
        }
    }

    #[test]
    fn one_thread_is_always_shown_and_too_many_as_well() {
        let axis = axis(AxisValues::Machine, &[]);
        assert_eq!(axis.values(1), [1, 4]);
        assert_eq!(axis.values(2), [1, 2, 8]);
        assert_eq!(axis.values(12), [1, 2, 4, 8, 12, 48]);
        assert_eq!(axis.values(16), [1, 2, 4, 8, 16, 64]);
        assert_eq!(axis.quick_values(16), [1, 16, 64]);
    }

    #[test]
    fn better_is_more_or_less() {
        assert_eq!(Better::More.ratio(6.0, 2.0), 3.0);
        assert_eq!(Better::Less.ratio(6.0, 3.0), 0.5);
    }

    #[test]
    fn a_quick_run_has_what_the_file_says_or_the_ends() {
        let listed = AxisValues::Listed(vec![1, 6, 12, 48]);
        assert_eq!(axis(listed.clone(), &[]).quick_values(2), [1, 48]);
        assert_eq!(axis(listed.clone(), &[6, 48]).quick_values(2), [6, 48]);
        let mut named = axis(listed, &[]);
        named.names = ["one", "six", "twelve", "all"].map(str::to_owned).to_vec();
        assert_eq!(named.name_of(12), "twelve");
        assert_eq!(named.name_of(13), "13");
    }
}
