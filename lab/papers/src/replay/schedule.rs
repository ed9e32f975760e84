//! Which thread does what, in which order, and who waits for whom.

use crate::trace::plan::{Plan, Update};
use std::ops::Range;

/// What one thread does for one event.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) event: usize,
    /// The gate that must be open before: the process begins with this event.
    pub(super) waits_for: Option<usize>,
    /// The gates that it opens: processes of other threads that it starts.
    pub(super) opens: Range<usize>,
    /// How many of the thread's calls belong to it.
    pub(super) calls: usize,
    /// How many of the thread's events have happened with it since the turn before.
    pub(super) events: u64,
}

/// Who makes an entry leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaver {
    pub(super) thread: u32,
    /// Which of the thread's leaves it is, from 0.
    pub(super) number: u32,
}

/// What one thread has to do.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Its turns in the order of the trace.
    pub(super) turns: Vec<Turn>,
    /// How many events are its own, with and without a turn.
    pub(super) events: u64,
    /// How many of its calls are leaves.
    pub(super) leaves: usize,
    /// The objects that it is the last to use, as far as the trace tells.
    pub(super) last_used: Vec<u32>,
}

/// A plan shared out among threads.
#[derive(Debug)]
pub(super) struct Schedule {
    /// For each thread, its share.
    pub(super) shares: Vec<Share>,
    /// For each event, the thread that it happens on.
    pub(super) thread_of: Vec<usize>,
    /// For each gate, the thread that waits at it.
    pub(super) waiters: Vec<usize>,
    /// For each entry, by identity, who makes it leave; `None` where it stays.
    pub(super) leavers: Vec<Option<Leaver>>,
}

impl Schedule {
    pub(super) fn new(plan: &Plan, threads: usize) -> Schedule {
        let thread_of_process = share_out(plan, threads);
        let gates = gates(plan, &thread_of_process);
        let mut gate_of = vec![None; plan.processes()];
        for (gate, &(_, process)) in gates.iter().enumerate() {
            gate_of[process as usize] = Some(gate);
        }

        let mut shares: Vec<Share> = (0..threads).map(|_| Share::default()).collect();
        // For each thread, how many of its events are behind its last turn.
        let mut behind = vec![0; threads];
        let mut thread_of = Vec::with_capacity(plan.steps().len());
        let mut next_gate = 0;
        for (event, step) in plan.steps().iter().enumerate() {
            let thread = thread_of_process[step.process as usize];
            thread_of.push(thread);
            shares[thread].events += 1;
            behind[thread] += 1;
            let first_gate = next_gate;
            while gates.get(next_gate).is_some_and(|gate| gate.0 == event) {
                next_gate += 1;
            }
            let turn = Turn {
                event,
                waits_for: gate_of[step.process as usize].take(),
                opens: first_gate..next_gate,
                calls: plan.updates_of(event).len(),
                events: behind[thread],
            };
            if turn.calls > 0 || turn.waits_for.is_some() || !turn.opens.is_empty() {
                shares[thread].turns.push(turn);
                behind[thread] = 0;
            }
        }
        let mut schedule = Schedule {
            shares,
            thread_of,
            waiters: gates
                .iter()
                .map(|&(_, process)| thread_of_process[process as usize])
                .collect(),
            leavers: vec![None; plan.entries()],
        };
        schedule.follow_objects(plan);
        schedule
    }

    /// Finds out who makes which entry leave, and who uses which object last.
    fn follow_objects(&mut self, plan: &Plan) {
        let mut last_users = vec![None; plan.objects()];
        for (event, &thread) in self.thread_of.iter().enumerate() {
            for update in &plan.updates()[plan.updates_of(event)] {
                last_users[update.object() as usize] = Some(thread);
                if let Update::Leave { entry, .. } = update {
                    let leaves = &mut self.shares[thread].leaves;
                    self.leavers[entry.identity as usize] = Some(Leaver {
                        thread: thread as u32,
                        number: *leaves as u32,
                    });
                    *leaves += 1;
                }
            }
        }
        for (object, thread) in last_users.into_iter().enumerate() {
            if let Some(thread) = thread {
                self.shares[thread].last_used.push(object as u32);
            }
        }
    }
}

/// The gates: the event that opens, and the process that waits; one for each process that another thread starts, in
/// order of the starting event. Several processes can name one event: a child that shares something with its
/// parent may leave it by `exec`.
fn gates(plan: &Plan, thread_of_process: &[usize]) -> Vec<(usize, u32)> {
    let mut gates: Vec<(usize, u32)> = (0..plan.processes() as u32)
        .filter_map(|process| {
            let parent = plan.parent(process)?;
            let elsewhere =
                thread_of_process[parent as usize] != thread_of_process[process as usize];
            elsewhere.then_some((plan.started_by(process)?, process))
        })
        .collect();
    gates.sort_unstable();
    gates
}

/// A parent's thread is still given a child when it has more to do than the least busy thread would have with that
/// child, by no more than this part of what each thread should have. Without any such slack nearly every child would
/// wait for another thread, and the waits would outweigh the updates; with too much of it one thread would do everything.
const SLACK: usize = 8;

/// For each process, its thread: its parent's, unless another one has markedly less to do. (A kernel, too, starts
/// a child near its parent and moves it for balance.)
///
/// What a thread has to do is counted with all that its processes will ever start, until those go elsewhere. So
/// processes that start many others part first, and stay with what they start.
fn share_out(plan: &Plan, threads: usize) -> Vec<usize> {
    let mut work = vec![0_usize; plan.processes()];
    for (event, step) in plan.steps().iter().enumerate() {
        // An event without updates costs something, too.
        work[step.process as usize] += 1 + plan.updates_of(event).len();
    }
    let slack = work.iter().sum::<usize>() / threads / SLACK;
    // With everything that a process starts, which all comes after it.
    for process in (1..work.len()).rev() {
        if let Some(parent) = plan.parent(process as u32) {
            work[parent as usize] += work[process];
        }
    }
    let mut load = vec![0_usize; threads];
    let mut thread_of: Vec<usize> = Vec::with_capacity(work.len());
    for (process, &work) in work.iter().enumerate() {
        let least = (0..threads).min_by_key(|&thread| load[thread]).unwrap_or(0);
        let thread = match plan.parent(process as u32) {
            None => {
                load[least] += work;
                least
            }
            Some(parent) => {
                let parents = thread_of[parent as usize];
                if load[parents] > load[least] + work + slack {
                    load[parents] -= work;
                    load[least] += work;
                    least
                } else {
                    parents
                }
            }
        };
        thread_of.push(thread);
    }
    thread_of
}
