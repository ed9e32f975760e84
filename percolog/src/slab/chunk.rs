//! Memory for some objects of one size, all of one place.

use super::home::Address;
use super::places::Core;
use crate::sync::{Isolated, LINE_SIZE, UnsafeCell};
use alloc::alloc::{Layout, alloc, dealloc};
use core::ptr::{self, NonNull};

/// What lies in front of each object.
///
/// When an object was freed is not here: the domain keeps that, once for each 64 objects.
#[repr(C)]
pub(super) struct Header {
    pub(super) chunk: NonNull<Chunk>,
    /// The next one of the list that the block is in; nobody reads it while the object is in use.
    next: UnsafeCell<*mut Header>,
}

#[cfg(not(percolog_loom))]
const _: () = assert!(size_of::<Header>() <= 24);

impl Header {
    /// # Safety
    /// The caller has the block, or the list that it is in.
    pub(super) unsafe fn next(block: *mut Header) -> *mut Header {
        // SAFETY: by contract, and headers live as long as their chunk.
        unsafe { (*block).next.with(|next| *next) }
    }

    /// # Safety
    /// As for [`next`](Self::next).
    pub(super) unsafe fn set_next(block: *mut Header, to: *mut Header) {
        // SAFETY: as above.
        unsafe { (*block).next.with_mut(|next| *next = to) }
    }

    /// The header of an object in a slab.
    ///
    /// # Safety
    /// The object lies in a slab.
    pub(super) unsafe fn of<T>(object: NonNull<T>) -> NonNull<Header> {
        // SAFETY: by contract there is a header in front of it.
        unsafe { object.cast::<Header>().sub(1) }
    }

    /// The object of a block.
    pub(super) fn object<T>(block: NonNull<Header>) -> NonNull<T> {
        // SAFETY: behind each header lies its object.
        unsafe { block.add(1).cast() }
    }
}

/// How blocks lie in a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// From one header to the next.
    stride: usize,
    /// From the chunk to its first header.
    first: usize,
    pub(super) capacity: usize,
    layout: Layout,
}

/// A chunk is about so large, and larger if that is room for fewer than [`FEWEST`] objects.
const BYTES: usize = 16 << 10;
#[cfg(not(percolog_loom))]
const FEWEST: usize = 8;

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
        let align = larger(object.align(), align_of::<Header>());
        assert!(
            object.size() < isize::MAX as usize / 16 && align < isize::MAX as usize / 16,
            "such large objects cannot be allocated"
        );
        let front = up(size_of::<Header>(), align);
        let stride = up(front + object.size(), align);
        let first = up(size_of::<Chunk>(), align) + front - size_of::<Header>();
        #[cfg(not(percolog_loom))]
        let capacity = larger(FEWEST, BYTES.saturating_sub(first) / stride);
        #[cfg(percolog_loom)]
        let capacity = 2;
        let align = larger(align, LINE_SIZE);
        match Layout::from_size_align(up(first + capacity * stride, align), align) {
            Ok(layout) => Self {
                stride,
                first,
                capacity,
                layout,
            },
            Err(_) => panic!("such large objects cannot be allocated"),
        }
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
    /// The place that it belongs to.
    pub(super) address: Address,
    /// The NUMA node that its memory is on.
    pub(super) node: usize,
    /// On a line of its own: the others are read by whoever frees an object of the chunk, anywhere.
    state: Isolated<UnsafeCell<State>>,
}

/// What is used under the lock of the chunk's place.
pub(super) struct State {
    free: *mut Header,
    /// So many blocks have been in use before: the others are not in `free`, and nobody has touched them.
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
    address: Address,
    node: usize,
) -> Option<NonNull<Chunk>> {
    // SAFETY: the layout has a size.
    let chunk = NonNull::new(unsafe { alloc(shape.layout) })?.cast::<Chunk>();
    let fresh = Chunk {
        core,
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

/// Takes a block.
///
/// # Safety
/// As for [`with`], and the chunk is of this shape.
#[inline(always)]
pub(super) unsafe fn pop(chunk: NonNull<Chunk>, shape: &Shape) -> Option<NonNull<Header>> {
    // SAFETY: by contract; blocks in the list are free, so nobody else uses them.
    unsafe {
        with(chunk, |state| {
            if let Some(block) = NonNull::new(state.free) {
                state.free = Header::next(block.as_ptr());
                state.used += 1;
                return Some(block);
            }
            if state.touched == shape.capacity {
                return None;
            }
            let at = shape.first + state.touched * shape.stride;
            let block = chunk.cast::<u8>().add(at).cast::<Header>();
            block.write(Header {
                chunk,
                next: UnsafeCell::new(ptr::null_mut()),
            });
            state.touched += 1;
            state.used += 1;
            Some(block)
        })
    }
}

/// Gives a block back to its chunk; how many are still in use, and where the chunk was when it was
/// given back.
///
/// # Safety
/// As for [`with`]; the block is one of the chunk, and nobody uses it any more.
#[inline(always)]
pub(super) unsafe fn push(chunk: NonNull<Chunk>, block: *mut Header) -> (usize, Whereabouts) {
    // SAFETY: by contract.
    unsafe {
        with(chunk, |state| {
            Header::set_next(block, state.free);
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
            let chunk = allocate(&shape, ptr::null(), nowhere, 0).expect("there is memory");
            let end = chunk.addr().get() + shape.bytes();
            let mut last = chunk.addr().get() + size_of::<Chunk>();
            let mut count = 0;
            // SAFETY: this test has the chunk to itself.
            while let Some(block) = unsafe { pop(chunk, &shape) } {
                assert!(block.addr().get() >= last);
                let object = Header::object::<u8>(block);
                assert_eq!(object.addr().get() % align, 0);
                // SAFETY: as above.
                assert_eq!(unsafe { Header::of(object) }, block);
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
