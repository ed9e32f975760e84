//! Before and after each system call.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use crate::plugin::access::with_state;
use crate::plugin::numbers as n;
use crate::plugin::qemu::PluginId;
use crate::plugin::registers::{Register, Registers};
use crate::plugin::simulator::{Gate, Simulator, gate, simulator};
use crate::plugin::{baton, fatal, syscalls};

thread_local! {
    /// Whether this thread is in a system call, or has not run yet.
    static IN_CALL: Cell<bool> = const { Cell::new(true) };
    /// The call that this thread is about to make, to be compared with what QEMU says of it.
    static ABOUT: Cell<Option<[u64; 4]>> = const { Cell::new(None) };
    /// Whether the call was one that waits, made harmless because all threads are let go.
    static SKIPPED: Cell<bool> = const { Cell::new(false) };
}

/// The first thread begins: it is in no system call.
pub(crate) fn first_thread() {
    IN_CALL.set(false);
}

const SYS_FUTEX: u64 = 202;
const SYS_GETPID: u64 = 39;
const EAGAIN: i64 = 11;

/// Obtains the turn for a system call: what threads say to each other through the kernel, they say in order.
fn in_order(thread: usize, state: *mut u64) -> Gate {
    match gate(thread, state) {
        // SAFETY: the caller has the turn.
        Gate::Open => unsafe { simulator() }.wait_for_others(0, state),
        Gate::LetGo => Gate::LetGo,
    }
}

/// Whether a futex operation is `FUTEX_WAIT` or `FUTEX_WAIT_BITSET`, of whatever kind.
fn waits(operation: u64) -> bool {
    matches!(operation & 0x7f, 0 | 9)
}

with_state!(
    /// A system call is about to be made.
    before_call => before
);
with_state!(
    /// A block begins that follows a `syscall` instruction.
    after_call => after
);

extern "C" fn before(vcpu: c_uint, place: *mut c_void, state: *mut u64) {
    baton::set_state(state);
    IN_CALL.set(true);
    // SAFETY: the state is what the callback found.
    let mut registers = unsafe { Registers::new(state) };
    if in_order(vcpu as usize, state) == Gate::LetGo {
        if baton::is_ending() {
            registers.set(Register::Rax, n::PAUSE);
            return;
        }
        // A thread that waits now would wait in the host, where nobody would wake it: it is told that the word has
        // changed, and looks again.
        if registers.get(Register::Rax) == SYS_FUTEX {
            if waits(registers.get(Register::Rsi)) {
                registers.set(Register::Rax, SYS_GETPID);
                SKIPPED.set(true);
            } else {
                Simulator::outside_as(vcpu as usize, |simulator| {
                    syscalls::before(simulator, &mut registers, place as u64);
                });
            }
        }
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    simulator.interrupt_observation();
    let me = simulator.current();
    simulator.threads[me].place = place as u64;
    simulator.threads[me].spun_at = 0;
    syscalls::before(simulator, &mut registers, place as u64);
    if baton::is_ending() && registers.get(Register::Rax) != n::EXIT_GROUP {
        // QEMU removes the plugin from the code while it ends, and then lets the other threads run on until the kernel
        // ends them. A call that was replaced would return to them as it is, with nobody there to put its result right:
        // so whoever is about to make a call makes one that does not return.
        registers.set(Register::Rax, n::PAUSE);
    }
    ABOUT.set(Some(
        [Register::Rax, Register::Rdi, Register::Rsi, Register::Rdx].map(|r| registers.get(r)),
    ));
    simulator.outside_over(vcpu as usize);
}

extern "C" fn after(vcpu: c_uint, _data: *mut c_void, state: *mut u64) {
    if !IN_CALL.replace(false) {
        return;
    }
    baton::set_state(state);
    // SAFETY: the state is what the callback found.
    let mut registers = unsafe { Registers::new(state) };
    if SKIPPED.replace(false) {
        registers.set(Register::Rax, (-EAGAIN) as u64);
        let _ = gate(vcpu as usize, state);
        return;
    }
    if gate(vcpu as usize, state) == Gate::LetGo {
        Simulator::outside(|simulator| {
            syscalls::after(simulator, vcpu as usize, &mut registers);
        });
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    syscalls::after(simulator, vcpu as usize, &mut registers);
}

/// Called by QEMU for each system call, with what it takes for the number and the arguments.
#[allow(clippy::too_many_arguments, reason = "QEMU's interface")]
pub(crate) extern "C" fn check(
    _id: PluginId,
    _vcpu: c_uint,
    number: i64,
    first: u64,
    second: u64,
    third: u64,
    _fourth: u64,
    _fifth: u64,
    _sixth: u64,
    _seventh: u64,
    _eighth: u64,
) {
    if let Some(about) = ABOUT.take()
        && about != [number as u64, first, second, third]
    {
        fatal(
            "this QEMU keeps the guest's registers where the simulator does not find them: it was proved with QEMU 7.2",
        );
    }
}
