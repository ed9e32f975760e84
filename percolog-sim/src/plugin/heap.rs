//! The memory that the plugin allocates: what one process allocates, those that were forked from it or it from, can use at
//! the same address. The C library's is a process's own.
//!
//! Blocks come in sizes; a freed one waits in a list of its size. What was never used is taken off one large mapping, of
//! which the kernel gives pages when they are touched. Large blocks give their pages back.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;

use crate::plugin::common::{self, Common};
use crate::plugin::latch::Latch;

/// So many addresses are asked for, or half of that, and so on.
const MOST: usize = 1 << 38;
/// With fewer there is no use in beginning.
const LEAST: usize = 1 << 28;
/// Sizes up to this one are multiples of [`STEP`]; beyond there are four between two powers of two.
const SMALL: usize = 1024;
const STEP: usize = 16;
const PAGE: usize = 4096;
/// A block of so many bytes gives its pages back when it is freed.
const LARGE: usize = 1 << 20;
const CLASSES: usize = SMALL / STEP + 4 * (usize::BITS - SMALL.ilog2()) as usize;

/// A size of blocks: which one, and how many bytes.
fn class(layout: Layout) -> (usize, usize) {
    // The size of a block aligns it as far as the size is a multiple of a power of two.
    let size = if layout.align() > STEP {
        layout.size().max(layout.align()).next_power_of_two()
    } else {
        layout.size().max(1)
    };
    if size <= SMALL {
        let steps = size.div_ceil(STEP);
        return (steps - 1, steps * STEP);
    }
    // Between this power of two and the next.
    let below = (size - 1).ilog2();
    let quarter = 1 << (below - 2);
    let quarters = size.div_ceil(quarter);
    let class = SMALL / STEP + 4 * (below - SMALL.ilog2()) as usize + (quarters - 5);
    (class, quarters * quarter)
}

struct Blocks {
    /// What was never used.
    next: usize,
    end: usize,
    /// The first free block of each size, of which the first word is the next one.
    free: [usize; CLASSES],
}

impl Blocks {
    /// A block of this size; null if there is no room. Says whether it was never used, and so holds zeros.
    fn take(&mut self, (class, size): (usize, usize)) -> (*mut u8, bool) {
        let first = self.free[class];
        if first != 0 {
            // SAFETY: the block is free, and `give` has written the next one there.
            self.free[class] = unsafe { *(first as *const usize) };
            return (first as *mut u8, false);
        }
        if self.end == 0 {
            self.map();
        }
        let alignment = (1 << size.trailing_zeros()).min(PAGE);
        let start = self.next.next_multiple_of(alignment);
        match start.checked_add(size) {
            Some(end) if end <= self.end => {
                self.next = end;
                (start as *mut u8, true)
            }
            _ => (ptr::null_mut(), false),
        }
    }

    fn give(&mut self, block: *mut u8, (class, size): (usize, usize)) {
        if size >= LARGE {
            empty(block as usize, size);
        }
        // SAFETY: the block is nobody's any more, and large enough and aligned for a word.
        unsafe { *block.cast::<usize>() = self.free[class] };
        self.free[class] = block as usize;
    }

    /// Makes the last block that was taken larger. Returns whether it was the last.
    fn extend(&mut self, block: usize, before: usize, after: usize) -> bool {
        let fits = after >= before && block + before == self.next && block + after <= self.end;
        if fits {
            self.next = block + after;
        }
        fits
    }

    fn map(&mut self) {
        let mut size = MOST;
        while size >= LEAST {
            if let Some(start) = common::map(size) {
                (self.next, self.end) = (start, start + size);
                return;
            }
            size /= 2;
        }
    }
}

/// Gives the pages of a block back, but for the first.
fn empty(block: usize, size: usize) {
    const REMOVE: c_int = 9;
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    let start = (block + size_of::<usize>()).next_multiple_of(PAGE);
    let length = (block + size).saturating_sub(start) & !(PAGE - 1);
    // SAFETY: the pages lie within a block that is nobody's. A kernel that cannot leaves them as they are.
    let _ = unsafe { madvise(start as *mut c_void, length, REMOVE) };
}

/// See the module.
pub(crate) struct Heap {
    latch: Latch,
    blocks: UnsafeCell<Blocks>,
}

// SAFETY: the blocks are used by whoever has closed the latch.
unsafe impl Sync for Heap {}

impl Heap {
    const fn new() -> Self {
        Heap {
            latch: Latch::new(),
            blocks: UnsafeCell::new(Blocks {
                next: 0,
                end: 0,
                free: [0; CLASSES],
            }),
        }
    }

    fn with<T>(&self, action: impl FnOnce(&mut Blocks) -> T) -> T {
        self.latch.close();
        // SAFETY: the latch is closed.
        let result = action(unsafe { &mut *self.blocks.get() });
        self.latch.open();
        result
    }
}

// SAFETY: blocks are as large and aligned as is asked (larger alignments than a page get none), and nobody else's until they are given
// back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return ptr::null_mut();
        }
        self.with(|blocks| blocks.take(class(layout))).0
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            return ptr::null_mut();
        }
        let (block, is_new) = self.with(|blocks| blocks.take(class(layout)));
        if !is_new && !block.is_null() {
            // SAFETY: the block has as many bytes.
            unsafe { ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.with(|blocks| blocks.give(block, class(layout)));
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller says that the size is one that a layout may have.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (before, after) = (class(layout), class(wanted));
        if before == after || self.with(|blocks| blocks.extend(block as usize, before.1, after.1)) {
            return block;
        }
        // SAFETY: both blocks have as many bytes, and are not the same.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// The plugin's heap.
#[cfg_attr(percolog_plugin, global_allocator)]
static HEAP: Common<Heap> = Common::new(Heap::new());

/// Has what is allocated shared with forked processes. Before the first fork.
pub(crate) fn share() {
    HEAP.share();
}

// SAFETY: as of `Heap`.
unsafe impl GlobalAlloc for Common<Heap> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { (**self).alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { (**self).alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { (**self).dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { (**self).realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("it may be")
    }

    #[test]
    fn a_class_holds_what_is_in_it_and_wastes_less_than_a_quarter() {
        let mut last = class(layout(1, 8));
        for size in (1..5000).chain([65_536, 65_537, 1 << 20, (1 << 30) + 1, 1 << 37]) {
            let found = class(layout(size, 8));
            assert!(found.1 >= size, "{size}");
            assert!(found.1 < size + (size / 4).max(STEP), "{size}: {found:?}");
            assert!(found == last || (found.0 > last.0 && found.1 > last.1));
            assert!(found.0 < CLASSES);
            last = found;
        }
        assert!(class(layout(isize::MAX as usize - 8, 8)).0 < CLASSES);
    }

    #[test]
    fn blocks_are_aligned_are_used_again_and_do_not_overlap() {
        let heap = Heap::new();
        let mut taken = Vec::new();
        for (size, align) in [(1, 1), (24, 8), (64, 64), (100, 4096), (5000, 16), (40, 32)] {
            let layout = layout(size, align);
            // SAFETY: the layout has a size.
            let block = unsafe { heap.alloc(layout) };
            assert!(!block.is_null() && (block as usize).is_multiple_of(align));
            for &(other, length) in &taken {
                let apart = block as usize + size <= other || other + length <= block as usize;
                assert!(apart, "{size} and {length}");
            }
            // SAFETY: the block has as many bytes.
            unsafe { ptr::write_bytes(block, 0xff, size) };
            taken.push((block as usize, size));
            // SAFETY: of this layout, once each, and the second is given back last.
            unsafe {
                let second = heap.alloc(layout);
                heap.dealloc(second, layout);
                assert_eq!(heap.alloc_zeroed(layout), second);
                assert!((0..size).all(|at| *second.add(at) == 0));
                heap.dealloc(second, layout);
            }
        }
    }

    #[test]
    fn the_last_block_grows_where_it_is_and_others_move_with_what_they_hold() {
        let heap = Heap::new();
        let small = layout(100, 8);
        // SAFETY: each block is used with the layout that it has.
        unsafe {
            let block = heap.alloc(small);
            ptr::write_bytes(block, 7, 100);
            assert_eq!(heap.realloc(block, small, 110), block, "the same size");
            let block = heap.realloc(block, layout(110, 8), 10_000);
            let other = heap.alloc(small);
            let moved = heap.realloc(block, layout(10_000, 8), 1 << 21);
            assert_ne!(moved, block);
            assert!((0..100).all(|at| *moved.add(at) == 7));
            let huge = layout(1 << 21, 8);
            heap.dealloc(moved, huge);
            let again = heap.alloc_zeroed(huge);
            assert_eq!(again, moved);
            assert!((0..1 << 21).all(|at| *again.add(at) == 0));
            assert!(heap.alloc(layout(64, 8192)).is_null());
            heap.dealloc(other, small);
        }
    }
}
