//! What an object keeps itself: its state, and eight bytes.

use super::core_set::{self, CoreSet};
use crate::cpu::CoreId;
use crate::engine::contained;
use crate::engine::gate::{Door, Gate, POISONED};
use crate::engine::guard::ReadGuard;
use crate::sync::atomic::Ordering;
use crate::sync::held::{self, Name};
use crate::sync::{Backoff, UnsafeCell, const_fn};
use core::marker::PhantomPinned;
use core::ptr::{self, NonNull};

/// A batch of the object has been taken and not been applied in full; the cache keeps it.
const UNFINISHED: u32 = 1 << 30;
/// A merge is visiting the slots of the set; no slot can be added.
const CLOSED: u32 = 1 << 29;
/// A thread that needed a place merges the object, and has no claim on it: the owner waits for it.
const EVICTING: u32 = 1 << 28;
/// Updates are queued; see [`eager`](super::eager). For who holds the lock exact, a hint for others.
pub(super) const DEFERS: u32 = 1 << 27;

const _: () = assert!((POISONED | UNFINISHED | CLOSED | EVICTING | DEFERS) & core_set::BITS == 0);

/// A state, and which slots have a queue of updates to it.
///
/// Its address is its name in the cache, so it stays where it is while it is used.
pub(crate) struct Lent<S> {
    pub(super) gate: Gate,
    pub(super) state: UnsafeCell<S>,
    _stays: PhantomPinned,
}

// SAFETY: the state is behind the object's lock (`S: Send`). `S: Sync` is not needed for exclusive guards,
// and asked for where shared ones are given out.
unsafe impl<S: Send> Sync for Lent<S> {}

impl<S> Lent<S> {
    const_fn! {
        pub(crate) const fn new(state: S) -> Self {
            Self { gate: Gate::new(0), state: UnsafeCell::new(state), _stays: PhantomPinned }
        }
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.gate.is_poisoned()
    }

    pub(crate) fn clear_poison(&self) {
        self.gate.clear_poison();
    }

    /// The state, to the owner of the object.
    pub(crate) fn get_mut(&mut self) -> &mut S {
        // SAFETY: `&mut self`, and no thread evicts an object that has no tag.
        self.state.with_mut(|state| unsafe { &mut *state })
    }

    pub(crate) fn into_inner(self) -> S {
        self.state.into_inner()
    }

    pub(super) fn tag(&self) -> NonNull<Self> {
        NonNull::from(self)
    }

    pub(super) fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// A guard for a thread that shares the object.
    ///
    /// # Safety
    /// It came in through the door for shared use.
    #[inline(always)]
    pub(super) unsafe fn guard<'a>(&'a self, door: Door<'a>) -> ReadGuard<'a, S>
    where
        S: Sync,
    {
        // SAFETY: by the caller; the state is only read through the pointer, and a cell has an address.
        self.state.with(|state| unsafe {
            ReadGuard::new(door, None, NonNull::new_unchecked(state.cast_mut()))
        })
    }

    pub(super) fn door(&self) -> Door<'_> {
        self.gate.door(None)
    }

    /// Whether nothing is pending.
    pub(super) fn is_clean(&self) -> bool {
        // Relaxed: the setting of a flag that must be seen happened before this call.
        let flags = self.gate.flags.load(Ordering::Relaxed);
        flags & UNFINISHED == 0 && CoreSet::of(flags).is_empty()
    }

    /// Whether the state is all there is, and in order: for who has the lock.
    #[inline(always)]
    pub(super) fn is_whole(&self) -> bool {
        // Relaxed: as in `is_clean`.
        self.gate.flags.load(Ordering::Relaxed) & (POISONED | UNFINISHED | core_set::BITS) == 0
    }

    /// Whether updates are queued, and not executed.
    #[inline(always)]
    pub(super) fn defers(&self) -> bool {
        // Relaxed: nothing follows from it but what is tried first.
        self.gate.flags.load(Ordering::Relaxed) & DEFERS != 0
    }

    /// For the exclusive holder of the lock. Whether it was not so before.
    pub(super) fn set_defers(&self, defers: bool) -> bool {
        let before = if defers {
            self.gate.flags.fetch_or(DEFERS, Ordering::Relaxed)
        } else {
            self.gate.flags.fetch_and(!DEFERS, Ordering::Relaxed)
        };
        (before & DEFERS != 0) != defers
    }

    /// The slots that have a queue of the object's, and perhaps others.
    pub(super) fn slots(&self) -> CoreSet {
        // Acquire: as in `close`.
        CoreSet::of(self.gate.flags.load(Ordering::Acquire))
    }

    /// Whether a merge is visiting the slots, as far as can be told at a glance: what counts is what
    /// [`enter_set`](Self::enter_set) says.
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: nothing follows from the answer, except that it is time to try again or not yet.
        self.gate.flags.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Adds a slot to the set, unless the object is closed. Called under the lock of the slot's place.
    ///
    /// Nothing that others do makes the first access fail, and it needs no look beforehand, as it would on many processors if one
    /// wanted its answer too: when all slots come at once, the line goes once to each of them, and is still there for the second.
    pub(super) fn enter_set(&self, slot: CoreId) -> bool {
        let bits = CoreSet::only(slot.place()).bits();
        // Release pairs with the Acquire in `close`: who finds the slot in the set finds its table, which may have been
        // made a moment ago. Relaxed otherwise: what was queued before is found through the lock of the place.
        self.gate.flags.fetch_or(bits, Ordering::Release);
        // Relaxed: it is the word after our own access, or later; at that time it is open and has the slot in it, or not. If it is
        // and has, every merge that closes it from then on finds the slot; one that has closed it before has opened it again. If it
        // was closed, `open` takes the bits out, for all that it may be open by now.
        let after = self.gate.flags.load(Ordering::Relaxed);
        after & (CLOSED | bits) == bits
    }

    /// Closes the object, whose lock the caller has, and returns the set.
    pub(super) fn close(&self) -> CoreSet {
        // Acquire: see `enter_set`. An exchange, so that it reads the newest set: an update that finished before has its
        // slot in it.
        CoreSet::of(self.gate.flags.fetch_or(CLOSED, Ordering::Acquire))
    }

    /// Closes the object for its only owner, when the last thread that evicts it has gone.
    ///
    /// It never goes if it is this one: an operation has dropped the last handle of the object that it is executed on. Its caller
    /// uses the object when this has returned, and a panic would free it all the same: so the process ends here.
    pub(super) fn close_for_owner(&mut self) -> CoreSet {
        #[cfg(feature = "std")]
        if held::contains(self.eviction()) {
            std::eprintln!(
                "percolog: an operation has dropped the last handle of the `Lent` object that it was executed on, by a thread that \
                 updated another object: waiting would be waiting for itself, and the process is aborted"
            );
            std::process::abort();
        }
        let mut backoff = Backoff::new();
        loop {
            // Acquire: as in `close`, and pairs with the Release in `end_eviction`: what the evictor did is seen.
            let closed =
                self.gate
                    .flags
                    .fetch_update(Ordering::Acquire, Ordering::Relaxed, |flags| {
                        (flags & EVICTING == 0).then_some(flags | CLOSED)
                    });
            match closed {
                Ok(flags) => return CoreSet::of(flags),
                Err(_) => backoff.wait(),
            }
        }
    }

    /// Empties the set and opens the object.
    pub(super) fn open(&self) {
        // Release pairs with nothing that is needed: places are taken anew under their own locks. It keeps the visits in
        // front of it for updates that spin on the flag and know nothing else. Of slots that came too late the bits go as well:
        // they have been told, and have no tag.
        self.gate
            .flags
            .fetch_and(!(CLOSED | core_set::BITS), Ordering::Release);
    }

    pub(super) fn is_unfinished(&self) -> bool {
        // Relaxed: written and read under the object's lock, or by its owner.
        self.gate.flags.load(Ordering::Relaxed) & UNFINISHED != 0
    }

    pub(super) fn set_unfinished(&self, unfinished: bool) {
        // Relaxed: as above.
        if unfinished {
            self.gate.flags.fetch_or(UNFINISHED, Ordering::Relaxed);
        } else {
            self.gate.flags.fetch_and(!UNFINISHED, Ordering::Relaxed);
        }
    }

    /// Takes the object to merge it for another one's sake; not if that would mean to wait, or for something
    /// that this thread holds, or could not be done. Called under the lock of a place that has its tag.
    pub(super) fn try_evict(&self) -> Option<Door<'_>> {
        if contained::depth() >= DEPTH {
            return None;
        }
        // Acquire pairs with the Release in `end_eviction` of the evictor before.
        self.gate
            .flags
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |flags| {
                (flags & (POISONED | CLOSED | EVICTING) == 0).then_some(flags | EVICTING)
            })
            .ok()?;
        if self.gate.lock.try_exclusive() {
            held::push(self.eviction());
            return Some(self.door());
        }
        // Release: the owner, who waits for the flag, comes after this thread's look at the lock.
        self.gate.flags.fetch_and(!EVICTING, Ordering::Release);
        None
    }

    /// The name of an eviction of this object. The object stays while it lasts.
    fn eviction(&self) -> Name {
        Name::from(ptr::from_ref(&self.gate.flags).addr())
    }

    /// Gives back what [`try_evict`](Self::try_evict) has taken.
    ///
    /// # Safety
    /// The object was alive then; it may be gone when this returns.
    pub(super) unsafe fn end_eviction(object: NonNull<Self>, door: Door<'_>) {
        // SAFETY: the owner waits for the flag.
        let object = unsafe { &*object.as_ptr() };
        held::pop(object.eviction());
        door.leave_exclusive();
        let flags = &object.gate.flags;
        // Release pairs with the Acquire in `close_for_owner`: this is the last that this thread has to do with the object.
        flags.fetch_and(!EVICTING, Ordering::Release);
    }
}

/// How many merges for others' sake a thread may be in the middle of when it starts to merge an object that is in its way. Operations that queue
/// to other objects, whose operations queue to others, would fill the stack.
const DEPTH: usize = 8;
