//! The system calls that make threads and processes, and signals, which may end them.

use crate::plugin::architecture;
use crate::plugin::kind::{self, Kind};
use crate::plugin::numbers as n;
use crate::plugin::processes;
use crate::plugin::registers::Registers;
use crate::plugin::report::Ending;
use crate::plugin::simulator::{KILLED, Simulator};
use crate::plugin::syscalls::{After, Call, Change, Expected, Step, Then};

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;

/// Whether the call makes a process.
pub(crate) fn forks(regs: &Registers) -> bool {
    let flags = regs.arguments()[0];
    match regs.number() {
        n::FORK | n::VFORK => true,
        n::CLONE => flags & CLONE_VM == 0 || flags & CLONE_VFORK != 0,
        _ => false,
    }
}

/// `clone`: of a thread, or of a process.
pub(crate) fn clone(sim: &mut Simulator, call: &Call, regs: &Registers) -> Step {
    let [flags, child_stack, ..] = call.arguments;
    let child_tid = call.arguments[architecture::layout().clone_clears];
    if forks(regs) {
        return fork(sim);
    }
    if sim.guest().is_child_of_threads() {
        // QEMU's list of threads for plugins still has those of the parent, and ends the process when one of their
        // numbers is used again.
        sim.unsimulated(
            "a thread of a forked child: QEMU offers none after a fork with running threads"
                .to_owned(),
        );
        return Step::Done(n::EAGAIN);
    }
    not_alone();
    let clears = flags & CLONE_CHILD_CLEARTID != 0;
    let stack = if child_stack == 0 {
        call.stack
    } else {
        child_stack
    };
    sim.expect_thread(Expected {
        clear_tid: if clears { child_tid } else { 0 },
        after: After::of_new_thread(stack, flags),
    });
    // The emulator clears the word of a thread that ends only when the thread has been taken from the plugin, and so
    // when it has passed its turn on. By then the stack may have gone to another thread, of whom it would be said that
    // it has ended. So the emulator is not asked to do it, and the simulator does, in the turn of the one that ends.
    Step::Changed(Change {
        number: None,
        arguments: vec![(0, flags & !CLONE_CHILD_CLEARTID)],
        ..Change::nothing(Then::Cloned)
    })
}

/// There will be two threads: each has to look whether it may go on, where it is skipped.
fn not_alone() {
    if kind::is_wanted(Kind::Alone) {
        kind::want(Kind::Skipped);
    }
}

/// The emulator forks for real, `vfork` too; it waits for all other threads to be outside translated code.
pub(crate) fn fork(sim: &mut Simulator) -> Step {
    not_alone();
    let child = sim.begin_fork();
    sim.drain();
    Step::Changed(Change::followed_by(Then::Forked(child)))
}

/// A signal to somebody. One that ends this process does so without a word from the emulator, so the result is written
/// now.
pub(crate) fn signal(sim: &mut Simulator, to: i32, signal: u64) -> Step {
    let this = sim.process();
    let own = to == std::process::id() as i32
        || sim
            .threads
            .iter()
            .any(|thread| thread.tid == to && thread.process == this);
    let other = u32::try_from(to).ok().and_then(|pid| sim.process_of(pid));
    if let Some(process) = other.filter(|_| !own && signal == KILLED as u64) {
        return Step::Changed(Change::followed_by(Then::Killed(process)));
    }
    // Where others go on, this process says that it is over when the signal has come.
    if !own || !sim.guest().is_fatal(signal) || processes::are_several() {
        return Step::Quick;
    }
    sim.finish(Ending::Signal(signal as i32));
    sim.drain();
    Step::Changed(Change::followed_by(Then::Survived))
}
