//! What an instruction does to its operand in memory, as far as it tells what the memory is used for.
//!
//! `iced-x86` decodes the instructions of x86-64. Of aarch64 only a handful of encodings matter, which are compared here
//! directly. The plugin cannot use this module: it is built from the standard library alone (see `build.rs`).

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// What.
    pub(crate) kind: Kind,
    /// Whether nobody can come in between.
    pub(crate) atomic: bool,
    /// To how many bytes.
    pub(crate) size: usize,
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
        let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
        classify_x86(&instruction).unwrap_or(Self::UNKNOWN)
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

/// Classifies an instruction of x86-64; `None` if it does not write to memory, or in a way that no pattern asks for.
fn classify_x86(instruction: &iced_x86::Instruction) -> Option<Instruction> {
    let writes = InstructionInfoFactory::new().info(instruction).op0_access();
    let in_memory = matches!(
        instruction.op0_kind(),
        OpKind::Memory | OpKind::MemoryESRDI | OpKind::MemoryESEDI
    );
    if !in_memory || matches!(writes, OpAccess::None | OpAccess::Read) {
        return None;
    }
    let size = instruction.memory_size().size();
    let kind = match instruction.mnemonic() {
        Mnemonic::Inc => Kind::Add(Direction::Up),
        Mnemonic::Dec => Kind::Add(Direction::Down),
        Mnemonic::Add => Kind::Add(match amount(instruction, size) {
            Some(0..) => Direction::Up,
            Some(_) => Direction::Down,
            None => Direction::Unknown,
        }),
        // A register that is subtracted is hardly ever negative.
        Mnemonic::Sub => Kind::Add(match amount(instruction, size) {
            Some(..0) => Direction::Up,
            _ => Direction::Down,
        }),
        Mnemonic::Xadd => Kind::AddAndGet,
        Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => Kind::CompareExchange,
        Mnemonic::Xchg => return Some(of(Kind::Exchange, true, size)),
        Mnemonic::And | Mnemonic::Or | Mnemonic::Xor => Kind::Bits,
        Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts => Kind::Bits,
        _ if matches!(writes, OpAccess::Write | OpAccess::CondWrite) => Kind::Store,
        _ => return None,
    };
    Some(of(kind, instruction.has_lock_prefix(), size))
}

/// The constant that an instruction has as its second operand, sign-extended from `size` bytes.
fn amount(instruction: &iced_x86::Instruction, size: usize) -> Option<i64> {
    let unused = u64::BITS - 8 * u32::try_from(size).ok()?;
    let constant = instruction.try_immediate(1).ok()?;
    Some((constant << unused).cast_signed() >> unused)
}

fn of(kind: Kind, atomic: bool, size: usize) -> Instruction {
    Instruction { kind, atomic, size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_compilers_are_known() {
        use Direction::{Down, Unknown, Up};
        let cases: &[(&[u8], Kind, bool, usize)] = &[
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
            (&[0x0f, 0x11, 0x07], Kind::Store, false, 16),
            // vmovdqu [rdi], ymm0
            (&[0xc5, 0xfe, 0x7f, 0x07], Kind::Store, false, 32),
            // rep stosb
            (&[0xf3, 0xaa], Kind::Store, false, 1),
            // lock sub dword [rdi], 0xffffffff
            (
                &[0xf0, 0x81, 0x2f, 0xff, 0xff, 0xff, 0xff],
                Kind::Add(Up),
                true,
                4,
            ),
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
