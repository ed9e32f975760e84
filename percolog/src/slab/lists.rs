//! What a place has: chunks, and blocks of others on their way home.

use super::chunk::{self, Block, Chunk, Shape, Whereabouts};
use super::home::{Address, Home};
use core::ptr::{self, NonNull};

/// Blocks of so many other places are collected at a time.
const BATCHES: usize = if cfg!(percolog_loom) { 1 } else { 8 };
/// So many blocks go home together.
pub(super) const BATCH: usize = if cfg!(percolog_loom) { 1 } else { 32 };
/// So many chunks are looked at for one whose memory is on this node.
const NEAR: usize = 8;

/// Blocks of one other place.
struct Batch {
    address: Address,
    first: *mut Block,
    last: *mut Block,
    count: usize,
}

/// Used under the lock of its place.
pub(super) struct Lists {
    current: *mut Chunk,
    partial: *mut Chunk,
    empty: *mut Chunk,
    empties: usize,
    batches: [Batch; BATCHES],
    /// The slab is gone: what is given back goes to the system.
    pub(super) closed: bool,
}

// SAFETY: what it points to belongs to it, or is `Sync`, as a `Home` is.
unsafe impl Send for Lists {}

/// A list of chunks that is linked in both directions.
///
/// # Safety
/// For these three: the caller has the lock of the chunks' place, and the chunk is in no list, or
/// in this one.
unsafe fn link(list: &mut *mut Chunk, chunk: NonNull<Chunk>, to: Whereabouts) {
    // SAFETY: by contract.
    unsafe {
        chunk::with(chunk, |state| {
            state.whereabouts = to;
            state.previous = ptr::null_mut();
            state.next = *list;
        });
        if let Some(second) = NonNull::new(*list) {
            chunk::with(second, |state| state.previous = chunk.as_ptr());
        }
    }
    *list = chunk.as_ptr();
}

unsafe fn unlink(list: &mut *mut Chunk, chunk: NonNull<Chunk>) {
    // SAFETY: by contract.
    unsafe {
        let (previous, next) = chunk::with(chunk, |state| (state.previous, state.next));
        match NonNull::new(previous) {
            Some(previous) => chunk::with(previous, |state| state.next = next),
            None => *list = next,
        }
        if let Some(next) = NonNull::new(next) {
            chunk::with(next, |state| state.previous = previous);
        }
    }
}

unsafe fn pop(list: &mut *mut Chunk) -> Option<NonNull<Chunk>> {
    let chunk = NonNull::new(*list)?;
    // SAFETY: by contract.
    unsafe { unlink(list, chunk) };
    Some(chunk)
}

impl Lists {
    pub(super) fn new(closed: bool) -> Self {
        Self {
            current: ptr::null_mut(),
            partial: ptr::null_mut(),
            empty: ptr::null_mut(),
            empties: 0,
            batches: [const {
                Batch {
                    address: Address {
                        home: ptr::null(),
                        number: 0,
                    },
                    first: ptr::null_mut(),
                    last: ptr::null_mut(),
                    count: 0,
                }
            }; BATCHES],
            closed,
        }
    }

    /// A block of the current chunk.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<NonNull<Block>> {
        let current = NonNull::new(self.current)?;
        // SAFETY: chunks in the lists are live, and used under this place's lock.
        unsafe { chunk::pop(current) }
    }

    /// A block of any chunk that the place has; first, what others have given back is taken in.
    pub(super) fn pop_slowly(
        &mut self,
        shape: &Shape,
        home: &Home,
        node: usize,
    ) -> Option<NonNull<Block>> {
        if let Some(block) = self.pop() {
            return Some(block);
        }
        self.take_in(home, shape);
        loop {
            if let Some(block) = self.pop() {
                return Some(block);
            }
            // SAFETY: as in `pop`; all are of the slab's shape.
            unsafe {
                if let Some(full) = NonNull::new(self.current) {
                    if chunk::carve(full, shape) {
                        continue;
                    }
                    chunk::with(full, |state| state.whereabouts = Whereabouts::Full);
                }
                self.current = ptr::null_mut();
                let next = self.near(node)?;
                chunk::with(next, |state| state.whereabouts = Whereabouts::Current);
                self.current = next.as_ptr();
            }
        }
    }

    /// Takes a chunk that has blocks out of its list; one on this node, if it is among the first.
    fn near(&mut self, node: usize) -> Option<NonNull<Chunk>> {
        let mut at = self.partial;
        for _ in 0..NEAR {
            let Some(chunk) = NonNull::new(at) else { break };
            // SAFETY: as in `pop`; the node never changes.
            unsafe {
                if (*chunk.as_ptr()).node == node {
                    unlink(&mut self.partial, chunk);
                    return Some(chunk);
                }
                at = chunk::with(chunk, |state| state.next);
            }
        }
        // SAFETY: as above.
        let any = unsafe { pop(&mut self.partial) };
        any.or_else(|| self.pop_empty())
    }

    fn pop_empty(&mut self) -> Option<NonNull<Chunk>> {
        // SAFETY: as in `pop`.
        let chunk = unsafe { pop(&mut self.empty) }?;
        self.empties -= 1;
        Some(chunk)
    }

    /// A chunk that was allocated for this place, of which no block is in use.
    pub(super) fn add(&mut self, chunk: NonNull<Chunk>) {
        // SAFETY: as in `pop`; it is in no list.
        unsafe { link(&mut self.empty, chunk, Whereabouts::Empty) };
        self.empties += 1;
    }

    /// A block of this place's chunk is free; whether the chunk is to be [settled](Self::settle) now.
    #[inline(always)]
    pub(super) fn put(&mut self, chunk: NonNull<Chunk>, block: NonNull<Block>) -> bool {
        // SAFETY: the chunk is one of this place, so used under its lock, and lives while the block is not free.
        let (used, whereabouts) = unsafe { chunk::push(chunk, block.as_ptr()) };
        match whereabouts {
            Whereabouts::Current => false,
            Whereabouts::Partial => used == 0,
            _ => true,
        }
    }

    /// Puts a chunk into the list that it belongs to, since a block was given back to it; whether more chunks are empty
    /// than are `kept`.
    pub(super) fn settle(&mut self, chunk: NonNull<Chunk>, kept: usize) -> bool {
        // SAFETY: the chunk is one of this place, and in the list that `whereabouts` says.
        unsafe {
            let (used, whereabouts) = chunk::with(chunk, |state| (state.used, state.whereabouts));
            if whereabouts == Whereabouts::Partial {
                unlink(&mut self.partial, chunk);
            }
            if used != 0 {
                link(&mut self.partial, chunk, Whereabouts::Partial);
                return false;
            }
        }
        self.add(chunk);
        self.empties > kept
    }

    /// Whether a block of another place could be kept here, to go home with others.
    #[inline]
    pub(super) fn keep(&mut self, address: Address, block: NonNull<Block>) -> bool {
        let batch = self.batch(address);
        if batch.count == 0 {
            batch.address = address;
            batch.last = block.as_ptr();
            batch.first = ptr::null_mut();
        } else if batch.address.number != address.number || batch.count == BATCH {
            return false;
        }
        // SAFETY: nobody else has the block.
        unsafe { Block::set_next(block.as_ptr(), batch.first) };
        batch.first = block.as_ptr();
        batch.count += 1;
        true
    }

    /// Makes room for blocks of that place. Returns the number of the place that blocks were sent to, and
    /// how many are there that it has not taken in.
    pub(super) fn send(&mut self, address: Address) -> Option<(usize, usize)> {
        let batch = self.batch(address);
        let there = batch.send()?;
        Some((batch.address.number, there))
    }

    fn batch(&mut self, address: Address) -> &mut Batch {
        &mut self.batches[address.number % BATCHES]
    }

    /// Sends all blocks of others home.
    pub(super) fn send_all(&mut self) {
        for batch in &mut self.batches {
            batch.send();
        }
    }

    /// Takes in what others have sent; how many blocks.
    pub(super) fn take_in(&mut self, home: &Home, shape: &Shape) -> usize {
        let mut block = home.take();
        let mut count = 0;
        while let Some(here) = NonNull::new(block) {
            // SAFETY: the list was taken out, so it is ours.
            block = unsafe { Block::next(here.as_ptr()) };
            let chunk = shape.chunk_of(here);
            if self.put(chunk, here) {
                self.settle(chunk, usize::MAX);
            }
            count += 1;
        }
        home.taken(count);
        count
    }

    /// How many chunks are empty.
    pub(super) fn empties(&self) -> usize {
        self.empties
    }

    /// Takes out chunks that are empty until so many are left: a list of them in front of others,
    /// and how many.
    pub(super) fn trim(&mut self, leave: usize, others: *mut Chunk) -> (*mut Chunk, usize) {
        let mut first = others;
        let mut count = 0;
        while self.empties > leave {
            let Some(chunk) = self.pop_empty() else { break };
            // SAFETY: as in `pop`.
            unsafe { chunk::with(chunk, |state| state.next = first) };
            first = chunk.as_ptr();
            count += 1;
        }
        (first, count)
    }

    /// The current chunk waits among the others, so that it can be trimmed as well.
    pub(super) fn put_current_away(&mut self, shape: &Shape) {
        let Some(chunk) = NonNull::new(core::mem::replace(&mut self.current, ptr::null_mut()))
        else {
            return;
        };
        // SAFETY: as in `pop`; the current chunk is in no list.
        unsafe {
            match chunk::with(chunk, |state| state.used) {
                0 => self.add(chunk),
                used if used == shape.capacity => {
                    chunk::with(chunk, |state| state.whereabouts = Whereabouts::Full);
                }
                _ => link(&mut self.partial, chunk, Whereabouts::Partial),
            }
        }
    }
}

impl Batch {
    /// Sends its blocks home, if there are any; how many are there then.
    fn send(&mut self) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        // SAFETY: homes live as long as the blocks that belong there; the blocks are ours.
        let home = unsafe { &*self.address.home };
        let there = home.push(self.first, self.last, self.count);
        self.count = 0;
        Some(there)
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;
    use core::alloc::Layout;

    fn node_of(block: NonNull<Block>, shape: &Shape) -> usize {
        // SAFETY: a block's chunk lives while the block is in use.
        unsafe { (*shape.chunk_of(block).as_ptr()).node }
    }

    #[test]
    fn memory_on_the_own_node_comes_first() {
        let shape = Shape::of(Layout::new::<u64>());
        let home = Home::new();
        let mut lists = Lists::new(false);
        for node in 0..3 {
            let address = Address {
                home: &raw const home,
                number: 0,
            };
            let chunk = chunk::allocate(&shape, ptr::null(), 0, address, node);
            lists.add(chunk.expect("there is memory"));
        }
        let mut blocks: alloc::vec::Vec<_> =
            core::iter::from_fn(|| lists.pop_slowly(&shape, &home, 9)).collect();
        assert_eq!(blocks.len(), 3 * shape.capacity);
        // One block of each chunk is free.
        for node in 0..3 {
            let at = blocks
                .iter()
                .position(|block| node_of(*block, &shape) == node);
            let block = blocks.swap_remove(at.expect("there are some"));
            let chunk = shape.chunk_of(block);
            assert!(lists.put(chunk, block) && !lists.settle(chunk, usize::MAX));
        }
        for node in [1, 2, 0] {
            let block = lists.pop_slowly(&shape, &home, node).expect("one is free");
            assert_eq!(node_of(block, &shape), node);
            blocks.push(block);
        }
        for block in blocks {
            let chunk = shape.chunk_of(block);
            if lists.put(chunk, block) {
                lists.settle(chunk, usize::MAX);
            }
        }
        lists.put_current_away(&shape);
        let (chunks, count) = lists.trim(0, ptr::null_mut());
        assert_eq!((count, lists.empties()), (3, 0));
        // SAFETY: none of their blocks is in use, and nobody else has them.
        assert_eq!(unsafe { chunk::release(&shape, chunks) }, 3);
    }
}
