//! The vector instructions, MMX to AVX2, and the general instructions in VEX encoding.
//!
//! An opcode and its mandatory prefix mean the same in the legacy and in the VEX encoding, which adds the three-operand
//! forms and the length: so one table per map serves both.

use super::{Class, Cursor, Decoded, Form, Mandatory, Unit};

/// What the tables depend on besides the opcode.
#[derive(Clone, Copy, Debug)]
struct Encoding {
    prefix: Mandatory,
    /// Size of a whole vector register: 16 or 32 bytes.
    vector: u8,
    /// Size of a general register: 4 or 8 bytes.
    general: u8,
    vex: bool,
}

impl Encoding {
    /// Size of the operand of an integer instruction that MMX has without a prefix and SSE2 with 66.
    fn integer(&self) -> Option<u8> {
        match self.prefix {
            Mandatory::None if !self.vex => Some(8),
            Mandatory::X66 => Some(self.vector),
            _ => None,
        }
    }

    /// Size of the operand of floating-point arithmetic: packed single or double, scalar single or double.
    fn floating(&self) -> u8 {
        match self.prefix {
            Mandatory::None | Mandatory::X66 => self.vector,
            Mandatory::F3 => 4,
            Mandatory::F2 => 8,
        }
    }
}

impl Cursor<'_> {
    fn legacy(&self) -> Encoding {
        Encoding {
            prefix: self.prefixes.mandatory(),
            vector: 16,
            general: self.prefixes.size_32_or_64(),
            vex: false,
        }
    }

    fn vector_form(&mut self, form: Form) -> Option<Decoded> {
        Some(self.place()?.used(form))
    }

    pub(super) fn vector_0f(&mut self, opcode: u8) -> Option<Decoded> {
        // maskmovq and maskmovdqu store through rdi, and not all bytes.
        if opcode == 0xf7 {
            return Some(Decoded::undescribed(Class::Plain));
        }
        let form = form_0f(opcode, self.legacy())?;
        Some(self.vector_form(form)?.on(unit_0f(opcode)))
    }

    pub(super) fn vector_0f38(&mut self, opcode: u8) -> Option<Decoded> {
        let form = form_0f38(opcode, self.legacy())?;
        Some(self.vector_form(form)?.on(unit_0f38(opcode)))
    }

    pub(super) fn vector_0f3a(&mut self, opcode: u8) -> Option<Decoded> {
        let form = form_0f3a(opcode, self.legacy())?;
        Some(self.vector_form(form)?.on(unit_0f3a(opcode)))
    }

    /// An instruction in VEX encoding, of which the first byte has been read.
    pub(super) fn vex(&mut self, first: u8) -> Option<Decoded> {
        let (map, last) = if first == 0xc5 {
            // The short form: no X, B and W.
            (1, self.byte()? & 0x7f)
        } else {
            let second = self.byte()?;
            let last = self.byte()?;
            // R, X and B are stored inverted, and in the order of REX.
            self.prefixes.rex = !second >> 5 & 7 | last >> 4 & 8;
            (second & 0x1f, last)
        };
        let encoding = Encoding {
            prefix: [
                Mandatory::None,
                Mandatory::X66,
                Mandatory::F3,
                Mandatory::F2,
            ][usize::from(last & 3)],
            vector: if last & 4 == 0 { 16 } else { 32 },
            general: self.prefixes.size_32_or_64(),
            vex: true,
        };
        let opcode = self.byte()?;
        let form = match (map, opcode) {
            // Mask registers are part of AVX-512: kand … kunpck, kmov, kortest, ktest, kshift.
            (1, 0x41..=0x4b | 0x90..=0x99) | (3, 0x30..=0x33) => {
                return Some(Decoded {
                    avx512: true,
                    ..Decoded::undescribed(Class::Other)
                });
            }
            // vzeroupper and vzeroall have no ModRM byte.
            (1, 0x77) => return Some(Decoded::plain()),
            // vmaskmovdqu
            (1, 0xf7) => return Some(Decoded::undescribed(Class::Plain)),
            // vldmxcsr and vstmxcsr
            (1, 0xae) => {
                let place = self.place()?;
                return match place.reg {
                    2 => Some(place.used(Form::Read(4))),
                    3 => Some(place.used(Form::Write(4))),
                    _ => None,
                };
            }
            (1, _) => form_0f(opcode, encoding)?,
            (2, _) => form_0f38(opcode, encoding)?,
            (3, _) => form_0f3a(opcode, encoding)?,
            _ => return None,
        };
        let unit = match (map, opcode) {
            (1, _) => unit_0f(opcode),
            // mulx; andn and the other bits of BMI are plain.
            (2, 0xf6) => Unit::Multiply,
            (2, _) => unit_0f38(opcode),
            _ => unit_0f3a(opcode),
        };
        Some(self.vector_form(form)?.on(unit))
    }
}

/// What executes them. Moves, logic and integers of vectors are plain, whatever the prefix.
fn unit_0f(opcode: u8) -> Unit {
    match opcode {
        // sqrt, div
        0x51 | 0x5e => Unit::FloatDivide,
        // Conversions and comparisons; rsqrt, rcp; add, mul, widening and narrowing, sub, min, max
        0x2a | 0x2c..=0x2f | 0x52 | 0x53 | 0x58..=0x5d | 0x5f => Unit::Float,
        // hadd, hsub; cmp; addsub; conversions
        0x7c | 0x7d | 0xc2 | 0xd0 | 0xe6 => Unit::Float,
        _ => Unit::Any,
    }
}

fn unit_0f38(opcode: u8) -> Unit {
    match opcode {
        // Conversion of halves; fused multiply and add
        0x13 | 0x96..=0x9f | 0xa6..=0xaf | 0xb6..=0xbf => Unit::Float,
        _ => Unit::Any,
    }
}

fn unit_0f3a(opcode: u8) -> Unit {
    match opcode {
        // Rounding; conversion to halves; dot products
        0x08..=0x0b | 0x1d | 0x40 | 0x41 => Unit::Float,
        _ => Unit::Any,
    }
}

/// The vector instructions of the map behind 0F (table A-3). `None`: there is no such instruction.
fn form_0f(opcode: u8, encoding: Encoding) -> Option<Form> {
    use Form::{Nothing, Read, Write};
    use Mandatory::{F2, F3, None as No, X66};
    let Encoding {
        prefix,
        vector,
        general,
        vex,
    } = encoding;
    Some(match (opcode, prefix) {
        // movups, movupd, movss, movsd
        (0x10, _) => Read(encoding.floating()),
        (0x11, _) => Write(encoding.floating()),
        // movlps and movhps, movlpd and movhpd: half a register to and from memory
        (0x12 | 0x16, No | X66) => Read(8),
        (0x13 | 0x17, No | X66) => Write(8),
        // movsldup, movshdup
        (0x12 | 0x16, F3) => Read(vector),
        // movddup repeats the lower half of each 16 bytes, but reads all of a long vector
        (0x12, F2) => Read(if vector == 16 { 8 } else { vector }),
        // unpcklps, unpckhps
        (0x14 | 0x15, No | X66) => Read(vector),
        // movaps, movntps
        (0x28, No | X66) => Read(vector),
        (0x29 | 0x2b, No | X66) => Write(vector),
        // Conversions: from MMX registers, from general registers
        (0x2a, No | X66) if !vex => Read(8),
        (0x2a, F3 | F2) => Read(general),
        // … and to them
        (0x2c | 0x2d, No) if !vex => Read(8),
        (0x2c | 0x2d, X66) if !vex => Read(16),
        (0x2c | 0x2d, F3) => Read(4),
        (0x2c | 0x2d, F2) => Read(8),
        // ucomiss, comiss
        (0x2e | 0x2f, No) => Read(4),
        (0x2e | 0x2f, X66) => Read(8),
        // movmskps
        (0x50, No | X66) => Nothing,
        // sqrt; rsqrt and rcp
        (0x51, _) => Read(encoding.floating()),
        (0x52 | 0x53, No | F3) => Read(encoding.floating()),
        // and, andn, or, xor
        (0x54..=0x57, No | X66) => Read(vector),
        // add, mul, sub, min, div, max
        (0x58 | 0x59 | 0x5c..=0x5f, _) => Read(encoding.floating()),
        // cvtps2pd widens
        (0x5a, No) => Read(vector / 2),
        (0x5a, _) => Read(encoding.floating()),
        // cvtdq2ps, cvtps2dq, cvttps2dq
        (0x5b, No | X66 | F3) => Read(vector),
        // The lower halves of MMX registers
        (0x60..=0x62, No) if !vex => Read(4),
        (0x60..=0x6b | 0x74..=0x76, No | X66) => Read(encoding.integer()?),
        (0x6c | 0x6d, X66) => Read(vector),
        // movd, movq with a general register
        (0x6e, X66) => Read(general),
        (0x6e, No) if !vex => Read(general),
        (0x7e, X66) => Write(general),
        (0x7e, No) if !vex => Write(general),
        // movq, movdqa, movdqu
        (0x6f, F3) => Read(vector),
        (0x6f, No | X66) => Read(encoding.integer()?),
        (0x7f, F3) => Write(vector),
        (0x7f, No | X66) => Write(encoding.integer()?),
        // pshufw, pshufd, pshufhw, pshuflw
        (0x70, F3 | F2) => Read(vector),
        (0x70, No | X66) => Read(encoding.integer()?),
        // Shifts of registers by immediate values
        (0x71..=0x73, No | X66) => Nothing,
        // haddps, hsubps
        (0x7c | 0x7d, X66 | F2) => Read(vector),
        // movq
        (0x7e, F3) => Read(8),
        (0xd6, X66) => Write(8),
        // movq2dq, movdq2q
        (0xd6, F3 | F2) if !vex => Nothing,
        // cmpps and its like
        (0xc2, _) => Read(encoding.floating()),
        // pinsrw; pextrw and pmovmskb have registers only
        (0xc4, X66) => Read(2),
        (0xc4, No) if !vex => Read(2),
        (0xc5 | 0xd7, X66) => Nothing,
        (0xc5 | 0xd7, No) if !vex => Nothing,
        // shufps
        (0xc6, No | X66) => Read(vector),
        // addsubps
        (0xd0, X66 | F2) => Read(vector),
        // cvttpd2dq, cvtpd2dq; cvtdq2pd widens
        (0xe6, X66 | F2) => Read(vector),
        (0xe6, F3) => Read(vector / 2),
        // movntq, movntdq
        (0xe7, No | X66) => Write(encoding.integer()?),
        // lddqu
        (0xf0, F2) => Read(vector),
        // Shifts by a count in memory, which has 16 bytes for long vectors too
        (0xd1..=0xd3 | 0xe1 | 0xe2 | 0xf1..=0xf3, No | X66) => Read(encoding.integer()?.min(16)),
        // All other integer arithmetic
        (
            0xd4
            | 0xd5
            | 0xd8..=0xdf
            | 0xe0
            | 0xe3..=0xe5
            | 0xe8..=0xef
            | 0xf4..=0xf6
            | 0xf8..=0xfe,
            No | X66,
        ) => Read(encoding.integer()?),
        _ => return None,
    })
}

/// The map behind 0F38 (table A-4), without `movbe` and `crc32`.
fn form_0f38(opcode: u8, encoding: Encoding) -> Option<Form> {
    use Form::{Read, Undescribed, Write};
    use Mandatory::{F2, F3, None as No, X66};
    let Encoding {
        prefix,
        vector,
        general,
        vex,
    } = encoding;
    Some(match (opcode, prefix) {
        // SSSE3: pshufb, phaddw, … and pabs
        (0x00..=0x0b | 0x1c..=0x1e, No | X66) => Read(encoding.integer()?),
        // vpermilps, vpermilpd, vtestps, vtestpd
        (0x0c..=0x0f, X66) if vex => Read(vector),
        // pblendvb, blendvps, blendvpd with an implied mask
        (0x10 | 0x14 | 0x15, X66) if !vex => Read(vector),
        // vcvtph2ps widens
        (0x13, X66) if vex => Read(vector / 2),
        // vpermps, vpermd, variable shifts
        (0x16 | 0x36 | 0x45..=0x47, X66) if vex => Read(vector),
        // ptest
        (0x17, X66) => Read(vector),
        // Broadcasts
        (0x18 | 0x58, X66) if vex => Read(4),
        (0x19 | 0x59, X66) if vex => Read(8),
        (0x1a | 0x5a, X66) if vex => Read(16),
        (0x78, X66) if vex => Read(1),
        (0x79, X66) if vex => Read(2),
        // pmovsx and pmovzx: from bytes to words, doublewords, quadwords, and so on
        (0x20 | 0x23 | 0x25 | 0x30 | 0x33 | 0x35, X66) => Read(vector / 2),
        (0x21 | 0x24 | 0x31 | 0x34, X66) => Read(vector / 4),
        (0x22 | 0x32, X66) => Read(vector / 8),
        // pmuldq, pcmpeqq, movntdqa, packusdw; pcmpgtq, the minima and maxima, pmulld, phminposuw
        (0x28..=0x2b | 0x37..=0x41, X66) => Read(vector),
        // Masked moves and gathers
        (0x2c..=0x2f | 0x8c | 0x8e | 0x90..=0x93, X66) if vex => Undescribed,
        // Fused multiply and add
        (0x96..=0x9f | 0xa6..=0xaf | 0xb6..=0xbf, X66) if vex => match opcode & 15 {
            9 | 11 | 13 | 15 => Read(general),
            _ => Read(vector),
        },
        // SHA
        (0xc8..=0xcd, No) if !vex => Read(16),
        // AES
        (0xdb..=0xdf, X66) => Read(vector),
        // BMI: andn; blsr, blsmsk, blsi; bzhi, pext, pdep; mulx; bextr and shifts
        (0xf2 | 0xf3, No) if vex => Read(general),
        (0xf5, No | F3 | F2) if vex => Read(general),
        (0xf6, F2) if vex => Read(general),
        (0xf7, _) if vex => Read(general),
        // adcx, adox
        (0xf6, X66 | F3) if !vex => Read(general),
        // movdiri
        (0xf9, No) if !vex => Write(general),
        _ => return None,
    })
}

/// The map behind 0F3A (table A-5).
fn form_0f3a(opcode: u8, encoding: Encoding) -> Option<Form> {
    use Form::{Read, Write};
    use Mandatory::{F2, None as No, X66};
    let Encoding {
        prefix,
        vector,
        general,
        vex,
    } = encoding;
    Some(match (opcode, prefix) {
        // vpermq, vpermpd, vpblendd, vpermilps, vpermilpd, vperm2f128
        (0x00..=0x02 | 0x04..=0x06, X66) if vex => Read(vector),
        // Rounding and blending
        (0x08 | 0x09 | 0x0c..=0x0e, X66) => Read(vector),
        (0x0a, X66) => Read(4),
        (0x0b, X66) => Read(8),
        // palignr
        (0x0f, No | X66) => Read(encoding.integer()?),
        // pextrb, pextrw, pextrd and pextrq, extractps
        (0x14, X66) => Write(1),
        (0x15, X66) => Write(2),
        (0x16, X66) => Write(general),
        (0x17, X66) => Write(4),
        // Halves of long vectors
        (0x18 | 0x38, X66) if vex => Read(16),
        (0x19 | 0x39, X66) if vex => Write(16),
        // vcvtps2ph narrows
        (0x1d, X66) if vex => Write(vector / 2),
        // pinsrb, insertps, pinsrd and pinsrq
        (0x20, X66) => Read(1),
        (0x21, X66) => Read(4),
        (0x22, X66) => Read(general),
        // dpps, dppd, mpsadbw, pclmulqdq
        (0x40..=0x42 | 0x44, X66) => Read(vector),
        // vperm2i128, vblendvps, vblendvpd, vpblendvb
        (0x46 | 0x4a..=0x4c, X66) if vex => Read(vector),
        // Comparisons of strings
        (0x60..=0x63, X66) => Read(16),
        // sha1rnds4, aeskeygenassist
        (0xcc, No) if !vex => Read(16),
        (0xdf, X66) => Read(16),
        // rorx
        (0xf0, F2) if vex => Read(general),
        _ => return None,
    })
}
