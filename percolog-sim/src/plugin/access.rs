//! What becomes of an access to memory.
//!
//! Translated code calls one of the functions here before each instruction that touches memory. Nearly all calls end
//! after a few instructions of the host: the core holds the line, and its thread has the turn and is not far ahead.
//! Everything else goes through [`Simulator::touch`].

use std::ffi::{c_uint, c_void};

use crate::model::{Access, Bytes, Event, Rights, TICKS_PER_CYCLE, Ticks};
use crate::plugin::architecture::Sum;
use crate::plugin::hot::{self, HOT};
use crate::plugin::qemu;
use crate::plugin::registers::Registers;
use crate::plugin::simulator::{Gate, Simulator, gate, simulator};
use crate::plugin::spin::Until;
use crate::plugin::thread::Ask;
use crate::plugin::{baton, kind, verify};

mod request;
mod site;

pub(crate) use site::Site;

/// How far a core may be ahead on a contended line that it reads while it is found out whether it spins.
const CIRCLE: Ticks = 64 * TICKS_PER_CYCLE;

/// How far a core may be ahead that touches no memory. What it does concerns nobody; it must only not do it for ever.
const LEASH: Ticks = 1 << 20;

/// Defines a callback that finds the state of the calling thread in `rbp`, where translated code keeps it.
macro_rules! with_state {
    ($(#[$doc:meta])* $name:ident => $target:ident) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) extern "C" fn $name(_vcpu: c_uint, _data: *mut c_void) {
            std::arch::naked_asm!("mov rdx, rbp", "jmp {}", sym $target)
        }
    };
}
pub(crate) use with_state;

with_state!(
    /// An access at a fixed address.
    before_absolute => absolute
);
with_state!(
    /// An access at a register's address.
    before_based => based
);
with_state!(
    /// An access at the address that two registers make.
    before_indexed => indexed
);
with_state!(
    /// Any other access.
    before_any => any
);

extern "C" fn absolute(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    let address = site.displacement;
    if !HOT.may_go_on(vcpu, address, u64::from(site.size), u64::from(site.need)) {
        slow(vcpu, site, state, address);
    }
}

pub(crate) extern "C" fn based(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    // SAFETY: the base of this site is one of the words of the state that are registers.
    let base = unsafe { *state.add(usize::from(site.base)) };
    let address = site.displacement.wrapping_add(base);
    if !HOT.may_go_on(vcpu, address, u64::from(site.size), u64::from(site.need)) {
        slow(vcpu, site, state, address);
    }
}

extern "C" fn indexed(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    // SAFETY: base and index of this site are words of the state that are registers.
    let (base, index) = unsafe {
        (
            *state.add(usize::from(site.base)),
            *state.add(usize::from(site.index)),
        )
    };
    let address = site
        .displacement
        .wrapping_add(base)
        .wrapping_add(index << site.scale);
    if !HOT.may_go_on(vcpu, address, u64::from(site.size), u64::from(site.need)) {
        slow(vcpu, site, state, address);
    }
}

with_state!(
    /// An access at a register's address, of which the uppermost byte does not count.
    before_untagged => untagged
);

with_state!(
    /// Any other access of which the uppermost byte does not count.
    before_any_untagged => any_untagged
);

extern "C" fn any_untagged(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    let address = site.untagged_address(state);
    if !HOT.may_go_on(vcpu, address, u64::from(site.size), u64::from(site.need)) {
        slow(vcpu, site, state, address);
    }
}

extern "C" fn untagged(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    // SAFETY: the base of this site is one of the words of the state that are registers.
    let base = unsafe { *state.add(usize::from(site.base)) };
    let address = Sum::without_tag(site.displacement.wrapping_add(base));
    if !HOT.may_go_on(vcpu, address, u64::from(site.size), u64::from(site.need)) {
        slow(vcpu, site, state, address);
    }
}

extern "C" fn any(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    let Some(address) = site.whole_address(state) else {
        return;
    };
    if !HOT.may_go_on(vcpu, address, u64::from(site.size), u64::from(site.need)) {
        slow(vcpu, site, state, address);
    }
}

with_state!(
    /// Notes the address of an access, to be compared with what QEMU reports.
    before_verified => note
);

extern "C" fn note(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    verify::expect(vcpu, site, site.address(state));
}

#[cold]
#[inline(never)]
fn slow(vcpu: c_uint, site: &'static Site, state: *mut u64, address: u64) {
    let watched = u64::from(site.need) << hot::WATCHED;
    if HOT.may_go_on(vcpu, address, u64::from(site.size), watched) {
        // SAFETY: the caller has the turn.
        unsafe { simulator() }.hit(site, address);
        return;
    }
    crate::plugin::baton::set_state(state);
    if gate(vcpu, state) == Gate::LetGo {
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    // SAFETY: the callback that led here found the state in its register.
    let registers = unsafe { Registers::new(state) };
    for (number, bytes) in by_line(address, site.size.into()) {
        let line = simulator.line(number);
        simulator.hold_before(site, line);
        if simulator.touch(site, line, bytes, registers, state) == Gate::LetGo {
            return;
        }
    }
}

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

with_state!(
    /// A block begins that touches no memory.
    before_empty => empty
);

extern "C" fn empty(vcpu: c_uint, _data: *mut c_void, state: *mut u64) {
    if HOT.has_turn(vcpu) && HOT.cycles() <= HOT.limit().saturating_add(LEASH) {
        return;
    }
    crate::plugin::baton::set_state(state);
    if gate(vcpu, state) == Gate::Open {
        // SAFETY: the caller has the turn.
        let simulator = unsafe { simulator() };
        // A loop of such blocks must not keep the others from running.
        let leash = simulator.settings.run_ahead.max(LEASH);
        let _ = simulator.wait_for_others(leash, state);
    }
}

with_state!(
    /// A block begins that is skipped.
    before_skipped => skipped
);

extern "C" fn skipped(vcpu: c_uint, _data: *mut c_void, state: *mut u64) {
    if !HOT.may_skip(vcpu) {
        stop_skipping(vcpu, state);
    }
}

#[cold]
#[inline(never)]
fn stop_skipping(vcpu: c_uint, state: *mut u64) {
    baton::set_state(state);
    if gate(vcpu, state) == Gate::LetGo {
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    let leash = simulator.settings.run_ahead.max(LEASH);
    if simulator.wait_for_others(leash, state) == Gate::Open {
        kind::end(vcpu, state);
    }
}

/// Called after an access whose address could not be computed before.
pub(crate) extern "C" fn after_unknown(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    let place = data as u64;
    if crate::plugin::baton::is_draining() || !HOT.has_turn(vcpu) {
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    if let Some((number, bytes)) = by_line(address, qemu::size(info)).next() {
        let line = simulator.line(number);
        simulator.touched(line, bytes, qemu::is_store(info), place);
    }
}

/// Whether a line has come from another core's cache, or was taken from others that had it too.
fn is_move(event: Event) -> bool {
    matches!(event, Event::Read | Event::Write | Event::Upgrade)
}

/// Called after each access of an instruction that reads, computes and writes, and is not atomic: between its two accesses
/// other threads may make theirs.
pub(crate) extern "C" fn between(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    if qemu::is_store(info) || baton::is_draining() || !HOT.has_turn(vcpu) {
        return;
    }
    let state = baton::state().cast_mut();
    // SAFETY: the data is the site with which the callback was registered, and sites are never freed.
    let site = unsafe { &*data.cast::<Site>() };
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    let Some((number, bytes)) = by_line(address, qemu::size(info)).next() else {
        return;
    };
    let line = simulator.line(number);
    if !state.is_null() && simulator.hold_between(line) {
        // SAFETY: the thread has been here before, and left its state.
        let registers = unsafe { Registers::new(state) };
        // Without the turn it goes on as well.
        let _ = simulator.touch(site, line, bytes, registers, state);
    }
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

    /// Whether the thread that has the turn, and whose core holds the line, reads only what it knows.
    fn is_told_nothing(&self, site: &Site, line: u64) -> bool {
        let me = self.current();
        !site.writes()
            && self
                .chaos
                .as_ref()
                .is_some_and(|chaos| chaos.knows(me, line, site.place))
    }

    /// The thread that has the turn has fetched a line from another core's cache.
    fn note_users(&mut self, line: u64, to_write: bool) {
        let me = self.current();
        if let Some(chaos) = &mut self.chaos
            && chaos.fetched(me, line, to_write)
        {
            // From now on each access is a point, also of those who hold it.
            self.tables.forget_all(&self.spaces, line);
        }
    }

    /// The thread that has the turn is about to touch a line, and may be held back.
    fn hold_before(&mut self, site: &Site, line: u64) {
        let me = self.current();
        let Some(core) = self.core_of(me) else {
            return;
        };
        let Some(chaos) = &mut self.chaos else {
            return;
        };
        // Whoever may be found to spin is not to be disturbed: it waits for the others anyway.
        if self.threads[me].observation.is_some() || self.threads[me].forced {
            return;
        }
        let moves = || {
            let held = self.directory.rights(core, line);
            let lacks = held == Rights::None || (held == Rights::Read && site.writes());
            lacks && !self.directory.is_untouched(line)
        };
        // Waiting in a loop is not to be drawn out. If the line has been taken, the loop may end.
        let knows = !site.writes() && chaos.knows(me, line, site.place);
        if knows && self.directory.rights(core, line) != Rights::None {
            return;
        }
        if chaos.is_shared(line) || moves() {
            let delay = chaos.before(me, line, site.writes());
            self.hold(delay);
        }
    }

    /// The thread that has the turn has read a line that it will write next. Returns whether others may come between.
    fn hold_between(&mut self, line: u64) -> bool {
        let me = self.current();
        let Some(chaos) = &mut self.chaos else {
            return false;
        };
        if !chaos.is_shared(line) {
            return false;
        }
        let delay = chaos.between(me, line);
        self.hold(delay);
        true
    }

    /// The thread that has the turn touches a line, which has come from another core's cache if `moved`, and may be held back
    /// before it goes on.
    fn hold_after(&mut self, site: &Site, line: u64, moved: bool) {
        let me = self.current();
        let Some(chaos) = &mut self.chaos else {
            return;
        };
        if moved || chaos.is_shared(line) {
            if !moved && !site.writes() && chaos.knows(me, line, site.place) {
                return;
            }
            let delay = chaos.after(me, line, site.writes(), moved, site.place);
            if self.threads[me].observation.is_none() {
                self.hold(delay);
            }
        }
    }

    /// The thread that has the turn is held back: for so long, or, where others wait for a core, until it is given one again.
    fn hold(&mut self, delay: Ticks) {
        if delay > 0 && self.schedule.is_crowded() {
            let me = self.current();
            self.threads[me].evicted = true;
        } else {
            self.charge(delay);
        }
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
