//! What is added to each block of instructions when QEMU translates it.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::{Costs, Ticks};
use crate::plugin::access::{self, Site, with_state};
use crate::plugin::decode::{Class, decode};
use crate::plugin::hot::HOT;
use crate::plugin::qemu::{Block, Instruction, PluginId};
use crate::plugin::registers::{Register, Registers};
use crate::plugin::simulator::{Gate, gate, simulator};
use crate::plugin::thread::Fix;
use crate::plugin::{baton, calls, guest, memory, verify};

/// What has to be known when a block is translated.
struct Plan {
    costs: Costs,
    verify: bool,
}

static PLAN: OnceLock<Plan> = OnceLock::new();
static TOLD_OF_AVX512: AtomicBool = AtomicBool::new(false);

/// What the clock says when the simulation begins, in cycles: a machine that has run for a while.
const CLOCK_BASE: u64 = 1 << 40;

/// Prepares translation.
pub(crate) fn prepare(costs: Costs, verify: bool) {
    let _ = PLAN.set(Plan { costs, verify });
}

impl Costs {
    /// What an instruction of this class costs.
    fn of(&self, class: Class, bytes: &[u8]) -> Ticks {
        match class {
            // What `rdtscp` waits for is what an `lfence` before `rdtsc` waits for.
            Class::Fence if is_load_fence(bytes) => {
                self.rdtscp.saturating_sub(self.rdtsc).max(self.plain)
            }
            Class::Plain | Class::Other => self.plain,
            Class::Locked => self.locked,
            Class::Fence => self.fence,
            Class::Rdtsc => self.rdtsc,
            Class::Rdtscp => self.rdtscp,
            Class::Pause => self.pause,
            Class::Cpuid => self.cpuid,
            // Charged when it is made.
            Class::Syscall => self.plain,
        }
    }
}

/// `lfence`, which does not wait for stores.
fn is_load_fence(bytes: &[u8]) -> bool {
    matches!(bytes, [.., 0x0f, 0xae, 0xe8..=0xef])
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
            decode(instruction.bytes(), instruction.address())
        })
        .collect();
    let costs: Vec<Ticks> = decoded
        .iter()
        .enumerate()
        .map(|(index, decoded)| {
            plan.costs
                .of(decoded.class, block.instruction(index).bytes())
        })
        .collect();
    let total: Ticks = costs.iter().sum();

    let start = block.instruction(0).address();
    let before = bytes_before(start);
    if before.ends_with(&[0x0f, 0x05]) {
        block.before(calls::after_call, ptr::null_mut());
    }
    if decoded
        .iter()
        .all(|decoded| decoded.known && decoded.operands.iter().flatten().next().is_none())
    {
        block.before(access::before_empty, ptr::null_mut());
    }
    // SAFETY: the words are static.
    unsafe {
        block.add(HOT.cycles_word(), total);
        block.add(HOT.instructions_word(), length as u64);
    }

    let mut ahead = total;
    let mut asked = question_before(&before);
    for (index, decoded) in decoded.iter().enumerate() {
        let instruction = block.instruction(index);
        let place = instruction.address();
        let after = ahead - costs[index];
        if let Some(class) = asked {
            instruction.before(answer, leak(Question { class, ahead }));
        }
        asked = None;
        if decoded.avx512 {
            tell_of_avx512(place);
        }
        match decoded.class {
            Class::Syscall => instruction.before(calls::before_call, place as *mut c_void),
            Class::Rdtsc | Class::Rdtscp | Class::Cpuid => {
                let question = Question {
                    class: decoded.class,
                    ahead: after,
                };
                instruction.before(ask, leak(question));
                asked = Some(decoded.class);
            }
            Class::Fence if !is_load_fence(instruction.bytes()) => {
                instruction.before(fence, leak(ahead));
            }
            _ => {}
        }
        if decoded.known {
            let sites: Vec<_> = decoded.operands.iter().flatten().collect();
            for operand in &sites {
                let locked = decoded.class == Class::Locked;
                let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
                let site = Site::new(operand, place, ahead, locked, decoded.rep);
                watch(instruction, site, plan.verify && sites.len() == 1);
            }
        } else {
            instruction.after_access(access::after_unknown, place as *mut c_void);
        }
        ahead = after;
    }
}

fn watch(instruction: &mut Instruction, site: Site, verified: bool) {
    let callback = site.callback();
    let site = leak(site);
    if verified {
        instruction.before(access::before_verified, site);
        instruction.after_access(verify::compare, site);
    }
    instruction.before(callback, site);
}

/// Translated code refers to it for as long as the process lives; QEMU translates each block a few times at most.
fn leak<T>(data: T) -> *mut c_void {
    Box::into_raw(Box::new(data)).cast()
}

/// The bytes of the three instructions' lengths that matter before a block, as far as they can be read.
fn bytes_before(start: u64) -> Vec<u8> {
    let mut bytes = [0; 3];
    let length = bytes.len() as u64;
    if start & 0xfff >= length {
        // SAFETY: the bytes lie in the page that QEMU is translating.
        return unsafe { ptr::read_unaligned((start - length) as *const [u8; 3]) }.to_vec();
    }
    if memory::read(start.saturating_sub(length), &mut bytes) {
        bytes.to_vec()
    } else {
        Vec::new()
    }
}

/// Whether a block begins after an instruction whose result is to be replaced. (What merely looks like one does no
/// harm: the thread knows what it has asked.)
fn question_before(bytes: &[u8]) -> Option<Class> {
    match bytes {
        [.., 0x0f, 0x31] => Some(Class::Rdtsc),
        [.., 0x0f, 0x01, 0xf9] => Some(Class::Rdtscp),
        [.., 0x0f, 0xa2] => Some(Class::Cpuid),
        _ => None,
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
    /// Stores are about to be waited for.
    fence => fenced
);

extern "C" fn asked(vcpu: c_uint, question: &'static Question, state: *mut u64) {
    baton::set_state(state);
    if gate(vcpu as usize, state) == Gate::LetGo {
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
    if gate(vcpu as usize, state) == Gate::LetGo {
        return;
    }
    // SAFETY: the caller has the turn, and the state is what the callback found.
    let (simulator, mut registers) = unsafe { (simulator(), Registers::new(state)) };
    let me = simulator.current();
    match std::mem::replace(&mut simulator.threads[me].fix, Fix::Nothing) {
        Fix::Nothing => {}
        Fix::Clock { core } => {
            let now =
                CLOCK_BASE + (simulator.now() - question.ahead) / crate::model::TICKS_PER_CYCLE;
            registers.set(Register::Rax, now & 0xffff_ffff);
            registers.set(Register::Rdx, now >> 32);
            if core {
                let core = simulator.threads[me].core.unwrap_or(0);
                let chip = simulator.settings.machine.chip_of(core) as u64;
                registers.set(Register::Rcx, u64::from(core) | (chip << 12));
            }
        }
        Fix::Identity { leaf, subleaf } => guest::cpuid(simulator, leaf, subleaf, &mut registers),
    }
}

extern "C" fn fenced(vcpu: c_uint, ahead: &'static Ticks, state: *mut u64) {
    baton::set_state(state);
    if gate(vcpu as usize, state) == Gate::LetGo {
        return;
    }
    // SAFETY: the caller has the turn.
    let simulator = unsafe { simulator() };
    let me = simulator.current();
    if let Some(core) = simulator.threads[me].core {
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
