//! The calling thread's place, if it remembers it: what nearly every allocation and every end of an object needs.

use super::chunk::{Block, Chunk};
use super::places::{Core, Place};
use crate::cpu::lease::Who;
use crate::cpu::recent;
use core::ptr::NonNull;

impl Core {
    /// A block for an object, of the chunk that the thread has at hand in the core with this identity.
    ///
    /// # Safety
    /// The caller has the slab with this identity, if there is one, and is in no place of its core.
    #[inline(always)]
    pub(super) unsafe fn allocate_here(identity: u64) -> Option<NonNull<Block>> {
        let place = recent::find::<Place>(identity)?;
        // SAFETY: as long as there is the slab its core lives, and so do its places. The thread has the lease of a place that it
        // remembers.
        unsafe { Self::pop(place.as_ref()) }
    }

    /// Takes a block back whose object is gone.
    ///
    /// # Safety
    /// As for [`give_back`](Self::give_back), by this thread.
    #[inline(always)]
    pub(super) unsafe fn give_back_here(chunk: NonNull<Chunk>, block: NonNull<Block>) {
        // SAFETY: by contract the block is in use, so its chunk lives, and so do the core and its places. The thread has the lease of
        // a place that it remembers.
        unsafe {
            if let Some(place) = recent::find::<Place>((*chunk.as_ptr()).identity) {
                if !Self::is_of(place.as_ref(), chunk) {
                    return Self::keep_here(place, chunk, block);
                }
                if Self::put(place.as_ref(), chunk, block) {
                    return;
                }
            }
            Self::give_back_anywhere(chunk, block);
        }
    }

    /// # Safety
    /// As for [`give_back_here`](Self::give_back_here); the place is what the thread remembers.
    #[inline(never)]
    unsafe fn keep_here(place: NonNull<Place>, chunk: NonNull<Chunk>, block: NonNull<Block>) {
        // SAFETY: by contract.
        unsafe {
            if !Self::keep(place.as_ref(), chunk, block) {
                Self::give_back_anywhere(chunk, block);
            }
        }
    }

    /// # Safety
    /// As for [`give_back_here`](Self::give_back_here).
    #[inline(never)]
    unsafe fn give_back_anywhere(chunk: NonNull<Chunk>, block: NonNull<Block>) {
        // SAFETY: by contract; the thread keeps its lease while it runs.
        unsafe { Self::give_back(Who::am_i(), chunk, block) };
    }
}
