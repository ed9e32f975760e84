//! What sections and frees cost beside the other ways to free memory that is being read.

use std::time::Duration;

use percolog_bench::reclaim::bare::{self, Latency, Throughput};
use percolog_bench::reclaim::node::Node;
use percolog_bench::reclaim::trace::Trace;
use percolog_bench::reclaim::{ReclaimerKind, lone};
use percolog_bench::runner::{RunError, Settings};

use crate::figures::{Line, Target, Unit};
use crate::{Effort, Measured};

/// Ours, in the variants that a program would choose from.
const OURS: [ReclaimerKind; 4] = [
    ReclaimerKind::Percolog,
    ReclaimerKind::Fenced,
    ReclaimerKind::Tsc,
    ReclaimerKind::TscFenced,
];

/// Ours, with one of the paper's optimizations turned off, and what it is compared with.
const WITHOUT: [(ReclaimerKind, ReclaimerKind); 4] = [
    (ReclaimerKind::ClockAtExit, ReclaimerKind::Tsc),
    (ReclaimerKind::NotBorrowing, ReclaimerKind::Percolog),
    (ReclaimerKind::Forgetting, ReclaimerKind::Percolog),
    (ReclaimerKind::ScansInOrder, ReclaimerKind::Percolog),
];

pub(crate) fn all(effort: Effort) -> Measured {
    // There are many contestants: each is measured more briefly.
    let effort = Effort {
        cell: effort.cell / 2,
        cells: effort.cells.div_ceil(2),
        ..effort
    };
    let mut lines = sections(effort)?;
    lines.extend(rates(effort)?);
    lines.extend(latencies(effort)?);
    lines.extend(optimizations(effort)?);
    lines.extend(idle_threads(effort)?);
    lines.extend(garbage(effort)?);
    Ok(lines)
}

fn plural(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The contestants of one workload with their figures.
struct Results<T>(Vec<(ReclaimerKind, T)>);

impl<T: Copy> Results<T> {
    /// The medians by `value`, of cells that took turns.
    fn of(
        kinds: &[ReclaimerKind],
        cells: usize,
        value: impl Fn(&T) -> f64,
        run: impl Fn(ReclaimerKind) -> Result<T, RunError>,
    ) -> Result<Self, RunError> {
        let mut taken: Vec<Vec<T>> = kinds.iter().map(|_| Vec::with_capacity(cells)).collect();
        for _ in 0..cells.max(1) {
            for (&kind, taken) in kinds.iter().zip(&mut taken) {
                taken.push(run(kind)?);
            }
        }
        let median = |mut cells: Vec<T>| {
            cells.sort_by(|one, other| value(one).total_cmp(&value(other)));
            cells[cells.len() / 2]
        };
        Ok(Self(
            kinds
                .iter()
                .copied()
                .zip(taken.into_iter().map(median))
                .collect(),
        ))
    }

    fn get(&self, kind: ReclaimerKind) -> Option<T> {
        self.0
            .iter()
            .find(|(other, _)| *other == kind)
            .map(|&(_, result)| result)
    }

    /// The peer with the greatest `value`.
    fn best_peer(&self, value: impl Fn(&T) -> f64) -> Option<(&'static str, f64)> {
        self.0
            .iter()
            .filter(|(kind, _)| !kind.is_ours())
            .map(|(kind, result)| (kind.name(), value(result)))
            .max_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Everybody's figure.
    fn everybody(&self, show: impl Fn(&T) -> String) -> String {
        let shown: Vec<_> = self
            .0
            .iter()
            .map(|(kind, result)| format!("{} {}", kind.name(), show(result)))
            .collect();
        shown.join("; ")
    }
}

/// Ours and all peers.
fn contestants() -> Vec<ReclaimerKind> {
    OURS.into_iter().chain(ReclaimerKind::peers()).collect()
}

fn sections(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in [1, 2] {
        let settings = Settings::new(threads, effort.cell);
        let nanoseconds = Results::of(
            &contestants(),
            effort.cells,
            |&nanoseconds| nanoseconds,
            |kind| Ok(1e9 * threads as f64 / lone::sections(kind, settings)?.rate()),
        )?;
        for kind in OURS {
            let Some(ours) = nanoseconds.get(kind) else {
                continue;
            };
            let mut line = Line::published(
                format!("section: {}, {}", kind.name(), plural(threads)),
                ours,
                Unit::Nanoseconds,
            )
            .target(match kind {
                ReclaimerKind::Percolog => Target::ValueAtMost(2.5),
                ReclaimerKind::Fenced => Target::ValueAtMost(7.0),
                _ => Target::None,
            });
            if let Some(peer) = nanoseconds.get(ReclaimerKind::CrossbeamEpoch) {
                line = line.beside(ReclaimerKind::CrossbeamEpoch.name(), peer);
            }
            if kind == ReclaimerKind::Percolog {
                line = line.remark(format!(
                    "empty sections and nothing else; ns: {}",
                    nanoseconds.everybody(|nanoseconds| format!("{nanoseconds:.1}"))
                ));
            }
            lines.push(line);
        }
    }
    Ok(lines)
}

fn rates(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for (threads, percents) in [
        (1, [0, 10, 50, 90].as_slice()),
        (2, &[0, 10, 50, 90]),
        (8, &[50]),
    ] {
        let settings = Settings::new(threads, effort.cell);
        let mut kinds = contestants();
        if threads > 2 {
            // Those that wait do so for threads that have no processor: their figures would be the scheduler's.
            kinds.retain(|kind| !kind.waits());
        }
        for &percent in percents {
            let trace = Trace::new(percent, threads);
            let results = Results::of(
                &kinds,
                effort.cells,
                |result: &Throughput| result.cell.rate(),
                |kind| bare::throughput(kind, &trace, settings),
            )?;
            let limit = {
                let mut rates: Vec<_> = (0..effort.cells)
                    .map(|_| Ok(bare::limit(&trace, settings)?.cell.rate()))
                    .collect::<Result<_, RunError>>()?;
                rates.sort_by(f64::total_cmp);
                rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
            };
            if let Some(ours) = results.get(ReclaimerKind::Percolog) {
                lines.push(
                    Line::published(
                        format!("operations, {percent} % updates, {}", plural(threads)),
                        ours.cell.rate() / 1e6,
                        Unit::MillionsASecond,
                    )
                    .beside("the same with nothing protected: the limit", limit / 1e6),
                );
            }
            let millions = |rate: fn(&Throughput) -> f64| move |of: &Throughput| rate(of) / 1e6;
            for (what, rate) in [
                ("reads", millions(Throughput::reads_a_second)),
                ("updates", millions(Throughput::updates_a_second)),
            ] {
                if what == "updates" && percent == 0 {
                    continue;
                }
                let (Some(ours), Some((peer, best))) = (
                    results.get(ReclaimerKind::Percolog),
                    results.best_peer(rate),
                ) else {
                    continue;
                };
                let judged = what == "updates" && percent == 50 && threads == 2;
                lines.push(
                    Line::published(
                        format!("{what} at {percent} % updates, {}", plural(threads)),
                        rate(&ours),
                        Unit::MillionsASecond,
                    )
                    .beside(format!("the best: {peer}"), best)
                    .target(if judged {
                        Target::RatioAtLeast(2.0)
                    } else {
                        Target::None
                    })
                    .remark(format!(
                        "million {what}/s: {}",
                        results.everybody(|of| format!("{:.2}", rate(of)))
                    )),
                );
            }
        }
    }
    Ok(lines)
}

/// Single calls, timed one by one.
#[derive(Clone, Copy)]
struct Times {
    read: Call,
    update: Call,
    clock: u64,
}

#[derive(Clone, Copy)]
struct Call {
    mean: f64,
    p99: f64,
}

impl Times {
    fn of(latency: &Latency) -> Self {
        let call = |calls| Call {
            mean: latency.mean(calls),
            p99: latency.p99(calls),
        };
        Self {
            read: call(&latency.read),
            update: call(&latency.update),
            clock: latency.clock.value_at_quantile(0.5),
        }
    }
}

fn latencies(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    let settings = Settings::new(2, effort.cell);
    for percent in [10, 50] {
        let trace = Trace::new(percent, 2);
        let times = Results::of(
            &contestants(),
            effort.cells,
            |times: &Times| times.update.p99,
            |kind| Ok(Times::of(&bare::latency(kind, &trace, settings)?)),
        )?;
        for (what, call) in [
            ("read", (|times| times.read) as fn(&Times) -> Call),
            ("update", |times| times.update),
        ] {
            let Some(ours) = times.get(ReclaimerKind::Percolog) else {
                continue;
            };
            let mut line = Line::published(
                format!("{what} p99 at {percent} % updates, 2 threads"),
                call(&ours).p99,
                Unit::Nanoseconds,
            )
            .remark(format!(
                "mean/p99 in ns, less the {} that the clock takes: {}",
                ours.clock,
                times.everybody(|times| format!("{:.0}/{:.0}", call(times).mean, call(times).p99))
            ));
            if let Some((name, peer)) = synchronize_rcu(&times) {
                line = line.beside(name, call(&peer).p99);
                if what == "update" {
                    line = line.target(Target::RatioAtMost(0.2));
                }
            }
            lines.push(line);
        }
    }
    Ok(lines)
}

/// liburcu's `synchronize_rcu`, where it takes part.
fn synchronize_rcu<T: Copy>(results: &Results<T>) -> Option<(&'static str, T)> {
    results
        .0
        .iter()
        .find(|(kind, _)| kind.name().ends_with("memb, synchronize_rcu"))
        .map(|&(kind, result)| (kind.name(), result))
}

fn optimizations(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    let settings = Settings::new(2, effort.cell);
    let trace = Trace::new(50, 2);
    let kinds = [
        ReclaimerKind::Percolog,
        ReclaimerKind::Tsc,
        ReclaimerKind::ClockAtExit,
        ReclaimerKind::NotBorrowing,
        ReclaimerKind::Forgetting,
        ReclaimerKind::ScansInOrder,
    ];
    let results = Results::of(
        &kinds,
        effort.cells,
        |result: &Throughput| result.cell.rate(),
        |kind| bare::throughput(kind, &trace, settings),
    )?;
    for (without, with) in WITHOUT {
        if let (Some(without_it), Some(with_it)) = (results.get(without), results.get(with)) {
            lines.push(
                Line::published(
                    format!("50 %, 2 threads: {}", without.name()),
                    without_it.cell.rate() / 1e6,
                    Unit::MillionsASecond,
                )
                .beside(with.name(), with_it.cell.rate() / 1e6),
            );
        }
    }
    Ok(lines)
}

fn idle_threads(effort: Effort) -> Measured {
    let most = if effort.samples > 10 { 1000 } else { 50 };
    let idle = [0, most / 10, most];
    let kinds: Vec<_> = contestants()
        .into_iter()
        .filter(|kind| !kind.waits())
        .collect();
    let costs = Results::of(
        &kinds,
        effort.cells,
        |costs: &[f64; 3]| costs[2] / costs[0],
        |kind| {
            let costs = lone::beside_idle_threads(kind, &idle, 20_000, effort.cell / 4)?;
            Ok(std::array::from_fn(|at| {
                costs.get(at).copied().unwrap_or(f64::NAN)
            }))
        },
    )?;
    let Some(ours) = costs.get(ReclaimerKind::Percolog) else {
        return Ok(Vec::new());
    };
    Ok(vec![
        Line::published(
            format!("update beside {most} idle threads"),
            ours[2],
            Unit::Nanoseconds,
        )
        .beside("the same beside none", ours[0])
        .target(Target::RatioAtMost(1.25))
        .remark(format!(
            "ns beside {}/{}/{} idle threads: {}",
            idle[0],
            idle[1],
            idle[2],
            costs.everybody(|[none, some, many]| format!("{none:.0}/{some:.0}/{many:.0}"))
        )),
    ])
}

fn garbage(effort: Effort) -> Measured {
    let kilobytes = |objects: u64| (objects * Node::BYTES) as f64 / 1024.0;
    let mut lines = Vec::new();

    let trace = Trace::new(50, 2);
    let settings = Settings::new(2, effort.cell);
    let kinds = contestants();
    let running = Results::of(
        &kinds,
        effort.cells,
        |result: &Throughput| result.peak as f64,
        |kind| bare::watched(kind, &trace, settings),
    )?;
    if let (Some(ours), Some(peer)) = (
        running.get(ReclaimerKind::Percolog),
        running.get(ReclaimerKind::CrossbeamEpoch),
    ) {
        lines.push(
            Line::published(
                "peak garbage at 50 % updates, 2 threads",
                kilobytes(ours.peak),
                Unit::Kilobytes,
            )
            .beside(ReclaimerKind::CrossbeamEpoch.name(), kilobytes(peer.peak))
            .remark(format!(
                "KiB: {}",
                running.everybody(|of| format!("{:.0}", kilobytes(of.peak)))
            )),
        );
    }

    let updates = if effort.samples > 10 { 200_000 } else { 20_000 };
    let stalled = Results::of(
        &kinds,
        effort.cells,
        |garbage: &lone::Garbage| garbage.left as f64,
        |kind| lone::beside_a_stalled_reader(kind, updates, Duration::from_millis(20)),
    )?;
    if let (Some(ours), Some(peer)) = (
        stalled.get(ReclaimerKind::Percolog),
        stalled.get(ReclaimerKind::CrossbeamEpoch),
    ) {
        let name = ReclaimerKind::CrossbeamEpoch.name();
        lines.push(
            Line::published(
                format!("garbage, a reader stalled for {updates} updates"),
                kilobytes(ours.peak),
                Unit::Kilobytes,
            )
            .beside(name, kilobytes(peer.peak))
            .remark(format!(
                "KiB (who waits makes none, and no update): {}",
                stalled.everybody(|of| format!("{:.0}", kilobytes(of.peak)))
            )),
        );
        lines.push(
            Line::published(
                format!("what is left {} updates later", updates / 10),
                kilobytes(ours.left),
                Unit::Kilobytes,
            )
            .beside(name, kilobytes(peer.left))
            .remark(format!(
                "KiB: {}",
                stalled.everybody(|of| format!("{:.0}", kilobytes(of.left)))
            )),
        );
    }
    Ok(lines)
}
