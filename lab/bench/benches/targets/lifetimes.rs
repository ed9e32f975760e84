//! From the last drop to the destructor: `CoreArc` beside `Arc`, which destroys at once, and deferred destruction.

use std::time::Duration;

use hdrhistogram::Histogram;
use percolog_bench::lifetimes::{
    AtOnce, Deferred, InRounds, Lifetime, MOST, Pace, Runaway, measure,
};

use crate::Effort;
use crate::figures::{Line, Unit, on};

/// Values a thread drops, with full effort; one in ten otherwise.
const VALUES: usize = 20_000;

/// How fast, whether somebody asks, and what that is called.
const PACES: [(&str, Pace); 4] = [
    (
        "fast",
        Pace {
            between_drops: Duration::ZERO,
            between_asks: None,
        },
    ),
    (
        "fast, asked",
        Pace {
            between_drops: Duration::ZERO,
            between_asks: Some(ASKED),
        },
    ),
    (
        "slow",
        Pace {
            between_drops: SLOW,
            between_asks: None,
        },
    ),
    (
        "slow, asked",
        Pace {
            between_drops: SLOW,
            between_asks: Some(ASKED),
        },
    ),
];

const SLOW: Duration = Duration::from_micros(10);
const ASKED: Duration = Duration::from_millis(1);

/// Median, 99th percentile and longest, at each pace, on one thread and on two.
pub(crate) fn all(effort: Effort) -> Vec<Line> {
    let values = if effort.cells > 1 {
        VALUES
    } else {
        VALUES / 10
    };
    const { assert!(2 * VALUES <= MOST) };
    let mut lines = Vec::new();
    for threads in [1, 2] {
        for (name, pace) in PACES {
            let ours = measure::<InRounds>(threads, values, pace);
            let deferred = measure::<Deferred>(threads, values, pace);
            let at_once = measure::<AtOnce>(threads, values, pace);
            for (quantile, share) in [("p50", 0.5), ("p99", 0.99), ("longest", 1.0)] {
                let figure = format!("drop to free, {quantile}: {}, {name}", on(threads));
                let mut line = Line::published(figure, at(&ours, share), Unit::Nanoseconds)
                    .beside(Deferred::NAME, at(&deferred, share))
                    .remark(format!(
                        "{}: {}",
                        AtOnce::NAME,
                        Unit::Nanoseconds.show(at(&at_once, share))
                    ));
                for runaway in [&ours, &deferred]
                    .into_iter()
                    .flat_map(|run| run.as_ref().err())
                {
                    line.remark = format!("{}; {runaway}", line.remark);
                }
                lines.push(line);
            }
        }
    }
    if let Some(first) = lines.first_mut() {
        first.remark += "; each thread drops one value after the other, as fast as it can or (slow) each 10 µs, until all that is \
                         measured is destroyed; asked: one of them calls reclaim(), or flush(), a millisecond after it last \
                         did";
    }
    lines
}

/// Nanoseconds; infinite where the run was given up.
fn at(times: &Result<Histogram<u64>, Runaway>, share: f64) -> f64 {
    times
        .as_ref()
        .map_or(f64::INFINITY, |times| times.value_at_quantile(share) as f64)
}
