//! Per-thread shards with owner-biased locks.
//!
//! [`Shards`] keeps one value for each [lease](super::lease), and some for threads without one. Its owner uses a shard
//! with plain loads and stores; whoever needs the values of all threads keeps the owners out. A shard is made when its
//! thread first needs it and lives as long as the `Shards`.
//!
//! *Invariant:* a shard's value is used by one thread at a time: its owner, or a visitor. Besides it a shard has a part
//! of type `S`, which everybody may read at any time.
//!
//! # Owners
//!
//! The owner of a leased shard is the holder of the lease. It enters through the shard's [`BiasedLock`]: two stores, two
//! loads and a [light barrier](barrier). A thread without a lease (there are more threads than leases, the thread has
//! run its thread-local destructors, or there is no `std`) uses a *common* shard and owns it while it has the shard's
//! *turn*, an ordinary lock.
//!
//! Leases change hands when threads end, with release and acquire, so the next holder continues with the shard. Nothing
//! has to be folded away at thread exit.
//!
//! # Visitors
//!
//! A visitor takes the *gate*, so that no shard is made until it is done. It takes the turns of all common shards, freezes
//! the locks of all shards, and passes one [heavy barrier](barrier). From then on each owner that entered earlier is
//! waited for, and all others are kept out. [`Shards::visit`] lets each owner in again once its shard has been seen,
//! [`Shards::visit_all`] only at the end, and [`Shards::visit_in_turns`] freezes some shards at a time.
//!
//! *Why a visit is a consistent cut.* Let *T* be the moment when everything is frozen, barrier included. A use that
//! entered its shard before *T* is waited for, and its effect is seen. One that did not is kept out of its shard until
//! the visitor has seen that shard, and its effect is not seen. So a visit sees exactly the uses that entered before *T*:
//! all that finished before the visit was called, and with each use all that had finished before that one began. A new
//! shard cannot appear before the gate is released. (`visit_in_turns` has a *T* for each group, and is no cut.)
//!
//! # Who waits for whom
//!
//! Whoever is in a shard may run code of users, which may try to enter a shard of the same `Shards` again, or to visit
//! them. That thread would wait for itself, so it gets [`Reentered`] instead. A leased shard's lock says whether its
//! owner is inside; turns and the gate say [which thread](ThreadId) has them. The record lies in the object that it is
//! about: a guard that is forgotten cannot be mistaken for one of another object at the same address.
//!
//! A thread without a lease can be inside one common shard and want another: its number follows the thread's slot. Two such
//! threads could wait for each other, and a visitor, which holds the gate, waits for both. *Rule:* a thread inside a common shard
//! waits neither for another turn nor for the gate. It gets [`Reentered`] where it would, and enters if nobody is in the way. (So
//! whether it is refused depends on others. Who promises more asks [`Shards::entered`] first.) A leased shard's owner needs
//! no such rule: it has one shard, which exists while it is inside. But it may stay inside, in a thread-local value, until it has
//! no lease any more and wants a common shard. Then the rule holds for it too.
//!
//! A visitor takes turns in nobody's name, so what it visits is not what it has entered. The gate has its name.
//!
//! Shards of different `Shards` have no order. Whoever uses some from inside others agrees on one, as with all locks.
//!
//! # `fork`
//!
//! `fork` finds no thread in the middle of a use, a visit, or the making of a shard. Leased shards' locks are
//! [enlisted](enlist), everything else is a [step](undivided).
//!
//! # Who uses the parts and not the whole
//!
//! * `counter::sloppy` packs the shares of many counters into one row for each lease, with a [`BiasedLock`] each. A shard,
//!   which has a line to itself, would take eight times the memory, and there would be too many to enlist.
//! * `refcount` has one table of rows for the whole process, found by one load of a static array; a `CoreArc` is cloned in
//!   a few nanoseconds, to which finding a shard would add two loads. Its collector reads rows without stopping anybody.
//! * `requests` has no visitor that keeps owners out: two counts in the order of SRCU are enough. It uses leased places
//!   without a lock.

#![allow(
    dead_code,
    reason = "parts are used by modules that some features and the model checker leave out"
)]

#[cfg(all(test, percolog_loom))]
mod models;
#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests;

use super::barrier::{self, BarrierMode};
use super::biased_lock::{self, BiasedLock, Owned, Refused};
#[cfg(all(feature = "std", not(percolog_loom)))]
use super::lease::COMMON;
use super::lease::Who;
use super::undivided::{Step, discharge, enlist, is_inside, undivided, with_late};
use super::{CoreId, PerCore};
use crate::sync::{SlotGuard, SlotLock, ThreadId, const_fn};
use alloc::vec::Vec;
use core::borrow::Borrow;

/// [`Shards::visit_in_turns`] freezes so many shards behind one barrier: an owner waits for so many visits at most.
const FROZEN: usize = 32;

/// Values of type `T`, one for each thread, each on lines of its own beside a part `S` that everybody may read.
///
/// The gate is part of it, or where it must not share a line with what owners read, an
/// [`Isolated`](crate::sync::Isolated) one.
#[derive(Debug)]
pub(crate) struct Shards<T, S = (), G = SlotLock<()>> {
    shards: PerCore<Shard<T, S>>,
    /// Held by who makes a shard, and by visitors.
    gate: G,
}

/// One thread's value. What its owner looks at comes first, to be on the value's line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard<T, S> {
    mode: BarrierMode,
    is_common: bool,
    /// Of a common shard: held by its owner.
    turn: SlotLock<()>,
    lock: BiasedLock<T>,
    shared: S,
}

/// The calling thread visits, or is inside a shard, and would wait for itself or for a thread that waits for it. Nothing was
/// changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reentered;

/// Why shards cannot be visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoVisit {
    Reentered,
    /// See [`Refused`].
    Refused,
}

impl From<Reentered> for NoVisit {
    fn from(Reentered: Reentered) -> Self {
        Self::Reentered
    }
}

impl From<Refused> for NoVisit {
    fn from(Refused: Refused) -> Self {
        Self::Refused
    }
}

/// The right to use a common shard.
#[derive(Debug)]
pub(crate) struct Common<'a, T, S> {
    shard: &'a Shard<T, S>,
    // In this order: the step is over when the turn has been given up.
    turn: SlotGuard<'a, ()>,
    step: Step,
}

impl<T, S> Shard<T, S> {
    /// What everybody may read.
    #[inline(always)]
    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }

    /// Whether the owner of this leased shard is inside. Exact for the holder of the lease.
    #[inline(always)]
    pub(crate) fn is_inside(&self) -> bool {
        self.lock.is_owned()
    }

    /// The holder of the lease enters, unless a visitor keeps it out.
    ///
    /// # Safety
    /// The caller holds the shard's lease until the guard is dropped, and is not inside.
    #[inline(always)]
    pub(crate) unsafe fn try_own(&self) -> Option<Owned<'_, T>> {
        // SAFETY: by contract.
        unsafe { self.lock.try_own(self.mode) }
    }

    /// The value, for an owner that is inside, and may be so more than once.
    ///
    /// # Safety
    /// The calling thread is inside until the reference is gone, and has no exclusive reference meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn owned(&self) -> &T {
        // SAFETY: by contract; visitors wait until the owner has left or given up its turn.
        unsafe { self.lock.owned() }
    }

    /// The holder of the lease leaves, and [kept](Owned::keep) the shard when it entered.
    ///
    /// # Safety
    /// The calling thread is inside and has no reference to the value any more.
    #[inline(always)]
    pub(crate) unsafe fn leave(&self) {
        // SAFETY: by contract.
        unsafe { self.lock.leave() }
    }

    /// The owner of a common shard leaves, which it entered and [kept](Common::keep).
    ///
    /// # Safety
    /// The calling thread is inside and has no reference to the value any more.
    #[cold]
    pub(crate) unsafe fn leave_common(&self) {
        // SAFETY: both were kept when it entered, and are resumed once.
        let (turn, step) = unsafe { (self.turn.resume(), Step::resume()) };
        drop(Common {
            shard: self,
            turn,
            step,
        });
    }
}

impl<T, S> Common<'_, T, S> {
    /// The value.
    pub(crate) fn get(&mut self) -> &mut T {
        // SAFETY: only who has the turn comes here, and visitors take it too.
        unsafe { self.shard.lock.get_exclusively() }
    }

    /// Stays inside without the guard, until [`Shard::leave_common`].
    pub(crate) fn keep(self) {
        self.turn.keep();
        self.step.keep();
    }
}

impl<T, S> Shards<T, S> {
    const_fn! {
        /// No shards. Allocates nothing.
        pub(crate) const fn new() -> Self {
            Self::with_gate(SlotLock::new(()))
        }
    }
}

impl<T, S, G> Shards<T, S, G> {
    const_fn! {
        /// No shards, and this gate. Allocates nothing.
        pub(crate) const fn with_gate(gate: G) -> Self {
            Self { shards: PerCore::new(), gate }
        }
    }

    /// A shard, if there is one.
    #[inline(always)]
    pub(crate) fn find(&self, who: Who) -> Option<&Shard<T, S>> {
        self.shards.touched(who.place())
    }

    /// A shard by its [place](Who::place).
    pub(crate) fn numbered(&self, place: usize) -> Option<&Shard<T, S>> {
        self.shards.touched(CoreId::new(place as u32))
    }

    /// All shards in their order: what everybody may read of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Shard<T, S>> {
        self.shards.iter().map(|(_, shard)| shard)
    }

    /// The values, for who has the shards to itself.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        // No `&mut Shard` is made: who forks, and a thread that ends, may be reading the lock's words.
        // SAFETY: `&mut self` keeps everybody else from the values.
        self.iter()
            .map(|shard| unsafe { shard.lock.get_exclusively() })
    }

    /// Bytes asked of the allocator.
    pub(crate) fn memory(&self) -> usize {
        self.shards.memory()
    }

    /// The shard that the calling thread, which has no lease, is inside of, as far as that is [known](ThreadId): a common one, or
    /// that of the lease that the thread had, entered before it was to give that back.
    ///
    /// *Cost:* next to nothing where the thread is in no [step](undivided); else a look at each common shard.
    pub(crate) fn entered(&self) -> Option<&Shard<T, S>> {
        self.common_entered().or_else(|| {
            with_late(|lease| {
                self.find(Who::Leased(lease))
                    .filter(|shard| shard.is_inside())
            })
            .flatten()
        })
    }

    fn common_entered(&self) -> Option<&Shard<T, S>> {
        #[cfg(all(feature = "std", not(percolog_loom)))]
        {
            if !Step::is_under_way() {
                return None;
            }
            let me = ThreadId::current();
            (0..COMMON)
                .filter_map(|number| self.find(Who::Common(number)))
                .find(|shard| shard.turn.is_taken_by(me))
        }
        #[cfg(not(all(feature = "std", not(percolog_loom))))]
        None
    }
}

impl<T, S, G: Borrow<SlotLock<()>>> Shards<T, S, G> {
    /// Makes a shard, if there is none; `make` runs while the gate is held, and must not use these shards.
    ///
    /// # Errors
    /// If the calling thread visits; and if it is inside a common shard while another thread visits, or makes a shard.
    ///
    /// # Panics
    /// Where `make` does, with nothing changed.
    #[cold]
    pub(crate) fn make(
        &self,
        who: Who,
        make: impl FnOnce() -> (T, S),
    ) -> Result<&Shard<T, S>, Reentered> {
        undivided(|| {
            let _gate = self.gate()?;
            let shard = self.shards.get_or_make(who.place(), || {
                let (value, shared) = make();
                Shard {
                    mode: barrier::mode(),
                    is_common: matches!(who, Who::Common(_)),
                    turn: SlotLock::new(()),
                    lock: BiasedLock::new(value),
                    shared,
                }
            });
            if let Who::Leased(lease) = who {
                enlist(&shard.lock, lease);
            }
            Ok(shard)
        })
    }

    /// Runs `f` on the value of a shard of these.
    ///
    /// # Errors
    /// If the calling thread is inside the shard, or visits; and if it is inside a common shard and would have to wait.
    ///
    /// # Panics
    /// Where `f` does; the shard is left.
    ///
    /// # Safety
    /// `who` is whose shard it is. If that is a lease, the caller holds it until this returns.
    #[inline(always)]
    pub(crate) unsafe fn with<R>(
        &self,
        who: Who,
        shard: &Shard<T, S>,
        f: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Reentered> {
        match who {
            Who::Leased(_) if shard.is_inside() => Err(Reentered),
            // SAFETY: the caller holds the lease, and is not inside: this has just been seen.
            Who::Leased(_) => unsafe { Ok(f(self.own(shard)?.get())) },
            Who::Common(_) => self.with_common(shard, f),
        }
    }

    #[cold]
    fn with_common<R>(
        &self,
        shard: &Shard<T, S>,
        f: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Reentered> {
        Ok(f(self.enter_common(shard)?.get()))
    }

    /// The holder of the lease enters. Waits while a visitor keeps it out, and while somebody forks.
    ///
    /// # Errors
    /// If it would have to wait, and visits or is inside a common shard.
    ///
    /// # Safety
    /// The shard is a leased one of these. The caller holds its lease until the guard is dropped, and is not inside.
    #[inline(always)]
    pub(crate) unsafe fn own<'a>(&self, shard: &'a Shard<T, S>) -> Result<Owned<'a, T>, Reentered> {
        // SAFETY: by contract.
        match unsafe { shard.try_own() } {
            Some(owned) => Ok(owned),
            // SAFETY: by contract; it was left again.
            None => unsafe { self.own_slowly(shard) },
        }
    }

    /// # Safety
    /// As for [`own`](Self::own).
    #[cold]
    #[inline(never)]
    unsafe fn own_slowly<'a>(&self, shard: &'a Shard<T, S>) -> Result<Owned<'a, T>, Reentered> {
        self.refuse_reentrance()?;
        // SAFETY: by contract.
        Ok(unsafe { shard.lock.own_inside(shard.mode, is_inside) })
    }

    /// Takes the turn of a common shard of these. Waits while another thread has it, or visits.
    ///
    /// # Errors
    /// If the calling thread has the turn; and if it would have to wait, and visits or is inside another common shard.
    ///
    /// # Panics
    /// If the shard is a leased one: its turn keeps nobody out.
    #[cold]
    pub(crate) fn enter_common<'a>(
        &self,
        shard: &'a Shard<T, S>,
    ) -> Result<Common<'a, T, S>, Reentered> {
        assert!(shard.is_common, "a leased shard has no turn");
        let me = ThreadId::current();
        if shard.turn.is_taken_by(me) {
            return Err(Reentered);
        }
        let step = Step::begin();
        let turn = match shard.turn.lock_briefly_as(me) {
            Some(turn) => turn,
            None => {
                self.refuse_reentrance()?;
                shard.turn.lock_as(me)
            }
        };
        Ok(Common { shard, turn, step })
    }

    /// Visits each value as it is at one moment, with its number, below the count that `prepare` is given. `prepare` runs
    /// when no more shards can be made, and before any owner has to wait.
    ///
    /// A leased shard's owner is let in as soon as the shard has been visited, the others at the end. `lease` is the
    /// calling thread's.
    ///
    /// # Panics
    /// Where `prepare` or `visit` do; everything is left.
    pub(crate) fn visit<C>(
        &self,
        lease: Option<usize>,
        prepare: impl FnOnce(usize) -> C,
        mut visit: impl FnMut(&mut C, usize, &mut T),
    ) -> Result<C, NoVisit> {
        self.closed(lease, |shards| {
            let mut seen = prepare(shards.len());
            if !shards.is_empty() {
                let locks: Vec<&BiasedLock<T>> = shards.iter().map(|it| &it.lock).collect();
                let _turns = Turns::new(shards);
                biased_lock::visit(&locks, barrier::mode(), |at, value| {
                    visit(&mut seen, at, value);
                })?;
            }
            Ok(seen)
        })
    }

    /// Visits each value, and runs `then` before any owner is let in again.
    ///
    /// # Panics
    /// Where `each` or `then` do; everything is left.
    pub(crate) fn visit_all<R>(
        &self,
        lease: Option<usize>,
        mut each: impl FnMut(&mut T),
        then: impl FnOnce() -> R,
    ) -> Result<R, NoVisit> {
        self.closed(lease, |shards| {
            if shards.is_empty() {
                return Ok(then());
            }
            let locks: Vec<&BiasedLock<T>> = shards.iter().map(|it| &it.lock).collect();
            let _turns = Turns::new(shards);
            let each = |(), value: &mut T| each(value);
            Ok(biased_lock::visit_all(
                &locks,
                barrier::mode(),
                (),
                each,
                |()| then(),
            )?)
        })
    }

    /// Runs `visit` with all shards, of which none is made until it returns.
    fn closed<R>(
        &self,
        lease: Option<usize>,
        visit: impl FnOnce(&[&Shard<T, S>]) -> Result<R, NoVisit>,
    ) -> Result<R, NoVisit> {
        undivided(|| {
            let own = lease.and_then(|lease| self.find(Who::Leased(lease)));
            if own.is_some_and(Shard::is_inside) || self.entered().is_some() {
                return Err(NoVisit::Reentered);
            }
            let _gate = self.gate()?;
            // In the order of the places, as everybody takes them.
            let shards: Vec<&Shard<T, S>> = self.iter().collect();
            visit(&shards)
        })
    }

    /// Visits each value with its shard, some at a time and in no one moment. Allocates nothing.
    ///
    /// The caller has these shards' gate, and is inside none of them. The call is a part of a [step](undivided).
    pub(crate) fn visit_in_turns(
        &self,
        _gate: &SlotGuard<'_, ()>,
        mut visit: impl FnMut(&Shard<T, S>, &mut T),
    ) -> Result<(), Refused> {
        let mut shards = self.iter();
        while let Some(first) = shards.next() {
            let mut some = [first; FROZEN];
            let mut count = 1;
            while count < FROZEN
                && let Some(shard) = shards.next()
            {
                some[count] = shard;
                count += 1;
            }
            visit_some(
                &some[..count],
                &some.map(|it| &it.lock)[..count],
                &mut visit,
            )?;
        }
        Ok(())
    }

    /// Visits one shard. As [`visit_in_turns`](Self::visit_in_turns).
    pub(crate) fn visit_one(
        &self,
        _gate: &SlotGuard<'_, ()>,
        shard: &Shard<T, S>,
        mut visit: impl FnMut(&Shard<T, S>, &mut T),
    ) -> Result<(), Refused> {
        visit_some(&[shard], &[&shard.lock], &mut visit)
    }

    /// Takes the gate: no shard is made while it is held.
    ///
    /// # Errors
    /// If the calling thread has it; and if it would have to wait, and is inside a common shard.
    pub(crate) fn gate(&self) -> Result<SlotGuard<'_, ()>, Reentered> {
        let me = ThreadId::current();
        match self.gate.borrow().lock_briefly_as(me) {
            Some(gate) => Ok(gate),
            None => {
                self.refuse_reentrance()?;
                Ok(self.gate.borrow().lock_as(me))
            }
        }
    }

    /// Takes the gate if it is free at once.
    pub(crate) fn try_gate(&self) -> Option<SlotGuard<'_, ()>> {
        self.gate.borrow().lock_briefly_as(ThreadId::current())
    }

    /// A thread that is about to wait must wait neither for itself nor for who waits for it: see the module.
    #[cold]
    fn refuse_reentrance(&self) -> Result<(), Reentered> {
        if self.gate.borrow().is_taken_by(ThreadId::current()) {
            return Err(Reentered);
        }
        match self.entered() {
            Some(_) => Err(Reentered),
            None => Ok(()),
        }
    }
}

fn visit_some<T, S>(
    shards: &[&Shard<T, S>],
    locks: &[&BiasedLock<T>],
    visit: &mut impl FnMut(&Shard<T, S>, &mut T),
) -> Result<(), Refused> {
    let _turns = Turns::new(shards);
    biased_lock::visit(locks, barrier::mode(), |at, value| visit(shards[at], value))
}

/// The turns of all common shards among some, given up when this is dropped, also by a panic.
struct Turns<'l, 'a, T, S>(&'l [&'a Shard<T, S>]);

impl<'l, 'a, T, S> Turns<'l, 'a, T, S> {
    fn new(shards: &'l [&'a Shard<T, S>]) -> Self {
        let common = shards.iter().filter(|shard| shard.is_common);
        // In nobody's name: this thread does not enter them.
        common.for_each(|shard| shard.turn.lock().keep());
        Self(shards)
    }
}

impl<T, S> Drop for Turns<'_, '_, T, S> {
    fn drop(&mut self) {
        for shard in self.0.iter().filter(|shard| shard.is_common) {
            // SAFETY: `new` took it and kept it, on this thread.
            drop(unsafe { shard.turn.resume() });
        }
    }
}

impl<T, S, G> Drop for Shards<T, S, G> {
    fn drop(&mut self) {
        let leased = self.iter().filter(|shard| !shard.is_common);
        discharge(leased.map(|shard| &shard.lock));
    }
}
