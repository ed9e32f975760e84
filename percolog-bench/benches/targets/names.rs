//! Namespaces, beside an array that somebody else keeps valid, and beside `sharded-slab`.

use percolog_bench::names::{Names, OurNames, SlabNames, array_lookups, elsewhere, local, lookups};

use crate::figures::{Line, Target, Unit, medians, on};
use crate::{Effort, Measured};

pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in [1, 2] {
        for (values, rounds) in [(4096, 200), (200_000, 4)] {
            let [array, ours, theirs] = medians(
                effort.samples,
                [
                    &|| array_lookups(threads, values, rounds),
                    &|| lookups::<OurNames>(threads, values, rounds),
                    &|| lookups::<SlabNames>(threads, values, rounds),
                ],
            );
            let line = |name: &str, value| {
                let name = format!("{name}, a lookup among {values}, {}", on(threads));
                Line::published(name, value, Unit::Nanoseconds)
                    .beside("an array with generations", array)
            };
            lines.push(line(OurNames::NAME, ours).target(Target::RatioAtMost(1.5)));
            lines.push(line(SlabNames::NAME, theirs));
        }
        let [ours, theirs] = medians(
            effort.samples,
            [&|| local::<OurNames>(threads, 5000), &|| {
                local::<SlabNames>(threads, 5000)
            }],
        );
        lines.push(
            Line::published(
                format!("Namespace, insert and remove here, {}", on(threads)),
                ours,
                Unit::Nanoseconds,
            )
            .beside(SlabNames::NAME, theirs),
        );
    }
    let [ours, theirs] = medians(
        effort.samples,
        [&|| elsewhere::<OurNames>(200), &|| {
            elsewhere::<SlabNames>(200)
        }],
    );
    lines.push(
        Line::published(
            "Namespace, insert here and remove there",
            ours,
            Unit::Nanoseconds,
        )
        .beside(SlabNames::NAME, theirs),
    );
    Ok(lines)
}
