//! Counters that are read: our counters and their rivals at several rates of exact reads, and what each takes of memory.
//!
//! From which rate on `Counter` loses is in the group of ratios, with more rates.

use percolog_bench::counters::CounterKind;

use crate::figures::{Line, READS, Unit, duel, on, one_read_in, up_to_the_machine};
use crate::{Effort, Measured};

/// Ours first: all others stand beside it.
const KINDS: [CounterKind; 6] = [
    CounterKind::Percolog,
    CounterKind::Atomic,
    CounterKind::Contatori,
    CounterKind::LongAdder,
    CounterKind::Sloppy,
    CounterKind::Reducer,
];

/// Nanoseconds of a thread from one add to the next, of each; and bytes.
pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in up_to_the_machine() {
        for adds_per_read in READS {
            let run = |kind: CounterKind| move |settings| kind.run(settings, adds_per_read);
            let figures = duel(
                effort,
                threads,
                [
                    &run(KINDS[0]),
                    &run(KINDS[1]),
                    &run(KINDS[2]),
                    &run(KINDS[3]),
                    &run(KINDS[4]),
                    &run(KINDS[5]),
                ],
            )?;
            for (kind, figure) in KINDS.into_iter().zip(figures).skip(1) {
                lines.push(
                    Line::published(
                        format!(
                            "Counter add, {}, {}",
                            on(threads),
                            one_read_in(adds_per_read)
                        ),
                        figures[0].nanoseconds(threads),
                        Unit::Nanoseconds,
                    )
                    .beside(
                        format!("{} ({})", kind.name(), kind.reading().describe()),
                        figure.nanoseconds(threads),
                    ),
                );
            }
        }
        lines.extend(bytes(threads));
    }
    if let Some(first) = lines.first_mut() {
        first.remark = format!(
            "Counter is {}, as its neighbours are where it says so: a sum counts every add that finished before, and of those \
             under way each or not. With ones alone that is a value the counter had; read at one moment is more, and holds \
             for all amounts.",
            CounterKind::Percolog.reading().describe()
        );
    }
    Ok(lines)
}

/// What each takes after what was just measured.
fn bytes(threads: usize) -> Vec<Line> {
    let ours = CounterKind::Percolog.bytes(threads);
    let peers = KINDS.into_iter().skip(1);
    peers
        .flat_map(|kind| {
            let peer = kind.bytes(threads);
            let line = |state: String, ours: usize, peer: usize| {
                Line::published(
                    format!("bytes of a Counter, {state}"),
                    ours as f64,
                    Unit::Bytes,
                )
                .beside(kind.name(), peer as f64)
            };
            let idle = (threads == 1).then(|| line("idle".to_owned(), ours.idle, peer.idle));
            let hot = line(format!("hot on {}", on(threads)), ours.hot, peer.hot);
            idle.into_iter().chain([hot])
        })
        .collect()
}
