//! Threads that spin are put to sleep, exactly.
//!
//! A thread that only reads, and comes back to the same instruction with the same registers, will do so for ever unless
//! one of the lines that it read changes; and a line that its core holds cannot change before the core loses it. Such
//! a thread needs no turn until then. When the line is taken from its core, it goes on at the time at which its loop
//! would have come round next: nothing that it did in between could have been seen by anybody. If the line is lost already, and
//! only the probe that takes it has not arrived, that time is known, and the thread goes on then. If others wait for its core, it goes
//! on for the last round of its slice.
//!
//! A loop that counts (spins a while, then sleeps) changes a register and is not taken for a spin. A loop whose only
//! state is in vector or flag registers would be; none is known.

use crate::model::{Rights, Ticks};
use crate::plugin::registers::Registers;
use crate::plugin::simulator::{Gate, Simulator};
use crate::plugin::thread::{Observation, Spin};

/// Accesses that a loop may have.
const STEPS: u32 = 256;
/// Lines that it may read.
const LINES: usize = 16;
/// How often the registers may differ before the loop is given up.
const TRIES: u32 = 3;

/// Until when a thread spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// One of the lines that it reads is taken from its core.
    Lost,
    /// Its core no longer has what it reads: this is when the probe arrives.
    Probe(Ticks),
}

impl Simulator {
    /// The thread that has the turn does something that is not a read of a line that its core holds.
    pub(crate) fn interrupt_observation(&mut self) {
        let me = self.current();
        let thread = &mut self.threads[me];
        thread.suspect = false;
        thread.observation = None;
    }

    /// The thread that has the turn is about to read, at `now`, a line that its core holds, or may go on with. Returns until when it
    /// spins, if it does.
    pub(crate) fn spins_until(
        &mut self,
        place: u64,
        line: u64,
        now: Ticks,
        registers: Registers,
    ) -> Option<Until> {
        let me = self.current();
        let thread = &mut self.threads[me];
        let Some(observation) = thread.observation.as_mut() else {
            if thread.suspect || thread.spun_at == place {
                thread.suspect = false;
                thread.observation = Some(Box::new(Observation {
                    place,
                    registers: registers.all(),
                    at: now,
                    lines: vec![line],
                    steps: 0,
                    tries: 0,
                }));
            }
            return None;
        };
        if !observation.lines.contains(&line) {
            observation.lines.push(line);
        }
        observation.steps += 1;
        if observation.steps > STEPS || observation.lines.len() > LINES {
            thread.observation = None;
            return None;
        }
        if observation.place != place {
            return None;
        }
        let all = registers.all();
        if observation.registers != all {
            observation.registers = all;
            observation.at = now;
            observation.lines.clear();
            observation.lines.push(line);
            observation.steps = 0;
            observation.tries += 1;
            if observation.tries > TRIES {
                thread.observation = None;
                thread.spun_at = 0;
            }
            return None;
        }
        let core = self.settings.machine.core_of(thread.processor?);
        let lines = &observation.lines;
        if now <= observation.at {
            return None;
        }
        let has = |line: &u64| self.directory.rights(core, *line) != Rights::None;
        if lines.iter().all(has) {
            return Some(Until::Lost);
        }
        // A line that was lost meanwhile has been told of, and will not be told of again. (Another thread of the core may write what the
        // core still has.)
        if self.schedule.has_siblings() {
            return None;
        }
        let until = |line: &u64| {
            self.directory
                .kept_until(core, *line, now)
                .filter(|_| !has(line))
        };
        let all: Option<Vec<Ticks>> = lines.iter().map(until).collect();
        Some(Until::Probe(all?.into_iter().min()?))
    }

    /// The thread that has the turn spins, and is about to read at `now` what its core has until then: it goes round as often as it
    /// can. Returns whether there was time for that.
    pub(crate) fn go_round(&mut self, now: Ticks, until: Ticks) -> bool {
        let me = self.current();
        let Some(observation) = self.threads[me].observation.take() else {
            return false;
        };
        let thread = &mut self.threads[me];
        thread.spun_at = observation.place;
        thread.suspect = true;
        let period = now - observation.at;
        let rounds = self.rounds(me, now, until, period);
        self.charge(rounds * period);
        rounds > 0
    }

    /// How many rounds of this period a thread begins from `now` on before `until`; the last one of its slice is to be executed, so that
    /// it leaves its core at the access at which it would have.
    fn rounds(&self, thread: usize, now: Ticks, until: Ticks, period: Ticks) -> u64 {
        let end = self.schedule.slice_end(&self.threads[thread]);
        let end = end.unwrap_or(Ticks::MAX).min(self.part.limit(now));
        let whole = end.saturating_sub(now) / period;
        until.saturating_sub(now).div_ceil(period).min(whole)
    }

    /// The thread that has the turn spins, and waits until a line is taken from its core. It is about to read at `now`.
    pub(crate) fn spin(&mut self, now: Ticks, state: *const u64) -> Gate {
        let me = self.current();
        let Some(observation) = self.threads[me].observation.take() else {
            return Gate::Open;
        };
        for &line in &observation.lines {
            self.waits.watch(line, me);
        }
        let period = now - observation.at;
        let thread = &mut self.threads[me];
        thread.spun_at = observation.place;
        thread.spin = Some(Box::new(Spin {
            at: observation.at,
            now,
            period,
            lines: observation.lines,
        }));
        self.save();
        let saved = self.now();
        self.schedule.spin(&mut self.threads, me);
        let gate = self.yield_turn(state);
        if gate == Gate::Open && self.threads[me].spin.is_some() {
            // Nothing has changed, but the end of its slice has come.
            self.stop_spin(me);
            if let Some(end) = self.schedule.slice_end(&self.threads[me]) {
                // Interrupts have cost it time.
                let now = now + (self.now() - saved);
                let rounds = self.rounds(me, now, end, period);
                self.charge(rounds * period);
            }
        }
        gate
    }

    /// A core has lost a line at `when`: what spins on it there goes on.
    pub(crate) fn wake_spinners(&mut self, core: u16, line: u64, when: Ticks) {
        while let Some(&thread) = self
            .waits
            .watchers(line)
            .iter()
            .find(|&&thread| self.core_of(thread) == Some(core))
        {
            let spin = self.threads[thread].spin.take();
            self.stop_spin(thread);
            let Some(spin) = spin else {
                self.waits.unwatch(line, thread);
                continue;
            };
            for &watched in &spin.lines {
                self.waits.unwatch(watched, thread);
            }
            let rounds = self.rounds(thread, spin.at, when, spin.period);
            // It has been there already in a round that came too early to see what has changed.
            let next = spin.at + rounds * spin.period;
            // Before its time changes: it may stand among those that are ready at the end of its slice.
            self.schedule.make_ready(&mut self.threads, thread, next);
            let time = self.threads[thread].time;
            self.threads[thread].time = (time + next).saturating_sub(spin.now);
            self.has_spun(thread, line, spin.now, next);
        }
    }
}
