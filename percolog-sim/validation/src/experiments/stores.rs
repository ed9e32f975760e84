//! Stores to one line.

use super::{Bench, Findings, Laboratory, OPTERON, Request};
use crate::closed;
use crate::guest::Guest;
use crate::rows::{Criterion, Row, Value};
use crate::stores::{STORES, Store};

/// Figure 4-3: "the latency to execute the store increases from 182 to 8182 cycles"; with an atomic increment "at most 1.5 %
/// longer". §4.3 also says that an `open` of 2618 cycles "costs considerably less than writing a cache line when a dozen cores
/// simultaneously update" it.
pub(super) fn stores<L: Laboratory>(bench: &mut Bench<'_, L>) -> Result<Findings, L::Error> {
    let times = (200_000, 1_200_000);
    let mut take = |store, cores| {
        let measured = bench.measure(OPTERON, Guest::Store(store), cores, times)?;
        Ok(measured.work.cycles_per_operation() / STORES as f64)
    };
    // What one core takes is the loop and `cpuid`, without any transfer.
    let alone = take(Store::Plain, 1)?;
    let two = take(Store::Plain, 2)? - alone;
    let dozen = take(Store::Plain, 12)? - alone;
    let all = take(Store::Plain, 48)? - alone;
    let atomic_alone = take(Store::Atomic, 1)?;
    let atomic = take(Store::Atomic, 48)? - atomic_alone;
    let closed = |cores| {
        let service = bench.laboratory.service(OPTERON, Request::Write, cores);
        let latency = closed::contended_store(cores, service.latency, service.busy, alone);
        Value::Cycles(latency)
    };
    let level = |cores, published, simulated| {
        let (published, simulated) = (Value::Cycles(published), Value::Cycles(simulated));
        let what = format!("a store, {cores} writers");
        Row::new(what, Some(cores), published, simulated, Criterion::Level).closed(closed(cores))
    };
    let mut dozen = level(12, 2618.0, dozen);
    dozen.criterion = Criterion::AtLeast;
    dozen.what = "a store, 12 writers: more than".to_owned();
    let dozen = dozen.because(
        "Of twelve cores on two chips every other transfer stays on a chip, for 124 cycles, and the others take 250: that is 187 for each of \
         twelve. The bound leaves 218, as if those of the home's chip alone were near.",
    );
    Ok(Findings {
        rows: vec![
            level(2, 182.0, two).given(),
            dozen,
            level(48, 8182.0, all).given(),
            Row::new(
                "an atomic increment, of a store",
                Some(48),
                Value::Times(1.015),
                Value::Times(atomic / all),
                Criterion::AtMost,
            ),
        ],
        notes: vec![format!(
            "Cycles of a store are those of the loop less the {alone:.0} that it takes on one core."
        )],
    })
}
