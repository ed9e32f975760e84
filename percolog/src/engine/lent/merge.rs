//! How updates come together.

use super::cache::{Batch, Cache};
use super::core_set::CoreSet;
use super::object::Lent;
use crate::cpu::{CoreId, Environment};
use crate::engine::contained::contained;
use crate::engine::gate::{Door, is_panicking};
use crate::engine::guard::{Shared, SynchronizeError, Synchronized};
use crate::engine::limits::OnDrop;
use crate::engine::object::{Refusal, Wait};
use crate::engine::queue::Queue;
use crate::sync::held;
use alloc::vec::Vec;
use core::ptr::NonNull;

/// A thread inside an object, alone, without a guard: gives the object back when dropped.
struct Inside<'a>(Door<'a>);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave_exclusive();
    }
}

/// An object that is closed: opened when dropped.
struct Closed<'a, S>(&'a Lent<S>);

impl<S> Drop for Closed<'_, S> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A batch that is being applied. A panic poisons the object, and what is left is kept, in order, until the
/// poison is cleared.
struct Work<'a, S, Q: Queue<S>, E: Environment> {
    cache: &'a Cache<S, Q, E>,
    object: &'a Lent<S>,
    batch: Option<Batch<S, Q>>,
    completed: bool,
}

impl<S, Q: Queue<S>, E: Environment> Drop for Work<'_, S, Q, E> {
    fn drop(&mut self) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        if self.completed {
            self.cache.keep(batch);
            return;
        }
        self.object.gate.poison();
        self.cache.leave_unfinished(self.object, batch);
    }
}

/// A batch that comes behind what a panic had left. If that panics as well, the batch is kept behind it.
struct Behind<'a, S, Q: Queue<S>, E: Environment> {
    cache: &'a Cache<S, Q, E>,
    object: &'a Lent<S>,
    batch: Option<Batch<S, Q>>,
}

impl<S, Q: Queue<S>, E: Environment> Drop for Behind<'_, S, Q, E> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.cache.leave_unfinished(self.object, batch);
        }
    }
}

/// An object that is going away: when this is dropped, also by a panic, nothing is kept of it.
struct Forget<'a, S, Q: Queue<S>, E: Environment> {
    cache: &'a Cache<S, Q, E>,
    address: usize,
}

impl<S, Q: Queue<S>, E: Environment> Drop for Forget<'_, S, Q, E> {
    fn drop(&mut self) {
        self.cache.forget(self.address);
    }
}

impl<S, Q: Queue<S>, E: Environment> Cache<S, Q, E> {
    /// Takes what is queued on the slots of the set, and the object's tags, and opens the object.
    fn take(&self, object: &Lent<S>, set: CoreSet, batch: &mut Batch<S, Q>) {
        let closed = Closed(object);
        let mut latest = 0;
        let threshold = self.options.objects.first_threshold();
        // Who is in the set has a table, which `end` therefore covers.
        set.each(self.slots.end(), |slot| {
            let Some(table) = self.slots.touched(CoreId::new(slot as u32)) else {
                return;
            };
            if batch.queues.len() == batch.used {
                batch.queues.push(Q::new(self.limits()));
            }
            let empty = &mut batch.queues[batch.used];
            // Dropped without a lock.
            let mut excess = None;
            let mut held = table.places[self.place(object)].lock();
            let place = held.get();
            let taken = if place.tag == Some(object.tag()) {
                place.tag = None;
                place.queue.as_mut().map(|here| {
                    here.queue.exchange(empty);
                    here.threshold = threshold;
                    here.latest
                })
            } else {
                // Under the lock of the place, or it could come back meanwhile.
                let mut side = table.side.lock();
                let aside = side.get().take(object);
                aside.map(|mut here| {
                    here.queue.exchange(empty);
                    here.threshold = threshold;
                    let latest = here.latest;
                    excess = side.get().put_back(here, self.options.queues);
                    latest
                })
            };
            drop(held);
            drop(excess);
            if let Some(stamp) = taken {
                batch.used += 1;
                latest = latest.max(stamp);
            }
        });
        drop(closed);
        // Later than every stamp in the queues: each was taken before its lock was released, and we have
        // acquired them all.
        if latest > self.stamp() {
            self.disorder(latest);
        }
    }

    /// Applies a batch.
    fn apply(&self, object: &Lent<S>, batch: Batch<S, Q>, prepare: bool) {
        let mut work = Work {
            cache: self,
            object,
            batch: Some(batch),
            completed: false,
        };
        let Some(batch) = &mut work.batch else {
            unreachable!("put there a moment ago")
        };
        let Batch {
            queues,
            used,
            scratch,
        } = batch;
        let queues = &mut queues[..*used];
        if prepare {
            Q::prepare(queues, scratch);
        }
        object.state.with_mut(|state| {
            // SAFETY: the caller has the object to itself.
            Q::apply(queues, unsafe { &mut *state }, usize::MAX, scratch);
        });
        work.completed = true;
    }

    /// The first part of what a panic has left of the object's updates.
    fn take_unfinished(&self, object: &Lent<S>) -> Option<Batch<S, Q>> {
        if !object.is_unfinished() {
            return None;
        }
        let mut held = self.unfinished.lock();
        let all = held.get();
        let mut mine = (0..all.len()).filter(|at| all[*at].0 == object.address());
        let (first, more) = (mine.next(), mine.next().is_some());
        object.set_unfinished(more);
        // In order: what was left first is applied first.
        first.map(|at| all.remove(at).1)
    }

    /// Keeps operations for later, behind those that are kept already.
    fn leave_unfinished(&self, object: &Lent<S>, batch: Batch<S, Q>) {
        object.set_unfinished(true);
        self.unfinished.lock().get().push((object.address(), batch));
    }

    fn merge_unfinished(&self, object: &Lent<S>) {
        while let Some(batch) = self.take_unfinished(object) {
            self.apply(object, batch, false);
        }
    }

    /// Executes everything that is pending. The caller has the object for itself.
    fn merge(&self, object: &Lent<S>) {
        self.merge_unfinished(object);
        if !object.is_clean() {
            let mut batch = self.batch();
            self.take(object, object.close(), &mut batch);
            self.apply(object, batch, true);
        }
    }

    /// Merges for the sake of another object, or of an updater at the limit, who must not suffer for what others
    /// have queued: a panic poisons the object and stays here.
    pub(super) fn merge_contained(&self, object: &Lent<S>) {
        if !object.is_poisoned() {
            contained(|| self.merge(object));
        }
    }

    pub(super) fn merge_for_updater(&self, object: &Lent<S>, door: Door<'_>) {
        let _inside = Inside(door);
        self.merge_contained(object);
    }

    /// Takes the object for this thread alone.
    pub(super) fn enter<'a>(&self, object: &'a Lent<S>, wait: Wait) -> Result<Door<'a>, Refusal> {
        if held::contains(object.address()) {
            return Err(Refusal::Held);
        }
        let entered = match wait {
            Wait::No => object.gate.lock.try_exclusive(),
            Wait::For(patience) => object.gate.lock.exclusive(patience),
        };
        if entered {
            Ok(object.door())
        } else {
            Err(Refusal::Busy)
        }
    }

    pub(crate) fn synchronize<'a>(
        &self,
        object: &'a Lent<S>,
        wait: Wait,
    ) -> Result<Synchronized<'a, S>, SynchronizeError<Synchronized<'a, S>>> {
        let door = self.enter(object, wait)?;
        let inside = Inside(door);
        let poisoned = object.is_poisoned();
        if !poisoned {
            self.merge(object);
        }
        core::mem::forget(inside);
        // SAFETY: the object is held, and the guard gives it back.
        let guard = object
            .state
            .with_mut(|state| unsafe { Synchronized::new(door, NonNull::new_unchecked(state)) });
        if poisoned {
            Err(SynchronizeError::Poisoned(guard))
        } else {
            Ok(guard)
        }
    }

    pub(crate) fn read<'a>(
        &self,
        object: &'a Lent<S>,
        wait: Wait,
    ) -> Result<Shared<'a, S>, SynchronizeError<Shared<'a, S>>>
    where
        S: Sync,
    {
        if held::contains(object.address()) {
            return Err(SynchronizeError::Held);
        }
        let entered = match wait {
            Wait::No => object.gate.lock.try_shared(),
            Wait::For(patience) => object.gate.lock.shared(patience),
        };
        if !entered {
            return Err(SynchronizeError::Busy);
        }
        let door = object.door();
        let (clean, poisoned) = (object.is_clean(), object.is_poisoned());
        if clean || poisoned {
            // SAFETY: we went through the door for shared use, and the state is only read through the pointer.
            let guard = object.state.with(|state| unsafe {
                Shared::new(door, NonNull::new_unchecked(state.cast_mut()))
            });
            return if poisoned {
                Err(SynchronizeError::Poisoned(guard))
            } else {
                Ok(guard)
            };
        }
        door.leave_shared();
        self.synchronize(object, wait)
            .map(Synchronized::downgrade)
            .map_err(|error| error.map_guard(Synchronized::downgrade))
    }

    /// Merges an object that nobody else uses just now. It has no tag afterwards.
    pub(crate) fn finish(&self, object: &mut Lent<S>) {
        let set = object.close_for_owner();
        let object: &Lent<S> = object;
        let mut batch = self.batch();
        self.take(object, set, &mut batch);
        let mut behind = Behind {
            cache: self,
            object,
            batch: Some(batch),
        };
        self.merge_unfinished(object);
        if let Some(batch) = behind.batch.take() {
            self.apply(object, batch, true);
        }
    }

    /// Merges or drops what is pending of an object that is going away. There is no trace of it afterwards.
    pub(crate) fn destroy(&self, object: &mut Lent<S>) {
        held::forget(object.address());
        let apply = self.options.objects.on_drop == OnDrop::Apply
            && !object.is_poisoned()
            && !is_panicking();
        if apply {
            let forget = Forget {
                cache: self,
                address: object.address(),
            };
            self.finish(object);
            drop(forget);
            return;
        }
        let set = object.close_for_owner();
        let mut batch = self.batch();
        self.take(object, set, &mut batch);
        self.forget(object.address());
        // Operations may have something to drop that comes back here: no lock is held.
        drop(batch);
    }

    /// Drops what a panic has left of an object that is going away.
    fn forget(&self, address: usize) {
        let left: Vec<_> = {
            let mut held = self.unfinished.lock();
            held.get()
                .extract_if(.., |(of, _)| *of == address)
                .collect()
        };
        drop(left);
    }

    /// The state as merged so far, to show it, if nobody has the object just now.
    pub(crate) fn peek<R>(&self, object: &Lent<S>, f: impl FnOnce(&S) -> R) -> Option<R> {
        let door = self.enter(object, Wait::No).ok()?;
        let _inside = Inside(door);
        // SAFETY: the object is held until `_inside` is dropped.
        Some(object.state.with(|state| f(unsafe { &*state })))
    }
}
