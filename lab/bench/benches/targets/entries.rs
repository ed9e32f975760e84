//! Containers without stamps: what single updates cost, and timeouts beside the skip list that programs have today.

use percolog_bench::entries::{
    self, BATCH, GlobalEntries, NOTES, PerCoreEntries, SkipListEntries, Timeouts, run,
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
    const TAKEN: u64 = 256;
    let [cancelled, queued, delivered, exchanged, plain] = medians(
        effort.samples,
        [
            &|| nanoseconds_each(entries::cancelled(UPDATES), UPDATES),
            &|| nanoseconds_each(entries::queued(BATCHES), BATCHES * BATCH),
            &|| nanoseconds_each(entries::delivered(BATCHES), BATCHES * BATCH),
            &|| nanoseconds_each(entries::exchanged(UPDATES), UPDATES),
            &|| nanoseconds_each(entries::plain(TAKEN), TAKEN * NOTES),
        ],
    );
    let line = |name: &str, value: f64| Line::published(name, value, Unit::Nanoseconds);
    vec![
        line("Deferred, an update that cancels", cancelled)
            .beside("one locked exchange", exchanged)
            .target(Target::ValueAtMost(7.0)),
        line("Deferred, an update that enqueues", queued)
            .beside("two locked exchanges", 2.0 * exchanged)
            .target(Target::ValueAtMost(18.0)),
        line(
            "Deferred, an update that enqueues, and its delivery",
            delivered,
        )
        .beside("three locked exchanges", 3.0 * exchanged),
        line(
            "plain append without a stamp (a Reducer of lists), and its delivery",
            plain,
        )
        .target(Target::ValueAtMost(2.5)),
    ]
}
