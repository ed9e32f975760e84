//! What the threads of a replay do.

use super::gate::Gate;
use super::meeting::{Meeting, Waiting};
use super::schedule::{Schedule, Share};
use super::{ReplayError, check_threads, work};
use crate::subsystem::SharedObject;
use crate::trace::plan::{Plan, Update};
use std::any::Any;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::vec;

/// An object alone on its cache lines (two, as processors fetch lines in pairs), so that neighbours cost each other
/// nothing whatever the implementation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Isolated<O>(pub(super) O);

/// Objects in which nothing has happened.
pub(super) fn objects<O: SharedObject>(plan: &Plan) -> Vec<Isolated<O>> {
    (0..plan.objects()).map(|_| Isolated::default()).collect()
}

/// A call that is ready to be made.
enum Call<O: SharedObject> {
    Enter(u32, O::Arrival),
    Leave(u32, O::Departure),
    Read(u32, u64),
}

/// What one thread has made for another to use: departures, with which of its leaves each one is.
type Inbox<O> = Mutex<Vec<(u32, <O as SharedObject>::Departure)>>;

/// What the threads of one pass share.
pub(super) struct Stage<'s, O: SharedObject> {
    plan: &'s Plan,
    schedule: &'s Schedule,
    pub(super) objects: &'s [Isolated<O>],
    inboxes: Vec<Inbox<O>>,
    gates: Vec<Gate>,
    threads: Vec<OnceLock<Thread>>,
    pub(super) meeting: Meeting,
    /// The first thread that panicked.
    failed: OnceLock<usize>,
}

impl<'s, O: SharedObject> Stage<'s, O> {
    pub(super) fn new(plan: &'s Plan, schedule: &'s Schedule, objects: &'s [Isolated<O>]) -> Self {
        let threads = schedule.shares.len();
        Stage {
            plan,
            schedule,
            objects,
            inboxes: (0..threads).map(|_| Mutex::default()).collect(),
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

    /// Runs `body` on every thread of the schedule, with the thread's number and what it has to do. Everybody has
    /// prepared that when the first one begins.
    ///
    /// A thread that panics calls the pass off and is reported.
    pub(super) fn run(
        &self,
        body: impl Fn(usize, Script<'_, O>) + Sync,
    ) -> Result<(), ReplayError> {
        let threads = self.schedule.shares.len();
        check_threads(threads)?;
        thread::scope(|scope| {
            let mut handles = Vec::with_capacity(threads);
            let mut failure = None;
            for number in 0..threads {
                let body = &body;
                let spawned = thread::Builder::new().spawn_scoped(scope, move || {
                    let alarm = Alarm {
                        stage: self,
                        thread: number,
                    };
                    let _ = self.threads[number].set(thread::current());
                    percolog_roi::core(number);
                    if let Some(script) = self.prepare(number) {
                        body(number, script);
                    }
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

    /// Makes the calls of a thread ready: on that thread, so that their memory is where it will be used. Only
    /// what an entry needs to leave comes from the thread that makes it enter. `None` when the pass is called off.
    fn prepare(&self, thread: usize) -> Option<Script<'_, O>> {
        let share = &self.schedule.shares[thread];
        let updates = || {
            share
                .turns
                .iter()
                .flat_map(|turn| &self.plan.updates()[self.plan.updates_of(turn.event)])
        };

        let mut arrivals = Vec::new();
        let mut departures: Vec<Option<O::Departure>> = Vec::new();
        departures.resize_with(share.leaves, || None);
        let mut stay = Vec::new();
        let mut others: Vec<Vec<(u32, O::Departure)>> = Vec::new();
        others.resize_with(self.inboxes.len(), Vec::new);
        for update in updates() {
            if let Update::Enter { entry, .. } = *update {
                let (arrival, departure) = O::life(entry);
                arrivals.push(arrival);
                match self.schedule.leavers[entry.identity as usize] {
                    None => stay.push(departure),
                    Some(leaver) if leaver.thread as usize == thread => {
                        departures[leaver.number as usize] = Some(departure);
                    }
                    Some(leaver) => others[leaver.thread as usize].push((leaver.number, departure)),
                }
            }
        }
        for (inbox, mut departures) in self.inboxes.iter().zip(others) {
            if !departures.is_empty() {
                lock(inbox).append(&mut departures);
            }
        }
        if !self.meeting.attend(Waiting::Asleep) {
            return None;
        }

        for (number, departure) in std::mem::take(&mut *lock(&self.inboxes[thread])) {
            departures[number as usize] = Some(departure);
        }
        let mut arrivals = arrivals.into_iter();
        let mut departures = departures.into_iter();
        let mut calls = Vec::with_capacity(share.turns.iter().map(|turn| turn.calls).sum());
        for update in updates() {
            calls.push(match *update {
                Update::Enter { object, .. } => match arrivals.next() {
                    Some(arrival) => Call::Enter(object, arrival),
                    None => unreachable!("each arrival was made above"),
                },
                Update::Leave { object, .. } => match departures.next().flatten() {
                    Some(departure) => Call::Leave(object, departure),
                    None => unreachable!("a plan lets go only what has come, and once"),
                },
                Update::Read { object, argument } => Call::Read(object, argument),
            });
        }
        Some(Script {
            stage: self,
            share,
            next: 0,
            left: share.events,
            work: 0,
            calls: calls.into_iter(),
            _stay: stay,
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What is in there stays sound when somebody panics between two calls of a `Vec`.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls the pass off when its thread unwinds.
struct Alarm<'a, 's, O: SharedObject> {
    stage: &'a Stage<'s, O>,
    thread: usize,
}

impl<O: SharedObject> Drop for Alarm<'_, '_, O> {
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
pub(super) struct Script<'a, O: SharedObject> {
    stage: &'a Stage<'a, O>,
    pub(super) share: &'a Share,
    next: usize,
    /// Cycles of other work before each event, from here on.
    pub(super) work: u64,
    /// How many of its events have not happened yet.
    pub(super) left: u64,
    calls: vec::IntoIter<Call<O>>,
    /// What would make entries leave that stay; kept so that it is dropped when nobody counts.
    _stay: Vec<O::Departure>,
}

impl<O: SharedObject> Script<'_, O> {
    /// Makes the calls of every event before `end`, and does the other work; `seen` hears what reads saw.
    pub(super) fn perform(&mut self, end: usize, mut seen: impl FnMut(O::View)) {
        let objects = self.stage.objects;
        let object = |number: u32| &objects[number as usize].0;
        while let Some(turn) = self.share.turns.get(self.next)
            && turn.event < end
        {
            self.next += 1;
            self.work(turn.events);
            if let Some(gate) = turn.waits_for {
                self.stage.gates[gate].pass();
                if self.stage.failed.get().is_some() {
                    // The gate may be open only because the pass is called off.
                    return;
                }
            }
            for call in self.calls.by_ref().take(turn.calls) {
                match call {
                    Call::Enter(number, arrival) => object(number).enter(arrival),
                    Call::Leave(number, departure) => object(number).leave(departure),
                    Call::Read(number, argument) => seen(object(number).read(argument)),
                }
            }
            for gate in turn.opens.clone() {
                self.stage.open(gate);
            }
        }
        if self.next == self.share.turns.len() {
            self.work(self.left);
        }
    }

    /// The other work of so many events.
    fn work(&mut self, events: u64) {
        self.left -= events;
        if self.work > 0 {
            work::pass(self.work.saturating_mul(events));
        }
    }
}
