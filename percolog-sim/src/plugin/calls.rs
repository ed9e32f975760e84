//! Before and after each system call.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use crate::plugin::access::with_state;
use crate::plugin::architecture;
use crate::plugin::hot::{HOT, thread_of};
use crate::plugin::numbers as n;
use crate::plugin::qemu::PluginId;
use crate::plugin::registers::{Kept, Registers};
use crate::plugin::simulator::{Gate, Simulator, gate, simulator};
use crate::plugin::{baton, births, fatal, kind, processes, syscalls};

thread_local! {
    /// Whether this thread is in a system call, or has not run yet.
    static IN_CALL: Cell<bool> = const { Cell::new(true) };
    /// The call that this thread is about to make, to be compared with what QEMU says of it.
    static ABOUT: Cell<Option<[u64; 4]>> = const { Cell::new(None) };
    /// Whether the call was one that waits, made harmless because all threads are let go; and what is to be put back after.
    static SKIPPED: Cell<Option<Option<Kept>>> = const { Cell::new(None) };
}

/// The first thread begins: it is in no system call.
pub(crate) fn first_thread() {
    IN_CALL.set(false);
}

const EAGAIN: i64 = 11;

/// Obtains the turn for a system call: what threads say to each other through the kernel, they say in order.
fn in_order(vcpu: c_uint, state: *mut u64) -> Gate {
    match gate(vcpu, state) {
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
    /// A block begins that follows an instruction that makes a system call.
    after_call => after
);

extern "C" fn before(vcpu: c_uint, place: *mut c_void, state: *mut u64) {
    baton::set_state(state);
    IN_CALL.set(true);
    // SAFETY: the state is what the callback found.
    let mut registers = unsafe { Registers::new(state) };
    if in_order(vcpu, state) == Gate::LetGo {
        if baton::is_ending() {
            architecture::call_without_end(&mut registers);
            return;
        }
        if !processes::is_over() && births::forks(&registers) {
            processes::fork_unsimulated();
        }
        // A thread that waits now would wait in the host, where nobody would wake it: it is told that the word has
        // changed, and looks again.
        if registers.number() == n::FUTEX {
            if waits(registers.arguments()[1]) {
                SKIPPED.set(Some(registers.kept_number()));
                registers.set_number(n::GETPID);
            } else {
                Simulator::outside_as(thread_of(vcpu) as usize, |simulator| {
                    syscalls::before(simulator, &mut registers, place as u64);
                });
            }
        } else {
            // Another process may have to have the turn before the call returns.
            let thread = thread_of(vcpu) as usize;
            Simulator::outside(|simulator| simulator.leave_let_go(thread, registers.number()));
        }
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    simulator.interrupt_observation();
    let me = simulator.current();
    simulator.threads[me].place = place as u64;
    simulator.threads[me].spun_at = 0;
    simulator.free_files(registers.number() == n::MMAP);
    syscalls::before(simulator, &mut registers, place as u64);
    if baton::is_ending() && registers.number() != n::EXIT_GROUP {
        // QEMU removes the plugin from the code while it ends, and then lets the other threads run on until the kernel
        // ends them. A call that was replaced would return to them as it is, with nobody there to put its result right:
        // so whoever is about to make a call makes one that does not return.
        architecture::call_without_end(&mut registers);
    }
    ABOUT.set(Some(registers.seen_by_qemu()));
    if HOT.has_turn(vcpu) {
        kind::follow(vcpu, state);
    }
    simulator.outside_over(thread_of(vcpu) as usize);
}

extern "C" fn after(vcpu: c_uint, _data: *mut c_void, state: *mut u64) {
    if !IN_CALL.replace(false) {
        return;
    }
    baton::set_state(state);
    kind::learn(vcpu, state);
    // SAFETY: the state is what the callback found.
    let mut registers = unsafe { Registers::new(state) };
    if let Some(number) = SKIPPED.take() {
        if let Some(number) = number {
            registers.put_back(number);
        }
        registers.set_result((-EAGAIN) as u64);
        let _ = gate(vcpu, state);
        return;
    }
    processes::arrive(vcpu);
    if processes::gate_of_survivor(vcpu, state) == Gate::LetGo {
        Simulator::outside(|simulator| {
            syscalls::after(simulator, thread_of(vcpu) as usize, &mut registers);
        });
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    syscalls::after(simulator, thread_of(vcpu) as usize, &mut registers);
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
            "this QEMU keeps the guest's registers where the simulator does not find them: see the README's versions",
        );
    }
}
