//! Visits to the places of others: sweeping one, collecting from all, and the end of a slab.
//!
//! *Why nothing is touched after it is gone.* When its slab is dropped the core stays until its last
//! chunk is given back. Whoever gives a block back has it while it looks for the core, and so keeps
//! the core alive; from the moment when the block is in a list somebody else can count it. That is
//! done in the place, whose lock the end of the slab takes; so a thread that still needs the core
//! after it has left its place takes the gate, which the end of the slab takes as well, while it is
//! in there. Letting go of the place or of the gate is the last that it does there.

use super::chunk::{self, Block, Chunk};
use super::places::{Core, reentered};
use crate::cpu::shards::Reentered;
use crate::cpu::undivided::undivided;
use crate::sync::SlotGuard;
use crate::sync::atomic::Ordering;
use core::ptr::{self, NonNull};

impl Core {
    /// Takes in what has come home to a place whose owner does not do it: a list of chunks that are
    /// to be released.
    ///
    /// The caller is in no place. Without the gate the core can be gone when this returns.
    pub(super) fn sweep(&self, gate: SlotGuard<'_, ()>, number: usize) -> *mut Chunk {
        let mut chunks = ptr::null_mut();
        if let Some(place) = self.places.numbered(number) {
            // If the kernel refuses, the blocks wait for their owner.
            let _ = self.places.visit_one(&gate, place, |place, lists| {
                lists.take_in(&place.shared().home, &self.shape);
                if lists.empties() > self.kept {
                    chunks = self.trim(lists, self.kept / 2, chunks);
                }
            });
            // Relaxed, both: under the gate.
            let sweeps = self.shared.sweeps.load(Ordering::Relaxed);
            self.shared.sweeps.store(sweeps + 1, Ordering::Relaxed);
        }
        drop(gate);
        chunks
    }

    /// The gate, for a thread that is in no place and visits none.
    fn gate(&self) -> SlotGuard<'_, ()> {
        self.places.gate().unwrap_or_else(|Reentered| reentered())
    }

    /// Brings all blocks home, and gives all empty chunks back to the system; how many bytes.
    ///
    /// The caller is in no place, and the core is not being closed.
    pub(super) fn collect(&self) -> usize {
        undivided(|| {
            let gate = self.gate();
            // If the kernel refuses, there is nothing to give back.
            let _ = self
                .places
                .visit_in_turns(&gate, |_, lists| lists.send_all());
            let mut chunks = ptr::null_mut();
            let _ = self.places.visit_in_turns(&gate, |place, lists| {
                lists.take_in(&place.shared().home, &self.shape);
                lists.put_current_away(&self.shape);
                chunks = self.trim(lists, 0, chunks);
            });
            drop(gate);
            // SAFETY: they were taken out of their lists.
            unsafe { chunk::release(&self.shape, chunks) * self.shape.bytes() }
        })
    }

    /// The slab is dropped. The core stays while blocks are in use.
    ///
    /// # Safety
    /// It comes from a box, and nobody uses it any more but to give blocks back.
    pub(super) unsafe fn close(core: NonNull<Self>) {
        undivided(|| {
            // SAFETY: by contract it lives until it is freed here or by a late block, which waits for `late`.
            let this = unsafe { core.as_ref() };
            let mut late = this.shared.late.lock();
            let gate = this.gate();
            // Relaxed: under the gate.
            this.shared.closed.store(1, Ordering::Relaxed);
            let mut chunks = ptr::null_mut();
            let closed = this
                .places
                .visit_in_turns(&gate, |_, lists| {
                    lists.closed = true;
                    lists.send_all();
                })
                .and_then(|()| {
                    // All are closed, so nothing is sent any more.
                    this.places.visit_in_turns(&gate, |place, lists| {
                        lists.take_in(&place.shared().home, &this.shape);
                        lists.put_current_away(&this.shape);
                        chunks = this.trim(lists, 0, chunks);
                    })
                });
            // SAFETY: they were taken out of their lists.
            unsafe { chunk::release(&this.shape, chunks) };
            late.get().stuck = closed.is_err();
            // Relaxed: changed under `late` alone from here on.
            let last = closed.is_ok() && this.shared.bytes.load(Ordering::Relaxed) == 0;
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
    pub(super) unsafe fn give_back_late(core: *const Self, block: NonNull<Block>) {
        undivided(|| {
            // SAFETY: the block is in use, and keeps the core.
            let this = unsafe { &*core };
            let whole = this.whole;
            let mut late = this.shared.late.lock();
            if late.get().stuck {
                return;
            }
            // SAFETY: the places are closed, so chunks are used under `late`. The block is in use.
            let (chunk, used) = unsafe {
                let chunk = this.shape.chunk_of(block);
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
                // SAFETY: no chunk is left, so no block is in use that somebody could give back. It is freed by the pointer
                // that it was allocated by.
                unsafe { drop(alloc::boxed::Box::from_raw(whole)) };
            }
        });
    }
}
