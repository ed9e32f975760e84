//! Memory that the program maps and unmaps itself: who mapped it is kept, and what was known of what lay there is forgotten.

use crate::plugin::code;
use crate::plugin::registers::Registers;
use crate::plugin::simulator::Simulator;
use crate::plugin::stacks::Purpose;
use crate::plugin::syscalls::{Call, Change, Step, Then};

/// `mmap`, by the instruction at `pc`.
pub(crate) fn map(sim: &mut Simulator, call: &Call, registers: &Registers, pc: u64) -> Step {
    const FIXED: u64 = 0x10;
    const ANONYMOUS: u64 = 0x20;
    let [start, size, _, flags, ..] = call.arguments;
    if flags & FIXED != 0 {
        forget(sim, start, size);
    }
    if flags & ANONYMOUS == 0 || !sim.witness.enabled {
        return Step::Quick;
    }
    // Where it lies is known after the call only.
    let stack = sim
        .witness
        .stacks
        .number(pc, registers, Purpose::Memory, || true);
    Step::Changed(Change::followed_by(Then::Mapped(size, stack)))
}

/// `munmap`, or `mremap` of memory that moves.
pub(crate) fn unmap(sim: &mut Simulator, call: &Call) -> Step {
    forget(sim, call.arguments[0], call.arguments[1]);
    Step::Quick
}

fn forget(sim: &mut Simulator, start: u64, size: u64) {
    code::unmapped(start, size);
    sim.witness.unmapped(start, size);
}
