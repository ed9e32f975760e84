//! References that many threads clone, beside `Arc`.

use std::sync::Arc;
use std::time::Instant;

use percolog::refcount::{self, CoreArc};
use percolog_bench::references::{Reference, clones, clones_of_many, upgrades};

use crate::figures::{Line, Target, Unit, duel, millions};
use crate::{Effort, Measured};

/// Objects of which each thread clones one after the other.
const MANY: usize = 100_000;

pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in [1, 2, 8] {
        let of_many = clones_of_many::<CoreArc<u64>>(MANY);
        let many_arcs = clones_of_many::<Arc<u64>>(MANY);
        let figures = duel(
            effort,
            threads,
            [
                &clones::<CoreArc<u64>>,
                &clones::<Arc<u64>>,
                &upgrades::<CoreArc<u64>>,
                &upgrades::<Arc<u64>>,
                &of_many,
                &many_arcs,
            ],
        )?;
        let [ours, arc, upgrade, arc_upgrade, many, many_arc] = figures;
        let beside = <Arc<u64> as Reference>::NAME;
        if threads == 1 {
            lines.push(
                Line::published(
                    "CoreArc clone + drop, 1 thread",
                    ours.nanoseconds(1),
                    Unit::Nanoseconds,
                )
                .beside(beside, arc.nanoseconds(1))
                .target(Target::RatioAtMost(1.0)),
            );
        }
        let target = if threads == 2 {
            Target::RatioAtLeast(3.0)
        } else {
            Target::None
        };
        for (name, ours, peer, target) in [
            ("CoreArc clone + drop", ours, arc, target),
            (
                "CoreWeak upgrade + drop",
                upgrade,
                arc_upgrade,
                Target::None,
            ),
            (
                "CoreArc clone + drop, 100,000 objects",
                many,
                many_arc,
                Target::None,
            ),
        ] {
            let plural = if threads == 1 { "" } else { "s" };
            lines.push(
                Line::published(
                    format!("{name}, {threads} thread{plural}"),
                    millions(ours),
                    Unit::MillionsASecond,
                )
                .beside(beside, millions(peer))
                .target(target),
            );
        }
    }
    lines.extend(until_destroyed(effort));
    Ok(lines)
}

/// From the last drop to the destructor, where a thread makes a value and drops it again, over and over, and where it
/// asks for it.
fn until_destroyed(effort: Effort) -> Vec<Line> {
    const VALUES: u64 = 100_000;
    let mut each = Vec::new();
    for _ in 0..effort.cells {
        refcount::reclaim();
        let began = Instant::now();
        for _ in 0..VALUES {
            drop(CoreArc::new(0_u64));
        }
        refcount::reclaim();
        each.push(began.elapsed().as_secs_f64() * 1e9 / VALUES as f64);
    }
    each.sort_by(f64::total_cmp);
    let mut asked = Vec::new();
    for _ in 0..effort.samples {
        let value = CoreArc::new(0_u64);
        let began = Instant::now();
        drop(value);
        refcount::reclaim();
        asked.push(began.elapsed().as_secs_f64() * 1e9);
    }
    asked.sort_by(f64::total_cmp);
    vec![
        Line::published(
            "CoreArc: made, dropped and destroyed",
            each[each.len() / 2],
            Unit::Nanoseconds,
        )
        .remark("one thread; destroyed by the round of a later drop, at most 4096 drops later"),
        Line::published(
            "CoreArc: last drop to the end of reclaim()",
            asked[asked.len() / 2],
            Unit::Nanoseconds,
        )
        .remark("one thread, nothing else to reclaim"),
    ]
}
