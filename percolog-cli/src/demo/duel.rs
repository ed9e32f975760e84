//! The measured part: both versions in turn on this machine, by the time that passed and by the time they had a processor.

use std::num::NonZero;
use std::time::Duration;

use serde::Serialize;

use super::program::{Served, Version, measure};
use percolog_cli::output::bar;

/// How long a measurement lasts, and how often each is repeated.
const CELL: (Duration, usize) = (Duration::from_millis(120), 5);
/// The same with `--quick`.
const QUICK_CELL: (Duration, usize) = (Duration::from_millis(5), 1);
/// Workers that had a processor for less than this share of the time they could have had one for shared it with somebody else.
const UNDISTURBED: f64 = 0.9;

/// What was measured here.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Duel {
    /// The processor.
    pub(super) processor: String,
    /// How many there are for this process.
    pub(super) cpus: usize,
    /// By number of threads.
    pub(super) rows: Vec<Row>,
}

/// Both versions with so many threads.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// The threads.
    pub(super) threads: usize,
    /// The version as it was found.
    pub(super) before: Cell,
    /// The version with the fix.
    pub(super) after: Cell,
    /// How many times as many requests the fix answers in the same time.
    pub(super) faster: f64,
    /// How many times as many it answers in the same processor time, if that is known.
    pub(super) faster_by_cpu: Option<f64>,
    /// The share of the processor time they could have had that the threads had, in the worst of the measurements.
    pub(super) had: Option<f64>,
}

/// One version: medians.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cell {
    /// Requests a millisecond, of all threads together.
    pub(super) per_ms: f64,
    /// Nanoseconds that passed for a request, on its thread.
    pub(super) wall_ns: f64,
    /// Nanoseconds of processor time for a request, if that is known.
    pub(super) cpu_ns: Option<f64>,
}

impl Row {
    /// Whether something else used the machine meanwhile.
    pub(super) fn is_disturbed(&self) -> bool {
        self.had.is_some_and(|had| had < UNDISTURBED)
    }
}

impl Duel {
    /// What is wrong with the figures, if anything is.
    pub(super) fn doubt(&self) -> Option<String> {
        let had = self
            .rows
            .iter()
            .filter(|row| row.is_disturbed())
            .filter_map(|row| row.had)
            .min_by(f64::total_cmp)?;
        Some(format!(
            "Something else used this machine meanwhile: for a while the threads had a processor for only {:.0} % of the time that \
             they could have had it. Trust CPU time more than time.",
            had * 100.0
        ))
    }
}

/// One thread, two, and as many as there are processors.
fn default_threads(cpus: usize) -> Vec<usize> {
    let mut threads = vec![1, 2, cpus];
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// Measures both versions.
pub(super) fn duel(threads: &[u16], quick: bool) -> Duel {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = if threads.is_empty() {
        default_threads(cpus)
    } else {
        threads.iter().copied().map(usize::from).collect()
    };
    let (time, rounds) = if quick { QUICK_CELL } else { CELL };
    let bar = bar();
    bar.set_length(threads.len() as u64);
    let rows = threads
        .into_iter()
        .map(|threads| {
            bar.set_message(format!(
                "measuring here with {}",
                percolog_cli::format::threads(threads)
            ));
            bar.tick();
            // In turn, so that whatever disturbs the measurements disturbs both.
            let served: Vec<(Served, Served)> = (0..rounds)
                .map(|_| {
                    (
                        measure(Version::Before, threads, time),
                        measure(Version::After, threads, time),
                    )
                })
                .collect();
            bar.inc(1);
            row(threads, cpus, &served)
        })
        .collect();
    bar.finish_and_clear();
    Duel {
        processor: processor(),
        cpus,
        rows,
    }
}

fn row(threads: usize, cpus: usize, served: &[(Served, Served)]) -> Row {
    let could = (cpus as f64 / threads as f64).min(1.0);
    let had = served
        .iter()
        .flat_map(|(before, after)| [before, after])
        .map(|served| Some(served.cpu_ns? / (served.wall_ns * could)))
        .collect::<Option<Vec<_>>>()
        .and_then(|shares| shares.into_iter().min_by(f64::total_cmp));
    let cpu = |served: &Served| Some(served.cpu_ns? / served.requests as f64);
    let cell = |of: fn(&(Served, Served)) -> &Served| Cell {
        per_ms: median(served.iter().map(|both| of(both).per_ms)),
        wall_ns: median(
            served
                .iter()
                .map(|both| of(both).wall_ns / of(both).requests as f64),
        ),
        cpu_ns: served
            .iter()
            .map(|both| cpu(of(both)))
            .collect::<Option<Vec<_>>>()
            .map(median),
    };
    Row {
        threads,
        before: cell(|both| &both.0),
        after: cell(|both| &both.1),
        faster: median(
            served
                .iter()
                .map(|(before, after)| after.per_ms / before.per_ms),
        ),
        faster_by_cpu: served
            .iter()
            .map(|(before, after)| Some(cpu(before)? / cpu(after)?))
            .collect::<Option<Vec<_>>>()
            .map(median),
        had,
    }
}

/// The middle one; of an even number, the lower of the two. 0 of none.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).copied().unwrap_or_default()
}

/// What the system calls the processor.
fn processor() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(per_ms: f64, cpu_ns: Option<f64>) -> Served {
        Served {
            per_ms,
            requests: 10,
            wall_ns: 1000.0,
            cpu_ns,
        }
    }

    #[test]
    fn medians_are_of_ratios_and_the_worst_share_counts() {
        let rounds = [
            (served(1.0, Some(1000.0)), served(3.0, Some(500.0))),
            (served(2.0, Some(800.0)), served(4.0, Some(200.0))),
            (served(1.0, Some(1000.0)), served(9.0, Some(1000.0))),
        ];
        let row = row(2, 2, &rounds);
        assert_eq!((row.before.per_ms, row.after.per_ms), (1.0, 4.0));
        assert_eq!(row.faster, 3.0);
        assert_eq!(row.faster_by_cpu, Some(2.0));
        assert_eq!(row.had, Some(0.2));
        let duel = Duel {
            processor: String::new(),
            cpus: 2,
            rows: vec![row],
        };
        let doubt = duel.doubt().expect("there is one");
        assert!(doubt.contains("only 20 %"), "{doubt}");
    }

    #[test]
    fn more_threads_than_processors_are_no_disturbance() {
        let half = served(1.0, Some(500.0));
        let row = row(4, 2, &[(half, half)]);
        assert_eq!(row.had, Some(1.0));
        assert!(!row.is_disturbed());
    }

    #[test]
    fn unknown_processor_time_is_said_to_be_unknown() {
        let row = row(1, 1, &[(served(1.0, None), served(1.0, Some(1.0)))]);
        assert_eq!(
            (row.had, row.faster_by_cpu, row.before.cpu_ns),
            (None, None, None)
        );
    }

    #[test]
    fn one_two_and_all() {
        assert_eq!(default_threads(1), [1, 2]);
        assert_eq!(default_threads(2), [1, 2]);
        assert_eq!(default_threads(16), [1, 2, 16]);
    }
}
