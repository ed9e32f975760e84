//! The mapping database of the paper on parallel sections beside the same behind locks, and beside the kernel: mapping and unmapping
//! single pages and 1024 at once, each call timed alone.
//!
//! The paper's program is one process of many threads (`space=shared`); `own` gives each thread an address space of its own.

mod cell;
mod subjects;

use percolog_papers::mapdb::requests;
use percolog_validation::clock::Stopwatch;

use super::given::Time;
use super::{Given, Program, ProgramError, Values};
use cell::CLASSES;
use subjects::Kind;

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "mappings",
    about: "every thread maps single pages and 1024 at once, and unmaps them, again and again",
    run,
}];

/// Requests of a thread before it gives everything back and begins again.
const REQUESTS: usize = 25;

/// `map_us` and `map_p99_us` are microseconds for a page, `map_many_us` … for 1024, and the same of `unmap`: a class of which nobody made a
/// call has none.
fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice("database", &Kind::ALL.map(|kind| (kind.name(), kind)))?;
    let own = given.choice_or_first("space", &[("shared", false), ("own", true)])?;
    if own && !kind.has_spaces() {
        return Err(ProgramError::Wrong {
            key: "space".to_owned(),
            value: "own".to_owned(),
            wanted: "the kernel has one space for all threads".to_owned(),
        });
    }
    let simulated = matches!(given.time, Time::Cycles { .. });
    let shift = given.shift();
    let time = Stopwatch::start();
    let requests = requests::papers(REQUESTS);
    let (cell, drift) =
        subjects::run(kind, own, simulated, &requests, shift).map_err(ProgramError::failed)?;
    let microseconds = time.nanoseconds_of_a_cycle() / 1000.0;
    let calls: u64 = cell.0.iter().map(|calls| calls.number).sum();
    let spent: f64 = cell
        .0
        .iter()
        .map(|calls| calls.number as f64 * calls.mean)
        .sum();
    let mut values = Values::default()
        .with(
            Values::RATE,
            shift.threads as f64 * calls as f64 / (spent.max(1.0) * microseconds / 1e6),
        )
        .with(Values::OPERATIONS, calls as f64)
        .drifting(drift);
    for (class, calls) in CLASSES.into_iter().zip(&cell.0) {
        values = values.counted(class, calls.number);
        if calls.number > 0 {
            values = values
                .with(&format!("{class}_us"), calls.mean * microseconds)
                .with(&format!("{class}_p99_us"), calls.p99 as f64 * microseconds);
        }
    }
    Ok(values)
}
