//! What a place has: chunks, and blocks of others on their way home.

use super::chunk::{self, Chunk, Header, Shape, Whereabouts};
use super::places::Home;
use core::ptr::{self, NonNull};

/// Blocks of so many other places are collected at a time.
const BATCHES: usize = if cfg!(percolog_loom) { 1 } else { 8 };
/// So many blocks go home together.
pub(super) const BATCH: usize = if cfg!(percolog_loom) { 1 } else { 32 };
/// So many chunks are looked at for one whose memory is on this node.
const NEAR: usize = 8;

/// Blocks of one other place.
struct Batch {
    home: *const Home,
    first: *mut Header,
    last: *mut Header,
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
/// For these three: the caller has the lock of the chunks' place, and the chunk is in no list, or in this one.
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
                    home: ptr::null(),
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
    pub(super) fn pop(&mut self, shape: &Shape) -> Option<NonNull<Header>> {
        let current = NonNull::new(self.current)?;
        // SAFETY: chunks in the lists are live, of the slab's shape, and used under this place's lock.
        unsafe { chunk::pop(current, shape) }
    }

    /// A block of any chunk that the place has; first, what others have given back is taken in.
    pub(super) fn pop_slowly(
        &mut self,
        shape: &Shape,
        home: &Home,
        node: usize,
    ) -> Option<NonNull<Header>> {
        self.take_in(home);
        loop {
            if let Some(block) = self.pop(shape) {
                return Some(block);
            }
            // SAFETY: as in `pop`.
            unsafe {
                if let Some(full) = NonNull::new(self.current) {
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

    /// A block of this place is free; whether more chunks are empty than are `kept`.
    #[inline(always)]
    pub(super) fn put(&mut self, block: NonNull<Header>, kept: usize) -> bool {
        // SAFETY: the block's chunk is one of this place, so used under its lock, and lives while the block is not free.
        unsafe {
            let chunk = (*block.as_ptr()).chunk;
            let (used, whereabouts) = chunk::push(chunk, block.as_ptr());
            match whereabouts {
                Whereabouts::Partial if used == 0 => unlink(&mut self.partial, chunk),
                Whereabouts::Full if used != 0 => {
                    link(&mut self.partial, chunk, Whereabouts::Partial);
                    return false;
                }
                Whereabouts::Full => {}
                _ => return false,
            }
            self.add(chunk);
        }
        self.empties > kept
    }

    /// Whether a block of another place could be kept here, to go home with others.
    #[inline]
    pub(super) fn keep(&mut self, home: *const Home, block: NonNull<Header>) -> bool {
        let batch = &mut self.batches[index(home)];
        if batch.count == 0 {
            batch.home = home;
            batch.last = block.as_ptr();
            batch.first = ptr::null_mut();
        } else if batch.home != home || batch.count == BATCH {
            return false;
        }
        // SAFETY: nobody else has the block.
        unsafe { Header::set_next(block.as_ptr(), batch.first) };
        batch.first = block.as_ptr();
        batch.count += 1;
        true
    }

    /// Makes room for blocks of that place. Returns whom blocks were sent to, and how many are there that it has not taken in.
    pub(super) fn send(&mut self, home: *const Home) -> Option<(*const Home, usize)> {
        self.batches[index(home)].send()
    }

    /// Sends all blocks of others home.
    pub(super) fn send_all(&mut self) {
        for batch in &mut self.batches {
            batch.send();
        }
    }

    /// Takes in what others have sent; how many blocks.
    pub(super) fn take_in(&mut self, home: &Home) -> usize {
        let mut block = home.take();
        let mut count = 0;
        while let Some(here) = NonNull::new(block) {
            // SAFETY: the list was taken out, so it is ours.
            block = unsafe { Header::next(here.as_ptr()) };
            self.put(here, usize::MAX);
            count += 1;
        }
        home.taken(count);
        count
    }

    /// How many chunks are empty.
    pub(super) fn empties(&self) -> usize {
        self.empties
    }

    /// Takes out chunks that are empty until so many are left: a list of them in front of others, and how many.
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
    fn send(&mut self) -> Option<(*const Home, usize)> {
        if self.count == 0 {
            return None;
        }
        // SAFETY: homes live as long as the blocks that belong there; the blocks are ours.
        let there = unsafe { (*self.home).push(self.first, self.last, self.count) };
        self.count = 0;
        Some((self.home, there))
    }
}

fn index(home: *const Home) -> usize {
    // SAFETY: homes live as long as the blocks that belong there, and the number never changes.
    unsafe { (*home).number % BATCHES }
}
