//! Where local tables lie, and the ways to them: that of a lookup, which may stay, and that of who looks at all of them.
//!
//! *Invariant:* a local table is used by one thread at a time: by its owner, who is inside its [`BiasedLock`] from its first guard to its last, and who is the holder of a lease, or
//! whoever has a common place's lock; or by a visitor, who keeps all of them out.
//!
//! # Why nobody waits in a circle
//!
//! Who is inside a place waits for no place and for no visitor: another lookup by the same thread finds itself inside, and goes on. It waits
//! for locks of the master table only. Who has one of those waits for nothing of this table's. A visitor takes the gate, then waits for the
//! users of all places, and then takes locks of the master table, which nobody has by then. So each waits only for those further down in
//! this list: gate, places, master. (Two tables have no order: who waits for the one with a guard of the other in its hands must have
//! agreed with others on which comes first, as with all locks.)
//!
//! # Leases and guards
//!
//! A guard may outlive its thread's lease, in a thread-local value that is destroyed late. Such a lease is
//! [not given back](lease::expect_guards).

use super::Reentered;
use super::local::{Left, Local};
use super::master::Master;
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::biased_lock::{self, BiasedLock};
use crate::cpu::undivided::{Step, discharge, enlist, is_inside, undivided};
use crate::cpu::{CoreId, PerCore, lease};
use crate::sync::{SlotGuard, SlotLock, held};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Local tables, each on lines of its own, made when they are first needed.
pub(super) struct Places<K, S, L> {
    /// Place `n` belongs to whoever holds lease `n`.
    leased: PerCore<Place<K, S, L>>,
    /// For threads without a lease.
    common: PerCore<Place<K, S, L>>,
    /// Held by who makes a place, and by who looks at all of them.
    gate: SlotLock<()>,
}

/// A local table and its lock. What a hit looks at comes first, to be on one line.
#[repr(C)]
pub(super) struct Place<K, S, L> {
    mode: BarrierMode,
    lock: BiasedLock<Local<K, S, L>>,
    master: Arc<Master<K, S, L>>,
    /// Of a common place: held by its owner.
    turn: SlotLock<()>,
}

/// Use of a place by its owner. The place is left with the last of these.
pub(super) struct Inside<'a, K, S, L> {
    place: &'a Place<K, S, L>,
    /// The place is this thread's.
    stays: PhantomData<*const ()>,
}

/// Why nobody could look at all places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoVisit {
    Reentered,
    Barrier,
}

impl<K, S, L> Place<K, S, L> {
    fn new(master: &Arc<Master<K, S, L>>) -> Self {
        Self {
            mode: barrier::mode(),
            lock: BiasedLock::new(Local::new()),
            master: master.clone(),
            turn: SlotLock::new(()),
        }
    }

    /// What is recorded of a thread that owns a common place.
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

impl<'a, K, S, L> Inside<'a, K, S, L> {
    #[inline(always)]
    fn of(place: &'a Place<K, S, L>) -> Self {
        Self {
            place,
            stays: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn local(&self) -> &'a Local<K, S, L> {
        // SAFETY: the owner is inside until the last of these is dropped, and exclusive references are made by visitors only.
        unsafe { self.place.lock.owned() }
    }

    pub(super) fn master(&self) -> &'a Master<K, S, L> {
        &self.place.master
    }

    #[cold]
    fn leave_common(&self) {
        held::pop(self.place.address());
        // SAFETY: `enter_common` kept both, and this is the last use of the place.
        unsafe {
            self.place.lock.leave();
            drop(self.place.turn.resume());
            let _ended = Step::resume();
        }
    }
}

impl<K, S, L> Drop for Inside<'_, K, S, L> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.local().leave() {
            Left::Again => {}
            // SAFETY: this was the last use of the place.
            Left::Leased => unsafe { self.place.lock.leave() },
            Left::Common => self.leave_common(),
        }
    }
}

impl<K, S, L> Places<K, S, L> {
    pub(super) fn new() -> Self {
        Self {
            leased: PerCore::new(),
            common: PerCore::new(),
            gate: SlotLock::new(()),
        }
    }

    /// Enters the place of a lease; again, if the thread is inside.
    ///
    /// # Safety
    /// The caller holds the lease, and drops what is returned itself.
    #[inline(always)]
    pub(super) unsafe fn enter_leased(
        &self,
        lease: usize,
        master: &Arc<Master<K, S, L>>,
    ) -> Result<Inside<'_, K, S, L>, Reentered> {
        let slot = CoreId::new(lease as u32);
        let place = match self.leased.touched(slot) {
            Some(place) => place,
            None => self.make_leased(slot, master)?,
        };
        if place.lock.is_owned() {
            let inside = Inside::of(place);
            inside.local().enter_again();
            return Ok(inside);
        }
        // SAFETY: the caller holds the lease, and is not inside: this has just been seen.
        match unsafe { place.lock.try_own(place.mode) } {
            Some(owned) => owned.keep(),
            // SAFETY: as above; it was left again.
            None => unsafe { self.wait_for_the_visitor(place)? },
        }
        let inside = Inside::of(place);
        inside.local().enter(false);
        Ok(inside)
    }

    #[cold]
    #[inline(never)]
    fn make_leased(
        &self,
        slot: CoreId,
        master: &Arc<Master<K, S, L>>,
    ) -> Result<&Place<K, S, L>, Reentered> {
        undivided(|| {
            let _gate = self.gate()?;
            let place = self.leased.get_or_make(slot, || Place::new(master));
            enlist(&place.lock, slot.index());
            lease::expect_guards(slot.index());
            Ok(place)
        })
    }

    /// Enters a place once it has been looked at, and keeps its lock.
    ///
    /// # Safety
    /// As for [`BiasedLock::own`].
    #[cold]
    #[inline(never)]
    unsafe fn wait_for_the_visitor(&self, place: &Place<K, S, L>) -> Result<(), Reentered> {
        self.refuse_the_visitor()?;
        // SAFETY: by contract.
        unsafe { place.lock.own_inside(place.mode, is_inside) }.keep();
        Ok(())
    }

    /// Enters a common place, with this number unless the thread is inside another one: again, if it is, as far as that is
    /// recorded ([`held`]).
    #[cold]
    pub(super) fn enter_common(
        &self,
        number: usize,
        master: &Arc<Master<K, S, L>>,
    ) -> Result<Inside<'_, K, S, L>, Reentered> {
        if let Some(place) = self.common_held() {
            let inside = Inside::of(place);
            inside.local().enter_again();
            return Ok(inside);
        }
        // A `fork` must not find the lock taken.
        let step = Step::begin();
        let slot = CoreId::new(number as u32);
        let place = match self.common.touched(slot) {
            Some(place) => place,
            None => {
                let _gate = self.gate()?;
                self.common.get_or_make(slot, || Place::new(master))
            }
        };
        // Who has it may wait for a visitor, and so for this thread, if that is the visitor.
        let turn = match place.turn.lock_briefly() {
            Some(turn) => turn,
            None => {
                self.refuse_the_visitor()?;
                place.turn.lock()
            }
        };
        // SAFETY: who has the turn owns the place, and is not inside: then it would be recorded. Where nothing is recorded, it would wait
        // for the turn.
        match unsafe { place.lock.try_own(place.mode) } {
            Some(owned) => owned.keep(),
            // SAFETY: as above; it was left again.
            None => unsafe { self.wait_for_the_visitor(place)? },
        }
        turn.keep();
        step.keep();
        held::push(place.address());
        let inside = Inside::of(place);
        inside.local().enter(true);
        Ok(inside)
    }

    /// The common place that this thread is inside of.
    fn common_held(&self) -> Option<&Place<K, S, L>> {
        if held::count() == 0 {
            return None;
        }
        self.common
            .iter()
            .map(|(_, place)| place)
            .find(|place| held::contains(place.address()))
    }

    fn iter(&self) -> impl Iterator<Item = &Place<K, S, L>> {
        let places = self.leased.iter().chain(self.common.iter());
        places.map(|(_, place)| place)
    }

    /// Shows `each` all local tables while nobody uses any of them, and then runs `then`, before anybody can again.
    ///
    /// `lease` is that of the calling thread.
    pub(super) fn visit<R>(
        &self,
        lease: Option<usize>,
        mut each: impl FnMut(&mut Local<K, S, L>),
        then: impl FnOnce() -> R,
    ) -> Result<R, NoVisit> {
        undivided(|| {
            let inside = lease
                .and_then(|lease| self.leased.touched(CoreId::new(lease as u32)))
                .is_some_and(|place| place.lock.is_owned());
            if inside || self.common_held().is_some() {
                return Err(NoVisit::Reentered);
            }
            let _gate = self.gate().map_err(|Reentered(())| NoVisit::Reentered)?;
            let _record = Held::new(core::ptr::from_ref(self).addr());
            // In the order of the places, as everybody takes them.
            let locks: Vec<&BiasedLock<_>> = self.iter().map(|place| &place.lock).collect();
            if locks.is_empty() {
                return Ok(then());
            }
            let each = |(), local: &mut Local<K, S, L>| each(local);
            biased_lock::visit_all(&locks, barrier::mode(), (), each, |()| then())
                .map_err(|_| NoVisit::Barrier)
        })
    }

    fn gate(&self) -> Result<SlotGuard<'_, ()>, Reentered> {
        match self.gate.lock_briefly() {
            Some(gate) => Ok(gate),
            None => {
                self.refuse_the_visitor()?;
                Ok(self.gate.lock())
            }
        }
    }

    /// Who is about to wait must not wait for itself.
    #[cold]
    fn refuse_the_visitor(&self) -> Result<(), Reentered> {
        if held::contains(core::ptr::from_ref(self).addr()) {
            Err(Reentered(()))
        } else {
            Ok(())
        }
    }

    /// All local tables, for who has the places to itself.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Local<K, S, L>> {
        self.leased
            .values_mut()
            .chain(self.common.values_mut())
            .map(|place| place.lock.get_mut())
    }
}

impl<K, S, L> Drop for Places<K, S, L> {
    fn drop(&mut self) {
        discharge(self.leased.iter().map(|(_, place)| &place.lock));
        // What guards that were forgotten have left: another place may come to lie there.
        for (_, place) in self.common.iter() {
            held::forget(place.address());
        }
    }
}

/// The record that this thread has what lies at an address, taken back when this is dropped, also by a panic.
pub(super) struct Held(usize);

impl Held {
    pub(super) fn new(address: usize) -> Self {
        held::push(address);
        Self(address)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        held::pop(self.0);
    }
}
