//! Locks that collapse, and one that does not.

use super::{Bench, Findings, Laboratory, OPTERON, Request};
use crate::closed::{self, Reading};
use crate::guest::Guest;
use crate::locks::LockKind;
use crate::rows::{Criterion, Row, Value};

/// A ticket lock whose serial section is so long.
struct Case {
    /// Cycles of the serial section.
    section: u64,
    /// Cycles of everything, on one core.
    total: u64,
    /// Where it was said to collapse.
    published: Value,
    /// At which numbers of cores it is simulated.
    cores: &'static [u32],
    /// Those of a quick run; none leaves the case out.
    quick: &'static [u32],
}

/// Figure A-3: a serial section of 2 % collapses "at 13 and 24 cores" with 400 and 1600 cycles, and does not with 25,600.
/// §A.6: with 400 cycles there is "less than 10× scalability". Figure A-2: with sections of 400 cycles in every 12.5 thousand
/// "one might expect collapse to start around 31 cores", and it comes sooner. §2: an MCS lock does not collapse.
pub(super) fn locks<L: Laboratory>(bench: &mut Bench<'_, L>) -> Result<Findings, L::Error> {
    let mut findings = Findings::default();
    let cases = [
        Case {
            section: 400,
            total: 20_000,
            published: Value::Cores(13.0),
            cores: &[1, 6, 8, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 32, 48],
            quick: &[1, 8, 13, 20, 48],
        },
        Case {
            section: 1600,
            total: 80_000,
            published: Value::Cores(24.0),
            cores: &[1, 12, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 48],
            quick: &[1, 12, 24, 48],
        },
        Case {
            section: 25_600,
            total: 1_280_000,
            published: Value::NoCollapse,
            cores: &[1, 24, 36, 48],
            quick: &[1, 48],
        },
        Case {
            section: 400,
            total: 12_500,
            published: Value::Cores(31.0),
            cores: &[1, 6, 8, 10, 12, 14, 16, 20, 24, 28, 31, 36, 48],
            quick: &[],
        },
    ];
    let mut readings = Vec::new();
    for case in cases {
        let Case {
            section,
            total,
            published,
            cores,
            quick,
        } = case;
        if bench.quick && quick.is_empty() {
            continue;
        }
        let guest = Guest::Lock {
            kind: LockKind::Ticket,
            section,
            total,
        };
        // All threads begin together, with the lock as contended as it gets; the queue must have had time to go away.
        let times = (6 * total.min(400_000), 8 * total.min(800_000));
        let curve = bench.curve(guest, cores, quick, |_| times)?;
        let model = |response| closed::TicketLock {
            between: (total - section) as f64,
            section: section as f64,
            response,
        };
        let position = |peak: Option<u32>| match peak {
            Some(cores) => Value::Cores(f64::from(cores)),
            None => Value::NoCollapse,
        };
        // The home's answer to one of the readers that a release calls up, at about the number of cores in question.
        let response = bench.laboratory.service(OPTERON, Request::Read, 24).busy;
        let both =
            [Reading::Text, Reading::Printed].map(|reading| model(response).peak(48, reading));
        readings.push((section, total, published.clone(), both, curve.collapse()));
        let bound = published == Value::Cores(31.0);
        let what = if bound {
            "ticket lock, 400 of 12,500 cycles: collapse before".to_owned()
        } else {
            format!("ticket lock, section of {section} cycles: collapse")
        };
        let criterion = if bound {
            Criterion::AtMost
        } else {
            Criterion::Position
        };
        findings.rows.push(
            Row::new(what, None, published, curve.collapse(), criterion).closed(position(both[1])),
        );
        if (section, total) == (400, 20_000)
            && let (Some((_, most)), Some(one)) = (curve.peak(), curve.at(1))
        {
            let speedup = model(response);
            let best = both[1].unwrap_or(48);
            findings.rows.push(
                Row::new(
                    "ticket lock, section of 400 cycles: highest speedup",
                    None,
                    Value::Times(10.0),
                    Value::Times(most / one),
                    Criterion::AtMost,
                )
                .closed(Value::Times(speedup.speedup(best, Reading::Printed)))
                .because(
                    "The formula, with this machine's constants, is above the bound as well; and near its collapse a ticket lock is unstable \
                     (thesis, §A.4), so that so short a run stays ahead of the formula's average.",
                ),
            );
        }
    }
    let guest = Guest::Lock {
        kind: LockKind::Mcs,
        section: 400,
        total: 20_000,
    };
    let curve = bench.curve(guest, &[1, 8, 13, 18, 24, 36, 48], &[1, 48], |_| {
        (120_000, 160_000)
    })?;
    findings.rows.push(Row::new(
        "MCS lock, section of 400 cycles: collapse",
        None,
        Value::NoCollapse,
        curve.collapse(),
        Criterion::Position,
    ));
    if let (Some(all), Some(one)) = (curve.at(48), curve.at(1)) {
        findings.notes.push(format!(
            "MCS lock, section of 400 cycles: speedup {:.1} at 48 cores; Amdahl's law allows {:.1}.",
            all / one,
            closed::amdahl(48, 0.02)
        ));
    }
    findings.notes.push(which_reading(&readings));
    Ok(findings)
}

type Readings = (u64, u64, Value, [Option<u32>; 2], Value);

/// Says which reading of §A.4 comes closer to what was published.
fn which_reading(cases: &[Readings]) -> String {
    let shown = |peak: Option<u32>| peak.map_or("none".to_owned(), |cores| cores.to_string());
    let mut said = Vec::new();
    // Sums of the logarithms of the ratios.
    let mut off = [0.0, 0.0];
    for (section, total, published, peaks, simulated) in cases {
        if let Some(published) = published.number().filter(|_| *total == 50 * section) {
            for (off, peak) in off.iter_mut().zip(peaks) {
                *off += (f64::from(peak.unwrap_or(48)) / published).ln().abs();
            }
        }
        said.push(format!(
            "{section} of {total} cycles: {} with s + ck/2, {} with s + ck, {simulated} simulated",
            shown(peaks[0]),
            shown(peaks[1])
        ));
    }
    let fits = if off[1] < off[0] {
        "equation A.1 as printed, s + ck,"
    } else {
        "the text's s + ck/2"
    };
    format!(
        "Collapse by the Markov model of §A.4 with the machine's own c. {}. Of the two readings {fits} fits what was \
         published better.",
        said.join("; ")
    )
}
