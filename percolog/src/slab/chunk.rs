//! Memory for some objects of one size, all of one place.

use super::home::Address;
use super::places::Core;
use crate::sync::{Isolated, LINE_SIZE, UnsafeCell};
use alloc::alloc::{Layout, alloc, dealloc};
use core::ptr::{self, NonNull};

/// Room for an object, while there is none: what a list of blocks needs lies where the object would.
///
/// When an object was freed is not here: the domain keeps that, once for each 64 objects.
pub(super) struct Block {
    next: UnsafeCell<*mut Block>,
}

/// Where the object begins. To a model, which looks at each access, it and the link are not the same memory.
const OBJECT: usize = if cfg!(percolog_loom) {
    size_of::<Block>()
} else {
    0
};

impl Block {
    /// # Safety
    /// The caller has the block, or the list that it is in.
    pub(super) unsafe fn next(block: *mut Block) -> *mut Block {
        // SAFETY: by contract; it was linked, which wrote it.
        unsafe { (*block).next.with(|next| *next) }
    }

    /// # Safety
    /// The caller has the block, which has no object.
    pub(super) unsafe fn set_next(block: *mut Block, to: *mut Block) {
        // SAFETY: by contract. Each block has room for this, and is aligned for it.
        unsafe {
            if OBJECT == 0 {
                // What is left of the object is no pointer.
                block.write(Block {
                    next: UnsafeCell::new(to),
                });
            } else {
                (*block).next.with_mut(|next| *next = to);
            }
        }
    }

    /// The block of an object in a slab.
    ///
    /// # Safety
    /// The object lies in a slab.
    #[inline(always)]
    pub(super) unsafe fn of<T>(object: NonNull<T>) -> NonNull<Block> {
        // SAFETY: by contract it lies in a block, so far from its beginning.
        unsafe { object.byte_sub(OBJECT).cast() }
    }

    /// The object of a block.
    #[inline(always)]
    pub(super) fn object<T>(block: NonNull<Block>) -> NonNull<T> {
        // SAFETY: blocks have room for an object there.
        unsafe { block.byte_add(OBJECT).cast() }
    }
}

/// How blocks lie in a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// From one block to the next.
    stride: usize,
    /// From the chunk to its first block.
    first: usize,
    pub(super) capacity: usize,
    /// The alignment is a power of two that is larger than the chunk: a block's chunk is found by its address.
    layout: Layout,
}

/// A chunk takes so much of the address space, and more if that is room for fewer than [`FEWEST`] objects.
const SPAN: usize = if cfg!(percolog_loom) { 512 } else { 16 << 10 };
const FEWEST: usize = if cfg!(percolog_loom) { 2 } else { 8 };

/// What a chunk leaves of it: an allocator that puts something beside each allocation finds room for that, and need not leave as much again.
const MARGIN: usize = LINE_SIZE;

/// Blocks that have not been used are put into their chunk's list so many bytes at a time.
const CARVED: usize = 4096;

const fn up(size: usize, align: usize) -> usize {
    (size + align - 1) & !(align - 1)
}

const fn larger(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

impl Shape {
    /// For objects of this layout.
    ///
    /// # Panics
    /// If there can be no such objects.
    pub(super) const fn of(object: Layout) -> Self {
        let align = larger(object.align(), align_of::<Block>());
        assert!(
            object.size() < isize::MAX as usize / 64 && align < isize::MAX as usize / 64,
            "such large objects cannot be allocated"
        );
        let stride = up(larger(OBJECT + object.size(), size_of::<Block>()), align);
        let first = up(size_of::<Chunk>(), align);
        let least = first + FEWEST * stride + MARGIN;
        let span = larger(SPAN, least.next_power_of_two());
        let capacity = if cfg!(percolog_loom) {
            FEWEST
        } else {
            (span - MARGIN - first) / stride
        };
        match Layout::from_size_align(up(first + capacity * stride, LINE_SIZE), span) {
            Ok(layout) => Self {
                stride,
                first,
                capacity,
                layout,
            },
            Err(_) => panic!("such large objects cannot be allocated"),
        }
    }

    /// The chunk that a block, or its object, lies in.
    #[inline(always)]
    pub(super) fn chunk_of(&self, block: NonNull<Block>) -> NonNull<Chunk> {
        let within = block.addr().get() & (self.layout.align() - 1);
        // SAFETY: the chunk begins at a multiple of its alignment, and ends before the next one.
        unsafe { block.byte_sub(within).cast() }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.layout.size()
    }
}

/// Where a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// Objects are taken from it.
    Current,
    /// It has free blocks, and waits for its turn.
    Partial,
    /// All its blocks are in use, and it is in no list.
    Full,
    /// None of its blocks is in use.
    Empty,
}

/// The beginning of a chunk's memory.
pub(super) struct Chunk {
    pub(super) core: *const Core,
    /// The core's.
    pub(super) identity: u64,
    /// The place that it belongs to.
    pub(super) address: Address,
    /// The NUMA node that its memory is on.
    pub(super) node: usize,
    /// On a line of its own: the others are read by whoever frees an object of the chunk, anywhere.
    state: Isolated<UnsafeCell<State>>,
}

/// What is used under the lock of the chunk's place.
pub(super) struct State {
    free: *mut Block,
    /// So many blocks have been [carved]: the others are not in `free`, and nobody has touched them.
    touched: usize,
    /// Blocks that the place does not have: objects, and blocks on their way back.
    pub(super) used: usize,
    pub(super) whereabouts: Whereabouts,
    pub(super) previous: *mut Chunk,
    pub(super) next: *mut Chunk,
}

/// Takes memory of a chunk from the system; `None` if there is none.
pub(super) fn allocate(
    shape: &Shape,
    core: *const Core,
    identity: u64,
    address: Address,
    node: usize,
) -> Option<NonNull<Chunk>> {
    // SAFETY: the layout has a size.
    let chunk = NonNull::new(unsafe { alloc(shape.layout) })?.cast::<Chunk>();
    let fresh = Chunk {
        core,
        identity,
        address,
        node,
        state: Isolated::new(UnsafeCell::new(State {
            free: ptr::null_mut(),
            touched: 0,
            used: 0,
            whereabouts: Whereabouts::Empty,
            previous: ptr::null_mut(),
            next: ptr::null_mut(),
        })),
    };
    // SAFETY: just allocated, with room for a chunk in front.
    unsafe { chunk.write(fresh) };
    Some(chunk)
}

/// Gives chunks that are linked by `next` back to the system; how many.
///
/// # Safety
/// They are of this shape, none of their blocks is in use, and nobody can reach them.
pub(super) unsafe fn release(shape: &Shape, mut first: *mut Chunk) -> usize {
    let mut count = 0;
    while let Some(chunk) = NonNull::new(first) {
        // SAFETY: by contract.
        unsafe {
            first = with(chunk, |state| state.next);
            chunk.drop_in_place();
            dealloc(chunk.as_ptr().cast(), shape.layout);
        }
        count += 1;
    }
    count
}

/// Changes a chunk's state.
///
/// # Safety
/// The caller has the lock of the chunk's place, or the chunk to itself, and `f` does not come here
/// for the same chunk.
#[inline(always)]
pub(super) unsafe fn with<R>(chunk: NonNull<Chunk>, f: impl FnOnce(&mut State) -> R) -> R {
    // SAFETY: by contract. No reference to the whole chunk is made.
    unsafe {
        let state = &(*chunk.as_ptr()).state;
        state.with_mut(|state| f(&mut *state))
    }
}

/// Takes a block that has been in use, or is [carved].
///
/// # Safety
/// As for [`with`].
#[inline(always)]
pub(super) unsafe fn pop(chunk: NonNull<Chunk>) -> Option<NonNull<Block>> {
    // SAFETY: by contract; blocks in the list are free, so nobody else uses them.
    unsafe {
        with(chunk, |state| {
            let block = NonNull::new(state.free)?;
            state.free = Block::next(block.as_ptr());
            state.used += 1;
            Some(block)
        })
    }
}

/// Puts some blocks that nobody has touched into the chunk's list, which is empty; whether there were any.
///
/// # Safety
/// As for [`with`], and the chunk is of this shape.
pub(super) unsafe fn carve(chunk: NonNull<Chunk>, shape: &Shape) -> bool {
    // SAFETY: by contract; nobody else has blocks that were never in the list.
    unsafe {
        with(chunk, |state| {
            let some = larger(1, CARVED / shape.stride).min(shape.capacity - state.touched);
            // The first of them is the first in the list.
            for at in (state.touched..state.touched + some).rev() {
                let block = chunk.byte_add(shape.first + at * shape.stride).cast();
                block.write(Block {
                    next: UnsafeCell::new(state.free),
                });
                state.free = block.as_ptr();
            }
            state.touched += some;
            some != 0
        })
    }
}

/// Gives a block back to its chunk; how many are still in use, and where the chunk was when it was
/// given back.
///
/// # Safety
/// As for [`with`]; the block is one of the chunk, and nobody uses it any more.
#[inline(always)]
pub(super) unsafe fn push(chunk: NonNull<Chunk>, block: *mut Block) -> (usize, Whereabouts) {
    // SAFETY: by contract.
    unsafe {
        with(chunk, |state| {
            Block::set_next(block, state.free);
            state.free = block;
            state.used -= 1;
            (state.used, state.whereabouts)
        })
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn objects_are_aligned_and_do_not_overlap() {
        for (size, align) in [
            (0, 1),
            (1, 1),
            (8, 8),
            (24, 16),
            (40, 64),
            (100, 256),
            (8000, 8),
        ] {
            let object = Layout::from_size_align(size, align).expect("valid");
            let shape = Shape::of(object);
            let nowhere = Address {
                home: ptr::null(),
                number: 0,
            };
            let chunk = allocate(&shape, ptr::null(), 0, nowhere, 0).expect("there is memory");
            let end = chunk.addr().get() + shape.bytes();
            let mut last = chunk.addr().get() + size_of::<Chunk>();
            let mut count = 0;
            // SAFETY: this test has the chunk to itself.
            let next = || unsafe {
                pop(chunk).or_else(|| carve(chunk, &shape).then(|| pop(chunk)).flatten())
            };
            while let Some(block) = next() {
                assert!(block.addr().get() >= last);
                let object = Block::object::<u8>(block);
                assert_eq!(object.addr().get() % align, 0);
                // SAFETY: as above.
                assert_eq!(unsafe { Block::of(object) }, block);
                assert_eq!(shape.chunk_of(block), chunk);
                last = object.addr().get() + size;
                assert!(last <= end);
                count += 1;
            }
            assert_eq!(count, shape.capacity);
            assert!(count >= FEWEST);
            // SAFETY: as above; nobody uses the blocks.
            unsafe { release(&shape, chunk.as_ptr()) };
        }
    }
}
