//! Duels of what keeps values: maps, short lists, trees behind logs, caches, names, and memory for objects.

use std::time::Duration;

use percolog_bench::caches::{self, LockedCache, Moka, OurCache, QuickCache};
use percolog_bench::exchange::Place;
use percolog_bench::heaps::{self, OurHeap, RetiringHeap, ShardedHeap, SystemHeap};
use percolog_bench::maps::{
    self, AbsorbingTree, DashTable, LeftRightTable, LockedTable, LoggedTree, OurList, OurMap,
    PapayaTable, ReplicatedTree, SccTable, SkipTable,
};
use percolog_bench::names::{self, ArrayNames, OurNames, SlabNames};
use percolog_bench::recency::{self, LockedOrder, OurOrder, ReplicatedOrder};
use percolog_bench::runner::{Cell, RunError, Settings};
use percolog_bench::sessions::{self, DashSessions, LockedSessions, OurSessions};

use super::duels::answers;
use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 8] = [
    Program {
        name: "maps",
        about: "every thread looks keys up, `reads` times in a hundred, and puts and deletes in turns otherwise",
        run: maps,
    },
    Program {
        name: "caches",
        about: "every thread looks keys up (Zipf 0.99), and sets `sets` times in a hundred and what it has not found",
        run: caches,
    },
    Program {
        name: "lookups",
        about: "every thread looks values up by the names that a table has given them",
        run: lookups,
    },
    Program {
        name: "names",
        about: "every thread gives names to values and takes back its own, or others'",
        run: names,
    },
    Program {
        name: "recency",
        about: "every thread moves keys to the front of one list, and asks for keys `reads` times in a hundred",
        run: recency,
    },
    Program {
        name: "recency-beside-idle",
        about: "every thread moves keys to the front of one list, beside so many `idle` ones that do nothing",
        run: recency_beside_idle,
    },
    Program {
        name: "sessions",
        about: "every thread opens sessions, touches them and others, and closes them",
        run: sessions,
    },
    Program {
        name: "heaps",
        about: "every thread allocates objects of a cache line, and frees its own, or others'",
        run: heaps,
    },
];

type RunTable = fn(Settings, maps::Load) -> Result<Cell, RunError>;

fn maps(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunTable>(
        "structure",
        &[
            ("percolog", maps::run::<OurMap>),
            ("list", maps::run::<OurList>),
            ("logged", maps::run::<LoggedTree>),
            ("absorbing", maps::run::<AbsorbingTree>),
            ("locked", maps::run::<LockedTable>),
            ("dashmap", maps::run::<DashTable>),
            ("papaya", maps::run::<PapayaTable>),
            ("scc", maps::run::<SccTable>),
            ("left-right", maps::run::<LeftRightTable>),
            ("skiplist", maps::run::<SkipTable>),
            ("node-replication", maps::run::<ReplicatedTree>),
        ],
    )?;
    let load = maps::Load {
        keys: given.number("keys", 1..=1 << 24)?,
        reads: given.number("reads", 0..=100)?,
        answers: answers(given)?,
    };
    let cell = run(given.settings(), load).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

type RunCache = fn(Settings, caches::Load) -> Result<(Cell, f64), RunError>;

fn caches(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunCache>(
        "structure",
        &[
            ("percolog", caches::run::<OurCache>),
            ("quick_cache", caches::run::<QuickCache>),
            ("moka", caches::run::<Moka>),
            ("locked", caches::run::<LockedCache>),
        ],
    )?;
    let keys = given.number("keys", 10..=1 << 24)?;
    let trace = given.optional_number("trace", 4..=1 << 24)?;
    let load = caches::Load {
        keys: usize::try_from(keys).unwrap_or(usize::MAX),
        sets: given.number("sets", 0..=100)?,
        ample: given.choice_or_first("room", &[("ample", true), ("tenth", false)])?,
        // Several times as many as there are keys.
        trace: usize::try_from(trace.unwrap_or(1 << 20)).unwrap_or(usize::MAX),
    };
    let (cell, hits) = run(given.settings(), load).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell).with("hit_percent", hits))
}

type RunLookups = fn(Settings, u64) -> Result<Cell, RunError>;

fn lookups(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunLookups>(
        "structure",
        &[
            ("percolog", names::lookups::<OurNames>),
            ("sharded-slab", names::lookups::<SlabNames>),
            ("array", names::lookups::<ArrayNames>),
        ],
    )?;
    let values = given.number("values", 1..=1 << 24)?;
    let cell = run(given.settings(), values).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

type RunExchange = fn(Settings, Place) -> Result<Cell, RunError>;
type RunAfterThreads = fn(Settings, u64) -> Result<Cell, RunError>;

fn place(given: &mut Given) -> Result<Place, ProgramError> {
    let places = [("here", Place::Here), ("elsewhere", Place::Elsewhere)];
    given.choice_or_first("place", &places)
}

fn names(given: &mut Given) -> Result<Values, ProgramError> {
    let (run, after) = given.choice::<(RunExchange, RunAfterThreads)>(
        "structure",
        &[
            (
                "percolog",
                (
                    names::given_out::<OurNames>,
                    names::after_threads::<OurNames>,
                ),
            ),
            (
                "sharded-slab",
                (
                    names::given_out::<SlabNames>,
                    names::after_threads::<SlabNames>,
                ),
            ),
        ],
    )?;
    let cell = match given.optional_number("threads_before", 0..=1 << 20)? {
        Some(threads) => after(given.settings(), threads),
        None => run(given.settings(), place(given)?),
    };
    let cell = cell.map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

type RunRecency = fn(Settings, u64) -> Result<Cell, RunError>;
type RunBesideIdle = fn(usize, usize, Duration) -> Result<Cell, RunError>;

fn recency(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunRecency>(
        "structure",
        &[
            ("percolog", recency::run::<OurOrder>),
            ("locked", recency::run::<LockedOrder>),
            ("node-replication", recency::run::<ReplicatedOrder>),
        ],
    )?;
    let reads = given.number("reads", 0..=100)?;
    let cell = run(given.settings(), reads).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

fn recency_beside_idle(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunBesideIdle>(
        "structure",
        &[
            ("percolog", recency::beside_idle::<OurOrder>),
            ("locked", recency::beside_idle::<LockedOrder>),
            ("node-replication", recency::beside_idle::<ReplicatedOrder>),
        ],
    )?;
    let idle = given.number("idle", 0..=64)?;
    let seconds = Duration::from_millis(given.number("for_milliseconds", 1..=60_000)?);
    let idle = usize::try_from(idle).unwrap_or(0);
    let cell = run(given.threads, idle, seconds).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

type RunSessions = fn(Settings) -> Result<Cell, RunError>;

fn sessions(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunSessions>(
        "structure",
        &[
            ("percolog", sessions::run::<OurSessions>),
            ("locked", sessions::run::<LockedSessions>),
            ("dashmap", sessions::run::<DashSessions>),
        ],
    )?;
    let cell = run(given.settings()).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

fn heaps(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunExchange>(
        "structure",
        &[
            ("percolog", heaps::run::<OurHeap>),
            ("retiring", heaps::run::<RetiringHeap>),
            ("box", heaps::run::<SystemHeap>),
            ("sharded-slab", heaps::run::<ShardedHeap>),
            #[cfg(feature = "c-peers")]
            ("mimalloc", heaps::run::<heaps::MimallocHeap>),
        ],
    )?;
    let place = place(given)?;
    let cell = run(given.settings(), place).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}
