//! How updates come together.

use super::cache::{Batch, Cache, Locked, Place, Table};
use super::core_set::CoreSet;
use super::object::Lent;
use crate::cpu::{CoreId, Environment};
use crate::engine::contained::contained;
use crate::engine::gate::{Door, Refusal, Wait, is_panicking};
use crate::engine::guard::{ReadGuard, SynchronizeError, Synchronized};
use crate::engine::limits::OnDrop;
use crate::engine::queue::Queue;
use crate::engine::slots::{Origin, Stamps};
use crate::engine::stats::Drained;
use crate::sync::held;
use alloc::vec::Vec;
use core::mem;
use core::ptr::NonNull;

/// A thread inside an object, alone, without a guard: gives the object back when dropped.
struct Inside<'a>(Door<'a>);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave_exclusive();
    }
}

/// A slot's table, and an object's place in it.
type Here<'a, S, Q> = (&'a Table<S, Q>, &'a Locked<Place<S, Q>>);

/// An object that is closed: opened when dropped.
struct Closed<'a, S>(&'a Lent<S>);

impl<S> Drop for Closed<'_, S> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A batch that is being applied. What is left of it is kept, in order: behind the budget, or by a panic, which poisons
/// the object, until the poison is cleared.
struct Work<'a, S, Q: Queue<S>, E: Environment> {
    cache: &'a Cache<S, Q, E>,
    object: &'a Lent<S>,
    batch: Option<Batch<S, Q>>,
    /// How many operations were in it.
    length: usize,
    completed: bool,
}

impl<S, Q: Queue<S>, E: Environment> Drop for Work<'_, S, Q, E> {
    fn drop(&mut self) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        let left = batch.len();
        let executed = (self.length - left) as u64;
        self.cache.charge(|bill| bill.executed += executed);
        if self.completed && left == 0 {
            self.cache.keep(batch);
            return;
        }
        if !self.completed {
            self.object.gate.poison();
        }
        self.cache.leave_unfinished(self.object, batch, true);
    }
}

/// A batch that is not being applied yet. If anything panics before it is, the batch is kept, behind what a panic had left.
struct Behind<'a, S, Q: Queue<S>, E: Environment> {
    cache: &'a Cache<S, Q, E>,
    object: &'a Lent<S>,
    batch: Option<Batch<S, Q>>,
}

impl<S, Q: Queue<S>, E: Environment> Drop for Behind<'_, S, Q, E> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.cache.leave_unfinished(self.object, batch, false);
        }
    }
}

impl<S, Q: Queue<S>, E: Environment> Behind<'_, S, Q, E> {
    /// The batch, which the caller sees to.
    fn done(mut self) -> Batch<S, Q> {
        match self.batch.take() {
            Some(batch) => batch,
            None => unreachable!("it is there until it is taken or dropped"),
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
    fn take<'a>(&'a self, object: &'a Lent<S>, set: CoreSet) -> Behind<'a, S, Q, E> {
        let closed = Closed(object);
        let mut taken = Behind {
            cache: self,
            object,
            batch: Some(self.batch()),
        };
        let Some(batch) = &mut taken.batch else {
            unreachable!("put there a moment ago")
        };
        let (mut latest, mut absorbed) = (0, 0);
        let threshold = self.options.objects.first_threshold();
        // Who is in the set has a table, which `end` therefore covers.
        set.each(self.slots.end(), |slot| {
            // A slot that may be in the set need not be.
            let Some((table, place)) = self.made(slot, object) else {
                return;
            };
            if batch.queues.len() == batch.used {
                batch.queues.push(Q::new(self.limits()));
            }
            let empty = &mut batch.queues[batch.used];
            // Dropped without a lock.
            let mut excess = None;
            let mut held = place.lock();
            let place = held.get();
            let taken = if place.tag == Some(object.tag()) {
                place.tag = None;
                place.queue.as_mut().map(|here| {
                    here.queue.exchange(empty);
                    here.set_threshold(threshold);
                    absorbed += here.take_absorbed();
                    here.latest
                })
            } else {
                // Under the lock of the place, or it could come back meanwhile.
                let mut side = table.side.lock();
                let aside = side.get().take(object);
                aside.map(|mut here| {
                    here.queue.exchange(empty);
                    here.set_threshold(threshold);
                    absorbed += here.take_absorbed();
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
        batch.absorbed = absorbed;
        // Who waits with a full queue has none now, and need not wait for the operations to be executed.
        object.gate.lock.let_updaters_go();
        taken
    }

    /// Applies up to `budget` operations of a batch, and returns how many; keeps what is left. Looks first, if it is
    /// told to, for operations that need not be executed.
    fn apply(&self, object: &Lent<S>, batch: Batch<S, Q>, prepare: bool, budget: usize) -> usize {
        let mut work = Work {
            cache: self,
            object,
            length: batch.len(),
            batch: Some(batch),
            completed: false,
        };
        let Some(batch) = &mut work.batch else {
            unreachable!("put there a moment ago")
        };
        let Batch {
            queues,
            used,
            absorbed: absorbed_before,
            scratch,
        } = batch;
        let queues = &mut queues[..*used];
        if prepare {
            let before = mem::take(absorbed_before);
            self.was_merged(object, work.length as u64 + before, queues.len());
            Q::prepare(queues, scratch);
            let left = queues.iter().map(Q::len).sum::<usize>();
            let absorbed = before + (work.length - left) as u64;
            work.length = left;
            self.charge(|bill| {
                bill.merges += 1;
                bill.absorbed += absorbed;
            });
        }
        let executed = object.state.with_mut(|state| {
            // SAFETY: the caller has the object to itself.
            Q::apply(queues, unsafe { &mut *state }, budget, scratch)
        });
        work.completed = true;
        executed
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

    /// Keeps operations for later: before those of the object that are kept already, or behind them.
    pub(super) fn leave_unfinished(&self, object: &Lent<S>, batch: Batch<S, Q>, before: bool) {
        object.set_unfinished(true);
        let mut held = self.unfinished.lock();
        let all = held.get();
        let at = if before { 0 } else { all.len() };
        all.insert(at, (object.address(), batch));
    }

    /// Executes up to `budget` operations of what has been left before, and returns how many.
    fn merge_unfinished(&self, object: &Lent<S>, budget: usize) -> usize {
        let mut executed = 0;
        while executed < budget
            && let Some(batch) = self.take_unfinished(object)
        {
            executed += self.apply(object, batch, false, budget - executed);
        }
        executed
    }

    /// Executes up to `budget` operations of what is pending, and returns how many. The caller has the object for itself.
    fn merge(&self, object: &Lent<S>, budget: usize) -> usize {
        let executed = self.merge_unfinished(object, budget);
        if object.is_unfinished() || object.is_clean() {
            return executed;
        }
        let taken = self.take(object, object.close());
        executed + self.apply(object, taken.done(), true, budget - executed)
    }

    /// Merges for the sake of another object, or of an updater at the limit, who must not suffer for what others
    /// have queued: a panic poisons the object and stays here.
    pub(super) fn merge_contained(&self, object: &Lent<S>) {
        if !object.is_poisoned() {
            contained(|| self.merge_and_charge(object));
        }
    }

    fn merge_and_charge(&self, object: &Lent<S>) {
        let executed = self.merge(object, usize::MAX) as u64;
        self.charge(|bill| {
            bill.longest_updater_merge = bill.longest_updater_merge.max(executed);
        });
    }

    pub(super) fn merge_for_updater(&self, object: &Lent<S>, door: Door<'_>) {
        let _inside = Inside(door);
        self.merge_contained(object);
        self.charge(|bill| bill.updater_merges += 1);
    }

    /// Executes up to `budget` operations if nobody else has the object. A panic stays here.
    pub(crate) fn drain(&self, object: &Lent<S>, budget: usize) -> Drained {
        let mut drained = Drained {
            executed: 0,
            finished: false,
        };
        let Ok(door) = self.enter(object, Wait::No) else {
            return drained;
        };
        let _inside = Inside(door);
        if !object.is_poisoned() {
            contained(|| {
                drained.executed = self.merge(object, budget);
                drained.finished = !object.is_unfinished();
            });
        }
        drained
    }

    /// The slot's table, and the object's place in it, if that has been made.
    fn made(&self, slot: usize, object: &Lent<S>) -> Option<Here<'_, S, Q>> {
        let table = self.slots.touched(CoreId::new(slot as u32))?;
        Some((table, table.places.made(self.place(object))?))
    }

    /// How many operations of the object are queued and not yet executed. Locks the object's place on each slot that has
    /// a queue of its, for a moment.
    pub(crate) fn pending(&self, object: &Lent<S>) -> usize {
        let mut pending = 0;
        object.slots().each(self.slots.end(), |slot| {
            let Some((table, place)) = self.made(slot, object) else {
                return;
            };
            let mut held = place.lock();
            let place = held.get();
            if place.tag == Some(object.tag()) {
                pending += place.queue.as_ref().map_or(0, |here| here.queue.len());
            } else {
                // Under the lock of the place, as in `take`.
                let mut side = table.side.lock();
                let mut aside = side.get().aside.iter();
                pending += aside
                    .find(|(tag, _)| *tag == object.tag())
                    .map_or(0, |(_, here)| here.queue.len());
            }
        });
        if object.is_unfinished() {
            let mut held = self.unfinished.lock();
            let all = held.get().iter();
            pending += all
                .filter(|(of, _)| *of == object.address())
                .map(|(_, batch)| batch.len())
                .sum::<usize>();
        }
        pending
    }

    /// Where the operation that poisoned the object was queued, if that was recorded.
    pub(crate) fn culprit(&self, object: &Lent<S>) -> Origin {
        let mut held = self.unfinished.lock();
        let mut all = held.get().iter();
        let (_, batch) = all.find(|(of, _)| *of == object.address())?;
        Q::origin(&batch.scratch)
    }

    /// Takes the object for this thread alone.
    pub(super) fn enter<'a>(&self, object: &'a Lent<S>, wait: Wait) -> Result<Door<'a>, Refusal> {
        object.gate.enter(None, wait)
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
            self.merge(object, usize::MAX);
        }
        mem::forget(inside);
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

    /// Put where it is called, as for objects that own their queues.
    #[inline(always)]
    pub(crate) fn read<'a>(
        &self,
        object: &'a Lent<S>,
        wait: Wait,
    ) -> Result<ReadGuard<'a, S>, SynchronizeError<ReadGuard<'a, S>>>
    where
        S: Sync,
    {
        // Who holds any object may hold this one.
        if held::any() {
            return self.read_slowly(object, wait, false);
        }
        if !object.gate.lock.try_shared_at_once() {
            return self.read_slowly(object, wait, true);
        }
        let door = object.gate.shared_door(None);
        if object.is_whole() {
            // SAFETY: we went through the door for shared use.
            return Ok(unsafe { object.guard(door) });
        }
        door.leave_shared(None);
        self.read_slowly(object, wait, false)
    }

    /// `met`: there were others at the lock.
    #[cold]
    #[inline(never)]
    fn read_slowly<'a>(
        &self,
        object: &'a Lent<S>,
        wait: Wait,
        met: bool,
    ) -> Result<ReadGuard<'a, S>, SynchronizeError<ReadGuard<'a, S>>>
    where
        S: Sync,
    {
        let door = if met && object.gate.lock.shared_at_once_soon() {
            object.gate.shared_door(None)
        } else {
            object.gate.enter_shared(None, wait)?
        };
        let (clean, poisoned) = (object.is_clean(), object.is_poisoned());
        if clean || poisoned {
            // SAFETY: we went through the door for shared use.
            let guard = unsafe { object.guard(door) };
            return if poisoned {
                Err(SynchronizeError::Poisoned(guard))
            } else {
                Ok(guard)
            };
        }
        door.leave_shared(None);
        self.synchronize(object, wait)
            .map(Synchronized::downgrade)
            .map_err(|error| error.map_guard(Synchronized::downgrade))
    }

    /// Merges an object that nobody else uses just now. It has no tag afterwards.
    pub(crate) fn finish(&self, object: &mut Lent<S>) {
        let set = object.close_for_owner();
        let object: &Lent<S> = object;
        let behind = self.take(object, set);
        self.merge_unfinished(object, usize::MAX);
        self.apply(object, behind.done(), true, usize::MAX);
    }

    /// Merges or drops what is pending of an object that is going away. There is no trace of it afterwards.
    pub(crate) fn destroy(&self, object: &mut Lent<S>) {
        object.gate.forget();
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
        let batch = self.take(object, set).done();
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

impl<S, Q: Queue<S>> Batch<S, Q> {
    /// How many operations are in it.
    fn len(&self) -> usize {
        self.queues[..self.used].iter().map(Q::len).sum()
    }
}
