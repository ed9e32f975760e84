//! One deferred object: updates that are executed at once.

use super::batch::Merged;
use super::contained::{caught, contained};
use super::gate::{Gate, Wait};
#[cfg(all(feature = "std", not(percolog_loom)))]
use super::limits::Policy;
use super::limits::{Full, Options};
use super::mode::{DIRTY, Way};
use super::object::Object;
use super::queue::{Execute, Queue};
use super::room::{CHUNK, Left, in_chunks};
use super::slots::{Bound, Origin, Stamps};
use super::trial::SAMPLE;
use crate::cpu::{self, Environment};
#[cfg(all(feature = "std", not(percolog_loom)))]
use crate::sync::Patience;
use crate::sync::atomic::Ordering;
use crate::sync::{ObjectLock, held};
use core::mem;

/// A thread inside an object, alone, who leaves when this is dropped.
pub(super) struct Updating<'a> {
    gate: &'a Gate,
    at_once: bool,
}

impl<'a> Updating<'a> {
    /// For a thread that has just taken the lock, `at_once` or not.
    #[inline(always)]
    pub(super) fn new(gate: &'a Gate, at_once: bool) -> Self {
        held::count_up();
        Self { gate, at_once }
    }
}

impl Drop for Updating<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        held::count_down();
        if self.at_once {
            self.gate.lock.release_exclusive_at_once();
        } else {
            self.gate.lock.release_exclusive();
        }
    }
}

/// Poisons the object when it is dropped: by a panic only.
pub(super) struct OnPanic<'a>(pub(super) &'a Gate);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.0.poison();
    }
}

impl<S, Q: Queue<S>, E: Environment> Object<S, Q, E> {
    /// Calls `f` with the state, if the object is free and nothing has to be executed before. Else `f` comes back.
    #[inline(always)]
    pub(crate) fn with_at_once<R, F: FnOnce(&mut S) -> R>(&self, f: F) -> Result<R, F> {
        let gate = &self.center.gate;
        if !self.mode.is_plain() || !gate.lock.try_exclusive_at_once() {
            return Err(f);
        }
        let _inside = Updating::new(gate, true);
        if !self.is_clean() {
            return Err(f);
        }
        self.center.guards.add(1);
        let on_panic = OnPanic(gate);
        // SAFETY: the object is held by `_inside`.
        let result = self
            .center
            .merged
            .with_mut(|merged| f(unsafe { &mut (*merged).state }));
        mem::forget(on_panic);
        Ok(result)
    }
}

impl<S, Q: Execute<S>, E: Environment> Object<S, Q, E> {
    /// Executes an operation now, if the object is free, and everything before it has been executed; with `HELPING` also if the object
    /// soon is free, and if what is before it can be executed by this thread. Else the operation comes back, and is to be appended.
    ///
    /// A thread that holds any object executes nothing: what it runs is somebody's operation, which must neither run into others
    /// without end nor keep its object for theirs.
    #[inline(always)]
    fn execute<const HELPING: bool>(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Q::Operation> {
        if !Q::at_once(&operation) || held::any() {
            return Err(operation);
        }
        let gate = &self.center.gate;
        if gate.lock.try_exclusive_at_once() {
            return self.execute_inside::<HELPING, false>(
                Updating::new(gate, true),
                operation,
                origin,
            );
        }
        if HELPING {
            return self.execute_soon(operation, origin);
        }
        Err(operation)
    }

    #[cold]
    #[inline(never)]
    fn execute_soon(&self, operation: Q::Operation, origin: Origin) -> Result<(), Q::Operation> {
        if !self.wait_briefly() {
            return Err(operation);
        }
        let gate = &self.center.gate;
        let inside = Updating::new(gate, false);
        if gate.lock.is_biased() && self.wait_for_readers(Wait::Briefly).is_err() {
            return Err(operation);
        }
        self.execute_inside::<true, true>(inside, operation, origin)
    }

    /// Executes an operation in a phase of reading, if nobody else has the object. Else queues it: who has it looks at the readers'
    /// marks, and it, or who reads next, executes what comes meanwhile.
    #[cold]
    #[inline(never)]
    fn queue_among_readers(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        let gate = &self.center.gate;
        if !Q::at_once(&operation) || held::any() || !gate.lock.try_exclusive() {
            return self.append_after_all(operation, origin);
        }
        let inside = Updating::new(gate, false);
        let executed = if gate.lock.is_biased() && self.wait_for_readers(Wait::Briefly).is_err() {
            drop(inside);
            Err(operation)
        } else {
            self.execute_inside::<true, false>(inside, operation, origin)
        };
        executed.or_else(|operation| self.append_after_all(operation, origin))
    }

    #[inline(always)]
    fn execute_inside<const HELPING: bool, const CONTENDED: bool>(
        &self,
        inside: Updating<'_>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Q::Operation> {
        let spent = self.center.merged.with_mut(|merged| {
            // SAFETY: the object is held by `inside`.
            let merged = unsafe { &mut *merged };
            if !(self.is_clean() || HELPING && self.catch_up(merged)) {
                return Err(operation);
            }
            let Merged { state, scratch, .. } = merged;
            let mut spent = None;
            if !caught(|| spent = Q::execute(operation, origin, state, scratch)) {
                self.center.gate.poison();
            }
            self.center.at_once.add(1);
            if CONTENDED {
                self.was_contended(merged, 1);
            } else if Q::ABSORBS {
                self.go_on_with_trial(merged);
            }
            Ok(spent)
        });
        drop(inside);
        // What is left of the operation is dropped without the lock.
        spent.map(drop)
    }

    /// Executes an operation if the object is eager and that goes, else queues it, and does what the policy says at the limit.
    #[inline]
    pub(crate) fn queue(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        match self.mode.way() {
            Way::Execute => match self.execute::<true>(operation, origin) {
                Ok(()) => Ok(()),
                Err(operation) => self.append_after_all(operation, origin),
            },
            Way::Log => self.append_or_merge(operation, origin),
            Way::Try => self.queue_on_trial(operation, origin),
            Way::ExecuteAmongReaders => self.queue_among_readers(operation, origin),
        }
    }

    /// Not where an operation is executed, which would save registers for it.
    #[cold]
    #[inline(never)]
    fn append_after_all(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        match self.append_counting(operation, origin, Bound::Threshold) {
            Ok(_) => Ok(()),
            Err(operation) => self.at_limit(operation, origin),
        }
    }

    /// Queues an operation, and ends the trial for which it is queued once this slot has enough of them.
    #[cold]
    #[inline(never)]
    fn queue_on_trial(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        // As for who executes an operation: what is merged here runs inside this update.
        let may_merge = Q::at_once(&operation) && !held::any();
        match self.append_counting(operation, origin, Bound::Threshold) {
            Ok(logged) if logged >= SAMPLE && may_merge => {
                if let Ok(door) = self.enter(Wait::No) {
                    self.merge_for_updater(door);
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(operation) => self.at_limit(operation, origin),
        }
    }

    /// Queues an operation, or executes it if the object is eager, unless others have to be executed before, and the slot's queue is
    /// at its limit or in use.
    #[inline]
    pub(crate) fn try_queue(
        &self,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        if !self.mode.is_plain() {
            return self.try_append(operation, origin);
        }
        match self.execute::<false>(operation, origin) {
            Ok(()) => Ok(()),
            Err(operation) => self.try_append(operation, origin),
        }
    }

    /// Queues many operations with few locks and stamps.
    pub(crate) fn extend(
        &self,
        operations: impl IntoIterator<Item = Q::Operation>,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        in_chunks(
            operations,
            |chunk| {
                if self.mode.is_eager() {
                    chunk.map(|operation| operation.map(Err))
                } else {
                    self.append_chunk(chunk, origin)
                }
            },
            // The first of them may merge, and then there is room for the others.
            |operation| self.queue(operation, origin),
        )
    }

    /// Appends those for which there is room. The others come back, and what was absorbed.
    fn append_chunk(
        &self,
        chunk: [Option<Q::Operation>; CHUNK],
        origin: Origin,
    ) -> Left<Q::Operation> {
        let stamp = self.stamp();
        let slot = self.environment.slot();
        cpu::without_preemption(|| {
            let mut held = self.slots.get(slot, &self.options).lock();
            let here = held.get();
            // What is left over, and what was absorbed: both outlive the lock.
            let left = chunk.map(|operation| {
                let operation = operation?;
                if here.is_short::<S>() {
                    Some(Ok(self.push(slot, here, operation, stamp, origin)))
                } else {
                    Some(Err(operation))
                }
            });
            drop(held);
            left
        })
    }

    /// Executes what has been appended before, in an object that is eager. Whether nothing is left.
    #[cold]
    #[inline(never)]
    fn catch_up(&self, merged: &mut Merged<S, Q>) -> bool {
        if !self.options.updaters_merge() || self.is_poisoned() || !self.mode.is_eager() {
            return false;
        }
        contained(|| {
            let account = &self.center.account;
            let executed = self.merge(merged);
            account.updater_merges.add(1);
            account.longest_updater_merge.raise_to(executed as u64);
        }) && !merged.unapplied
            && !self.is_poisoned()
    }

    /// Waits as long as a few updates take. Whether the lock has been taken then.
    #[cold]
    #[inline(never)]
    fn wait_briefly(&self) -> bool {
        // Somebody has waited in vain for who has it now.
        let waits = self.center.gate.flags.load(Ordering::Relaxed) & DIRTY == 0;
        waits && in_a_moment(&self.center.gate.lock, &self.options)
    }
}

/// Takes the lock if it becomes free as soon as a few updates take; not where an update is rather lost than waits.
pub(super) fn in_a_moment(lock: &ObjectLock, options: &Options) -> bool {
    // A model that waits has many more interleavings, and no new ones that matter.
    #[cfg(all(feature = "std", not(percolog_loom)))]
    {
        let until = std::time::Instant::now() + MOMENT;
        options.policy != Policy::MergeOrDiscard && lock.exclusive(Patience::Until(until))
    }
    #[cfg(not(all(feature = "std", not(percolog_loom))))]
    {
        let _ = (lock, options);
        false
    }
}

/// How long an update of an eager object waits for others before it is appended: longer than most operations, and than being woken takes.
#[cfg(all(feature = "std", not(percolog_loom)))]
const MOMENT: std::time::Duration = std::time::Duration::from_micros(200);
