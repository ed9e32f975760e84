//! One state behind whatever promises the same: how far from the best choice is the one that was made without knowing the load.

use std::time::Duration;

use percolog_bench::regret::{
    ADAPTIVE, Counts, DEFERRING, EAGER, Highest, Load, Log, Map, ParkingMutex, ParkingRwLock,
    Replicas, State, StdMutex, StdRwLock, Sum, run,
};
use percolog_bench::runner::{Cell, RunError, Settings};

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "regret",
    about: "every thread updates and reads (`reads` of a million) one `state`, in turns of so many milliseconds (`phase_ms`) as given and the other way round",
    run: cell,
}];

type Run = fn(Settings, Load) -> Result<Cell, RunError>;

fn structure<S: State>(given: &mut Given) -> Result<Run, ProgramError> {
    given.choice::<Run>(
        "structure",
        &[
            ("logged", run::<S, Log<S, S::Update, ADAPTIVE>>),
            ("eager", run::<S, Log<S, S::Update, EAGER>>),
            ("deferring", run::<S, Log<S, S::Update, DEFERRING>>),
            ("mutex", run::<S, StdMutex<S>>),
            ("rwlock", run::<S, StdRwLock<S>>),
            ("parking-mutex", run::<S, ParkingMutex<S>>),
            ("parking-rwlock", run::<S, ParkingRwLock<S>>),
            ("node-replication", run::<S, Replicas<S>>),
        ],
    )
}

fn cell(given: &mut Given) -> Result<Values, ProgramError> {
    type Of = fn(&mut Given) -> Result<Run, ProgramError>;
    let of = given.choice::<Of>(
        "state",
        &[
            ("sum", structure::<Sum>),
            ("highest", structure::<Highest>),
            ("counts", structure::<Counts>),
            ("map", structure::<Map<false>>),
            ("absorbing-map", structure::<Map<true>>),
        ],
    )?;
    let run = of(given)?;
    let phase = given.optional_number("phase_ms", 1..=600_000)?;
    let load = Load {
        reads: u32::try_from(given.number("reads", 0..=1_000_000)?).unwrap_or(0),
        phase: phase.map(Duration::from_millis),
    };
    let cell = run(given.settings(), load).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}
