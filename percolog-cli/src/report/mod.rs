//! What a demonstration found: the figures, the page that shows them, and the file the page goes to.

pub(crate) mod chart;
pub(crate) mod destination;
pub(crate) mod page;

use percolog_bench::runner::Figure;
use serde::Serialize;

/// Everything one run of `percolog demo` found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The version of this command.
    pub(crate) version: &'static str,
    /// The machine that was measured.
    pub(crate) machine: Machine,
    /// How long each measurement ran.
    pub(crate) cell_milliseconds: u64,
    /// How many measurements are behind each figure.
    pub(crate) cells: usize,
    /// What was compared, in the order shown.
    pub(crate) sections: Vec<Section>,
}

/// The machine a report is about.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cpus: usize,
    pub(crate) platform: String,
    pub(crate) slots: String,
    pub(crate) clock: String,
}

/// One comparison: what the user has today, and what could replace it.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    /// A short name, for programs.
    pub(crate) name: &'static str,
    /// What the user has, as a heading.
    pub(crate) title: &'static str,
    /// What the threads did.
    pub(crate) workload: &'static str,
    /// What a figure counts.
    pub(crate) unit: Unit,
    /// The numbers of threads measured, ascending; the first is one.
    pub(crate) threads: Vec<usize>,
    /// One structure each; the first is what the user has today.
    pub(crate) series: Vec<Series>,
    /// The one ratio to remember.
    pub(crate) headline: Option<Headline>,
    /// What the figures mean, in sentences.
    pub(crate) findings: Vec<String>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Unit {
    /// As it stands above the figures.
    pub(crate) label: &'static str,
    /// What one of it is worth in operations a second.
    pub(crate) operations_per_second: f64,
}

impl Unit {
    /// Millions of `label` a second.
    pub(crate) const fn millions(label: &'static str) -> Self {
        Self {
            label,
            operations_per_second: 1e6,
        }
    }

    /// A rate in this unit.
    pub(crate) fn of(self, rate: f64) -> f64 {
        rate / self.operations_per_second
    }
}

/// One structure's figures.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    /// The structure.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) role: Role,
    /// One figure for each number of threads.
    pub(crate) rates: Vec<Rate>,
}

/// Whose a structure is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// What the user has today: every ratio is against it.
    Today,
    /// percolog, without what makes the difference here.
    Plain,
    /// percolog at its best here.
    Best,
    /// Somebody else's crate.
    Peer,
}

/// Operations a second: the median measurement, with the extremes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Rate {
    /// In the median measurement.
    pub(crate) median: f64,
    /// In the slowest measurement.
    pub(crate) slowest: f64,
    /// In the fastest measurement.
    pub(crate) fastest: f64,
}

impl Rate {
    /// Whether there is more than one measurement, as far as that can be seen.
    pub(crate) fn has_spread(self) -> bool {
        self.slowest < self.fastest
    }

    /// Whether the slowest measurement is so far from the median that something must have disturbed it.
    pub(crate) fn is_restless(self) -> bool {
        self.slowest < 0.67 * self.median
    }
}

impl From<Figure> for Rate {
    fn from(figure: Figure) -> Self {
        Self {
            median: figure.median,
            slowest: figure.slowest,
            fastest: figure.fastest,
        }
    }
}

/// The one ratio of a section to remember.
#[derive(Debug, Serialize)]
pub(crate) struct Headline {
    /// The ratio of two rates.
    pub(crate) ratio: f64,
    /// Of what to what.
    pub(crate) caption: String,
    /// Whose the first of the two is.
    pub(crate) role: Role,
}

impl Section {
    /// How `series` compares with what the user has today, at the thread count with this index.
    pub(crate) fn ratio(&self, series: usize, column: usize) -> f64 {
        self.rate(series, column) / self.rate(0, column)
    }

    /// The median rate of a series at the thread count with this index.
    pub(crate) fn rate(&self, series: usize, column: usize) -> f64 {
        self.series[series].rates[column].median
    }

    /// The index of the thread count that tells most: the largest that has a CPU for each thread.
    pub(crate) fn telling_column(&self, cpus: usize) -> usize {
        self.threads
            .iter()
            .rposition(|&threads| threads <= cpus)
            .unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod examples {
    //! A report with figures that are made up, for the tests of what shows it.

    use super::*;

    pub(crate) fn section() -> Section {
        let series = |name, role, median: f64| Series {
            name,
            role,
            rates: [1.0, 2.0, 0.5]
                .iter()
                .map(|factor| Rate {
                    median: median * factor,
                    slowest: median * factor * 0.9,
                    fastest: median * factor * 1.2,
                })
                .collect(),
        };
        Section {
            name: "counters",
            title: "A <counter>",
            workload: "Every thread adds one & reads nothing.",
            unit: Unit::millions("millions of adds a second"),
            threads: vec![1, 2, 8],
            series: vec![
                series("static AtomicU64", Role::Today, 2e8),
                series("percolog Counter", Role::Best, 8e8),
                series("contatori Unsigned", Role::Peer, 2.2e8),
            ],
            headline: Some(Headline {
                ratio: 4.0,
                caption: "as many adds on 2 threads".to_owned(),
                role: Role::Best,
            }),
            findings: vec!["It is < faster > by far.".to_owned()],
        }
    }

    pub(crate) fn report() -> Report {
        Report {
            version: "0.0.0",
            machine: Machine {
                processor: "A \"processor\" & more".to_owned(),
                cpus: 2,
                platform: "linux x86_64".to_owned(),
                slots: "2".to_owned(),
                clock: "counter".to_owned(),
            },
            cell_milliseconds: 250,
            cells: 3,
            sections: vec![section(), section()],
        }
    }

    #[test]
    fn a_slow_measurement_makes_a_figure_restless() {
        let rate = |slowest| Rate {
            median: 100.0,
            slowest,
            fastest: 300.0,
        };
        assert!(rate(50.0).is_restless());
        assert!(!rate(80.0).is_restless());
    }

    #[test]
    fn the_telling_column_has_a_cpu_for_each_thread() {
        let section = section();
        assert_eq!(section.telling_column(1), 0);
        assert_eq!(section.telling_column(2), 1);
        assert_eq!(section.telling_column(7), 1);
        assert_eq!(section.telling_column(64), 2);
        assert_eq!(section.ratio(1, 2), 4.0);
    }
}
