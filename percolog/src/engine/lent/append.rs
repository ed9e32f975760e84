//! How updates go in.

use super::cache::{Cache, LentQueue, Place, Table};
use super::evict::Eviction;
use super::object::Lent;
use crate::cpu::{self, CoreId, Environment};
use crate::engine::gate::{Door, Refusal, Wait};
use crate::engine::limits::{Full, FullReason, Policy};
use crate::engine::queue::{Absorbed, Queue};
use crate::engine::room::{CHUNK, Crowded, Left, merge_or_grow, merge_unless_busy};
use crate::engine::slots::{Bound, Origin, Stamps};
use crate::engine::stats::Tally;
use crate::sync::Backoff;

/// What became of an attempt to append.
enum Attempt<O, T> {
    Done,
    /// The queue is at its bound.
    Full(O),
    /// Something has to be done first, without the lock of the place.
    Again(O, T),
}

/// What keeps an object from its place.
pub(super) enum Obstacle<'a, S> {
    /// A merge is visiting the object's slots.
    Closed,
    /// Another object, which this thread has taken to merge it.
    Occupied(Eviction<'a, S>),
    /// The slot has as many queues as it may.
    NoQueue,
}

impl<S, Q: Queue<S>, E: Environment> Stamps for Cache<S, Q, E> {
    const STAMPED: bool = Q::STAMPED;

    type Environment = E;

    #[inline(always)]
    fn clock(&self) -> (&E, &Tally) {
        (&self.environment, &self.account.clock_violations)
    }
}

impl<S, Q: Queue<S>, E: Environment> Cache<S, Q, E> {
    /// Appends an operation, and does what the policy says at the limit.
    #[inline]
    pub(super) fn append_or_merge(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        match self.append(object, operation, origin, Bound::Threshold) {
            Ok(()) => Ok(()),
            Err(operation) => self.at_limit(object, operation, origin),
        }
    }

    /// Appends to this slot's queue if it is below the bound, or if that makes it no longer; else the operation comes back.
    #[inline]
    fn append(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
        bound: Bound,
    ) -> Result<(), Q::Operation> {
        match self.attempt(object, operation, origin, bound) {
            Attempt::Done => Ok(()),
            Attempt::Full(operation) => Err(operation),
            Attempt::Again(operation, obstacle) => {
                self.append_slowly(object, operation, origin, bound, obstacle)
            }
        }
    }

    #[cold]
    fn append_slowly<'a>(
        &'a self,
        object: &Lent<S>,
        mut operation: Q::Operation,
        origin: Origin,
        bound: Bound,
        mut obstacle: Obstacle<'a, S>,
    ) -> Result<(), Q::Operation> {
        loop {
            match obstacle {
                // Away from the lock of the place, which the merge needs.
                Obstacle::Closed => {
                    let mut backoff = Backoff::new();
                    while object.is_closed() {
                        backoff.wait();
                    }
                }
                Obstacle::Occupied(eviction) => self.evict(eviction),
                Obstacle::NoQueue => self.free_a_queue(self.environment.slot()),
            }
            match self.attempt(object, operation, origin, bound) {
                Attempt::Done => return Ok(()),
                Attempt::Full(operation) => return Err(operation),
                Attempt::Again(back, next) => (operation, obstacle) = (back, next),
            }
        }
    }

    #[inline(always)]
    fn attempt(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
        bound: Bound,
    ) -> Attempt<Q::Operation, Obstacle<'_, S>> {
        // Before the lock, as for objects that own their queues; see `Object::append`.
        let may_cancel = Q::may_cancel(&operation);
        let early = if may_cancel { None } else { Some(self.stamp()) };
        let slot = self.environment.slot();
        let options = &self.options.objects;
        cpu::without_preemption(|| {
            let table = self.table(slot);
            let mut held = table.place(self.place(object)).lock();
            let place = held.get();
            if place.tag != Some(object.tag())
                && let Err(obstacle) = self.bring_in(table, slot, place, object, true)
            {
                return Err(Attempt::Again(operation, obstacle));
            }
            let here = place.lent();
            if !here.has_room::<S>(options, bound) {
                let absorbed = here
                    .absorb::<S>(self, operation, early, origin)
                    .map_err(Attempt::Full)?;
                drop(held);
                return Ok(absorbed);
            }
            let absorbed = match early {
                Some(stamp) => self.push(here, operation, stamp, origin),
                // The tag says that the slot is in the set, whatever becomes of the queue.
                None => match here.queue.cancel(operation) {
                    Ok(absorbed) => {
                        here.count_absorbed(absorbed.count());
                        absorbed
                    }
                    Err(operation) => self.push(here, operation, self.stamp(), origin),
                },
            };
            drop(held);
            Ok(absorbed)
        })
        // What was absorbed is dropped without the lock.
        .map_or_else(|attempt| attempt, |_absorbed| Attempt::Done)
    }

    /// Appends under the lock of the place. What comes back is to be dropped without it.
    #[inline(always)]
    fn push(
        &self,
        here: &mut LentQueue<Q>,
        operation: Q::Operation,
        stamp: u64,
        origin: Origin,
    ) -> Absorbed<Q::Operation> {
        let stamp = here.in_order::<S>(self, stamp);
        here.append::<S>(operation, stamp, origin)
    }

    /// Gives the place, which is locked and has another tag or none, to the object. If another one has it that must not be merged now,
    /// by who says so or because it is in use, its queue is set aside.
    #[cold]
    #[inline(never)]
    fn bring_in<'a>(
        &'a self,
        table: &'a Table<S, Q>,
        slot: CoreId,
        place: &mut Place<S, Q>,
        object: &Lent<S>,
        may_merge: bool,
    ) -> Result<(), Obstacle<'a, S>> {
        if let Some(other) = place.tag {
            if object.is_closed() {
                // Nothing is done to the other one in vain.
                return Err(Obstacle::Closed);
            }
            if may_merge {
                // SAFETY: it is the tag of a place that we have locked.
                if let Some(eviction) = unsafe { Eviction::begin(other) } {
                    return Err(Obstacle::Occupied(eviction));
                }
            }
            let mut held = table.side.lock();
            let side = held.get();
            if may_merge {
                // What was set aside before is merged first if it can be by now: only what is in use
                // just now stays there.
                let mut aside = side.aside.iter();
                let eviction = aside.find_map(|(tag, _)| {
                    // SAFETY: what has been set aside is alive as long as the side is locked: its
                    // destruction takes it away first.
                    unsafe { Eviction::begin(*tag) }
                });
                if let Some(eviction) = eviction {
                    return Err(Obstacle::Occupied(eviction));
                }
            } else if side.made >= self.options.queues
                && side.free.is_empty()
                && !side.aside.iter().any(|(tag, _)| *tag == object.tag())
            {
                return Err(Obstacle::NoQueue);
            }
            side.set_aside += 1;
            side.aside
                .extend(place.queue.take().map(|queue| (other, queue)));
            place.tag = None;
        }
        let mut held = table.side.lock();
        let side = held.get();
        if let Some(queue) = side.take(object) {
            // This slot is in the object's set already, and no merge has visited it since.
            side.free.extend(place.queue.replace(queue));
            place.tag = Some(object.tag());
            return Ok(());
        }
        if place.queue.is_none() {
            place.queue = side.free.pop();
        }
        if place.queue.is_none() {
            if side.made >= self.options.queues {
                return Err(Obstacle::NoQueue);
            }
            side.made += 1;
            drop(held);
            place.queue = Some(self.new_queue());
        } else {
            drop(held);
        }
        if !object.enter_set(slot) {
            return Err(Obstacle::Closed);
        }
        place.tag = Some(object.tag());
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn at_limit(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        match self.options.objects.policy {
            Policy::Merge => merge_or_grow(&self.of(object), operation, |operation| {
                self.append(object, operation, origin, Bound::Hard)
            }),
            Policy::Grow | Policy::Full => Err(Full {
                operation,
                reason: FullReason::Limit,
            }),
            Policy::Discard => {
                self.discard(object, operation);
                Ok(())
            }
            Policy::MergeOrDiscard => {
                if let Err(operation) = self.merge_and_append(object, operation, origin) {
                    self.discard(object, operation);
                }
                Ok(())
            }
        }
    }

    /// Drops an operation, and counts it with the queue that is at the place.
    fn discard(&self, object: &Lent<S>, operation: Q::Operation) {
        let table = self.table(self.environment.slot());
        let mut held = table.place(self.place(object)).lock();
        if let Some(queue) = &mut held.get().queue {
            queue.discarded += 1;
        }
        drop(held);
        drop(operation);
    }

    /// Merges if nobody has the object, and appends if that has made room.
    fn merge_and_append(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Q::Operation> {
        if !merge_unless_busy(&self.of(object)) {
            return Err(operation);
        }
        self.append(object, operation, origin, Bound::Threshold)
    }

    fn of<'a>(&'a self, object: &'a Lent<S>) -> InCache<'a, S, Q, E> {
        InCache {
            cache: self,
            object,
        }
    }

    /// Whether the object has no queue on this slot just now, or one below its limit.
    fn is_short(&self, object: &Lent<S>) -> bool {
        let limit = self.options.objects.limit;
        cpu::without_preemption(|| {
            let table = self.table(self.environment.slot());
            let mut held = table.place(self.place(object)).lock();
            let place = held.get();
            if place.tag == Some(object.tag()) {
                return place
                    .queue
                    .as_ref()
                    .is_none_or(|here| here.queue.len() < limit);
            }
            // Under the lock of the place, as in `take`.
            let mut side = table.side.lock();
            let mut aside = side.get().aside.iter();
            aside
                .find(|(tag, _)| *tag == object.tag())
                .is_none_or(|(_, here)| here.queue.len() < limit)
        })
    }

    /// Appends those for which the object has a queue here with room. The others come back, and what was absorbed.
    pub(super) fn append_chunk(
        &self,
        object: &Lent<S>,
        chunk: [Option<Q::Operation>; CHUNK],
        origin: Origin,
    ) -> Left<Q::Operation> {
        let stamp = self.stamp();
        let slot = self.environment.slot();
        cpu::without_preemption(|| {
            let table = self.table(slot);
            let mut held = table.place(self.place(object)).lock();
            let place = held.get();
            let ours = place.tag == Some(object.tag());
            let mut here = place.queue.as_mut().filter(|_| ours);
            // What is left over, and what was absorbed: both outlive the lock.
            let left = chunk.map(|operation| {
                let operation = operation?;
                match &mut here {
                    Some(here) if here.is_short::<S>() => {
                        Some(Ok(self.push(here, operation, stamp, origin)))
                    }
                    _ => Some(Err(operation)),
                }
            });
            drop(held);
            left
        })
    }

    /// Appends an operation unless the slot's queue is at its limit, or that would mean to merge or to wait.
    pub(super) fn try_append(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        let stamp = self.stamp();
        let slot = self.environment.slot();
        let limit = match self.options.objects.policy {
            Policy::Grow => usize::MAX,
            _ => self.options.objects.limit,
        };
        cpu::without_preemption(|| {
            let table = self.table(slot);
            let busy = |operation| Full {
                operation,
                reason: FullReason::Busy,
            };
            let Some(mut held) = table.place(self.place(object)).lock_briefly() else {
                return Err(busy(operation));
            };
            let place = held.get();
            if place.tag != Some(object.tag()) {
                match self.bring_in(table, slot, place, object, false) {
                    Ok(()) => {}
                    Err(_) => return Err(busy(operation)),
                }
            }
            let here = place.lent();
            let absorbed = if here.queue.len() < limit {
                self.push(here, operation, stamp, origin)
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
}

impl<S, Q> Place<S, Q> {
    /// The queue of a place with a tag.
    #[inline(always)]
    fn lent(&mut self) -> &mut LentQueue<Q> {
        match &mut self.queue {
            Some(queue) => queue,
            None => unreachable!("a tagged place has a queue"),
        }
    }
}

/// An object and the cache that lends it queues.
struct InCache<'a, S, Q: Queue<S>, E: Environment> {
    cache: &'a Cache<S, Q, E>,
    object: &'a Lent<S>,
}

impl<S, Q: Queue<S>, E: Environment> Crowded for InCache<'_, S, Q, E> {
    fn is_stuck(&self) -> bool {
        self.object.is_poisoned()
    }

    fn enter(&self, wait: Wait) -> Result<Door<'_>, Refusal> {
        self.cache.enter(self.object, wait)
    }

    fn enter_unless_short(&self) -> Option<Door<'_>> {
        let Self { cache, object } = self;
        let lock = &object.gate.lock;
        let entered = lock.exclusive_unless(|| cache.is_short(object));
        entered.then(|| object.door())
    }

    fn merge_for_updater(&self, door: Door<'_>) {
        self.cache.merge_for_updater(self.object, door);
    }
}
