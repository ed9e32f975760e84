//! One deferred object: how updates go in.

use super::batch::Merged;
use super::dirty::DirtyMarks;
use super::gate::{Door, Gate, Refusal, Wait, is_panicking};
use super::limits::{Full, FullReason, Mode, OnDrop, Options, Policy};
use super::mode::{Current, DIRTY};
use super::queue::{Absorbed, Queue};
use super::reading::Reading;
use super::room::{Crowded, merge_or_grow, merge_unless_busy};
use super::slots::{Bound, Origin, Slot, Slots, Stamps};
use super::stats::{Account, LogStats, ModeReason, Tally};
use crate::cpu::{self, CoreId, Environment};
use crate::sync::atomic::Ordering;
use crate::sync::global::AtomicU8;
use crate::sync::held::Number;
use crate::sync::{Isolated, Patience, ReaderMark, SlotGuard, UnsafeCell, const_fn};
use core::mem::ManuallyDrop;
use core::ptr;

/// A state and the updates deferred to it.
///
/// The first part is read by every update and written by none; the second is written by whoever
/// merges, and lies on lines of its own.
pub(crate) struct Object<S, Q: Queue<S>, E: Environment> {
    pub(super) slots: Slots<S, Q>,
    pub(super) dirty: DirtyMarks,
    pub(super) options: Options,
    pub(super) mode: Current,
    pub(super) environment: E,
    pub(super) center: Isolated<Center<S, Q>>,
}

/// What belongs to the holder of the object's lock.
///
/// In this order so that an update that is executed at once, and a reader, need one line of it, if the state is small.
#[repr(C)]
pub(super) struct Center<S, Q: Queue<S>> {
    pub(super) gate: Gate,
    /// It may be moved while a guard that was forgotten is out.
    pub(super) number: Number,
    /// Operations executed without being queued.
    pub(super) at_once: Tally,
    /// Exclusive guards given out, through which the state may have been changed.
    pub(super) guards: Tally,
    pub(super) merged: UnsafeCell<Merged<S, Q>>,
    pub(super) account: Account,
    pub(super) reading: Reading,
    /// A [`ModeReason`].
    pub(super) mode_reason: AtomicU8,
}

impl<S, Q: Queue<S>> Center<S, Q> {
    /// Lets the next holders of an eager object know that there is something to execute first.
    pub(super) fn leave_unfinished(&self) {
        // Relaxed: it is they who look at it.
        self.gate.flags.fetch_or(DIRTY, Ordering::Relaxed);
    }

    /// A number that is another one whenever the state may be.
    #[cfg(feature = "std")]
    pub(super) fn changes(&self) -> u64 {
        [&self.account.executed, &self.at_once, &self.guards]
            .iter()
            .fold(0, |sum, tally| sum.wrapping_add(tally.get()))
    }
}

// SAFETY: the slots' queues are behind their locks (`Q: Send`), the merged part behind the object's
// (`S: Send`, `Q::Scratch: Send` by the trait). `S: Sync` is not needed for exclusive guards, and asked
// for where shared ones are given out.
unsafe impl<S: Send, Q: Queue<S>, E: Environment + Sync> Sync for Object<S, Q, E> {}

impl<S, Q: Queue<S>, E: Environment> Stamps for Object<S, Q, E> {
    const STAMPED: bool = Q::STAMPED;

    type Environment = E;

    #[inline(always)]
    fn clock(&self) -> (&E, &Tally) {
        (&self.environment, &self.center.account.clock_violations)
    }
}

impl<S, Q: Queue<S>, E: Environment> Object<S, Q, E> {
    const_fn! {
        pub(crate) const fn new(state: S, options: Options, environment: E) -> Self {
            Self {
                slots: Slots::new(),
                dirty: DirtyMarks::new(),
                mode: Current::new(options.mode),
                options,
                environment,
                center: Isolated::new(Center {
                    gate: Gate::new(Current::flags(options.mode)),
                    at_once: Tally::new(),
                    guards: Tally::new(),
                    merged: UnsafeCell::new(Merged::new(state)),
                    number: Number::new(),
                    account: Account::new(),
                    reading: Reading::new(),
                    mode_reason: AtomicU8::new(ModeReason::Initial as u8),
                }),
            }
        }
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.center.gate.is_poisoned()
    }

    pub(crate) fn clear_poison(&self) {
        self.center.gate.clear_poison();
    }

    /// Whether updaters merge nothing any more.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_poisoned() && !self.options.merge_poisoned
    }

    /// Takes the object for this thread alone.
    pub(super) fn enter(&self, wait: Wait) -> Result<Door<'_>, Refusal> {
        let door = self.center.gate.enter(Some(&self.center.number), wait)?;
        self.behind_readers(door, wait)
    }

    /// Takes the object for sharing.
    pub(super) fn enter_shared(&self, wait: Wait) -> Result<Door<'_>, Refusal> {
        self.center
            .gate
            .enter_shared(Some(&self.center.number), wait)
    }
}

impl<S, Q: Queue<S>, E: Environment> Object<S, Q, E> {
    /// Appends an operation, and does what the policy says at the limit.
    #[inline(always)]
    pub(super) fn append_or_merge(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        match self.append_and(operation, origin, Bound::Threshold, |_| ()) {
            Ok(()) => Ok(()),
            Err(operation) => self.at_limit(operation, origin),
        }
    }

    /// Appends an operation unless the slot's queue is at its limit or in use.
    #[inline]
    pub(super) fn try_append(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        let stamp = self.stamp();
        let slot = self.environment.slot();
        cpu::without_preemption(|| {
            let place = self.slots.get(slot, &self.options);
            let Some(mut held) = place.lock_briefly() else {
                return Err(Full {
                    operation,
                    reason: FullReason::Busy,
                });
            };
            let limit = match self.options.policy {
                Policy::Grow => usize::MAX,
                _ => self.options.limit,
            };
            let here = held.get();
            let absorbed = if here.queue.len() < limit {
                self.push(slot, here, operation, stamp, origin)
            } else {
                let early = (!Q::may_cancel(&operation)).then_some(stamp);
                here.absorb::<S>(self, operation, early, origin)
                    .map_err(|operation| Full {
                        operation,
                        reason: FullReason::Limit,
                    })?
            };
            drop(held);
            Ok(absorbed)
        })
        .map(drop)
    }

    /// Appends to this slot's queue if it is below the bound; else the operation comes back. Says how many operations the slot has then
    /// that it has appended or absorbed since it was merged.
    #[cold]
    #[inline(never)]
    pub(super) fn append_counting(
        &self,
        operation: Q::Operation,
        origin: Origin,
        bound: Bound,
    ) -> Result<u64, Q::Operation> {
        self.append_and(operation, origin, bound, |slot| {
            slot.queue.len() as u64 + slot.absorbed()
        })
    }

    /// The same, and `look`s at the slot before it lets go of it. Called from two places, with another `look` each, so that the compiler
    /// puts the one of most updates where it is called.
    #[inline(always)]
    fn append_and<R>(
        &self,
        operation: Q::Operation,
        origin: Origin,
        bound: Bound,
        look: impl FnOnce(&Slot<Q>) -> R,
    ) -> Result<R, Q::Operation> {
        // The stamp is taken before the lock, so that waiting for the counter and for the lock's
        // line overlap. Nothing is lost: the stamp lies within the operation's own interval, and one
        // that has meanwhile become too old for this queue is taken anew in `push`. An operation that
        // may cancel probably needs none.
        let may_cancel = Q::may_cancel(&operation);
        let early = if may_cancel { None } else { Some(self.stamp()) };
        let slot = self.environment.slot();
        cpu::without_preemption(|| {
            let mut held = self.slots.get(slot, &self.options).lock();
            let here = held.get();
            if !here.has_room::<S>(&self.options, bound) {
                return Err(operation);
            }
            let absorbed = match early {
                Some(stamp) => self.push(slot, here, operation, stamp, origin),
                None => match here.queue.cancel(operation) {
                    Ok(absorbed) => {
                        // The dirty mark was set when the other one was appended. If a merge has cleared it
                        // since, that merge has yet to take this queue: else the other one would be gone.
                        here.count_absorbed(absorbed.count());
                        absorbed
                    }
                    Err(operation) => self.push(slot, here, operation, self.stamp(), origin),
                },
            };
            let seen = look(here);
            drop(held);
            Ok((absorbed, seen))
        })
        // What was absorbed is dropped without the lock.
        .map(|(_absorbed, seen)| seen)
    }

    /// Queues what `make` hands out, if anything, under the lock of a slot that is marked *before* `make`
    /// is called: whoever learns through a trace that `make` leaves elsewhere that there is something
    /// queued here can rely on every merge that begins later to find it. For queues without stamps.
    ///
    /// `make` is called with the slot's lock held, so it waits for nothing, and once if there is room, else not at all. What
    /// it returns beside comes back.
    #[inline(always)]
    pub(crate) fn queue_made<R>(
        &self,
        make: impl FnOnce() -> (Option<Q::Operation>, R) + Copy,
    ) -> Result<R, FullReason> {
        match self.append_made::<R, false>(make) {
            Some(made) => Ok(made),
            None => self.make_at_limit(make),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_at_limit<R>(
        &self,
        make: impl FnOnce() -> (Option<Q::Operation>, R) + Copy,
    ) -> Result<R, FullReason> {
        if self.sweep()
            && let Some(made) = self.append_made::<R, true>(make)
        {
            return Ok(made);
        }
        match self.options.policy {
            Policy::Merge => {
                let mut made = None;
                merge_or_grow(self, (), |()| {
                    made = self.append_made::<R, true>(make);
                    made.is_some().then_some(()).ok_or(())
                })
                .map_err(|full| full.reason)?;
                Ok(made.unwrap_or_else(|| unreachable!("there was room")))
            }
            Policy::Grow | Policy::Full | Policy::Discard | Policy::MergeOrDiscard => {
                Err(FullReason::Limit)
            }
        }
    }

    /// Takes out of this slot's queue what needs nobody to look at it. Whether that has made so much room that it will be long before
    /// the next time; else looking through a queue of things that stay would cost every update as much as a merge.
    #[cold]
    #[inline(never)]
    fn sweep(&self) -> bool {
        let (swept, worth_it) = cpu::without_preemption(|| {
            let mut held = self.here();
            let here = held.get();
            let before = here.queue.len();
            let swept = here.queue.sweep();
            let left = here.queue.len();
            here.count_absorbed((before - left) as u64);
            drop(held);
            (swept, left <= self.options.limit / 2)
        });
        drop(swept);
        worth_it
    }

    /// Calls `f` with this slot's queue, locked and marked, whatever its length.
    pub(crate) fn with_queue_marked<R>(&self, f: impl FnOnce(&mut Q) -> R) -> R {
        let slot = self.environment.slot();
        cpu::without_preemption(|| {
            let mut held = self.slots.get(slot, &self.options).lock();
            self.mark(slot, held.get());
            f(&mut held.get().queue)
        })
    }

    /// Merges, at an updater's expense, what `gather` has brought into the slots' queues: as if a queue were at
    /// its limit.
    pub(crate) fn make_room(&self, wait: Wait, gather: impl FnOnce()) -> Result<(), FullReason> {
        if self.is_stuck() {
            return Err(FullReason::Poisoned);
        }
        match self.enter(wait) {
            Ok(door) => {
                gather();
                self.merge_for_updater(door);
                Ok(())
            }
            Err(Refusal::Held) => Err(FullReason::Held),
            Err(Refusal::Busy) => Err(FullReason::Busy),
        }
    }

    /// Where its slots and stamps come from.
    pub(crate) fn environment(&self) -> &E {
        &self.environment
    }

    /// Its limits and policies.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// What `make` returned, if there was room and it was called. `AT_LIMIT`: up to the hard limit; known to the compiler, so that it
    /// makes two of these, and can put the one for every update where it is called.
    #[inline(always)]
    fn append_made<R, const AT_LIMIT: bool>(
        &self,
        make: impl FnOnce() -> (Option<Q::Operation>, R),
    ) -> Option<R> {
        debug_assert!(!Q::STAMPED);
        let bound = if AT_LIMIT {
            Bound::Hard
        } else {
            Bound::Threshold
        };
        let slot = self.environment.slot();
        cpu::without_preemption(|| {
            let mut held = self.slots.get(slot, &self.options).lock();
            let here = held.get();
            if !here.has_room::<S>(&self.options, bound) {
                return None;
            }
            self.mark(slot, here);
            let (operation, made) = make();
            let absorbed = match operation {
                Some(operation) => here.queue.append(operation, 0, None),
                None => Absorbed::Nothing,
            };
            drop(held);
            Some((absorbed, made))
        })
        // What was absorbed is dropped without the lock.
        .map(|(_absorbed, made)| made)
    }

    #[inline(always)]
    fn mark(&self, slot: CoreId, here: &mut Slot<Q>) {
        if !here.marked {
            // Last: if the environment panics, the next update has to do it.
            self.dirty.mark(self.environment.chip(), slot);
            here.marked = true;
            self.mode.announce(&self.center.gate);
        }
    }

    /// Appends under the slot's lock. What comes back is to be dropped without it.
    #[inline(always)]
    pub(super) fn push(
        &self,
        slot: CoreId,
        here: &mut Slot<Q>,
        operation: Q::Operation,
        stamp: u64,
        origin: Origin,
    ) -> Absorbed<Q::Operation> {
        let stamp = here.in_order::<S>(self, stamp);
        self.mark(slot, here);
        here.append::<S>(operation, stamp, origin)
    }

    /// Lets an operation cancel or replace one in this slot's queue, which becomes no longer by that; else it comes back.
    fn absorb(&self, operation: Q::Operation, origin: Origin) -> Result<(), Q::Operation> {
        let early = (!Q::may_cancel(&operation)).then(|| self.stamp());
        cpu::without_preemption(|| {
            let mut held = self.here();
            let absorbed = held.get().absorb::<S>(self, operation, early, origin)?;
            drop(held);
            Ok(absorbed)
        })
        .map(drop)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn at_limit(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        let operation = match self.absorb(operation, origin) {
            Ok(()) => return Ok(()),
            Err(operation) => operation,
        };
        match self.options.policy {
            Policy::Merge => merge_or_grow(self, operation, |operation| {
                self.append_counting(operation, origin, Bound::Hard)
                    .map(drop)
            }),
            Policy::Grow | Policy::Full => Err(Full {
                operation,
                reason: FullReason::Limit,
            }),
            Policy::Discard => {
                self.discard(operation);
                Ok(())
            }
            Policy::MergeOrDiscard => {
                if let Err(operation) = self.merge_and_append(operation, origin) {
                    self.discard(operation);
                }
                Ok(())
            }
        }
    }

    fn discard(&self, operation: Q::Operation) {
        let mut held = self.here();
        held.get().discarded += 1;
        drop(held);
        drop(operation);
    }

    /// Merges if nobody has the object, and appends if that has made room.
    fn merge_and_append(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Q::Operation> {
        if !merge_unless_busy(self) {
            return Err(operation);
        }
        self.append_counting(operation, origin, Bound::Threshold)
            .map(drop)
    }

    /// This slot's queue, locked.
    fn here(&self) -> SlotGuard<'_, Slot<Q>, ReaderMark> {
        self.slots
            .get(self.environment.slot(), &self.options)
            .lock()
    }

    /// Whether this slot's queue is below its limit just now.
    fn is_short(&self) -> bool {
        self.with_queue(|queue| queue.len() < self.options.limit)
    }

    /// Calls `f` with this slot's queue, locked.
    pub(crate) fn with_queue<R>(&self, f: impl FnOnce(&mut Q) -> R) -> R {
        cpu::without_preemption(|| f(&mut self.here().get().queue))
    }

    /// Adds up what the slots and the merges have counted. Locks each slot for a moment.
    pub(crate) fn stats(&self) -> LogStats {
        let account = &self.center.account;
        let mut stats = LogStats {
            merges: account.merges.get(),
            executed: account.executed.get() + self.center.at_once.get(),
            at_once: self.center.at_once.get(),
            mode: self.mode.get(),
            mode_changes: account.mode_changes.get(),
            biased_to_readers: self.mode.is_biased(),
            mode_reason: match self.options.mode {
                Mode::Adaptive => {
                    ModeReason::from_number(self.center.mode_reason.load(Ordering::Relaxed))
                }
                _ => ModeReason::Fixed,
            },
            absorbed: account.absorbed.get(),
            updater_merges: account.updater_merges.get(),
            longest_updater_merge: account.longest_updater_merge.get(),
            longest_updater_wait: core::time::Duration::from_nanos(
                account.longest_updater_nanos.get(),
            ),
            clock_violations: account.clock_violations.get(),
            pending: account.unfinished.get() as usize,
            ..LogStats::default()
        };
        for (_, slot) in self.slots.iter() {
            let mut held = slot.lock();
            let slot = held.get();
            stats.slots += 1;
            stats.pending += slot.queue.len();
            stats.queue_bytes += slot.queue.memory();
            stats.absorbed += slot.absorbed();
            stats.discarded += slot.discarded;
        }
        stats
    }
}

impl<S, Q: Queue<S>, E: Environment> Crowded for Object<S, Q, E> {
    fn is_stuck(&self) -> bool {
        self.is_stuck()
    }

    fn enter(&self, wait: Wait) -> Result<Door<'_>, Refusal> {
        self.enter(wait)
    }

    fn enter_unless_short(&self) -> Option<Door<'_>> {
        let entered = self.center.gate.lock.exclusive_unless(|| self.is_short());
        let door = entered.then(|| self.center.gate.door(Some(&self.center.number)))?;
        self.behind_readers(door, Wait::For(Patience::Unlimited))
            .ok()
    }

    fn merge_for_updater(&self, door: Door<'_>) {
        self.merge_for_updater(door);
    }
}

impl<S, Q: Queue<S>, E: Environment> Object<S, Q, E> {
    /// The state with everything in it, to the owner of the object; `None` if it is poisoned.
    pub(crate) fn get_mut(&mut self) -> Option<&mut S> {
        if self.is_poisoned() {
            return None;
        }
        self.finish();
        // SAFETY: `&mut self`: there is no guard and no other user.
        Some(
            self.center
                .merged
                .with_mut(|merged| unsafe { &mut (*merged).state }),
        )
    }

    /// The state with everything in it, and nothing else; `None` if the object is poisoned.
    pub(crate) fn into_inner(mut self) -> Option<S> {
        if self.is_poisoned() {
            return None;
        }
        self.finish();
        let this = ManuallyDrop::new(self);
        // SAFETY: each field is read out once, and `this` is neither dropped nor used again.
        let (slots, dirty, mode, environment, center) = unsafe {
            (
                ptr::read(&raw const this.slots),
                ptr::read(&raw const this.dirty),
                ptr::read(&raw const this.mode),
                ptr::read(&raw const this.environment),
                ptr::read(&raw const this.center),
            )
        };
        drop((slots, dirty, mode, environment));
        Some(center.into_inner().merged.into_inner().state)
    }
}

impl<S, Q: Queue<S>, E: Environment> Drop for Object<S, Q, E> {
    fn drop(&mut self) {
        if self.options.on_drop == OnDrop::Apply && !self.is_poisoned() && !is_panicking() {
            self.finish();
        }
    }
}
