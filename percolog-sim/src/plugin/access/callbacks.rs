//! What translated code calls before each instruction that touches memory.
//!
//! Nearly all calls end after a few instructions of the host: the core holds the line, and its thread has the turn and is not far ahead.
//! Everything else goes through [`Simulator::touch`](crate::plugin::simulator::Simulator).

use std::ffi::{c_uint, c_void};

use super::{Site, by_line};
use crate::model::Ticks;
use crate::plugin::architecture::Sum;
use crate::plugin::hot::{self, HOT};
use crate::plugin::qemu;
use crate::plugin::registers::Registers;
use crate::plugin::simulator::{Gate, gate, simulator};
use crate::plugin::{baton, kind, verify};

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
