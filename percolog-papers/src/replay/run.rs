//! What the threads of a replay do.

use super::gate::Gate;
use super::meeting::Meeting;
use super::plan::{Plan, Update};
use super::schedule::{Schedule, Turn};
use super::{ReplayError, check_threads};
use crate::rmap::{Mapping, ReverseMap};
use std::any::Any;
use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::vec;

/// One file's reverse map, alone on its cache lines (two, as processors fetch lines in pairs), so that
/// neighbours cost each other nothing whatever the implementation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Isolated<M>(pub(super) M);

/// A call that is ready to be made.
pub(super) enum Call<M: ReverseMap> {
    Add(u32, M::Addition),
    Remove(u32, M::Removal),
    Truncate(u32, u64),
}

/// The calls of each thread, in order: made before the clock runs, used up by one pass.
pub(super) fn prepare<M: ReverseMap>(plan: &Plan, schedule: &Schedule) -> Vec<Vec<Call<M>>> {
    let mut calls: Vec<Vec<Call<M>>> = schedule
        .turns
        .iter()
        .map(|turns| Vec::with_capacity(turns.iter().map(|turn| turn.calls).sum()))
        .collect();
    // By identity, which counts from 0.
    let mut removals = Vec::new();
    for (event, &thread) in schedule.thread_of.iter().enumerate() {
        for update in &plan.updates()[plan.updates_of(event)] {
            let call = match *update {
                Update::Add { file, mapping } => {
                    let (addition, removal) = M::identity(mapping);
                    debug_assert_eq!(removals.len(), mapping.identity as usize);
                    removals.push(Some(removal));
                    Call::Add(file, addition)
                }
                Update::Remove { file, mapping } => match removals
                    .get_mut(mapping.identity as usize)
                    .and_then(Option::take)
                {
                    Some(removal) => Call::Remove(file, removal),
                    None => unreachable!("a plan removes only what it has added, and once"),
                },
                Update::Truncate { file, length } => Call::Truncate(file, length),
            };
            calls[thread].push(call);
        }
    }
    calls
}

/// What the threads of one pass share.
pub(super) struct Stage<'s, M> {
    schedule: &'s Schedule,
    pub(super) maps: &'s [Isolated<M>],
    gates: Vec<Gate>,
    threads: Vec<OnceLock<Thread>>,
    pub(super) meeting: Meeting,
    /// The first thread that panicked.
    failed: OnceLock<usize>,
}

impl<'s, M: ReverseMap> Stage<'s, M> {
    pub(super) fn new(schedule: &'s Schedule, maps: &'s [Isolated<M>]) -> Self {
        let threads = schedule.turns.len();
        Stage {
            schedule,
            maps,
            gates: schedule.waiters.iter().map(|_| Gate::default()).collect(),
            threads: (0..threads).map(|_| OnceLock::new()).collect(),
            meeting: Meeting::new(threads),
            failed: OnceLock::new(),
        }
    }

    fn open(&self, gate: usize) {
        // Whoever waits has entered itself before.
        self.gates[gate].open(|| self.threads[self.schedule.waiters[gate]].get().cloned());
    }

    /// Ends the pass early: nobody waits any more.
    pub(super) fn call_off(&self) {
        self.meeting.call_off();
        for gate in 0..self.gates.len() {
            self.open(gate);
        }
    }

    /// Runs `body` on every thread of the schedule, with the thread's number and what it has to do.
    ///
    /// A thread that panics calls the pass off and is reported.
    pub(super) fn run(
        &self,
        calls: Vec<Vec<Call<M>>>,
        body: impl Fn(usize, Script<'_, M>) + Sync,
    ) -> Result<(), ReplayError> {
        let threads = self.schedule.turns.len();
        check_threads(threads)?;
        thread::scope(|scope| {
            let mut handles = Vec::with_capacity(threads);
            let mut failure = None;
            for (number, calls) in calls.into_iter().enumerate() {
                let body = &body;
                let spawned = thread::Builder::new().spawn_scoped(scope, move || {
                    let alarm = Alarm {
                        stage: self,
                        thread: number,
                    };
                    let _ = self.threads[number].set(thread::current());
                    let turns = &self.schedule.turns[number];
                    body(
                        number,
                        Script {
                            stage: self,
                            turns,
                            next: 0,
                            calls: calls.into_iter(),
                        },
                    );
                    std::mem::forget(alarm);
                });
                match spawned {
                    Ok(handle) => handles.push(handle),
                    Err(cause) => {
                        self.call_off();
                        failure = Some(ReplayError::Spawn {
                            threads,
                            cause: cause.to_string(),
                        });
                        break;
                    }
                }
            }
            // Joining all of them first: only then is it settled which was the first to panic.
            let ends: Vec<_> = handles.into_iter().map(|handle| handle.join()).collect();
            if let Some(&first) = self.failed.get()
                && let Some(Err(panic)) = ends.get(first)
            {
                failure.get_or_insert(ReplayError::Panicked(message(panic.as_ref())));
            }
            failure.map_or(Ok(()), Err)
        })
    }
}

/// Calls the pass off when its thread unwinds.
struct Alarm<'a, 's, M: ReverseMap> {
    stage: &'a Stage<'s, M>,
    thread: usize,
}

impl<M: ReverseMap> Drop for Alarm<'_, '_, M> {
    fn drop(&mut self) {
        // Only the first is told of: what others meet after it may be its doing.
        let _ = self.stage.failed.set(self.thread);
        self.stage.call_off();
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

/// What one thread has to do.
pub(super) struct Script<'a, M: ReverseMap> {
    stage: &'a Stage<'a, M>,
    turns: &'a [Turn],
    next: usize,
    calls: vec::IntoIter<Call<M>>,
}

impl<M: ReverseMap> Script<'_, M> {
    /// Makes the calls of every event before `end`; `seen` hears what truncates found.
    pub(super) fn perform(&mut self, end: usize, mut seen: impl FnMut(Vec<Mapping>)) {
        let maps = self.stage.maps;
        while let Some(turn) = self.turns.get(self.next)
            && turn.event < end
        {
            self.next += 1;
            if let Some(gate) = turn.waits_for {
                self.stage.gates[gate].pass();
                if self.stage.failed.get().is_some() {
                    // The gate may be open only because the pass is called off.
                    return;
                }
            }
            for call in self.calls.by_ref().take(turn.calls) {
                match call {
                    Call::Add(file, addition) => maps[file as usize].0.add(addition),
                    Call::Remove(file, removal) => maps[file as usize].0.remove(removal),
                    Call::Truncate(file, length) => seen(maps[file as usize].0.truncate(length)),
                }
            }
            for gate in turn.opens.clone() {
                self.stage.open(gate);
            }
        }
    }
}
