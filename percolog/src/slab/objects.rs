//! What users see: a slab of one type.

use super::chunk::{Block, Shape};
use super::places::{Core, Lack};
use crate::cpu::lease::Who;
use crate::cpu::recent::UNIDENTIFIED;
use crate::reclaim::{Domain, Memory, Owned, Unlinked};
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use alloc::alloc::{Layout, alloc};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

/// A slab allocator for objects of one type.
///
/// See the [module](super).
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`insert`](Self::insert) | wait-free but for the system's allocator, and while somebody visits the thread's lists or forks | none; what others have sent, when the thread has none of its own left |
/// | [`free`](Self::free) | as [`Domain::retire`] | as [`Domain::retire`] |
/// | destroying an object | as `insert` | none if this thread allocated it; else the object's first, and one for 32 |
/// | [`collect`](Self::collect) | blocking | some of each thread that has used the slab |
/// | [`stats`](Self::stats), [`memory_usage`](Self::memory_usage) | wait-free | one of each thread that has used the slab |
pub struct Slab<'d, T> {
    /// Made at first use, so that a slab can stand in a static; from a box.
    core: AtomicPtr<Core>,
    /// The core's, once it has been used.
    identity: AtomicU64,
    domain: &'d Domain,
    options: SlabBuilder,
    makes: PhantomData<fn(T) -> T>,
}

/// A builder of a [`Slab`].
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is built yet"]
pub struct SlabBuilder {
    limit: usize,
    keep: usize,
}

impl SlabBuilder {
    /// No limit; each thread keeps two chunks that are empty.
    pub const fn new() -> Self {
        Self {
            limit: usize::MAX,
            keep: 2,
        }
    }

    /// No more than so many bytes are taken for chunks. What is below a chunk's size,
    /// [`Slab::CHUNK_BYTES`], is too little for any object.
    pub const fn limit(self, bytes: usize) -> Self {
        Self {
            limit: bytes,
            ..self
        }
    }

    /// Each thread keeps so many chunks that are empty. When one more becomes empty, half of them
    /// and that one go back to the system, so that a thread which allocates and frees in turns does
    /// not ask the system each time.
    pub const fn keep(self, chunks: usize) -> Self {
        Self {
            keep: chunks,
            ..self
        }
    }

    /// A slab whose objects are freed in this domain. Allocates nothing before it is used.
    #[must_use]
    pub const fn build<T>(self, domain: &Domain) -> Slab<'_, T> {
        Slab {
            core: AtomicPtr::new(ptr::null_mut()),
            identity: AtomicU64::new(UNIDENTIFIED),
            domain,
            options: self,
            makes: PhantomData,
        }
    }
}

impl Default for SlabBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// The error of an allocation, with the value: there is no memory for the object.
pub struct AllocError<T> {
    /// What was to be inserted.
    pub value: T,
    /// The slab's limit, if that is what has been reached; `None` if the system has no memory.
    pub limit: Option<usize>,
}

/// Statistics of a [`Slab`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlabStats {
    /// Objects: in use, or freed and waiting for sections to end.
    pub objects: u64,
    /// Objects that were inserted.
    pub inserted: u64,
    /// Objects that are gone.
    pub destroyed: u64,
    /// Chunks held.
    pub chunks: usize,
    /// Their bytes, as they count for the limit.
    pub chunk_bytes: usize,
    /// The limit.
    pub limit: Option<usize>,
    /// How often blocks were sent home.
    pub batches: u64,
    /// How often a thread took in for another one what had been sent to that, because it did not.
    pub sweeps: u64,
}

/// The [kind of memory](Memory) of objects in a [`Slab`].
///
/// `Owned<T, InSlab>` is an object of a slab that nobody else has, `Link<T, InSlab>` leads to one.
#[derive(Debug, Clone, Copy)]
pub enum InSlab {}

/// What destroyed objects consist of where there are debug assertions, so that whoever still reads one
/// finds out.
const POISON: u8 = 0xdb;

// SAFETY: blocks are given back in the place of whichever thread this runs on.
unsafe impl Memory for InSlab {
    #[inline]
    unsafe fn destroy<T>(object: NonNull<T>) {
        /// Gives the memory back, also if the object's destructor panics.
        struct GiveBack<T>(NonNull<T>);
        impl<T> Drop for GiveBack<T> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the object is gone, and nobody uses its memory, which is a block of a slab's.
                // The thread is in no place: none of our code that runs there comes here.
                unsafe {
                    if cfg!(debug_assertions) {
                        self.0.cast::<u8>().write_bytes(POISON, size_of::<T>());
                    }
                    let block = Block::of(self.0);
                    Core::give_back_here(
                        const { Shape::of(Layout::new::<T>()) }.chunk_of(block),
                        block,
                    );
                }
            }
        }
        // SAFETY: by contract it lies in a slab, and nobody else has it.
        unsafe {
            let _give_back = GiveBack(object);
            object.drop_in_place();
        }
    }
}

impl<'d, T> Slab<'d, T> {
    const SHAPE: Shape = Shape::of(Layout::new::<T>());

    /// How many objects a chunk has room for.
    pub const CHUNK_OBJECTS: usize = Self::SHAPE.capacity;

    /// How many bytes a chunk takes.
    pub const CHUNK_BYTES: usize = Self::SHAPE.bytes();

    /// Creates a slab without a limit, whose objects are freed in this domain. Allocates nothing before it is used.
    #[must_use]
    pub const fn new(domain: &'d Domain) -> Self {
        SlabBuilder::new().build(domain)
    }

    /// What the slab's objects are freed in.
    #[must_use]
    pub fn domain(&self) -> &'d Domain {
        self.domain
    }

    #[inline(always)]
    fn existing(&self) -> Option<&Core> {
        // Acquire pairs with the Release in `start`.
        // SAFETY: published by `start`; it lives at least until the slab is dropped.
        unsafe { self.core.load(Ordering::Acquire).as_ref() }
    }

    #[cold]
    fn start(&self) -> Result<&Core, Lack> {
        // SAFETY: a core has a size.
        let fresh = unsafe { alloc(Layout::new::<Core>()) }.cast::<Core>();
        if fresh.is_null() {
            return Err(Lack::Memory);
        }
        // SAFETY: just allocated for it.
        unsafe {
            fresh.write(Core::new(
                fresh,
                Self::SHAPE,
                self.options.limit,
                self.options.keep,
            ))
        };
        // Release publishes the core to the Acquire in `existing`; on failure Acquire does that for
        // the one that won.
        match self.core.compare_exchange(
            ptr::null_mut(),
            fresh,
            Ordering::Release,
            Ordering::Acquire,
        ) {
            // SAFETY: just published.
            Ok(_) => Ok(unsafe { &*fresh }),
            Err(winner) => {
                // SAFETY: allocated as a box is, and not published; the winner is.
                unsafe {
                    drop(alloc::boxed::Box::from_raw(fresh));
                    Ok(&*winner)
                }
            }
        }
    }

    #[inline(always)]
    fn allocate(&self) -> Result<NonNull<Block>, Lack> {
        // Relaxed: whether this thread has used the core. What it has used it has seen.
        let identity = self.identity.load(Ordering::Relaxed);
        // SAFETY: the core with this identity is this slab's. The thread is in no place: none of our code that runs there comes here.
        match unsafe { Core::allocate_here(identity) } {
            Some(block) => Ok(block),
            None => self.allocate_slowly(),
        }
    }

    #[inline(never)]
    fn allocate_slowly(&self) -> Result<NonNull<Block>, Lack> {
        self.allocate_anywhere().or_else(|_| {
            self.domain.collect();
            // Blocks that went home may be all that is needed, and the system may have memory again.
            self.collect_blocks();
            self.allocate_anywhere()
        })
    }

    fn allocate_anywhere(&self) -> Result<NonNull<Block>, Lack> {
        let core = match self.existing() {
            Some(core) => core,
            None => self.start()?,
        };
        // Relaxed, both: as in `allocate`. Not written where it is known: all threads read it.
        if self.identity.load(Ordering::Relaxed) != core.identity {
            self.identity.store(core.identity, Ordering::Relaxed);
        }
        // SAFETY: the thread keeps its lease while it runs, and is in no place: none of our code
        // that runs there comes here.
        unsafe { core.allocate(Who::am_i()) }
    }

    /// Puts a value into the slab.
    ///
    /// If there is no memory left, what is quiescent of what this thread has retired in the domain
    /// is destroyed, and the slab [collected](Self::collect), before this gives up: destructors may
    /// run then.
    ///
    /// *Progress:* see the [table](Self). *Cost:* no transfer and no allocation while the thread has blocks.
    ///
    /// # Errors
    /// If there is no memory: the value.
    #[inline(always)]
    pub fn insert(&self, value: T) -> Result<Owned<T, InSlab>, AllocError<T>> {
        let block = match self.allocate() {
            Ok(block) => block,
            Err(lack) => {
                return Err(AllocError {
                    value,
                    limit: (lack == Lack::Limit).then_some(self.options.limit),
                });
            }
        };
        let object = Block::object::<T>(block);
        // SAFETY: a fresh block of the slab has room for a `T`, and nobody else has it.
        unsafe {
            object.write(value);
            Ok(Owned::from_raw(object))
        }
    }

    /// Takes the value out of the slab.
    #[must_use]
    pub fn into_inner(owned: Owned<T, InSlab>) -> T {
        let object = owned.into_raw();
        // SAFETY: an `Owned` of this kind lies in a slab, and nobody else has it; its memory is
        // given back without a value.
        unsafe {
            let value = object.read();
            InSlab::destroy(object.cast::<core::mem::MaybeUninit<T>>());
            value
        }
    }

    /// Gives up an object that was unlinked: it is dropped, and its memory used again, when every
    /// section of the slab's domain that can have seen it has ended. The same as [`Domain::retire`]
    /// of that domain.
    ///
    /// # Safety
    /// As for [`Domain::retire`].
    #[inline]
    pub unsafe fn free(&self, unlinked: Unlinked<T, InSlab>)
    where
        T: Send + 'static,
    {
        // SAFETY: by contract.
        unsafe { self.domain.retire(unlinked) };
    }

    /// Destroys what is quiescent of what this thread has freed, takes in what threads have freed
    /// of others' and not sent home, and gives every chunk without an object back to the system;
    /// how many bytes.
    ///
    /// For moments at which there is time, or memory is short. It makes all threads' lists short,
    /// so the next inserts take memory from the system again.
    ///
    /// *Progress:* blocking. *Cost:* two heavy barriers for every 32 threads that have used the
    /// slab, and some lines of each.
    pub fn collect(&self) -> usize {
        self.domain.collect();
        self.collect_blocks()
    }

    fn collect_blocks(&self) -> usize {
        self.existing().map_or(0, Core::collect)
    }

    /// Returns statistics: what the slab holds, and has done.
    ///
    /// *Progress:* wait-free. *Cost:* a line of each thread that has used the slab.
    #[must_use]
    pub fn stats(&self) -> SlabStats {
        let ([inserted, destroyed, batches, sweeps], chunk_bytes) = self
            .existing()
            .map_or(([0; 4], 0), |core| (core.counts(), core.chunk_bytes()));
        SlabStats {
            objects: inserted.saturating_sub(destroyed),
            inserted,
            destroyed,
            chunks: chunk_bytes / Self::CHUNK_BYTES,
            chunk_bytes,
            limit: (self.options.limit != usize::MAX).then_some(self.options.limit),
            batches,
            sweeps,
        }
    }

    /// How many bytes the slab has asked the allocator for, and not given back: chunks, and the
    /// threads' lists. (On Unix, some 30 more for each thread are in a list that `fork` goes
    /// through; the domain's queues are the domain's.)
    ///
    /// *Progress:* wait-free. *Cost:* as [`stats`](Self::stats).
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.existing().map_or(0, Core::memory)
    }
}

impl<T> Drop for Slab<'_, T> {
    /// Objects that are in use stay good, and so does what waits for sections to end: their memory
    /// goes with the last of them.
    fn drop(&mut self) {
        if let Some(core) = NonNull::new(*self.core.get_mut()) {
            // SAFETY: allocated as a box is, in `start`; without the slab nobody can allocate.
            unsafe { Core::close(core) };
        }
    }
}

impl<T> fmt::Debug for Slab<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for AllocError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllocError")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for AllocError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "the slab's limit of {limit} bytes is reached"),
            None => f.write_str("the system has no memory"),
        }
    }
}

impl<T> core::error::Error for AllocError<T> {}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    /// Only what is said here may be read of an object that is gone: the memory is the slab's.
    #[test]
    #[cfg(debug_assertions)]
    fn a_destroyed_object_is_poison() {
        let domain = Domain::new();
        let slab: Slab<'_, [u8; 40]> = Slab::new(&domain);
        let [first, second] = [1, 2].map(|byte| slab.insert([byte; 40]).expect("there is memory"));
        let object = first.into_raw();
        // SAFETY: nobody else has it.
        unsafe { InSlab::destroy(object) };
        // SAFETY: its chunk is still there, as the other object is; nothing has been inserted since.
        // What a list needs lies in front.
        assert_eq!(unsafe { object.read() }[8..], [POISON; 32]);
        assert_eq!(*second, [2; 40]);
    }
}
