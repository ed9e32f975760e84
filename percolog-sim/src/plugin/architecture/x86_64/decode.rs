//! Which memory one x86-64 instruction touches.
//!
//! QEMU tells a plugin the bytes of each instruction, and reports its accesses only after they have happened. To order
//! an access *before* it happens, the simulator has to know the address beforehand: this module finds the memory
//! operands in the bytes, and [`Operand::offset`] computes the address from the registers as they are before the
//! instruction.
//!
//! It follows the opcode maps of Intel's *Software Developer's Manual*, volume 2: chapter 2 for the prefixes, the
//! ModRM and SIB bytes and the VEX encoding; appendix A, tables for the opcodes and their groups; and the
//! pages of the single instructions for the size of each operand. 64-bit mode only. Nothing here says whether an
//! instruction is valid: the bytes are those of an instruction that QEMU is about to execute, so its length is known
//! and immediate operands need not be decoded.
//!
//! # Why it is written by hand
//!
//! The plugin is built from the standard library alone: Cargo builds no shared library for a dependency, and a build script
//! cannot link one against the crates of its package. `iced-x86` would therefore need a second run of Cargo inside the build
//! script, with a lock file and a registry of its own. It would also take 200 ns for each translated instruction where this
//! takes 60, and make the plugin a quarter larger. The tests compare this decoder with it over every opcode.
//!
//! # What is not described
//!
//! Where a description would be long or can only be had from more than the general registers (gathers, masked moves,
//! `xsave`, a bit offset in a register, far calls, …) the instruction is marked as not [known](Decoded::known), and
//! the simulator falls back on what QEMU reports after the access.
//!
//! # Where QEMU 7.2 differs from the manual
//!
//! Found by executing every instruction that the emulator accepts and comparing what it reported with what is predicted
//! here. The description is the manual's unless said otherwise, so a report may lie beside the predicted operand:
//!
//! * Scalar fused multiply-adds (`vfmadd231sd` and the others) read 16 bytes instead of 4 or 8. `cvtdq2pd` reads twice
//!   the bytes that it converts, a shift of a 32-byte vector by a count in memory reads 32 bytes instead of 16, and
//!   `punpckl*` of MMX registers 8 instead of 4.
//! * `movsxd` to a 16-bit register reads four bytes instead of two, `movbe` with both an operand-size prefix and REX.W
//!   moves two instead of eight, and `fldenv` reads only three words.
//! * A near `call`, `ret` or `jmp` with an operand-size prefix moves 16 bits, as on AMD's processors, where Intel's
//!   ignore the prefix. No compiler emits it; it is not known here.
//! * It executes one element of a repeated string instruction at a time and begins the instruction anew for the
//!   next. The operands are therefore those of one element; see [`Decoded::rep`]. (Later versions do not: `repeated`.)
//! * `cmps` reads the element at `rdi` first; the order of the operands here is QEMU's.
//! * An atomic read-modify-write is reported as one store, except `lock neg`, which is a load and then a store. Other
//!   read-modify-writes are a load and a store. Accesses of 16 and 32 bytes are reported in parts of 8.
//! * The stores that set up a signal frame are reported as if by the last instruction before the signal.
//! * It has no AVX-512: those instructions raise SIGILL in the guest, and it does not announce them in `cpuid`.

use crate::plugin::architecture::{Access3, Class, Decoded, NONE, Operand, Segment, Sum, Unit};

mod general;
mod vector;

#[cfg(test)]
mod tests;

/// The numbers of the registers that instructions use without naming them.
const RSP: u8 = 4;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;

impl Operand {
    /// The place that a register points at, through no segment.
    fn at(base: u8, displacement: i64, size: u8, access: Access3) -> Self {
        Operand {
            displacement,
            base,
            index: NONE,
            scale: 0,
            segment: Segment::None,
            size,
            access,
            address32: false,
            sum: Sum::Whole,
        }
    }

    /// What a push writes: below the stack pointer, which has not changed yet. Its address is always of 64 bits.
    fn push(size: u8) -> Self {
        Self::at(RSP, -i64::from(size), size, Access3::Write)
    }

    /// What a pop reads.
    fn pop(size: u8) -> Self {
        Self::at(RSP, 0, size, Access3::Read)
    }
}

/// Decodes the instruction that consists of these bytes and lies at this address.
///
/// Bytes that are no instruction, or are cut off, are an instruction that is not known, of class [`Class::Other`].
pub(crate) fn decode(bytes: &[u8], address: u64) -> Decoded {
    let mut cursor = Cursor {
        bytes,
        at: 0,
        end: address.wrapping_add(bytes.len() as u64),
        prefixes: Prefixes::default(),
    };
    cursor
        .instruction()
        .unwrap_or(Decoded::undescribed(Class::Other))
}

/// The prefix that selects among the instructions that share a vector opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mandatory {
    None,
    X66,
    F3,
    F2,
}

/// What stands before the opcode. The fields of a VEX prefix are put into the same terms.
#[derive(Clone, Copy, Debug)]
struct Prefixes {
    operand16: bool,
    address32: bool,
    lock: bool,
    /// The last of the two repeat prefixes, or `None`.
    repeat: Mandatory,
    segment: Segment,
    /// The four bits of a REX prefix: W 8, R 4, X 2, B 1.
    rex: u8,
}

impl Default for Prefixes {
    fn default() -> Self {
        Prefixes {
            operand16: false,
            address32: false,
            lock: false,
            repeat: Mandatory::None,
            segment: Segment::None,
            rex: 0,
        }
    }
}

impl Prefixes {
    fn wide(&self) -> bool {
        self.rex & 8 != 0
    }

    /// Size of an operand that may have 16, 32 or 64 bits.
    fn size(&self) -> u8 {
        match (self.wide(), self.operand16) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        }
    }

    /// Size of an operand that has 32 or 64 bits, whatever the operand-size prefix says.
    fn size_32_or_64(&self) -> u8 {
        if self.wide() { 8 } else { 4 }
    }

    /// Size of what is pushed and popped: there are no 32-bit pushes in 64-bit mode.
    fn stack_size(&self) -> u8 {
        if self.size() == 2 { 2 } else { 8 }
    }

    fn mandatory(&self) -> Mandatory {
        match self.repeat {
            Mandatory::None if self.operand16 => Mandatory::X66,
            repeat => repeat,
        }
    }
}

/// What an instruction does with the operand of its ModRM byte, if that is in memory. The numbers are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The address is computed at most.
    Nothing,
    Read(u8),
    Write(u8),
    Modify(u8),
    Undescribed,
}

/// A decoded ModRM byte.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The middle three bits: a register without its REX bit, or a part of the opcode.
    reg: u8,
    /// The low three bits.
    rm: u8,
    /// The operand in memory, of a size and access yet to be filled in; `None` if the operand is a register.
    memory: Option<Operand>,
}

impl Place {
    /// The operand, if it is in memory, with this size and access.
    fn operand(&self, size: u8, access: Access3) -> Option<Operand> {
        self.memory.map(|memory| Operand {
            size,
            access,
            ..memory
        })
    }

    /// A plain instruction that does this with its operand, and touches no memory if that is a register.
    fn used(&self, form: Form) -> Decoded {
        let operand = match form {
            _ if self.memory.is_none() => None,
            Form::Nothing => None,
            Form::Read(size) => self.operand(size, Access3::Read),
            Form::Write(size) => self.operand(size, Access3::Write),
            Form::Modify(size) => self.operand(size, Access3::Modify),
            Form::Undescribed => return Decoded::undescribed(Class::Plain),
        };
        Decoded {
            operands: [operand, None],
            ..Decoded::plain()
        }
    }
}

/// The bytes and how far they have been read. All methods return `None` where the bytes end too early.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Address of the next instruction.
    end: u64,
    prefixes: Prefixes,
}

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The next `N` bytes.
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..self.at + N)?;
        self.at += N;
        bytes.try_into().ok()
    }

    fn instruction(&mut self) -> Option<Decoded> {
        let opcode = self.prefixes()?;
        let decoded = match opcode {
            0xc4 | 0xc5 => self.vex(opcode)?,
            0x62 => Decoded {
                avx512: true,
                ..Decoded::undescribed(Class::Other)
            },
            0x0f => {
                let opcode = self.byte()?;
                self.two_bytes(opcode)?
            }
            _ => self.one_byte(opcode)?,
        };
        Some(if self.prefixes.lock {
            locked(decoded)
        } else {
            decoded
        })
    }

    /// Reads the legacy and REX prefixes and the byte behind them.
    fn prefixes(&mut self) -> Option<u8> {
        loop {
            let byte = self.byte()?;
            let rex = std::mem::take(&mut self.prefixes.rex);
            match byte {
                0x66 => self.prefixes.operand16 = true,
                0x67 => self.prefixes.address32 = true,
                0xf0 => self.prefixes.lock = true,
                0xf2 => self.prefixes.repeat = Mandatory::F2,
                0xf3 => self.prefixes.repeat = Mandatory::F3,
                0x64 => self.prefixes.segment = Segment::Fs,
                0x65 => self.prefixes.segment = Segment::Gs,
                // The other segments begin at zero in 64-bit mode; compilers use the prefixes as padding.
                0x26 | 0x2e | 0x36 | 0x3e => {}
                // Counts only right before the opcode: any other prefix behind it has taken it away above.
                0x40..=0x4f => self.prefixes.rex = byte & 15,
                _ => {
                    self.prefixes.rex = rex;
                    return Some(byte);
                }
            }
        }
    }

    /// Reads the ModRM byte and the address that follows it.
    fn place(&mut self) -> Option<Place> {
        let modrm = self.byte()?;
        let (mode, reg, rm) = (modrm >> 6, modrm >> 3 & 7, modrm & 7);
        if mode == 3 {
            return Some(Place {
                reg,
                rm,
                memory: None,
            });
        }
        let rex = self.prefixes.rex;
        let (mut base, mut index, mut scale) = (rm | (rex & 1) << 3, NONE, 0);
        let mut relative = false;
        if rm == 4 {
            let sib = self.byte()?;
            index = sib >> 3 & 7 | (rex & 2) << 2;
            if index == RSP {
                index = NONE;
            }
            scale = sib >> 6;
            base = sib & 7 | (rex & 1) << 3;
            if mode == 0 && sib & 7 == 5 {
                base = NONE;
            }
        } else if mode == 0 && rm == 5 {
            base = NONE;
            relative = true;
        }
        let displacement = match mode {
            1 => i64::from(self.byte()? as i8),
            0 if base != NONE => 0,
            _ => i64::from(i32::from_le_bytes(self.array()?)),
        };
        Some(Place {
            reg,
            rm,
            memory: Some(Operand {
                displacement: if relative {
                    displacement.wrapping_add(self.end as i64)
                } else {
                    displacement
                },
                base,
                index,
                scale,
                segment: self.prefixes.segment,
                size: 1,
                access: Access3::Read,
                address32: self.prefixes.address32,
                sum: Sum::Whole,
            }),
        })
    }
}

/// The same instruction with a lock prefix. Those that are not read-modify-writes must not have one.
fn locked(decoded: Decoded) -> Decoded {
    match decoded.operands[0] {
        Some(operand) if operand.access == Access3::Modify => Decoded {
            class: Class::Locked,
            ..decoded
        },
        _ if decoded.class == Class::Locked => decoded,
        _ => Decoded::undescribed(Class::Other),
    }
}
