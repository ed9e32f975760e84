//! How many lines of code a subsystem takes that is made by hand for each core, and behind a log: all, and those that are changed of it.

use percolog_papers::subsystem::sources;
use percolog_papers::subsystem::{Implementation, Subsystem};

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "lines-of-code",
    about: "lines of code of a subsystem made of something: nothing is run",
    run,
}];

fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let subsystem = given.choice(
        "subsystem",
        &Subsystem::ALL.map(|subsystem| (subsystem.name(), subsystem)),
    )?;
    let implementation = given.choice(
        "implementation",
        &[
            (Implementation::PerCpu.name(), Implementation::PerCpu),
            (Implementation::Oplog.name(), Implementation::Oplog),
        ],
    )?;
    let lines = sources::lines_of_code(subsystem, implementation)
        .zip(sources::lines_changed(subsystem, implementation));
    let (all, changed) = lines.ok_or_else(|| {
        ProgramError::Failed(format!(
            "nobody counts {subsystem} made of {implementation}"
        ))
    })?;
    Ok(Values::default()
        .with("code_lines", all as f64)
        .with("changed_lines", changed as f64))
}
