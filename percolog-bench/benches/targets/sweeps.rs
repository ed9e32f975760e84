//! From which read ratio a per-core structure loses: the same streams with more and more reads in between.

use std::num::NonZeroU64;

use percolog_bench::counters::CounterKind;
use percolog_bench::crossing::{Crossing, Point, crossing};
use percolog_bench::runner::Figure;
use percolog_bench::sets::{Answers, Load, Pattern, Question, SetKind};

use crate::figures::{Line, Unit, duel};
use crate::{Effort, Measured};

/// Updates a read, from never to one read an update.
const UPDATES_PER_READ: [Option<u64>; 11] = [
    None,
    Some(1_000_000),
    Some(100_000),
    Some(10_000),
    Some(1000),
    Some(300),
    Some(100),
    Some(30),
    Some(10),
    Some(3),
    Some(1),
];

/// All sweeps, on two threads.
pub(crate) fn read_ratios(effort: Effort) -> Measured {
    // A sweep has many points: each is measured more briefly.
    let effort = Effort {
        cells: effort.cells.div_ceil(2),
        ..effort
    };
    let mut lines = sets(effort)?;
    lines.extend(counters(effort)?);
    Ok(lines)
}

fn sets(effort: Effort) -> Measured {
    let mut against_mutex = [Vec::new(), Vec::new()];
    let mut against_dash = [Vec::new(), Vec::new()];
    for updates in UPDATES_PER_READ {
        let load = Load {
            pattern: Pattern::Connections,
            changes_per_read: updates.and_then(NonZeroU64::new),
            question: Question::Contains,
            answers: Answers::Ignored,
        };
        let run = |kind: SetKind| move |settings| kind.run(settings, load);
        let [mutex, logged, absorbing, dash] = duel(
            effort,
            2,
            [
                &run(SetKind::Mutex),
                &run(SetKind::Logged),
                &run(SetKind::Absorbing),
                &run(SetKind::Dash),
            ],
        )?;
        for (at, ours) in [logged, absorbing].into_iter().enumerate() {
            against_mutex[at].push(point(updates, ours, mutex));
            against_dash[at].push(point(updates, ours, dash));
        }
    }
    let [logged_mutex, absorbing_mutex] = against_mutex;
    let [logged_dash, absorbing_dash] = against_dash;
    Ok(vec![
        line("Logged loses to Mutex from", &logged_mutex),
        line("Logged, absorbing, loses to Mutex from", &absorbing_mutex),
        line("Logged loses to DashSet from", &logged_dash),
        line("Logged, absorbing, loses to DashSet from", &absorbing_dash),
    ])
}

fn counters(effort: Effort) -> Measured {
    let mut against_atomic = Vec::new();
    let mut against_contatori = Vec::new();
    for updates in UPDATES_PER_READ {
        let adds_per_read = updates.and_then(NonZeroU64::new);
        let run = |kind: CounterKind| move |settings| kind.run(settings, adds_per_read);
        let [atomic, ours, contatori] = duel(
            effort,
            2,
            [
                &run(CounterKind::Atomic),
                &run(CounterKind::Percolog),
                &run(CounterKind::Contatori),
            ],
        )?;
        against_atomic.push(point(updates, ours, atomic));
        against_contatori.push(point(updates, ours, contatori));
    }
    Ok(vec![
        line("Counter loses to AtomicU64 from", &against_atomic),
        line("Counter loses to contatori from", &against_contatori),
    ])
}

fn point(updates: Option<u64>, ours: Figure, peer: Figure) -> Point {
    Point {
        reads: updates.map_or(0.0, |updates| 1.0 / updates as f64),
        ours: ours.median,
        peer: peer.median,
    }
}

fn line(name: &str, points: &[Point]) -> Line {
    let (ratio, remark) = match crossing(points) {
        Crossing::Never => (f64::INFINITY, "wins at every ratio measured; "),
        Crossing::Always => (0.0, "loses at every ratio measured, also without reads; "),
        Crossing::From(ratio) => (ratio, ""),
    };
    let sweep: Vec<String> = points
        .iter()
        .map(|point| format!("{:.0e}: {:.2}", point.reads, point.ours / point.peer))
        .collect();
    Line::published(name, ratio, Unit::ReadsAnUpdate).remark(format!(
        "{remark}reads an update: ratio of rates, on 2 threads: {}",
        sweep.join(", ")
    ))
}
