//! The decoder against `iced-x86`, over every opcode in many encodings, and what has to hold besides.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};

use super::*;

/// Where the instructions of the corpus lie.
const ADDRESS: u64 = 0x5555_0000_1234;
/// The bases of fs and gs.
const FS: u64 = 0x7f00_0000_0000;
const GS: u64 = 0x7e00_0000_0000;

/// Instructions that are not known although the emulator executes them, with the reason.
const DIFFICULT: &[(&str, &str)] = &[
    ("the bit may lie anywhere", "Bt Btc Btr Bts"),
    (
        "16 bits on AMD's processors and in QEMU, 64 on Intel's",
        "Call Ret Jmp",
    ),
    ("far", "Call Jmp Retf Iret Iretd Iretq Lfs Lgs Lss"),
    ("a varying number of accesses", "Enter"),
    ("al is an index", "Xlatb"),
    (
        "larger than an operand can be",
        "Fnsave Frstor Fxrstor Fxrstor64 Fxsave Fxsave64",
    ),
    (
        "larger than an operand can be",
        "Xrstor Xrstor64 Xsave Xsave64 Xsavec Xsavec64 Xsaveopt Xsaveopt64",
    ),
    ("some bytes only", "Maskmovdqu Maskmovq Vmaskmovdqu"),
    (
        "some elements only",
        "Vmaskmovpd Vmaskmovps Vpmaskmovd Vpmaskmovq",
    ),
    (
        "an address for each element",
        "Vgatherdpd Vgatherdps Vgatherqpd Vgatherqps",
    ),
    (
        "an address for each element",
        "Vpgatherdd Vpgatherdq Vpgatherqd Vpgatherqq",
    ),
    (
        "tables of the operating system",
        "Sgdt Sidt Sldt Smsw Str Verr Verw",
    ),
];

/// Extensions that QEMU 7.2 does not execute in user mode, or that processors have given up (3DNow!), by the names that
/// iced has for their CPUID bits.
const ABSENT: &str = "AESKLE AMX_BF16 AMX_COMPLEX AMX_FP16 AMX_INT8 AMX_TILE AVX512BW AVX512DQ AVX512F AVX_IFMA \
    AVX_NE_CONVERT AVX_VNNI AVX_VNNI_INT16 AVX_VNNI_INT8 CET_SS CMPCCXADD D3NOW ENQCMD FMA4 GFNI MONITOR \
    MOVDIR64B PADLOCK_ACE PADLOCK_GMI PADLOCK_PHE PADLOCK_RNG PADLOCK_UNDOC PTWRITE RAO_INT SERIALIZE SHA512 \
    SM3 SM4 SMX SSE4A TSXLDTRK WAITPKG XOP";

/// Instructions of class [`Class::Other`].
const OTHER: &str = "Cli Clts Hlt In Int Int1 Int3 Invd Mov Out Rdmsr Rdpid Rdpmc Rdrand Rdseed Rsm Senduipi Sti \
    Sysenter Sysexit Sysexitq Sysret Sysretq Ud0 Ud1 Ud2 Wbinvd Wbnoinvd Wrmsr";

/// What a register contains while addresses are computed: different in all of its halves.
fn register(number: u8) -> u64 {
    assert!(number < 16, "register {number}");
    (u64::from(number) + 1) * 0x0000_1234_8765_4321
}

fn address(operand: &Operand) -> u64 {
    let base = match operand.segment {
        Segment::None => 0,
        Segment::Fs => FS,
        Segment::Gs => GS,
    };
    base.wrapping_add(operand.offset(register))
}

/// What executes an instruction, by its name.
fn unit(instruction: &Instruction) -> Unit {
    use FlowControl::*;
    if matches!(
        instruction.flow_control(),
        UnconditionalBranch | IndirectBranch | ConditionalBranch | Return | Call | IndirectCall
    ) && !matches!(class(instruction), Class::Other | Class::Syscall)
    {
        return Unit::Branch;
    }
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let is_one_of = |names: &str| names.split(' ').any(|start| name.starts_with(start));
    let is_float = ["ps", "pd", "ss", "sd"]
        .iter()
        .any(|end| name.ends_with(end));
    match name {
        "mul" | "imul" | "mulx" => Unit::Multiply,
        "div" | "idiv" => Unit::Divide,
        _ if instruction.is_string_instruction() => Unit::Any,
        _ if is_one_of("fdiv fidiv fsqrt") || is_float && is_one_of("div sqrt") => {
            Unit::FloatDivide
        }
        // The newer comparisons of x87 are not told from its moves.
        _ if is_one_of("fadd fiadd fsub fisub fmul fimul ficom fcom") && !is_one_of("fcomi") => {
            Unit::Float
        }
        _ if is_one_of("cvt") => Unit::Float,
        _ if is_float
            && is_one_of(
                "add sub mul min max cmp comi ucomi hadd hsub round dp rcp rsqrt fmadd fmsub fnmadd fnmsub",
            ) =>
        {
            Unit::Float
        }
        _ => Unit::Any,
    }
}

/// An access as a tuple that can be compared: address, bytes, and whether it is read and written.
type Touched = (u64, usize, bool, bool);

fn ours(decoded: &Decoded) -> BTreeSet<Touched> {
    let touched = |operand: &Operand| {
        let (reads, writes) = match operand.access {
            Access3::Read => (true, false),
            Access3::Write => (false, true),
            Access3::Modify => (true, true),
        };
        (address(operand), usize::from(operand.size), reads, writes)
    };
    decoded.operands.iter().flatten().map(touched).collect()
}

fn theirs(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> BTreeSet<Touched> {
    let mut touched = BTreeSet::new();
    for memory in factory.info(instruction).used_memory() {
        let (reads, writes) = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            OpAccess::None | OpAccess::NoMemAccess => continue,
        };
        let value = |name: Register, _, _| {
            Some(match name {
                Register::FS => FS,
                Register::GS => GS,
                _ if name.is_segment_register() => 0,
                _ if name.is_gpr32() => register(name.number() as u8) & 0xffff_ffff,
                _ if name.is_gpr64() => register(name.number() as u8),
                _ => return None,
            })
        };
        // The size is unknown to iced where it depends on a repeat count; ours is that of one element.
        let size = match memory.memory_size().size() {
            0 => instruction.memory_size().size(),
            size => size,
        };
        if let Some(address) = memory.virtual_address(0, value) {
            touched.insert((address, size, reads, writes));
        }
    }
    touched
}

fn class(instruction: &Instruction) -> Class {
    let exchange =
        instruction.mnemonic() == Mnemonic::Xchg && instruction.op0_kind() == OpKind::Memory;
    match instruction.mnemonic() {
        _ if instruction.has_lock_prefix() || exchange => Class::Locked,
        Mnemonic::Mfence | Mnemonic::Lfence | Mnemonic::Sfence => Class::Fence,
        Mnemonic::Rdtsc => Class::Rdtsc,
        Mnemonic::Rdtscp => Class::Rdtscp,
        Mnemonic::Pause => Class::Pause,
        Mnemonic::Cpuid => Class::Cpuid,
        Mnemonic::Syscall => Class::Syscall,
        _ => Class::Plain,
    }
}

/// A comparison over many instructions.
struct Comparison {
    factory: InstructionInfoFactory,
    accepted: usize,
    /// The entries of the lists above that were needed.
    excused: BTreeSet<String>,
    /// One example of each difference.
    differences: BTreeMap<String, String>,
}

impl Comparison {
    fn new() -> Self {
        Comparison {
            factory: InstructionInfoFactory::new(),
            accepted: 0,
            excused: BTreeSet::new(),
            differences: BTreeMap::new(),
        }
    }

    fn check(&mut self, bytes: &[u8]) {
        let instruction = Decoder::with_ip(64, bytes, ADDRESS, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return;
        }
        self.accepted += 1;
        let bytes = &bytes[..instruction.len()];
        let decoded = decode(bytes, ADDRESS);
        let mnemonic = format!("{:?}", instruction.mnemonic());
        let difference = if !decoded.known {
            self.excuse(&instruction, &mnemonic)
        } else if decoded.class == Class::Other {
            self.listed(&[("", OTHER)], &mnemonic)
        } else {
            self.compare(&instruction, &decoded)
        };
        if let Some(difference) = difference {
            let example = format!("{bytes:02x?} {instruction:?} {decoded:x?}");
            self.differences
                .entry(format!("{mnemonic}: {difference}"))
                .or_insert(example);
        }
    }

    fn listed(&mut self, list: &[(&str, &str)], mnemonic: &str) -> Option<String> {
        if list
            .iter()
            .any(|(_, names)| names.split_whitespace().any(|name| name == mnemonic))
        {
            self.excused.insert(mnemonic.to_string());
            None
        } else {
            Some("neither known nor listed".to_string())
        }
    }

    fn excuse(&mut self, instruction: &Instruction, mnemonic: &str) -> Option<String> {
        if instruction.is_privileged() {
            return None;
        }
        for feature in instruction.cpuid_features() {
            let name = format!("{feature:?}");
            if ABSENT.split_whitespace().any(|absent| absent == name) {
                self.excused.insert(name);
                return None;
            }
        }
        self.listed(DIFFICULT, mnemonic)
    }

    fn compare(&mut self, instruction: &Instruction, decoded: &Decoded) -> Option<String> {
        if class(instruction) != decoded.class {
            return Some("class".to_string());
        }
        if unit(instruction) != decoded.unit {
            return Some(format!("unit: {:?} expected", unit(instruction)));
        }
        let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        if decoded.rep != (repeated && instruction.is_string_instruction()) {
            return Some("repeated".to_string());
        }
        let mut theirs = theirs(&mut self.factory, instruction);
        if matches!(
            instruction.mnemonic(),
            Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb
        ) {
            // iced has them read a byte; they return no data and order nothing.
            theirs.clear();
        }
        (theirs != ours(decoded)).then(|| format!("{theirs:x?} expected"))
    }
}

/// Calls `f` with every ModRM byte of a selection, followed by what belongs to it and enough for immediate operands.
fn operands(start: &[u8], f: &mut dyn FnMut(&[u8])) {
    const FORMS: &[&[u8]] = &[
        // Registers
        &[0xc0],
        &[0xc6],
        // [rax], [rbp+8], [rdi+disp32], [rip+disp32]
        &[0x00],
        &[0x45, 0xf8],
        &[0x87, 0x10, 0x20, 0x30, 0xff],
        &[0x05, 0x10, 0x20, 0x30, 0xff],
        // [rsp], [rsp+rcx*8-16], [rbp*2+disp32], [rsp+disp32]
        &[0x04, 0x24],
        &[0x44, 0xcc, 0xf0],
        &[0x04, 0x6d, 0x78, 0x56, 0x34, 0x12],
        &[0x84, 0x24, 0x10, 0x20, 0x30, 0x00],
    ];
    const IMMEDIATE: [u8; 8] = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x08];
    let mut bytes = Vec::with_capacity(32);
    for form in FORMS {
        for reg in 0..8 {
            bytes.clear();
            bytes.extend_from_slice(start);
            bytes.push(form[0] | reg << 3);
            bytes.extend_from_slice(&form[1..]);
            bytes.extend_from_slice(&IMMEDIATE);
            bytes.truncate(15);
            f(&bytes);
        }
    }
}

/// All opcodes of the four legacy maps behind a selection of prefixes.
fn legacy(f: &mut dyn FnMut(&[u8])) {
    const PREFIXES: &[&[u8]] = &[
        &[],
        &[0x66],
        &[0xf3],
        &[0xf2],
        &[0x48],
        &[0x66, 0x48],
        &[0xf3, 0x48],
        &[0xf2, 0x48],
        &[0x67],
        &[0x64],
        &[0x65, 0x67, 0x43],
        &[0x47],
        &[0xf0],
        &[0xf0, 0x66, 0x49],
        &[0x66, 0xf2],
        &[0xf3, 0x66],
        // A REX prefix that does not count, and repeat prefixes of which the last counts
        &[0x48, 0x66],
        &[0xf3, 0xf2, 0x42],
        &[0x2e, 0x41],
    ];
    for prefix in PREFIXES {
        for map in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
            for opcode in 0..=255 {
                operands(&[*prefix, map, &[opcode]].concat(), f);
            }
        }
    }
}

/// All opcodes of the VEX maps in both lengths, with and without W, short and long.
fn vex(f: &mut dyn FnMut(&[u8])) {
    for opcode in 0..=255 {
        for prefix_and_length in 0..8 {
            // vvvv is inverted: 1111 is no register, 0110 register 9.
            for vvvv in [0x78, 0x30] {
                let last = prefix_and_length | vvvv;
                operands(&[0xc5, last | 0x80, opcode], f);
                for map in 1..=3 {
                    for wide in [0, 0x80] {
                        operands(&[0xc4, 0xe0 | map, last | wide, opcode], f);
                    }
                    operands(&[0x64, 0xc4, map, last, opcode], f);
                    operands(&[0x67, 0xc4, 0xc0 | map, last, opcode], f);
                }
            }
        }
    }
}

/// Bytes without pattern, from a fixed seed.
fn noise(count: usize, f: &mut dyn FnMut(&[u8])) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    for _ in 0..count {
        let bytes = [next(), next()].concat();
        f(&bytes[1..]);
    }
}

#[test]
fn agrees_with_iced() {
    let mut comparison = Comparison::new();
    legacy(&mut |bytes| comparison.check(bytes));
    vex(&mut |bytes| comparison.check(bytes));
    noise(300_000, &mut |bytes| comparison.check(bytes));
    let Comparison {
        differences,
        excused,
        accepted,
        ..
    } = comparison;
    assert!(
        differences.is_empty(),
        "{} differences: {differences:#?}",
        differences.len()
    );
    let listed = DIFFICULT
        .iter()
        .map(|(_, names)| *names)
        .chain([ABSENT, OTHER])
        .flat_map(str::split_whitespace);
    let unused: Vec<_> = listed.filter(|name| !excused.contains(*name)).collect();
    assert!(unused.is_empty(), "no longer needed: {unused:?}");
    assert!(accepted > 500_000, "only {accepted} instructions compared");
}

/// The instruction at [`ADDRESS`] that has these bytes, which must be known.
fn known(bytes: &[u8]) -> Decoded {
    let decoded = decode(bytes, ADDRESS);
    assert!(decoded.known, "{bytes:02x?}");
    decoded
}

/// Its operands in the order in which they are touched: address, size and access.
fn touched(bytes: &[u8]) -> Vec<(u64, u8, Access3)> {
    let operands = known(bytes).operands;
    operands
        .iter()
        .flatten()
        .map(|operand| (address(operand), operand.size, operand.access))
        .collect()
}

#[test]
fn the_stack_pointer_is_that_before_the_instruction() {
    use Access3::{Read, Write};
    let stack = register(RSP);
    // push rax; push ax; call; pushfq; push [rsp+8]; call [rsp+8]
    assert_eq!(touched(&[0x50]), [(stack - 8, 8, Write)]);
    assert_eq!(touched(&[0x66, 0x50]), [(stack - 2, 2, Write)]);
    assert_eq!(touched(&[0xe8, 0, 0, 0, 0]), [(stack - 8, 8, Write)]);
    assert_eq!(touched(&[0x9c]), [(stack - 8, 8, Write)]);
    assert_eq!(
        touched(&[0xff, 0x74, 0x24, 8]),
        [(stack + 8, 8, Read), (stack - 8, 8, Write)]
    );
    assert_eq!(
        touched(&[0xff, 0x54, 0x24, 8]),
        [(stack + 8, 8, Read), (stack - 8, 8, Write)]
    );
    // pop rax; ret; leave; pop [rsp+8], which adds to the pointer as it is after the pop; pop [rax]
    assert_eq!(touched(&[0x58]), [(stack, 8, Read)]);
    assert_eq!(touched(&[0xc3]), [(stack, 8, Read)]);
    assert_eq!(touched(&[0xc9]), [(register(RBP), 8, Read)]);
    assert_eq!(
        touched(&[0x8f, 0x44, 0x24, 8]),
        [(stack, 8, Read), (stack + 16, 8, Write)]
    );
    assert_eq!(
        touched(&[0x8f, 0x00]),
        [(stack, 8, Read), (register(0), 8, Write)]
    );
    // The linker's padding of a call: a wide operand wins over the operand-size prefix.
    assert_eq!(
        touched(&[0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0]),
        [(stack - 8, 8, Write)]
    );
}

#[test]
fn strings_are_touched_by_element() {
    use Access3::{Read, Write};
    let (source, target) = (register(RSI), register(RDI));
    assert_eq!(
        touched(&[0xf3, 0x48, 0xa5]),
        [(source, 8, Read), (target, 8, Write)]
    );
    assert_eq!(touched(&[0xa6]), [(target, 1, Read), (source, 1, Read)]);
    assert_eq!(
        touched(&[0x64, 0x66, 0xa5]),
        [(FS + source, 2, Read), (target, 2, Write)]
    );
    assert_eq!(touched(&[0x67, 0xaa]), [(target & 0xffff_ffff, 1, Write)]);
    assert!(known(&[0xf3, 0xaa]).rep && known(&[0xf2, 0xae]).rep);
    assert!(!known(&[0xaa]).rep && !known(&[0xf3, 0x90]).rep);
}

#[test]
fn addresses_are_resolved() {
    use Access3::{Modify, Read};
    // mov eax, [rip-16]; the same with an immediate value behind the address; [eip-16]
    assert_eq!(
        touched(&[0x8b, 0x05, 0xf0, 0xff, 0xff, 0xff]),
        [(ADDRESS + 6 - 16, 4, Read)]
    );
    assert_eq!(
        touched(&[0x83, 0x05, 0xf0, 0xff, 0xff, 0xff, 1]),
        [(ADDRESS + 7 - 16, 4, Modify)]
    );
    let relative = (ADDRESS + 7 - 16) & 0xffff_ffff;
    assert_eq!(
        touched(&[0x67, 0x8b, 0x05, 0xf0, 0xff, 0xff, 0xff]),
        [(relative, 4, Read)]
    );
    // mov rax, fs:[0], as compilers read the thread pointer
    assert_eq!(
        touched(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]),
        [(FS, 8, Read)]
    );
    // mov rax, [r12+r13*4]: r12 is a base, where rsp is not an index
    let sum = register(12) + register(13) * 4;
    assert_eq!(touched(&[0x4b, 0x8b, 0x04, 0xac]), [(sum, 8, Read)]);
    // mov al, [absolute address]
    assert_eq!(
        touched(&[0xa0, 8, 7, 6, 5, 4, 3, 2, 1]),
        [(0x0102_0304_0506_0708, 1, Read)]
    );
}

#[test]
fn locks_are_for_changes_of_memory() {
    assert_eq!(known(&[0xf0, 0x48, 0x0f, 0xc1, 0x07]).class, Class::Locked);
    assert_eq!(known(&[0x87, 0x07]).class, Class::Locked);
    assert_eq!(known(&[0x87, 0xc7]).class, Class::Plain);
    // lock bts [rdi], eax: locked, although nobody says where; lock bt and lock mov do not exist.
    let bit = decode(&[0xf0, 0x0f, 0xab, 0x07], ADDRESS);
    assert_eq!((bit.class, bit.known), (Class::Locked, false));
    for invalid in [
        &[0xf0, 0x0f, 0xa3, 0x07][..],
        &[0xf0, 0x89, 0x07],
        &[0xf0, 0x01, 0xc0],
        &[0xf0, 0x90],
    ] {
        let decoded = decode(invalid, ADDRESS);
        assert_eq!(
            (decoded.class, decoded.known),
            (Class::Other, false),
            "{invalid:02x?}"
        );
    }
}

#[test]
fn wide_extensions_are_named() {
    // vmovdqu64 zmm0, [rdi]; kmovw k1, eax
    for bytes in [
        &[0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x07][..],
        &[0xc5, 0xf8, 0x92, 0xc8],
    ] {
        let decoded = decode(bytes, ADDRESS);
        assert!(decoded.avx512 && !decoded.known, "{bytes:02x?}");
    }
    // vmovdqu ymm0, [rdi]
    assert!(!known(&[0xc5, 0xfe, 0x6f, 0x07]).avx512);
}

#[test]
fn bytes_that_end_early_are_not_known() {
    let whole = [
        &[0x66, 0x48, 0x81, 0x84, 0xcc, 0x78, 0x56, 0x34, 0x12][..],
        &[0x64, 0xc4, 0xe3, 0x7d, 0x18, 0x45, 0x10],
        &[0xf3, 0x0f, 0x38, 0xf6, 0x80, 1, 2, 3, 4],
        &[0x67, 0xa1, 1, 2, 3, 4],
    ];
    for bytes in whole {
        known(bytes);
        for length in 0..bytes.len() {
            let cut = decode(&bytes[..length], ADDRESS);
            assert_eq!(
                cut,
                Decoded::undescribed(Class::Other),
                "{:02x?}",
                &bytes[..length]
            );
        }
    }
}

#[test]
fn any_bytes_are_decoded_to_operands_that_make_sense() {
    noise(200_000, &mut |bytes| {
        for length in [15, 7, 3] {
            let decoded = decode(&bytes[..length], u64::MAX - 2);
            assert!(
                decoded.known || decoded.operands == [None; 2],
                "{bytes:02x?}"
            );
            for operand in decoded.operands.iter().flatten() {
                assert!(
                    (1..=64).contains(&operand.size) && operand.scale < 4,
                    "{bytes:02x?} {operand:?}"
                );
                assert!(
                    operand.base <= NONE && operand.index <= NONE && operand.index != RSP,
                    "{bytes:02x?} {operand:?}"
                );
            }
        }
    });
}
