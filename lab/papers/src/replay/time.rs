//! How fast it goes.

use super::load::Load;
use super::pass::Course;
use super::{Progress, ReplayError, check_threads, not_made};
use crate::subsystem::{Implementation, SharedObject, Visitor, visit};
use percolog::oplog::LogStats;
use std::time::Duration;

/// How a load is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// On how many threads.
    pub threads: usize,
    /// How long at least, in passes that are counted.
    pub budget: Duration,
    /// Cycles of other work before each event of the trace; 0: none. (Cycles of the time-stamp counter; where there is
    /// none, nanoseconds.)
    pub work: u64,
}

/// What the logs of all objects did in one pass, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Operations that were carried out.
    pub executed: u64,
    /// Operations that never had to be carried out, because others undid them.
    pub absorbed: u64,
    /// How often logs were brought together.
    pub merges: u64,
    /// How often of these an updater did it, because its log was full.
    pub updater_merges: u64,
}

impl Statistics {
    /// What the logs have done so far; `None` where there are none.
    fn of<O: SharedObject>(course: &Course<'_, O>) -> Option<Statistics> {
        course
            .objects
            .iter()
            .map(|object| object.0.statistics())
            .try_fold(Statistics::default(), |sum, stats| Some(sum.with(&stats?)))
    }

    fn with(self, stats: &LogStats) -> Statistics {
        Statistics {
            executed: self.executed.wrapping_add(stats.executed),
            absorbed: self.absorbed.wrapping_add(stats.absorbed),
            merges: self.merges.wrapping_add(stats.merges),
            updater_merges: self.updater_merges.wrapping_add(stats.updater_merges),
        }
    }

    /// What was added since `earlier`.
    fn since(self, earlier: Statistics) -> Statistics {
        Statistics {
            executed: self.executed.wrapping_sub(earlier.executed),
            absorbed: self.absorbed.wrapping_sub(earlier.absorbed),
            merges: self.merges.wrapping_sub(earlier.merges),
            updater_merges: self.updater_merges.wrapping_sub(earlier.updater_merges),
        }
    }
}

/// What a timed replay did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TimeReport {
    /// On how many threads.
    pub threads: usize,
    /// How many times the trace was replayed while the clock ran.
    pub passes: u64,
    /// How many events happened in each pass.
    pub events: usize,
    /// How many entries came or went in each pass.
    pub updates: u64,
    /// How many times an object was read in each pass.
    pub reads: u64,
    /// How long the passes took together, each with a last look at every object.
    pub elapsed: Duration,
    /// How long each pass took, the shortest first.
    pub pass_times: Vec<Duration>,
    /// What the logs did in the last pass, if there are any.
    pub statistics: Option<Statistics>,
}

impl TimeReport {
    /// Events a second, over all passes.
    #[must_use]
    pub fn events_per_second(&self) -> f64 {
        self.events as f64 * self.passes as f64 / self.elapsed.as_secs_f64()
    }

    /// Events a second in the pass in the middle: what a disturbance now and then does not move.
    #[must_use]
    pub fn median_events_per_second(&self) -> f64 {
        match self.pass_times.get(self.pass_times.len() / 2) {
            Some(median) => self.events as f64 / median.as_secs_f64(),
            None => 0.0,
        }
    }
}

/// Replays `load` again and again for at least the budget and tells how long it took. At least one pass is
/// measured, after one that is not.
///
/// A pass begins when every thread is ready and ends when every object has been brought together, so deferred work is
/// paid for inside. Between passes, off the clock, the calls of the next one are prepared, and it is checked that in
/// each object is left what should be.
///
/// # Errors
/// When nobody has made these objects that way, the number of threads is absurd, a state at the end is wrong, or the
/// implementation panics.
pub fn time(
    load: &Load,
    implementation: Implementation,
    settings: &Settings,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<TimeReport, ReplayError> {
    struct Time<'a> {
        load: &'a Load,
        settings: &'a Settings,
        progress: &'a (dyn Fn(Progress) + Sync),
    }
    impl Visitor for Time<'_> {
        type Output = Result<TimeReport, ReplayError>;
        fn visit<O: SharedObject>(self) -> Self::Output {
            time_object::<O>(self.load, self.settings, self.progress)
        }
    }
    let visitor = Time {
        load,
        settings,
        progress,
    };
    visit(load.subsystem(), implementation, visitor)
        .unwrap_or_else(|| Err(not_made(load.subsystem(), implementation)))
}

/// [`time`], for an implementation of your own.
///
/// # Errors
/// As [`time`].
pub fn time_object<O: SharedObject>(
    load: &Load,
    settings: &Settings,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<TimeReport, ReplayError> {
    check_threads(settings.threads)?;
    let course = Course::<O>::new(load, settings.threads, settings.work);
    let total = u64::try_from(settings.budget.as_millis()).unwrap_or(u64::MAX);

    // The first pass makes the memory that later ones use again.
    course.pass()?;
    let mut elapsed = Duration::ZERO;
    let mut pass_times = Vec::new();
    let mut statistics = None;
    while pass_times.is_empty() || elapsed < settings.budget {
        let before = Statistics::of(&course);
        let taken = course.pass()?.elapsed;
        statistics = Statistics::of(&course)
            .zip(before)
            .map(|(after, before)| after.since(before));
        elapsed += taken;
        pass_times.push(taken);
        let done = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        progress(Progress {
            done: done.min(total),
            total,
        });
    }
    pass_times.sort_unstable();
    Ok(TimeReport {
        threads: settings.threads,
        passes: pass_times.len() as u64,
        events: load.events(),
        updates: load.updates(),
        reads: load.reads(),
        elapsed,
        pass_times,
        statistics,
    })
}
