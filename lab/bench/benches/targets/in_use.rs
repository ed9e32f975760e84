//! `SloppyCounter`: things that are acquired and released, beside what programs count them with today.

use percolog_bench::in_use::{Gauge, Load, Pattern};
use percolog_bench::peers::{
    AtomicGauge, ContatoriGauge, CounterGauge, LongAdder, ReducerGauge, SloppyGauge,
};
use percolog_bench::runner::{Cell, RunError, Settings};

use crate::figures::{Line, READS, Unit, duel, on, one_read_in, up_to_the_machine};
use crate::{Effort, Measured};

/// Pairs of acquire and release at several rates of `in_use`, and what one thread acquires and another one releases.
pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in up_to_the_machine() {
        for updates_per_read in READS {
            let load = Load {
                pattern: Pattern::Pairs,
                updates_per_read,
            };
            let what = format!("acquire or release, {}, ", on(threads));
            lines.extend(beside_others(
                effort,
                threads,
                load,
                &(what + &one_read_in(updates_per_read)),
            )?);
        }
        if threads > 1 {
            let load = Load {
                pattern: Pattern::Apart,
                updates_per_read: None,
            };
            let what = format!("released by others, {}", on(threads));
            lines.extend(beside_others(effort, threads, load, &what)?);
        }
    }
    lines.extend(bytes(effort)?);
    if let Some(first) = lines.first_mut() {
        first.remark = format!(
            "SloppyCounter is {}; an operation is an acquire or a release, by the thread that did the other",
            SloppyGauge::READING.describe()
        );
    }
    Ok(lines)
}

/// Nanoseconds of a thread from one acquire or release to the next, of ours beside each of the others.
fn beside_others(effort: Effort, threads: usize, load: Load, what: &str) -> Measured {
    let [ours, others @ ..] = duel(
        effort,
        threads,
        [
            &cell::<SloppyGauge>(load),
            &cell::<AtomicGauge>(load),
            &cell::<LongAdder>(load),
            &cell::<ContatoriGauge>(load),
            &cell::<CounterGauge>(load),
            &cell::<ReducerGauge>(load),
        ],
    )?;
    let names = [
        named::<AtomicGauge>(),
        named::<LongAdder>(),
        named::<ContatoriGauge>(),
        named::<CounterGauge>(),
        named::<ReducerGauge>(),
    ];
    Ok(names
        .into_iter()
        .zip(others)
        .map(|(name, other)| {
            Line::published(what, ours.nanoseconds(threads), Unit::Nanoseconds)
                .beside(name, other.nanoseconds(threads))
        })
        .collect())
}

/// What each takes after two threads have acquired and released.
fn bytes(effort: Effort) -> Measured {
    let settings = Settings::new(2, effort.cell);
    let load = Load {
        pattern: Pattern::Pairs,
        updates_per_read: None,
    };
    let (_, ours) = load.run::<SloppyGauge>(settings)?;
    [
        (AtomicGauge::NAME, load.run::<AtomicGauge>(settings)),
        (LongAdder::NAME, load.run::<LongAdder>(settings)),
        (ContatoriGauge::NAME, load.run::<ContatoriGauge>(settings)),
        (CounterGauge::NAME, load.run::<CounterGauge>(settings)),
        (ReducerGauge::NAME, load.run::<ReducerGauge>(settings)),
    ]
    .into_iter()
    .map(|(name, run)| {
        let (_, other) = run?;
        Ok(Line::published(
            "bytes of a SloppyCounter, hot on 2 threads",
            ours as f64,
            Unit::Bytes,
        )
        .beside(name, other as f64))
    })
    .collect()
}

pub(crate) fn cell<G: Gauge>(load: Load) -> impl Fn(Settings) -> Result<Cell, RunError> {
    move |settings| load.run::<G>(settings).map(|(cell, _)| cell)
}

fn named<G: Gauge>() -> String {
    format!("{} ({})", G::NAME, G::READING.describe())
}
