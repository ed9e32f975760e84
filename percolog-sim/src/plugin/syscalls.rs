//! What becomes of a system call.
//!
//! Just before a `syscall` instruction (on aarch64, `svc`) the registers can be changed, and with them which call the emulator makes; at
//! the start of the block after it, so can the result. Each call is one of these ([`Step`]):
//!
//! * *quick*: the host makes it while the thread keeps its turn. The kernel is not simulated, so it costs what every
//!   call costs.
//! * *may block*: the thread leaves its core while the host makes it. When it returns depends on the host.
//! * *done*: the simulator has made it, and the host makes a harmless one in its place. Futexes, sleeps, clocks, random
//!   bytes and the number of processors are such calls: their results depend on simulated time and the seed only.
//! * *changed*: the host makes it with other arguments, such as a path of a file that describes the simulated machine.
//!
//! Calls that `decide` does not know may block. That is safe for a call that does not, and costs reproducibility;
//! the contrary would stop the program for ever.
//!
//! A kernel changes no register but `rax`, `rcx` and `r11`, and on aarch64 `x0`, the first argument's too. Whatever was changed for a call is therefore put back, and
//! so is the memory below the stack where changed arguments were written.

use crate::model::Ticks;
use crate::plugin::allocations::Block;
use crate::plugin::baton;
use crate::plugin::clock::{self, Rest};
use crate::plugin::fatal;
use crate::plugin::memory;
use crate::plugin::numbers as n;
use crate::plugin::processes::Child;
use crate::plugin::registers::{Kept, Registers};
use crate::plugin::report::Ending;
use crate::plugin::simulator::{KILLED, Simulator};
use crate::plugin::stacks::StackId;
use crate::plugin::thread::Sleep;

mod decide;

/// A system call as the guest asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Which one, by its number on x86-64.
    pub(crate) number: u64,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
    /// The guest's stack pointer.
    pub(crate) stack: u64,
}

impl Call {
    fn read(regs: &Registers) -> Call {
        Call {
            number: regs.number(),
            arguments: regs.arguments(),
            stack: regs.stack(),
        }
    }
}

/// What becomes of a call.
#[derive(Debug)]
pub(crate) enum Step {
    /// The host makes it at once.
    Quick,
    /// The host makes it, and may take its time.
    Blocks,
    /// The simulator has made it, with this result.
    Done(i64),
    /// The host makes it with changes, or something remains to be done after it.
    Changed(Change),
}

/// How a call differs from what the guest asked for.
#[derive(Debug)]
pub(crate) struct Change {
    /// The call to make, if it is another.
    pub(crate) number: Option<u64>,
    /// Arguments, by their place, that differ.
    pub(crate) arguments: Vec<(usize, u64)>,
    /// What was written below the stack for it.
    pub(crate) scratch: Option<Scratch>,
    /// Whether it may block.
    pub(crate) blocks: bool,
    /// What is to be done after it.
    pub(crate) then: Then,
}

impl Change {
    /// Nothing is changed, but something remains to be done. The call itself is replaced by a harmless one.
    pub(crate) fn nothing(then: Then) -> Change {
        Change {
            number: Some(n::GETPID),
            arguments: Vec::new(),
            scratch: None,
            blocks: false,
            then,
        }
    }

    /// The call is made as it is, and something remains to be done.
    pub(crate) fn followed_by(then: Then) -> Change {
        Change {
            number: None,
            ..Change::nothing(then)
        }
    }
}

/// What is to be done after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing.
    Nothing,
    /// The guest gets this result.
    Result(i64),
    /// The guest goes on sleeping.
    Sleep {
        /// Until then.
        deadline: Ticks,
        /// Where it is told how much is left.
        rest: Rest,
    },
    /// If the call timed out in the host's time, it has to have done so in simulated time too.
    Timeout(Ticks),
    /// It set the base of the segment `fs`.
    ThreadPointer(u64),
    /// A thread was made, and this one is told its number.
    Cloned,
    /// The guest has mapped so many bytes; without a file, on behalf of whom.
    Mapped {
        /// How many; 0 if that is not known.
        size: u64,
        /// Whether other processes may see them.
        shared: bool,
        /// Whether no file is mapped, and whose memory it then is.
        anonymous: Option<Option<StackId>>,
    },
    /// The process was forked: there are two of it now.
    Forked(Child),
    /// A signal was not fatal: the simulation goes on.
    Survived,
    /// The program was not replaced by another after all.
    Executed {
        /// Whether that one would have been simulated.
        is_simulated: bool,
    },
    /// A process of the machine was killed.
    Killed(usize),
    /// The host may have told of a child that has ended.
    Reaped {
        /// Where, if that is not the result.
        information: u64,
    },
}

/// Guest memory below the red zone of a stack, as it was before something was written there.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    address: u64,
    before: Vec<u8>,
}

/// Functions without a frame may use so many bytes below the stack pointer.
const RED_ZONE: u64 = 128;

impl Scratch {
    /// Where `length` bytes would be written.
    pub(crate) fn place(stack: u64, length: usize) -> Option<u64> {
        let below = stack.checked_sub(RED_ZONE)?.checked_sub(length as u64)?;
        Some(below & !15)
    }

    /// Writes below the stack; `None` if there is no room.
    ///
    /// What was there is kept and put back: some programs run system calls on small stacks (Go does), and what lies
    /// below may not be stack at all. The thread has the turn until then, so no other sees it.
    pub(crate) fn write(stack: u64, bytes: &[u8]) -> Option<(u64, Scratch)> {
        let address = Scratch::place(stack, bytes.len())?;
        let mut before = vec![0; bytes.len()];
        let written = memory::read(address, &mut before) && memory::write(address, bytes);
        written.then_some((address, Scratch { address, before }))
    }

    fn put_back(&self) {
        // It was writable a moment ago; if it is not any more, there is nothing to put it back to.
        let _ = memory::write(self.address, &self.before);
    }
}

/// A call under way.
#[derive(Clone, Debug)]
struct Pending {
    /// The instruction, and the stack pointer there: a signal's handler makes calls of its own before this one is over.
    pc: u64,
    stack: u64,
    /// Registers as the guest had them.
    registers: Vec<Kept>,
    scratch: Option<Scratch>,
    then: Then,
    /// Whether a signal's handler has run meanwhile.
    interrupted: bool,
}

impl Pending {
    /// Before the call is made again.
    fn undo(&self, regs: &mut Registers) {
        for &kept in &self.registers {
            regs.put_back(kept);
        }
        if let Some(scratch) = &self.scratch {
            scratch.put_back();
        }
    }

    /// After the call: what it has given stays.
    fn finish(&self, regs: &mut Registers) {
        for &kept in &self.registers {
            if !kept.is_result() {
                regs.put_back(kept);
            }
        }
        if let Some(scratch) = &self.scratch {
            scratch.put_back();
        }
    }
}

/// The calls that a thread has under way: more than one if a handler interrupted one and makes another.
#[derive(Clone, Debug, Default)]
pub(crate) struct After(Vec<Pending>);

impl After {
    /// A thread that was just made by `clone`: it finds the flags of the call, as every register, as its maker had them.
    pub(crate) fn of_new_thread(stack: u64, flags: u64) -> After {
        After(vec![Pending {
            pc: 0,
            stack,
            registers: vec![Kept::argument(0, flags)],
            scratch: None,
            then: Then::Nothing,
            interrupted: false,
        }])
    }
}

/// What is known of a thread before it begins.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// The word that is cleared when it ends; 0 if there is none.
    pub(crate) clear_tid: u64,
    /// What is left to be done of the call that made it.
    pub(crate) after: After,
}

/// Handlers that are left by a jump leave their calls behind: no more than this many are kept.
const MOST_PENDING: usize = 64;

/// Just before a `syscall` instruction at `pc`. The caller has the turn; afterwards it may have it no longer.
pub(crate) fn before(sim: &mut Simulator, regs: &mut Registers, pc: u64) {
    let me = sim.current();
    let stack = regs.stack();
    restart(&mut sim.threads[me].after, regs, pc, stack);
    let call = Call::read(regs);
    // A lock that is never held is not waited for in the kernel.
    let is_spared = call.number == n::FUTEX
        && sim.spares_waiting(sim.line(call.arguments[0] >> crate::plugin::hot::HOT.line_shift()));
    if !is_spared {
        sim.work(sim.settings.machine.costs.syscall);
        sim.pace();
    }
    if call.number == n::RT_SIGRETURN {
        // It does not return to the block after it, but to where the signal came.
        if let Some(pending) = sim.threads[me].after.0.last_mut() {
            pending.interrupted = true;
        }
        return;
    }
    let change = match decide::decide(sim, &call, regs, pc) {
        Step::Quick => return,
        Step::Blocks => {
            sim.leave(Sleep::Host(call.number as i64));
            return;
        }
        Step::Done(result) => match prepare_for_threads(sim, result) {
            Some(change) => change,
            None => Change::nothing(Then::Result(result)),
        },
        Step::Changed(change) => change,
    };
    // From here on the turn may be gone: only what belongs to this thread is touched.
    let mut registers = Vec::with_capacity(change.arguments.len() + 1);
    for &(index, value) in &change.arguments {
        registers.push(regs.kept_argument(index));
        regs.set_argument(index, value);
    }
    if let Some(number) = change.number {
        registers.extend(regs.kept_number());
        regs.set_number(number);
    }
    let after = &mut sim.threads[me].after.0;
    if after.len() == MOST_PENDING {
        after.remove(0);
    }
    after.push(Pending {
        pc,
        stack,
        registers,
        scratch: change.scratch,
        then: change.then,
        interrupted: false,
    });
    match change.then {
        Then::Forked(child) => sim.threads[child.thread].after = sim.threads[me].after.clone(),
        Then::Executed { is_simulated } => sim.execute(is_simulated),
        _ if change.blocks => sim.leave(Sleep::Host(call.number as i64)),
        _ => {}
    }
}

/// QEMU throws away all translated code, and waits for every thread to be outside, when a program begins its first thread
/// or maps shared memory, whichever comes first; later it does neither. A thread that has just begun must not be waited
/// for: so the first call that the simulator makes itself while there is one thread is replaced by mapping a page.
fn prepare_for_threads(sim: &mut Simulator, result: i64) -> Option<Change> {
    /// `MAP_SHARED | MAP_ANONYMOUS`.
    const SHARED: u64 = 0x21;
    let process = sim.process();
    if sim.alive() != 1 || std::mem::replace(&mut sim.processes[process].prepared_for_threads, true)
    {
        return None;
    }
    let arguments = [0, 4096, 0, SHARED, u64::MAX, 0];
    Some(Change {
        number: Some(n::MMAP),
        arguments: arguments.into_iter().enumerate().collect(),
        ..Change::nothing(Then::Result(result))
    })
}

/// A call that a signal interrupted may be made again from the start, with the registers that it was made with: then
/// these are the changed ones, and what they point to is gone.
fn restart(after: &mut After, regs: &mut Registers, pc: u64, stack: u64) {
    let same = |pending: &Pending| pending.pc == pc && pending.stack == stack;
    if after.0.last().is_some_and(same)
        && let Some(pending) = after.0.pop()
    {
        pending.undo(regs);
    }
}

/// At the start of the block after a `syscall` instruction of `thread`. It has the turn, unless QEMU needed it
/// meanwhile or all threads are let go: then its call is finished without a further wait.
pub(crate) fn after(sim: &mut Simulator, thread: usize, regs: &mut Registers) {
    let has_turn = thread == sim.current() && !baton::is_draining();
    let stack = regs.stack();
    let pending = &mut sim.threads[thread].after.0;
    // Calls of handlers that were left by a jump lie on top of the one that is over.
    let Some(found) = pending.iter().rposition(|pending| pending.stack == stack) else {
        return;
    };
    pending.truncate(found + 1);
    let Some(pending) = pending.pop() else {
        return;
    };
    pending.finish(regs);
    let result = regs.result() as i64;
    let result = match pending.then {
        Then::Nothing => return,
        Then::Result(result) => result,
        Then::Sleep { deadline, rest } if has_turn && !pending.interrupted => {
            clock::sleep_on(sim, deadline, rest)
        }
        Then::Sleep { deadline, rest } => {
            let now = if has_turn {
                sim.now()
            } else {
                sim.threads[thread].time
            };
            clock::interrupted(&sim.settings.machine, deadline.saturating_sub(now), rest)
        }
        Then::Timeout(deadline) => {
            if result == 0 && has_turn && deadline > sim.now() {
                sim.sleep(Sleep::Time, Some(deadline));
            }
            return;
        }
        Then::ThreadPointer(address) => {
            if result == 0 && !regs.find_segments(address) {
                fatal(
                    "this QEMU keeps the guest's thread pointer where the simulator does not find it: see the README's \
                     versions",
                );
            }
            return;
        }
        Then::Cloned => {
            if result > 0 {
                sim.name_thread(result as i32);
            } else {
                sim.expect_no_thread();
            }
            return;
        }
        Then::Forked(child) => {
            // The child itself has nothing left to do.
            if result != 0 {
                sim.end_fork(child, u32::try_from(result).ok());
                sim.resume();
            }
            return;
        }
        Then::Survived | Then::Executed { .. } => {
            sim.guest().emulator.stays();
            sim.resume();
            return;
        }
        Then::Killed(process) => {
            if result == 0 {
                sim.end_process(process, Ending::Signal(KILLED));
            }
            return;
        }
        Then::Reaped { information } => {
            let pid = match information {
                0 => u32::try_from(result).ok(),
                at => memory::read_u32(at.wrapping_add(SIGINFO_PID)),
            };
            if has_turn && let Some(pid) = pid.filter(|&pid| pid != 0 && result >= 0) {
                sim.reaped(pid);
            }
            return;
        }
        Then::Mapped {
            size,
            shared,
            anonymous,
        } => {
            // Addresses are positive numbers, and errors are not.
            if let Ok(start @ 1..) = u64::try_from(result) {
                if shared {
                    sim.note_shared(start, size);
                }
                if let Some(stack) = anonymous {
                    let start = sim.place(start);
                    sim.witness.mappings.give(Block { start, size, stack });
                }
            }
            return;
        }
    };
    regs.set_result(result as u64);
}

/// Where a `siginfo_t` has the number of a child.
const SIGINFO_PID: u64 = 12;
