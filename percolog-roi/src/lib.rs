//! Marks for `percolog-sim`, the coherence simulator: which part of a program counts,
//! how many operations that part made, and what its memory is called.
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! static HITS: AtomicU64 = AtomicU64::new(0);
//!
//! percolog_roi::label(&HITS, "hits");        // the report says `hits`, not 0x4c5f80
//! percolog_roi::begin();                     // what the program did until here is not counted
//! for _ in 0..1000 {
//!     HITS.fetch_add(1, Ordering::Relaxed);
//! }
//! percolog_roi::end(1000);                   // figures are given per operation
//! ```
//!
//! A marked program runs unchanged where there is no simulator. Each mark is one system call with a number that no kernel has
//! ([`protocol::SYSTEM_CALL`]); the simulator answers it, a real kernel refuses it and does nothing else.
//!
//! # The region
//!
//! Every thread has a region of its own: it opens with the thread's [`begin`], closes with its [`end`], and may be opened
//! again later. A report adds up what all threads did inside their regions, and divides by all the operations that they named.
//! Threads that are to be measured together should warm up, meet at a barrier, and then begin.
//!
//! A begin inside an open region nests: the region closes with the last end, and the operations of all of them count.
//! An end without a begin counts nothing.
//!
//! # Costs
//!
//! On a real kernel, one refused system call a mark: 50 to 200 ns, depending on the processor and on what the kernel does against
//! speculation (the example `cost` measures it). No allocation, no atomic, no lock: wait-free. `errno` is left alone. On other
//! targets than Linux on x86-64 and aarch64, and under Miri, a mark is nothing at all.
//!
//! Each mark is a barrier for the compiler: no access to memory is moved across it. It is none for the processor.
//!
//! # Sandboxes
//!
//! A seccomp filter that *kills* on unknown system calls kills a marked program. Filters that refuse them (Docker's, systemd's
//! `SystemCallFilter` with an error number) are fine.
//!
//! # C and C++
//!
//! `include/percolog_roi.h` has the same marks as static inline functions.

#![no_std]

/// What a mark looks like to a simulator: the number of the system call, and the first argument, which says what is marked.
///
/// The arguments are in the registers of the Linux system-call convention: `rdi`, `rsi`, `rdx`, `r10`, `r8` on x86-64, `x0` to
/// `x4` on aarch64. A simulator answers 0. The numbers will not change: a program that is marked today can be simulated by any later simulator.
pub mod protocol {
    /// The number of the system call: "PERO" in ASCII, far above those that kernels use.
    pub const SYSTEM_CALL: u64 = 0x5045_524F;
    /// `(BEGIN)`: the region of this thread opens.
    pub const BEGIN: u64 = 1;
    /// `(END, operations)`: the region of this thread closes.
    pub const END: u64 = 2;
    /// `(LABEL, address, length, name, length of the name)`: what memory is called.
    pub const LABEL: u64 = 3;
    /// `(CORE, number)`: which core this thread runs on from here on.
    pub const CORE: u64 = 4;
}

/// Opens this thread's region: what it does from here to [`end`] counts.
///
/// Returns whether a simulator listens.
#[inline]
pub fn begin() -> bool {
    mark(protocol::BEGIN, [0; 4])
}

/// Closes this thread's region, in which it has made `operations` operations.
///
/// What an operation is, is up to the program; a report's figures are per operation.
/// Returns whether a simulator listens.
#[inline]
pub fn end(operations: u64) -> bool {
    mark(protocol::END, [operations, 0, 0, 0])
}

/// Gives the memory of `value` a name in reports. What `value` merely points to is not meant: label that itself.
///
/// The name holds for the addresses until another label covers them, also after the value has moved or is gone.
/// Returns whether a simulator listens.
#[inline]
pub fn label<T: ?Sized>(value: &T, name: &str) -> bool {
    label_raw(
        core::ptr::from_ref(value).cast::<()>(),
        size_of_val(value),
        name,
    )
}

/// Gives `length` bytes at `address` a name in reports, as [`label`] does for a value. The bytes are not read.
///
/// Returns whether a simulator listens.
#[inline]
pub fn label_raw(address: *const (), length: usize, name: &str) -> bool {
    mark(
        protocol::LABEL,
        [
            address.addr() as u64,
            length as u64,
            // Exposed: who answers reads the name through this address.
            name.as_ptr().expose_provenance() as u64,
            name.len() as u64,
        ],
    )
}

/// Puts this thread on core `number` of the simulated machine, and keeps it there. Numbers start at 0.
///
/// Without it the simulator gives each thread the free core that comes next. A real thread is not moved. A number that the machine
/// does not have is ignored, and answered with `false`.
///
/// Returns whether a simulator listens, and has done it.
#[inline]
pub fn core(number: usize) -> bool {
    mark(protocol::CORE, [number as u64, 0, 0, 0])
}

/// One mark, and whether it was answered.
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
#[inline]
fn mark(operation: u64, arguments: [u64; 4]) -> bool {
    let answer: u64;
    // SAFETY: the number belongs to no system call, so a kernel refuses it before it looks at any argument; a simulator that
    // knows it reads, at most, the name of a label, which the caller's borrow keeps in place. The registers that the instruction
    // overwrites (the answer's, rcx and r11) are declared. Memory is not declared as unused, so the compiler has written the name,
    // and moves no access from one side of a mark to the other.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") protocol::SYSTEM_CALL => answer,
            in("rdi") operation,
            in("rsi") arguments[0],
            in("rdx") arguments[1],
            in("r10") arguments[2],
            in("r8") arguments[3],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

/// One mark, and whether it was answered.
#[cfg(all(target_os = "linux", target_arch = "aarch64", not(miri)))]
#[inline]
fn mark(operation: u64, arguments: [u64; 4]) -> bool {
    let answer: u64;
    // SAFETY: as on x86-64; the kernel changes no register but the answer's.
    unsafe {
        core::arch::asm!(
            "svc #0",
            in("x8") protocol::SYSTEM_CALL,
            inlateout("x0") operation => answer,
            in("x1") arguments[0],
            in("x2") arguments[1],
            in("x3") arguments[2],
            in("x4") arguments[3],
            options(nostack),
        );
    }
    answer == 0
}

/// There is no simulator for this target.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
#[inline]
fn mark(_operation: u64, _arguments: [u64; 4]) -> bool {
    false
}
