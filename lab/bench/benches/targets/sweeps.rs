//! From which read ratio a per-core structure loses: the same streams with more and more reads in between.

use std::num::NonZeroU64;

use percolog_bench::counters::CounterKind;
use percolog_bench::crossing::{Crossing, Point, crossing};
use percolog_bench::in_use;
use percolog_bench::peers::{AtomicGauge, LongAdder, SloppyGauge};
use percolog_bench::runner::Figure;
use percolog_bench::sets::{Answers, Load, Pattern, Question, SetKind};

use crate::figures::{Line, Unit, duel};
use crate::in_use::cell;
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
    lines.extend(things_in_use(effort)?);
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
    const PEERS: [(&str, CounterKind); 3] = [
        ("AtomicU64", CounterKind::Atomic),
        ("contatori", CounterKind::Contatori),
        ("LongAdder", CounterKind::LongAdder),
    ];
    let mut points = PEERS.map(|_| Vec::new());
    for updates in UPDATES_PER_READ {
        let adds_per_read = updates.and_then(NonZeroU64::new);
        let run = |kind: CounterKind| move |settings| kind.run(settings, adds_per_read);
        let [peers @ .., ours] = duel(
            effort,
            2,
            [
                &run(PEERS[0].1),
                &run(PEERS[1].1),
                &run(PEERS[2].1),
                &run(CounterKind::Percolog),
            ],
        )?;
        for (points, peer) in points.iter_mut().zip(peers) {
            points.push(point(updates, ours, peer));
        }
    }
    let lines = PEERS.iter().zip(&points);
    Ok(lines
        .map(|((name, _), points)| line(&format!("Counter loses to {name} from"), points))
        .collect())
}

/// Pairs of acquire and release, with reads by `in_use`.
fn things_in_use(effort: Effort) -> Measured {
    let (mut against_atomic, mut against_adder) = (Vec::new(), Vec::new());
    for updates in UPDATES_PER_READ {
        let load = in_use::Load {
            pattern: in_use::Pattern::Pairs,
            updates_per_read: updates.and_then(NonZeroU64::new),
        };
        let [atomic, adder, ours] = duel(
            effort,
            2,
            [
                &cell::<AtomicGauge>(load),
                &cell::<LongAdder>(load),
                &cell::<SloppyGauge>(load),
            ],
        )?;
        against_atomic.push(point(updates, ours, atomic));
        against_adder.push(point(updates, ours, adder));
    }
    Ok(vec![
        line("SloppyCounter loses to AtomicI64 from", &against_atomic),
        line("SloppyCounter loses to LongAdder from", &against_adder),
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
