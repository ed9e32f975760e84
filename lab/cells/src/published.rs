//! The workloads that the simulator is validated with, whose figures have been published.

use percolog_validation::clock::Stopwatch;
use percolog_validation::guest::Guest;

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "published",
    about: "a workload that figures have been published of (`guest=NAME`), with its parameters",
    run,
}];

fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let name = given.text("guest")?;
    let shift = given.shift();
    let mut pairs = given.rest();
    pairs.push(format!("threads={}", shift.threads));
    pairs.push(format!("warm_up={}", shift.warm_up));
    pairs.push(format!("cycles={}", shift.cycles));
    let (guest, shift) =
        Guest::parse(&name, pairs.iter().map(String::as_str)).map_err(ProgramError::failed)?;
    let time = Stopwatch::start();
    let work = guest.run(shift).map_err(ProgramError::failed)?;
    Ok(Values::of_work(&work, time.nanoseconds_of_a_cycle()))
}
