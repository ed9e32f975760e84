//! Guests for ARM's 64-bit processors.
//!
//! QEMU's state of such a processor begins with sixteen registers of 32 bits, of its other mode; x0 to x30 and the stack
//! pointer follow, as 64-bit words. As with x86-64 nothing of that is taken on trust: what is read there is compared at
//! each system call with what QEMU says of it, and `verify` compares addresses.
//!
//! What x86-64 has and this has not: instructions with two operands in memory, segments (a thread's own memory is found
//! through a general register), repeated instructions, and instructions whose result has to be replaced. The one that
//! would have to be, which reads the counter of the system, gets the host's time, and that is said; it ends no block, so
//! that there is no place where its result could be changed.

mod decode;
mod numbers;

use super::Layout;
use crate::plugin::numbers as n;
use crate::plugin::registers::Registers;

pub(crate) use decode::decode;
pub(crate) use numbers::{canonical, native};

/// Where x0 lies.
const FIRST: usize = 8;

/// Behind sixteen registers of 32 bits.
pub(crate) static LAYOUT: Layout = Layout {
    first: FIRST,
    count: 32,
    stack: FIRST + 31,
    number: FIRST + 8,
    arguments: [FIRST, FIRST + 1, FIRST + 2, FIRST + 3, FIRST + 4, FIRST + 5],
    result: FIRST,
    function_arguments: [FIRST, FIRST + 1, FIRST + 2],
    go_argument: FIRST,
    goroutine: FIRST + 28,
    link: Some(FIRST + 30),
    clone_clears: 4,
};

/// The last instruction of some bytes.
fn last(bytes: &[u8]) -> Option<u32> {
    bytes.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn is_system_call(instruction: u32) -> bool {
    instruction & 0xffe0_001f == 0xd400_0001
}

/// Whether the last instruction is `svc`.
pub(crate) fn ends_with_call(bytes: &[u8]) -> bool {
    last(bytes).is_some_and(is_system_call)
}

/// A `dmb` or `dsb` that waits for loads only.
pub(crate) fn is_load_fence(bytes: &[u8]) -> bool {
    last(bytes).is_some_and(|instruction| instruction >> 8 & 3 == 1)
}

/// Whether an instruction is `ret`, with a checked return address too.
pub(crate) fn is_return(bytes: &[u8]) -> bool {
    last(bytes).is_some_and(|instruction| {
        instruction & 0xffff_fc1f == 0xd65f_0000 || instruction & 0xffff_fbff == 0xd65f_0bff
    })
}

/// Whether the last instruction is `bl` or `blr`, the latter with a checked address too.
pub(crate) fn is_call(bytes: [u8; super::LONGEST_CALL]) -> bool {
    last(&bytes).is_some_and(|instruction| {
        instruction & 0xfc00_0000 == 0x9400_0000
            || instruction & 0xffff_fc1f == 0xd63f_0000
            || instruction & 0xfeff_f800 == 0xd63f_0800
    })
}

/// Turns the system call that is about to be made into one that does not return: it waits for none of no files.
pub(crate) fn call_without_end(registers: &mut Registers) {
    registers.set_number(n::PPOLL);
    for argument in 0..4 {
        registers.set_argument(argument, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_the_flow_is_recognized() {
        let last = |instruction: u32| instruction.to_le_bytes();
        let before = |instruction: u32| {
            let [a, b, c, d] = instruction.to_le_bytes();
            [0x1f, 0x20, 0x03, a, b, c, d]
        };
        // svc #0, svc #1; brk #0, hvc #0
        assert!(
            [0xd400_0001, 0xd400_0021]
                .iter()
                .all(|&i| ends_with_call(&last(i)))
        );
        assert!(
            ![0xd420_0000, 0xd400_0002]
                .iter()
                .any(|&i| ends_with_call(&last(i)))
        );
        // ret, ret x1, retaa, retab; br x30, blr x30
        for instruction in [0xd65f_03c0, 0xd65f_0020, 0xd65f_0bff, 0xd65f_0fff] {
            assert!(is_return(&last(instruction)), "{instruction:#x}");
        }
        assert!(
            ![0xd61f_03c0, 0xd63f_03c0]
                .iter()
                .any(|&i| is_return(&last(i)))
        );
        // bl, bl backwards, blr x3, blraaz x3, blraa x3, x4; b, br x3
        for instruction in [
            0x9400_0010,
            0x97ff_fff0,
            0xd63f_0060,
            0xd63f_087f,
            0xd73f_0864,
        ] {
            assert!(is_call(before(instruction)), "{instruction:#x}");
        }
        assert!(
            ![0x1400_0010, 0xd61f_0060]
                .iter()
                .any(|&i| is_call(before(i)))
        );
        // dmb ishld, dsb ld; dmb ish, dmb ishst, dsb sy
        assert!(
            [0xd503_39bf, 0xd503_3d9f]
                .iter()
                .all(|&i| is_load_fence(&last(i)))
        );
        for instruction in [0xd503_3bbf, 0xd503_3abf, 0xd503_3f9f] {
            assert!(!is_load_fence(&last(instruction)), "{instruction:#x}");
        }
    }
}
