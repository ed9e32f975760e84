//! Where blocks are: the places, the ways between them, and the end of a slab.
//!
//! *Invariants:* a block that is not in use is in exactly one of: its chunk's list, a batch of some place, the list of a
//! home. What a place has ([`Lists`], and its chunks) is used under its lock: by the holder of its lease without an atomic update, by
//! whoever visits it through [`BiasedLock`].
//!
//! *Who waits for whom:* `late` before `gate` before the places; who is in its place takes the gate only if it is free at once.
//!
//! *Why nothing is touched after it is gone.* When its slab is dropped the core stays until its last chunk is given back. Whoever gives
//! a block back has it while it looks for the core, and so keeps the core alive; from the moment when the block is in a list somebody else
//! can count it. That is done in the place, whose lock the end of the slab takes; so a thread that still needs the core after
//! it has left its place takes the gate, which the end of the slab takes as well, while it is in there.

use super::chunk::{self, Chunk, Header, Shape};
use super::lists::Lists;
use crate::cpu::barrier::{self, Mode};
use crate::cpu::biased_lock::{self, BiasedLock};
#[cfg(any(feature = "std", percolog_loom))]
use crate::cpu::lease::LEASES;
use crate::cpu::undivided::{discharge, enlist, is_inside, undivided};
use crate::cpu::{CoreId, PerCore};
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::global::AtomicU64 as Count;
use crate::sync::{Isolated, SlotGuard, SlotLock};
use core::ptr::{self, NonNull};

/// When so many blocks have come home that the owner has not taken in, whoever sends the next ones takes them in for it: a
/// visit costs some 10 µs, so some nanoseconds for each.
const MANY: usize = if cfg!(percolog_loom) { 2 } else { 1024 };

/// So many places are visited behind one barrier.
const VISITED: usize = 32;

/// Which place a thread uses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who {
    /// It holds this lease.
    #[cfg_attr(
        not(feature = "std"),
        allow(dead_code, reason = "nobody has one there")
    )]
    Leased(usize),
    /// It has none, and shares one of the places behind ordinary locks.
    Common(usize),
}

/// So many places there are for threads without a lease, where others have one.
#[cfg(any(feature = "std", percolog_loom))]
const COMMON: usize = if cfg!(percolog_loom) { 1 } else { 16 };

impl Who {
    fn place(self) -> CoreId {
        let number = match self {
            Self::Leased(lease) => lease,
            #[cfg(any(feature = "std", percolog_loom))]
            Self::Common(number) => LEASES + number % COMMON,
            #[cfg(not(any(feature = "std", percolog_loom)))]
            Self::Common(number) => number,
        };
        CoreId::new(number as u32)
    }
}

/// Where blocks of a place wait to be taken in.
pub(super) struct Home {
    pub(super) number: usize,
    first: AtomicPtr<Header>,
    count: AtomicUsize,
}

impl Home {
    /// Adds a list that is linked from `first` to `last`; how many are there now.
    ///
    /// Lock-free.
    pub(super) fn push(&self, first: *mut Header, last: *mut Header, count: usize) -> usize {
        let mut before = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the list is the caller's.
            unsafe { Header::set_next(last, before) };
            // Release pairs with the Acquire in `take`: the links, and whatever was done with the objects. Whatever the word was
            // in between does not matter: lists are only taken out whole.
            match self.first.compare_exchange_weak(
                before,
                first,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                // Relaxed: decides only when somebody looks.
                Ok(_) => {
                    return self
                        .count
                        .fetch_add(count, Ordering::Relaxed)
                        .wrapping_add(count);
                }
                Err(now) => before = now,
            }
        }
    }

    /// Takes out all that is there.
    pub(super) fn take(&self) -> *mut Header {
        // Relaxed: a hint, so that a line that nobody sends to is not written.
        if self.first.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        // Acquire pairs with the Release in `push`.
        self.first.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// So many were taken.
    pub(super) fn taken(&self, count: usize) {
        if count != 0 {
            // Relaxed: as in `push`. It can come before the addition, and wraps then for a moment.
            self.count.fetch_sub(count, Ordering::Relaxed);
        }
    }
}

/// What a lease has, or threads without one.
struct Place {
    mode: Mode,
    lock: Lock,
    home: Isolated<Home>,
    counts: Counts,
}

enum Lock {
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
    places: PerCore<Place>,
    /// Held by who makes a place, and by who visits them.
    gate: SlotLock<Gate>,
    /// Held by who ends the slab, and by who gives a block back afterwards.
    late: SlotLock<Late>,
    bytes: AtomicUsize,
    limit: usize,
    /// Each place keeps so many chunks that are empty.
    kept: usize,
    sweeps: Count,
}

struct Gate {
    closed: bool,
}

struct Late {
    /// The kernel kept the places from being visited: nothing is given back any more.
    stuck: bool,
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
            gate: SlotLock::new(Gate { closed: false }),
            late: SlotLock::new(Late { stuck: false }),
            bytes: AtomicUsize::new(0),
            limit,
            kept,
            sweeps: Count::new(0),
        }
    }

    /// Runs `f` in the place.
    ///
    /// # Safety
    /// If it is leased the caller holds the lease, and is in no place of this core.
    #[inline(always)]
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

    #[cold]
    fn make(&self, who: Who) -> &Place {
        let slot = who.place();
        undivided(|| {
            let mut gate = self.gate.lock();
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
                    home: Isolated::new(Home {
                        number: slot.index(),
                        first: AtomicPtr::new(ptr::null_mut()),
                        count: AtomicUsize::new(0),
                    }),
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
        let block = unsafe {
            self.with(who, |place, lists| {
                let block = lists.pop(&self.shape)?;
                add(&place.counts.allocated);
                Some(block)
            })
        };
        match block {
            Some(block) => Ok(block),
            // SAFETY: by contract.
            None => unsafe { self.allocate_slowly(who) },
        }
    }

    #[cold]
    unsafe fn allocate_slowly(&self, who: Who) -> Result<NonNull<Header>, Lack> {
        let node = node();
        loop {
            let mut home = ptr::null();
            // SAFETY: by contract.
            let block = unsafe {
                self.with(who, |place, lists| {
                    home = ptr::from_ref(&*place.home);
                    let block = lists.pop_slowly(&self.shape, &place.home, node)?;
                    add(&place.counts.allocated);
                    Some(block)
                })
            };
            if let Some(block) = block {
                return Ok(block);
            }
            // Not in the place: the program's allocator may do anything.
            self.reserve()?;
            let Some(chunk) = chunk::allocate(&self.shape, self, home, node) else {
                self.unreserve(1);
                return Err(Lack::Memory);
            };
            // SAFETY: by contract. A place that threads share may lose the chunk to another one: then once more.
            unsafe { self.with(who, |_, lists| lists.add(chunk)) };
        }
    }

    /// Counts a chunk, if there may be one more.
    fn reserve(&self) -> Result<(), Lack> {
        let chunk = self.shape.bytes();
        let more = |bytes: usize| Some(bytes.checked_add(chunk)?).filter(|sum| *sum <= self.limit);
        // Relaxed: a sum. The last subtraction is looked at under `late`.
        self.bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| Lack::Limit)
            .map(drop)
    }

    /// So many chunks are gone; whether they were the last ones.
    fn unreserve(&self, chunks: usize) -> bool {
        let bytes = chunks * self.shape.bytes();
        // Relaxed: as in `reserve`.
        self.bytes.fetch_sub(bytes, Ordering::Relaxed) == bytes
    }

    // ── Giving back ──

    /// Takes a block back whose object is gone.
    ///
    /// # Safety
    /// As for [`with`](Self::with); the block comes from `allocate` of the core that its chunk names, and is not used again.
    #[inline]
    pub(super) unsafe fn give_back(who: Who, block: NonNull<Header>) {
        // SAFETY: by contract the block is in use, so its chunk lives, and so does the core.
        let chunk = unsafe { (*block.as_ptr()).chunk };
        // SAFETY: as above; these never change.
        let (core, home) = unsafe { (&*(*chunk.as_ptr()).core, (*chunk.as_ptr()).home) };
        // SAFETY: by contract. The core may be gone when this returns, but for who has the block still.
        let then = unsafe {
            core.with(who, |place, lists| {
                if lists.closed {
                    return Then::Late;
                }
                if ptr::eq(home, &*place.home) {
                    add(&place.counts.given_back);
                    if lists.put(block, core.kept) {
                        let chunks = core.trim(lists, core.kept / 2, ptr::null_mut());
                        return Then::Release(chunks, core.shape);
                    }
                } else if lists.keep(home, block) {
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
            Then::Send => unsafe { Self::send(core, who, home, block) },
            // SAFETY: as above.
            Then::Late => unsafe { Self::give_back_late(core, block) },
        }
    }

    /// Takes empty chunks out until so many are left, and counts them off; in front of others that were.
    fn trim(&self, lists: &mut Lists, leave: usize, others: *mut Chunk) -> *mut Chunk {
        let (chunks, count) = lists.trim(leave, others);
        self.unreserve(count);
        chunks
    }

    /// Sends a batch home, so that there is room for the block.
    ///
    /// # Safety
    /// As for [`give_back`](Self::give_back).
    #[cold]
    unsafe fn send(core: *const Self, who: Who, home: *const Home, block: NonNull<Header>) {
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
                    let sent = lists.send(home);
                    let kept = lists.keep(home, block);
                    debug_assert!(kept, "there is room");
                    add(&place.counts.given_back);
                    // More than half of all numbers: an addition that comes late.
                    if let Some((there, many)) = sent
                        && (MANY..usize::MAX / 2).contains(&many)
                    {
                        // The place's own home it cannot be: own blocks are not sent.
                        sweep = core.gate.lock_briefly().map(|gate| (gate, (*there).number));
                    }
                    false
                })
            };
            if let Some((gate, number)) = sweep {
                // SAFETY: the gate keeps the core.
                unsafe { core.sweep(gate, number, &shape) };
            }
            late
        });
        if late {
            // SAFETY: by contract; the block was not given back.
            unsafe { Self::give_back_late(core, block) };
        }
    }

    /// Takes in what has come home to a place whose owner does not do it.
    ///
    /// # Safety
    /// The caller is in no place.
    unsafe fn sweep(&self, gate: SlotGuard<'_, Gate>, number: usize, shape: &Shape) {
        let slot = CoreId::new(number as u32);
        let mut chunks = ptr::null_mut();
        if let Some(place) = self.places.touched(slot) {
            place.visit(|lists| {
                lists.take_in(&place.home);
                if lists.empties() > self.kept {
                    chunks = self.trim(lists, self.kept / 2, chunks);
                }
            });
            // Relaxed: under the gate.
            self.sweeps
                .store(self.sweeps.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        drop(gate);
        // SAFETY: they were taken out of their lists.
        unsafe { chunk::release(shape, chunks) };
    }

    // ── Visiting all ──

    /// Brings all blocks home, and gives all empty chunks back to the system; how many bytes.
    ///
    /// The caller is in no place, and the core is not being closed.
    pub(super) fn collect(&self) -> usize {
        undivided(|| {
            let gate = self.gate.lock();
            let _ = self.visit_all(|_, lists| lists.send_all());
            let mut chunks = ptr::null_mut();
            let _ = self.visit_all(|place, lists| {
                lists.take_in(&place.home);
                lists.put_current_away(&self.shape);
                chunks = self.trim(lists, 0, chunks);
            });
            drop(gate);
            // SAFETY: they were taken out of their lists.
            unsafe { chunk::release(&self.shape, chunks) * self.shape.bytes() }
        })
    }

    /// Visits each place; `Err` if the kernel does not let places be visited. The caller has the gate. Allocates nothing.
    fn visit_all(&self, mut visit: impl FnMut(&Place, &mut Lists)) -> Result<(), ()> {
        let mut places = self.places.iter().map(|(_, place)| place).peekable();
        while places.peek().is_some() {
            let mut leased: [Option<(&Place, &BiasedLock<Lists>)>; VISITED] = [None; VISITED];
            let mut count = 0;
            while count < VISITED
                && let Some(place) = places.next()
            {
                match &place.lock {
                    Lock::Common(lock) => visit(place, lock.lock().get()),
                    Lock::Leased(lock) => {
                        leased[count] = Some((place, lock));
                        count += 1;
                    }
                }
            }
            let Some((place, first)) = leased[0] else {
                continue;
            };
            let mut locks = [first; VISITED];
            let mut owners = [place; VISITED];
            for (at, (place, lock)) in leased.iter().flatten().enumerate() {
                locks[at] = lock;
                owners[at] = place;
            }
            biased_lock::visit(&locks[..count], barrier::mode(), |at, lists| {
                visit(owners[at], lists);
            })
            .map_err(drop)?;
        }
        Ok(())
    }

    // ── The end ──

    /// The slab is dropped. The core stays while blocks are in use.
    ///
    /// # Safety
    /// It comes from a box, and nobody uses it any more but to give blocks back.
    pub(super) unsafe fn close(core: NonNull<Self>) {
        undivided(|| {
            // SAFETY: by contract it lives until it is freed here or by a late block, which waits for `late`.
            let this = unsafe { core.as_ref() };
            let mut late = this.late.lock();
            let mut gate = this.gate.lock();
            gate.get().closed = true;
            let mut chunks = ptr::null_mut();
            let closed = this
                .visit_all(|_, lists| {
                    lists.closed = true;
                    lists.send_all();
                })
                .and_then(|()| {
                    // All are closed, so nothing is sent any more.
                    this.visit_all(|place, lists| {
                        lists.take_in(&place.home);
                        lists.put_current_away(&this.shape);
                        chunks = this.trim(lists, 0, chunks);
                    })
                });
            // SAFETY: they were taken out of their lists.
            unsafe { chunk::release(&this.shape, chunks) };
            late.get().stuck = closed.is_err();
            // Relaxed: changed under `late` alone from here on.
            let last = closed.is_ok() && this.bytes.load(Ordering::Relaxed) == 0;
            drop(gate);
            drop(late);
            if last {
                // SAFETY: no chunk is left, so no block is in use that somebody could give back.
                unsafe { drop(alloc::boxed::Box::from_raw(core.as_ptr())) };
            }
        });
    }

    /// Takes a block back after the slab was dropped.
    ///
    /// # Safety
    /// As for [`give_back`](Self::give_back), and the core is closed, or being closed.
    #[cold]
    unsafe fn give_back_late(core: *const Self, block: NonNull<Header>) {
        undivided(|| {
            // SAFETY: the block is in use, and keeps the core.
            let this = unsafe { &*core };
            let mut late = this.late.lock();
            if late.get().stuck {
                return;
            }
            // SAFETY: the places are closed, so chunks are used under `late`. The block is in use.
            let (chunk, used) = unsafe {
                let chunk = (*block.as_ptr()).chunk;
                (chunk, chunk::push(chunk, block.as_ptr()).0)
            };
            if used != 0 {
                return;
            }
            let last = this.unreserve(1);
            // SAFETY: none of its blocks is in use, and it is in no list that anybody looks at.
            unsafe {
                chunk::with(chunk, |state| state.next = ptr::null_mut());
                chunk::release(&this.shape, chunk.as_ptr());
            }
            drop(late);
            if last {
                // SAFETY: as in `close`.
                unsafe { drop(alloc::boxed::Box::from_raw(core.cast_mut())) };
            }
        });
    }

    // ── Figures ──

    /// Of the chunks, as they are counted for the limit.
    pub(super) fn chunk_bytes(&self) -> usize {
        // Relaxed: for people.
        self.bytes.load(Ordering::Relaxed)
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
            self.sweeps.load(Ordering::Relaxed),
        ]
    }
}

impl Place {
    /// Visits the lists; nothing if the kernel does not let that happen. The caller has the gate.
    fn visit(&self, mut f: impl FnMut(&mut Lists)) {
        match &self.lock {
            Lock::Common(lock) => f(lock.lock().get()),
            Lock::Leased(lock) => {
                let _ = biased_lock::visit(&[lock], barrier::mode(), |_, lists| f(lists));
            }
        }
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
