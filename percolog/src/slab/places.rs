//! Where blocks are: the places, and the ways between them.
//!
//! *Invariants:* a block that is not in use is in exactly one of: its chunk's list, a batch of some
//! place, the list of a home. What a place has ([`Lists`], and its chunks) is used by its owner, or
//! by a visitor: places are [`Shards`].
//!
//! *Who waits for whom:* `late` before the gate before the places; who is in its place takes the gate
//! only if it is free at once.

use super::chunk::{self, Block, Chunk, Shape};
use super::home::{Address, Home};
use super::lists::Lists;
use crate::cpu::biased_lock::Owned;
use crate::cpu::lease::Who;
use crate::cpu::recent;
use crate::cpu::shards::{Reentered, Shard, Shards};
use crate::cpu::undivided::undivided;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::global::AtomicU64 as Count;
use crate::sync::{Isolated, SlotLock};
use core::ptr::{self, NonNull};

/// When so many blocks have come home that the owner has not taken in, whoever sends the next ones
/// takes them in for it: a visit costs some 10 µs, so some nanoseconds for each.
const MANY: usize = if cfg!(percolog_loom) { 2 } else { 1024 };

/// What a lease has, or threads without one.
pub(super) type Place = Shard<Lists, Side>;

/// The part of a place that everybody may read.
pub(super) struct Side {
    pub(super) home: Home,
    counts: Counts,
}

/// Written under the place's lock, and read by anybody.
#[derive(Default)]
struct Counts {
    allocated: Count,
    given_back: Count,
    sent: Count,
}

#[inline(always)]
fn add(count: &Count) {
    // Relaxed, both: only the holder of the place's lock writes it.
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}

/// What a slab is made of, whatever its objects are.
pub(super) struct Core {
    /// By which threads [remember](recent) their places.
    pub(super) identity: u64,
    pub(super) shape: Shape,
    /// The gate is held by who makes a place, and by who visits them. Its line is one that nobody reads for a block.
    pub(super) places: Shards<Lists, Side, Isolated<SlotLock<()>>>,
    /// The allocation that the core is in, to free it by.
    pub(super) whole: *mut Core,
    limit: usize,
    /// Each place keeps so many chunks that are empty.
    pub(super) kept: usize,
    /// The rest is read for every block: whoever writes what is in here leaves its lines alone.
    pub(super) shared: Isolated<Shared>,
}

/// What threads write now and then: when a chunk comes or goes.
pub(super) struct Shared {
    /// Whether the slab was dropped: 1. Read and written under the gate.
    pub(super) closed: AtomicU32,
    /// Held by who ends the slab, and by who gives a block back afterwards.
    pub(super) late: SlotLock<Late>,
    /// Of all chunks.
    pub(super) bytes: AtomicUsize,
    pub(super) sweeps: Count,
}

pub(super) struct Late {
    /// The kernel kept the places from being visited: nothing is given back any more.
    pub(super) stuck: bool,
}

// SAFETY: what is behind the places' pointers is used under their locks.
unsafe impl Sync for Core {}
// SAFETY: as above.
unsafe impl Send for Core {}

/// Why there is no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    Limit,
    Memory,
}

/// What still has to be done for a block that is given back.
enum Then {
    Nothing,
    Release(*mut Chunk, Shape),
    Send,
    Late,
}

impl Core {
    /// A core that is going to lie at `whole`, which comes from the global allocator with its layout.
    pub(super) fn new(whole: *mut Self, shape: Shape, limit: usize, kept: usize) -> Self {
        Self {
            identity: recent::identity(),
            shape,
            places: Shards::with_gate(Isolated::new(SlotLock::new(()))),
            whole,
            limit,
            kept,
            shared: Isolated::new(Shared {
                closed: AtomicU32::new(0),
                late: SlotLock::new(Late { stuck: false }),
                bytes: AtomicUsize::new(0),
                sweeps: Count::new(0),
            }),
        }
    }

    /// Runs `f` in the place.
    ///
    /// # Safety
    /// If it is leased the caller holds the lease, and is in no place of this core.
    unsafe fn with<R>(&self, who: Who, f: impl FnOnce(&Side, &mut Lists) -> R) -> R {
        let place = match self.places.find(who) {
            Some(place) => place,
            None => self.make(who),
        };
        let f = |lists: &mut Lists| f(place.shared(), lists);
        // SAFETY: by contract.
        unsafe { self.places.with(who, place, f) }.unwrap_or_else(|Reentered| reentered())
    }

    #[cold]
    fn make(&self, who: Who) -> &Place {
        let made = self.places.make(who, || {
            // Relaxed: under the gate.
            let closed = self.shared.closed.load(Ordering::Relaxed) != 0;
            let side = Side {
                home: Home::new(),
                counts: Counts::default(),
            };
            (Lists::new(closed), side)
        });
        made.unwrap_or_else(|Reentered| reentered())
    }

    // ── Allocating ──

    /// A block of the chunk at hand in the caller's place, if there is one, and nobody else is there now.
    ///
    /// # Safety
    /// The place is leased; the caller holds the lease, and is in no place of its core.
    #[inline(always)]
    pub(super) unsafe fn pop(place: &Place) -> Option<NonNull<Block>> {
        // SAFETY: by contract.
        let mut lists = unsafe { place.try_own() }?;
        let block = lists.get().pop()?;
        add(&place.shared().counts.allocated);
        Some(block)
    }

    /// The place, if it is the caller's own, which then remembers it.
    ///
    /// # Safety
    /// If it is leased, the caller holds the lease.
    unsafe fn own(&self, who: Who) -> Option<&Place> {
        let place = self.places.find(who)?;
        matches!(who, Who::Leased(_)).then(|| {
            recent::remember(self.identity, place);
            place
        })
    }

    /// A block for an object.
    ///
    /// # Safety
    /// As for [`with`](Self::with).
    pub(super) unsafe fn allocate(&self, who: Who) -> Result<NonNull<Block>, Lack> {
        // SAFETY: by contract.
        if let Some(place) = unsafe { self.own(who) }
            // SAFETY: by contract.
            && let Some(block) = unsafe { Self::pop(place) }
        {
            return Ok(block);
        }
        // SAFETY: by contract; the lists were left again.
        unsafe { self.allocate_slowly(who) }
    }

    /// As [`allocate`](Self::allocate), when the chunk at hand has nothing left, or the place is not simply the caller's.
    ///
    /// # Safety
    /// As for [`with`](Self::with).
    #[cold]
    unsafe fn allocate_slowly(&self, who: Who) -> Result<NonNull<Block>, Lack> {
        let node = node();
        // SAFETY: by contract.
        let home = match unsafe { self.allocate_anywhere(who, node, None) } {
            Ok(block) => return Ok(block),
            Err(home) => home,
        };
        let address = Address {
            home,
            number: who.place().index(),
        };
        // A step: to a child, a chunk that is counted and in no list would be lost. Not in the place: the
        // program's allocator may do anything.
        undivided(|| {
            self.reserve()?;
            let Some(chunk) =
                chunk::allocate(&self.shape, self.whole, self.identity, address, node)
            else {
                self.unreserve(1);
                return Err(Lack::Memory);
            };
            // SAFETY: by contract.
            let block = unsafe { self.allocate_anywhere(who, node, Some(chunk)) };
            // It is there: the chunk was added in the same visit.
            block.map_err(|_| Lack::Memory)
        })
    }

    /// A block of any chunk of the place, to which a fresh one is added first; or, if there is none, the
    /// place's home.
    ///
    /// # Safety
    /// As for [`with`](Self::with).
    unsafe fn allocate_anywhere(
        &self,
        who: Who,
        node: usize,
        fresh: Option<NonNull<Chunk>>,
    ) -> Result<NonNull<Block>, *const Home> {
        // SAFETY: by contract.
        unsafe {
            self.with(who, |place, lists| {
                if let Some(chunk) = fresh {
                    lists.add(chunk);
                }
                let block = lists.pop_slowly(&self.shape, &place.home, node);
                let block = block.ok_or(&raw const place.home)?;
                add(&place.counts.allocated);
                Ok(block)
            })
        }
    }

    /// Counts a chunk, if there may be one more.
    fn reserve(&self) -> Result<(), Lack> {
        let chunk = self.shape.bytes();
        let more = |bytes: usize| Some(bytes.checked_add(chunk)?).filter(|sum| *sum <= self.limit);
        // Relaxed: a sum. The last subtraction is looked at under `late`.
        self.shared
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Lack::Limit)
            .map(drop)
    }

    /// So many chunks are gone; whether they were the last ones.
    pub(super) fn unreserve(&self, chunks: usize) -> bool {
        let bytes = chunks * self.shape.bytes();
        // Relaxed: as in `reserve`.
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed) == bytes
    }

    // ── Giving back ──

    /// Whether the block's chunk belongs to the place.
    ///
    /// # Safety
    /// The block is in use.
    #[inline(always)]
    pub(super) unsafe fn is_of(place: &Place, chunk: NonNull<Chunk>) -> bool {
        // SAFETY: by contract the chunk lives; its address never changes.
        unsafe { ptr::eq((*chunk.as_ptr()).address.home, &place.shared().home) }
    }

    /// Takes a block back that belongs to the caller's place, unless somebody else is there now, or the slab is gone.
    ///
    /// # Safety
    /// As for [`pop`](Self::pop) and [`give_back`](Self::give_back).
    #[inline(always)]
    pub(super) unsafe fn put(place: &Place, chunk: NonNull<Chunk>, block: NonNull<Block>) -> bool {
        // SAFETY: by contract.
        let Some(mut lists) = (unsafe { place.try_own() }) else {
            return false;
        };
        if lists.get().closed {
            return false;
        }
        add(&place.shared().counts.given_back);
        if lists.get().put(chunk, block) {
            // SAFETY: the chunk is the place's.
            unsafe { Self::settle(lists, chunk) };
        }
        true
    }

    /// What is left to do when [`Lists::put`] says so.
    ///
    /// # Safety
    /// The chunk is the place's.
    #[inline(never)]
    unsafe fn settle(mut lists: Owned<'_, Lists>, chunk: NonNull<Chunk>) {
        // SAFETY: the core cannot be closed as long as the place is entered.
        let core = unsafe { &*(*chunk.as_ptr()).core };
        if lists.get().settle(chunk, core.kept) {
            let (chunks, shape) = core.take_some(lists.get());
            // The core may be gone from here on.
            drop(lists);
            // SAFETY: they were taken out of their lists, and are the core's.
            unsafe { chunk::release(&shape, chunks) };
        }
    }

    /// Takes a block that belongs to another place into the caller's, to go home from there; or not, as with [`put`](Self::put), or if
    /// there is no room.
    ///
    /// # Safety
    /// As for `put`.
    #[inline(always)]
    pub(super) unsafe fn keep(place: &Place, chunk: NonNull<Chunk>, block: NonNull<Block>) -> bool {
        // SAFETY: by contract; the block is in use, so its chunk lives.
        let (lists, address) = unsafe { (place.try_own(), (*chunk.as_ptr()).address) };
        let Some(mut lists) = lists else {
            return false;
        };
        let kept = !lists.get().closed && lists.get().keep(address, block);
        if kept {
            add(&place.shared().counts.given_back);
        }
        kept
    }

    /// Takes a block back whose object is gone.
    ///
    /// # Safety
    /// As for [`with`](Self::with); the block comes from `allocate` of the core that its chunk names, and is not used again. The
    /// chunk is the block's.
    pub(super) unsafe fn give_back(who: Who, chunk: NonNull<Chunk>, block: NonNull<Block>) {
        // SAFETY: by contract. The core lives as long as the block is in use, and whoever is in one of its places has not given it back.
        unsafe {
            if let Some(place) = (*(*chunk.as_ptr()).core).own(who)
                && if Self::is_of(place, chunk) {
                    Self::put(place, chunk, block)
                } else {
                    Self::keep(place, chunk, block)
                }
            {
                return;
            }
            Self::give_back_slowly(who, chunk, block);
        }
    }

    /// As [`give_back`](Self::give_back), when the place is not simply the caller's, or has no room.
    ///
    /// # Safety
    /// As for `give_back`.
    unsafe fn give_back_slowly(who: Who, chunk: NonNull<Chunk>, block: NonNull<Block>) {
        // SAFETY: by contract the block is in use, so its chunk lives, and so does the core; these never change.
        let (core, address) = unsafe { (&*(*chunk.as_ptr()).core, (*chunk.as_ptr()).address) };
        // SAFETY: by contract. The core may be gone when this returns, but for who has the block still.
        let then = unsafe {
            core.with(who, |place, lists| {
                if lists.closed {
                    return Then::Late;
                }
                if ptr::eq(address.home, &place.home) {
                    add(&place.counts.given_back);
                    if lists.put(chunk, block) && lists.settle(chunk, core.kept) {
                        let (chunks, shape) = core.take_some(lists);
                        return Then::Release(chunks, shape);
                    }
                } else if lists.keep(address, block) {
                    add(&place.counts.given_back);
                } else {
                    return Then::Send;
                }
                Then::Nothing
            })
        };
        match then {
            Then::Nothing => {}
            // SAFETY: they were taken out of their lists, and are the core's.
            Then::Release(chunks, shape) => unsafe {
                chunk::release(&shape, chunks);
            },
            // SAFETY: by contract; the block has not been given back yet.
            Then::Send => unsafe { Self::send(core, who, address, block) },
            // SAFETY: as above.
            Then::Late => unsafe { Self::give_back_late(core, block) },
        }
    }

    /// Takes out half of the empty chunks, and what it takes to release them.
    #[cold]
    fn take_some(&self, lists: &mut Lists) -> (*mut Chunk, Shape) {
        let chunks = self.trim(lists, self.kept / 2, ptr::null_mut());
        (chunks, self.shape)
    }

    /// Takes empty chunks out until so many are left, and counts them off; in front of others that were.
    pub(super) fn trim(&self, lists: &mut Lists, leave: usize, others: *mut Chunk) -> *mut Chunk {
        let (chunks, count) = lists.trim(leave, others);
        self.unreserve(count);
        chunks
    }

    /// Sends a batch home, so that there is room for the block.
    ///
    /// # Safety
    /// As for [`give_back`](Self::give_back).
    #[cold]
    unsafe fn send(core: *const Self, who: Who, address: Address, block: NonNull<Block>) {
        // SAFETY: the block is in use, and so the core lives.
        let shape = unsafe { (*core).shape };
        let late = undivided(|| {
            // SAFETY: as above, until the block is put among others; then the gate keeps it.
            let core = unsafe { &*core };
            let mut sweep = None;
            // SAFETY: by contract.
            let late = unsafe {
                core.with(who, |place, lists| {
                    if lists.closed {
                        return true;
                    }
                    add(&place.counts.sent);
                    let sent = lists.send(address);
                    let kept = lists.keep(address, block);
                    debug_assert!(kept, "there is room");
                    add(&place.counts.given_back);
                    // More than half of all numbers: an addition that comes late.
                    if let Some((there, many)) = sent
                        && (MANY..usize::MAX / 2).contains(&many)
                    {
                        // The place's own home it cannot be: own blocks are not sent.
                        sweep = core.places.try_gate().map(|gate| (gate, there));
                    }
                    false
                })
            };
            if let Some((gate, number)) = sweep {
                let chunks = core.sweep(gate, number);
                // SAFETY: they were taken out of their lists.
                unsafe { chunk::release(&shape, chunks) };
            }
            late
        });
        if late {
            // SAFETY: by contract; the block was not given back.
            unsafe { Self::give_back_late(core, block) };
        }
    }

    // ── Figures ──

    /// Of the chunks, as they are counted for the limit.
    pub(super) fn chunk_bytes(&self) -> usize {
        // Relaxed: for people.
        self.shared.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.places.memory() + self.chunk_bytes()
    }

    /// Blocks allocated, given back, batches sent, and visits to places that had let much gather.
    pub(super) fn counts(&self) -> [u64; 4] {
        // What is given back is read first, so that it is never more.
        let sum = |of: fn(&Counts) -> &Count| {
            self.places
                .iter()
                // Relaxed: for people.
                .map(|place| of(&place.shared().counts).load(Ordering::Relaxed))
                .fold(0, u64::wrapping_add)
        };
        let given_back = sum(|counts| &counts.given_back);
        let allocated = sum(|counts| &counts.allocated);
        let sent = sum(|counts| &counts.sent);
        [
            allocated,
            given_back,
            sent,
            self.shared.sweeps.load(Ordering::Relaxed),
        ]
    }
}

/// Nothing that runs in a place, or in a visit, comes back: no code of users does.
#[cold]
pub(super) fn reentered() -> ! {
    unreachable!("a slab's place was entered from inside of one")
}

/// The NUMA node that the calling thread runs on.
fn node() -> usize {
    #[cfg(percolog_loom)]
    return 0;
    #[cfg(not(percolog_loom))]
    crate::cpu::chip()
}
