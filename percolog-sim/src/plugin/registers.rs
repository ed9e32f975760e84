//! The registers of the guest thread that is calling.
//!
//! Version 1 of QEMU's plugin interface has no way to read a register. QEMU's state of a processor, however, has the
//! general registers near its beginning (that of x86-64 begins with them), in the order in which instructions encode them,
//! and translated code keeps the address of that state in the host register `rbp`, whatever the guest's processor. Before an instruction that may fault (any access to memory, any system
//! call) QEMU has to have written every register there, since a fault must find them; the same holds where a block
//! begins. Later versions can be told that a callback reads registers, and are. Nothing is taken on trust: `check`
//! compares what is read here with what QEMU itself says of each system call, the bases of segments are looked for when a
//! program sets one, and `verify` compares addresses with those that QEMU reports.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::plugin::architecture::{self, layout};

/// A general register of x86-64, by its number in instructions.
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

/// The most general registers that any processor has.
pub(crate) const MOST: usize = 32;
/// Where the base of the segment `fs` lies, in words from the first register: so in QEMU 7.2 to 10.2.
static FS_BASE: AtomicUsize = AtomicUsize::new(36);
/// A segment takes so many words, and `gs` comes after `fs`.
const SEGMENT: usize = 3;

/// Where the base of the segment `fs` lies, in words from the first register.
#[inline]
pub(crate) fn fs_base() -> usize {
    // Relaxed: changed at most once, by the first thread, before there is another.
    FS_BASE.load(Ordering::Relaxed)
}

/// Where the base of the segment `gs` lies.
#[inline]
pub(crate) fn gs_base() -> usize {
    fs_base() + SEGMENT
}

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

    /// The base of the segment `fs` has just been set to `address`: sees to it that it is found. `false` if it is not.
    pub(crate) fn find_segments(&self, address: u64) -> bool {
        /// Behind the registers, the instruction's address and the flags; before anything large.
        const LOOKED_AT: std::ops::Range<usize> = 20..80;
        // SAFETY: QEMU's state of a processor is far larger.
        let has = |word: &usize| unsafe { *self.0.add(*word) } == address;
        if has(&fs_base()) {
            return true;
        }
        let mut found = LOOKED_AT.filter(has);
        let (Some(word), None) = (found.next(), found.next()) else {
            return false;
        };
        FS_BASE.store(word, Ordering::Relaxed);
        true
    }

    fn word(&self, word: usize) -> u64 {
        // SAFETY: the layout of the guest's processor lies within its state.
        unsafe { *self.0.add(word) }
    }

    fn set_word(&mut self, word: usize, value: u64) {
        // SAFETY: the layout of the guest's processor lies within its state, which only the calling thread uses.
        unsafe { *self.0.add(word) = value }
    }

    /// The stack pointer.
    pub(crate) fn stack(&self) -> u64 {
        self.word(layout().stack)
    }

    /// Which system call is about to be made, by its number on x86-64.
    pub(crate) fn number(&self) -> u64 {
        architecture::canonical(self.word(layout().number))
    }

    /// Asks for another system call, by its number on x86-64.
    pub(crate) fn set_number(&mut self, number: u64) {
        self.set_word(layout().number, architecture::native(number));
    }

    /// What a system call gets.
    pub(crate) fn arguments(&self) -> [u64; 6] {
        layout().arguments.map(|word| self.word(word))
    }

    /// Changes what it gets.
    pub(crate) fn set_argument(&mut self, index: usize, value: u64) {
        self.set_word(layout().arguments[index], value);
    }

    /// What a system call or a function of C gives.
    pub(crate) fn result(&self) -> u64 {
        self.word(layout().result)
    }

    /// Changes what it gives.
    pub(crate) fn set_result(&mut self, value: u64) {
        self.set_word(layout().result, value);
    }

    /// The number of the call and its first arguments, as QEMU sees them: of the number, 32 bits.
    pub(crate) fn seen_by_qemu(&self) -> [u64; 4] {
        let [first, second, third, ..] = self.arguments();
        let number = i64::from(self.word(layout().number) as i32);
        [number as u64, first, second, third]
    }

    /// What of the registers a system call changes that is to be changed back after it: the number, unless it is where the
    /// result comes to anyway.
    pub(crate) fn kept_number(&self) -> Option<Kept> {
        let layout = layout();
        (layout.number != layout.result).then(|| Kept {
            word: layout.number,
            value: self.word(layout.number),
        })
    }

    /// An argument as it is.
    pub(crate) fn kept_argument(&self, index: usize) -> Kept {
        Kept::argument(index, self.arguments()[index])
    }

    /// Puts back what was kept.
    pub(crate) fn put_back(&mut self, kept: Kept) {
        self.set_word(kept.word, kept.value);
    }

    /// The first arguments of a function of C.
    pub(crate) fn function_arguments(&self) -> [u64; 3] {
        layout().function_arguments.map(|word| self.word(word))
    }

    /// The first argument of a function of Go.
    pub(crate) fn go_argument(&self) -> u64 {
        self.word(layout().go_argument)
    }

    /// The goroutine, in code of Go.
    pub(crate) fn goroutine(&self) -> u64 {
        self.word(layout().goroutine)
    }

    /// Where a function that begins, or is about to return, goes back to, if a register says so.
    pub(crate) fn link(&self) -> Option<u64> {
        layout().link.map(|word| self.word(word))
    }

    /// All of them; behind them, zeros.
    pub(crate) fn all(&self) -> [u64; MOST] {
        let layout = layout();
        let mut all = [0; MOST];
        // SAFETY: the state has so many words from there on.
        let found = unsafe { std::slice::from_raw_parts(self.0.add(layout.first), layout.count) };
        all[..layout.count].copy_from_slice(found);
        all
    }
}

/// A register and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    word: usize,
    value: u64,
}

impl Kept {
    /// An argument of a system call.
    pub(crate) fn argument(index: usize, value: u64) -> Kept {
        Kept {
            word: layout().arguments[index],
            value,
        }
    }

    /// Whether a system call leaves its result there.
    pub(crate) fn is_result(&self) -> bool {
        self.word == layout().result
    }
}
