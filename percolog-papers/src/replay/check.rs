//! Every state against the model.

use super::model::Model;
use super::plan::{Plan, Update};
use super::run::{Isolated, Script, Stage, prepare};
use super::schedule::Schedule;
use super::{Progress, ReplayError, Structure, check_threads};
use crate::rmap::{AbsorbingMap, Locked, LoggedMap, Mapping, ReverseMap};
use crate::trace::Trace;
use std::sync::{Mutex, PoisonError};

/// All states are compared each time so many events have happened.
const EVENTS_BETWEEN_COMPARISONS: usize = 1000;

/// What a check did; that there is one means that every comparison agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// On how many threads.
    pub threads: usize,
    /// How many processes were shared out.
    pub processes: usize,
    /// How many files have a reverse map.
    pub files: usize,
    /// How many events happened.
    pub events: usize,
    /// How many mappings were added or removed.
    pub updates: u64,
    /// How many truncates read a reverse map.
    pub reads: u64,
    /// How many times states were compared.
    pub comparisons: u64,
    /// How many mappings were compared.
    pub mappings_compared: u64,
}

/// Replays `trace` once and compares with a plain sequential model: the state of every file after each
/// 1000 events; at each truncate, what it saw and the state of every file that has changed since.
///
/// # Errors
/// When the number of threads is absurd, a state differs from the model's, or the reverse map panics.
pub fn check(
    trace: &Trace,
    structure: Structure,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<CheckReport, ReplayError> {
    match structure {
        Structure::Mutex => check_map::<Locked>(trace, threads, progress),
        Structure::Logged => check_map::<LoggedMap>(trace, threads, progress),
        Structure::LoggedAbsorbing => check_map::<AbsorbingMap>(trace, threads, progress),
    }
}

/// [`check`], for a reverse map of your own.
///
/// # Errors
/// As [`check`].
pub fn check_map<M: ReverseMap>(
    trace: &Trace,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<CheckReport, ReplayError> {
    check_threads(threads)?;
    let plan = Plan::of(trace);
    let schedule = Schedule::new(&plan, threads);
    let maps: Vec<Isolated<M>> = (0..plan.files()).map(|_| Isolated::default()).collect();
    let stage = Stage::new(&schedule, &maps);
    let pauses = pauses(&plan);
    // What the truncate that happened alone before a pause saw.
    let seen: Mutex<Vec<Mapping>> = Mutex::default();
    let judge = Mutex::new(Judge::new(trace, &plan));

    let body = |number: usize, mut script: Script<'_, M>| {
        for &pause in &pauses {
            script.perform(pause, |found| {
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = found;
            });
            if !stage.meeting.attend() {
                return;
            }
            if number == 0 {
                let found =
                    std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
                let mut judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = judge.compare(pause, &found, stage.maps) {
                    judge.verdict = Err(error);
                    stage.call_off();
                    return;
                }
                progress(Progress {
                    done: pause as u64,
                    total: plan.steps().len() as u64,
                });
            }
            if !stage.meeting.attend() {
                return;
            }
        }
    };
    stage.run(prepare(&plan, &schedule), body)?;

    let judge = judge.into_inner().unwrap_or_else(PoisonError::into_inner);
    judge.verdict?;
    let (updates, reads) = plan.updates_and_reads();
    Ok(CheckReport {
        threads,
        processes: plan.processes(),
        files: plan.files(),
        events: plan.steps().len(),
        updates,
        reads,
        comparisons: judge.comparisons,
        mappings_compared: judge.mappings_compared,
    })
}

/// After how many events everybody stops: each thousand, around each truncate, at the end.
fn pauses(plan: &Plan) -> Vec<usize> {
    let steps = plan.steps();
    (1..=steps.len())
        .filter(|&done| {
            let alone = |event: usize| steps.get(event).is_some_and(|step| step.truncates);
            done.is_multiple_of(EVENTS_BETWEEN_COMPARISONS)
                || alone(done)
                || alone(done - 1)
                || done == steps.len()
        })
        .collect()
}

struct Judge<'p> {
    trace: &'p Trace,
    plan: &'p Plan,
    model: Model,
    /// For each file, whether anything has happened to it since its last comparison.
    changed: Vec<bool>,
    done: usize,
    comparisons: u64,
    mappings_compared: u64,
    verdict: Result<(), ReplayError>,
}

impl<'p> Judge<'p> {
    fn new(trace: &'p Trace, plan: &'p Plan) -> Self {
        Judge {
            trace,
            plan,
            model: Model::new(plan.files()),
            changed: vec![false; plan.files()],
            done: 0,
            comparisons: 0,
            mappings_compared: 0,
            verdict: Ok(()),
        }
    }

    /// Lets the model catch up to `pause` and compares. Nothing else runs meanwhile.
    fn compare<M: ReverseMap>(
        &mut self,
        pause: usize,
        found: &[Mapping],
        maps: &[Isolated<M>],
    ) -> Result<(), ReplayError> {
        let mut truncated = false;
        for step in self.done..pause {
            for update in &self.plan.updates()[self.plan.updates_of(step)] {
                self.changed[update.file()] = true;
                let expected = self.model.apply(update);
                if let Update::Truncate { .. } = update {
                    // A pause stands on either side, so `found` is this one's.
                    truncated = true;
                    self.agree(pause, update.file(), "the truncate saw", found, &expected)?;
                }
            }
        }
        self.done = pause;
        let all =
            pause.is_multiple_of(EVENTS_BETWEEN_COMPARISONS) || pause == self.plan.steps().len();
        if !all && !truncated {
            // The pause before a truncate.
            return Ok(());
        }
        for (file, map) in maps.iter().enumerate() {
            if std::mem::take(&mut self.changed[file]) || all {
                let expected = self.model.mappings(file);
                self.agree(pause, file, "there are", &map.0.mappings(), &expected)?;
            }
        }
        self.comparisons += 1;
        Ok(())
    }

    fn agree(
        &mut self,
        event: usize,
        file: usize,
        what: &str,
        found: &[Mapping],
        expected: &[Mapping],
    ) -> Result<(), ReplayError> {
        self.mappings_compared += expected.len() as u64;
        if found == expected {
            return Ok(());
        }
        let at = found
            .iter()
            .zip(expected)
            .take_while(|(found, expected)| found == expected)
            .count();
        Err(ReplayError::Differs {
            event,
            file: self.trace.file_name(file as u32),
            difference: format!(
                "{what} {} mappings, not {}; number {at} is {:?}, not {:?}",
                found.len(),
                expected.len(),
                found.get(at),
                expected.get(at)
            ),
        })
    }
}
