//! Duels of ways to know when memory may be freed.

use std::time::Duration;

use percolog_bench::reclaim::ReclaimerKind;
use percolog_bench::reclaim::bare;
use percolog_bench::reclaim::lone;
use percolog_bench::reclaim::node::Node;
use percolog_bench::reclaim::shared;
use percolog_bench::reclaim::trace::Trace;
use percolog_bench::runner::{Pace, Settings};

use super::shared::milliseconds;
use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 4] = [
    Program {
        name: "reclaim",
        about: "every thread enters empty sections, and retires memory `updates` times in a hundred",
        run: sections,
    },
    Program {
        name: "shared-elements",
        about: "every thread reads elements of a table and replaces some, perhaps beside a reader that never leaves",
        run: shared_elements,
    },
    Program {
        name: "garbage",
        about: "how many bytes wait to be freed at the most, where threads enter sections and retire",
        run: garbage,
    },
    Program {
        name: "idle-threads",
        about: "an update beside `idle` threads that have been in a section once",
        run: idle_threads,
    },
];

fn kind(given: &mut Given) -> Result<ReclaimerKind, ProgramError> {
    given.choice(
        "structure",
        &[
            ("percolog", ReclaimerKind::Percolog),
            ("percolog-fenced", ReclaimerKind::Fenced),
            ("percolog-tsc", ReclaimerKind::Tsc),
            ("crossbeam-epoch", ReclaimerKind::CrossbeamEpoch),
            ("seize", ReclaimerKind::Seize),
            #[cfg(feature = "c-peers")]
            ("liburcu", ReclaimerKind::UrcuMembCall),
            #[cfg(feature = "c-peers")]
            ("liburcu-waiting", ReclaimerKind::UrcuMembWait),
            #[cfg(feature = "c-peers")]
            ("liburcu-mb", ReclaimerKind::UrcuMbCall),
            #[cfg(feature = "c-peers")]
            ("ck-epoch", ReclaimerKind::CkEpochCall),
        ],
    )
}

/// A trace as long as the cell needs: shorter for a simulated machine, where making it takes the machine's time.
fn trace(given: &mut Given) -> Result<(Trace, Settings), ProgramError> {
    let updates = given.number("updates", 0..=100)?;
    let settings = given.settings();
    let operations = match settings.pace {
        Pace::For(_) | Pace::Operations(_) => 1 << 20,
        Pace::Cycles { .. } => settings.threads << 12,
    };
    let updates = u32::try_from(updates).unwrap_or(100);
    Ok((Trace::of(operations, updates, settings.threads), settings))
}

fn sections(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = kind(given)?;
    let (trace, settings) = trace(given)?;
    let found = bare::throughput(kind, &trace, settings).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&found.cell))
}

fn shared_elements(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = kind(given)?;
    let stalled = given.choice_or_first("stalled_reader", &[("no", false), ("yes", true)])?;
    let (trace, settings) = trace(given)?;
    let found = shared::run(kind, &trace, settings, stalled).map_err(ProgramError::failed)?;
    let waiting = found.waiting_bytes as f64;
    Ok(Values::of_cell(&found.cell).with("waiting_bytes", waiting))
}

fn garbage(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = kind(given)?;
    let (trace, settings) = trace(given)?;
    let found = bare::watched(kind, &trace, settings).map_err(ProgramError::failed)?;
    let peak = (found.peak * Node::BYTES) as f64;
    Ok(Values::default().with("peak_bytes", peak))
}

fn idle_threads(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = kind(given)?;
    let idle = given.number("idle", 0..=4096)?;
    let idle = usize::try_from(idle).unwrap_or(0);
    let least = Duration::from_millis(milliseconds(given)? as u64);
    let updates = lone::beside_idle_threads(kind, &[idle], 1000, least);
    let updates = updates.map_err(ProgramError::failed)?;
    let nanoseconds = updates.first().copied().unwrap_or(f64::NAN);
    Ok(Values::default()
        .with("nanoseconds", nanoseconds)
        .with(Values::RATE, 1e9 / nanoseconds))
}
