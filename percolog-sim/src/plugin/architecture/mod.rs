//! What is different from processor to processor: everything that the simulator knows of the guest's instructions, its
//! registers and the numbers of its system calls stands behind this module.
//!
//! QEMU says when it loads the plugin which processor it emulates; that is noted once, before anything is translated.
//! From then on
//!
//! * [`decode`] describes an instruction in terms that hold for all processors: which memory it touches, and what kind
//!   it is ([`description`]);
//! * [`layout`] says where QEMU keeps which register ([`Registers`](crate::plugin::registers::Registers) asks it);
//! * [`canonical`] and [`native`] translate numbers of system calls from and to those of x86-64, which the rest of the
//!   simulator speaks.
//!
//! What is asked for each access of a running program is not asked here: an access has a callback that suits its
//! processor, chosen when it is translated.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::plugin::registers::Registers;

pub(crate) mod aarch64;
mod description;
pub(crate) mod x86_64;

pub(crate) use description::{Access3, Class, Decoded, NONE, Operand, Segment, Sum, Unit};

/// The processors whose programs can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Architecture {
    /// Intel's and AMD's, with 64 bits.
    X86_64,
    /// ARM's, with 64 bits.
    Aarch64,
}

/// The guest's processor, by its number.
static CHOSEN: AtomicU8 = AtomicU8::new(Architecture::X86_64 as u8);

/// The guest's processor.
#[inline]
pub(crate) fn current() -> Architecture {
    // Relaxed: set before the guest's first instruction, when there is one thread.
    if CHOSEN.load(Ordering::Relaxed) == Architecture::X86_64 as u8 {
        Architecture::X86_64
    } else {
        Architecture::Aarch64
    }
}

/// Notes which processor QEMU emulates, by the name that it has for it.
pub(crate) fn choose(target: &CStr) -> Result<(), String> {
    let chosen = match target.to_bytes() {
        b"x86_64" => Architecture::X86_64,
        b"aarch64" => Architecture::Aarch64,
        _ => {
            return Err(format!(
                "this QEMU emulates {}; programs for x86-64 and aarch64 can be simulated",
                target.to_string_lossy()
            ));
        }
    };
    // Relaxed: see `current`.
    CHOSEN.store(chosen as u8, Ordering::Relaxed);
    Ok(())
}

/// Where QEMU's state of a processor has the registers, in words from its beginning.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The first general register; the others follow in the order in which instructions number them.
    pub(crate) first: usize,
    /// How many there are, the stack pointer among them.
    pub(crate) count: usize,
    /// The stack pointer.
    pub(crate) stack: usize,
    /// Which system call it is.
    pub(crate) number: usize,
    /// What a system call takes.
    pub(crate) arguments: [usize; 6],
    /// What a system call gives, and a function of C.
    pub(crate) result: usize,
    /// The first arguments of a function of C.
    pub(crate) function_arguments: [usize; 3],
    /// The first argument of a function of Go.
    pub(crate) go_argument: usize,
    /// Where Go keeps the goroutine.
    pub(crate) goroutine: usize,
    /// Where a call leaves its return address, if that is a register and not the stack.
    pub(crate) link: Option<usize>,
    /// Which argument of `clone` is the word that the kernel clears when the thread ends.
    pub(crate) clone_clears: usize,
}

/// Where the registers of the guest's processor are.
#[inline]
pub(crate) fn layout() -> &'static Layout {
    match current() {
        Architecture::X86_64 => &x86_64::LAYOUT,
        Architecture::Aarch64 => &aarch64::LAYOUT,
    }
}

/// Decodes the instruction that consists of these bytes and lies at this address.
pub(crate) fn decode(bytes: &[u8], address: u64) -> Decoded {
    match current() {
        Architecture::X86_64 => x86_64::decode(bytes, address),
        Architecture::Aarch64 => aarch64::decode(bytes, address),
    }
}

/// How many of the bytes before a block tell which instruction led to it.
pub(crate) fn bytes_before() -> usize {
    match current() {
        Architecture::X86_64 => 3,
        Architecture::Aarch64 => 4,
    }
}

/// Whether these bytes end with an instruction that makes a system call.
pub(crate) fn ends_with_call(bytes: &[u8]) -> bool {
    match current() {
        Architecture::X86_64 => bytes.ends_with(&[0x0f, 0x05]),
        Architecture::Aarch64 => aarch64::ends_with_call(bytes),
    }
}

/// Whether these bytes end with an instruction whose result is to be replaced, and which.
pub(crate) fn ends_with_question(bytes: &[u8]) -> Option<Class> {
    match current() {
        Architecture::X86_64 => x86_64::ends_with_question(bytes),
        Architecture::Aarch64 => None,
    }
}

/// Whether a [`Class::Fence`] waits for loads only.
pub(crate) fn is_load_fence(bytes: &[u8]) -> bool {
    match current() {
        Architecture::X86_64 => x86_64::is_load_fence(bytes),
        Architecture::Aarch64 => aarch64::is_load_fence(bytes),
    }
}

/// Whether an instruction returns from a function.
pub(crate) fn is_return(bytes: &[u8]) -> bool {
    match current() {
        Architecture::X86_64 => x86_64::is_return(bytes),
        Architecture::Aarch64 => aarch64::is_return(bytes),
    }
}

/// The longest call that [`is_call`] looks for, in bytes.
pub(crate) const LONGEST_CALL: usize = 7;

/// Whether the last of these bytes are a call of a function.
pub(crate) fn is_call(bytes: [u8; LONGEST_CALL]) -> bool {
    match current() {
        Architecture::X86_64 => x86_64::is_call(bytes),
        Architecture::Aarch64 => aarch64::is_call(bytes),
    }
}

/// The number that x86-64 has for a system call of the guest's.
pub(crate) fn canonical(number: u64) -> u64 {
    match current() {
        Architecture::X86_64 => number,
        Architecture::Aarch64 => aarch64::canonical(number),
    }
}

/// The number that the guest's processor has for a system call that the simulator asks for in place of the guest's.
pub(crate) fn native(number: u64) -> u64 {
    match current() {
        Architecture::X86_64 => number,
        Architecture::Aarch64 => aarch64::native(number),
    }
}

/// Turns the system call that is about to be made into one that does not return.
pub(crate) fn call_without_end(registers: &mut Registers) {
    match current() {
        Architecture::X86_64 => x86_64::call_without_end(registers),
        Architecture::Aarch64 => aarch64::call_without_end(registers),
    }
}

/// The number of this processor in the header of an ELF file.
pub(crate) fn elf_machine() -> u16 {
    match current() {
        Architecture::X86_64 => 62,
        Architecture::Aarch64 => 183,
    }
}
