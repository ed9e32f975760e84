//! Where the shares lie, and the two ways to them: that of who updates, and that of who looks at all of them.
//!
//! *Invariant:* a share is used by one thread at a time. A leased place's [`BiasedLock`] sees to that between the holder of
//! the lease and whoever visits, a common place's [`SlotLock`] among all.
//!
//! *Why a visit is a cut.* The visitor has the gate, so that no place comes into being until it is done. It takes the locks
//! of all common places, and freezes all leased ones; let *T* be the moment when that is done, barrier included. An update
//! that entered its place before *T* is waited for, and seen. One that did not is kept out of its place until the share has
//! been looked at, and is not seen. So what is seen of all shares is what entered before *T*; and an update that finished
//! before the visit was called did so, as did each that finished before another one was called that did.
//!
//! A `fork` finds no thread in the middle of an update, a visit, or the making of a place: see
//! [`undivided`](crate::cpu::undivided).

use super::BarrierError;
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::biased_lock::{self, BiasedLock, Owned};
use crate::cpu::undivided::{discharge, enlist, is_inside, undivided};
use crate::cpu::{CoreId, PerCore};
use crate::sync::{SlotGuard, SlotLock, const_fn, held};
use alloc::vec::Vec;

/// Shares of one value, each on lines of its own, made when they are first needed.
pub(super) struct Places<M> {
    /// Place `n` belongs to whoever holds lease `n`.
    leased: PerCore<Leased<M>>,
    /// For threads without a lease.
    common: PerCore<SlotLock<M>>,
    /// Held by who makes a place, and by who looks at all of them.
    gate: SlotLock<()>,
}

/// The mode lies in front, on the line that the lock's words and the beginning of the share are on.
#[repr(C)]
struct Leased<M> {
    mode: BarrierMode,
    lock: BiasedLock<M>,
}

impl<M> Places<M> {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                leased: PerCore::new(),
                common: PerCore::new(),
                gate: SlotLock::new(()),
            }
        }
    }

    /// All shares, for who has the places to itself.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut M> {
        self.leased
            .values_mut()
            .map(|place| place.lock.get_mut())
            .chain(self.common.values_mut().map(SlotLock::get_mut))
    }

    /// What is recorded of a thread that has the gate.
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

impl<M: Default> Places<M> {
    /// Runs `f` on the share of a lease.
    ///
    /// # Safety
    /// The caller holds the lease until this returns.
    ///
    /// # Panics
    /// Where `f` does, and if it is called from inside `f` or from inside a visit.
    #[inline(always)]
    pub(super) unsafe fn update_leased<R>(&self, lease: usize, f: impl FnOnce(&mut M) -> R) -> R {
        let slot = CoreId::new(lease as u32);
        let place = match self.leased.touched(slot) {
            Some(place) => place,
            None => self.make_leased(slot),
        };
        if place.lock.is_owned() {
            reentered();
        }
        // SAFETY: the caller holds the lease, and is not inside: this has just been seen.
        let entered = unsafe { place.lock.try_own(place.mode) };
        let mut share = match entered {
            Some(share) => share,
            // SAFETY: as above; it was left again.
            None => unsafe { self.wait_for_the_visitor(place) },
        };
        f(share.get())
    }

    /// Enters a place once it has been looked at.
    ///
    /// # Safety
    /// As for [`BiasedLock::own`].
    #[cold]
    #[inline(never)]
    unsafe fn wait_for_the_visitor<'a>(&self, place: &'a Leased<M>) -> Owned<'a, M> {
        self.refuse_the_visitor();
        // SAFETY: by contract.
        unsafe { place.lock.own_inside(place.mode, is_inside) }
    }

    /// Runs `f` on one of the shares that need no lease; any number will do.
    ///
    /// # Panics
    /// As [`update_leased`](Self::update_leased), as far as re-entrance is recorded ([`held`]).
    pub(super) fn update_common<R>(&self, number: usize, f: impl FnOnce(&mut M) -> R) -> R {
        let slot = CoreId::new(number as u32);
        let place = match self.common.touched(slot) {
            Some(place) => place,
            None => self.make_common(slot),
        };
        undivided(|| self.update_in(place, f))
    }

    fn update_in<R>(&self, place: &SlotLock<M>, f: impl FnOnce(&mut M) -> R) -> R {
        if held::contains(address(place)) {
            reentered();
        }
        let mut share = match place.lock_briefly() {
            Some(share) => share,
            None => {
                self.refuse_the_visitor();
                place.lock()
            }
        };
        let _record = Record::new(address(place));
        f(share.get())
    }

    #[cold]
    fn make_leased(&self, slot: CoreId) -> &Leased<M> {
        // Before the gate is taken: this runs code of the user's.
        let share = M::default();
        undivided(|| {
            let _gate = self.gate();
            let place = self.leased.get_or_make(slot, || Leased {
                mode: barrier::mode(),
                lock: BiasedLock::new(share),
            });
            enlist(&place.lock, slot.index());
            place
        })
    }

    #[cold]
    fn make_common(&self, slot: CoreId) -> &SlotLock<M> {
        let share = M::default();
        undivided(|| {
            let _gate = self.gate();
            self.common.get_or_make(slot, || SlotLock::new(share))
        })
    }
}

impl<M> Places<M> {
    /// Looks at every share as it is at one moment, each with its number, below the count that `prepare` is given; runs
    /// `prepare` when no more places can come into being, and before any update is kept waiting.
    ///
    /// Of shares whose kind does not matter any more, a leased one is free again when `look` has seen it, common ones at
    /// the end.
    ///
    /// # Panics
    /// Where `prepare` or `look` do; and if called from inside an update or a visit of these places, by a thread whose lease
    /// is `lease`.
    pub(super) fn visit<C>(
        &self,
        lease: Option<usize>,
        prepare: impl FnOnce(usize) -> C,
        look: impl FnMut(&mut C, usize, &mut M),
    ) -> Result<C, BarrierError> {
        undivided(|| self.visit_all(lease, prepare, look))
    }

    fn visit_all<C>(
        &self,
        lease: Option<usize>,
        prepare: impl FnOnce(usize) -> C,
        mut look: impl FnMut(&mut C, usize, &mut M),
    ) -> Result<C, BarrierError> {
        let inside = lease
            .and_then(|lease| self.leased.touched(CoreId::new(lease as u32)))
            .is_some_and(|place| place.lock.is_owned());
        if inside
            || self
                .common
                .iter()
                .any(|(_, it)| held::contains(address(it)))
        {
            reentered();
        }
        let _gate = self.gate();
        let _record = Record::new(self.address());
        let leased: Vec<&BiasedLock<M>> = self.leased.iter().map(|(_, it)| &it.lock).collect();
        let common: Vec<&SlotLock<M>> = self.common.iter().map(|(_, it)| it).collect();
        let mut seen = prepare(leased.len() + common.len());
        // In the order of the places, as everybody takes them.
        let common: Vec<SlotGuard<'_, M>> = common.into_iter().map(SlotLock::lock).collect();
        if !leased.is_empty() {
            biased_lock::visit(&leased, barrier::mode(), |at, share| {
                look(&mut seen, at, share);
            })
            .map_err(|_| BarrierError::new())?;
        }
        for (at, mut share) in common.into_iter().enumerate() {
            look(&mut seen, leased.len() + at, share.get());
        }
        Ok(seen)
    }

    fn gate(&self) -> SlotGuard<'_, ()> {
        match self.gate.lock_briefly() {
            Some(gate) => gate,
            None => {
                self.refuse_the_visitor();
                self.gate.lock()
            }
        }
    }

    /// Who is about to wait must not wait for itself.
    #[cold]
    fn refuse_the_visitor(&self) {
        if held::contains(self.address()) {
            reentered();
        }
    }
}

impl<M> Drop for Places<M> {
    fn drop(&mut self) {
        discharge(self.leased.iter().map(|(_, place)| &place.lock));
    }
}

/// What is recorded of a thread that has the lock.
fn address<M>(lock: &SlotLock<M>) -> usize {
    core::ptr::from_ref(lock).addr()
}

/// The record that this thread has what lies at an address, taken back when this is dropped, also by a panic.
struct Record(usize);

impl Record {
    fn new(address: usize) -> Self {
        held::push(address);
        Self(address)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        held::pop(self.0);
    }
}

#[cold]
#[inline(never)]
fn reentered() -> ! {
    panic!(
        "a reducer was used from inside one of its own updates or merges; use it before or after them"
    )
}
