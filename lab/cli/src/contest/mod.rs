//! One comparison: who takes part, how it is measured, and what the figures are said to mean.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use percolog_bench::runner::{Figure, Settings};

use super::{CELL, CELLS, QUICK_CELL};
use crate::args;
use percolog_cli::failure::Failure;
use percolog_cli::format;
use crate::report::{Column, Headline, Role, Section, Series, Unit};

/// What is measured, how long and how often.
pub(crate) struct Plan {
    /// Numbers of threads, ascending.
    pub(crate) threads: Vec<usize>,
    /// How long one measurement lasts.
    pub(crate) cell: Duration,
    /// Measurements behind a figure of as many threads as there are CPUs, or fewer. With more threads there is one: how
    /// they take turns is up to the system, and does not get more certain with time spent on it.
    pub(crate) cells: usize,
    /// CPUs this process may use.
    pub(crate) cpus: usize,
}

impl Plan {
    /// The plan of a command line.
    pub(crate) fn new(arguments: &args::Demo, cpus: usize) -> Self {
        let mut threads = arguments.threads.clone();
        // A figure for many threads means nothing without the one for a single thread.
        threads.push(1);
        threads.sort_unstable();
        threads.dedup();
        let usual = if arguments.quick { QUICK_CELL } else { CELL };
        Self {
            threads,
            cell: arguments.cell_ms.map_or(usual, Duration::from_millis),
            cells: if arguments.quick { 1 } else { CELLS },
            cpus,
        }
    }

    /// The numbers of threads that are no larger than that of the CPUs; the smallest of all, if none is.
    fn threads_with_a_cpu_each(&self) -> Vec<usize> {
        let fitting = |threads: &&usize| **threads <= self.cpus;
        let some: Vec<usize> = self.threads.iter().filter(fitting).copied().collect();
        if some.is_empty() {
            self.threads.iter().take(1).copied().collect()
        } else {
            some
        }
    }

    /// The largest number of threads.
    pub(crate) fn most_threads(&self) -> usize {
        self.threads.iter().copied().max().unwrap_or(1)
    }
}

/// How one measurement is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    /// On how many threads.
    pub(crate) threads: usize,
    /// For how long.
    pub(crate) duration: Duration,
}

impl From<Measurement> for Settings {
    fn from(measurement: Measurement) -> Self {
        Self::new(measurement.threads, measurement.duration)
    }
}

/// Runs one measurement and gives operations a second.
pub(crate) type Measure = Box<dyn Fn(Measurement) -> Result<f64, Failure>>;

/// One structure in a contest.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) measure: Measure,
}

/// Says what a section's figures mean; the index is that of the thread count that tells most.
pub(crate) type Explain = fn(&Section, usize) -> (Option<Headline>, Vec<String>);

/// A comparison that can be run.
pub(crate) struct Contest {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) workload: &'static str,
    pub(crate) unit: Unit,
    /// The first is what the user has today.
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) explain: Explain,
    /// Whether to leave out numbers of threads that have to take turns: for contests that make one point.
    pub(crate) without_more_threads_than_cpus: bool,
}

impl Contest {
    /// Measures every contestant on every number of threads.
    ///
    /// The measurements of one contestant are spread over the whole contest, so that a slow moment of the machine
    /// meets all of them alike.
    pub(crate) fn run(self, plan: &Plan) -> Result<Section, Failure> {
        let threads = if self.without_more_threads_than_cpus {
            plan.threads_with_a_cpu_each()
        } else {
            plan.threads.clone()
        };
        let columns = threads.len();
        let mut rates = vec![vec![Vec::with_capacity(plan.cells); columns]; self.contestants.len()];
        let rounds: Vec<Vec<(usize, usize)>> = (0..plan.cells)
            .map(|round| {
                let columns = threads.iter().copied().enumerate();
                columns
                    .filter(|&(_, threads)| round == 0 || threads <= plan.cpus)
                    .collect()
            })
            .collect();
        let steps: usize = rounds.iter().map(Vec::len).sum();
        let progress = progress(steps * self.contestants.len());
        progress.set_prefix(self.title);
        for round in rounds {
            for (column, threads) in round {
                for (row, contestant) in self.contestants.iter().enumerate() {
                    progress.set_message(format!(
                        "{}, {}",
                        contestant.name,
                        format::threads(threads)
                    ));
                    let measured = (contestant.measure)(Measurement {
                        threads,
                        duration: plan.cell,
                    });
                    match measured {
                        Ok(rate) => rates[row][column].push(rate),
                        Err(failure) => {
                            progress.finish_and_clear();
                            return Err(failure);
                        }
                    }
                    progress.inc(1);
                }
            }
        }
        progress.finish_and_clear();

        let mut series = Vec::with_capacity(self.contestants.len());
        for (contestant, measured) in self.contestants.iter().zip(&rates) {
            let mut figures = Vec::with_capacity(columns);
            for cells in measured {
                let figure = Figure::of(cells).ok_or_else(|| {
                    Failure::Work(format!("{} was not measured", contestant.name))
                })?;
                figures.push(figure.into());
            }
            series.push(Series {
                name: contestant.name,
                role: contestant.role,
                rates: figures,
            });
        }
        let mut section = Section {
            name: self.name,
            title: self.title,
            workload: self.workload,
            unit: self.unit,
            columns: threads.into_iter().map(Column::measured).collect(),
            series,
            headline: None,
            findings: Vec::new(),
        };
        let column = section.telling_column(plan.cpus);
        (section.headline, section.findings) = (self.explain)(&section, column);
        if section
            .series
            .iter()
            .any(|series| series.rates[column].is_restless())
        {
            section.findings.push(
                "Some of these measurements were far apart: something else used this machine meanwhile. Judge by a run on \
                 a quiet one."
                    .to_owned(),
            );
        }
        Ok(section)
    }
}

/// A bar on stderr, where someone looks at it; nothing where nobody does.
fn progress(steps: usize) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let progress = ProgressBar::with_draw_target(Some(steps as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len} {msg}") {
        progress.set_style(style.progress_chars("=> "));
    }
    progress
}

/// How many operations somebody does, against somebody else: the sentence ends with "as many".
pub(crate) fn as_many(ratio: f64) -> String {
    if (0.95..1.05).contains(&ratio) {
        "about as many".to_owned()
    } else if ratio > 1.0 {
        format!("{} as many", format::ratio(ratio))
    } else {
        format!("only {} as many", format::ratio(ratio))
    }
}

/// `1.23 ns`: the time of one operation on one thread.
pub(crate) fn nanoseconds(rate: f64) -> String {
    format!("{} ns", format::number(1e9 / rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(threads: &[usize], quick: bool) -> args::Demo {
        args::Demo {
            threads: threads.to_vec(),
            cell_ms: None,
            output: None,
            force: false,
            only: None,
            quick,
        }
    }

    #[test]
    fn one_thread_is_always_shown_and_none_twice() {
        assert_eq!(
            Plan::new(&arguments(&[8, 2, 8], false), 2).threads,
            [1, 2, 8]
        );
        assert_eq!(Plan::new(&arguments(&[1], true), 2).threads, [1]);
    }

    #[test]
    fn every_number_of_threads_is_measured_in_turns() {
        use std::cell::Cell;
        use std::rc::Rc;

        let calls = Rc::new(Cell::new(0_u32));
        let contestant = |name, role| {
            let calls = Rc::clone(&calls);
            Contestant {
                name,
                role,
                measure: Box::new(move |settings: Measurement| {
                    calls.set(calls.get() + 1);
                    Ok(f64::from(calls.get()) * settings.threads as f64)
                }),
            }
        };
        let contest = |without_more_threads_than_cpus| Contest {
            name: "contest",
            title: "A contest",
            workload: "Nothing.",
            unit: Unit::millions("nothings a second"),
            contestants: vec![contestant("a", Role::Today), contestant("b", Role::Best)],
            explain: |_, _| (None, Vec::new()),
            without_more_threads_than_cpus,
        };
        let plan = Plan::new(&arguments(&[1, 2, 8], false), 2);
        let section = contest(false).run(&plan).expect("measured");
        assert_eq!(section.columns, [1, 2, 8].map(Column::measured));
        // Twice three measurements on one and on two threads, twice one on eight.
        assert_eq!(calls.get(), 2 * (3 + 3 + 1));
        // The first contestant's measurements on one thread were the calls 1, 7 and 11.
        let rate = section.series[0].rates[0];
        assert_eq!((rate.slowest, rate.median, rate.fastest), (1.0, 7.0, 11.0));
        let section = contest(true).run(&plan).expect("measured");
        assert_eq!(section.columns, [1, 2].map(Column::measured));
    }

    #[test]
    fn sentences_are_honest() {
        assert_eq!(as_many(14.4), "14× as many");
        assert_eq!(as_many(1.01), "about as many");
        assert_eq!(as_many(0.5), "only 0.50× as many");
    }
}
