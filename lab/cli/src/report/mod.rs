//! What a replay found: the figures, how a terminal shows them, and the page.

mod chart;
pub(crate) mod page;
pub(crate) mod screen;

use percolog_bench::runner::Figure;
use serde::Serialize;

use percolog_cli::format;

/// Everything that the page of one run of `lab replay` shows.
#[derive(Debug)]
pub(crate) struct Report {
    /// What it is about, as a heading.
    pub(crate) title: &'static str,
    /// What was looked at, if that is not this machine alone.
    pub(crate) subject: String,
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
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cpus: usize,
    pub(crate) platform: String,
    pub(crate) slots: String,
    pub(crate) clock: String,
}

/// One comparison: what the user has today, and what could replace it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Section {
    /// A short name, for programs.
    pub(crate) name: &'static str,
    /// What the user has, as a heading.
    pub(crate) title: &'static str,
    /// What the threads did.
    pub(crate) workload: &'static str,
    /// What a figure counts.
    pub(crate) unit: Unit,
    /// On what, and with how many threads: what was measured first, by ascending numbers of threads; the first is one.
    pub(crate) columns: Vec<Column>,
    /// One structure each; the first is what the user has today.
    pub(crate) series: Vec<Series>,
    /// The one ratio to remember.
    pub(crate) headline: Option<Headline>,
    /// What the figures mean, in sentences.
    pub(crate) findings: Vec<String>,
}

/// What one figure of each structure was found with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Column {
    /// How many threads there were; in a simulation each has a core.
    pub(crate) threads: usize,
    /// On what.
    pub(crate) instrument: Instrument,
}

/// What a figure was found with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum Instrument {
    /// Real threads on this machine.
    Measured,
    /// The coherence simulator.
    Simulated {
        /// The described machine.
        machine: String,
    },
}

impl Column {
    /// Real threads on this machine.
    pub(crate) fn measured(threads: usize) -> Self {
        Self {
            threads,
            instrument: Instrument::Measured,
        }
    }

    /// Whether real threads were measured.
    pub(crate) fn is_measured(&self) -> bool {
        self.instrument == Instrument::Measured
    }

    /// `2 threads`, `48 cores`.
    pub(crate) fn size(&self) -> String {
        match self.instrument {
            Instrument::Measured => format::threads(self.threads),
            Instrument::Simulated { .. } => format::plural(self.threads as u64, "core"),
        }
    }

    /// `2 threads`, `48 cores of opteron-48, simulated`.
    pub(crate) fn label(&self) -> String {
        match &self.instrument {
            Instrument::Measured => self.size(),
            Instrument::Simulated { machine } => format!("{} of {machine}, simulated", self.size()),
        }
    }
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    /// The structure.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) role: Role,
    /// One figure for each column.
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Headline {
    /// The ratio of two rates.
    pub(crate) ratio: f64,
    /// Of what to what.
    pub(crate) caption: String,
    /// Whose the first of the two is.
    pub(crate) role: Role,
}

impl Report {
    /// The machines that were simulated, each once.
    pub(crate) fn simulated(&self) -> Vec<&str> {
        let columns = self.sections.iter().flat_map(|section| &section.columns);
        let mut machines: Vec<&str> = columns
            .filter_map(|column| match &column.instrument {
                Instrument::Measured => None,
                Instrument::Simulated { machine } => Some(machine.as_str()),
            })
            .collect();
        machines.sort_unstable();
        machines.dedup();
        machines
    }
}

impl Section {
    /// How `series` compares with what the user has today, in the column with this index.
    pub(crate) fn ratio(&self, series: usize, column: usize) -> f64 {
        self.rate(series, column) / self.rate(0, column)
    }

    /// The median rate of a series in the column with this index.
    pub(crate) fn rate(&self, series: usize, column: usize) -> f64 {
        self.series[series].rates[column].median
    }

    /// The index of the measured column that tells most: the largest number of threads of which each has a CPU.
    pub(crate) fn telling_column(&self, cpus: usize) -> usize {
        self.columns
            .iter()
            .rposition(|column| column.is_measured() && column.threads <= cpus)
            .unwrap_or(0)
    }

    /// The index of the simulated column with most cores, if there is one.
    pub(crate) fn simulated_column(&self) -> Option<usize> {
        let simulated = self.columns.iter().enumerate();
        simulated
            .filter(|(_, column)| !column.is_measured())
            .max_by_key(|(_, column)| column.threads)
            .map(|(index, _)| index)
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
            columns: [1, 2, 8].map(Column::measured).to_vec(),
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
            title: "What <it> does",
            subject: String::new(),
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
        assert_eq!(section.simulated_column(), None);
    }

    #[test]
    fn simulated_columns_do_not_pass_for_measured_ones() {
        let mut section = section();
        section.columns[1].instrument = Instrument::Simulated {
            machine: "many-48".to_owned(),
        };
        assert_eq!(section.telling_column(4), 0);
        assert_eq!(section.simulated_column(), Some(1));
        assert_eq!(section.columns[1].label(), "2 cores of many-48, simulated");
        assert_eq!(section.columns[2].label(), "8 threads");
    }
}
