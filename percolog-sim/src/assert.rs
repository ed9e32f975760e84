//! Assertions in ordinary tests: this code moves at most so many cache lines on so many cores.
//!
//! ```no_run
//! # use std::sync::atomic::{AtomicU64, Ordering};
//! # use std::{sync::Barrier, thread};
//! #[test]
//! fn counters_in_lines_of_their_own_move_none() {
//!     percolog_sim::assert_transfers(48, 0.0, || {
//!         #[repr(align(128))]
//!         struct Padded(AtomicU64);
//!         let counters: Vec<_> = (0..48).map(|_| Padded(AtomicU64::new(0))).collect();
//!         let start = Barrier::new(48);
//!         thread::scope(|scope| {
//!             for counter in &counters {
//!                 scope.spawn(|| {
//!                     counter.0.fetch_add(1, Ordering::Relaxed); // warm up
//!                     start.wait();
//!                     percolog_roi::begin();
//!                     for _ in 0..100 {
//!                         counter.0.fetch_add(1, Ordering::Relaxed);
//!                     }
//!                     percolog_roi::end(100);
//!                     start.wait();
//!                 });
//!             }
//!         });
//!     });
//! }
//! # fn main() {}
//! ```
//!
//! The closure does not run where it is written. The test's own program is started again, for this one test, under the simulator;
//! there the closure runs, and the program ends with it. So the closure needs nothing of a special kind, but it must not count on
//! what other tests have done, and what it changes is not seen outside.
//!
//! # What is bounded
//!
//! *Transfers and ownership upgrades together*, per operation: everything for which a core had to wait for another core's cache. An
//! upgrade (writing to a line that others hold for reading) moves no data, but takes the same trip. Lines that come from memory
//! are not counted, and nothing is outside the region that the closure marks.
//!
//! What lies in a variable of the test shares its line with other variables of that thread, which are written while the others work: whatever
//! is looked at in every operation should be on lines of its own, as it should be in a program.
//!
//! # Where there is no simulator
//!
//! The test is skipped, loudly: a line that begins with `SKIPPED:` goes to stderr, past the test harness. With
//! `PERCOLOG_SIM_REQUIRED=1` in the environment, as it should be in continuous integration, the test fails instead.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Machine;
use crate::run::{Run, Simulation, SimulationError};

/// Set by whoever starts a program under the simulator.
const INSIDE: &str = "PERCOLOG_SIM_INSIDE";

/// What the measurements of the same test that come before this one have found, as JSON: inside the simulator those return that,
/// and the next one is the one that is wanted.
const EARLIER: &str = "PERCOLOG_SIM_EARLIER";

/// Turns skipped tests into failures.
const REQUIRED: &str = "PERCOLOG_SIM_REQUIRED";

/// The program ends with this status after the closure. The test harness never does: it ends with 0 if there was no such test.
pub(crate) const CAME_TO_ITS_END: i32 = 93;

/// Fails the test in which it is called if `workload` needs more than `max_per_operation` transfers and ownership upgrades for
/// each of its operations, on a machine with that many cores. See the [module](self).
///
/// `workload` marks what counts, and how many operations that is, with `percolog_roi::begin` and `percolog_roi::end`.
///
/// # Panics
///
/// With the figures and the worst lines, where there are more; and where nothing was measured: the workload failed, marked nothing,
/// or this is not the thread of a test. Not where there is no simulator, unless `PERCOLOG_SIM_REQUIRED=1`.
#[track_caller]
pub fn assert_transfers(cores: usize, max_per_operation: f64, workload: impl FnOnce()) {
    Assertion::on(cores).transfers(max_per_operation, workload);
}

/// How a workload is measured: the machine and the options of its simulation.
#[derive(Clone, Debug)]
#[must_use = "nothing is measured until `transfers` or `measure` is called"]
pub struct Assertion {
    machine: Result<Machine, String>,
    run_ahead: u64,
    seed: u64,
    timeout: Duration,
}

impl Assertion {
    /// A machine with `cores` cores: as many chips of the machine `opteron-48` as that takes.
    ///
    /// How often lines move hardly depends on how long they take to do so; what does can be chosen with [`machine`](Self::machine).
    pub fn on(cores: usize) -> Self {
        let machine = crate::machine::built_in("opteron-48")
            .map_err(|error| error.to_string())
            .and_then(|machine| machine.with_cores(cores));
        Self {
            machine,
            run_ahead: Simulation::RUN_AHEAD,
            seed: 1,
            timeout: Duration::from_secs(600),
        }
    }

    /// Another machine.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Ok(machine);
        self
    }

    /// See [`Simulation::run_ahead`].
    pub fn run_ahead(mut self, cycles: u64) -> Self {
        self.run_ahead = cycles;
        self
    }

    /// See [`Simulation::seed`].
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long the simulation may take, on the clock on the wall: 10 minutes unless said otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// [`assert_transfers`], with what this says.
    ///
    /// # Panics
    ///
    /// As [`assert_transfers`].
    #[track_caller]
    pub fn transfers(&self, max_per_operation: f64, workload: impl FnOnce()) {
        let Some(measured) = self.measure_or_skip(workload) else {
            return;
        };
        if let Err(exceeded) = measured.check(max_per_operation) {
            panic!("{exceeded}");
        }
    }

    /// What `workload` needs. `None` where there is no simulator: then the test has been announced as skipped, and should return.
    ///
    /// # Panics
    ///
    /// Where [`measure`](Self::measure) has another error than that, or with `PERCOLOG_SIM_REQUIRED=1` with any.
    #[track_caller]
    pub fn measure_or_skip(&self, workload: impl FnOnce()) -> Option<Measured> {
        match self.measure(workload) {
            Ok(measured) => Some(measured),
            Err(error) => {
                skip_or_panic(&error);
                None
            }
        }
    }

    /// What `workload` needs.
    ///
    /// Several measurements in one test each start the program again. On the way to the one that is wanted, earlier ones return
    /// what they have found before; so a test must call them in the same order whenever it runs.
    ///
    /// # Errors
    ///
    /// Where nothing was measured: see [`MeasureError`].
    pub fn measure(&self, workload: impl FnOnce()) -> Result<Measured, MeasureError> {
        if is_inside() {
            return inside(workload);
        }
        let result = self.outside();
        BEFORE.with_borrow_mut(|before| {
            before.push(result.as_ref().ok().map(|measured| Measured {
                report: String::new(),
                ..measured.clone()
            }));
        });
        result
    }

    /// Starts this program again, under the simulator, for the test on whose thread this is.
    fn outside(&self) -> Result<Measured, MeasureError> {
        let (simulation, program, test) = self.again()?;
        let run = simulation
            .run(&program, only(&test))
            .map_err(MeasureError::Simulation)?;
        Measured::of(&run, &test)
    }

    /// How this program is started again, its path, and the test on whose thread this is.
    pub(crate) fn again(&self) -> Result<(Simulation, PathBuf, String), MeasureError> {
        let test = test_name().ok_or(MeasureError::NotInATest)?;
        let machine = self.machine.clone().map_err(MeasureError::Machine)?;
        crate::run::available().map_err(MeasureError::Unavailable)?;
        let program = std::env::current_exe().map_err(MeasureError::Program)?;
        let earlier = BEFORE
            .with_borrow(serde_json::to_string)
            .expect("figures and names can be written as JSON");
        let simulation = Simulation::new(machine)
            .run_ahead(self.run_ahead)
            .seed(self.seed)
            .timeout(self.timeout)
            .capture(true)
            .env(EARLIER, earlier)
            // A panic's message is what is shown; finding the names for a backtrace would be simulated, and take minutes.
            .env("RUST_BACKTRACE", "0");
        Ok((simulation, program, test))
    }

    /// See [`seed`](Self::seed).
    pub(crate) fn first_seed(&self) -> u64 {
        self.seed
    }
}

/// Arguments for the harness: one test, on a thread of its own, whose output is ours.
pub(crate) fn only(test: &str) -> [&str; 5] {
    [
        "--exact",
        test,
        "--nocapture",
        "--test-threads=1",
        "--include-ignored",
    ]
}

/// What becomes of a test that could not measure: it is skipped where there is no simulator, and fails otherwise.
#[track_caller]
pub(crate) fn skip_or_panic(error: &MeasureError) {
    match error {
        MeasureError::Inside => {}
        MeasureError::Unavailable(_) => {
            let required = std::env::var_os(REQUIRED).is_some_and(|set| set == "1");
            assert!(!required, "{REQUIRED}=1, but {error}");
            let test = test_name().unwrap_or_default();
            // Past the harness, which keeps to itself what a passing test prints. Nobody may be listening.
            let _ = writeln!(io::stderr(), "SKIPPED: {test}: {error}");
        }
        error => panic!("{error}"),
    }
}

/// Whether this process is simulated.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// This test has come past something that is no measurement, and that has to be counted all the same.
pub(crate) fn came_to_nothing() {
    BEFORE.with_borrow_mut(|before| before.push(None));
}

thread_local! {
    /// What this test has measured so far.
    static BEFORE: RefCell<Vec<Option<Measured>>> = const { RefCell::new(Vec::new()) };
    /// Inside the simulator: how many measurements this test has come to.
    static REACHED: Cell<usize> = const { Cell::new(0) };
}

/// The harness runs each test on a thread that it names after it.
fn test_name() -> Option<String> {
    let name = std::thread::current().name()?.to_owned();
    (name != "main").then_some(name)
}

/// What a measurement is inside the simulator. It only returns on the way to the one that is wanted.
pub(crate) fn inside(workload: impl FnOnce()) -> Result<Measured, MeasureError> {
    let Ok(earlier) = std::env::var(EARLIER) else {
        // Somebody simulates the whole test program, by hand.
        workload();
        return Err(MeasureError::Inside);
    };
    let earlier: Vec<Option<Measured>> =
        serde_json::from_str(&earlier).map_err(|_| MeasureError::Inside)?;
    let number = REACHED.replace(REACHED.get() + 1);
    if let Some(found) = earlier.into_iter().nth(number) {
        return found.ok_or(MeasureError::Earlier);
    }
    workload();
    std::process::exit(CAME_TO_ITS_END)
}

/// What a workload needed, in the regions that it marked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// The machine's name.
    pub machine: String,
    /// Its cores.
    pub cores: usize,
    /// Threads that marked a region.
    pub threads: u64,
    /// Operations that they said to have made.
    pub operations: u64,
    /// Lines that came from another core's cache.
    pub transfers: u64,
    /// Writes to lines that this core already had, and others too, which had to give them up.
    pub upgrades: u64,
    /// Copies that others had to give up, for upgrades and for writes that transferred the line.
    pub invalidations: u64,
    /// Lines that no cache had had before, and that came from memory.
    pub cold: u64,
    /// Lines that came from memory although caches have had them.
    pub memory: u64,
    /// All of it, and the worst lines, for people.
    pub report: String,
}

impl Measured {
    fn of(run: &Run, test: &str) -> Result<Self, MeasureError> {
        let output = || last_lines(&run.stderr, LINES);
        if run.timed_out {
            return Err(MeasureError::TimedOut { output: output() });
        }
        match run.status.code() {
            Some(CAME_TO_ITS_END) => {}
            Some(0) => {
                return Err(MeasureError::NotReached {
                    test: test.to_owned(),
                });
            }
            _ => {
                return Err(MeasureError::Failed {
                    status: run.status,
                    output: output(),
                });
            }
        }
        let process = run.main().ok_or(MeasureError::NothingMarked)?;
        let region = &process.region;
        if region.entered == 0 || region.operations == 0 {
            return Err(MeasureError::NothingMarked);
        }
        let summary = run.summary();
        summary
            .check()
            .map_err(|nothing| MeasureError::Incomplete(nothing.to_string()))?;
        if !summary.unsimulated.is_empty() {
            let what = summary.unsimulated.join("; ");
            return Err(MeasureError::Incomplete(format!("not simulated: {what}")));
        }
        let counts = &region.counts;
        Ok(Self {
            machine: process.machine.clone(),
            cores: run.machine.cores,
            threads: region.threads,
            operations: region.operations,
            transfers: counts.transfers(),
            upgrades: counts.upgrades,
            invalidations: counts.invalidations,
            cold: counts.cold,
            memory: counts.memory,
            report: summary.to_text(),
        })
    }

    /// Transfers an operation.
    #[must_use]
    pub fn transfers_per_operation(&self) -> f64 {
        self.transfers as f64 / self.operations as f64
    }

    /// Ownership upgrades an operation.
    #[must_use]
    pub fn upgrades_per_operation(&self) -> f64 {
        self.upgrades as f64 / self.operations as f64
    }

    /// What is asserted: transfers and ownership upgrades an operation.
    #[must_use]
    pub fn per_operation(&self) -> f64 {
        (self.transfers + self.upgrades) as f64 / self.operations as f64
    }

    /// Whether that is at most `max_per_operation`.
    ///
    /// # Errors
    ///
    /// With what is to be said about it, where it is more, or the bound is not a number.
    pub fn check(&self, max_per_operation: f64) -> Result<(), Exceeded> {
        if self.per_operation() <= max_per_operation {
            Ok(())
        } else {
            Err(Exceeded {
                measured: self.clone(),
                max_per_operation,
            })
        }
    }
}

/// A workload needed more than it may. Shows the figures and the worst lines.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Exceeded {
    /// What it needed.
    pub measured: Measured,
    /// What it might have needed.
    pub max_per_operation: f64,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = &self.measured;
        write!(
            f,
            "{:.3} transfers and upgrades per operation on the {} cores of {}; at most {} allowed\n\
             ({:.3} transfers and {:.3} ownership upgrades, in {} operations of {} threads)\n\n{}",
            measured.per_operation(),
            measured.cores,
            measured.machine,
            self.max_per_operation,
            measured.transfers_per_operation(),
            measured.upgrades_per_operation(),
            measured.operations,
            measured.threads,
            measured.report,
        )
    }
}

impl std::error::Error for Exceeded {}

/// Why nothing was measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum MeasureError {
    /// There is no simulator here.
    Unavailable(SimulationError),
    /// Only the thread on which the harness runs a test knows which test that is.
    NotInATest,
    /// The machine that was asked for does not exist.
    Machine(String),
    /// This program cannot be found, so it cannot be started again.
    Program(io::Error),
    /// The simulation failed.
    Simulation(SimulationError),
    /// The program, started again, did not come to this measurement.
    NotReached {
        /// The name of this thread.
        test: String,
    },
    /// The workload, or the test on its way to it, failed under the simulator.
    Failed {
        /// How the program ended.
        status: ExitStatus,
        /// The end of what it wrote to stderr.
        output: String,
    },
    /// The simulation took too long.
    TimedOut {
        /// The end of what the program wrote to stderr.
        output: String,
    },
    /// No region was marked, or none with operations: figures of nothing are not good figures.
    NothingMarked,
    /// Not all that the workload did was seen: it shares memory with other processes, or executed what cannot be simulated.
    Incomplete(String),
    /// Inside the simulator: an earlier measurement of this test, which had failed.
    Earlier,
    /// The whole test program is being simulated: the workload was run, and whoever simulates it has the figures.
    Inside,
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(error) | Self::Simulation(error) => error.fmt(f),
            Self::NotInATest => f.write_str(
                "a workload can be measured only on the thread of a #[test]: not in a doctest or `main`, nor on a thread \
                 that a test has started",
            ),
            Self::Machine(why) => f.write_str(why),
            Self::Program(error) => write!(f, "the test's own program cannot be found: {error}"),
            Self::NotReached { test } => write!(
                f,
                "`--exact {test}` did not come to this workload: the thread is not named after a test of this program, or \
                 the test does not measure the same workloads in the same order each time"
            ),
            Self::Failed { status, output } => {
                write!(f, "the workload failed under the simulator ({status}):\n{output}")
            }
            Self::TimedOut { output } => write!(
                f,
                "the simulation did not end in time; the workload may be waiting for ever:\n{output}"
            ),
            Self::NothingMarked => f.write_str(
                "the workload marks no operations: call percolog_roi::begin() and percolog_roi::end(operations) in its threads",
            ),
            Self::Incomplete(why) => write!(f, "not all that the workload did was seen: {why}"),
            Self::Earlier => f.write_str("an earlier measurement of this test failed"),
            Self::Inside => f.write_str("this is the simulated machine"),
        }
    }
}

impl std::error::Error for MeasureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unavailable(error) | Self::Simulation(error) => Some(error),
            Self::Program(error) => Some(error),
            _ => None,
        }
    }
}

/// How many lines of a failed workload's output are shown.
const LINES: usize = 20;

/// The end of what a program wrote.
pub(crate) fn last_lines(output: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(most)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(transfers: u64, upgrades: u64) -> Measured {
        Measured {
            machine: "a machine".to_owned(),
            cores: 48,
            threads: 48,
            operations: 1000,
            transfers,
            upgrades,
            invalidations: 0,
            cold: 7,
            memory: 0,
            report: "the worst line: 0x1000 hits".to_owned(),
        }
    }

    #[test]
    fn transfers_and_upgrades_count_together() {
        let found = measured(400, 200);
        assert_eq!(found.check(0.6), Ok(()));
        let exceeded = found.check(0.599).expect_err("0.6 is more");
        let text = exceeded.to_string();
        for part in [
            "0.600",
            "48 cores of a machine",
            "0.599",
            "0.400",
            "0.200",
            "0x1000 hits",
        ] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
        assert_eq!(measured(0, 0).check(0.0), Ok(()));
    }

    #[test]
    fn no_bound_at_all_is_not_kept() {
        assert!(measured(0, 0).check(f64::NAN).is_err());
        assert!(measured(0, 0).check(-1.0).is_err());
    }

    #[test]
    fn the_name_of_this_test_is_found_with_its_module() {
        let name = test_name().expect("the harness names its threads");
        assert_eq!(
            name,
            "assert::tests::the_name_of_this_test_is_found_with_its_module"
        );
        let elsewhere = std::thread::spawn(test_name).join().expect("no panic");
        assert_eq!(elsewhere, None);
    }

    #[test]
    fn a_thread_without_a_name_is_no_test() {
        let result = std::thread::spawn(|| Assertion::on(2).measure(|| ()))
            .join()
            .expect("no panic");
        assert!(
            matches!(result, Err(MeasureError::NotInATest)),
            "{result:?}"
        );
    }

    #[test]
    fn only_the_end_of_the_output_is_shown() {
        let output: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let shown = last_lines(output.as_bytes(), LINES);
        assert!(
            shown.starts_with("line 80\n") && shown.ends_with("line 99"),
            "{shown}"
        );
        assert_eq!(last_lines(b"", LINES), "");
    }
}
