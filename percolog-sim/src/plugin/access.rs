//! What becomes of an access to memory.
//!
//! Translated code calls one of the functions here before each instruction that touches memory. Nearly all calls end
//! after a few instructions of the host: the core holds the line, and its thread has the turn and is not far ahead.
//! Everything else goes through [`Simulator::touch`].

use std::ffi::{c_uint, c_void};

use crate::model::{Access, Event, Rights, TICKS_PER_CYCLE, Ticks};
use crate::plugin::decode::{Access3, NONE, Operand, Segment};
use crate::plugin::hot::{self, HOT, Table};
use crate::plugin::qemu;
use crate::plugin::registers::{FS_BASE, GS_BASE, Registers};
use crate::plugin::simulator::{Gate, Simulator, gate, simulator};
use crate::plugin::verify;

/// How far a core may be ahead on a contended line that it reads while it is found out whether it spins.
const CIRCLE: Ticks = 64 * TICKS_PER_CYCLE;

/// How far a core may be ahead that touches no memory. What it does concerns nobody; it must only not do it for ever.
const LEASH: Ticks = 1 << 20;

/// One access of one instruction, as found when it was translated. It is never freed: translated code refers to it.
#[derive(Debug)]
pub(crate) struct Site {
    /// Added to the registers.
    pub(crate) displacement: u64,
    /// The address of the instruction.
    pub(crate) place: u64,
    /// What the block costs from this instruction on: it was charged when the block began.
    pub(crate) ahead: u32,
    base: u8,
    index: u8,
    scale: u8,
    /// How many bytes.
    pub(crate) size: u8,
    /// The rights that it needs.
    need: u8,
    /// What it is for the model.
    access: Access,
    segment: Segment,
    address32: bool,
    repeated: bool,
}

impl Site {
    /// An access at this place.
    pub(crate) fn new(
        operand: &Operand,
        place: u64,
        ahead: u32,
        locked: bool,
        repeated: bool,
    ) -> Self {
        let (need, access) = match operand.access {
            Access3::Read => (hot::READ, Access::Read),
            Access3::Write if !locked => (hot::READ | hot::WRITE, Access::Store),
            // Fetched to be written at once, also by an instruction that is not atomic; a store buffer cannot hide it,
            // since the old value is needed.
            Access3::Write | Access3::Modify => (hot::READ | hot::WRITE, Access::Write),
        };
        Site {
            displacement: operand.displacement as u64,
            place,
            ahead,
            base: operand.base,
            index: operand.index,
            scale: operand.scale,
            size: operand.size,
            need: need as u8,
            access,
            segment: operand.segment,
            address32: operand.address32,
            repeated,
        }
    }

    /// The function to call before the instruction.
    pub(crate) fn callback(&self) -> qemu::Execution {
        let plain = self.segment == Segment::None && !self.address32 && !self.repeated;
        match (plain, self.base == NONE, self.index == NONE) {
            (true, true, true) => before_absolute,
            (true, false, true) => before_based,
            (true, false, false) => before_indexed,
            _ => before_any,
        }
    }

    /// The address, from the registers at `state`; none if a repeated instruction has nothing to do.
    #[inline]
    fn address(&self, state: *const u64) -> Option<u64> {
        let register = |number: u8| {
            // SAFETY: the state begins with sixteen registers, and the number is below sixteen.
            unsafe { *state.add(usize::from(number)) }
        };
        if self.repeated {
            let count = register(1);
            let count = if self.address32 {
                count & 0xffff_ffff
            } else {
                count
            };
            if count == 0 {
                return None;
            }
        }
        let mut address = self.displacement;
        if self.base != NONE {
            address = address.wrapping_add(register(self.base));
        }
        if self.index != NONE {
            address = address.wrapping_add(register(self.index) << self.scale);
        }
        if self.address32 {
            address &= 0xffff_ffff;
        }
        let base = match self.segment {
            Segment::None => return Some(address),
            Segment::Fs => FS_BASE,
            Segment::Gs => GS_BASE,
        };
        // SAFETY: the segments' bases follow the registers.
        Some(address.wrapping_add(unsafe { *state.add(base) }))
    }
}

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

extern "C" fn based(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    // SAFETY: the state begins with sixteen registers, and this site has a base among them.
    let base = unsafe { *state.add(usize::from(site.base)) };
    let address = site.displacement.wrapping_add(base);
    if !HOT.may_go_on(vcpu, address, u64::from(site.size), u64::from(site.need)) {
        slow(vcpu, site, state, address);
    }
}

extern "C" fn indexed(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    // SAFETY: the state begins with sixteen registers, and this site has a base and an index among them.
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

extern "C" fn any(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    let Some(address) = site.address(state) else {
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
    crate::plugin::baton::set_state(state);
    if gate(vcpu as usize, state) == Gate::LetGo {
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    // SAFETY: the callback that led here found the state in its register.
    let registers = unsafe { Registers::new(state) };
    let shift = HOT.line_shift();
    let first = address >> shift;
    let last = (address + u64::from(site.size) - 1) >> shift;
    for line in first..=last {
        if simulator.touch(site, line, registers, state) == Gate::LetGo {
            return;
        }
    }
}

with_state!(
    /// A block begins that touches no memory.
    before_empty => empty
);

extern "C" fn empty(vcpu: c_uint, _data: *mut c_void, state: *mut u64) {
    if vcpu == HOT.holder() && HOT.cycles() <= HOT.limit().saturating_add(LEASH) {
        return;
    }
    crate::plugin::baton::set_state(state);
    if gate(vcpu as usize, state) == Gate::Open {
        // SAFETY: the caller has the turn.
        let simulator = unsafe { simulator() };
        // A loop of such blocks must not keep the others from running.
        let leash = simulator.settings.run_ahead.max(LEASH);
        let _ = simulator.wait_for_others(leash, state);
    }
}

/// Called after an access whose address could not be computed before.
pub(crate) extern "C" fn after_unknown(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    let place = data as u64;
    if crate::plugin::baton::is_draining() || HOT.holder() != vcpu {
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    simulator.touched(address >> HOT.line_shift(), qemu::is_store(info), place);
}

impl Simulator {
    /// An access to one line, about to be made.
    fn touch(
        &mut self,
        site: &'static Site,
        line: u64,
        registers: Registers,
        state: *mut u64,
    ) -> Gate {
        let me = self.current();
        self.threads[me].place = site.place;
        let wants = if u64::from(site.need) & hot::WRITE != 0 {
            Rights::Write
        } else {
            Rights::Read
        };
        loop {
            if std::mem::take(&mut self.threads[me].forced) {
                self.forced += 1;
                return Gate::Open;
            }
            self.read_messages();
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
            let Some(core) = self.threads[me].core else {
                unreachable!("a thread that has the turn has a core");
            };
            let horizon = self.schedule.horizon();
            let is_first = horizon.is_none_or(|horizon| (now, me) < horizon);
            let held = self.directory.rights(core, line);
            let enough = held == Rights::Write || held == wants;
            let gate = if enough {
                if wants == Rights::Write {
                    self.interrupt_observation();
                } else if self.is_spinning(site.place, line, now, registers) {
                    match self.spin(now, state) {
                        Gate::Open => continue,
                        Gate::LetGo => return Gate::LetGo,
                    }
                }
                let wanted = self.waits.is_wanted(line);
                let contended = self.waits.is_contended(line, now, self.settings.run_ahead);
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
                    self.install(core, line, held, wanted || contended);
                    self.update_limit();
                    return Gate::Open;
                }
                // It may be reading in a circle: the next accesses will show.
                let thread = &mut self.threads[me];
                thread.suspect = wants == Rights::Read && thread.observation.is_none();
                self.announce(line);
                self.wait_until(now, state)
            } else if is_first || self.may_touch_ahead(line, now, horizon) {
                self.interrupt_observation();
                self.request(core, line, site.access, site.place, now);
                // It spun here, and has read the line again: likely it goes on spinning.
                let thread = &mut self.threads[me];
                thread.suspect = wants == Rights::Read && thread.spun_at == site.place;
                self.update_limit();
                return Gate::Open;
            } else {
                self.announce(line);
                self.wait_until(now, state)
            };
            if gate == Gate::LetGo {
                return gate;
            }
        }
    }

    /// Whether a line may be fetched from memory before the turn: nobody has it, nobody has asked for it, and the others
    /// are not far behind. Should one of them come to it meanwhile, it finds the line here and not in memory.
    fn may_touch_ahead(&self, line: u64, now: Ticks, horizon: Option<(Ticks, usize)>) -> bool {
        let run_ahead = self.settings.run_ahead;
        run_ahead > 0
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

    /// Asks the directory for a line, and waits for it in simulated time.
    fn request(&mut self, core: u16, line: u64, access: Access, place: u64, now: Ticks) {
        let mut lost = std::mem::take(&mut self.lost);
        let outcome = self
            .directory
            .access(core, line, access, now, |core, left| {
                lost.push((core, left))
            });
        for (loser, left) in lost.drain(..) {
            if let Some(table) = &mut self.tables[usize::from(loser)] {
                table.forget(line);
            }
            if left == Rights::None {
                self.wake_spinners(loser, line, now);
            }
        }
        self.lost = lost;
        self.charge(outcome.finished.saturating_sub(now));
        if matches!(outcome.event, Event::Read | Event::Write | Event::Upgrade) {
            self.waits.moved(line, now);
        }
        if outcome.event != Event::Hit {
            let me = self.current();
            let inside = self.tally.inside(me);
            let is_write = access != Access::Read;
            self.tally
                .record(core, line, place, is_write, &outcome, now, inside);
        }
        let care = self.waits.is_wanted(line)
            || self.waits.is_contended(line, now, self.settings.run_ahead);
        self.install(core, line, outcome.granted, care);
    }

    /// Notes what the core may do to the line from now on without asking; nothing, if the line needs care.
    fn install(&mut self, core: u16, line: u64, rights: Rights, care: bool) {
        let table = self.tables[usize::from(core)].get_or_insert_with(Table::new);
        let bits = match rights {
            Rights::None => return,
            Rights::Read => hot::READ,
            Rights::Write => hot::READ | hot::WRITE,
        };
        if care {
            table.forget(line);
        } else {
            table.set(line, bits);
        }
    }

    /// The thread that has the turn will ask for this line in its turn: nobody may run ahead on it until then.
    fn announce(&mut self, line: u64) {
        let me = self.current();
        self.threads[me].pending = Some(line);
        self.waits.announce(line);
        for table in self.tables.iter_mut().flatten() {
            table.forget(line);
        }
    }

    /// An access that has been made already.
    fn touched(&mut self, line: u64, is_store: bool, place: u64) {
        let me = self.current();
        let Some(core) = self.threads[me].core else {
            return;
        };
        let held = self.directory.rights(core, line);
        if held == Rights::Write || (held == Rights::Read && !is_store) {
            return;
        }
        self.unordered += 1;
        let now = self.now();
        let access = if is_store {
            Access::Store
        } else {
            Access::Read
        };
        self.request(core, line, access, place, now);
        self.update_limit();
    }
}
