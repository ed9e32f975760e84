//! One deferred object: updates that are executed at once.

use super::batch::Merged;
use super::contained::{caught, contained};
use super::gate::{Gate, Wait};
use super::limits::Full;
#[cfg(all(feature = "std", not(percolog_loom)))]
use super::limits::Policy;
#[cfg(all(feature = "std", not(percolog_loom)))]
use super::mode::DIRTY;
use super::mode::Way;
use super::object::Object;
use super::queue::{Execute, Queue};
use super::slots::{Bound, Origin, Stamps};
use super::trial::SAMPLE;
use crate::cpu::{self, Environment};
use crate::sync::held;
#[cfg(all(feature = "std", not(percolog_loom)))]
use crate::sync::{Patience, atomic::Ordering};
use core::mem;

/// A thread inside an object, alone, who leaves when this is dropped.
struct Updating<'a> {
    gate: &'a Gate,
    at_once: bool,
}

impl<'a> Updating<'a> {
    /// For a thread that has just taken the lock, `at_once` or not.
    #[inline(always)]
    fn new(gate: &'a Gate, at_once: bool) -> Self {
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
struct OnPanic<'a>(&'a Gate);

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
        const CHUNK: usize = 16;
        let mut operations = operations.into_iter();
        loop {
            // The iterator is the caller's code and is asked with no lock held.
            let chunk: [Option<Q::Operation>; CHUNK] = core::array::from_fn(|_| operations.next());
            if chunk[0].is_none() {
                return Ok(());
            }
            if self.mode.is_eager() {
                let complete = chunk[CHUNK - 1].is_some();
                for operation in chunk.into_iter().flatten() {
                    self.queue(operation, origin)?;
                }
                if !complete {
                    return Ok(());
                }
                continue;
            }
            let stamp = self.stamp();
            let slot = self.environment.slot();
            let left = cpu::without_preemption(|| {
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
            });
            let complete = left[CHUNK - 1].is_some();
            for operation in left.into_iter().flatten().filter_map(Result::err) {
                // The first of them may merge, and then there is room for the others.
                self.queue(operation, origin)?;
            }
            if !complete {
                return Ok(());
            }
        }
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
        // A model that waits has many more interleavings, and no new ones that matter.
        #[cfg(all(feature = "std", not(percolog_loom)))]
        {
            let gate = &self.center.gate;
            // Somebody has waited in vain for who has it now; or an update is rather lost than waits.
            if gate.flags.load(Ordering::Relaxed) & DIRTY != 0
                || self.options.policy == Policy::MergeOrDiscard
            {
                return false;
            }
            let until = std::time::Instant::now() + MOMENT;
            gate.lock.exclusive(Patience::Until(until))
        }
        #[cfg(not(all(feature = "std", not(percolog_loom))))]
        false
    }
}

/// How long an update of an eager object waits for others before it is appended: longer than most operations, and than being woken takes.
#[cfg(all(feature = "std", not(percolog_loom)))]
const MOMENT: std::time::Duration = std::time::Duration::from_micros(200);
