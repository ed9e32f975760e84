//! Which memory one A64 instruction touches.
//!
//! It follows the *Arm Architecture Reference Manual for A-profile*, chapter C4.1, "Loads and Stores", whose tables are named
//! at the functions. All instructions have four bytes and at most one operand in memory; pairs and structures are one
//! operand of as many bytes as they have together.
//!
//! Instructions of the extensions for scalable vectors and matrices, for tags in memory and for checked addresses are not
//! known here, and neither are the copies and sets of memory of ARMv8.8: the simulator falls back on what QEMU reports
//! after the access. (The launcher has QEMU emulate a processor without scalable vectors.)
//!
//! # Where QEMU 7.2 differs from the manual
//!
//! * `ldxr` and its kin note the value that they read, and `stxr` is a compare-and-exchange with it: what was changed and
//!   changed back meanwhile goes unnoticed. A `stxr` to another address than that of the last `ldxr` fails without an access.
//! * `dc zva` clears 512 bytes, and is not reported at all.
//! * Pairs, and vectors of 16 bytes, are reported in two halves, structures element by element.

use crate::plugin::architecture::{Access3, Class, Decoded, NONE, Operand, Segment, Sum, Unit};

#[cfg(test)]
mod tests;

/// The number that stands for the stack pointer as a base, and for zero elsewhere.
const SPECIAL: u8 = 31;
/// The binary logarithm of how many bytes `dc zva` clears, as QEMU says to programs of all processors that the launcher
/// asks it for.
const ZEROED: u8 = 9;

/// Decodes the instruction that consists of these bytes and lies at this address.
pub(crate) fn decode(bytes: &[u8], address: u64) -> Decoded {
    let Ok(bytes) = bytes.try_into() else {
        return Decoded::undescribed(Class::Other);
    };
    let word = Word(u32::from_le_bytes(bytes));
    match word.bits(28, 25) {
        // Matrices (if the highest bit is set), and what is no instruction.
        0b0000 if word.bit(31) => Decoded::undescribed(Class::Other),
        0b0000 => Decoded::of(Class::Other),
        // Scalable vectors: those with the highest bit access memory.
        0b0010 if word.bit(31) => Decoded::undescribed(Class::Plain),
        0b1010 | 0b1011 => word.system(),
        group if group & 0b0101 == 0b0100 => word.memory(address),
        0b0101 | 0b1101 => Decoded::plain().on(word.integer_unit()),
        0b0111 | 0b1111 => Decoded::plain().on(word.float_unit()),
        _ => Decoded::plain(),
    }
}

/// An instruction.
#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    fn bits(self, high: u32, low: u32) -> u32 {
        self.0 >> low & ((1 << (high - low + 1)) - 1)
    }

    fn bit(self, at: u32) -> bool {
        self.bits(at, at) != 0
    }

    /// The same bits as a signed number.
    fn signed(self, high: u32, low: u32) -> i64 {
        let unused = 31 - high;
        i64::from((self.0 << unused) as i32 >> (unused + low))
    }

    /// A register's number.
    fn register(self, low: u32) -> u8 {
        self.bits(low + 4, low) as u8
    }

    /// The operand at a distance from the base register.
    fn operand(self, displacement: i64, size: u8, access: Access3) -> Operand {
        Operand {
            displacement,
            base: self.register(5),
            index: NONE,
            scale: 0,
            segment: Segment::None,
            size,
            access,
            address32: false,
            sum: Sum::Untagged,
        }
    }

    /// A plain load, or store, at a distance from the base register.
    fn moved(self, displacement: i64, size: u8, loads: bool) -> Decoded {
        Decoded::one(self.operand(displacement, size, direction(loads)))
    }

    /// An atomic read-modify-write of what the base register points at.
    fn atomic(self, size: u8) -> Decoded {
        Decoded {
            class: Class::Locked,
            ..Decoded::one(self.operand(0, size, Access3::Modify))
        }
    }

    /// What executes "Data Processing -- Register".
    fn integer_unit(self) -> Unit {
        match self.0 {
            // udiv, sdiv
            word if word & 0x7fe0_f800 == 0x1ac0_0800 => Unit::Divide,
            // "Data-processing (3 source)": madd and its kin
            word if word & 0x1f00_0000 == 0x1b00_0000 => Unit::Multiply,
            _ => Unit::Any,
        }
    }

    /// What executes "Data Processing -- Scalar Floating-Point and Advanced SIMD". Integers of vectors are plain.
    fn float_unit(self) -> Unit {
        match self.0 {
            // fdiv, of one number and of many; fsqrt, likewise
            word if word & 0xff20_fc00 == 0x1e20_1800 => Unit::FloatDivide,
            word if word & 0xbfa0_fc00 == 0x2e20_fc00 => Unit::FloatDivide,
            word if word & 0xff3f_fc00 == 0x1e21_c000 => Unit::FloatDivide,
            word if word & 0xbfbf_fc00 == 0x2ea1_f800 => Unit::FloatDivide,
            // Moves between registers, and of immediate values
            word if word & 0xff3f_fc00 == 0x1e20_4000 => Unit::Any,
            word if word & 0xff20_1fe0 == 0x1e20_1000 => Unit::Any,
            word if word & 0x7f36_fc00 == 0x1e26_0000 => Unit::Any,
            // "Floating-point data-processing" of one, two and three sources, comparisons, conversions
            word if word & 0x5e00_0000 == 0x1e00_0000 => Unit::Float,
            // "Advanced SIMD three same": from fmaxnm on; the rows with the highest bits of the opcode set
            word if word & 0x9f20_c400 == 0x0e20_c400 => Unit::Float,
            _ => Unit::Any,
        }
    }

    /// "Branches, Exception Generating and System instructions", as far as they concern the simulator.
    fn system(self) -> Decoded {
        const TARGET: u32 = 0x1f;
        match self.0 {
            word if word & 0xffe0_001f == 0xd400_0001 => Decoded::of(Class::Syscall),
            // hvc, smc, brk, hlt, and what debuggers use
            word if word & 0xff00_0000 == 0xd400_0000 => Decoded::of(Class::Other),
            // yield, wfe, wfi; wfet, wfit; isb
            0xd503_203f | 0xd503_205f | 0xd503_207f => Decoded::of(Class::Pause),
            word if word & 0xffff_ffc0 == 0xd503_1000 => Decoded::of(Class::Pause),
            word if word & 0xffff_f0ff == 0xd503_30df => Decoded::of(Class::Pause),
            // dsb, dmb; dsb nXS
            word if word & 0xffff_f0df == 0xd503_309f => Decoded::of(Class::Fence),
            word if word & 0xffff_f3ff == 0xd503_323f => Decoded::of(Class::Fence),
            word => match word & !TARGET {
                // dc zva; without a register it would be address zero.
                0xd50b_7420 if word & TARGET != TARGET => {
                    let zeroed = Operand {
                        base: word as u8 & TARGET as u8,
                        sum: Sum::UntaggedBlock,
                        ..self.operand(0, ZEROED, Access3::Write)
                    };
                    Decoded::one(zeroed)
                }
                // dc zva, dc gva, dc gzva: with tags
                0xd50b_7420 | 0xd50b_7460 | 0xd50b_7480 => Decoded::undescribed(Class::Plain),
                // The counters of the system: cntpct_el0, cntvct_el0, and both in order
                0xd53b_e020 | 0xd53b_e040 | 0xd53b_e0a0 | 0xd53b_e0c0 => {
                    Decoded::of(Class::Counter)
                }
                // rndr, rndrrs
                0xd53b_2400 | 0xd53b_2420 => Decoded::of(Class::Other),
                // Everything in this group that is neither for the system nor an exception is a branch.
                word if word & 0xff00_0000 != 0xd500_0000 => Decoded::plain().on(Unit::Branch),
                _ => Decoded::plain(),
            },
        }
    }

    /// "Loads and Stores".
    fn memory(self, address: u64) -> Decoded {
        let vector = self.bit(26);
        let known = match (self.bits(29, 28), vector, self.bit(24)) {
            (0b00, false, false) => self.exclusive(),
            (0b00, true, _) => self.structures(),
            (0b01, _, false) => self.literal(address),
            (0b01, false, true) => self.unscaled_ordered(),
            (0b10, ..) => self.pair(),
            (0b11, _, true) => self.single(|size| i64::from(self.bits(21, 10)) * i64::from(size)),
            (0b11, _, false) => self.single_other(),
            _ => None,
        };
        known.unwrap_or(Decoded::undescribed(Class::Plain))
    }

    /// "Load/store exclusive register" and pair, "ordered", "Compare and swap" and pair.
    fn exclusive(self) -> Option<Decoded> {
        let size = 1 << self.bits(31, 30);
        let pair = if self.bit(30) { 16 } else { 8 };
        let loads = self.bit(22);
        let no_second = self.register(10) == SPECIAL;
        Some(match (self.bit(23), self.bit(21)) {
            (false, false) if loads => self.moved(0, size, true),
            // A store that is made if nobody else has written since the load that belongs to it.
            (false, false) => self.atomic(size),
            (false, true) if self.bit(31) && loads => self.moved(0, pair, true),
            (false, true) if self.bit(31) => self.atomic(pair),
            (false, true) if no_second => self.atomic(pair),
            (true, false) => self.moved(0, size, loads),
            (true, true) if no_second => self.atomic(size),
            _ => return None,
        })
    }

    /// "Advanced SIMD load/store multiple structures" and "single structure", also with a changed base afterwards.
    fn structures(self) -> Option<Decoded> {
        if self.bit(31) {
            return None;
        }
        let whole = if self.bit(30) { 16 } else { 8 };
        let size = if !self.bit(24) {
            let registers = match self.bits(15, 12) {
                0b0000 | 0b0010 => 4,
                0b0100 | 0b0110 => 3,
                0b1000 | 0b1010 => 2,
                0b0111 => 1,
                _ => return None,
            };
            registers * whole
        } else {
            let elements = (self.bits(13, 13) << 1 | self.bits(21, 21)) + 1;
            let scale = match self.bits(15, 14) {
                0b10 if self.bit(10) => 3,
                // To all elements of a register.
                0b11 => self.bits(11, 10),
                scale => scale,
            };
            (elements << scale) as u8
        };
        Some(self.moved(0, size, self.bit(22)))
    }

    /// "Load register (literal)": from a place near the instruction.
    fn literal(self, address: u64) -> Option<Decoded> {
        let size = match (self.bit(26), self.bits(31, 30)) {
            (false, 0b00 | 0b10) | (true, 0b00) => 4,
            (false, 0b01) | (true, 0b01) => 8,
            (true, 0b10) => 16,
            // prfm
            (false, _) => return Some(Decoded::plain()),
            (true, _) => return None,
        };
        let place = address.wrapping_add_signed(self.signed(23, 5) * 4);
        Some(Decoded::one(Operand {
            base: NONE,
            ..self.operand(place as i64, size, Access3::Read)
        }))
    }

    /// "LDAPR/STLR (unscaled immediate)". Tags and copies of memory lie beside it.
    fn unscaled_ordered(self) -> Option<Decoded> {
        if self.bit(21) || self.bits(11, 10) != 0 {
            return None;
        }
        self.single(|_| self.signed(20, 12))
    }

    /// "Load/store register pair", with all ways to make the address.
    fn pair(self) -> Option<Decoded> {
        let loads = self.bit(22);
        let size: u8 = match (self.bit(26), self.bits(31, 30)) {
            (true, scale @ 0..=2) => 4 << scale,
            (false, 0b00) => 4,
            // ldpsw; the store of this number writes tags.
            (false, 0b01) if loads => 4,
            (false, 0b10) => 8,
            _ => return None,
        };
        let distance = self.signed(21, 15) * i64::from(size);
        // The base is changed afterwards.
        let behind = self.bits(24, 23) == 0b01;
        Some(self.moved(if behind { 0 } else { distance }, 2 * size, loads))
    }

    /// How many bytes a load or store of one register moves, and whether it loads; nothing if it only prefetches.
    fn extent(self) -> Option<Option<(u8, bool)>> {
        let (scale, operation) = (self.bits(31, 30), self.bits(23, 22));
        Some(match (self.bit(26), scale, operation) {
            (false, 0b11, 0b10) => None,
            (false, 0b11, 0b11) | (false, 0b10, 0b11) => return None,
            (false, _, _) => Some((1 << scale, operation != 0)),
            (true, _, 0b00 | 0b01) => Some((1 << scale, operation & 1 != 0)),
            (true, 0b00, _) => Some((16, operation & 1 != 0)),
            (true, ..) => return None,
        })
    }

    /// A load or store of one register, at a distance that may depend on its size.
    fn single(self, distance: impl Fn(u8) -> i64) -> Option<Decoded> {
        Some(match self.extent()? {
            Some((size, loads)) => self.moved(distance(size), size, loads),
            None => Decoded::plain(),
        })
    }

    /// "Load/store register" with an unscaled distance, of an unprivileged program, with a base that is changed before or
    /// after, with an index in a register; "Atomic memory operations".
    fn single_other(self) -> Option<Decoded> {
        match (self.bit(21), self.bits(11, 10)) {
            (false, 0b01) => self.single(|_| 0),
            (false, _) => self.single(|_| self.signed(20, 12)),
            (true, 0b10) => self.indexed(),
            (true, 0b00) => self.atomic_operation(),
            // Checked addresses.
            (true, _) => None,
        }
    }

    /// "Load/store register (register offset)".
    fn indexed(self) -> Option<Decoded> {
        let Some((size, loads)) = self.extent()? else {
            return Some(Decoded::plain());
        };
        let sum = match self.bits(15, 13) {
            0b010 => Sum::UntaggedWord,
            0b110 => Sum::UntaggedSignedWord,
            0b011 | 0b111 => Sum::Untagged,
            _ => return None,
        };
        let plain = self.operand(0, size, direction(loads));
        let index = self.register(16);
        if index == SPECIAL {
            return Some(Decoded::one(plain));
        }
        let shift = if self.bit(12) {
            size.trailing_zeros()
        } else {
            0
        };
        Some(Decoded::one(Operand {
            index,
            scale: shift as u8,
            sum,
            ..plain
        }))
    }

    /// `ldadd` and its kin, `swp`, and `ldapr`, which has a number among them.
    fn atomic_operation(self) -> Option<Decoded> {
        if self.bit(26) {
            return None;
        }
        let size = 1 << self.bits(31, 30);
        match (self.bit(15), self.bits(14, 12)) {
            (false, _) | (true, 0b000) => Some(self.atomic(size)),
            (true, 0b100) if self.bits(23, 22) == 0b10 && self.register(16) == SPECIAL => {
                Some(self.moved(0, size, true))
            }
            // 64 bytes at once.
            _ => None,
        }
    }
}

fn direction(loads: bool) -> Access3 {
    if loads { Access3::Read } else { Access3::Write }
}
