//! What an instruction does to its operand in memory, as far as it tells what the memory is used for.
//!
//! The encodings, unless said otherwise, are those of Intel's *Software Developer's Manual*, volume 2. The plugin's decoder answers another question, where an
//! instruction's operands lie, and is part of the plugin alone.

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// What.
    pub(crate) kind: Kind,
    /// Whether nobody can come in between.
    pub(crate) atomic: bool,
    /// To how many bytes.
    pub(crate) size: u8,
}

/// The kinds that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Adds to it, and the program has no use for what was there: `add`, `sub`, `inc`, `dec`.
    Add(Direction),
    /// Adds to it, and gets what was there: `xadd`.
    AddAndGet,
    /// Writes if it is still the same: `cmpxchg`, `cmpxchg8b`, `cmpxchg16b`.
    CompareExchange,
    /// Writes, and gets what was there.
    Exchange,
    /// Sets, clears or flips bits.
    Bits,
    /// Writes.
    Store,
    /// Anything else, reading among it.
    Other,
}

/// Whether an addition makes a number larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// By a constant.
    Up,
    /// By a constant.
    Down,
    /// The amount is in a register.
    Unknown,
}

impl Instruction {
    /// One that nothing is known of.
    pub(crate) const UNKNOWN: Self = Self {
        kind: Kind::Other,
        atomic: false,
        size: 0,
    };

    /// The instruction at the beginning of `code`.
    pub(crate) fn decode(code: &[u8]) -> Self {
        decode(code).unwrap_or(Self::UNKNOWN)
    }

    /// Likewise, of a program for aarch64.
    pub(crate) fn decode_aarch64(code: &[u8]) -> Self {
        decode_aarch64(code).unwrap_or(Self::UNKNOWN)
    }
}

/// An instruction of aarch64. What a load and a conditional store do together is not looked for.
///
/// The encodings are those of the *Arm Architecture Reference Manual*, chapter C4.1, "Loads and Stores".
fn decode_aarch64(code: &[u8]) -> Option<Instruction> {
    let word = u32::from_le_bytes(*code.first_chunk()?);
    let size = 1 << (word >> 30);
    // cas, casp; ldadd and its kin, swp
    if word & 0x3fa0_7c00 == 0x08a0_7c00 {
        return Some(of(Kind::CompareExchange, true, size));
    }
    if word & 0xbfa0_7c00 == 0x0820_7c00 {
        let pair = if word >> 30 & 1 == 0 { 8 } else { 16 };
        return Some(of(Kind::CompareExchange, true, pair));
    }
    if word & 0x3f20_0c00 == 0x3820_0000 {
        let is_used = word & 31 != 31;
        let kind = match word >> 12 & 15 {
            0 if is_used => Kind::AddAndGet,
            0 => Kind::Add(Direction::Unknown),
            1..=3 => Kind::Bits,
            8 => Kind::Exchange,
            _ => return None,
        };
        return Some(of(kind, true, size));
    }
    // stlr; str of a general register: with a distance, or in one of the other ways
    let is_store = word & 0x3fe0_8000 == 0x0880_8000
        || word & 0x3fc0_0000 == 0x3900_0000
        || word & 0x3fe0_0000 == 0x3800_0000
        || word & 0x3fe0_0c00 == 0x3820_0800;
    is_store.then(|| of(Kind::Store, false, size))
}

fn decode(code: &[u8]) -> Option<Instruction> {
    let mut at = 0;
    let (mut locked, mut short) = (false, false);
    // Prefixes, in any order; REX comes last.
    loop {
        match *code.get(at)? {
            0xf0 => locked = true,
            0x66 => short = true,
            0xf2 | 0xf3 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 => {}
            _ => break,
        }
        at += 1;
    }
    let wide = match *code.get(at)? {
        rex @ 0x40..=0x4f => {
            at += 1;
            rex & 8 != 0
        }
        _ => false,
    };
    let operand = match (wide, short) {
        (true, _) => 8,
        (false, true) => 2,
        (false, false) => 4,
    };
    let opcode = *code.get(at)?;
    if opcode == 0x0f {
        let opcode = *code.get(at + 1)?;
        return two_bytes(opcode, *code.get(at + 2)?, locked, wide, operand);
    }
    let rest = code.get(at + 1..)?;
    let modrm = *rest.first()?;
    // The string instructions have no operand of their own.
    if matches!(opcode, 0xa4 | 0xa5 | 0xaa | 0xab) {
        return Some(of(Kind::Store, false, operand));
    }
    if modrm >= 0xc0 {
        return None;
    }
    // In this part of the opcode map even numbers are for bytes.
    let size = if opcode & 1 == 0 { 1 } else { operand };
    let field = (modrm >> 3) & 7;
    let kind = match opcode {
        0x00 | 0x01 => Kind::Add(Direction::Unknown),
        // What is taken away is hardly ever negative.
        0x28 | 0x29 => Kind::Add(Direction::Down),
        0x08 | 0x09 | 0x20 | 0x21 | 0x30 | 0x31 => Kind::Bits,
        0x80 | 0x81 | 0x83 => match field {
            0 | 5 => {
                let amount = immediate(rest, opcode == 0x81, operand)?;
                let up = (amount >= 0) == (field == 0);
                Kind::Add(if up { Direction::Up } else { Direction::Down })
            }
            1 | 4 | 6 => Kind::Bits,
            _ => return None,
        },
        0x86 | 0x87 => return Some(of(Kind::Exchange, true, size)),
        0x88 | 0x89 | 0xc6 | 0xc7 => Kind::Store,
        0xfe | 0xff => match field {
            0 => Kind::Add(Direction::Up),
            1 => Kind::Add(Direction::Down),
            _ => return None,
        },
        _ => return None,
    };
    Some(of(kind, locked, size))
}

/// Instructions behind the byte 0x0f.
fn two_bytes(opcode: u8, modrm: u8, locked: bool, wide: bool, operand: u8) -> Option<Instruction> {
    if modrm >= 0xc0 {
        return None;
    }
    let field = (modrm >> 3) & 7;
    let size = if opcode & 1 == 0 { 1 } else { operand };
    Some(match opcode {
        0xc0 | 0xc1 => of(Kind::AddAndGet, locked, size),
        0xb0 | 0xb1 => of(Kind::CompareExchange, locked, size),
        0xc7 if field == 1 => of(Kind::CompareExchange, locked, if wide { 16 } else { 8 }),
        // `bts`, `btr` and `btc`; 0xba has the number of the bit in the instruction.
        0xab | 0xb3 | 0xbb => of(Kind::Bits, locked, operand),
        0xba if field >= 5 => of(Kind::Bits, locked, operand),
        0x11 | 0x13 | 0x17 | 0x29 | 0x2b | 0x7f | 0xc3 | 0xd6 | 0xe7 => {
            of(Kind::Store, false, operand)
        }
        // `setcc`
        0x90..=0x9f => of(Kind::Store, false, 1),
        _ => return None,
    })
}

fn of(kind: Kind, atomic: bool, size: u8) -> Instruction {
    Instruction { kind, atomic, size }
}

/// The constant behind an operand in memory; `rest` begins with the ModRM byte.
fn immediate(rest: &[u8], long: bool, operand: u8) -> Option<i64> {
    let modrm = *rest.first()?;
    let (mode, register) = (modrm >> 6, modrm & 7);
    let mut at = 1;
    let mut distance = match mode {
        0 if register == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    if register == 4 {
        let base = *rest.get(at)? & 7;
        at += 1;
        if mode == 0 && base == 5 {
            distance = 4;
        }
    }
    at += distance;
    let constant = if !long {
        i64::from(rest.get(at)?.cast_signed())
    } else if operand == 2 {
        let bytes = rest.get(at..at + 2)?;
        i64::from(i16::from_le_bytes(bytes.try_into().ok()?))
    } else {
        let bytes = rest.get(at..at + 4)?;
        i64::from(i32::from_le_bytes(bytes.try_into().ok()?))
    };
    Some(constant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_compilers_are_known() {
        use Direction::{Down, Unknown, Up};
        let cases: &[(&[u8], Kind, bool, u8)] = &[
            // lock inc qword [rdi]
            (&[0xf0, 0x48, 0xff, 0x07], Kind::Add(Up), true, 8),
            // lock dec qword [rip + 0x2ee2]
            (
                &[0xf0, 0x48, 0xff, 0x0d, 0xe2, 0x2e, 0, 0],
                Kind::Add(Down),
                true,
                8,
            ),
            // lock add qword [rax + 16], 1
            (
                &[0xf0, 0x48, 0x83, 0x40, 0x10, 0x01],
                Kind::Add(Up),
                true,
                8,
            ),
            // lock add dword [rip + 0x2f01], -1
            (
                &[0xf0, 0x83, 0x05, 0x01, 0x2f, 0, 0, 0xff],
                Kind::Add(Down),
                true,
                4,
            ),
            // lock sub dword [rsp + 8], 1
            (
                &[0xf0, 0x83, 0x6c, 0x24, 0x08, 0x01],
                Kind::Add(Down),
                true,
                4,
            ),
            // lock add qword [rsi + rcx*8 + 0x1000], 0x100
            (
                &[0xf0, 0x48, 0x81, 0x84, 0xce, 0, 0x10, 0, 0, 0, 1, 0, 0],
                Kind::Add(Up),
                true,
                8,
            ),
            // lock xadd qword [rdi], rax
            (&[0xf0, 0x48, 0x0f, 0xc1, 0x07], Kind::AddAndGet, true, 8),
            // lock cmpxchg dword [rdi], ecx
            (&[0xf0, 0x0f, 0xb1, 0x0f], Kind::CompareExchange, true, 4),
            // lock cmpxchg qword [r14], r15
            (
                &[0xf0, 0x4d, 0x0f, 0xb1, 0x3e],
                Kind::CompareExchange,
                true,
                8,
            ),
            // lock cmpxchg16b [rdi]
            (
                &[0xf0, 0x48, 0x0f, 0xc7, 0x0f],
                Kind::CompareExchange,
                true,
                16,
            ),
            // xchg dword [rdi], eax: atomic without a prefix
            (&[0x87, 0x07], Kind::Exchange, true, 4),
            // lock bts dword [rdi], 0
            (&[0xf0, 0x0f, 0xba, 0x2f, 0x00], Kind::Bits, true, 4),
            // lock or dword [rsp], 0
            (&[0xf0, 0x83, 0x0c, 0x24, 0x00], Kind::Bits, true, 4),
            // add qword [rax], rdx
            (&[0x48, 0x01, 0x10], Kind::Add(Unknown), false, 8),
            // inc dword [rip + 0x10]
            (&[0xff, 0x05, 0x10, 0, 0, 0], Kind::Add(Up), false, 4),
            // mov byte [rdi], 0
            (&[0xc6, 0x07, 0x00], Kind::Store, false, 1),
            // mov qword [rdi + 8], rsi
            (&[0x48, 0x89, 0x77, 0x08], Kind::Store, false, 8),
            // mov word [rdi], ax
            (&[0x66, 0x89, 0x07], Kind::Store, false, 2),
            // movups [rdi], xmm0
            (&[0x0f, 0x11, 0x07], Kind::Store, false, 4),
        ];
        for (code, kind, atomic, size) in cases {
            let expected = Instruction {
                kind: *kind,
                atomic: *atomic,
                size: *size,
            };
            assert_eq!(Instruction::decode(code), expected, "{code:02x?}");
        }
    }

    #[test]
    fn what_reads_or_is_cut_short_is_unknown() {
        for code in [
            // mov rax, [rdi]; cmp qword [rdi], 0; add rax, rdx (registers only); nothing; a prefix alone.
            &[0x48, 0x8b, 0x07][..],
            &[0x48, 0x83, 0x3f, 0x00],
            &[0x48, 0x01, 0xd0],
            &[],
            &[0xf0],
            &[0xf0, 0x48, 0x83, 0x40],
            &[0xf0, 0x0f, 0xba],
        ] {
            assert_eq!(
                Instruction::decode(code),
                Instruction::UNKNOWN,
                "{code:02x?}"
            );
        }
    }

    #[test]
    fn instructions_of_the_other_processor_are_known() {
        use Kind::{Add, AddAndGet, Bits, CompareExchange, Exchange, Store};
        for (word, kind, atomic, size) in [
            // stadd x0, [x2]; ldaddal w0, w1, [sp]; ldset x0, x1, [x2]
            (0xf820_005f_u32, Add(Direction::Unknown), true, 8),
            (0xb8e0_03e1, AddAndGet, true, 4),
            (0xf820_3041, Bits, true, 8),
            // swpalb w0, w1, [x2]; casalh w0, w1, [x2]; casp x0, x1, x2, x3, [x4]
            (0x38e0_8041, Exchange, true, 1),
            (0x48e0_fc41, CompareExchange, true, 2),
            (0x4820_7c82, CompareExchange, true, 16),
            // stlr w1, [x2]; str x1, [x2]; str x1, [x2, w3, sxtw #3]; strb w1, [x2], #255
            (0x889f_fc41, Store, false, 4),
            (0xf900_0041, Store, false, 8),
            (0xf823_d841, Store, false, 8),
            (0x380f_f441, Store, false, 1),
        ] {
            let expected = of(kind, atomic, size);
            assert_eq!(
                Instruction::decode_aarch64(&word.to_le_bytes()),
                expected,
                "{word:#x}"
            );
        }
        // ldr x1, [x2, #16]; ldxr, stxr; ldapr; ldar; add; ldsmax
        for word in [
            0xf940_0841_u32,
            0xc85f_7c41,
            0xc800_7c41,
            0xf8bf_c041,
            0xc8df_fc41,
            0x9100_1020,
            0xb820_4041,
        ] {
            let found = Instruction::decode_aarch64(&word.to_le_bytes());
            assert_eq!(found, Instruction::UNKNOWN, "{word:#x}");
        }
    }
}
