//! What is added to each block of instructions when QEMU translates it.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::{Costs, Ticks};
use crate::plugin::access::{self, Site, with_state};
use crate::plugin::architecture::{self, Access3, Class, decode, is_load_fence};
use crate::plugin::functions::{self, Function};
use crate::plugin::hot::HOT;
use crate::plugin::kind::{self, Kind};
use crate::plugin::qemu::{Block, Instruction, PluginId, Uses};
use crate::plugin::registers::{Register, Registers};
use crate::plugin::settings::Settings;
use crate::plugin::simulator::{Gate, gate, simulator};
use crate::plugin::thread::Fix;
use crate::plugin::{baton, calls, costs, guest, memory, repeated, verify};

/// What has to be known when a block is translated.
struct Plan {
    costs: Costs,
    verify: bool,
    chaos: bool,
    /// Whether somebody wants to know of functions.
    functions: bool,
}

static PLAN: OnceLock<Plan> = OnceLock::new();
static TOLD_OF_AVX512: AtomicBool = AtomicBool::new(false);

/// What the clock says when the simulation begins, in cycles: a machine that has run for a while.
const CLOCK_BASE: u64 = 1 << 40;

/// Prepares translation.
pub(crate) fn prepare(settings: &Settings) {
    let _ = PLAN.set(Plan {
        costs: settings.machine.costs,
        verify: settings.verify,
        chaos: settings.chaos,
        functions: settings.objects || !settings.region_functions.is_empty(),
    });
}

/// What a block adds to the clock and to the number of instructions, in one word.
struct Account {
    total: Ticks,
    length: u64,
}

impl Account {
    /// QEMU translates at most 512 instructions at a time.
    const LENGTH_BITS: u32 = 16;

    fn new(total: Ticks, length: usize) -> Account {
        let length = length as u64;
        Account { total, length }
    }

    fn packed(&self) -> *mut c_void {
        (self.total << Self::LENGTH_BITS | self.length) as *mut c_void
    }

    fn unpacked(data: *mut c_void) -> Account {
        let word = data as u64;
        Account {
            total: word >> Self::LENGTH_BITS,
            length: word & ((1 << Self::LENGTH_BITS) - 1),
        }
    }
}

/// A block begins, of a QEMU that does not add by itself.
extern "C" fn account(_vcpu: c_uint, data: *mut c_void) {
    let Account { total, length } = Account::unpacked(data);
    // SAFETY: the words are static. As when QEMU adds, a thread that was let go may add at the same time; then one of
    // the two sums is lost.
    unsafe {
        let (cycles, instructions) = (HOT.cycles_word(), HOT.instructions_word());
        ptr::write_volatile(cycles, ptr::read_volatile(cycles).wrapping_add(total));
        let counted = ptr::read_volatile(instructions).wrapping_add(length);
        ptr::write_volatile(instructions, counted);
    }
}

/// A place where the result of an instruction of the processor is asked for or replaced.
struct Question {
    class: Class,
    /// What the block costs after the instruction.
    ahead: Ticks,
}

/// Called by QEMU for each block.
pub(crate) extern "C" fn block(_id: PluginId, block: *mut Block) {
    // SAFETY: QEMU lends the block for the time of this call.
    let block = unsafe { &mut *block };
    let plan = PLAN
        .get()
        .expect("`prepare` was called when the plugin was loaded");
    let length = block.length();
    if length == 0 {
        return;
    }
    let decoded: Vec<_> = (0..length)
        .map(|index| {
            let instruction = block.instruction(index);
            let bytes = instruction.bytes();
            (decode(&bytes, instruction.address()), is_load_fence(&bytes))
        })
        .collect();
    let costs = costs::of_block(&plan.costs, &decoded);
    let total: Ticks = costs.iter().sum();

    let start = block.instruction(0).address();
    let before = bytes_before(start);
    if architecture::ends_with_call(&before) {
        block.before(calls::after_call, Uses::Changes, ptr::null_mut());
    }
    let mut kind = kind::of_translation();
    if let Some((callback, function)) = Function::at(start) {
        if function.is_region() {
            // It counts from its first instruction on, although whoever calls it first comes from what is skipped.
            kind = Kind::Whole;
        }
        block.before(callback, Uses::Reads, leak(function));
    }
    if kind == Kind::Skipped {
        block.before(access::before_skipped, Uses::Reads, ptr::null_mut());
    } else if kind == Kind::Whole
        && decoded
            .iter()
            .all(|(decoded, _)| decoded.known && decoded.operands.iter().flatten().next().is_none())
    {
        block.before(access::before_empty, Uses::Reads, ptr::null_mut());
    }
    // SAFETY: the words are static.
    let added = unsafe {
        block.add(HOT.cycles_word(), total) && block.add(HOT.instructions_word(), length as u64)
    };
    if !added {
        // In this order as well: it was asked for last.
        block.before(account, Uses::Reads, Account::new(total, length).packed());
    }

    let mut ahead = total;
    let mut asked = architecture::ends_with_question(&before);
    for (index, (decoded, waits_for_loads_only)) in decoded.iter().enumerate() {
        let instruction = block.instruction(index);
        let place = instruction.address();
        let after = ahead - costs[index];
        if let Some(class) = asked {
            instruction.before(answer, Uses::Changes, leak(Question { class, ahead }));
        }
        asked = None;
        if decoded.avx512 {
            tell_of_avx512(place);
        }
        match decoded.class {
            Class::Syscall => {
                instruction.before(calls::before_call, Uses::Changes, place as *mut c_void)
            }
            Class::Rdtsc | Class::Rdtscp | Class::Cpuid => {
                let question = Question {
                    class: decoded.class,
                    ahead: after,
                };
                instruction.before(ask, Uses::Reads, leak(question));
                asked = Some(decoded.class);
            }
            Class::Fence if kind == Kind::Whole && !waits_for_loads_only => {
                instruction.before(fence, Uses::Reads, leak(ahead));
            }
            Class::Counter => instruction.before(counter, Uses::Reads, ptr::null_mut()),
            _ => {}
        }
        functions::watch_return(instruction);
        if kind != Kind::Whole {
            if plan.functions {
                functions::watch_skipped_return(instruction);
            }
        } else if decoded.known {
            let sites: Vec<_> = decoded.operands.iter().flatten().collect();
            if decoded.rep {
                let cost = costs::of_element(&plan.costs, decoded);
                repeated::watch(instruction, place, cost, sites.len());
            }
            for operand in &sites {
                let locked = decoded.class == Class::Locked;
                let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
                let site = Site::new(operand, place, ahead, locked, decoded.rep);
                let site = watch(instruction, site, plan.verify && sites.len() == 1);
                if plan.chaos && operand.access == Access3::Modify && !locked && sites.len() == 1 {
                    instruction.after_access(access::between, site);
                }
            }
        } else {
            instruction.after_access(access::after_unknown, place as *mut c_void);
        }
        ahead = after;
    }
}

fn watch(instruction: &mut Instruction, site: Site, verified: bool) -> *mut c_void {
    let callback =
        functions::callback_of_return(&instruction.bytes()).unwrap_or_else(|| site.callback());
    let site = leak(site);
    if verified {
        instruction.before(access::before_verified, Uses::Reads, site);
        instruction.after_access(verify::compare, site);
    }
    instruction.before(callback, Uses::Reads, site);
    site
}

/// Translated code refers to it for as long as the process lives; QEMU translates each block a few times at most.
fn leak<T>(data: T) -> *mut c_void {
    Box::into_raw(Box::new(data)).cast()
}

/// The bytes before a block that tell which instruction led to it, as far as they can be read.
fn bytes_before(start: u64) -> Vec<u8> {
    let mut bytes = vec![0; architecture::bytes_before()];
    let length = bytes.len() as u64;
    if start & 0xfff >= length {
        // SAFETY: the bytes lie in the page that QEMU is translating.
        unsafe {
            ptr::copy_nonoverlapping(
                (start - length) as *const u8,
                bytes.as_mut_ptr(),
                bytes.len(),
            );
        }
        return bytes;
    }
    if memory::read(start.saturating_sub(length), &mut bytes) {
        bytes
    } else {
        Vec::new()
    }
}

with_state!(
    /// The processor is about to be asked for the time or for what it is.
    ask => asked
);
with_state!(
    /// It has answered.
    answer => answered
);
with_state!(
    /// A clock is about to be read whose answer cannot be replaced.
    counter => counter_read
);
with_state!(
    /// Stores are about to be waited for.
    fence => fenced
);

extern "C" fn asked(vcpu: c_uint, question: &'static Question, state: *mut u64) {
    baton::set_state(state);
    if gate(vcpu, state) == Gate::LetGo {
        return;
    }
    // SAFETY: the caller has the turn, and the state is what the callback found.
    let (simulator, registers) = unsafe { (simulator(), Registers::new(state)) };
    simulator.interrupt_observation();
    let me = simulator.current();
    simulator.threads[me].fix = match question.class {
        Class::Cpuid => Fix::Identity {
            leaf: registers.get(Register::Rax) as u32,
            subleaf: registers.get(Register::Rcx) as u32,
        },
        class => Fix::Clock {
            core: class == Class::Rdtscp,
        },
    };
}

extern "C" fn answered(vcpu: c_uint, question: &'static Question, state: *mut u64) {
    baton::set_state(state);
    if gate(vcpu, state) == Gate::LetGo {
        return;
    }
    // SAFETY: the caller has the turn, and the state is what the callback found.
    let (simulator, mut registers) = unsafe { (simulator(), Registers::new(state)) };
    let me = simulator.current();
    match std::mem::replace(&mut simulator.threads[me].fix, Fix::Nothing) {
        Fix::Nothing => {}
        Fix::Clock { core } => {
            simulator.pace();
            let now =
                CLOCK_BASE + (simulator.now() - question.ahead) / crate::model::TICKS_PER_CYCLE;
            registers.set(Register::Rax, now & 0xffff_ffff);
            registers.set(Register::Rdx, now >> 32);
            if core {
                let (processor, chip) = guest::here(simulator);
                registers.set(
                    Register::Rcx,
                    u64::from(processor) | (u64::from(chip) << 12),
                );
            }
        }
        Fix::Identity { leaf, subleaf } => guest::cpuid(simulator, leaf, subleaf, &mut registers),
    }
}

extern "C" fn counter_read(vcpu: c_uint, _data: *mut c_void, state: *mut u64) {
    baton::set_state(state);
    if gate(vcpu, state) == Gate::Open {
        // SAFETY: the caller has the turn.
        let simulator = unsafe { simulator() };
        simulator.unreproducible("the processor's counter, which shows the host's time");
    }
}

extern "C" fn fenced(vcpu: c_uint, ahead: &'static Ticks, state: *mut u64) {
    baton::set_state(state);
    if gate(vcpu, state) == Gate::LetGo {
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    let me = simulator.current();
    if let Some(core) = simulator.core_of(me) {
        simulator.pace();
        let now = simulator.now() - ahead;
        let done = simulator.directory.fence(core, now);
        simulator.charge(done - now);
    }
}

fn tell_of_avx512(place: u64) {
    // Relaxed: it is told once, whoever comes first.
    if !TOLD_OF_AVX512.swap(true, Ordering::Relaxed) {
        crate::plugin::say(&format!(
            "the program has AVX-512 instructions (the first at {place:#x}), which QEMU does not know: it will end with \
             SIGILL if it runs them; build it without `-march=native`, `-C target-cpu=native`"
        ));
    }
}
