//! How long single calls of `queue` take at the limit, for each policy: percentiles of individually timed calls.
//!
//! The set holds 10,000 ids and each change concerns a new one, so nothing is absorbed and every 128th call meets the
//! limit. That is 0.8 % of the calls: a merge at the limit stands just behind p99, and in p99.9. What a policy leaves
//! to somebody else (merging a queue that grew, or was full) is done between timed calls.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use hdrhistogram::Histogram;
use percolog::oplog::{Logged, Policy};
use percolog_bench::peers::Edit;
use percolog_validation::hash::mix;

use crate::Effort;
use crate::figures::{Line, Unit};

/// Calls timed on each thread, with full effort.
const CALLS: u64 = 400_000;

/// Between two merges by hand, where the policy leaves them to somebody else.
const CALLS_PER_MERGE: u64 = 1024;

pub(crate) fn at_the_limit(effort: Effort) -> Vec<Line> {
    let calls = if effort.cells > 1 { CALLS } else { CALLS / 40 };
    let mut lines = vec![timer(calls)];
    for threads in [1, 2] {
        let plural = if threads == 1 { "" } else { "s" };
        for policy in [Policy::Merge, Policy::Grow, Policy::Full, Policy::Discard] {
            let times = times(policy, threads, calls);
            lines.push(percentiles(
                &format!("queue p99, {policy:?}, {threads} thread{plural}"),
                &times,
            ));
            lines.push(Line::published(
                format!("queue p99.9, {policy:?}, {threads} thread{plural}"),
                times.value_at_quantile(0.999) as f64,
                Unit::Nanoseconds,
            ));
        }
    }
    lines
}

/// What timing a call costs by itself, and is part of every figure here.
fn timer(calls: u64) -> Line {
    let mut times = histogram();
    for _ in 0..calls {
        let started = Instant::now();
        record(&mut times, started);
    }
    percentiles("timing a call, p99 (part of the next ones)", &times)
}

fn percentiles(name: &str, times: &Histogram<u64>) -> Line {
    Line::published(
        name,
        times.value_at_quantile(0.99) as f64,
        Unit::Nanoseconds,
    )
    .remark(format!(
        "median {}, 99.9 % {}, 99.99 % {}, longest {} ns, over {} calls",
        times.value_at_quantile(0.5),
        times.value_at_quantile(0.999),
        times.value_at_quantile(0.9999),
        times.max(),
        times.len()
    ))
}

/// Three significant digits of nanoseconds, up to ten seconds.
fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, 10_000_000_000, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("these bounds are in order: {error}"),
    }
}

fn record(times: &mut Histogram<u64>, started: Instant) {
    let elapsed = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // A call of more than ten seconds would be shown as one of ten.
    times.saturating_record(elapsed);
}

fn times(policy: Policy, threads: usize, calls: u64) -> Histogram<u64> {
    let set = Logged::<BTreeSet<u64>, Edit>::builder()
        .policy(policy)
        .build((0..10_000).map(mix).collect());
    let barrier = Barrier::new(threads);
    let mut all = histogram();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|thread| {
                let (set, barrier) = (&set, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    updater(set, policy, thread, calls)
                })
            })
            .collect();
        for worker in workers {
            match worker.join() {
                // Cannot fail: all histograms have the same shape, and grow.
                Ok(times) => all
                    .add(times)
                    .unwrap_or_else(|error| unreachable!("{error}")),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    black_box(set.synchronize().len());
    all
}

fn updater(
    set: &Logged<BTreeSet<u64>, Edit>,
    policy: Policy,
    thread: u64,
    calls: u64,
) -> Histogram<u64> {
    let mut times = histogram();
    for call in 0..calls {
        // Each id is added once and removed 1024 calls later: the set neither grows nor absorbs.
        let id = |turn: u64| mix(thread << 40 | 1 << 39 | turn);
        let turn = call / 2;
        let edit = if call % 2 == 0 {
            Edit::Open(id(turn))
        } else {
            Edit::Close(id(turn.wrapping_sub(512)))
        };
        if policy == Policy::Full {
            let started = Instant::now();
            let queued = set.try_queue(edit);
            record(&mut times, started);
            if let Err(full) = queued {
                drop(set.synchronize());
                set.queue(full.into_inner());
            }
        } else {
            let started = Instant::now();
            set.queue(edit);
            record(&mut times, started);
            if policy != Policy::Merge && call % CALLS_PER_MERGE == 0 {
                drop(set.synchronize());
            }
        }
    }
    times
}
