//! Who called: snapshots of stacks, for the launcher to unwind.
//!
//! To unwind takes the tables in the program's files, which the launcher has the means to read. What is done here, often,
//! is to tell one chain of callers from another: the return addresses in the nearest words of the stack are hashed. (A
//! word is taken for one if it follows a call. Old ones that lie in unused room make one chain look like two; that costs
//! some room, and the launcher adds them up again.) Only of a chain that is new a snapshot is taken.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::plugin::code;
use crate::plugin::memory;
use crate::plugin::registers::{MOST as REGISTERS, Registers};
use crate::plugin::report::LineHasher;

/// How many words of a stack are looked at to tell chains apart.
const WORDS: u64 = 96;
/// How many return addresses make the difference.
const DEEP: usize = 8;
/// As many bytes of a stack are kept.
const KEPT: usize = 4096;
/// As many snapshots are kept; what comes later is told apart by its innermost caller alone.
const MOST: usize = 4096;
const PAGE: u64 = 4096;
/// How many pages are known to be mapped.
const PAGES: usize = 1024;

/// A snapshot, by its number.
pub(crate) type StackId = u32;

/// A thread's registers and the top of its stack.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The instruction that it was at.
    pub(crate) pc: u64,
    pub(crate) registers: [u64; REGISTERS],
    /// What lay at the stack pointer and above.
    pub(crate) memory: Vec<u8>,
}

/// All snapshots.
#[derive(Debug)]
pub(crate) struct Stacks {
    numbers: HashMap<u64, StackId, BuildHasherDefault<LineHasher>>,
    taken: Vec<Stack>,
    /// Pages of stacks that can be read, each in the place that its number gives.
    readable: Box<[u64; PAGES]>,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks {
            numbers: HashMap::default(),
            taken: Vec::new(),
            readable: Box::new([u64::MAX; PAGES]),
        }
    }
}

impl Stacks {
    /// The number of the chain of callers of a thread that is at `pc`; nothing if there is no room for it.
    pub(crate) fn number(&mut self, pc: u64, registers: &Registers) -> Option<StackId> {
        let top = registers.stack();
        let mut hash = mix(0, pc);
        let mut first = hash;
        let mut found = 0;
        for index in 0..WORDS {
            let address = top.wrapping_add(8 * index);
            if !address.is_multiple_of(8) || !self.is_readable(address / PAGE) {
                break;
            }
            // SAFETY: the word lies in a page that can be read, and does not reach beyond it.
            let word = unsafe { *(address as *const u64) };
            if code::follows_call(word) {
                hash = mix(hash, word);
                found += 1;
                if found == 1 {
                    first = hash;
                }
                if found == DEEP {
                    break;
                }
            }
        }
        if let Some(known) = self.numbers.get(&hash) {
            return Some(*known);
        }
        if self.taken.len() >= MOST {
            hash = first;
            if let Some(known) = self.numbers.get(&hash) {
                return Some(*known);
            }
            if self.taken.len() >= 2 * MOST {
                return None;
            }
        }
        let number = self.taken.len() as StackId;
        self.taken.push(Stack {
            pc,
            registers: registers.all(),
            memory: memory_from(top),
        });
        self.numbers.insert(hash, number);
        Some(number)
    }

    /// A snapshot.
    pub(crate) fn get(&self, number: StackId) -> Option<&Stack> {
        self.taken.get(number as usize)
    }

    /// Something was unmapped: what could be read may be gone.
    pub(crate) fn unmapped(&mut self) {
        self.readable.fill(u64::MAX);
    }

    fn is_readable(&mut self, page: u64) -> bool {
        let place = &mut self.readable[page as usize % PAGES];
        if *place == page {
            return true;
        }
        let readable = memory::read(page.wrapping_mul(PAGE), &mut [0]);
        if readable {
            *place = page;
        }
        readable
    }
}

/// What lies above a stack pointer, as far as it can be read.
fn memory_from(top: u64) -> Vec<u8> {
    let mut bytes = vec![0; KEPT];
    if memory::read(top, &mut bytes) {
        return bytes;
    }
    let to_the_next_page = (PAGE - top % PAGE) as usize;
    bytes.truncate(to_the_next_page);
    if !memory::read(top, &mut bytes) {
        bytes.clear();
    }
    bytes
}

fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 29)
}
