//! What was retired and has not been destroyed: blocks of objects, each block with one stamp.

use core::mem::MaybeUninit;
use core::ptr;

use alloc::boxed::Box;

/// How many objects share one stamp.
///
/// A stamp costs a fence and a look at the clock; a block has one for all, taken after the last of
/// them was retired. The price is that up to so many objects of a thread wait for company.
#[cfg(not(percolog_loom))]
pub(super) const BLOCK: usize = 64;
/// As few as make a block that can be half full.
#[cfg(percolog_loom)]
pub(super) const BLOCK: usize = 2;

/// An object that was retired, and how to destroy it.
#[derive(Debug)]
pub(super) struct Retired {
    pointer: *mut (),
    destroy: unsafe fn(*mut ()),
    bytes: usize,
}

impl Retired {
    /// # Safety
    /// `destroy(pointer)` may be called once, on any thread, as soon as no section can hold a
    /// reference to the object.
    pub(super) unsafe fn new(pointer: *mut (), destroy: unsafe fn(*mut ()), bytes: usize) -> Self {
        Self {
            pointer,
            destroy,
            bytes,
        }
    }

    /// The size of the object itself.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Destroys the object. User code runs here, and may panic.
    ///
    /// # Safety
    /// No section can hold a reference to the object any more.
    pub(super) unsafe fn destroy(self) {
        // SAFETY: by contract of `new`: consumed here, so called once.
        unsafe { (self.destroy)(self.pointer) }
    }
}

/// Up to [`BLOCK`] objects.
pub(super) struct Block {
    /// Taken after everything in the block had been retired.
    pub(super) stamp: u64,
    /// What the custom grace period gave out at that time.
    pub(super) ticket: u64,
    /// Objects are pushed at `end` and taken at `start`, so they are destroyed in order.
    start: usize,
    end: usize,
    next: *mut Block,
    entries: [MaybeUninit<Retired>; BLOCK],
}

impl Block {
    fn is_full(&self) -> bool {
        self.end == BLOCK
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn push(&mut self, retired: Retired) {
        self.entries[self.end].write(retired);
        self.end += 1;
    }

    fn pop(&mut self) -> Option<Retired> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: entries from `start` to `end` have been written and not taken.
        let retired = unsafe { self.entries[self.start].assume_init_read() };
        self.start += 1;
        Some(retired)
    }
}

/// Blocks in the order they were added, each owned by the chain.
///
/// Linked through the blocks themselves: adding one never moves the others.
pub(super) struct Chain {
    first: *mut Block,
    last: *mut Block,
}

// SAFETY: owns its blocks, whose objects may be destroyed on any thread (contract of `Retired::new`).
unsafe impl Send for Chain {}

impl Chain {
    pub(super) const fn new() -> Self {
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    pub(super) fn first(&self) -> Option<&Block> {
        // SAFETY: blocks of the chain are live and only reached through it.
        unsafe { self.first.as_ref() }
    }

    pub(super) fn push(&mut self, block: Box<Block>) {
        let block = Box::into_raw(block);
        // SAFETY: ours since `into_raw`.
        unsafe { (*block).next = ptr::null_mut() };
        // SAFETY: as in `first`.
        match unsafe { self.last.as_mut() } {
            Some(last) => last.next = block,
            None => self.first = block,
        }
        self.last = block;
    }

    pub(super) fn pop(&mut self) -> Option<Box<Block>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: every block of the chain came from `Box::into_raw` in `push`.
        let block = unsafe { Box::from_raw(self.first) };
        self.first = block.next;
        if self.first.is_null() {
            self.last = ptr::null_mut();
        }
        Some(block)
    }

    pub(super) fn append(&mut self, mut other: Chain) {
        while let Some(block) = other.pop() {
            self.push(block);
        }
    }

    /// Gives every block the same, later stamp.
    pub(super) fn restamp(&mut self, stamp: u64, ticket: u64) {
        let mut at = self.first;
        // SAFETY: as in `first`, and `&mut self` makes this the only reference.
        while let Some(block) = unsafe { at.as_mut() } {
            block.stamp = stamp;
            block.ticket = ticket;
            at = block.next;
        }
    }
}

impl Drop for Chain {
    /// Frees the blocks, and leaks what is still in them: nobody said that it may be destroyed.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// One thread's retired objects: open, waiting for quiescence, and free to be destroyed.
pub(super) struct Queue {
    /// What the next objects go to. It has no stamp yet.
    open: Option<Box<Block>>,
    /// Sealed, in the order of their stamps.
    waiting: Chain,
    /// Quiescent.
    ready: Chain,
    /// A block for reuse, so that a thread whose garbage comes and goes does not allocate.
    spare: Option<Box<Block>>,
    /// Objects in `waiting`.
    pub(super) waits: usize,
    /// Objects in `ready`.
    pub(super) readies: usize,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            open: None,
            waiting: Chain::new(),
            ready: Chain::new(),
            spare: None,
            waits: 0,
            readies: 0,
        }
    }

    /// Adds an object that was just unlinked; `true` if the open block is full now.
    #[inline]
    pub(super) fn push(&mut self, retired: Retired) -> bool {
        let spare = &mut self.spare;
        let open = self.open.get_or_insert_with(|| fresh(spare));
        open.push(retired);
        open.is_full()
    }

    /// The open block: what is retired from now on goes to another one.
    pub(super) fn take_open(&mut self) -> Option<Box<Block>> {
        self.open.take()
    }

    /// Adds a block that was open. The stamp must have been taken after its objects were unlinked.
    pub(super) fn seal(&mut self, mut block: Box<Block>, stamp: u64, ticket: u64) {
        block.stamp = stamp;
        block.ticket = ticket;
        self.waits += block.end - block.start;
        self.waiting.push(block);
    }

    /// The block that has waited longest.
    pub(super) fn oldest(&self) -> Option<&Block> {
        self.waiting.first()
    }

    /// What has this stamp and this ticket may be destroyed: the oldest block, if it has them.
    pub(super) fn ripen(&mut self, stamp: u64, ticket: u64) {
        let theirs = |block: &Block| (block.stamp, block.ticket) == (stamp, ticket);
        if !self.waiting.first().is_some_and(theirs) {
            return;
        }
        if let Some(block) = self.waiting.pop() {
            let objects = block.end - block.start;
            self.waits -= objects;
            self.readies += objects;
            self.ready.push(block);
        }
    }

    /// An object that may be destroyed.
    pub(super) fn take_ready(&mut self) -> Option<Retired> {
        loop {
            // SAFETY: as in `Chain::first`, and `&mut self` makes this the only reference.
            let block = unsafe { self.ready.first.as_mut() }?;
            let retired = block.pop();
            if block.is_empty() {
                self.spare = self.ready.pop();
            }
            if retired.is_some() {
                self.readies -= 1;
                return retired;
            }
        }
    }

    /// Takes over blocks of others, stamped after all blocks that are waiting here.
    pub(super) fn adopt(&mut self, chain: Chain) {
        let mut at = chain.first;
        // SAFETY: as in `Chain::first`.
        while let Some(block) = unsafe { at.as_ref() } {
            self.waits += block.end - block.start;
            at = block.next;
        }
        self.waiting.append(chain);
    }

    /// Everything that is here. What is ready or waiting keeps its stamp, what was open is stamped.
    pub(super) fn take_all(&mut self, stamp: u64, ticket: u64) -> Chain {
        if let Some(block) = self.open.take() {
            self.seal(block, stamp, ticket);
        }
        let mut all = core::mem::replace(&mut self.ready, Chain::new());
        all.append(core::mem::replace(&mut self.waiting, Chain::new()));
        self.spare = None;
        self.waits = 0;
        self.readies = 0;
        all
    }
}

fn fresh(spare: &mut Option<Box<Block>>) -> Box<Block> {
    if let Some(mut block) = spare.take() {
        block.start = 0;
        block.end = 0;
        return block;
    }
    Box::new(Block {
        stamp: 0,
        ticket: 0,
        start: 0,
        end: 0,
        next: ptr::null_mut(),
        entries: [const { MaybeUninit::uninit() }; BLOCK],
    })
}

/// Takes the objects out of a chain, freeing the blocks.
pub(super) fn drain(mut chain: Chain) -> impl Iterator<Item = Retired> {
    let mut block: Option<Box<Block>> = None;
    core::iter::from_fn(move || {
        loop {
            if let Some(retired) = block.as_mut().and_then(|block| block.pop()) {
                return Some(retired);
            }
            block = Some(chain.pop()?);
        }
    })
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn retired(number: usize) -> Retired {
        unsafe fn nothing(_: *mut ()) {}
        // SAFETY: destroying does nothing.
        unsafe { Retired::new(ptr::without_provenance_mut(number), nothing, number) }
    }

    #[test]
    fn objects_come_out_in_order_and_only_when_ready() {
        let mut queue = Queue::new();
        for number in 0..BLOCK {
            assert_eq!(queue.push(retired(number)), number == BLOCK - 1);
        }
        let full = queue.take_open().expect("it was pushed to");
        queue.seal(full, 5, 50);
        queue.push(retired(BLOCK));
        assert_eq!(queue.waits, BLOCK);
        assert!(queue.take_ready().is_none());
        assert_eq!(queue.oldest().map(|block| block.stamp), Some(5));
        queue.ripen(6, 50);
        queue.ripen(5, 51);
        assert_eq!(queue.readies, 0, "those were others");
        queue.ripen(5, 50);
        assert!(queue.oldest().is_none());
        let out: Vec<usize> = core::iter::from_fn(|| queue.take_ready())
            .map(|retired| retired.bytes())
            .collect();
        assert_eq!(out, (0..BLOCK).collect::<Vec<_>>());
        assert_eq!((queue.waits, queue.readies), (0, 0));
        assert_eq!(drain(queue.take_all(9, 0)).count(), 1);
    }

    #[test]
    fn everything_is_handed_over() {
        let mut queue = Queue::new();
        for number in 0..3 * BLOCK + 5 {
            if queue.push(retired(number)) {
                let full = queue.take_open().expect("it was pushed to");
                queue.seal(full, number as u64, 0);
            }
        }
        queue.ripen(BLOCK as u64 - 1, 0);
        queue.take_ready();
        let mut chain = queue.take_all(1000, 0);
        chain.restamp(2000, 7);
        let mut other = Queue::new();
        other.adopt(chain);
        assert_eq!(other.waits, 3 * BLOCK + 4);
        assert_eq!(
            other.oldest().map(|block| (block.stamp, block.ticket)),
            Some((2000, 7))
        );
        let all: Vec<usize> = drain(other.take_all(0, 0)).map(|one| one.bytes()).collect();
        assert_eq!(all, (1..3 * BLOCK + 5).collect::<Vec<_>>());
    }
}
