//! Elements of distributed hash tables beside those of `dashmap`, on a hot set that all threads share; and counting requests.

use dashmap::DashMap;
use percolog::dhash::DHash;
use percolog::requests::{RequestCounter, SharedRequestCounter};
use percolog_bench::found::{Atomics, Counts, OurPartitioned, added, changes, entered};
use percolog_validation::hash::BuildIdHasher;

use crate::figures::{Line, Target, Unit, medians, on};
use crate::{Effort, Measured};

pub(crate) fn all(effort: Effort) -> Measured {
    type Locking = DashMap<u64, u64, BuildIdHasher>;
    let mut lines = Vec::new();
    for threads in [1, 2] {
        let [ours, locking, reading, partitioned] = medians(
            effort.samples,
            [
                &|| changes::<DHash<u64, (), u64, BuildIdHasher>>(threads),
                &|| changes::<Locking>(threads),
                &|| changes::<Atomics>(threads),
                &|| changes::<OurPartitioned>(threads),
            ],
        );
        let line = |name, value| {
            Line::published(
                format!("{name}, a change of a hot element, {}", on(threads)),
                value,
                Unit::Nanoseconds,
            )
        };
        lines.push(
            line("DHash", ours)
                .beside(Locking::NAME, locking)
                .target(Target::RatioAtMost(if threads == 1 { 1.0 } else { 0.5 })),
        );
        lines.push(line("DHash", ours).beside(Atomics::NAME, reading));
        lines.push(line(OurPartitioned::NAME, partitioned).beside(Locking::NAME, locking));
        let [distributed, shared, atomic] = medians(
            effort.samples,
            [
                &|| entered::<RequestCounter>(threads),
                &|| entered::<SharedRequestCounter>(threads),
                &|| added(threads),
            ],
        );
        let line = |name, value| {
            Line::published(
                format!("{name}, enter and leave, {}", on(threads)),
                value,
                Unit::Nanoseconds,
            )
            .beside("an atomic, added to twice", atomic)
        };
        lines.push(line("RequestCounter", distributed).target(Target::RatioAtMost(1.0)));
        lines.push(line("SharedRequestCounter", shared));
    }
    Ok(lines)
}
