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
/// How many return addresses make the difference: as long as there is room, while there is a little, and while there is any.
const DEEP: [usize; 3] = [8, 4, 1];
/// As many bytes of a stack are kept.
const KEPT: usize = 4096;
/// As many snapshots are kept of each of these, for each [`Purpose`]; what comes later is told apart by fewer of its callers.
const MOST: usize = 4096;
const PAGE: u64 = 4096;
/// How many pages are known to be mapped.
const PAGES: usize = 1024;

/// A snapshot, by its number.
pub(crate) type StackId = u32;

/// What a snapshot is for. Each has room of its own: there are so many accesses that they would leave none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To say who used a line.
    Access,
    /// To say who asked for memory.
    Memory,
}

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
    /// How many of them for each [`Purpose`].
    counts: [usize; 2],
    /// Pages of stacks that can be read, each in the place that its number gives, with the process.
    readable: Box<[u64; PAGES]>,
    /// The process whose memory is read.
    process: usize,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks {
            numbers: HashMap::default(),
            taken: Vec::new(),
            counts: [0; 2],
            readable: Box::new([u64::MAX; PAGES]),
            process: 0,
        }
    }
}

impl Stacks {
    /// The number of the chain of callers of a thread that is at `pc`; nothing if it is a new one, and there is no room for it or it is not
    /// `wanted`.
    pub(crate) fn number(
        &mut self,
        pc: u64,
        registers: &Registers,
        purpose: Purpose,
        wanted: impl FnOnce() -> bool,
    ) -> Option<StackId> {
        let top = registers.stack();
        let mut hashes = [mix(0, pc); DEEP.len()];
        let mut found = 0;
        for index in 0..WORDS {
            let address = top.wrapping_add(8 * index);
            if !address.is_multiple_of(8) || !self.is_readable(address / PAGE) {
                break;
            }
            // SAFETY: the word lies in a page that can be read, and does not reach beyond it.
            let word = unsafe { *(address as *const u64) };
            if code::follows_call(word) {
                for (hash, deep) in hashes.iter_mut().zip(DEEP) {
                    if found < deep {
                        *hash = mix(*hash, word);
                    }
                }
                found += 1;
                if found == DEEP[0] {
                    break;
                }
            }
        }
        for (level, hash) in hashes.into_iter().enumerate() {
            let hash = mix(hash, level as u64);
            if let Some(known) = self.numbers.get(&hash) {
                return Some(*known);
            }
            if self.counts[purpose as usize] < (level + 1) * MOST {
                return wanted().then(|| {
                    self.counts[purpose as usize] += 1;
                    self.take(pc, registers, hash)
                });
            }
        }
        None
    }

    fn take(&mut self, pc: u64, registers: &Registers, hash: u64) -> StackId {
        let number = self.taken.len() as StackId;
        self.taken.push(Stack {
            pc,
            registers: registers.all(),
            memory: memory_from(registers.stack()),
        });
        self.numbers.insert(hash, number);
        number
    }

    /// A snapshot.
    pub(crate) fn get(&self, number: StackId) -> Option<&Stack> {
        self.taken.get(number as usize)
    }

    /// From now on it is this process whose memory is read.
    pub(crate) fn in_process(&mut self, process: usize) {
        self.process = process;
    }

    /// Something was unmapped: what could be read may be gone.
    pub(crate) fn unmapped(&mut self) {
        self.readable.fill(u64::MAX);
    }

    fn is_readable(&mut self, page: u64) -> bool {
        const PAGE_BITS: u32 = 52;
        let key = page ^ (self.process as u64) << PAGE_BITS;
        let place = &mut self.readable[page as usize % PAGES];
        if *place == key {
            return true;
        }
        let readable = memory::read(page.wrapping_mul(PAGE), &mut [0]);
        if readable {
            *place = key;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_leave_room_for_who_asks_for_memory() {
        // No stack that could be read: chains differ in their instruction alone.
        let mut values = [0; 16];
        // SAFETY: the array has as many words as there are registers, and outlives their use.
        let registers = unsafe { Registers::new(values.as_mut_ptr()) };
        let mut stacks = Stacks::default();
        let mut number =
            |pc, purpose, wanted| stacks.number(pc, &registers, purpose, move || wanted);
        assert_eq!(number(0, Purpose::Access, false), None);
        let room = (DEEP.len() * MOST) as u64;
        assert!((0..room).all(|pc| number(pc, Purpose::Access, true).is_some()));
        assert_eq!(number(room, Purpose::Access, true), None);
        let known = number(7, Purpose::Access, false);
        assert_eq!(known, Some(7));
        let asked = number(room, Purpose::Memory, true);
        assert_eq!(asked, Some(room as StackId));
        assert_eq!(number(room, Purpose::Access, false), asked);
    }
}
