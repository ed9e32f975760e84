//! Every state against the model.

use super::load::Load;
use super::meeting::Waiting;
use super::model::Model;
use super::run::{Isolated, Script, Stage, objects};
use super::schedule::Schedule;
use super::{Progress, ReplayError, check_threads, difference, not_made};
use crate::subsystem::{Implementation, SharedObject, Visitor, visit};
use crate::trace::plan::{Plan, Update};
use std::sync::{Mutex, PoisonError};
use std::{fmt, mem};

/// States are compared each time so many events have happened.
const EVENTS_BETWEEN_COMPARISONS: usize = 1000;

/// No check compares or looks at more entries, all states and reads together.
pub const MAX_COMPARED: u64 = 1 << 28;

/// What a check did; that there is one means that every comparison agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// On how many threads.
    pub threads: usize,
    /// How many processes were shared out.
    pub processes: usize,
    /// How many objects there are.
    pub objects: usize,
    /// How many events happened.
    pub events: usize,
    /// How many entries came or went.
    pub updates: u64,
    /// How many times an object was read.
    pub reads: u64,
    /// How many times states were compared.
    pub comparisons: u64,
    /// How many entries were compared.
    pub entries_compared: u64,
}

/// Replays `load` once and compares with a plain sequential model, after each 1000 events and at each read: what the
/// read saw, and the state of every object to which anything has happened since.
///
/// # Errors
/// When nobody has made these objects that way, the number of threads is absurd, a state differs from the model's,
/// there is more to compare than [`MAX_COMPARED`], or the implementation panics.
pub fn check(
    load: &Load,
    implementation: Implementation,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<CheckReport, ReplayError> {
    struct Check<'a> {
        load: &'a Load,
        threads: usize,
        progress: &'a (dyn Fn(Progress) + Sync),
    }
    impl Visitor for Check<'_> {
        type Output = Result<CheckReport, ReplayError>;
        fn visit<O: SharedObject>(self) -> Self::Output {
            check_object::<O>(self.load, self.threads, self.progress)
        }
    }
    let visitor = Check {
        load,
        threads,
        progress,
    };
    visit(load.subsystem(), implementation, visitor)
        .unwrap_or_else(|| Err(not_made(load.subsystem(), implementation)))
}

/// [`check`], for an implementation of your own.
///
/// # Errors
/// As [`check`].
pub fn check_object<O: SharedObject>(
    load: &Load,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<CheckReport, ReplayError> {
    check_threads(threads)?;
    let plan = &load.plan;
    let schedule = Schedule::new(plan, threads);
    let objects = objects::<O>(plan);
    let stage = Stage::new(plan, &schedule, &objects);
    let pauses = pauses(plan);
    // What the reads of the event that happened alone before a pause saw.
    let seen: Mutex<Vec<O::View>> = Mutex::default();
    let judge = Mutex::new(Judge::new(load));

    let body = |number: usize, mut script: Script<'_, O>| {
        for &pause in &pauses {
            script.perform(pause, |view| {
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(view);
            });
            if !stage.meeting.attend(Waiting::Asleep) {
                return;
            }
            if number == 0 {
                let seen = mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
                let mut judge = judge.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = judge.compare(pause, seen, stage.objects) {
                    judge.verdict = Err(error);
                    stage.call_off();
                    return;
                }
                progress(Progress {
                    done: pause as u64,
                    total: plan.steps().len() as u64,
                });
            }
            if !stage.meeting.attend(Waiting::Asleep) {
                return;
            }
        }
    };
    stage.run(body)?;

    let judge = judge.into_inner().unwrap_or_else(PoisonError::into_inner);
    judge.verdict?;
    let (updates, reads) = plan.changes_and_reads(0);
    Ok(CheckReport {
        threads,
        processes: plan.processes(),
        objects: plan.objects(),
        events: plan.steps().len(),
        updates,
        reads,
        comparisons: judge.comparisons,
        entries_compared: judge.entries_compared,
    })
}

/// After how many events everybody stops: each thousand, around each event with reads, at the end.
fn pauses(plan: &Plan) -> Vec<usize> {
    let steps = plan.steps();
    (1..=steps.len())
        .filter(|&done| {
            let alone = |event: usize| steps.get(event).is_some_and(|step| step.reads);
            done.is_multiple_of(EVENTS_BETWEEN_COMPARISONS)
                || alone(done)
                || alone(done - 1)
                || done == steps.len()
        })
        .collect()
}

struct Judge<'l> {
    load: &'l Load,
    model: Model,
    /// Objects to which something has happened since their last comparison, and for each object whether it is there.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
    done: usize,
    comparisons: u64,
    entries_compared: u64,
    /// How many entries were looked at for that.
    work: u64,
    verdict: Result<(), ReplayError>,
}

impl<'l> Judge<'l> {
    fn new(load: &'l Load) -> Self {
        Judge {
            load,
            model: Model::new(load.subsystem(), load.objects()),
            changed: Vec::new(),
            is_changed: vec![false; load.objects()],
            done: 0,
            comparisons: 0,
            entries_compared: 0,
            work: 0,
            verdict: Ok(()),
        }
    }

    /// Lets the model catch up to `pause` and compares. Nothing else runs meanwhile.
    fn compare<O: SharedObject>(
        &mut self,
        pause: usize,
        seen: Vec<O::View>,
        objects: &[Isolated<O>],
    ) -> Result<(), ReplayError> {
        let plan = &self.load.plan;
        let mut seen = seen.into_iter();
        let mut read = false;
        for step in self.done..pause {
            for update in &plan.updates()[plan.updates_of(step)] {
                let object = update.object();
                if !mem::replace(&mut self.is_changed[object as usize], true) {
                    self.changed.push(object);
                }
                if matches!(update, Update::Read { .. }) {
                    self.work += self.model.held(object as usize);
                }
                if self.work > MAX_COMPARED {
                    return Err(ReplayError::TooMuchToCompare);
                }
                if let Some(expected) = self.model.apply(update) {
                    // A pause stands on either side of the event, so what was seen is this read's.
                    read = true;
                    self.entries_compared += expected.len() as u64;
                    let expected = O::expected(&expected);
                    self.agree(pause, object, "a read saw", seen.next(), expected)?;
                }
            }
        }
        self.done = pause;
        if !read && !pause.is_multiple_of(EVENTS_BETWEEN_COMPARISONS) && pause != plan.steps().len()
        {
            // The pause before a read.
            return Ok(());
        }
        for object in mem::take(&mut self.changed) {
            self.is_changed[object as usize] = false;
            self.work += self.model.held(object as usize);
            if self.work > MAX_COMPARED {
                return Err(ReplayError::TooMuchToCompare);
            }
            let expected = self.model.entries(object as usize);
            self.entries_compared += expected.len() as u64;
            let expected = O::expected(&expected);
            let view = objects[object as usize].0.view();
            self.agree(pause, object, "there is", Some(view), expected)?;
        }
        self.comparisons += 1;
        Ok(())
    }

    fn agree<V: PartialEq + fmt::Debug>(
        &self,
        event: usize,
        object: u32,
        what: &str,
        found: Option<V>,
        expected: V,
    ) -> Result<(), ReplayError> {
        let expected = Some(expected);
        if found == expected {
            return Ok(());
        }
        Err(ReplayError::Differs {
            event,
            object: self.load.name(object as usize),
            difference: difference(what, &found, &expected),
        })
    }
}
