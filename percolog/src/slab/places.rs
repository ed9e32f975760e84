//! Where blocks are: the places, and the ways between them.
//!
//! *Invariants:* a block that is not in use is in exactly one of: its chunk's list, a batch of some
//! place, the list of a home. What a place has ([`Lists`], and its chunks) is used under its lock:
//! by the holder of its lease without an atomic update, by whoever visits it through
//! [`BiasedLock`].
//!
//! *Who waits for whom:* `late` before `gate` before the places; who is in its place takes the gate
//! only if it is free at once.

use super::chunk::{self, Chunk, Header, Shape};
use super::home::{Address, Home};
use super::lists::Lists;
use crate::cpu::PerCore;
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::biased_lock::{BiasedLock, Owned};
use crate::cpu::lease::Who;
use crate::cpu::undivided::{discharge, enlist, is_inside, undivided};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::global::AtomicU64 as Count;
use crate::sync::{Isolated, SlotLock};
use core::ptr::{self, NonNull};

/// When so many blocks have come home that the owner has not taken in, whoever sends the next ones
/// takes them in for it: a visit costs some 10 µs, so some nanoseconds for each.
const MANY: usize = if cfg!(percolog_loom) { 2 } else { 1024 };

/// What a lease has, or threads without one.
pub(super) struct Place {
    mode: BarrierMode,
    pub(super) lock: Lock,
    pub(super) home: Home,
    counts: Counts,
}

pub(super) enum Lock {
    Leased(BiasedLock<Lists>),
    Common(SlotLock<Lists>),
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
    pub(super) shape: Shape,
    pub(super) places: PerCore<Place>,
    limit: usize,
    /// Each place keeps so many chunks that are empty.
    pub(super) kept: usize,
    /// The rest is read for every block: whoever writes what is in here leaves its lines alone.
    pub(super) shared: Isolated<Shared>,
}

/// What threads write now and then: when a chunk comes or goes.
pub(super) struct Shared {
    /// Held by who makes a place, and by who visits them.
    pub(super) gate: SlotLock<Gate>,
    /// Held by who ends the slab, and by who gives a block back afterwards.
    pub(super) late: SlotLock<Late>,
    /// Of all chunks.
    pub(super) bytes: AtomicUsize,
    pub(super) sweeps: Count,
}

pub(super) struct Gate {
    pub(super) closed: bool,
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
    pub(super) fn new(shape: Shape, limit: usize, kept: usize) -> Self {
        Self {
            shape,
            places: PerCore::new(),
            limit,
            kept,
            shared: Isolated::new(Shared {
                gate: SlotLock::new(Gate { closed: false }),
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
    unsafe fn with<R>(&self, who: Who, f: impl FnOnce(&Place, &mut Lists) -> R) -> R {
        let slot = who.place();
        let place = match self.places.touched(slot) {
            Some(place) => place,
            None => self.make(who),
        };
        match &place.lock {
            Lock::Leased(lock) => {
                // SAFETY: by contract.
                let mut lists = match unsafe { lock.try_own(place.mode) } {
                    Some(lists) => lists,
                    // SAFETY: as above; it was left again.
                    None => unsafe { lock.own_inside(place.mode, is_inside) },
                };
                f(place, lists.get())
            }
            Lock::Common(lock) => undivided(|| f(place, lock.lock().get())),
        }
    }

    /// The lists of a place that is leased, if nobody else is there now.
    ///
    /// # Safety
    /// As for [`with`](Self::with).
    #[inline(always)]
    unsafe fn own(&self, who: Who) -> Option<(&Place, Owned<'_, Lists>)> {
        if matches!(who, Who::Leased(_))
            && let Some(place) = self.places.touched(who.place())
            && let Lock::Leased(lock) = &place.lock
        {
            // SAFETY: by contract.
            Some((place, unsafe { lock.try_own(place.mode) }?))
        } else {
            None
        }
    }

    #[cold]
    fn make(&self, who: Who) -> &Place {
        let slot = who.place();
        undivided(|| {
            let mut gate = self.shared.gate.lock();
            if let Some(place) = self.places.touched(slot) {
                return place;
            }
            let closed = gate.get().closed;
            let place = self.places.get_or_make(slot, || {
                let lists = Lists::new(closed);
                Place {
                    mode: barrier::mode(),
                    lock: match who {
                        Who::Leased(_) => Lock::Leased(BiasedLock::new(lists)),
                        Who::Common(_) => Lock::Common(SlotLock::new(lists)),
                    },
                    home: Home::new(),
                    counts: Counts::default(),
                }
            });
            if let Lock::Leased(lock) = &place.lock {
                enlist(lock, slot.index());
            }
            place
        })
    }

    // ── Allocating ──

    /// A block for an object.
    ///
    /// # Safety
    /// As for [`with`](Self::with).
    #[inline]
    pub(super) unsafe fn allocate(&self, who: Who) -> Result<NonNull<Header>, Lack> {
        // SAFETY: by contract.
        if let Some((place, mut lists)) = unsafe { self.own(who) }
            && let Some(block) = lists.get().pop(&self.shape)
        {
            add(&place.counts.allocated);
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
    unsafe fn allocate_slowly(&self, who: Who) -> Result<NonNull<Header>, Lack> {
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
            let Some(chunk) = chunk::allocate(&self.shape, self, address, node) else {
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
    ) -> Result<NonNull<Header>, *const Home> {
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

    /// Takes a block back whose object is gone.
    ///
    /// # Safety
    /// As for [`with`](Self::with); the block comes from `allocate` of the core that its chunk
    /// names, and is not used again.
    #[inline]
    pub(super) unsafe fn give_back(who: Who, block: NonNull<Header>) {
        // SAFETY: by contract.
        let (core, address) = unsafe { Self::origin(block) };
        // The holder of a lease finds its own blocks by the number.
        if matches!(who, Who::Leased(lease) if lease == address.number)
            // SAFETY: by contract.
            && let Some((place, mut lists)) = unsafe { core.own(who) }
            && !lists.get().closed
        {
            add(&place.counts.given_back);
            if lists.get().put(block, core.kept) {
                let (chunks, shape) = core.take_some(lists.get());
                // The core may be gone from here on.
                drop(lists);
                // SAFETY: they were taken out of their lists, and are the core's.
                unsafe { chunk::release(&shape, chunks) };
            }
            return;
        }
        // SAFETY: by contract; the lists were left again.
        unsafe { Self::give_back_slowly(who, block) }
    }

    /// The core of a block's chunk, and the place that the block belongs to.
    ///
    /// # Safety
    /// The block is in use, as long as what is returned is used.
    #[inline(always)]
    unsafe fn origin<'a>(block: NonNull<Header>) -> (&'a Self, Address) {
        // SAFETY: by contract the block is in use, so its chunk lives, and so does the core; these never change.
        unsafe {
            let chunk = (*block.as_ptr()).chunk.as_ptr();
            (&*(*chunk).core, (*chunk).address)
        }
    }

    /// Takes out half of the empty chunks, and what it takes to release them.
    #[cold]
    fn take_some(&self, lists: &mut Lists) -> (*mut Chunk, Shape) {
        let chunks = self.trim(lists, self.kept / 2, ptr::null_mut());
        (chunks, self.shape)
    }

    /// As [`give_back`](Self::give_back), when the block belongs to another place, or the place is not simply the caller's.
    ///
    /// # Safety
    /// As for [`give_back`](Self::give_back).
    #[inline(never)]
    unsafe fn give_back_slowly(who: Who, block: NonNull<Header>) {
        // SAFETY: by contract.
        let (core, address) = unsafe { Self::origin(block) };
        // SAFETY: by contract. The core may be gone when this returns, but for who has the block still.
        let then = unsafe {
            core.with(who, |place, lists| {
                if lists.closed {
                    return Then::Late;
                }
                if ptr::eq(address.home, &place.home) {
                    add(&place.counts.given_back);
                    if lists.put(block, core.kept) {
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
    unsafe fn send(core: *const Self, who: Who, address: Address, block: NonNull<Header>) {
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
                        sweep = core.shared.gate.lock_briefly().map(|gate| (gate, there));
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
                .map(|(_, place)| of(&place.counts).load(Ordering::Relaxed))
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

impl Drop for Core {
    fn drop(&mut self) {
        discharge(
            self.places
                .iter()
                .filter_map(|(_, place)| match &place.lock {
                    Lock::Leased(lock) => Some(lock),
                    Lock::Common(_) => None,
                }),
        );
    }
}

/// The NUMA node that the calling thread runs on.
fn node() -> usize {
    #[cfg(percolog_loom)]
    return 0;
    #[cfg(not(percolog_loom))]
    crate::cpu::chip()
}
