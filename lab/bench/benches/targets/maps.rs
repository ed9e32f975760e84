//! Tables that are looked up and changed on every thread: a large hash map beside `dashmap`, a short list in order beside
//! `crossbeam-skiplist`.

use percolog_bench::maps::{
    DashTable, FEW_KEYS, KEYS, Load, OurList, OurMap, SkipTable, Table, run,
};
use percolog_bench::runner::RunError;

use crate::figures::{self, Line, Unit, on};
use crate::{Effort, Measured};

pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in [1, 2] {
        for reads in [100, 90, 50] {
            let load = Load::of(KEYS, reads);
            lines.push(duel::<OurMap, DashTable>(effort, threads, load)?);
        }
    }
    for threads in [1, 2] {
        for reads in [100, 90, 50] {
            let load = Load::of(FEW_KEYS, reads);
            lines.push(duel::<OurList, SkipTable>(effort, threads, load)?);
        }
    }
    Ok(lines)
}

fn duel<Ours: Table, Theirs: Table>(
    effort: Effort,
    threads: usize,
    load: Load,
) -> Result<Line, RunError> {
    let [ours, theirs] = figures::duel(
        effort,
        threads,
        [&|settings| run::<Ours>(settings, load), &|settings| {
            run::<Theirs>(settings, load)
        }],
    )?;
    let name = format!(
        "{}, {} keys, {} % lookups, {}",
        Ours::NAME,
        load.keys,
        load.reads,
        on(threads)
    );
    Ok(
        Line::published(name, ours.nanoseconds(threads), Unit::Nanoseconds)
            .beside(Theirs::NAME, theirs.nanoseconds(threads)),
    )
}
