//! K42's programs: the page-fault path of `percolog_papers::faults`, each object of which is shared or distributed, and requests that are
//! counted behind a reference.
//!
//! Frames are warm: each slot's free ones have been written there before, so that what is measured is the way to them, and not the bus
//! between memory and caches, which is the same for all.

mod program;

use percolog_papers::counters::Counting;
use percolog_papers::faults::workloads::Change;
use percolog_papers::faults::{Choice, FileKind, Kind};
use percolog_validation::clock::Stopwatch;

use super::{Given, Program, ProgramError, Values};
use program::Work;

pub(super) const PROGRAMS: [Program; 2] = [
    Program {
        name: "faults",
        about: "every thread touches so many pages (`program=NAME`), with some objects shared and others distributed",
        run: faults,
    },
    Program {
        name: "counted-requests",
        about: "every thread makes requests of `trip` cycles that are counted behind a reference to a clustered object",
        run: counted_requests,
    },
];

/// Pages of a thread, if nobody says how many.
const PAGES: u64 = 200;

/// Everything is distributed, if nobody says otherwise; files in parts, as fresh pages are found once.
///
/// `cycles` are those of a thread for a page, or for a region; `microseconds` are the same by the machine's clock.
fn faults(given: &mut Given) -> Result<Values, ProgramError> {
    let work = given.choice(
        "program",
        &[
            ("memclone", Work::Memclone),
            ("modified-memclone", Work::Modified),
            ("grep", Work::Grep),
            ("bound", Work::Bound),
            ("map", Work::Regions(Change::Map)),
            ("unmap", Work::Regions(Change::Unmap)),
            ("unmap-touched", Work::Regions(Change::UnmapTouched)),
        ],
    )?;
    let kinds = [("distributed", Kind::Distributed), ("shared", Kind::Shared)];
    let pages = given
        .optional_number("pages", 1..=1 << 20)?
        .unwrap_or(PAGES);
    let in_parts = work.parts(given.threads, pages);
    let choice = Choice {
        process: given.choice_or_first("process", &kinds)?,
        region: given.choice_or_first("region", &kinds)?,
        file: given.choice_or_first(
            "file",
            &[
                ("partitioned", in_parts),
                ("hashed", FileKind::Hashed),
                ("shared", FileKind::Shared),
            ],
        )?,
        pages: given.choice_or_first("page_manager", &kinds)?,
    };
    let time = Stopwatch::start();
    let done = work
        .run(choice, given.threads, pages)
        .map_err(ProgramError::failed)?;
    let microseconds = time.nanoseconds_of_a_cycle() / 1000.0;
    let values = Values::of_work(&done, 1000.0 * microseconds);
    Ok(values.with("microseconds", done.cycles_per_operation() * microseconds))
}

fn counted_requests(given: &mut Given) -> Result<Values, ProgramError> {
    let counting = given.choice(
        "counting",
        &Counting::ALL.map(|counting| {
            let name = match counting {
                Counting::Locked => "locked",
                Counting::Atomic => "atomic",
                Counting::Packed => "packed",
                Counting::Padded => "padded",
            };
            (name, counting)
        }),
    )?;
    let trip = given.number("trip", 0..=1 << 30)?;
    let time = Stopwatch::start();
    let done = program::requests(counting, given.shift(), trip).map_err(ProgramError::failed)?;
    Ok(Values::of_work(&done, time.nanoseconds_of_a_cycle()))
}
