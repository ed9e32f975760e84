//! When functions of the guest are called, and when they return.
//!
//! A function begins where a block begins, so that the first is known when the block is translated ([`code`]). Where it
//! will end is not: it may be left through a jump into another function, which returns in its place. So what is noted of
//! a call is the place of its return address on the stack; the callback of every return, which is there for its access to
//! memory, looks whether it is about to use such a place. That costs a return that nobody waits for one comparison.
//!
//! Whatever returns through the noted place ends the call, be it on another thread, as with goroutines. A call that is
//! left in another way (a jump out of several functions, an exception, the end of its thread) ends when its place on
//! the stack is used for another call; its return is missed.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::model::Ticks;
use crate::plugin::access::{self, Site, with_state};
use crate::plugin::allocations::Request;
use crate::plugin::architecture;
use crate::plugin::baton;
use crate::plugin::code::{self, Hook};
use crate::plugin::common::Common;
use crate::plugin::hot::{HOT, thread_of};
use crate::plugin::kind;
use crate::plugin::qemu::{Execution, Instruction, Uses};
use crate::plugin::registers::{Register, Registers};
use crate::plugin::simulator::{Gate, Simulator, gate, simulator};
use crate::plugin::spaces::Spaces;
use crate::plugin::stacks::Purpose;

/// A function that somebody wants to know of, for its callback.
#[derive(Debug)]
pub(crate) struct Function {
    hook: Hook,
    pc: u64,
}

impl Function {
    /// What is to be called before the block at `pc`, if it begins such a function.
    pub(crate) fn at(pc: u64) -> Option<(Execution, Function)> {
        let hook = code::wanted(pc)?;
        Some((before_function, Function { hook, pc }))
    }

    /// Whether it is the region.
    pub(crate) fn is_region(&self) -> bool {
        matches!(self.hook, Hook::Region { .. })
    }
}

/// The callback of an instruction that returns, in place of that of its access.
pub(crate) fn callback_of_return(bytes: &[u8]) -> Option<Execution> {
    let by_stack = architecture::layout().link.is_none();
    (by_stack && architecture::is_return(bytes)).then_some(before_return)
}

/// Looks at an instruction that returns without an access to memory: the return address is in a register.
pub(crate) fn watch_return(instruction: &mut Instruction) {
    if architecture::layout().link.is_some() && architecture::is_return(&instruction.bytes()) {
        instruction.before(before_linked_return, Uses::Reads, ptr::null_mut());
    }
}

/// Looks at an instruction that returns, in what is skipped: its access to memory is nobody's concern.
pub(crate) fn watch_skipped_return(instruction: &mut Instruction) {
    if architecture::layout().link.is_none() && architecture::is_return(&instruction.bytes()) {
        instruction.before(before_skipped_return, Uses::Reads, ptr::null_mut());
    }
}

/// Where a function that begins, or is about to return, goes back to.
fn return_address(registers: &Registers) -> u64 {
    registers.link().unwrap_or_else(|| {
        // SAFETY: a return address lies where the stack ends when a function begins and when it returns: whoever called it
        // has written it there, in memory that can be read.
        unsafe { ptr::read_unaligned(registers.stack() as *const u64) }
    })
}

/// How many calls wait to return at addresses of each kind.
static AWAITED: Common<[AtomicU16; 256]> = Common::new([const { AtomicU16::new(0) }; 256]);

/// Has the numbers shared with forked processes.
pub(crate) fn share() {
    AWAITED.share();
}

fn awaited(stack: u64) -> &'static AtomicU16 {
    &AWAITED[(stack >> 3) as usize % AWAITED.len()]
}

/// A call that has not returned.
#[derive(Clone, Debug)]
struct Awaited {
    /// Where its return address lies.
    stack: u64,
    returns_to: u64,
    /// Who made it, and in which process.
    thread: usize,
    process: usize,
    what: What,
}

impl Awaited {
    /// Whether its return address lies there.
    fn is_at(&self, process: usize, stack: u64) -> bool {
        self.stack == stack && self.process == process
    }
}

#[derive(Clone, Debug)]
enum What {
    Allocation(Request),
    Region {
        /// The thread or goroutine.
        owner: u64,
        /// Whether it was called from outside itself.
        outermost: bool,
    },
}

/// The calls that have not returned.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    calls: Vec<Awaited>,
}

impl Functions {
    fn push(&mut self, call: Awaited) {
        // Relaxed: a hint; only the thread that has the turn changes it, and calls that return late are found anew.
        awaited(call.stack).fetch_add(1, Ordering::Relaxed);
        self.calls.push(call);
    }

    /// The calls that return through this place, the innermost first.
    fn take(&mut self, which: impl Fn(&Awaited) -> bool) -> Vec<Awaited> {
        let mut taken = Vec::new();
        for index in (0..self.calls.len()).rev() {
            if which(&self.calls[index]) {
                let call = self.calls.remove(index);
                // Relaxed: see `push`.
                awaited(call.stack).fetch_sub(1, Ordering::Relaxed);
                taken.push(call);
            }
        }
        taken
    }
}

with_state!(
    /// A function begins that somebody wants to know of.
    before_function => entered
);
with_state!(
    /// A function returns.
    before_return => returning
);
with_state!(
    /// A function returns to where a register says.
    before_linked_return => returning_only
);
with_state!(
    /// A function returns in what is skipped.
    before_skipped_return => returning_only
);

extern "C" fn entered(vcpu: c_uint, function: &'static Function, state: *mut u64) {
    in_turn(vcpu, state, |simulator, thread, now, registers| {
        simulator.function_entered(function, thread, now, registers);
    });
    if function.is_region() && HOT.has_turn(vcpu) {
        kind::end_if_skipped(vcpu, state);
    }
}

extern "C" fn returning(vcpu: c_uint, site: &'static Site, state: *mut u64) {
    access::based(vcpu, site, state);
    // SAFETY: the state begins with sixteen registers.
    let stack = unsafe { *state.add(Register::Rsp as usize) };
    // Relaxed: see `Functions::push`.
    if awaited(stack).load(Ordering::Relaxed) > 0 {
        returned(vcpu, stack, state);
    }
}

extern "C" fn returning_only(vcpu: c_uint, _data: *mut c_void, state: *mut u64) {
    // SAFETY: the stack pointer is one of the words of the state.
    let stack = unsafe { *state.add(architecture::layout().stack) };
    // Relaxed: see `Functions::push`.
    if awaited(stack).load(Ordering::Relaxed) > 0 {
        returned(vcpu, stack, state);
    }
}

#[cold]
#[inline(never)]
fn returned(vcpu: c_uint, stack: u64, state: *mut u64) {
    in_turn(vcpu, state, |simulator, thread, now, registers| {
        simulator.function_returned(thread, stack, now, registers);
    });
}

/// Does something in the turn of the calling thread; without it while the one that has it waits for this thread.
fn in_turn(
    vcpu: c_uint,
    state: *mut u64,
    action: impl FnOnce(&mut Simulator, usize, Ticks, &Registers),
) {
    baton::set_state(state);
    let thread = thread_of(vcpu) as usize;
    // SAFETY: the state is what the callback found.
    let registers = unsafe { Registers::new(state) };
    if gate(vcpu, state) == Gate::Open {
        // SAFETY: the caller has the turn.
        let simulator = unsafe { simulator() };
        let now = simulator.now();
        action(simulator, thread, now, &registers);
    } else {
        Simulator::outside(|simulator| {
            let now = simulator.threads[thread].time;
            action(simulator, thread, now, &registers);
        });
    }
}

impl Simulator {
    fn function_entered(
        &mut self,
        function: &Function,
        thread: usize,
        now: Ticks,
        registers: &Registers,
    ) {
        let stack = registers.stack();
        let returns_to = return_address(registers);
        let process = self.threads[thread].process;
        let left = self
            .functions
            .take(|call| call.is_at(process, stack) && call.returns_to != returns_to);
        for call in left {
            if let What::Region { .. } = call.what {
                self.tally.end(call.thread, 0, now);
            }
        }
        let what = match function.hook {
            Hook::Region { go } => {
                // Go keeps the goroutine in a register.
                let owner = if go {
                    registers.goroutine()
                } else {
                    thread as u64
                };
                let mut outermost = true;
                for call in &self.functions.calls {
                    if let What::Region { owner: other, .. } = call.what
                        && other == owner
                        && call.process == process
                    {
                        if call.stack == stack {
                            // It has jumped to its own beginning, and has not been called again.
                            return;
                        }
                        outermost = false;
                    }
                }
                self.enter_region(thread, now);
                What::Region { owner, outermost }
            }
            Hook::Allocator(kind) => {
                let witness = &mut self.witness;
                let owner = Spaces::of_private(process);
                let request = witness.blocks.called(kind, registers, owner, || {
                    witness
                        .stacks
                        .number(function.pc, registers, Purpose::Memory, || true)
                });
                match request {
                    Some(request) => What::Allocation(request),
                    None => return,
                }
            }
        };
        self.functions.push(Awaited {
            stack,
            returns_to,
            thread,
            process,
            what,
        });
    }

    fn function_returned(&mut self, thread: usize, stack: u64, now: Ticks, registers: &Registers) {
        let process = self.threads[thread].process;
        let returns_to = return_address(registers);
        // Where a register has the return address, functions that the noted one has called may return with its stack
        // pointer too: the stack has no place that is the noted one's alone.
        let by_stack = registers.link().is_none();
        let ends = |call: &Awaited| {
            call.is_at(process, stack) && (by_stack || call.returns_to == returns_to)
        };
        for call in self.functions.take(ends) {
            let returns = call.returns_to == returns_to;
            match call.what {
                What::Allocation(request) if returns => {
                    let result = registers.result();
                    let owner = Spaces::of_private(process);
                    self.witness.blocks.returned(&request, result, owner);
                }
                What::Allocation(_) => {}
                What::Region { outermost, .. } => {
                    let operations = u64::from(outermost && returns);
                    self.tally.end(call.thread, operations, now);
                }
            }
        }
    }

    /// A thread has ended: it returns from nothing any more.
    pub(crate) fn forget_calls(&mut self, thread: usize) {
        drop(self.functions.take(|call| call.thread == thread));
    }

    /// A thread was forked: it returns from what its maker returns from.
    pub(crate) fn inherit_calls(&mut self, maker: usize, thread: usize) {
        let process = self.threads[thread].process;
        let of_maker = self.functions.calls.iter();
        let of_maker = of_maker.filter(|call| call.thread == maker);
        let inherited: Vec<Awaited> = of_maker
            .map(|call| Awaited {
                thread,
                process,
                what: match call.what {
                    // Threads are known by their numbers, and goroutines by what they have.
                    What::Region { owner, outermost } if owner == maker as u64 => What::Region {
                        owner: thread as u64,
                        outermost,
                    },
                    ref what => what.clone(),
                },
                ..*call
            })
            .collect();
        for call in inherited {
            self.functions.push(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_are_recognized() {
        for (is_return, bytes) in [
            (true, &[0xc3][..]),
            (true, &[0xf3, 0xc3]),
            (true, &[0xf2, 0xc3]),
            (true, &[0xc2, 8, 0]),
            (false, &[0xcb]),
            (false, &[0x0f, 0xc3, 0x00]),
            (false, &[0xf3, 0xa4]),
        ] {
            assert_eq!(callback_of_return(bytes).is_some(), is_return, "{bytes:x?}");
        }
    }

    #[test]
    fn a_place_is_awaited_as_long_as_a_call_is_to_return_there() {
        let mut functions = Functions::default();
        let call = |stack| Awaited {
            stack,
            returns_to: 1,
            thread: 0,
            process: 0,
            what: What::Region {
                owner: 0,
                outermost: true,
            },
        };
        let waits = |stack| awaited(stack).load(Ordering::Relaxed);
        functions.push(call(0x5008));
        functions.push(call(0x5008));
        functions.push(call(0x5010));
        assert_eq!((waits(0x5008), waits(0x5010)), (2, 1));
        assert_eq!(functions.take(|call| call.stack == 0x5008).len(), 2);
        assert_eq!((waits(0x5008), waits(0x5010)), (0, 1));
        drop(functions.take(|_| true));
        assert_eq!(waits(0x5010), 0);
    }
}
