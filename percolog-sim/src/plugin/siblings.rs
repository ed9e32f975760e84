//! Hardware threads of one core: they share its caches, and slow each other down.
//!
//! What one of them writes moves no line, and so the directory tells nobody. Each has a table of rights of its own
//! ([`Tables`](crate::plugin::tables)) instead: that one of them takes a line from another is seen there, and whoever spins on it goes
//! on, and may no longer run ahead on it.
//!
//! While all threads of a core execute, each takes `smt_slowdown` times as long as alone; while some of them wait for a line, sleep, or
//! are not there, the others are slowed down in proportion. Translated code counts as if each were alone; [`Simulator::pace`] adds
//! the rest.

use crate::model::{Core, Costs, Rights, Ticks};
use crate::plugin::hot::HOT;
use crate::plugin::simulator::Simulator;
use crate::plugin::thread::State;

impl Simulator {
    /// The thread that has the turn executes something that translated code has not counted.
    pub(crate) fn work(&mut self, ticks: Ticks) {
        HOT.set_cycles(HOT.cycles() + ticks);
    }

    /// What the thread that has the turn has executed since this was done last, takes as long as its siblings let it.
    pub(crate) fn pace(&mut self) {
        if !self.schedule.has_siblings() {
            return;
        }
        let now = HOT.cycles();
        let executed = now.saturating_sub(self.paced);
        let slower = executed * self.extra(now) / Ticks::from(Costs::ALONE);
        HOT.set_cycles(now + slower);
        self.paced = now + slower;
    }

    /// The time that translated code counts when it is `limit`.
    pub(crate) fn unpaced(&self, limit: Ticks) -> Ticks {
        let now = HOT.cycles();
        if !self.schedule.has_siblings() || limit == Ticks::MAX || limit <= now {
            return limit;
        }
        let alone = Ticks::from(Costs::ALONE);
        let left =
            u128::from(limit - now) * u128::from(alone) / u128::from(alone + self.extra(now));
        now + left as Ticks
    }

    /// How much longer it takes now, in 1/256.
    fn extra(&self, now: Ticks) -> Ticks {
        let machine = &self.settings.machine;
        let Some(core) = self.core_of(self.current()) else {
            return 0;
        };
        let me = self.current();
        let others = self.schedule.threads_on(core);
        let execute = others.filter(|&thread| thread != me && self.executes(thread, now));
        let all = Ticks::from(machine.costs.smt_slowdown - Costs::ALONE);
        all * execute.count() as Ticks / (machine.threads_per_core - 1) as Ticks
    }

    /// Whether a thread that has a core does not just wait for a line.
    fn executes(&self, thread: usize, now: Ticks) -> bool {
        let state = &self.threads[thread];
        match state.state {
            State::Ready(key) => state.answer.is_none() || key <= now,
            State::Spinning => true,
            _ => false,
        }
    }

    /// When a line that another thread of the core has asked for will have come: both get it then.
    pub(crate) fn comes_to_sibling(&self, core: Core, line: u64) -> Option<Ticks> {
        if !self.schedule.has_siblings() {
            return None;
        }
        let me = self.current();
        let mut others = self.schedule.threads_on(core).filter(|&other| other != me);
        others.find_map(|other| {
            let other = &self.threads[other];
            match other.state {
                State::Ready(key) if other.answer.is_some() && other.pending == Some(line) => {
                    Some(key + 1)
                }
                _ => None,
            }
        })
    }

    /// Of what a core may do to a line, what one of its threads may do from now on that has done this: it asks before it writes what it has
    /// read, since others of the core may have read it, too.
    pub(crate) fn noted(&self, held: Rights, did: Rights) -> Rights {
        if self.schedule.has_siblings() {
            held.min(did)
        } else {
            held
        }
    }

    /// The thread that has the turn is about to use a line that its core has: what the others of the core have of it, and who waits there
    /// for a change.
    pub(crate) fn take_from_siblings(&mut self, line: u64, writes: bool, now: Ticks) {
        if !self.schedule.has_siblings() {
            return;
        }
        let me = self.current();
        let (Some(core), Some(processor)) = (self.core_of(me), self.threads[me].processor) else {
            return;
        };
        if self
            .tables
            .take_from_siblings(&self.spaces, processor, line, writes)
        {
            // It goes from one to the other, although not from cache to cache.
            self.waits.moved(line, now);
        }
        if !writes {
            return;
        }
        let others: Vec<usize> = self.schedule.threads_on(core).collect();
        for other in others.into_iter().filter(|&other| other != me) {
            let observation = &mut self.threads[other].observation;
            if observation
                .as_ref()
                .is_some_and(|seen| seen.lines.contains(&line))
            {
                *observation = None;
            }
        }
        self.wake_spinners(core, line, now);
    }
}
