//! Hostile interleavings: runs a program with seed after seed until it fails, and says which seed that was.
//!
//! In a run with [`Simulation::chaos`] threads are held back just before and after they touch memory that others touch too:
//! here for a few instructions, there for a whole time slice; now often, now a single thread between its load and its
//! compare-and-exchange. All of it follows from the seed, so that a failure can be had again, as often as it takes to
//! understand it.
//!
//! ```no_run
//! use percolog_sim::chaos::Search;
//! use percolog_sim::run::Simulation;
//! # fn of(machine: percolog_sim::model::Machine) -> Result<(), percolog_sim::run::SimulationError> {
//! let search = Search::new(Simulation::new(machine)).runs(200);
//! let found = search.run("./stress", ["--threads", "4"], |_| ())?;
//! if let Some(failure) = found.failure {
//!     println!("seed {:?}: it {}", failure.seed, failure.how);
//! }
//! # Ok(()) }
//! ```
//!
//! [`assert_survives_chaos`] is the same for the closure of a test.
//!
//! # What it does not find
//!
//! One thread runs at a time, and each sees at once what the one before has written. A program that is wrong only because
//! a processor or a compiler may reorder its accesses (a `Relaxed` that should be `Release`) works here, whatever
//! the seed. [`LIMITS`] says so wherever nothing was found.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};

use crate::assert::{self, Assertion, MeasureError};
use crate::report::{Ending, Interleaving, SharedMemory, SleeperSummary};
use crate::run::{Run, Simulation, SimulationError};

/// What is said with every result.
pub const LIMITS: &str =
    "This finds interleavings, not memory-order bugs: every run here is sequentially consistent.";

/// How many lines of a failed program's output are kept.
const LINES: usize = 20;

/// The status with which the plugin ends a program that it cannot go on with.
const SIMULATOR_FAILED: i32 = 125;

/// How a program is run again and again.
#[derive(Clone, Debug)]
#[must_use = "nothing is run until `run` is called"]
pub struct Search {
    simulation: Simulation,
    seed: u64,
    until: Until,
    expected: i32,
}

#[derive(Clone, Copy, Debug)]
enum Until {
    Runs(u64),
    Wall(Duration),
}

impl Search {
    /// How many runs there are, unless told otherwise.
    pub const RUNS: u64 = 100;

    /// How long each run may take, unless the simulation says otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(60);

    /// Runs as `simulation` has them, from seed 1 on. Its output is captured.
    pub fn new(simulation: Simulation) -> Self {
        Self {
            simulation: simulation.capture(true).timeout_unless_set(Self::PATIENCE),
            seed: 1,
            until: Until::Runs(Self::RUNS),
            expected: 0,
        }
    }

    /// How many runs there are, if none fails.
    pub fn runs(mut self, runs: u64) -> Self {
        self.until = Until::Runs(runs);
        self
    }

    /// Begins runs for so long, on the clock on the wall, instead of a number of them; one at least.
    pub fn for_wall(mut self, time: Duration) -> Self {
        self.until = Until::Wall(time);
        self
    }

    /// The first run's seed; those after it have the numbers that follow.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The status with which the program ends when all is well: 0 unless said otherwise.
    pub fn expect_status(mut self, status: i32) -> Self {
        self.expected = status;
        self
    }

    /// Runs `program` once as it is, with seed 1, and then with seed after seed until it fails. `progress` is told after each run.
    ///
    /// A run fails if it ends with another status than the expected one, by a signal, in a deadlock, or not in time.
    ///
    /// # Errors
    ///
    /// When the program cannot be simulated: as [`Simulation::run`]. That it fails is no error.
    pub fn run<A: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        mut progress: impl FnMut(&Progress),
    ) -> Result<Searched, SimulationError> {
        let arguments: Vec<A> = arguments.into_iter().collect();
        let one = |simulation: Simulation| {
            simulation.run(program.as_ref(), arguments.iter().map(AsRef::as_ref))
        };
        let mut searched = Searched::default();
        let calm = self.simulation.clone().chaos(false).seed(1);
        if let Some(failure) = self.judge(None, one(calm), &mut searched)? {
            searched.failure = Some(failure);
            return Ok(searched);
        }
        let begin = Instant::now();
        let mut orders = HashSet::new();
        for number in 0.. {
            let spent = begin.elapsed();
            let share = match self.until {
                Until::Runs(runs) => number as f64 / runs.max(1) as f64,
                Until::Wall(time) => spent.as_secs_f64() / time.as_secs_f64().max(f64::EPSILON),
            };
            let seed = self.seed.wrapping_add(number);
            progress(&Progress {
                seed,
                runs: searched.runs,
                interleavings: searched.interleavings,
                share: share.min(1.0),
            });
            if share >= 1.0 && (number > 0 || matches!(self.until, Until::Runs(_))) {
                break;
            }
            let run = one(self.simulation.clone().chaos(true).seed(seed));
            searched.runs += 1;
            if let Ok(run) = &run {
                let order: Vec<Interleaving> = interleavings(run).collect();
                searched.points += order.iter().map(|order| order.points).sum::<u64>();
                searched.delays += order.iter().map(|order| order.delays).sum::<u64>();
                orders.insert(order);
                searched.interleavings = orders.len() as u64;
            }
            if let Some(failure) = self.judge(Some(seed), run, &mut searched)? {
                searched.failure = Some(failure);
                break;
            }
        }
        Ok(searched)
    }

    /// Whether a run failed, and how.
    fn judge(
        &self,
        seed: Option<u64>,
        run: Result<Run, SimulationError>,
        searched: &mut Searched,
    ) -> Result<Option<Failure>, SimulationError> {
        let failure = |how, stdout: &[u8], stderr: &[u8]| Failure {
            seed,
            how,
            stdout: assert::last_lines(stdout, LINES),
            stderr: assert::last_lines(stderr, LINES),
            sleepers: Vec::new(),
        };
        let run = match run {
            Ok(run) => run,
            // What is killed without warning leaves no result.
            Err(SimulationError::NoResult {
                status,
                timed_out,
                said,
            }) if timed_out || status.code() != Some(SIMULATOR_FAILED) => {
                let how = How::of(status, timed_out, false);
                let said = said.unwrap_or_default();
                return Ok(Some(failure(how, b"", said.as_bytes())));
            }
            Err(error) => return Err(error),
        };
        for process in &run.processes {
            for (all, found) in [
                (&mut searched.not_reproducible, &process.not_reproducible),
                (&mut searched.unsimulated, &process.unsimulated),
            ] {
                for what in found {
                    if !all.contains(what) {
                        all.push(what.clone());
                    }
                }
            }
        }
        if searched.shared_memory.is_empty() {
            searched.shared_memory = SharedMemory::of(&run);
        }
        let dead = run
            .processes
            .iter()
            .any(|process| process.ending == Ending::Deadlock);
        let how = How::of(run.status, run.timed_out, dead);
        if how == How::Exited(self.expected) {
            return Ok(None);
        }
        let sleepers = if dead {
            run.summary().sleepers
        } else {
            Vec::new()
        };
        Ok(Some(Failure {
            sleepers,
            ..failure(how, &run.stdout, &run.stderr)
        }))
    }
}

/// The order of each process that shared anything.
fn interleavings(run: &Run) -> impl Iterator<Item = Interleaving> {
    run.processes
        .iter()
        .filter_map(|process| process.interleaving)
        .filter(|interleaving| interleaving.points > 0)
}

/// How far a search is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The seed that is next.
    pub seed: u64,
    /// Runs that have been made.
    pub runs: u64,
    /// Different ones among them.
    pub interleavings: u64,
    /// How much of the work is done, from 0 to 1.
    pub share: f64,
}

/// What a search found.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Searched {
    /// How the program failed; nothing if it survived.
    pub failure: Option<Failure>,
    /// Runs with threads held back.
    pub runs: u64,
    /// Runs among them that differ in the order in which threads touched what they share.
    pub interleavings: u64,
    /// Accesses at which a thread could have been held back, in all runs.
    pub points: u64,
    /// How often one was.
    pub delays: u64,
    /// Why a run with the same seed may differ. If empty, it is the same.
    pub not_reproducible: Vec<String>,
    /// What ran without being simulated, and so without being disturbed.
    pub unsimulated: Vec<String>,
    /// Memory that processes share, of the first run that found any: in which order they use it is left to the host.
    pub shared_memory: Vec<SharedMemory>,
}

/// How a program failed.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// The seed with which it does; none if it failed without any thread held back.
    pub seed: Option<u64>,
    /// How it ended.
    pub how: How,
    /// The end of what it wrote to stdout.
    pub stdout: String,
    /// The end of what it wrote to stderr.
    pub stderr: String,
    /// After a deadlock, where each thread waits.
    pub sleepers: Vec<SleeperSummary>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// All its threads slept, and nobody was there to wake them.
    Deadlocked,
    /// It did not: time was up.
    Hung,
}

impl How {
    fn of(status: ExitStatus, timed_out: bool, dead: bool) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            _ if timed_out => Self::Hung,
            _ if dead => Self::Deadlocked,
            (None, Some(signal)) => Self::Killed(signal),
            (code, _) => Self::Exited(code.unwrap_or_default()),
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "ended with status {status}"),
            Self::Killed(signal) => match name(*signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::Deadlocked => f.write_str("deadlocked: all its threads sleep"),
            Self::Hung => f.write_str("did not end in time"),
        }
    }
}

/// The signals by which programs that are wrong end.
fn name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        _ => return None,
    })
}

impl Serialize for How {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Ended {
            ending: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            number: Option<i32>,
        }
        let (ending, number) = match *self {
            Self::Exited(status) => ("exit", Some(status)),
            Self::Killed(signal) => ("signal", Some(signal)),
            Self::Deadlocked => ("deadlock", None),
            Self::Hung => ("hang", None),
        };
        Ended { ending, number }.serialize(serializer)
    }
}

/// Fails the test in which it is called if `workload` panics, crashes, deadlocks or hangs in one of so many hostile runs on a
/// machine with that many cores. See the [module](self).
///
/// ```no_run
/// # use std::{sync::atomic::{AtomicU64, Ordering}, thread};
/// #[test]
/// fn no_count_is_lost() {
///     percolog_sim::assert_survives_chaos(4, 50, || {
///         let counter = AtomicU64::new(0);
///         thread::scope(|scope| {
///             for _ in 0..4 {
///                 scope.spawn(|| counter.fetch_add(1, Ordering::Relaxed));
///             }
///         });
///         assert_eq!(counter.into_inner(), 4);
///     });
/// }
/// # fn main() {}
/// ```
///
/// As for [`assert_transfers`](crate::assert_transfers), the closure runs in this program started again, for this one test; where
/// there is no simulator the test is skipped, loudly, or fails with `PERCOLOG_SIM_REQUIRED=1`. It needs no marks.
///
/// # Panics
///
/// With the seed, how the workload failed, and the end of its output; and where nothing was run: see [`MeasureError`].
#[track_caller]
pub fn assert_survives_chaos(cores: usize, runs: u64, workload: impl FnOnce()) {
    Assertion::on(cores).survives_chaos(runs, workload);
}

impl Assertion {
    /// [`assert_survives_chaos`], with what this says. The first seed is [`seed`](Self::seed); the time that it may take is
    /// for each run.
    ///
    /// # Panics
    ///
    /// As [`assert_survives_chaos`].
    #[track_caller]
    pub fn survives_chaos(&self, runs: u64, workload: impl FnOnce()) {
        let searched = match self.search(runs, workload) {
            Ok(searched) => searched,
            Err(error) => return assert::skip_or_panic(&error),
        };
        if let Some(failure) = &searched.failure {
            panic!(
                "{}",
                Shown {
                    failure,
                    runs: searched.runs
                }
            );
        }
    }

    /// Runs `workload` once as it is, and so many times with threads held back, until it fails.
    ///
    /// # Errors
    ///
    /// Where nothing was run: see [`MeasureError`].
    pub fn search(&self, runs: u64, workload: impl FnOnce()) -> Result<Searched, MeasureError> {
        if assert::is_inside() {
            // What has been passed on the way to another is no failure: it would have ended the test.
            let _ = assert::inside(workload);
            return Err(MeasureError::Inside);
        }
        let result = self.search_outside(runs);
        assert::came_to_nothing();
        result
    }

    fn search_outside(&self, runs: u64) -> Result<Searched, MeasureError> {
        let (simulation, program, test) = self.again()?;
        let searched = Search::new(simulation)
            .runs(runs)
            .seed(self.first_seed())
            .expect_status(assert::CAME_TO_ITS_END)
            .run(&program, assert::only(&test), |_| ())
            .map_err(MeasureError::Simulation)?;
        let outside = (searched.unsimulated.iter().cloned()).chain(
            (searched.shared_memory.iter())
                .map(|shared| format!("processes share {}", shared.name)),
        );
        let outside: Vec<String> = outside.collect();
        match &searched.failure {
            None if !outside.is_empty() => Err(MeasureError::Incomplete(outside.join("; "))),
            // The harness found no such test: nothing was run.
            Some(Failure {
                how: How::Exited(0),
                ..
            }) => Err(MeasureError::NotReached { test }),
            _ => Ok(searched),
        }
    }
}

/// A failure, as a test says it.
struct Shown<'a> {
    failure: &'a Failure,
    runs: u64,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failure = self.failure;
        match failure.seed {
            Some(seed) => write!(
                f,
                "with seed {seed}, in run {} with threads held back, the workload {}; \
                 Assertion::on(…).seed({seed}).survives_chaos(1, …) repeats it",
                self.runs, failure.how
            )?,
            None => write!(
                f,
                "even with no thread held back the workload {}",
                failure.how
            )?,
        }
        for sleeper in &failure.sleepers {
            write!(f, "\nthread {}: {}", sleeper.thread, sleeper.why)?;
            if let (Some(file), Some(line)) = (&sleeper.place.file, sleeper.place.line) {
                write!(f, " at {file}:{line}")?;
            }
        }
        for output in [&failure.stdout, &failure.stderr] {
            if !output.is_empty() {
                write!(f, "\n{output}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
