//! The per-core structures of *An Analysis of Linux Scalability to Many Cores*, each beside what it replaced.

use std::num::NonZeroU64;

use percolog_bench::in_use::{Load, Pattern};
use percolog_bench::osdi10::Now;
use percolog_bench::osdi10::backlog::{self, Arrivals, BacklogKind};
use percolog_bench::osdi10::comparisons::{self, Lookup};
use percolog_bench::osdi10::mounts::{self, TableKind};
use percolog_bench::peers::{
    AtomicGauge, ContatoriGauge, CounterGauge, LongAdder, ReducerGauge, SloppyGauge,
};
use percolog_bench::runner::{Cell, RunError, Settings};
use percolog_papers::subsystem::{Entry, Implementation, SharedObject, Subsystem, Visitor, visit};
use percolog_validation::clock::{self, Stopwatch};
use percolog_validation::crew::{self, CrewError, Did, Shift, Work};

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 5] = [
    Program {
        name: "in-use",
        about: "every thread acquires and releases; how many are in use is asked after every `updates_per_read` of a thread",
        run: in_use,
    },
    Program {
        name: "open-files",
        about: "every thread opens a file of one file system and closes it again; one thread lists all every `cycles_per_walk`",
        run: open_files,
    },
    Program {
        name: "comparisons",
        about: "every thread compares one name with what it looks for, and refers to it while it works",
        run: comparisons,
    },
    Program {
        name: "mounts",
        about: "every thread looks mounts up in a table that one thread changes every `cycles_per_change`",
        run: mounts,
    },
    Program {
        name: "backlog",
        about: "on every core connections come in and are accepted",
        run: backlog,
    },
];

fn in_use(given: &mut Given) -> Result<Values, ProgramError> {
    type Run = fn(Load, Settings) -> Result<(Cell, usize), RunError>;
    let run: Run = given.choice(
        "structure",
        &[
            ("sloppy", Load::run::<SloppyGauge> as Run),
            ("atomic", Load::run::<AtomicGauge>),
            ("percolog", Load::run::<CounterGauge>),
            ("reducer", Load::run::<ReducerGauge>),
            ("contatori", Load::run::<ContatoriGauge>),
            ("long-adder", Load::run::<LongAdder>),
        ],
    )?;
    let reads = given.optional_number("updates_per_read", 0..=u64::MAX)?;
    let load = Load {
        pattern: given.choice_or_first(
            "pattern",
            &[("pairs", Pattern::Pairs), ("apart", Pattern::Apart)],
        )?,
        updates_per_read: reads.and_then(NonZeroU64::new),
    };
    let (cell, bytes) = run(load, given.settings()).map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&cell).with("bytes", bytes as f64))
}

/// Work that is not the structure's, in cycles.
fn work(given: &mut Given) -> Result<u64, ProgramError> {
    given.number("work", 0..=1 << 30)
}

fn timed(
    given: &Given,
    run: impl FnOnce(Shift) -> Result<Work, CrewError>,
) -> Result<(Values, Work), ProgramError> {
    let shift = given.shift();
    let time = Stopwatch::start();
    let work = run(shift).map_err(ProgramError::failed)?;
    let values = Values::of_work(&work, time.nanoseconds_of_a_cycle());
    Ok((values, work))
}

fn open_files(given: &mut Given) -> Result<Values, ProgramError> {
    let implementation = given.choice(
        "implementation",
        &Implementation::ALL.map(|implementation| (implementation.name(), implementation)),
    )?;
    let work = work(given)?;
    let cycles_per_walk = given.number("cycles_per_walk", 1..=1 << 40)?;
    let (values, done) = timed(given, |shift| {
        let files = OpenFiles {
            shift,
            work,
            cycles_per_walk,
        };
        // What does not serve this subsystem cannot start a thread either.
        visit(Subsystem::OpenFiles, implementation, files).unwrap_or_else(|| {
            Err(CrewError::Spawn(std::io::Error::other(format!(
                "there is no list of open files of that kind: {implementation}"
            ))))
        })
    })?;
    Ok(values.counted("walk", done.rare))
}

/// Opens and closes, half of `work` cycles after each; the first thread walks the list now and then: by time, so that every list is walked
/// equally often, however slow it is.
struct OpenFiles {
    shift: Shift,
    work: u64,
    cycles_per_walk: u64,
}

impl Visitor for OpenFiles {
    type Output = Result<Work, CrewError>;

    fn visit<O: SharedObject>(self) -> Self::Output {
        let list = O::default();
        let (threads, half) = (self.shift.threads as u32, self.work / 2);
        let work = crew::run_counting(self.shift, |thread| {
            let (list, mut identity) = (&list, thread as u32);
            let mut walks = Now::and_then(self.cycles_per_walk);
            move || {
                let (arrival, departure) = O::life(Entry {
                    offset: u64::from(identity),
                    identity,
                    end: 0,
                    process: thread as u32,
                });
                // Nobody opens 2³² files while he is watched.
                identity = identity.wrapping_add(threads);
                list.enter(arrival);
                clock::spin(half);
                list.leave(departure);
                clock::spin(half);
                let walked = thread == 0 && walks.is_due();
                if walked {
                    std::hint::black_box(list.read(0));
                }
                Did {
                    operations: 1,
                    rare: u64::from(walked),
                }
            }
        })?;
        let right = list.view() == O::expected(&[]);
        work.checked(u64::from(right), 1)
    }
}

fn comparisons(given: &mut Given) -> Result<Values, ProgramError> {
    let lookup = given.choice(
        "structure",
        &[
            ("spinlock", Lookup::Locked),
            ("generation", Lookup::Generation),
            ("percolog", Lookup::Referenced),
        ],
    )?;
    let work = work(given)?;
    let (values, _) = timed(given, |shift| comparisons::run(shift, lookup, work))?;
    Ok(values)
}

fn mounts(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice(
        "structure",
        &[
            ("spinlock", TableKind::Spun),
            ("mutex", TableKind::Mutex),
            ("rwlock", TableKind::RwLock),
            ("dashmap", TableKind::Dash),
            ("percolog", TableKind::Percolog),
        ],
    )?;
    let load = mounts::Load {
        work: work(given)?,
        cycles_per_change: given.number("cycles_per_change", 1..=1 << 40)?,
    };
    let (values, done) = timed(given, |shift| mounts::run(shift, kind, load))?;
    Ok(values.counted("change", done.rare))
}

fn backlog(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice(
        "structure",
        &[
            ("spinlock", BacklogKind::Spun),
            ("mutex", BacklogKind::Mutex),
            ("crossbeam-channel", BacklogKind::Channel),
            ("percolog", BacklogKind::Percolog),
        ],
    )?;
    let arrivals = given.choice_or_first(
        "arrivals",
        &[("even", Arrivals::Even), ("uneven", Arrivals::Uneven)],
    )?;
    let work = work(given)?;
    let (values, _) = timed(given, |shift| backlog::run(shift, kind, arrivals, work))?;
    Ok(values)
}

#[cfg(test)]
mod tests {

    #[test]
    fn every_list_of_open_files_is_walked() {
        for implementation in ["oplog-absorb", "ldu-percore", "mutex", "lockfree", "percpu"] {
            // A busy machine may give the first thread no processor for the whole of a short time.
            let walked = (0..8).any(|tries| {
                let pairs = [
                    "threads=2".to_owned(),
                    "warm_up=20000".to_owned(),
                    format!("cycles={}", 200_000_u64 << (2 * tries)),
                    "work=100".to_owned(),
                    "cycles_per_walk=5000".to_owned(),
                    format!("implementation={implementation}"),
                ];
                let values = crate::run("open-files", pairs.iter().map(String::as_str));
                let values = values.unwrap_or_else(|error| panic!("{implementation}: {error}"));
                values.get("walk_count").is_some_and(|walks| walks > 0.0)
            });
            assert!(walked, "{implementation} is never walked");
        }
    }
}
