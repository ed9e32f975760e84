//! One object: what stands behind its interface, and on which slots it is bound.
//!
//! *Invariant:* an entry of a slot's table has the object's generation only while it leads to the object's present
//! [`Arrangement`], no swap holds calls back, and the object has not been destroyed. Bindings are written and taken away under one lock; and with it,
//! in the same step, changes whatever they depend on.
//!
//! *Why nothing is used after its end.* A call is made in a section. What it calls it found in an entry, or was given under the lock as the present
//! arrangement; in both cases that was present in the section. It is retired after it has been replaced and the entries that led to it
//! have been taken away, and so is destroyed after the section.
//!
//! *Holding back.* A swap that waits takes the bindings away, and then finds out which sections are [open](Mark). These may have
//! representatives of the old implementation: their calls go on to it, without being bound, so that none waits for what waits for it. All others
//! find nothing bound, and wait in the first call; they have nothing of the old implementation. When those that were open have ended, nobody uses
//! it any more; and no section goes on to it, because a thread whose section has ended is one of the others. One swap of the process holds calls back at a time: so what it waits for never waits for another one.

use super::arrangement::{Arrangement, Implementation, Layer};
use super::translation::{Tables, Words};
use super::turn::{Holder, Turn};
use crate::cpu::CoreId;
use crate::cpu::undivided::undivided;
use crate::namespace;
use crate::reclaim::Mark;
use crate::sync::{Backoff, SlotLock, held};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// The error of a reference whose object was destroyed, or that never named one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleRef;

impl fmt::Display for StaleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the object has been destroyed, or the reference is one of no object")
    }
}

impl core::error::Error for StaleRef {}

impl From<namespace::StaleId> for StaleRef {
    fn from(_: namespace::StaleId) -> Self {
        Self
    }
}

/// Where a call is made.
pub(super) trait Caller {
    fn slot(&self) -> CoreId;
    fn chip(&self) -> usize;
    /// Whether the caller's section is one of these.
    fn is_one_of(&self, open: &[Mark]) -> bool;
}

/// The name of an object, as the tables know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// See the [module](self).
pub(super) struct Object<I: ?Sized> {
    state: SlotLock<State<I>>,
    /// Held by who exchanges the arrangement, from looking at the old one to putting the new one in.
    pub(super) exchange: Turn,
}

struct State<I: ?Sized> {
    present: Arc<Arrangement<I>>,
    destroyed: bool,
    /// Whose calls are held back.
    held_back: HeldBack,
    /// The slots on which the object is bound.
    bound: Vec<CoreId>,
}

/// Whose calls are held back, and by whom.
enum HeldBack {
    Nobodys,
    Everybodys(Holder),
    /// Those of all but these sections.
    OthersThan(Holder, Vec<Mark>),
}

/// What a call finds that is not bound.
enum Found<T> {
    /// It is this.
    Here(T),
    /// Calls are held back.
    Wait,
    /// Something was exchanged meanwhile.
    Changed,
}

impl<I: ?Sized + Sync + 'static> Object<I> {
    pub(super) fn new(present: Arrangement<I>) -> Self {
        Self {
            state: SlotLock::new(State {
                present: Arc::new(present),
                destroyed: false,
                held_back: HeldBack::Nobodys,
                bound: Vec::new(),
            }),
            exchange: Turn::new(),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut State<I>) -> R) -> R {
        undivided(|| f(self.state.lock().get()))
    }

    /// What is recorded of a thread that exchanges the arrangement.
    pub(super) fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    // ── Calls ──

    /// Finds the caller's way in, makes what is missing, and binds it. Waits while calls are held back, and while another thread makes a
    /// representative of this object.
    ///
    /// The caller is in a section, in which it may use what is returned.
    ///
    /// # Panics
    /// Where making does; and if the caller is exchanging the arrangement, and would be held back by itself.
    pub(super) fn bind(
        &self,
        tables: &Tables,
        name: Name,
        caller: &impl Caller,
    ) -> Result<*const I, StaleRef> {
        let (slot, chip) = (caller.slot(), caller.chip());
        let mut backoff = Backoff::new();
        loop {
            let found = self.with(|state| state.find(caller).map(|it| it.map(Arc::clone)))?;
            if let Found::Here(arrangement) = found {
                // Runs code of the user's, without the lock of the bindings.
                let entrance = undivided(|| arrangement.entrance(slot, chip));
                let bound = self
                    .with(|state| state.bind(tables, name, slot, caller, &arrangement, entrance))?;
                match bound {
                    Found::Here(()) => return Ok(entrance),
                    Found::Wait => {}
                    Found::Changed => continue,
                }
            }
            assert!(
                !held::contains(self.address()),
                "an object was called by the thread that swaps it and holds its callers back"
            );
            backoff.wait();
        }
    }

    // ── What changes it ──

    /// From now on nobody finds it. `false` if that is so already.
    pub(super) fn destroy(&self, tables: &Tables, name: Name) -> bool {
        self.with(|state| {
            if state.destroyed {
                return false;
            }
            state.destroyed = true;
            state.unbind(tables, name);
            true
        })
    }

    /// The present arrangement.
    pub(super) fn present(&self) -> Result<Arc<Arrangement<I>>, StaleRef> {
        self.with(|state| {
            if state.destroyed {
                return Err(StaleRef);
            }
            Ok(Arc::clone(&state.present))
        })
    }

    /// Takes the bindings away, and holds everybody back.
    pub(super) fn hold_back(&self, tables: &Tables, name: Name) -> Result<(), StaleRef> {
        self.with(|state| {
            if state.destroyed {
                return Err(StaleRef);
            }
            state.unbind(tables, name);
            state.held_back = HeldBack::Everybodys(Holder::me());
            Ok(())
        })
    }

    /// Lets the calls of these sections go on to what is there. They were open after everybody was held back.
    pub(super) fn let_pass(&self, open: Vec<Mark>) {
        self.with(|state| state.held_back = HeldBack::OthersThan(Holder::me(), open));
    }

    /// A section that can still have calls in flight, where those of all others are held back. Who has ended is held back, too, from its next
    /// section on, which can look like the last one: so this is found out, and noted, in one step.
    pub(super) fn in_flight(&self, mut has_ended: impl FnMut(Mark) -> bool) -> Option<Mark> {
        self.with(|state| match &mut state.held_back {
            HeldBack::OthersThan(_, open) => {
                open.retain(|section| !has_ended(*section));
                open.first().copied()
            }
            _ => None,
        })
    }

    /// Lets calls go on as they are.
    pub(super) fn let_go(&self) {
        self.with(|state| state.held_back = HeldBack::Nobodys);
    }

    /// Puts another arrangement in, and lets calls go to it. The old one is to be retired: sections can still be using it. If the object has
    /// been destroyed, the new one comes back.
    pub(super) fn exchange(
        &self,
        tables: &Tables,
        name: Name,
        new: Arc<Arrangement<I>>,
    ) -> Result<Arc<Arrangement<I>>, Arc<Arrangement<I>>> {
        self.with(|state| {
            if state.destroyed {
                return Err(new);
            }
            state.unbind(tables, name);
            state.held_back = HeldBack::Nobodys;
            Ok(core::mem::replace(&mut state.present, new))
        })
    }

    /// On how many slots it is bound.
    pub(super) fn bound(&self) -> usize {
        self.with(|state| state.bound.len())
    }

    /// The implementation, for who has the object to itself.
    pub(super) fn into_implementation(mut self) -> Arc<dyn Implementation<I>> {
        Arc::clone(&self.state.get_mut().present.implementation)
    }
}

impl<I: ?Sized + Sync + 'static> State<I> {
    /// What the caller may use.
    fn find(&mut self, caller: &impl Caller) -> Result<Found<&Arc<Arrangement<I>>>, StaleRef> {
        if self.destroyed {
            return Err(StaleRef);
        }
        let waits = match &self.held_back {
            HeldBack::Nobodys => false,
            // In a child, whose parent's other thread was in the middle of a swap: there will be none.
            HeldBack::Everybodys(holder) | HeldBack::OthersThan(holder, _) if holder.is_gone() => {
                self.held_back = HeldBack::Nobodys;
                false
            }
            HeldBack::Everybodys(_) => true,
            HeldBack::OthersThan(_, open) => !caller.is_one_of(open),
        };
        Ok(if waits {
            Found::Wait
        } else {
            Found::Here(&self.present)
        })
    }

    /// Binds what the caller has found, if it is still what it may use.
    fn bind(
        &mut self,
        tables: &Tables,
        name: Name,
        slot: CoreId,
        caller: &impl Caller,
        arrangement: &Arc<Arrangement<I>>,
        entrance: *const I,
    ) -> Result<Found<()>, StaleRef> {
        let present = match self.find(caller)? {
            Found::Here(present) => present,
            Found::Wait => return Ok(Found::Wait),
            Found::Changed => return Ok(Found::Changed),
        };
        if !Arc::ptr_eq(present, arrangement) {
            return Ok(Found::Changed);
        }
        // While calls are held back, nothing is bound: those who are held back would find it.
        if matches!(self.held_back, HeldBack::Nobodys) {
            let entry = tables.entry(slot, name.index);
            // Another thread of the slot may have bound it meanwhile.
            if entry.find(name.generation).is_none() {
                entry.bind(name.generation, Words::of(entrance));
                self.bound.push(slot);
            }
        }
        Ok(Found::Here(()))
    }

    fn unbind(&mut self, tables: &Tables, name: Name) {
        for slot in self.bound.drain(..) {
            if let Some(entry) = tables.existing(slot, name.index) {
                entry.unbind();
            }
        }
    }
}

impl<T> Found<T> {
    fn map<U>(self, f: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Self::Here(it) => Found::Here(f(it)),
            Self::Wait => Found::Wait,
            Self::Changed => Found::Changed,
        }
    }
}

/// The layers with another one in front.
pub(super) fn with_layer<I: ?Sized>(layers: &[Layer<I>], layer: Layer<I>) -> Vec<Layer<I>> {
    layers.iter().cloned().chain([layer]).collect()
}

/// The layers without one of them; `None` if it is not among them.
pub(super) fn without_layer<I: ?Sized>(layers: &[Layer<I>], number: u64) -> Option<Vec<Layer<I>>> {
    let left: Vec<_> = layers
        .iter()
        .filter(|it| it.number != number)
        .cloned()
        .collect();
    (left.len() < layers.len()).then_some(left)
}
