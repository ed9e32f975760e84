//! Duels of what threads share and hardly look at: gauges, folds, references, events, timeouts; and what freeing costs a log's reader.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use percolog::refcount::CoreArc;
use percolog_bench::entries::{self, GlobalEntries, PerCoreEntries, SkipListEntries};
use percolog_bench::events;
use percolog_bench::freeing::{PENDING, Payload};
use percolog_bench::in_use::{Load, Pattern};
use percolog_bench::lifetimes::{self, AtOnce, Deferred, InRounds, Pace, Runaway};
use percolog_bench::peers::{
    AtomicGauge, ContatoriGauge, CounterGauge, CrossbeamEvents, DashLabels, LongAdder, MutexFold,
    MutexHistogram, PercologChannel, PercologEvents, PercologHistogram, PercologLabels,
    RecorderHistogram, ReducerFold, ReducerGauge, ReducerOfThree, ShardedLabels, SloppyGauge,
};
use percolog_bench::reducers;
use percolog_bench::references::{clones_of_many, upgrades};
use percolog_bench::runner::{Cell, RunError, Settings};

use super::duels::updates_per_read;
use super::{Given, Program, ProgramError, Time, Values};

pub(super) const PROGRAMS: [Program; 7] = [
    Program {
        name: "gauges",
        about: "every thread acquires and releases; how many are in use is asked after every `updates_per_read` of a thread",
        run: gauges,
    },
    Program {
        name: "folds",
        about: "every thread folds numbers into one value: a sum, counts by label, a histogram",
        run: folds,
    },
    Program {
        name: "references",
        about: "every thread clones and drops references to so many `objects`, or upgrades weak ones",
        run: references,
    },
    Program {
        name: "lifetimes",
        about: "every thread drops last references; the time from there to the destructor",
        run: lifetimes,
    },
    Program {
        name: "events",
        about: "every thread but one produces events, which that one consumes in the order of each producer",
        run: events,
    },
    Program {
        name: "timeouts",
        about: "every thread sets timeouts in a sorted structure, and unsets them",
        run: timeouts,
    },
    Program {
        name: "freeing",
        about: "one thread queues operations that own memory, another one reads",
        run: freeing,
    },
];

type RunGauge = fn(Load, Settings) -> Result<(Cell, usize), RunError>;

fn gauges(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunGauge>(
        "structure",
        &[
            ("sloppy", Load::run::<SloppyGauge>),
            ("percolog", Load::run::<CounterGauge>),
            ("reducer", Load::run::<ReducerGauge>),
            ("atomic", Load::run::<AtomicGauge>),
            ("contatori", Load::run::<ContatoriGauge>),
            ("long-adder", Load::run::<LongAdder>),
        ],
    )?;
    let load = Load {
        pattern: given.choice_or_first(
            "pattern",
            &[("pairs", Pattern::Pairs), ("apart", Pattern::Apart)],
        )?,
        updates_per_read: updates_per_read(given)?,
    };
    let (cell, bytes) = run(load, given.settings()).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell).with("bytes", bytes as f64))
}

type Run = fn(Settings) -> Result<Cell, RunError>;

fn folds(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<Run>(
        "structure",
        &[
            ("reducer", reducers::run::<ReducerFold>),
            ("reducer-of-three", reducers::run::<ReducerOfThree>),
            ("mutex", reducers::run::<MutexFold>),
            ("counter-map", reducers::run::<PercologLabels>),
            ("dashmap", reducers::run::<DashLabels>),
            ("sharded-maps", reducers::run::<ShardedLabels>),
            ("histogram", reducers::run::<PercologHistogram>),
            ("mutex-histogram", reducers::run::<MutexHistogram>),
            ("recorders", reducers::run::<RecorderHistogram>),
        ],
    )?;
    let cell = run(given.settings()).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

fn references(given: &mut Given) -> Result<Values, ProgramError> {
    let ours = given.choice("structure", &[("percolog", true), ("arc", false)])?;
    let weak = given.choice_or_first("how", &[("clone", false), ("upgrade", true)])?;
    // Weak references are made of one object.
    let objects = given.optional_number("objects", 1..=1 << 20)?.unwrap_or(1);
    let objects = usize::try_from(objects).unwrap_or(1);
    let settings = given.settings();
    let cell = match (ours, weak) {
        (true, true) => upgrades::<CoreArc<u64>>(settings),
        (false, true) => upgrades::<Arc<u64>>(settings),
        (true, false) => clones_of_many::<CoreArc<u64>>(objects)(settings),
        (false, false) => clones_of_many::<Arc<u64>>(objects)(settings),
    };
    Ok(Values::of_cell(&cell.map_err(ProgramError::failed)?))
}

type RunLifetime = fn(usize, usize, Pace) -> Result<Histogram<u64>, Runaway>;

fn lifetimes(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunLifetime>(
        "structure",
        &[
            ("percolog", lifetimes::measure::<InRounds>),
            ("arc", lifetimes::measure::<AtOnce>),
            ("crossbeam-epoch", lifetimes::measure::<Deferred>),
        ],
    )?;
    let between_drops = given.optional_number("nanoseconds_between", 0..=1_000_000_000)?;
    let between_asks = given.optional_number("microseconds_between_asks", 1..=1_000_000)?;
    let pace = Pace {
        between_drops: Duration::from_nanos(between_drops.unwrap_or(0)),
        between_asks: between_asks.map(Duration::from_micros),
    };
    // How long it takes is what is measured, so the time says how much: fifty values of each thread a millisecond.
    let values = 50 * milliseconds(given)?;
    let times = run(given.threads, values, pace).map_err(ProgramError::failed)?;
    let quantile = |share| times.value_at_quantile(share) as f64;
    Ok(Values::default()
        .with("p50_ns", quantile(0.5))
        .with("p99_ns", quantile(0.99))
        .with("longest_ns", times.max() as f64))
}

/// How long it is to take here.
pub(super) fn milliseconds(given: &Given) -> Result<usize, ProgramError> {
    match given.time {
        Time::For(time) => Ok(usize::try_from(time.as_millis()).unwrap_or(usize::MAX)),
        Time::Cycles { .. } => Err(ProgramError::Missing("milliseconds")),
    }
}

type RunEvents = fn(Settings, Duration) -> Result<Cell, RunError>;

fn events(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<RunEvents>(
        "structure",
        &[
            ("percolog", events::run_pausing::<PercologEvents>),
            ("percolog-channel", events::run_pausing::<PercologChannel>),
            ("crossbeam-channel", events::run_pausing::<CrossbeamEvents>),
        ],
    )?;
    let pause = given.optional_number("microseconds_of_pause", 0..=1_000_000)?;
    let pause = Duration::from_micros(pause.unwrap_or(0));
    let cell = run(given.settings(), pause).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

fn timeouts(given: &mut Given) -> Result<Values, ProgramError> {
    let run = given.choice::<Run>(
        "structure",
        &[
            ("percolog", entries::run::<PerCoreEntries>),
            ("one-list", entries::run::<GlobalEntries>),
            ("skiplist", entries::run::<SkipListEntries>),
        ],
    )?;
    let cell = run(given.settings()).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell))
}

fn freeing(given: &mut Given) -> Result<Values, ProgramError> {
    let payload = given.choice(
        "payload",
        &[
            ("plain", Payload::Plain),
            ("owning", Payload::Owning),
            ("returning", Payload::Returning),
        ],
    )?;
    let most = Duration::from_millis(milliseconds(given)? as u64);
    let began = Instant::now();
    let (mut reads, mut time) = (0, Duration::ZERO);
    while reads == 0 || began.elapsed() < most {
        const READS: u64 = 100;
        time += payload.time(READS);
        reads += READS;
    }
    let operations = (reads * PENDING) as f64;
    Ok(Values::default()
        .with(
            Values::RATE,
            operations / time.as_secs_f64().max(f64::MIN_POSITIVE),
        )
        .with("operations", operations))
}
