//! Memory that the program maps and unmaps itself: who mapped it is kept, and what was known of what lay there is forgotten.

use crate::plugin::code;
use crate::plugin::registers::Registers;
use crate::plugin::simulator::Simulator;
use crate::plugin::stacks::Purpose;
use crate::plugin::syscalls::{Call, Change, Step, Then};

/// `mmap`, by the instruction at `pc`.
pub(crate) fn map(sim: &mut Simulator, call: &Call, registers: &Registers, pc: u64) -> Step {
    const KIND: u64 = 0xf;
    const PRIVATE: u64 = 0x2;
    const FIXED: u64 = 0x10;
    const ANONYMOUS: u64 = 0x20;
    let [start, size, _, flags, ..] = call.arguments;
    if flags & FIXED != 0 {
        forget(sim, start, size);
    }
    let shared = flags & KIND != PRIVATE;
    let anonymous = flags & ANONYMOUS != 0 && sim.witness.enabled;
    if !shared && !anonymous {
        return Step::Quick;
    }
    // Where it lies is known after the call only.
    let anonymous = anonymous.then(|| {
        sim.witness
            .stacks
            .number(pc, registers, Purpose::Memory, || true)
    });
    Step::Changed(Change::followed_by(Then::Mapped {
        size,
        shared,
        anonymous,
    }))
}

/// `shmat`: a segment of memory that processes share, as large as its maker wanted.
pub(crate) fn attach() -> Step {
    Step::Changed(Change::followed_by(Then::Mapped {
        size: 0,
        shared: true,
        anonymous: None,
    }))
}

/// `shmdt`
pub(crate) fn detach(sim: &mut Simulator, call: &Call) -> Step {
    let process = sim.process();
    sim.spaces.detached(process, call.arguments[0]);
    sim.tables.end(process);
    Step::Quick
}

/// `munmap`
pub(crate) fn unmap(sim: &mut Simulator, call: &Call) -> Step {
    forget(sim, call.arguments[0], call.arguments[1]);
    Step::Quick
}

/// `mremap`: memory that grows, shrinks or moves.
pub(crate) fn remap(sim: &mut Simulator, call: &Call) -> Step {
    let [start, before, size, ..] = call.arguments;
    let shared = !sim.spaces.is_alone(sim.process());
    forget(sim, start, before);
    if !shared {
        return Step::Quick;
    }
    // Whether it is other processes' too, the kernel says afterwards.
    Step::Changed(Change::followed_by(Then::Mapped {
        size,
        shared: true,
        anonymous: None,
    }))
}

/// `mprotect`
pub(crate) fn protect(sim: &mut Simulator, call: &Call) -> Step {
    const WRITE: u64 = 0x2;
    let [start, size, rights, ..] = call.arguments;
    let process = sim.process();
    sim.spaces
        .protected(process, start, size, rights & WRITE != 0);
    if rights & WRITE == 0 {
        sim.interrupt_others();
    }
    Step::Quick
}

fn forget(sim: &mut Simulator, start: u64, size: u64) {
    sim.interrupt_others();
    code::unmapped(start, size);
    let (process, place) = (sim.process(), sim.place(start));
    sim.witness.unmapped(place, size);
    if !sim.spaces.is_alone(process) {
        sim.spaces.unmapped(process, start, size);
        sim.tables.end(process);
    }
}
