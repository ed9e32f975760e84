//! The instructions outside the vector extensions: the one-byte opcode map, the general part of the two-byte map, and
//! the x87 instructions.

use super::{
    Access3, Class, Cursor, Decoded, Form, Mandatory, NONE, Operand, Place, RBP, RDI, RSI, RSP,
    Segment, Unit,
};

impl Cursor<'_> {
    /// An instruction that does this with the operand of its ModRM byte.
    fn with(&mut self, form: Form) -> Option<Decoded> {
        Some(self.place()?.used(form))
    }

    /// Opcodes of one byte (tables ).
    pub(super) fn one_byte(&mut self, opcode: u8) -> Option<Decoded> {
        // Most opcodes come in pairs: the even one for bytes, the odd one for the operand size.
        let size = if opcode & 1 == 0 {
            1
        } else {
            self.prefixes.size()
        };
        let stack = self.prefixes.stack_size();
        Some(match opcode {
            // add, or, adc, sbb, and, sub, xor, cmp
            0x00..=0x3f => match opcode & 7 {
                0 | 1 if opcode >= 0x38 => self.with(Form::Read(size))?,
                0 | 1 => self.with(Form::Modify(size))?,
                2 | 3 => self.with(Form::Read(size))?,
                4 | 5 => Decoded::plain(),
                _ => return None,
            },
            // push and pop of registers, push of an immediate value
            0x50..=0x57 | 0x68 | 0x6a => Decoded::one(Operand::push(stack)),
            0x58..=0x5f => Decoded::one(Operand::pop(stack)),
            // movsxd
            0x63 => self.with(Form::Read(self.prefixes.size().min(4)))?,
            // imul with an immediate value
            0x69 | 0x6b => self
                .with(Form::Read(self.prefixes.size()))?
                .on(Unit::Multiply),
            // jcc
            0x70..=0x7f => Decoded::plain().on(Unit::Branch),
            0x80 | 0x81 | 0x83 => {
                let place = self.place()?;
                place.used(if place.reg == 7 {
                    Form::Read(size)
                } else {
                    Form::Modify(size)
                })
            }
            // test
            0x84 | 0x85 => self.with(Form::Read(size))?,
            0x86 | 0x87 => {
                let place = self.place()?;
                Decoded {
                    class: if place.memory.is_some() {
                        Class::Locked
                    } else {
                        Class::Plain
                    },
                    ..place.used(Form::Modify(size))
                }
            }
            // mov; a segment register has 16 bits in memory
            0x88 | 0x89 => self.with(Form::Write(size))?,
            0x8a | 0x8b => self.with(Form::Read(size))?,
            0x8c => self.with(Form::Write(2))?,
            0x8e => self.with(Form::Read(2))?,
            // lea
            0x8d => self.with(Form::Nothing)?,
            0x8f => self.pop_place()?,
            // With REX.B it is an exchange of registers.
            0x90 if self.prefixes.repeat == Mandatory::F3 && self.prefixes.rex & 1 == 0 => {
                Decoded::of(Class::Pause)
            }
            // xchg of registers, cbw, cwd, fwait, sahf, lahf
            0x90..=0x99 | 0x9b | 0x9e | 0x9f => Decoded::plain(),
            // pushf, popf
            0x9c => Decoded::one(Operand::push(stack)),
            0x9d => Decoded::one(Operand::pop(stack)),
            // mov between the accumulator and an absolute address
            0xa0 | 0xa1 => Decoded::one(self.absolute(size, Access3::Read)?),
            0xa2 | 0xa3 => Decoded::one(self.absolute(size, Access3::Write)?),
            0xa4..=0xa7 | 0xaa..=0xaf => self.string(opcode, size),
            // test and mov with immediate values
            0xa8 | 0xa9 | 0xb0..=0xbf => Decoded::plain(),
            // rotates and shifts
            0xc0 | 0xc1 | 0xd0..=0xd3 => self.with(Form::Modify(size))?,
            0xc2 | 0xc3 if stack == 8 => Decoded::one(Operand::pop(8)).on(Unit::Branch),
            0xc2 | 0xc3 => Decoded::undescribed(Class::Plain).on(Unit::Branch),
            // mov of an immediate value; the other group members are xabort and xbegin
            0xc6 | 0xc7 => self.with(Form::Write(size))?,
            // leave
            0xc9 => Decoded::one(Operand::at(RBP, 0, stack, Access3::Read)),
            // enter, far ret, iret, xlat
            0xc8 | 0xca | 0xcb | 0xcf | 0xd7 => Decoded::undescribed(Class::Plain),
            0xd8..=0xdf => self.x87(opcode)?,
            // loop and jrcxz; jmp
            0xe0..=0xe3 | 0xe9 | 0xeb => Decoded::plain().on(Unit::Branch),
            0xe8 if stack == 8 => Decoded::one(Operand::push(8)).on(Unit::Branch),
            0xe8 => Decoded::undescribed(Class::Plain).on(Unit::Branch),
            // cmc, clc, stc, cld, std
            0xf5 | 0xf8 | 0xf9 | 0xfc | 0xfd => Decoded::plain(),
            0xf6 | 0xf7 => {
                let place = self.place()?;
                let (form, unit) = match place.reg {
                    // not and neg
                    2 | 3 => (Form::Modify(size), Unit::Any),
                    // mul and imul, div and idiv
                    4 | 5 => (Form::Read(size), Unit::Multiply),
                    6 | 7 => (Form::Read(size), Unit::Divide),
                    // test
                    _ => (Form::Read(size), Unit::Any),
                };
                place.used(form).on(unit)
            }
            0xfe | 0xff => self.increment_group(opcode, size)?,
            // int, in and out, hlt, cli, sti
            0xcc | 0xcd | 0xe4..=0xe7 | 0xec..=0xef | 0xf1 | 0xf4 | 0xfa | 0xfb => {
                Decoded::of(Class::Other)
            }
            _ => return None,
        })
    }

    /// `pop` to memory: the address is computed with the stack pointer as it is after the pop.
    fn pop_place(&mut self) -> Option<Decoded> {
        let size = self.prefixes.stack_size();
        let place = self.place()?;
        if place.reg != 0 {
            // An instruction of AMD's XOP extension.
            return None;
        }
        let popped = Operand::pop(size);
        Some(match place.operand(size, Access3::Write) {
            None => Decoded::one(popped),
            Some(mut written) => {
                if written.base == RSP {
                    written.displacement += i64::from(size);
                }
                Decoded::two(popped, written)
            }
        })
    }

    /// Groups 4 and 5: `inc`, `dec`, `call`, `jmp` and `push`.
    fn increment_group(&mut self, opcode: u8, size: u8) -> Option<Decoded> {
        let stack = self.prefixes.stack_size();
        let place = self.place()?;
        let read_and_push = |size| match place.operand(size, Access3::Read) {
            None => Decoded::one(Operand::push(size)),
            Some(read) => Decoded::two(read, Operand::push(size)),
        };
        Some(match (opcode, place.reg) {
            (_, 0 | 1) => place.used(Form::Modify(size)),
            (0xff, 2) if stack == 8 => read_and_push(8).on(Unit::Branch),
            (0xff, 4) if stack == 8 => place.used(Form::Read(8)).on(Unit::Branch),
            (0xff, 6) => read_and_push(stack),
            // Far calls and jumps, and near ones of 16 bits.
            (0xff, 2..=5) => Decoded::undescribed(Class::Plain).on(Unit::Branch),
            _ => return None,
        })
    }

    /// The operand of a `mov` whose address is an immediate value.
    fn absolute(&mut self, size: u8, access: Access3) -> Option<Operand> {
        let address32 = self.prefixes.address32;
        let displacement = if address32 {
            i64::from(u32::from_le_bytes(self.array()?))
        } else {
            i64::from_le_bytes(self.array()?)
        };
        Some(Operand {
            segment: self.prefixes.segment,
            address32,
            ..Operand::at(NONE, displacement, size, access)
        })
    }

    /// One element of `movs`, `cmps`, `stos`, `lods` or `scas`.
    fn string(&self, opcode: u8, size: u8) -> Decoded {
        let address32 = self.prefixes.address32;
        let at = |register, segment, access| Operand {
            segment,
            address32,
            ..Operand::at(register, 0, size, access)
        };
        // A segment prefix changes the source, never the destination.
        let source = at(RSI, self.prefixes.segment, Access3::Read);
        let target = |access| at(RDI, Segment::None, access);
        Decoded {
            rep: self.prefixes.repeat != Mandatory::None,
            ..match opcode & 0xfe {
                0xa4 => Decoded::two(source, target(Access3::Write)),
                0xa6 => Decoded::two(target(Access3::Read), source),
                0xaa => Decoded::one(target(Access3::Write)),
                0xac => Decoded::one(source),
                _ => Decoded::one(target(Access3::Read)),
            }
        }
    }

    /// The x87 instructions: only those whose ModRM byte names memory touch it.
    fn x87(&mut self, opcode: u8) -> Option<Decoded> {
        // fldenv and fnstenv: seven words of half or full size.
        let environment = if self.prefixes.size() == 2 { 14 } else { 28 };
        let place = self.place()?;
        let unit = match (opcode, place.reg, place.rm) {
            // fdiv and fdivr
            (0xd8 | 0xdc | 0xde, 6 | 7, _) => Unit::FloatDivide,
            (0xda, 6 | 7, _) if place.memory.is_some() => Unit::FloatDivide,
            // fsqrt
            (0xd9, 7, 2) if place.memory.is_none() => Unit::FloatDivide,
            // The other arithmetic, and comparisons
            (0xd8 | 0xdc | 0xde, _, _) => Unit::Float,
            (0xda, _, _) if place.memory.is_some() => Unit::Float,
            _ => Unit::Any,
        };
        if place.memory.is_none() {
            return Some(Decoded::plain().on(unit));
        }
        let form = match (opcode, place.reg) {
            (0xd8 | 0xda, _) | (0xd9 | 0xdb, 0) => Form::Read(4),
            (0xd9, 2 | 3) | (0xdb, 1..=3) => Form::Write(4),
            (0xd9, 4) => Form::Read(environment),
            (0xd9, 6) => Form::Write(environment),
            (0xdb, 5) | (0xdf, 4) => Form::Read(10),
            (0xdb, 7) | (0xdf, 6) => Form::Write(10),
            (0xdc, _) | (0xdd, 0) | (0xdf, 5) => Form::Read(8),
            (0xdd, 1..=3) | (0xdf, 7) => Form::Write(8),
            (0xd9, 5) | (0xde, _) | (0xdf, 0) => Form::Read(2),
            (0xd9 | 0xdd, 7) | (0xdf, 1..=3) => Form::Write(2),
            // frstor and fnsave are larger than a line.
            (0xdd, 4 | 6) => Form::Undescribed,
            _ => return None,
        };
        Some(place.used(form).on(unit))
    }

    /// Opcodes of two bytes, the first being 0F, and the two maps behind 0F38 and 0F3A (tables ).
    pub(super) fn two_bytes(&mut self, opcode: u8) -> Option<Decoded> {
        let size = self.prefixes.size();
        let byte_or_size = if opcode & 1 == 0 { 1 } else { size };
        let stack = self.prefixes.stack_size();
        Some(match opcode {
            0x05 => Decoded::of(Class::Syscall),
            0x31 => Decoded::of(Class::Rdtsc),
            0xa2 => Decoded::of(Class::Cpuid),
            0x01 => self.system_group()?,
            // lar and lsl take a selector of 16 bits.
            0x02 | 0x03 => self.with(Form::Read(2))?,
            // Prefetches, hints and `nop`s with an operand, endbr64
            0x0d | 0x18..=0x1f => self.with(Form::Nothing)?,
            // ud2; clts, sysret, invd, wbinvd; control and debug registers, model-specific registers, sysenter, ud1, ud0
            0x06..=0x09 | 0x0b | 0x20..=0x23 | 0x30 | 0x32..=0x35 | 0xaa | 0xb9 | 0xff => {
                Decoded::of(Class::Other)
            }
            0x38 => {
                let opcode = self.byte()?;
                self.three_bytes(opcode)?
            }
            0x3a => {
                let opcode = self.byte()?;
                self.vector_0f3a(opcode)?
            }
            // cmov: reads its operand whatever the condition
            0x40..=0x4f => self.with(Form::Read(size))?,
            // emms; bswap
            0x77 | 0xc8..=0xcf => Decoded::plain(),
            // jcc
            0x80..=0x8f => Decoded::plain().on(Unit::Branch),
            // setcc
            0x90..=0x9f => self.with(Form::Write(1))?,
            // push and pop of fs and gs
            0xa0 | 0xa8 => Decoded::one(Operand::push(stack)),
            0xa1 | 0xa9 => Decoded::one(Operand::pop(stack)),
            0xa3 | 0xab | 0xb3 | 0xbb => self.bit_string(opcode)?,
            // shld, shrd
            0xa4 | 0xa5 | 0xac | 0xad => self.with(Form::Modify(size))?,
            0xae => self.state_group()?,
            // imul
            0xaf => self.with(Form::Read(size))?.on(Unit::Multiply),
            // cmpxchg, xadd
            0xb0 | 0xb1 | 0xc0 | 0xc1 => self.with(Form::Modify(byte_or_size))?,
            // lss, lfs, lgs
            0xb2 | 0xb4 | 0xb5 => Decoded::undescribed(Class::Plain),
            // movzx, movsx
            0xb6 | 0xbe => self.with(Form::Read(1))?,
            0xb7 | 0xbf => self.with(Form::Read(2))?,
            // popcnt; bsf, bsr, tzcnt, lzcnt
            0xb8 if self.prefixes.repeat == Mandatory::F3 => self.with(Form::Read(size))?,
            0xbc | 0xbd => self.with(Form::Read(size))?,
            // bt, bts, btr, btc with an immediate value, which cannot leave the operand
            0xba => {
                let place = self.place()?;
                match place.reg {
                    4 => place.used(Form::Read(size)),
                    5..=7 => place.used(Form::Modify(size)),
                    _ => return None,
                }
            }
            // movnti
            0xc3 => self.with(Form::Write(self.prefixes.size_32_or_64()))?,
            0xc7 => self.exchange_group()?,
            _ => self.vector_0f(opcode)?,
        })
    }

    /// `bt`, `bts`, `btr`, `btc` with the number of the bit in a register: it may lie anywhere before or behind the
    /// operand.
    fn bit_string(&mut self, opcode: u8) -> Option<Decoded> {
        let place = self.place()?;
        if place.memory.is_none() {
            return Some(Decoded::plain());
        }
        let lockable = self.prefixes.lock && opcode != 0xa3;
        Some(Decoded::undescribed(if lockable {
            Class::Locked
        } else {
            Class::Plain
        }))
    }

    /// Group 7 (0F 01).
    fn system_group(&mut self) -> Option<Decoded> {
        let place = self.place()?;
        Some(match place {
            Place {
                memory: Some(_), ..
            } => Decoded::undescribed(Class::Other),
            Place { reg: 7, rm: 1, .. } => Decoded::of(Class::Rdtscp),
            // xgetbv, xend and xtest, rdpkru and wrpkru
            Place {
                reg: 2,
                rm: 0 | 5 | 6,
                ..
            }
            | Place {
                reg: 5, rm: 6 | 7, ..
            } => Decoded::plain(),
            _ => Decoded::undescribed(Class::Other),
        })
    }

    /// Group 15 (0F AE).
    fn state_group(&mut self) -> Option<Decoded> {
        let prefix = self.prefixes.mandatory();
        let place = self.place()?;
        Some(match (prefix, place.reg, place.memory) {
            // ldmxcsr, stmxcsr
            (Mandatory::None, 2, Some(_)) => place.used(Form::Read(4)),
            (Mandatory::None, 3, Some(_)) => place.used(Form::Write(4)),
            // clflush; clwb, clflushopt
            (Mandatory::None, 7, Some(_)) | (Mandatory::X66, 6 | 7, Some(_)) => Decoded::plain(),
            // fxsave, fxrstor, xsave, xrstor, xsaveopt and whatever else
            (_, _, Some(_)) => Decoded::undescribed(Class::Plain),
            (Mandatory::None, 5..=7, None) => Decoded::of(Class::Fence),
            // rdfsbase, rdgsbase, wrfsbase, wrgsbase; incssp
            (Mandatory::F3, 0..=3 | 5, None) => Decoded::plain(),
            _ => return None,
        })
    }

    /// Group 9 (0F C7).
    fn exchange_group(&mut self) -> Option<Decoded> {
        let place = self.place()?;
        Some(match (place.reg, place.memory) {
            // cmpxchg8b, cmpxchg16b
            (1, Some(_)) => place.used(Form::Modify(2 * self.prefixes.size_32_or_64())),
            // xsavec and others
            (_, Some(_)) => Decoded::undescribed(Class::Plain),
            // rdrand; rdseed and rdpid
            (6 | 7, None) => Decoded::of(Class::Other),
            _ => return None,
        })
    }

    /// Opcodes behind 0F38.
    fn three_bytes(&mut self, opcode: u8) -> Option<Decoded> {
        let size = self.prefixes.size();
        match (opcode, self.prefixes.repeat) {
            // movbe
            (0xf0, Mandatory::None) => self.with(Form::Read(size)),
            (0xf1, Mandatory::None) => self.with(Form::Write(size)),
            // crc32
            (0xf0, Mandatory::F2) => self.with(Form::Read(1)),
            (0xf1, Mandatory::F2) => self.with(Form::Read(size)),
            _ => self.vector_0f38(opcode),
        }
    }
}
