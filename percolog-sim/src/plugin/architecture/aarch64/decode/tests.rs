//! The decoder against encodings that GNU's assembler has made of the texts beside them, and what has to hold for all words.

use super::*;
use Access3::{Modify, Read, Write};
use Sum::{Untagged, UntaggedSignedWord, UntaggedWord};

/// Where the instructions lie.
const ADDRESS: u64 = 0x5500_0000_1000;

fn at(base: u8, displacement: i64, size: u8, access: Access3) -> Operand {
    Operand {
        displacement,
        base,
        index: NONE,
        scale: 0,
        segment: Segment::None,
        size,
        access,
        address32: false,
        sum: Untagged,
    }
}

fn indexed(base: u8, index: u8, scale: u8, sum: Sum, size: u8, access: Access3) -> Operand {
    Operand {
        index,
        scale,
        sum,
        ..at(base, 0, size, access)
    }
}

/// At a distance from the instruction.
fn near(distance: i64, size: u8) -> Operand {
    at(NONE, ADDRESS as i64 + distance, size, Read)
}

fn block(base: u8, shift: u8) -> Operand {
    Operand {
        sum: Sum::UntaggedBlock,
        ..at(base, 0, shift, Write)
    }
}

fn decoded(word: u32) -> Decoded {
    decode(&word.to_le_bytes(), ADDRESS)
}

#[rustfmt::skip]
fn touching() -> Vec<(u32, &'static str, Operand)> {
    vec![
        (0xf9400841, "ldr x1, [x2, #16]", at(2, 16, 8, Read)),
        (0xb94fffe1, "ldr w1, [sp, #4092]", at(31, 4092, 4, Read)),
        (0x397ffc41, "ldrb w1, [x2, #4095]", at(2, 4095, 1, Read)),
        (0x79800441, "ldrsh x1, [x2, #2]", at(2, 2, 2, Read)),
        (0xb9800441, "ldrsw x1, [x2, #4]", at(2, 4, 4, Read)),
        (0xf9000041, "str x1, [x2]", at(2, 0, 8, Write)),
        (0x79000c5f, "strh wzr, [x2, #6]", at(2, 6, 2, Write)),
        (0x3d800843, "str q3, [x2, #32]", at(2, 32, 16, Write)),
        (0x3d401443, "ldr b3, [x2, #5]", at(2, 5, 1, Read)),
        (0x7d400c43, "ldr h3, [x2, #6]", at(2, 6, 2, Read)),
        (0xbd400843, "ldr s3, [x2, #8]", at(2, 8, 4, Read)),
        (0xfd400443, "ldr d3, [x2, #8]", at(2, 8, 8, Read)),
        (0xf85f0441, "ldr x1, [x2], #-16", at(2, 0, 8, Read)),
        (0xf85f0c41, "ldr x1, [x2, #-16]!", at(2, -16, 8, Read)),
        (0x380ff441, "strb w1, [x2], #255", at(2, 0, 1, Write)),
        (0x3c900fe1, "str q1, [sp, #-256]!", at(31, -256, 16, Write)),
        (0xf85fd041, "ldur x1, [x2, #-3]", at(2, -3, 8, Read)),
        (0xb80ff041, "stur w1, [x2, #255]", at(2, 255, 4, Write)),
        (0x38900041, "ldursb x1, [x2, #-256]", at(2, -256, 1, Read)),
        (0x3cc01041, "ldur q1, [x2, #1]", at(2, 1, 16, Read)),
        (0xf8408841, "ldtr x1, [x2, #8]", at(2, 8, 8, Read)),
        (0x381ff841, "sttrb w1, [x2, #-1]", at(2, -1, 1, Write)),
        (0xf8636841, "ldr x1, [x2, x3]", indexed(2, 3, 0, Untagged, 8, Read)),
        (0xf8637841, "ldr x1, [x2, x3, lsl #3]", indexed(2, 3, 3, Untagged, 8, Read)),
        (0xb8634841, "ldr w1, [x2, w3, uxtw]", indexed(2, 3, 0, UntaggedWord, 4, Read)),
        (0xb8635841, "ldr w1, [x2, w3, uxtw #2]", indexed(2, 3, 2, UntaggedWord, 4, Read)),
        (0xf823d841, "str x1, [x2, w3, sxtw #3]", indexed(2, 3, 3, UntaggedSignedWord, 8, Write)),
        (0x3823ebe1, "strb w1, [sp, x3, sxtx]", indexed(31, 3, 0, Untagged, 1, Write)),
        (0x3ce37841, "ldr q1, [x2, x3, lsl #4]", indexed(2, 3, 4, Untagged, 16, Read)),
        (0xfc63c841, "ldr d1, [x2, w3, sxtw]", indexed(2, 3, 0, UntaggedSignedWord, 8, Read)),
        (0xf87f6841, "ldr x1, [x2, xzr]", at(2, 0, 8, Read)),
        (0x58000081, "ldr x1, .+16", near(16, 8)),
        (0x18ffff81, "ldr w1, .-16", near(-16, 4)),
        (0x98000101, "ldrsw x1, .+32", near(32, 4)),
        (0x9c000201, "ldr q1, .+64", near(64, 16)),
        (0x1c000021, "ldr s1, .+4", near(4, 4)),
        (0x5c000041, "ldr d1, .+8", near(8, 8)),
        (0xa9410be1, "ldp x1, x2, [sp, #16]", at(31, 16, 16, Read)),
        (0x297f0861, "ldp w1, w2, [x3, #-8]", at(3, -8, 8, Read)),
        (0xa9a07bfd, "stp x29, x30, [sp, #-512]!", at(31, -512, 16, Write)),
        (0xa8c27bfd, "ldp x29, x30, [sp], #32", at(31, 0, 16, Read)),
        (0x69600861, "ldpsw x1, x2, [x3, #-256]", at(3, -256, 8, Read)),
        (0xad010861, "stp q1, q2, [x3, #32]", at(3, 32, 32, Write)),
        (0x6dff8861, "ldp d1, d2, [x3, #-8]!", at(3, -8, 16, Read)),
        (0x2c810861, "stp s1, s2, [x3], #8", at(3, 0, 8, Write)),
        (0xa85f8861, "ldnp x1, x2, [x3, #504]", at(3, 504, 16, Read)),
        (0xac200861, "stnp q1, q2, [x3, #-1024]", at(3, -1024, 32, Write)),
        (0xc85f7c41, "ldxr x1, [x2]", at(2, 0, 8, Read)),
        (0x085f7c41, "ldxrb w1, [x2]", at(2, 0, 1, Read)),
        (0x885fffe1, "ldaxr w1, [sp]", at(31, 0, 4, Read)),
        (0x485ffc41, "ldaxrh w1, [x2]", at(2, 0, 2, Read)),
        (0xc8007c41, "stxr w0, x1, [x2]", at(2, 0, 8, Modify)),
        (0x0800fc41, "stlxrb w0, w1, [x2]", at(2, 0, 1, Modify)),
        (0xc87f0861, "ldxp x1, x2, [x3]", at(3, 0, 16, Read)),
        (0x887f8861, "ldaxp w1, w2, [x3]", at(3, 0, 8, Read)),
        (0xc8200861, "stxp w0, x1, x2, [x3]", at(3, 0, 16, Modify)),
        (0x88208861, "stlxp w0, w1, w2, [x3]", at(3, 0, 8, Modify)),
        (0xc8dffc41, "ldar x1, [x2]", at(2, 0, 8, Read)),
        (0x08dffc41, "ldarb w1, [x2]", at(2, 0, 1, Read)),
        (0x889ffc41, "stlr w1, [x2]", at(2, 0, 4, Write)),
        (0x489ffc41, "stlrh w1, [x2]", at(2, 0, 2, Write)),
        (0xc8df7c41, "ldlar x1, [x2]", at(2, 0, 8, Read)),
        (0xc89f7c41, "stllr x1, [x2]", at(2, 0, 8, Write)),
        (0xf8bfc041, "ldapr x1, [x2]", at(2, 0, 8, Read)),
        (0x38bfc041, "ldaprb w1, [x2]", at(2, 0, 1, Read)),
        (0xd95f8041, "ldapur x1, [x2, #-8]", at(2, -8, 8, Read)),
        (0x9900c041, "stlur w1, [x2, #12]", at(2, 12, 4, Write)),
        (0x99804041, "ldapursw x1, [x2, #4]", at(2, 4, 4, Read)),
        (0xf8200041, "ldadd x0, x1, [x2]", at(2, 0, 8, Modify)),
        (0xb8e003e1, "ldaddal w0, w1, [sp]", at(31, 0, 4, Modify)),
        (0xf820005f, "stadd x0, [x2]", at(2, 0, 8, Modify)),
        (0x38201041, "ldclrb w0, w1, [x2]", at(2, 0, 1, Modify)),
        (0x78202041, "ldeorh w0, w1, [x2]", at(2, 0, 2, Modify)),
        (0xf8203041, "ldset x0, x1, [x2]", at(2, 0, 8, Modify)),
        (0xb8204041, "ldsmax w0, w1, [x2]", at(2, 0, 4, Modify)),
        (0xf8207041, "ldumin x0, x1, [x2]", at(2, 0, 8, Modify)),
        (0xf8208041, "swp x0, x1, [x2]", at(2, 0, 8, Modify)),
        (0x38e08041, "swpalb w0, w1, [x2]", at(2, 0, 1, Modify)),
        (0xc8a07c41, "cas x0, x1, [x2]", at(2, 0, 8, Modify)),
        (0x48e0fc41, "casalh w0, w1, [x2]", at(2, 0, 2, Modify)),
        (0x48207c82, "casp x0, x1, x2, x3, [x4]", at(4, 0, 16, Modify)),
        (0x0860fc82, "caspal w0, w1, w2, w3, [x4]", at(4, 0, 8, Modify)),
        (0x4c407040, "ld1 {v0.16b}, [x2]", at(2, 0, 16, Read)),
        (0x0cdf7040, "ld1 {v0.8b}, [x2], #8", at(2, 0, 8, Read)),
        (0x4c40a040, "ld1 {v0.16b, v1.16b}, [x2]", at(2, 0, 32, Read)),
        (0x0cc36040, "ld1 {v0.8b, v1.8b, v2.8b}, [x2], x3", at(2, 0, 24, Read)),
        (0x4c9f2fe0, "st1 {v0.2d, v1.2d, v2.2d, v3.2d}, [sp], #64", at(31, 0, 64, Write)),
        (0x4c408840, "ld2 {v0.4s, v1.4s}, [x2]", at(2, 0, 32, Read)),
        (0x4c004440, "st3 {v0.8h, v1.8h, v2.8h}, [x2]", at(2, 0, 48, Write)),
        (0x0cdf0040, "ld4 {v0.8b, v1.8b, v2.8b, v3.8b}, [x2], #32", at(2, 0, 32, Read)),
        (0x0d400c40, "ld1 {v0.b}[3], [x2]", at(2, 0, 1, Read)),
        (0x0d9f5840, "st1 {v0.h}[3], [x2], #2", at(2, 0, 2, Write)),
        (0x0d409040, "ld1 {v0.s}[1], [x2]", at(2, 0, 4, Read)),
        (0x4dc38440, "ld1 {v0.d}[1], [x2], x3", at(2, 0, 8, Read)),
        (0x4d608440, "ld2 {v0.d, v1.d}[1], [x2]", at(2, 0, 16, Read)),
        (0x4d002440, "st3 {v0.b, v1.b, v2.b}[9], [x2]", at(2, 0, 3, Write)),
        (0x4d60a040, "ld4 {v0.s, v1.s, v2.s, v3.s}[2], [x2]", at(2, 0, 16, Read)),
        (0x4d40c840, "ld1r {v0.4s}, [x2]", at(2, 0, 4, Read)),
        (0x4d60c040, "ld2r {v0.16b, v1.16b}, [x2]", at(2, 0, 2, Read)),
        (0x4d40ec40, "ld3r {v0.2d, v1.2d, v2.2d}, [x2]", at(2, 0, 24, Read)),
        (0x0dffe440, "ld4r {v0.4h, v1.4h, v2.4h, v3.4h}, [x2], #8", at(2, 0, 8, Read)),
        (0xd50b7423, "dc zva, x3", block(3, 9)),
    ]
}

/// Instructions that touch no memory.
#[rustfmt::skip]
const PLAIN: &[(u32, &str)] = &[
    (0xf9802040, "prfm pldl1keep, [x2, #64]"),
    (0xf89f8040, "prfum pldl1keep, [x2, #-8]"),
    (0xf8a36840, "prfm pldl1keep, [x2, x3]"),
    (0xd8000040, "prfm pldl1keep, .+8"),
    (0xd50b7e23, "dc civac, x3"),
    (0xd50b7b23, "dc cvau, x3"),
    (0xd5033f5f, "clrex"),
    (0xd503209f, "sev"),
    (0xd503201f, "nop"),
    (0xd503245f, "bti c"),
    (0xd503233f, "paciasp"),
    (0xd53bd040, "mrs x0, tpidr_el0"),
    (0xd53be000, "mrs x0, cntfrq_el0"),
    (0xd53b00e0, "mrs x0, dczid_el0"),
    (0xd53b0020, "mrs x0, ctr_el0"),
    (0xd51b4200, "msr nzcv, x0"),
    (0xd65f03c0, "ret"),
    (0x94000010, "bl .+64"),
    (0xd63f0060, "blr x3"),
    (0x54ffffc1, "b.ne .-8"),
    (0xb4000041, "cbz x1, .+8"),
    (0x37180041, "tbnz x1, #3, .+8"),
    (0x91001020, "add x0, x1, #4"),
    (0x90000000, "adrp x0, ."),
    (0xd2800060, "mov x0, #3"),
    (0x1e620820, "fmul d0, d1, d2"),
    (0x1f420c20, "fmadd d0, d1, d2, d3"),
    (0x4e284820, "aese v0.16b, v1.16b"),
    (0x4e020020, "tbl v0.16b, {v1.16b}, v2.16b"),
    (0x9ac24c20, "crc32x w0, w1, x2"),
    (0x25211c00, "whilelo p0.b, x0, x1"),
];

/// Instructions that are of some interest, and touch no memory.
#[rustfmt::skip]
const SPECIAL_ONES: &[(u32, &str, Class)] = &[
    (0xd5033bbf, "dmb ish", Class::Fence),
    (0xd50339bf, "dmb ishld", Class::Fence),
    (0xd5033f9f, "dsb sy", Class::Fence),
    (0xd5033a9f, "dsb ishst", Class::Fence),
    (0xd5033fdf, "isb", Class::Pause),
    (0xd503203f, "yield", Class::Pause),
    (0xd503205f, "wfe", Class::Pause),
    (0xd4000001, "svc #0", Class::Syscall),
    (0xd4200020, "brk #1", Class::Other),
    (0xd4400040, "hlt #2", Class::Other),
    (0x00000000, "udf #0", Class::Other),
    (0xd53be040, "mrs x0, cntvct_el0", Class::Counter),
    (0xd53be020, "mrs x0, cntpct_el0", Class::Counter),
    (0xd53b2400, "mrs x0, rndr", Class::Other),
];

/// Instructions that are not described.
#[rustfmt::skip]
const UNKNOWN: &[(u32, &str)] = &[
    (0xf8201441, "ldraa x1, [x2, #8]"),
    (0xd9200841, "stg x1, [x2]"),
    (0xd9600041, "ldg x1, [x2]"),
    (0x69000861, "stgp x1, x2, [x3]"),
    (0xd9200041, "stzgm x1, [x2]"),
    (0xf83fd040, "ld64b x0, [x2]"),
    (0xf83f9040, "st64b x0, [x2]"),
    (0xa400a040, "ld1b {z0.b}, p0/z, [x2]"),
    (0xe5e0e040, "st1d {z0.d}, p0, [x2]"),
    (0x85804041, "ldr z1, [x2]"),
    (0x19010440, "cpyfp [x0]!, [x1]!, x2!"),
    (0x19c20420, "setp [x0]!, x1!, x2"),
];

#[test]
fn what_the_assembler_makes_is_understood() {
    for (word, text, operand) in touching() {
        let class = match operand.access {
            Modify => Class::Locked,
            Read | Write => Class::Plain,
        };
        let expected = Decoded {
            class,
            ..Decoded::one(operand)
        };
        assert_eq!(decoded(word), expected, "{text}");
    }
    for &(word, text) in PLAIN {
        assert_eq!(decoded(word).on(Unit::Any), Decoded::plain(), "{text}");
    }
    for &(word, text, class) in SPECIAL_ONES {
        assert_eq!(decoded(word), Decoded::of(class), "{text}");
    }
    for &(word, text) in UNKNOWN {
        assert!(!decoded(word).known, "{text}");
    }
}

#[test]
fn units_are_those_that_execute_an_instruction() {
    for (word, text, unit) in [
        (0x9ac2_0820, "udiv x0, x1, x2", Unit::Divide),
        (0x1ac2_0c20, "sdiv w0, w1, w2", Unit::Divide),
        (0x9b02_0c20, "madd x0, x1, x2, x3", Unit::Multiply),
        (0x1b02_7c20, "mul w0, w1, w2", Unit::Multiply),
        (0x9bc2_7c20, "umulh x0, x1, x2", Unit::Multiply),
        (0x9b22_7c20, "smull x0, w1, w2", Unit::Multiply),
        (0x1e62_1820, "fdiv d0, d1, d2", Unit::FloatDivide),
        (0x1e22_1820, "fdiv s0, s1, s2", Unit::FloatDivide),
        (0x6e22_fc20, "fdiv v0.4s, v1.4s, v2.4s", Unit::FloatDivide),
        (0x6e62_fc20, "fdiv v0.2d, v1.2d, v2.2d", Unit::FloatDivide),
        (0x1e61_c020, "fsqrt d0, d1", Unit::FloatDivide),
        (0x6ee1_f820, "fsqrt v0.2d, v1.2d", Unit::FloatDivide),
        (0x1e62_2820, "fadd d0, d1, d2", Unit::Float),
        (0x1e22_0820, "fmul s0, s1, s2", Unit::Float),
        (0x1f42_0c20, "fmadd d0, d1, d2, d3", Unit::Float),
        (0x1e61_2000, "fcmp d0, d1", Unit::Float),
        (0x1e22_c020, "fcvt d0, s1", Unit::Float),
        (0x9e62_0020, "scvtf d0, x1", Unit::Float),
        (0x9e78_0020, "fcvtzs x0, d1", Unit::Float),
        (0x4e22_d420, "fadd v0.4s, v1.4s, v2.4s", Unit::Float),
        (0x6e62_dc20, "fmul v0.2d, v1.2d, v2.2d", Unit::Float),
        (0x4e22_cc20, "fmla v0.4s, v1.4s, v2.4s", Unit::Float),
        (0x4e62_f420, "fmax v0.2d, v1.2d, v2.2d", Unit::Float),
        (0x1400_0000, "b 5c", Unit::Branch),
        (0x9400_0000, "bl 60", Unit::Branch),
        (0x5400_0000, "b.eq 64", Unit::Branch),
        (0xb400_0000, "cbz x0, 68", Unit::Branch),
        (0x3718_0000, "tbnz w0, #3, 6c", Unit::Branch),
        (0xd61f_0000, "br x0", Unit::Branch),
        (0xd63f_0020, "blr x1", Unit::Branch),
        (0xd65f_03c0, "ret", Unit::Branch),
        (0x8b02_0020, "add x0, x1, x2", Unit::Any),
        (0xca02_0c20, "eor x0, x1, x2, lsl #3", Unit::Any),
        (0x9a82_0020, "csel x0, x1, x2, eq", Unit::Any),
        (0x1e60_4020, "fmov d0, d1", Unit::Any),
        (0x1e6e_1000, "fmov d0, #1.000000000000000000e+00", Unit::Any),
        (0x9e66_0020, "fmov x0, d1", Unit::Any),
        (0x9e67_0020, "fmov d0, x1", Unit::Any),
        (0xd280_00a0, "mov x0, #0x5", Unit::Any),
        (0x4ea2_8420, "add v0.4s, v1.4s, v2.4s", Unit::Any),
        (0x6e22_1c20, "eor v0.16b, v1.16b, v2.16b", Unit::Any),
        (0xd503_201f, "nop", Unit::Any),
        (0x9ac2_2020, "lsl x0, x1, x2", Unit::Any),
        (0x9ac2_4c20, "crc32x w0, w1, x2", Unit::Any),
    ] {
        assert_eq!(decoded(word).unit, unit, "{text}");
    }
}

#[test]
fn addresses_are_made_as_the_processor_makes_them() {
    let registers = |number: u8| match number {
        2 => 0xab00_0000_0000_1000,
        3 => 0xffff_ffff_ffff_fff8,
        other => panic!("x{other} is not used"),
    };
    for (operand, address) in [
        (at(2, -16, 8, Read), 0xff0),
        (indexed(2, 3, 0, Untagged, 8, Read), 0xff8),
        (indexed(2, 3, 3, Untagged, 8, Read), 0xfc0),
        (indexed(2, 3, 0, UntaggedWord, 8, Read), 0x1_0000_0ff8),
        (indexed(2, 3, 2, UntaggedWord, 8, Read), 0x4_0000_0fe0),
        (indexed(2, 3, 3, UntaggedSignedWord, 8, Read), 0xfc0),
        (block(2, 9), 0x1000),
        (
            Operand {
                displacement: 511,
                ..block(2, 9)
            },
            0x1000,
        ),
        (
            Operand {
                displacement: 512,
                ..block(2, 9)
            },
            0x1200,
        ),
    ] {
        assert_eq!(operand.offset(registers), address, "{operand:?}");
    }
    assert_eq!(
        (block(2, 9).length(), at(2, 0, 64, Read).length()),
        (512, 64)
    );
}

#[test]
fn all_words_give_operands_that_can_be_used() {
    let mut word = 1_u32;
    for _ in 0..2_000_000 {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The low bits of such numbers repeat soon.
        let found = decoded(word.rotate_left(11));
        assert!(found.known || found.operands == [None; 2]);
        for operand in found.operands.iter().flatten() {
            let known = |register| register < 32 || register == NONE;
            assert!(known(operand.base) && known(operand.index) && operand.index != SPECIAL);
            assert!(
                (1..=64).contains(&operand.size) && operand.scale <= 4,
                "{operand:?}"
            );
        }
    }
    assert!(!decode(&[0, 0], ADDRESS).known, "half an instruction");
}
