//! Visits to the places of others: sweeping one, collecting from all, and the end of a slab.
//!
//! *Why nothing is touched after it is gone.* When its slab is dropped the core stays until its last
//! chunk is given back. Whoever gives a block back has it while it looks for the core, and so keeps
//! the core alive; from the moment when the block is in a list somebody else can count it. That is
//! done in the place, whose lock the end of the slab takes; so a thread that still needs the core
//! after it has left its place takes the gate, which the end of the slab takes as well, while it is
//! in there. Letting go of the place or of the gate is the last that it does there.

use super::chunk::{self, Chunk, Header};
use super::lists::Lists;
use super::places::{Core, Gate, Lock, Place};
use crate::cpu::CoreId;
use crate::cpu::barrier;
use crate::cpu::biased_lock::{self, BiasedLock};
use crate::cpu::undivided::undivided;
use crate::sync::SlotGuard;
use crate::sync::atomic::Ordering;
use core::ptr::{self, NonNull};

/// So many places are visited behind one barrier.
const VISITED: usize = 32;

impl Core {
    /// Takes in what has come home to a place whose owner does not do it: a list of chunks that are
    /// to be released.
    ///
    /// The caller is in no place. Without the gate the core can be gone when this returns.
    pub(super) fn sweep(&self, gate: SlotGuard<'_, Gate>, number: usize) -> *mut Chunk {
        let mut chunks = ptr::null_mut();
        if let Some(place) = self.places.touched(CoreId::new(number as u32)) {
            place.visit(|lists| {
                lists.take_in(&place.home);
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

    /// Brings all blocks home, and gives all empty chunks back to the system; how many bytes.
    ///
    /// The caller is in no place, and the core is not being closed.
    pub(super) fn collect(&self) -> usize {
        undivided(|| {
            let gate = self.shared.gate.lock();
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

    /// Visits each place; `Err` if the kernel does not let places be visited. The caller has the
    /// gate. Allocates nothing.
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

    /// The slab is dropped. The core stays while blocks are in use.
    ///
    /// # Safety
    /// It comes from a box, and nobody uses it any more but to give blocks back.
    pub(super) unsafe fn close(core: NonNull<Self>) {
        undivided(|| {
            // SAFETY: by contract it lives until it is freed here or by a late block, which waits for `late`.
            let this = unsafe { core.as_ref() };
            let mut late = this.shared.late.lock();
            let mut gate = this.shared.gate.lock();
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
    pub(super) unsafe fn give_back_late(core: *const Self, block: NonNull<Header>) {
        undivided(|| {
            // SAFETY: the block is in use, and keeps the core.
            let this = unsafe { &*core };
            let mut late = this.shared.late.lock();
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
