//! Reducers, counts by label and histograms, beside what programs have today.

use percolog_bench::peers::{
    DashLabels, MutexFold, MutexHistogram, PercologHistogram, PercologLabels, RecorderHistogram,
    ReducerFold, ReducerOfThree, ShardedLabels,
};
use percolog_bench::reducers::{Fold, run};
use percolog_bench::runner::Figure;

use crate::figures::{Line, Target, Unit, duel, millions};
use crate::{Effort, Measured};

/// Each on one, two and eight threads.
pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in [1, 2, 8] {
        let [ours, three, mutex] = duel(
            effort,
            threads,
            [
                &run::<ReducerFold>,
                &run::<ReducerOfThree>,
                &run::<MutexFold>,
            ],
        )?;
        if threads == 1 {
            lines.push(
                Line::published(
                    "Reducer::update, 1 thread",
                    ours.nanoseconds(1),
                    Unit::Nanoseconds,
                )
                .beside(MutexFold::NAME, mutex.nanoseconds(1))
                .target(Target::ValueAtMost(2.5))
                .remark("a sum"),
            );
            lines.push(
                Line::published(
                    "Reducer::update of three, 1 thread",
                    three.nanoseconds(1),
                    Unit::Nanoseconds,
                )
                .remark("a count, a sum and a maximum: the time of the update's own work included"),
            );
        }
        lines.push(against(
            "Reducer updates",
            threads,
            ours,
            MutexFold::NAME,
            mutex,
        ));

        let [ours, dash, sharded] = duel(
            effort,
            threads,
            [
                &run::<PercologLabels>,
                &run::<DashLabels>,
                &run::<ShardedLabels>,
            ],
        )?;
        let target = if threads == 2 {
            Target::RatioAtLeast(3.0)
        } else {
            Target::None
        };
        for (name, peer) in [(DashLabels::NAME, dash), (ShardedLabels::NAME, sharded)] {
            lines.push(against("CounterMap, hot keys", threads, ours, name, peer).target(target));
        }

        let [ours, mutex, recorders] = duel(
            effort,
            threads,
            [
                &run::<PercologHistogram>,
                &run::<MutexHistogram>,
                &run::<RecorderHistogram>,
            ],
        )?;
        for (name, peer) in [
            (MutexHistogram::NAME, mutex),
            (RecorderHistogram::NAME, recorders),
        ] {
            lines.push(against("Histogram::record", threads, ours, name, peer));
        }
    }
    Ok(lines)
}

fn against(what: &str, threads: usize, ours: Figure, name: &str, peer: Figure) -> Line {
    let plural = if threads == 1 { "" } else { "s" };
    Line::published(
        format!("{what}, {threads} thread{plural}"),
        millions(ours),
        Unit::MillionsASecond,
    )
    .beside(name, millions(peer))
}
