//! What an object takes of memory.

use percolog_bench::memory::MemoryKind;

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "memory",
    about: "bytes of an object, idle, and hot on so many threads with a slot each",
    run,
}];

fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice("structure", MemoryKind::ALL)?;
    // So many that a page more or less does not show.
    let objects = given.optional_number("objects", 1..=1 << 24)?;
    let objects = usize::try_from(objects.unwrap_or(256)).unwrap_or(usize::MAX);
    let found = kind
        .measure(given.threads, objects)
        .map_err(ProgramError::failed)?;
    Ok(Values::default()
        .with("idle_bytes", found.idle)
        .with("hot_bytes", found.hot))
}
