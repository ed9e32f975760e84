//! One comparison: who takes part, and how it is measured.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use percolog_bench::runner::Figure;
use percolog_cli::failure::Failure;
use percolog_cli::format;

use crate::report::{Column, Role, Section, Series, Unit};

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

/// How one measurement is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    /// On how many threads.
    pub(crate) threads: usize,
    /// For how long.
    pub(crate) duration: Duration,
}

/// Runs one measurement and gives operations a second.
pub(crate) type Measure = Box<dyn Fn(Measurement) -> Result<f64, Failure>>;

/// One structure in a contest.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) measure: Measure,
}

/// A comparison that can be run.
pub(crate) struct Contest {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) workload: &'static str,
    pub(crate) unit: Unit,
    /// The first is what the user has today.
    pub(crate) contestants: Vec<Contestant>,
}

impl Contest {
    /// Measures every contestant on every number of threads.
    ///
    /// The measurements of one contestant are spread over the whole contest, so that a slow moment of the machine
    /// meets all of them alike.
    pub(crate) fn run(self, plan: &Plan) -> Result<Section, Failure> {
        let threads = plan.threads.clone();
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let contest = Contest {
            name: "contest",
            title: "A contest",
            workload: "Nothing.",
            unit: Unit::millions("nothings a second"),
            contestants: vec![contestant("a", Role::Today), contestant("b", Role::Best)],
        };
        let plan = Plan {
            threads: vec![1, 2, 8],
            cell: Duration::from_millis(20),
            cells: 3,
            cpus: 2,
        };
        let section = contest.run(&plan).expect("measured");
        assert_eq!(section.columns, [1, 2, 8].map(Column::measured));
        // Twice three measurements on one and on two threads, twice one on eight.
        assert_eq!(calls.get(), 2 * (3 + 3 + 1));
        // The first contestant's measurements on one thread were the calls 1, 7 and 11.
        let rate = section.series[0].rates[0];
        assert_eq!((rate.slowest, rate.median, rate.fastest), (1.0, 7.0, 11.0));
    }
}
