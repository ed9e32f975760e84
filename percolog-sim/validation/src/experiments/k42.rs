//! Requests that are counted.

use super::{Bench, Findings, Laboratory, Machine, Request};
use crate::closed::ClosedQueue;
use crate::guest::Guest;
use crate::requests::Counting;
use crate::rows::{Criterion, Row, Value};

/// K42's Figure 1: a round trip of 1193 cycles is slowed down at 24 processors "by a factor of about 19" under a lock, "about
/// 12" with an atomic increment, "in the worst case … about 6" by false sharing, and not at all with padding.
pub(super) fn requests<L: Laboratory>(bench: &mut Bench<'_, L>) -> Result<Findings, L::Error> {
    const TRIP: u64 = 1193;
    const ALL: u32 = 24;
    let counters = [
        (Counting::Locked, "locked", 19.0, Criterion::Level),
        (Counting::Atomic, "atomic", 12.0, Criterion::Level),
        (Counting::Exchanged, "exchanged", 12.0, Criterion::Level),
        (Counting::Packed, "packed", 6.0, Criterion::AtMost),
        (Counting::Padded, "padded", 1.0, Criterion::Level),
    ];
    let mut findings = Findings::default();
    let mut last = Vec::new();
    for (counting, name, published, criterion) in counters {
        let guest = Guest::Requests {
            counting,
            trip: TRIP,
        };
        let mut take = |processors| {
            let measured = bench.measure(Machine::S85, guest, processors, (60_000, 240_000))?;
            Ok(measured.work.cycles_per_operation())
        };
        let (one, all) = (take(1)?, take(ALL)?);
        let row = Row::new(
            format!("{name}: a request, of one processor's"),
            Some(ALL),
            Value::Times(published),
            Value::Times(all / one),
            criterion,
        );
        // An increment is a read and a write of the line; a lock's own traffic has no such simple form.
        let service = |request| bench.laboratory.service(Machine::S85, request, ALL).busy;
        let queue = ClosedQueue {
            think: one,
            service: service(Request::Read) + service(Request::Write),
            servers: 1,
        };
        findings.rows.push(match counting {
            Counting::Locked | Counting::Exchanged => row,
            Counting::Padded => row.closed(Value::Times(1.0)),
            // The machine's file derives the time of a transfer from these two.
            Counting::Atomic | Counting::Packed => {
                let row = row.closed(Value::Times(queue.round(ALL) / one)).given();
                row.because(
                    "An increment of a falsely shared counter takes two requests to the bus here, as an atomic one does. K42's took half as \
                     long as an atomic one, which no one time of a transfer gives both.",
                )
            }
        });
        if counting != Counting::Exchanged {
            last.push((name, all));
        }
    }
    findings.rows.push(Row::new(
        "order of slowness",
        Some(ALL),
        Value::order(&["locked", "atomic", "packed", "padded"]),
        Value::ranked(last),
        Criterion::Exact,
    ));
    findings.notes.push(
        "Atomic: a load and an atomic addition, which is the bus traffic of PowerPC's larx and stcx.; exchanged: a load and a \
         compare-and-exchange, repeated until it succeeds. The lock is an MCS lock, as K42's were; the paper does not say which it \
         was."
            .to_owned(),
    );
    Ok(findings)
}
