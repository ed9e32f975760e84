//! Tables that are looked up and changed on every thread: a large hash map beside `dashmap`, a short list in order beside
//! `crossbeam-skiplist`.

use percolog_bench::maps::{DashTable, FEW_KEYS, KEYS, OurList, OurMap, SkipTable, Table, mixed};

use crate::figures::{Line, Unit, medians, on};
use crate::{Effort, Measured};

const OPERATIONS: usize = 300_000;

pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in [1, 2] {
        for reads in [100, 90, 50] {
            lines.push(duel::<OurMap, DashTable>(effort, KEYS, threads, reads));
        }
    }
    for threads in [1, 2] {
        for reads in [100, 90, 50] {
            lines.push(duel::<OurList, SkipTable>(effort, FEW_KEYS, threads, reads));
        }
    }
    Ok(lines)
}

fn duel<Ours: Table, Theirs: Table>(effort: Effort, keys: u64, threads: usize, reads: u64) -> Line {
    let [ours, theirs] = medians(
        effort.samples,
        [&|| mixed::<Ours>(keys, threads, reads, OPERATIONS), &|| {
            mixed::<Theirs>(keys, threads, reads, OPERATIONS)
        }],
    );
    Line::published(
        format!(
            "{}, {keys} keys, {reads} % lookups, {}",
            Ours::NAME,
            on(threads)
        ),
        ours,
        Unit::Nanoseconds,
    )
    .beside(Theirs::NAME, theirs)
}
