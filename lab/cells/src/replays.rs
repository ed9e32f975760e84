//! Replays: a loop of the papers, or what a recorded program did, through one subsystem made of one thing.

use std::num::NonZeroU64;
use std::time::Duration;

use percolog_papers::loops::{self, FILES, REGIONS};
use percolog_papers::replay::{self, GuestReport, Load};
use percolog_papers::subsystem::{Implementation, Subsystem};
use percolog_papers::trace::Trace;

use super::given::Time;
use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 2] = [
    Program {
        name: "replay",
        about: "a loop or a recorded program (`source=NAME`, or `source=file` and `trace=FILE`) through a subsystem made of something",
        run: replay,
    },
    Program {
        name: "update-ratios",
        about: "how many updates and how many reads a recorded program makes of each subsystem",
        run: update_ratios,
    },
];

/// What is replayed.
#[derive(Clone, Copy)]
enum Source {
    /// Each process forks a child that exits at once.
    ForkExit,
    /// The same with truncates of files that all have mapped.
    ForkTruncate,
    /// A recorded program.
    Recorded(&'static str),
    /// A recorded program whose trace is in a file.
    File,
}

const SOURCES: [(&str, Source); 7] = [
    ("fork-exit", Source::ForkExit),
    ("fork-truncate", Source::ForkTruncate),
    ("exim", Source::Recorded("exim")),
    ("make", Source::Recorded("make")),
    ("postgresql", Source::Recorded("postgresql")),
    ("apache", Source::Recorded("apache")),
    ("file", Source::File),
];

fn recorded(name: &str) -> Result<Trace, ProgramError> {
    match Trace::named(name) {
        Some(trace) => trace.map_err(ProgramError::failed),
        None => Err(ProgramError::Failed(format!(
            "no trace is called {name:?}; there are {}",
            Trace::names().collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// What is to be replayed, from the parameters.
fn load(given: &mut Given) -> Result<Load, ProgramError> {
    let source = given.choice("source", &SOURCES)?;
    let subsystem = given.choice_or_first(
        "subsystem",
        &Subsystem::ALL.map(|subsystem| (subsystem.name(), subsystem)),
    )?;
    // The papers have a process on each core.
    let processes = |given: &mut Given| -> Result<u32, ProgramError> {
        let asked = given.optional_number("processes", 1..=512)?;
        Ok(asked.map_or(given.threads as u32, |processes| processes as u32))
    };
    let (trace, set_up) = match source {
        Source::ForkExit => {
            let processes = processes(given)?;
            let forks = given.number("forks", 1..=10_000)? as u32;
            let trace = loops::fork_exit(processes, REGIONS, forks).map_err(ProgramError::failed);
            (trace, loops::set_up(processes, REGIONS))
        }
        Source::ForkTruncate => {
            let processes = processes(given)?;
            let forks = given.number("forks", 1..=10_000)? as u32;
            let each = given.number("forks_per_truncate", 1..=10_000)? as u32;
            let trace =
                loops::fork_truncate(processes, FILES, forks, each).map_err(ProgramError::failed);
            (trace, loops::set_up(processes, FILES))
        }
        Source::Recorded(name) => (recorded(name), 0),
        Source::File => {
            let path = given.text("trace")?;
            let trace = Trace::open(path.as_ref())
                .map_err(|error| ProgramError::Failed(format!("{path}: {error}")));
            (trace, 0)
        }
    };
    let mut trace = trace?;
    if let Some(events) = given.optional_number("events", 1..=u64::from(u32::MAX))? {
        trace = loops::first(&trace, events as usize).map_err(ProgramError::failed)?;
    }
    let every = given.optional_number("reads_every", 0..=u64::MAX)?;
    Ok(Load::new(&trace, subsystem, every.and_then(NonZeroU64::new)).after(set_up))
}

/// One pass where the machine is simulated, as many as fit where it is this one; a pass that is not counted before those.
///
/// `rate` is of updates and reads, with the last look at each object, which pays for all that was put off; `rate_going_on` is without it, as
/// a program has it that goes on; `forks` are forks a second, with it.
fn replay(given: &mut Given) -> Result<Values, ProgramError> {
    let load = load(given)?;
    let implementation = given.choice(
        "implementation",
        &Implementation::ALL.map(|implementation| (implementation.name(), implementation)),
    )?;
    let work = given.optional_number("work", 0..=10_000_000)?.unwrap_or(0);
    let threads = given.threads;
    let pass = || -> Result<GuestReport, ProgramError> {
        replay::guest(&load, implementation, threads, work).map_err(ProgramError::failed)
    };
    let (mut passes, mut elapsed, mut looked) = (0_u64, Duration::ZERO, Duration::ZERO);
    let budget = match given.time {
        Time::Cycles { .. } => Duration::ZERO,
        Time::For(budget) => {
            pass()?;
            budget
        }
    };
    while passes == 0 || elapsed < budget {
        let report = pass()?;
        passes += 1;
        elapsed += report.elapsed;
        looked += report.looked;
    }
    let calls = ((load.updates() + load.reads()) * passes) as f64;
    // A clock may stand still in the time of nothing.
    let moment = Duration::from_nanos(1);
    let seconds = elapsed.max(moment).as_secs_f64();
    Ok(Values::default()
        .with(Values::RATE, calls / seconds)
        .with(
            "rate_going_on",
            calls / elapsed.saturating_sub(looked).max(moment).as_secs_f64(),
        )
        .with("forks", (load.forks() * passes) as f64 / seconds)
        .with("operations", calls))
}

/// Values are named after subsystems: `files_updates`, `files_reads` and `files_share`, the share of updates among both.
fn update_ratios(given: &mut Given) -> Result<Values, ProgramError> {
    // Nothing runs: there is nothing to be shared out among threads, and it takes no time.
    let Source::Recorded(name) = given.choice("source", &SOURCES[2..6])? else {
        return Err(ProgramError::Failed("nobody has recorded that".to_owned()));
    };
    let trace = recorded(name)?;
    let mut values = Values::default();
    for subsystem in Subsystem::ALL {
        let load = Load::new(&trace, subsystem, None);
        let (updates, reads) = (load.updates() as f64, load.reads() as f64);
        let name = subsystem.name().replace('-', "_");
        values = values
            .with(&format!("{name}_updates"), updates)
            .with(&format!("{name}_reads"), reads)
            .with(
                &format!("{name}_share"),
                updates / (updates + reads).max(1.0),
            );
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_events_of_a_loop_are_a_load_too() {
        let events = |more: &str| {
            let pairs = "threads=1 warm_up=0 cycles=1 source=fork-exit processes=2 forks=5";
            let pairs = pairs.split(' ').chain(more.split_whitespace());
            let mut given = Given::parse(pairs).expect("they are pairs");
            let events = load(&mut given).expect("there is such a loop").events();
            given.finish().expect("all of them were taken");
            events
        };
        assert!(events("events=30") < events(""));
    }

    #[test]
    fn a_name_that_no_trace_has_is_refused() {
        let refused = recorded("nobody").map(|_| ()).expect_err("there is none");
        assert!(refused.to_string().contains("nobody"), "{refused}");
        for (_, source) in SOURCES {
            if let Source::Recorded(name) = source {
                assert!(recorded(name).is_ok(), "{name}");
            }
        }
    }
}
