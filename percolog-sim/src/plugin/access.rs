//! What becomes of an access to memory.
//!
//! `callbacks` are what translated code calls before each; those that may not go on at once go through [`Simulator::touch`].

use crate::model::{Access, Bytes, Event, Rights, TICKS_PER_CYCLE, Ticks};
use crate::plugin::hot::HOT;
use crate::plugin::registers::Registers;
use crate::plugin::simulator::{Gate, Simulator};
use crate::plugin::spin::Until;
use crate::plugin::thread::Ask;

mod callbacks;
mod held;
mod request;
mod site;

pub(crate) use callbacks::*;
pub(crate) use site::Site;

/// How far a core may be ahead on a contended line that it reads while it is found out whether it spins.
const CIRCLE: Ticks = 64 * TICKS_PER_CYCLE;

/// The lines that these bytes lie in, and which bytes of each they are.
pub(crate) fn by_line(address: u64, size: u64) -> impl Iterator<Item = (u64, Bytes)> {
    let shift = HOT.line_shift();
    let behind = address.saturating_add(size.max(1));
    (address >> shift..=(behind - 1) >> shift).map(move |line| {
        let start = line << shift;
        let from = address.max(start) - start;
        let to = (behind - start).min(1 << shift);
        let bytes = Bytes {
            offset: from as u32,
            size: (to - from) as u32,
        };
        (line, bytes)
    })
}

/// Whether a line has come from another core's cache, or was taken from others that had it too.
fn is_move(event: Event) -> bool {
    matches!(event, Event::Read | Event::Write | Event::Upgrade)
}

impl Simulator {
    /// An access that may go on, to a line whose uses are looked at.
    fn hit(&mut self, site: &'static Site, address: u64) {
        let me = self.current();
        let (Some(core), Some(processor)) = (self.core_of(me), self.threads[me].processor) else {
            return;
        };
        let inside = self.tally.inside(me);
        let process = self.process();
        for (number, bytes) in by_line(address, site.size.into()) {
            let line = self.line(number);
            if !self.tally.used(core, line, bytes, site.writes(), inside) {
                self.tables.trust(&self.spaces, processor, process, line);
            }
        }
    }

    /// An access to one line, about to be made.
    fn touch(
        &mut self,
        site: &'static Site,
        line: u64,
        bytes: Bytes,
        registers: Registers,
        state: *mut u64,
    ) -> Gate {
        let me = self.current();
        let thread = &mut self.threads[me];
        thread.place = site.place;
        // Of an access that it was let go with.
        thread.answer = None;
        let wants = site.wants();
        self.pace();
        loop {
            let answer = self.threads[me].answer.take();
            let watched = match &answer {
                Some(outcome) => self.come(line, bytes, site.writes(), outcome),
                None => false,
            };
            if std::mem::take(&mut self.threads[me].forced) {
                self.forced += u64::from(answer.is_none());
                return Gate::Open;
            }
            self.read_messages();
            if let Some(outcome) = answer {
                let now = self.now() - Ticks::from(site.ahead);
                self.take_from_siblings(line, site.writes(), now);
                self.use_for_lock(line, bytes, site, now);
                self.install_here(line, wants, site.ahead, watched);
                self.answered(outcome.event, site, line, registers, state);
                return Gate::Open;
            }
            let now = self.now() - Ticks::from(site.ahead);
            if self
                .schedule
                .slice_end(&self.threads[me])
                .is_some_and(|end| now >= end)
            {
                self.yield_core();
                if self.current() != me || HOT.holder() != me as u32 {
                    return Gate::LetGo;
                }
                continue;
            }
            let Some(core) = self.core_of(me) else {
                unreachable!("a thread that has the turn has a core");
            };
            self.look_at_part(now);
            if self.part.is_skipping() {
                match self.skip_access(line, now, state) {
                    Some(gate) => return gate,
                    None => continue,
                }
            }
            if let Some(comes) = self.comes_to_sibling(core, line) {
                if self.wait_until(comes, state) == Gate::LetGo {
                    return Gate::LetGo;
                }
                continue;
            }
            let horizon = self.schedule.horizon();
            let is_first = horizon.is_none_or(|horizon| (now, me) < horizon);
            let held = self.directory.rights(core, line);
            let keeps = held >= wants;
            let gate = if keeps || self.directory.rights_at(core, line, now) >= wants {
                if wants == Rights::Write {
                    self.interrupt_observation();
                } else {
                    match self.spins_until(site.place, line, now, registers) {
                        Some(Until::Lost) => match self.spin(now, state) {
                            Gate::Open => continue,
                            Gate::LetGo => return Gate::LetGo,
                        },
                        Some(Until::Probe(at)) if self.go_round(now, at) => continue,
                        _ => {}
                    }
                }
                let wanted = !keeps || self.waits.is_wanted(line);
                let contended = self.is_contended(line, now) && !self.is_told_nothing(site, line);
                let lead = match (wanted, contended) {
                    (true, _) => 0,
                    // Whether it reads in a circle shows within a few instructions.
                    (false, true) if self.threads[me].observation.is_some() => {
                        self.settings.run_ahead.min(CIRCLE)
                    }
                    (false, true) => 0,
                    (false, false) => self.settings.run_ahead,
                };
                let near =
                    horizon.is_some_and(|(time, _)| lead > 0 && now <= time.saturating_add(lead));
                if is_first || near {
                    self.take_from_siblings(line, site.writes(), now);
                    self.threads[me].uses = Some(line).filter(|_| !keeps);
                    self.directory.used(core, line);
                    self.use_for_lock(line, bytes, site, now);
                    let inside = self.tally.inside(me);
                    let watched = self.tally.used(core, line, bytes, site.writes(), inside);
                    let care = wanted || contended || self.spares_waiting(line);
                    self.install(core, line, self.noted(held, wants), care, watched);
                    self.hold_after(site, line, false);
                    self.update_limit();
                    return Gate::Open;
                }
                // It may be reading in a circle: the next accesses will show.
                let thread = &mut self.threads[me];
                thread.suspect = wants == Rights::Read && thread.observation.is_none();
                // Whoever has the line, too, may run ahead on it: this thread will not ask for it, as long as it is not taken from
                // its core. (To say that all be kept from what nobody changes would cost a turn for each access to it.)
                thread.kept = Some(line);
                self.wait_until(now, state)
            } else if is_first || self.may_touch_ahead(line, now, horizon) {
                self.interrupt_observation();
                let takes = self.request(core, line, site.access, site.place, now);
                if takes <= now || horizon.is_none_or(|horizon| (takes, me) < horizon) {
                    continue;
                }
                // Its probe is on the way: until then it is the others' line.
                self.announce(me, line);
                self.wait_until(takes, state)
            } else {
                self.threads[me].ask = Some(Ask { site, line });
                self.announce(me, line);
                self.wait_until(now, state)
            };
            if gate == Gate::LetGo {
                return gate;
            }
        }
    }

    /// The thread that has the turn has asked for a line, and may now make its access.
    fn answered(
        &mut self,
        event: Event,
        site: &'static Site,
        line: u64,
        registers: Registers,
        state: *const u64,
    ) {
        let me = self.current();
        self.witness_event(event, line, site, registers, state);
        // It spun here, and has read the line again: likely it goes on spinning.
        let thread = &mut self.threads[me];
        thread.suspect = !site.writes() && thread.spun_at == site.place;
        thread.uses = Some(line);
        self.hold_after(site, line, is_move(event));
        self.update_limit();
    }

    /// Whether a line may be fetched from memory before the turn: nobody has it, nobody has asked for it, nobody waits for its
    /// memory, and the others are not far behind. Should one of them come to it meanwhile, it finds the line here and not in memory.
    fn may_touch_ahead(&self, line: u64, now: Ticks, horizon: Option<(Ticks, usize)>) -> bool {
        let run_ahead = self.settings.run_ahead;
        run_ahead > 0
            && self.settings.machine.memory_occupancy == 0
            && horizon.is_some_and(|(time, _)| now <= time.saturating_add(run_ahead))
            && self.directory.is_untouched(line)
            && !self.waits.is_wanted(line)
    }

    /// Waits until the thread that has the turn is at most so far ahead of all others.
    pub(crate) fn wait_for_others(&mut self, leash: Ticks, state: *const u64) -> Gate {
        let me = self.current();
        loop {
            if std::mem::take(&mut self.threads[me].forced) {
                return Gate::Open;
            }
            self.read_messages();
            let now = self.now();
            self.look_at_part(now);
            let leash = self.lead(leash);
            let is_over = self
                .schedule
                .slice_end(&self.threads[me])
                .is_some_and(|end| now >= end);
            if is_over {
                self.yield_core();
            } else if self.schedule.horizon().is_none_or(|(time, other)| {
                (now, me) < (time, other) || (leash > 0 && now <= time.saturating_add(leash))
            }) {
                self.update_limit();
                return Gate::Open;
            } else if self.wait_until(now, state) == Gate::LetGo {
                return Gate::LetGo;
            }
            if HOT.holder() != me as u32 {
                return Gate::LetGo;
            }
        }
    }

    /// Whether a thread that is ahead of others must not use a line that its core holds.
    fn is_contended(&self, line: u64, now: Ticks) -> bool {
        self.waits.is_contended(line, now, self.settings.run_ahead)
            || self
                .chaos
                .as_ref()
                .is_some_and(|chaos| chaos.is_shared(line))
    }

    /// Sees whose line has moved, and who has had it moved.
    fn witness_event(
        &mut self,
        event: Event,
        line: u64,
        site: &'static Site,
        registers: Registers,
        state: *const u64,
    ) {
        // What is counted for a line: see `Tally::record`.
        let counts = self.tally.inside(self.current()) || !self.tally.has_region();
        if matches!(event, Event::Hit | Event::Cold) || !counts {
            return;
        }
        let first = line << HOT.line_shift();
        // An access that crosses lines touches the second at its beginning.
        let address = site
            .address(state)
            .map_or(first, |address| self.place(address).max(first));
        let write = site.access != Access::Read;
        let process = self.process();
        let places = || self.spaces.inherited(process, address);
        self.witness
            .event(line, address, places, site.place, write, &registers);
    }

    /// An access that has been made already.
    pub(crate) fn touched(&mut self, line: u64, bytes: Bytes, is_store: bool, place: u64) {
        let me = self.current();
        let Some(core) = self.core_of(me) else {
            return;
        };
        if self.part.is_skipping() {
            return;
        }
        let held = self.directory.rights(core, line);
        // QEMU may report also what was looked at before.
        let known = self.threads[me].uses == Some(line);
        self.take_from_siblings(line, is_store, self.now());
        if held == Rights::Write || (held == Rights::Read && !is_store) || known {
            self.directory.used(core, line);
            let inside = self.tally.inside(me);
            let _ = self.tally.used(core, line, bytes, is_store, inside);
            return;
        }
        self.unordered += 1;
        let now = self.now();
        let access = if is_store {
            Access::Store
        } else {
            Access::Read
        };
        let _ = self.request(core, line, access, place, now);
        if let Some(outcome) = self.threads[me].answer.take() {
            let watched = self.come(line, bytes, is_store, &outcome);
            let did = if is_store {
                Rights::Write
            } else {
                Rights::Read
            };
            self.install_here(line, did, 0, watched);
        }
        self.update_limit();
    }
}
