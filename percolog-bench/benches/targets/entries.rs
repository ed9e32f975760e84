//! Containers without stamps: what single updates cost, and timeouts beside the skip list that programs have today.

use percolog_bench::entries::{
    self, BATCH, GlobalEntries, PerCoreEntries, SkipListEntries, Timeouts, run,
};

use crate::figures::{Line, Target, Unit, duel, medians, millions, nanoseconds_each, on};
use crate::{Effort, Measured};

pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = single(effort);
    for threads in [1, 2, 8] {
        let [per_core, global, theirs] = duel(
            effort,
            threads,
            [
                &run::<PerCoreEntries>,
                &run::<GlobalEntries>,
                &run::<SkipListEntries>,
            ],
        )?;
        let target = if threads == 2 {
            Target::RatioAtLeast(10.0)
        } else {
            Target::None
        };
        for (name, ours, target) in [
            (PerCoreEntries::NAME, per_core, target),
            (GlobalEntries::NAME, global, Target::None),
        ] {
            lines.push(
                Line::published(
                    format!("{name}, timeouts set and unset, {}", on(threads)),
                    millions(ours),
                    Unit::MillionsASecond,
                )
                .beside(SkipListEntries::NAME, millions(theirs))
                .target(target)
                .remark("the read in the end counted in"),
            );
        }
    }
    Ok(lines)
}

fn single(effort: Effort) -> Vec<Line> {
    const UPDATES: u64 = 1_000_000;
    const BATCHES: u64 = 4000;
    let [cancelled, queued, delivered, plain] = medians(
        effort.samples,
        [
            &|| nanoseconds_each(entries::cancelled(UPDATES), UPDATES),
            &|| nanoseconds_each(entries::queued(BATCHES), BATCHES * BATCH),
            &|| nanoseconds_each(entries::delivered(BATCHES), BATCHES * BATCH),
            &|| nanoseconds_each(entries::plain(BATCHES), BATCHES * BATCH),
        ],
    );
    let line = |name: &str, value: f64, bound: f64| {
        Line::published(name, value, Unit::Nanoseconds).target(Target::ValueAtMost(bound))
    };
    vec![
        line("Deferred, an update that cancels", cancelled, 7.0),
        line("Deferred, an update that enqueues", queued, 18.0),
        Line::published(
            "Deferred, an update that enqueues, and its delivery",
            delivered,
            Unit::Nanoseconds,
        ),
        line("plain append without a stamp, and its delivery", plain, 2.5),
    ]
}
