//! The registers of the guest thread that is calling.
//!
//! Version 1 of QEMU's plugin interface has no way to read a register. QEMU's x86 state, however, begins with the
//! sixteen general registers, in the order in which instructions encode them, and translated code keeps the address
//! of that state in the host register `rbp`. Before an instruction that may fault (any access to memory, any system
//! call) QEMU has to have written every register there, since a fault must find them; the same holds where a block
//! begins. Nothing is taken on trust: `check` compares what is read here with what QEMU itself says of each system
//! call, and `verify` compares addresses with those that QEMU reports.

/// A general register, by its number in instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(dead_code, reason = "the whole set, in its order")]
pub(crate) enum Register {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

/// How many general registers there are.
pub(crate) const GENERAL: usize = 16;
/// Where the base of the segment `fs` lies, in words from the first register.
pub(crate) const FS_BASE: usize = 36;
/// Where the base of the segment `gs` lies.
pub(crate) const GS_BASE: usize = 39;

/// The registers of the calling thread's guest.
#[derive(Clone, Copy)]
pub(crate) struct Registers(*mut u64);

impl Registers {
    /// The registers at the address that translated code keeps in `rbp`.
    ///
    /// # Safety
    ///
    /// The address must be the one that a callback found there, and be used only until that callback returns.
    pub(crate) unsafe fn new(state: *mut u64) -> Self {
        Registers(state)
    }

    /// The value of a register.
    pub(crate) fn get(&self, register: Register) -> u64 {
        // SAFETY: the state begins with sixteen words.
        unsafe { *self.0.add(register as usize) }
    }

    /// Changes a register. The guest sees it where the module's description says that the state is up to date.
    pub(crate) fn set(&mut self, register: Register, value: u64) {
        // SAFETY: the state begins with sixteen words, which only the calling thread uses.
        unsafe { *self.0.add(register as usize) = value }
    }

    /// All of them.
    pub(crate) fn all(&self) -> [u64; GENERAL] {
        // SAFETY: the state begins with sixteen words.
        unsafe { *self.0.cast::<[u64; GENERAL]>() }
    }
}
