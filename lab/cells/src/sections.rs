//! Parallel sections beside other ways to reclaim memory: reads and updates of a mixture, each call timed alone.

use percolog_bench::reclaim::ReclaimerKind;
use percolog_bench::reclaim::simulated::{self, Calls};
use percolog_validation::clock::Stopwatch;

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "sections",
    about: "reads, and updates in `percent` of all operations, of memory that a reclaimer guards",
    run,
}];

/// `read_rate` and `update_rate` are operations a second of that kind if all threads did nothing else, as the paper has it: their number over
/// the mean time of one in this mixture. `rate` is of the mixture itself.
fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let kinds: Vec<(&str, ReclaimerKind)> = ReclaimerKind::ALL
        .iter()
        .map(|kind| (kind.name(), *kind))
        .collect();
    let kind = given.choice("reclaimer", &kinds)?;
    let percent = given.number("percent", 0..=100)?;
    let shift = given.shift();
    let time = Stopwatch::start();
    let (cell, work) = simulated::run(kind, percent as u32, shift).map_err(ProgramError::failed)?;
    let megahertz = 1000.0 / time.nanoseconds_of_a_cycle();
    let (reads, updates) = (cell.reads, cell.updates);
    let number = reads.number + updates.number;
    let spent = |calls: Calls| calls.number as f64 * calls.mean.max(1.0);
    let mean = (spent(reads) + spent(updates)) / number.max(1) as f64;
    let mut values = Values::default()
        .with(
            Values::RATE,
            shift.threads as f64 * megahertz * 1e6 / mean.max(1.0),
        )
        .with(Values::OPERATIONS, number as f64)
        .drifting(work.drift());
    let wanted = [percent < 100, percent > 0];
    for ((name, calls), wanted) in [("read", reads), ("update", updates)]
        .into_iter()
        .zip(wanted)
    {
        if wanted {
            values = values.counted(name, calls.number);
        }
        if calls.number > 0 {
            values = values
                .with(
                    &format!("{name}_rate"),
                    1e6 * calls.millions(shift.threads, megahertz),
                )
                .with(&format!("{name}_mean_cycles"), calls.mean)
                .with(&format!("{name}_p99_cycles"), calls.p99 as f64);
        }
    }
    Ok(values)
}
