//! How fast it goes.

use super::plan::Plan;
use super::run::{Isolated, Script, Stage, prepare};
use super::schedule::Schedule;
use super::{Progress, ReplayError, Structure, check_threads};
use crate::rmap::{AbsorbingMap, Locked, LoggedMap, ReverseMap};
use crate::trace::Trace;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    /// How many mappings were added or removed in each pass.
    pub updates: u64,
    /// How many truncates read a reverse map in each pass.
    pub reads: u64,
    /// How long the passes took together, each with a last look at every file.
    pub elapsed: Duration,
    /// How long each pass took, the shortest first.
    pub pass_times: Vec<Duration>,
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

/// Replays `trace` again and again for at least `budget` and tells how long it took. At least one pass is
/// measured, after one that is not.
///
/// A pass begins when every thread is ready and ends when the reverse map of every file has been brought
/// together, so deferred work is paid for inside. Between passes, off the clock, the calls of the next one
/// are prepared, and it is checked that nothing is left mapped.
///
/// # Errors
/// When the number of threads is absurd, a mapping is left over, or the reverse map panics.
pub fn time(
    trace: &Trace,
    structure: Structure,
    threads: usize,
    budget: Duration,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<TimeReport, ReplayError> {
    match structure {
        Structure::Mutex => time_map::<Locked>(trace, threads, budget, progress),
        Structure::Logged => time_map::<LoggedMap>(trace, threads, budget, progress),
        Structure::LoggedAbsorbing => time_map::<AbsorbingMap>(trace, threads, budget, progress),
    }
}

/// [`time`], for a reverse map of your own.
///
/// # Errors
/// As [`time`].
pub fn time_map<M: ReverseMap>(
    trace: &Trace,
    threads: usize,
    budget: Duration,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<TimeReport, ReplayError> {
    check_threads(threads)?;
    let plan = Plan::of(trace);
    let schedule = Schedule::new(&plan, threads);
    let maps: Vec<Isolated<M>> = (0..plan.files()).map(|_| Isolated::default()).collect();
    let total = u64::try_from(budget.as_millis()).unwrap_or(u64::MAX);

    // The first pass makes the memory that later ones use again.
    pass(trace, &plan, &schedule, &maps)?;
    let mut elapsed = Duration::ZERO;
    let mut pass_times = Vec::new();
    while pass_times.is_empty() || elapsed < budget {
        let taken = pass(trace, &plan, &schedule, &maps)?;
        elapsed += taken;
        pass_times.push(taken);
        let done = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        progress(Progress {
            done: done.min(total),
            total,
        });
    }
    pass_times.sort_unstable();
    let (updates, reads) = plan.updates_and_reads();
    Ok(TimeReport {
        threads,
        passes: pass_times.len() as u64,
        events: plan.steps().len(),
        updates,
        reads,
        elapsed,
        pass_times,
    })
}

/// One pass through the trace.
fn pass<M: ReverseMap>(
    trace: &Trace,
    plan: &Plan,
    schedule: &Schedule,
    maps: &[Isolated<M>],
) -> Result<Duration, ReplayError> {
    let stage = Stage::new(schedule, maps);
    // When each thread began and ended, by its own clock: nobody else needs to be awake to tell.
    let spans: Mutex<Vec<(Instant, Instant)>> = Mutex::default();
    let body = |_: usize, mut script: Script<'_, M>| {
        if stage.meeting.attend() {
            let begun = Instant::now();
            script.perform(usize::MAX, |found| {
                // What a truncate finds depends on the order of the threads; that it looks is what counts.
                std::hint::black_box(found);
            });
            let span = (begun, Instant::now());
            spans
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(span);
        }
    };
    stage.run(prepare(plan, schedule), body)?;
    let spans = spans.into_inner().unwrap_or_else(PoisonError::into_inner);
    let begun = spans.iter().map(|span| span.0).min();
    let ended = spans.iter().map(|span| span.1).max();
    let worked = match (begun, ended) {
        (Some(begun), Some(ended)) => ended - begun,
        // There is at least one thread, and each that does not panic leaves its span.
        _ => Duration::ZERO,
    };
    let last_look = Instant::now();
    let left: Vec<_> = maps.iter().map(|map| map.0.mappings()).collect();
    let elapsed = worked + last_look.elapsed();
    match left.iter().position(|mappings| !mappings.is_empty()) {
        None => Ok(elapsed),
        Some(file) => Err(ReplayError::Differs {
            event: plan.steps().len(),
            file: trace.file_name(file as u32),
            difference: format!("{} mappings are left at the end", left[file].len()),
        }),
    }
}
