//! What `stat` and `fork` share.

use super::{Bench, Findings, Laboratory, Measured, OPTERON, Request};
use crate::closed::ClosedQueue;
use crate::guest::Guest;
use crate::rows::{Criterion, Curve, Row, Value};
use crate::sharing::ReferenceKind;

/// A `stat` takes so long besides its references.
const WORK: u64 = 770;

fn stat(kind: ReferenceKind) -> Guest {
    Guest::References { kind, work: WORK }
}

/// Figures 3-3 and 4-2(a): with a spin lock "the performance does not increase with the number of cores"; the lock-free count "scales
/// poorly", and levels off (section 8.2); the one with OpLog scales "nearly perfectly". The figures' numbers are not in the text.
fn scaling<L: Laboratory>(
    bench: &mut Bench<'_, L>,
    findings: &mut Findings,
) -> Result<(), L::Error> {
    /// Two chips: what levels off is level by then.
    const LEVEL: u32 = 12;
    let kinds = [
        ("on each core", ReferenceKind::Rows),
        ("lock-free, by addition", ReferenceKind::Added),
        ("lock-free", ReferenceKind::Packed),
        ("spin lock", ReferenceKind::Locked),
    ];
    let per_millisecond = bench.laboratory.megahertz(OPTERON);
    let mut last = Vec::new();
    for (name, kind) in kinds {
        // Where cores wait for each other, some threads come to an operation in 100,000 cycles, and others to none.
        let times = match kind {
            ReferenceKind::Rows => (100_000, 400_000),
            _ => (400_000, 4_000_000),
        };
        let cores = &[1, 2, 4, 6, LEVEL, 24, 36, 48];
        let curve = bench.curve(stat(kind), cores, &[1, LEVEL, 48], |_| times)?;
        let points = curve
            .0
            .iter()
            .map(|(cores, rate)| format!("{:.0} at {cores}", rate * per_millisecond));
        findings.notes.push(format!(
            "{name}, operations a millisecond: {}.",
            points.collect::<Vec<_>>().join(", ")
        ));
        let [Some(one), Some(level), Some(all)] = [1, LEVEL, 48].map(|cores| curve.at(cores))
        else {
            continue;
        };
        last.push((name, all));
        let row = |what, published, simulated, criterion| {
            let what = format!("{name}: {what}");
            let [published, simulated] = [published, simulated].map(Value::Times);
            Row::new(what, Some(48), published, simulated, criterion)
        };
        findings.rows.push(match kind {
            ReferenceKind::Rows => row("speedup, linear", 48.0, all / one, Criterion::Position),
            ReferenceKind::Locked => row("speedup, none", 1.0, all / one, Criterion::AtMost),
            ReferenceKind::Added => row(LEVELS_OFF, 1.0, all / level, Criterion::Level),
            ReferenceKind::Packed => row(LEVELS_OFF, 1.0, all / level, Criterion::Level),
        });
    }
    findings.rows.push(Row::new(
        "the most operations with all cores",
        Some(48),
        Value::order(&kinds.map(|(name, _)| name)),
        Value::ranked(last),
        Criterion::Exact,
    ));
    Ok(())
}

/// What a curve does that does not rise any more, and does not fall.
const LEVELS_OFF: &str = "levels off, of what 12 cores do";

/// Figure 4-2(b): "on six cores … almost 80 %" of the time is spent waiting in the reference counting code, "on 48 cores …
/// 99 %". The thesis does not say how long the rest of `stat` takes; Figure 4-4 gives 770 cycles for `close`, a call on an
/// object that is at hand, and that is taken here: it does not look at either point.
pub(super) fn references<L: Laboratory>(bench: &mut Bench<'_, L>) -> Result<Findings, L::Error> {
    let mut rows = Vec::new();
    for (cores, published) in [(6, 0.8), (48, 0.99)] {
        let guest = stat(ReferenceKind::Packed);
        let measured = bench.measure(OPTERON, guest, cores, (100_000, 400_000))?;
        // Taking and giving are a read and a write each, all of them queueing.
        let read = bench.laboratory.service(OPTERON, Request::Read, cores).busy;
        let write = bench
            .laboratory
            .service(OPTERON, Request::Write, cores)
            .busy;
        let queue = ClosedQueue {
            think: WORK as f64 / 2.0,
            service: read + write,
            servers: 1,
        };
        rows.push(
            Row::new(
                "waiting for the line",
                Some(cores),
                Value::Share(published),
                Value::Share(measured.waiting),
                Criterion::Level,
            )
            .closed(Value::Share(queue.waiting(cores)))
            .because(
                "Six cores keep the line busy all the time, both here and there. A stat moves it four times here, a load and an exchange \
                 each for taking and giving, which is 496 cycles; 80 % would be twice as many.",
            ),
        );
    }
    let mut findings = Findings {
        rows,
        notes: vec![format!(
            "The rest of stat is taken to be {WORK} cycles, which is what Figure 4-4 gives for close."
        )],
    };
    scaling(bench, &mut findings)?;
    Ok(findings)
}

/// Figure 4-1: throughput "reaches a plateau around 40 cores", where "roughly 35 % of the execution time is spent waiting".
/// How long the rest of `fork` takes is not said. It is chosen such that cores wait for 35 % at 40 cores; the plateau is then to
/// come by itself.
pub(super) fn pushes<L: Laboratory>(bench: &mut Bench<'_, L>) -> Result<Findings, L::Error> {
    /// The program, the C library and the loader: the files that a small program maps.
    const LISTS: u32 = 3;
    const SHARE: f64 = 0.35;
    // Once the queue has settled, some hundred pushes say enough for a quick look.
    let times = if bench.quick {
        (200_000, 400_000)
    } else {
        (400_000, 1_200_000)
    };
    let guest = |work| Guest::Pushes {
        work,
        lists: LISTS.into(),
    };
    let service = |request| bench.laboratory.service(OPTERON, request, 40).busy;
    let push = service(Request::Read) + service(Request::Write);
    // With times that vary; where they do not, there is less waiting before the queue is full, and more after.
    let formula = ClosedQueue::of_waiting(SHARE, 40, push, LISTS);
    let mut short = formula.map_or(0.0, |queue| queue.think);
    short /= 4.0;
    let mut long = 16.0 * short;
    // How far off it was, with how many cycles, and what was measured.
    let mut best: Option<(f64, f64, Measured)> = None;
    for _ in 0..if bench.quick { 5 } else { 7 } {
        let middle = f64::midpoint(short, long);
        let measured = bench.measure(OPTERON, guest(middle as u64), 40, times)?;
        let off = (measured.waiting - SHARE).abs();
        if best.is_none_or(|(least, ..)| off < least) {
            best = Some((off, middle.floor(), measured));
        }
        if measured.waiting > SHARE {
            short = middle;
        } else {
            long = middle;
        }
    }
    let Some((_, work, at_forty)) = best else {
        return Ok(Findings::default());
    };
    let queue = ClosedQueue {
        think: work,
        service: push,
        servers: LISTS,
    };
    let cores: &[u32] = if bench.quick {
        &[20, 40, 48]
    } else {
        &[8, 16, 20, 24, 28, 32, 36, 40, 44, 48]
    };
    let mut points = Vec::new();
    for &cores in cores {
        let measured = match cores {
            // The same run again would say the same.
            40 => at_forty,
            _ => bench.measure(OPTERON, guest(work as u64), cores, times)?,
        };
        points.push((cores, measured.work.rate()));
    }
    let mut rows = vec![
        Row::new(
            "waiting for the lists' heads",
            Some(40),
            Value::Share(SHARE),
            Value::Share(at_forty.waiting),
            Criterion::Level,
        )
        .closed(Value::Share(queue.waiting(40)))
        .given(),
    ];
    let formula = Curve(
        points
            .iter()
            .map(|(cores, _)| (*cores, queue.throughput(*cores)))
            .collect(),
    );
    if let (Some(plateau), Some(formula)) = (Curve(points).plateau(), formula.plateau()) {
        rows.push(
            Row::new(
                "plateau",
                None,
                Value::Cores(40.0),
                Value::Cores(f64::from(plateau)),
                Criterion::Position,
            )
            .closed(Value::Cores(f64::from(formula))),
        );
    }
    Ok(Findings {
        rows,
        notes: vec![format!(
            "The rest of fork is {:.0} cycles: with that, 40 cores wait for about 35 % of the time.",
            queue.think
        )],
    })
}
