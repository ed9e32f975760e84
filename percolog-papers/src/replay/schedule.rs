//! Which thread does what, in which order, and who waits for whom.

use super::plan::Plan;
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
}

/// A plan shared out among threads.
#[derive(Debug)]
pub(super) struct Schedule {
    /// For each thread, its turns in the order of the trace.
    pub(super) turns: Vec<Vec<Turn>>,
    /// For each event, the thread that it happens on.
    pub(super) thread_of: Vec<usize>,
    /// For each gate, the thread that waits at it.
    pub(super) waiters: Vec<usize>,
}

impl Schedule {
    pub(super) fn new(plan: &Plan, threads: usize) -> Schedule {
        let thread_of_process = share_out(plan, threads);

        // One gate for each process that another thread starts, in order of the starting event. Several
        // processes can name one event: a child that shares its parent's space may leave it by `exec`.
        let mut first_seen = vec![false; plan.processes()];
        let mut gates: Vec<(usize, u32)> = Vec::new();
        for step in plan.steps() {
            let process = step.process;
            if std::mem::replace(&mut first_seen[process as usize], true) {
                continue;
            }
            if let Some(event) = plan.started_by(process) {
                let parent = plan.steps()[event].process as usize;
                if thread_of_process[parent] != thread_of_process[process as usize] {
                    gates.push((event, process));
                }
            }
        }
        gates.sort_unstable();
        let mut gate_of = vec![None; plan.processes()];
        for (gate, &(_, process)) in gates.iter().enumerate() {
            gate_of[process as usize] = Some(gate);
        }

        let mut turns: Vec<Vec<Turn>> = (0..threads).map(|_| Vec::new()).collect();
        let mut thread_of = Vec::with_capacity(plan.steps().len());
        let mut next_gate = 0;
        for (event, step) in plan.steps().iter().enumerate() {
            let thread = thread_of_process[step.process as usize];
            thread_of.push(thread);
            let first_gate = next_gate;
            while gates.get(next_gate).is_some_and(|gate| gate.0 == event) {
                next_gate += 1;
            }
            let turn = Turn {
                event,
                waits_for: gate_of[step.process as usize].take(),
                opens: first_gate..next_gate,
                calls: plan.updates_of(event).len(),
            };
            if turn.calls > 0 || turn.waits_for.is_some() || !turn.opens.is_empty() {
                turns[thread].push(turn);
            }
        }
        Schedule {
            turns,
            thread_of,
            waiters: gates
                .iter()
                .map(|&(_, process)| thread_of_process[process as usize])
                .collect(),
        }
    }
}

/// A parent's thread is still given a child when it has more to do than the least busy thread by no more than
/// this part of all work. Without any such slack nearly every child would wait for another thread, and the
/// waits would outweigh the updates; with too much of it one thread would do everything.
const SLACK: usize = 64;

/// For each process, its thread: its parent's, unless another one has markedly less to do when the process
/// begins. (A kernel, too, starts a child near its parent and moves it for balance.)
fn share_out(plan: &Plan, threads: usize) -> Vec<usize> {
    let mut work = vec![0_usize; plan.processes()];
    for (event, step) in plan.steps().iter().enumerate() {
        // An event without updates costs something, too.
        work[step.process as usize] += 1 + plan.updates_of(event).len();
    }
    let slack = work.iter().sum::<usize>() / SLACK;
    let mut load = vec![0_usize; threads];
    let mut thread_of: Vec<usize> = Vec::with_capacity(work.len());
    for (process, &work) in work.iter().enumerate() {
        let least = (0..threads).min_by_key(|&thread| load[thread]).unwrap_or(0);
        let parents = plan
            .started_by(process as u32)
            .map(|event| thread_of[plan.steps()[event].process as usize]);
        let thread = match parents {
            Some(thread) if load[thread] <= load[least] + slack => thread,
            _ => least,
        };
        load[thread] += work;
        thread_of.push(thread);
    }
    thread_of
}
