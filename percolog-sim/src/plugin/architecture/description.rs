//! What the simulator has to know of an instruction, in terms that hold for all processors. Some of them occur with one
//! processor only: segments and repeated instructions with x86-64, most ways to make an address of a sum with aarch64.

/// The number that stands for "no register" in an [`Operand`]: more than any processor has.
pub(crate) const NONE: u8 = 64;

/// What there is to know of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The memory that it touches, in the order in which it does.
    pub(crate) operands: [Option<Operand>; 2],
    /// What it costs, and whether the simulator has to step in.
    pub(crate) class: Class,
    /// Which unit of a core executes it, beside those that load and store.
    pub(crate) unit: Unit,
    /// False if it touches, or may touch, memory that `operands` does not describe; `operands` is then empty.
    pub(crate) known: bool,
    /// A repeated string instruction: the operands are touched only if the count, `rcx`, is not zero (`ecx`, if the
    /// operands have [`Operand::address32`] set).
    pub(crate) rep: bool,
    /// An AVX-512 instruction (EVEX encoding or mask registers), which QEMU does not execute.
    pub(crate) avx512: bool,
}

/// One access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    /// Added to the address: distance, or the absolute address where the encoding is relative to the instruction.
    pub(crate) displacement: i64,
    /// Base register, by its number in instructions (on x86-64 rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, …; on aarch64
    /// x0 to x30 and the stack pointer), or [`NONE`].
    pub(crate) base: u8,
    /// Index register, likewise.
    pub(crate) index: u8,
    /// By how many bits the index is shifted to the left.
    pub(crate) scale: u8,
    /// Whose base address is added.
    pub(crate) segment: Segment,
    /// Number of bytes, 1 to 64. (See [`Sum::UntaggedBlock`] for the one exception.)
    pub(crate) size: u8,
    /// What happens to them.
    pub(crate) access: Access3,
    /// The sum is cut to 32 bits (before the base of the segment is added).
    pub(crate) address32: bool,
    /// How an address is made of base, index and displacement.
    pub(crate) sum: Sum,
}

/// How base, index and displacement make an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sum {
    /// All bits of all of them count: x86-64.
    Whole,
    /// The uppermost byte of the sum is the program's own, and no part of the address: aarch64.
    Untagged,
    /// Likewise, and of the index only the lower 32 bits count.
    UntaggedWord,
    /// Likewise, and these are a signed number.
    UntaggedSignedWord,
    /// As [`Sum::Untagged`], and all of the aligned block is touched that the address lies in. The operand's size is
    /// the binary logarithm of the block's.
    UntaggedBlock,
}

/// What is left of an address whose uppermost byte does not count.
const UNTAGGED: u64 = u64::MAX >> 8;

impl Sum {
    /// The address of a sum, for those that are `untagged`.
    #[inline]
    pub(crate) fn without_tag(sum: u64) -> u64 {
        sum & UNTAGGED
    }

    /// The value of an index register that counts.
    #[inline]
    pub(crate) fn index(self, register: u64) -> u64 {
        match self {
            Sum::Whole | Sum::Untagged | Sum::UntaggedBlock => register,
            Sum::UntaggedWord => register & 0xffff_ffff,
            Sum::UntaggedSignedWord => i64::from(register as i32) as u64,
        }
    }

    /// The address that a sum makes, of an access of so many bytes.
    #[inline]
    pub(crate) fn address(self, sum: u64, size: u64) -> u64 {
        match self {
            Sum::Whole => sum,
            Sum::Untagged | Sum::UntaggedWord | Sum::UntaggedSignedWord => Sum::without_tag(sum),
            Sum::UntaggedBlock => Sum::without_tag(sum) & !(size - 1),
        }
    }
}

/// A segment register whose base address counts in 64-bit mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Any other: its base is zero.
    None,
    /// `fs`: thread-local storage on Linux.
    Fs,
    /// `gs`.
    Gs,
}

/// The ways to touch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access3 {
    /// Only read.
    Read,
    /// Written without being read: a plain store.
    Write,
    /// Read and written, atomically or not.
    Modify,
}

/// The kinds of instructions that the simulator treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// None of the others.
    Plain,
    /// An atomic read-modify-write: with a lock prefix, or an `xchg` with memory; on aarch64 also a store that is made
    /// only if nobody has written meanwhile (`stxr`).
    Locked,
    /// `mfence`, `lfence`, `sfence`; `dmb`, `dsb`.
    Fence,
    /// `rdtsc`.
    Rdtsc,
    /// `rdtscp`.
    Rdtscp,
    /// `pause`; `yield`, `wfe` and `isb`, which loops that wait have on aarch64.
    Pause,
    /// `cpuid`.
    Cpuid,
    /// Reads a clock whose answer cannot be replaced: aarch64's counter of the system.
    Counter,
    /// `syscall`; `svc`.
    Syscall,
    /// Traps and leaves user mode in another way (`int`, `sysenter`, `ud2`, privileged instructions), is unknown, or
    /// yields what neither the program nor the described machine determines (`rdrand`, `rdseed`, `rdpid`, `rdpmc`).
    Other,
}

/// The units of a core that a machine's file can say something of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// One of which there are as many as the core is wide.
    Any,
    /// Jumps, calls and returns.
    Branch,
    /// Multiplies integers.
    Multiply,
    /// Divides integers.
    Divide,
    /// Floating-point arithmetic, comparisons and conversions.
    Float,
    /// Divides floating-point numbers, and finds their square roots.
    FloatDivide,
}

impl Operand {
    /// How many bytes there are.
    pub(crate) fn length(&self) -> u16 {
        match self.sum {
            Sum::UntaggedBlock => 1 << self.size,
            _ => u16::from(self.size),
        }
    }

    /// The address as far as general registers determine it; the base of [`Operand::segment`] is yet to be added.
    #[cfg(test)]
    pub(crate) fn offset(&self, register: impl Fn(u8) -> u64) -> u64 {
        let mut sum = self.displacement as u64;
        if self.base != NONE {
            sum = sum.wrapping_add(register(self.base));
        }
        if self.index != NONE {
            sum = sum.wrapping_add(self.sum.index(register(self.index)) << self.scale);
        }
        let sum = self.sum.address(sum, u64::from(self.length()));
        if self.address32 {
            sum & 0xffff_ffff
        } else {
            sum
        }
    }
}

impl Decoded {
    /// An instruction of this class that touches no memory.
    pub(crate) fn of(class: Class) -> Self {
        Decoded {
            operands: [None; 2],
            class,
            unit: Unit::Any,
            known: true,
            rep: false,
            avx512: false,
        }
    }

    /// The same instruction, executed by this unit.
    pub(crate) fn on(self, unit: Unit) -> Self {
        Decoded { unit, ..self }
    }

    /// A plain instruction that touches no memory.
    pub(crate) fn plain() -> Self {
        Self::of(Class::Plain)
    }

    /// An instruction that touches memory in a way that is not described.
    pub(crate) fn undescribed(class: Class) -> Self {
        Decoded {
            known: false,
            ..Self::of(class)
        }
    }

    /// A plain instruction that touches one place.
    pub(crate) fn one(operand: Operand) -> Self {
        Decoded {
            operands: [Some(operand), None],
            ..Self::plain()
        }
    }

    /// A plain instruction that touches one place and then another.
    pub(crate) fn two(first: Operand, second: Operand) -> Self {
        Decoded {
            operands: [Some(first), Some(second)],
            ..Self::plain()
        }
    }
}
