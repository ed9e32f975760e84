//! Repeated string instructions, of which some versions of QEMU execute many elements at a time.
//!
//! QEMU 7.2 begins the instruction anew for each element, and so each element is simulated like an instruction of its
//! own. Since QEMU 10.0 translated code goes round by itself: callbacks come before the first element only. The others
//! are charged and counted when QEMU reports their accesses. They come too late for the exact order, and the result says
//! how many lines were fetched in this way.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use crate::model::Ticks;
use crate::plugin::access::by_line;
use crate::plugin::baton;
use crate::plugin::hot::HOT;
use crate::plugin::qemu::{self, Instruction, Uses};
use crate::plugin::simulator::simulator;

thread_local! {
    /// How many accesses the instruction has made since it began.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

/// A repeated instruction.
struct Repeated {
    place: u64,
    /// What an element costs.
    cost: Ticks,
    /// How many accesses an element makes.
    accesses: usize,
}

/// Looks after the elements of an instruction behind the first.
pub(crate) fn watch(instruction: &mut Instruction, place: u64, cost: Ticks, accesses: usize) {
    if qemu::is_first_version() || accesses == 0 {
        return;
    }
    let repeated = Box::new(Repeated {
        place,
        cost,
        accesses,
    });
    // Translated code refers to it for as long as the process lives.
    let repeated: *mut c_void = Box::into_raw(repeated).cast();
    instruction.before(begin, Uses::Reads, repeated);
    instruction.after_access(accessed, repeated);
}

extern "C" fn begin(_vcpu: c_uint, _data: *mut c_void) {
    MADE.set(0);
}

extern "C" fn accessed(vcpu: c_uint, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: the data is what the callback was registered with, and is never freed.
    let repeated = unsafe { &*data.cast::<Repeated>() };
    let before = MADE.replace(MADE.get() + 1);
    if before < repeated.accesses || baton::is_draining() || !HOT.has_turn(vcpu) {
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    if before.is_multiple_of(repeated.accesses) {
        simulator.work(repeated.cost);
        HOT.count_instruction();
    }
    if let Some((number, bytes)) = by_line(address, qemu::size(info)).next() {
        let line = simulator.line(number);
        simulator.touched(line, bytes, qemu::is_store(info), repeated.place);
    }
}
