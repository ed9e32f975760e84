//! A mixture of the user's own: `lab bench`.

use percolog_bench::mixture::{Load, Subject};

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "mixture",
    about: "reads (`reads` of a million) and updates of a structure (`kind`, `structure`) by `keys` of some `skew` (thousandths), as fast as can be or `rate` a second",
    run,
}];

fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.text("kind")?;
    let word = given.text("structure")?;
    let subject = Subject::find(&kind, &word)
        .ok_or_else(|| ProgramError::failed(format!("there is no {kind} of `{word}`")))?;
    let load = Load {
        keys: given.number("keys", 1..=1 << 28)?,
        skew: given.number("skew", 0..=10_000)? as f64 / 1000.0,
        reads: u32::try_from(given.number("reads", 0..=1_000_000)?).unwrap_or(0),
        rate: given.optional_number("rate", 1..=u64::MAX)?,
    };
    let (cell, lateness) = subject
        .run(given.settings(), load)
        .map_err(ProgramError::failed)?;
    let values = Values::of_cell(&cell);
    Ok(match lateness {
        None => values,
        Some(lateness) => values
            .with("p50_ns", lateness.p50 as f64)
            .with("p99_ns", lateness.p99 as f64)
            .with("p999_ns", lateness.p999 as f64)
            .with("longest_ns", lateness.longest as f64),
    })
}
