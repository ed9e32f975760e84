//! Guests for Intel's and AMD's processors.

mod decode;

use super::{Class, Layout};
use crate::plugin::numbers;
use crate::plugin::registers::{Register, Registers};

pub(crate) use decode::decode;

/// QEMU's state begins with the general registers.
pub(crate) static LAYOUT: Layout = Layout {
    first: 0,
    count: 16,
    stack: Register::Rsp as usize,
    number: Register::Rax as usize,
    arguments: [
        Register::Rdi as usize,
        Register::Rsi as usize,
        Register::Rdx as usize,
        Register::R10 as usize,
        Register::R8 as usize,
        Register::R9 as usize,
    ],
    result: Register::Rax as usize,
    function_arguments: [
        Register::Rdi as usize,
        Register::Rsi as usize,
        Register::Rdx as usize,
    ],
    go_argument: Register::Rax as usize,
    goroutine: Register::R14 as usize,
    link: None,
    clone_clears: 3,
};

/// `lfence`, which does not wait for stores.
pub(crate) fn is_load_fence(bytes: &[u8]) -> bool {
    matches!(bytes, [.., 0x0f, 0xae, 0xe8..=0xef])
}

/// Whether a block begins after an instruction whose result is to be replaced. (What merely looks like one does no
/// harm: the thread knows what it has asked.)
pub(crate) fn ends_with_question(bytes: &[u8]) -> Option<Class> {
    match bytes {
        [.., 0x0f, 0x31] => Some(Class::Rdtsc),
        [.., 0x0f, 0x01, 0xf9] => Some(Class::Rdtscp),
        [.., 0x0f, 0xa2] => Some(Class::Cpuid),
        _ => None,
    }
}

/// Whether an instruction is a near `ret`.
pub(crate) fn is_return(bytes: &[u8]) -> bool {
    let plain = match bytes {
        // With a prefix that says nothing: for old branch predictors, or for bounds.
        [0xf2 | 0xf3, rest @ ..] => rest,
        all => all,
    };
    matches!(plain, [0xc3] | [0xc2, _, _])
}

/// Whether the last of these bytes are a call: `e8` and four bytes, or `ff /2` with its operand.
pub(crate) fn is_call(bytes: [u8; 7]) -> bool {
    let indirect = |length: usize| {
        let at = 7 - length;
        if bytes[at] != 0xff || bytes[at + 1] >> 3 & 7 != 2 {
            return false;
        }
        let (form, base) = (bytes[at + 1] >> 6, bytes[at + 1] & 7);
        let scaled = usize::from(form != 3 && base == 4);
        let displaced = match form {
            0 if base == 5 => 4,
            0 if scaled == 1 && bytes[at + 2] & 7 == 5 => 4,
            1 => 1,
            2 => 4,
            _ => 0,
        };
        length == 2 + scaled + displaced
    };
    bytes[2] == 0xe8 || (2..=7).any(indirect)
}

/// Turns the system call that is about to be made into one that does not return.
pub(crate) fn call_without_end(registers: &mut Registers) {
    registers.set(Register::Rax, numbers::PAUSE);
}
