//! Which memory the program has been given, by whom it was asked for.
//!
//! The calls of the known allocators are heard ([`functions`](crate::plugin::functions)): what they are asked for when
//! they are entered, and what they give when they return. An allocator that is built on another one (C++'s `operator
//! new`, Rust's global allocator) need not be known.

use std::collections::BTreeMap;

use crate::plugin::memory;
use crate::plugin::registers::Registers;
use crate::plugin::stacks::StackId;

/// How a function of an allocator is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `malloc(size, …)`
    Size,
    /// `calloc(count, size)`
    CountAndSize,
    /// `realloc(block, size, …)`
    Resize,
    /// `aligned_alloc(alignment, size)`
    AlignmentAndSize,
    /// `posix_memalign(where, alignment, size)`
    Posix,
    /// `free(block, …)`
    Free,
    /// Go's `runtime.mallocgc(size, …)`, with arguments in other registers.
    Go,
}

impl Kind {
    /// The function of this name.
    pub(crate) fn of(name: &[u8]) -> Option<Kind> {
        Some(match name {
            b"malloc"
            | b"valloc"
            | b"mi_malloc"
            | b"mi_zalloc"
            | b"mi_malloc_small"
            | b"mi_zalloc_small"
            | b"mi_malloc_aligned"
            | b"mi_zalloc_aligned"
            | b"je_malloc"
            | b"je_mallocx"
            | b"mallocx"
            | b"_rjem_malloc"
            | b"_rjem_mallocx"
            | b"tc_malloc"
            | b"_Znwm"
            | b"_Znam"
            | b"_ZnwmRKSt9nothrow_t"
            | b"_ZnamRKSt9nothrow_t"
            | b"_ZnwmSt11align_val_t"
            | b"_ZnamSt11align_val_t" => Kind::Size,
            b"calloc" | b"mi_calloc" | b"je_calloc" | b"_rjem_calloc" | b"tc_calloc" => {
                Kind::CountAndSize
            }
            b"realloc"
            | b"mi_realloc"
            | b"mi_realloc_aligned"
            | b"je_realloc"
            | b"je_rallocx"
            | b"rallocx"
            | b"_rjem_realloc"
            | b"_rjem_rallocx"
            | b"tc_realloc" => Kind::Resize,
            b"aligned_alloc"
            | b"memalign"
            | b"je_aligned_alloc"
            | b"je_memalign"
            | b"_rjem_aligned_alloc"
            | b"_rjem_memalign"
            | b"tc_memalign" => Kind::AlignmentAndSize,
            b"posix_memalign"
            | b"mi_posix_memalign"
            | b"je_posix_memalign"
            | b"_rjem_posix_memalign"
            | b"tc_posix_memalign" => Kind::Posix,
            b"free"
            | b"cfree"
            | b"mi_free"
            | b"mi_free_size"
            | b"mi_free_size_aligned"
            | b"mi_free_aligned"
            | b"je_free"
            | b"je_dallocx"
            | b"je_sdallocx"
            | b"dallocx"
            | b"sdallocx"
            | b"_rjem_free"
            | b"_rjem_dallocx"
            | b"_rjem_sdallocx"
            | b"tc_free"
            | b"_ZdlPv"
            | b"_ZdaPv"
            | b"_ZdlPvm"
            | b"_ZdaPvm"
            | b"_ZdlPvSt11align_val_t"
            | b"_ZdlPvmSt11align_val_t" => Kind::Free,
            b"runtime.mallocgc" => Kind::Go,
            _ => return None,
        })
    }
}

/// Memory that the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The place of its first byte.
    pub(crate) start: u64,
    /// As many bytes as were asked for.
    pub(crate) size: u64,
    /// Who asked, if that could be kept.
    pub(crate) stack: Option<StackId>,
}

/// A call of an allocator that has not returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    kind: Kind,
    size: u64,
    /// Where the block's address will be written, of [`Kind::Posix`].
    to: u64,
    stack: Option<StackId>,
    /// The block that is given back for the new one.
    old: Option<Block>,
}

/// All blocks that the program has.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// The size of each and who asked for it, by its address.
    blocks: BTreeMap<u64, (u64, Option<StackId>)>,
}

impl Blocks {
    /// An allocator is called, by a process whose addresses are places with `owner`. Returns what its return is to be understood by, if it
    /// gives anything.
    pub(crate) fn called(
        &mut self,
        kind: Kind,
        registers: &Registers,
        owner: u64,
        stack: impl FnOnce() -> Option<StackId>,
    ) -> Option<Request> {
        let [first, second, third] = registers.function_arguments();
        let mut request = Request {
            kind,
            size: 0,
            to: 0,
            stack: None,
            old: None,
        };
        match kind {
            Kind::Free => {
                self.take(owner | first);
                return None;
            }
            Kind::Size => request.size = first,
            Kind::Go => request.size = registers.go_argument(),
            Kind::CountAndSize => request.size = first.saturating_mul(second),
            Kind::AlignmentAndSize => request.size = second,
            Kind::Posix => (request.to, request.size) = (first, third),
            Kind::Resize => {
                // Another thread may be given the old block before this one hears of the new one.
                request.old = self.take(owner | first);
                request.size = second;
            }
        }
        request.stack = stack();
        Some(request)
    }

    /// It has returned this.
    pub(crate) fn returned(&mut self, request: &Request, result: u64, owner: u64) {
        let start = match request.kind {
            Kind::Posix if result as u32 == 0 => {
                memory::read_words(request.to).map_or(0, |[at]| at)
            }
            Kind::Posix => 0,
            _ => result,
        };
        if start != 0 {
            self.give(Block {
                start: owner | start,
                size: request.size,
                stack: request.stack,
            });
        } else if let Some(old) = request.old
            && request.size > 0
        {
            // It failed, and the old block is still there.
            self.give(old);
        }
    }

    /// The block that an address lies in.
    pub(crate) fn at(&self, address: u64) -> Option<Block> {
        let (&start, &(size, stack)) = self.blocks.range(..=address).next_back()?;
        (address - start < size.max(1)).then_some(Block { start, size, stack })
    }

    /// These bytes are nobody's any more.
    pub(crate) fn forget(&mut self, start: u64, size: u64) {
        self.give(Block {
            start,
            size,
            stack: None,
        });
        self.take(start);
    }

    /// The program has been given a block.
    pub(crate) fn give(&mut self, block: Block) {
        let end = block.start.saturating_add(block.size.max(1));
        // What overlaps was given back in a way that was not heard: by a collector, or by a function that is not known.
        while let Some((&start, &(size, _))) = self.blocks.range(..end).next_back() {
            if start.saturating_add(size.max(1)) <= block.start {
                break;
            }
            self.blocks.remove(&start);
        }
        self.blocks.insert(block.start, (block.size, block.stack));
    }

    fn take(&mut self, start: u64) -> Option<Block> {
        let (size, stack) = self.blocks.remove(&start)?;
        Some(Block { start, size, stack })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::registers::Register;

    fn registers(values: &mut [u64; 16]) -> Registers {
        // SAFETY: the array has as many words as there are registers, and outlives their use.
        unsafe { Registers::new(values.as_mut_ptr()) }
    }

    /// Calls an allocator with these arguments, which gives this.
    fn call(blocks: &mut Blocks, kind: Kind, arguments: [u64; 3], result: u64) {
        let mut values = [0; 16];
        values[Register::Rdi as usize] = arguments[0];
        values[Register::Rsi as usize] = arguments[1];
        values[Register::Rdx as usize] = arguments[2];
        if let Some(request) = blocks.called(kind, &registers(&mut values), 0, || Some(7)) {
            blocks.returned(&request, result, 0);
        }
    }

    #[test]
    fn a_block_is_known_until_it_is_freed() {
        let mut blocks = Blocks::default();
        call(&mut blocks, Kind::Size, [100, 0, 0], 0x1000);
        call(&mut blocks, Kind::CountAndSize, [3, 8, 0], 0x1080);
        assert_eq!(blocks.at(0x1063).map(|block| block.start), Some(0x1000));
        assert_eq!(blocks.at(0x1064), None);
        assert_eq!(blocks.at(0x1097).map(|block| block.size), Some(24));
        assert_eq!(blocks.at(0xfff), None);
        call(&mut blocks, Kind::Free, [0x1000, 0, 0], 0);
        assert_eq!(blocks.at(0x1000), None);
        assert!(blocks.at(0x1080).is_some());
    }

    #[test]
    fn blocks_of_processes_are_their_own() {
        const OTHER: u64 = 1 << 47;
        let mut blocks = Blocks::default();
        call(&mut blocks, Kind::Size, [100, 0, 0], 0x1000);
        let mut values = [0; 16];
        values[Register::Rdi as usize] = 30;
        let request = blocks.called(Kind::Size, &registers(&mut values), OTHER, || None);
        blocks.returned(&request.expect("it gives something"), 0x1000, OTHER);
        assert_eq!(blocks.at(0x1000).map(|block| block.size), Some(100));
        assert_eq!(blocks.at(OTHER | 0x1000).map(|block| block.size), Some(30));
        values[Register::Rdi as usize] = 0x1000;
        let _ = blocks.called(Kind::Free, &registers(&mut values), OTHER, || None);
        assert_eq!(blocks.at(OTHER | 0x1000), None);
        assert!(blocks.at(0x1000).is_some());
    }

    #[test]
    fn resizing_moves_a_block_or_leaves_it() {
        let mut blocks = Blocks::default();
        call(&mut blocks, Kind::Size, [10, 0, 0], 0x1000);
        call(&mut blocks, Kind::Resize, [0x1000, 50, 0], 0x2000);
        assert_eq!(blocks.at(0x1000), None);
        assert_eq!(blocks.at(0x2031).map(|block| block.size), Some(50));
        call(&mut blocks, Kind::Resize, [0x2000, 1 << 60, 0], 0);
        assert_eq!(blocks.at(0x2031).map(|block| block.size), Some(50));
    }

    #[test]
    fn what_overlaps_is_gone() {
        let mut blocks = Blocks::default();
        call(&mut blocks, Kind::Go, [0, 0, 0], 0x1010);
        call(&mut blocks, Kind::Size, [16, 0, 0], 0x1020);
        call(&mut blocks, Kind::AlignmentAndSize, [64, 64, 0], 0x1000);
        assert_eq!(blocks.at(0x1028).map(|block| block.start), Some(0x1000));
        assert_eq!(blocks.blocks.len(), 1);
    }

    #[test]
    fn the_address_may_be_written_to_memory() {
        let mut blocks = Blocks::default();
        let place = Box::new(0x5000_u64);
        let to = std::ptr::from_ref(&*place).addr() as u64;
        call(&mut blocks, Kind::Posix, [to, 64, 30], 0);
        assert_eq!(blocks.at(0x5010).map(|block| block.size), Some(30));
        call(&mut blocks, Kind::Posix, [to, 64, 40], 12);
        assert_eq!(
            blocks.at(0x5010).map(|block| block.size),
            Some(30),
            "it failed"
        );
    }
}
