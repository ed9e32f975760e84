//! Updates that are executed at once, and when.

use super::cache::{Batch, Bill, Cache};
use super::object::Lent;
use crate::cpu::Environment;
use crate::engine::contained::caught;
use crate::engine::eager::{OnPanic, Updating, in_a_moment};
use crate::engine::limits::{Full, Mode};
use crate::engine::queue::{Execute, Queue};
use crate::engine::room::in_chunks;
use crate::engine::slots::Origin;
use crate::sync::atomic::Ordering;
use crate::sync::held;
use core::mem;

/// Of so many updates that had to wait for the lock, one makes its object deferring. Eight bytes have no room for a count of an object's own, so it is
/// drawn: an object that is contended more often is met more often.
const CONTENDED: u32 = 16;

/// Of so many merges that found little, one makes its object eager.
const COOL: u32 = 4;

/// Merges that find fewer operations speak for executing them at once.
const FEW: u64 = 8;

impl<S, Q: Execute<S>, E: Environment> Cache<S, Q, E> {
    /// Executes an operation if the object is eager and that goes, else queues it, and does what the policy says at the limit.
    #[inline]
    pub(crate) fn queue(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        if !self.executes(object) {
            return self.append_or_merge(object, operation, origin);
        }
        match self.execute::<true>(object, operation, origin) {
            Ok(()) => Ok(()),
            Err(operation) => self.append_or_merge(object, operation, origin),
        }
    }

    /// Executes an operation, or queues it unless the slot's queue is at its limit, or that would mean to merge or to wait.
    pub(crate) fn try_queue(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        if !self.executes(object) {
            return self.try_append(object, operation, origin);
        }
        match self.execute::<false>(object, operation, origin) {
            Ok(()) => Ok(()),
            Err(operation) => self.try_append(object, operation, origin),
        }
    }

    /// Queues many operations with few locks and stamps.
    pub(crate) fn extend(
        &self,
        object: &Lent<S>,
        operations: impl IntoIterator<Item = Q::Operation>,
        origin: Origin,
    ) -> Result<(), Full<Q::Operation>> {
        in_chunks(
            operations,
            |chunk| {
                if self.executes(object) {
                    chunk.map(|operation| operation.map(Err))
                } else {
                    self.append_chunk(object, chunk, origin)
                }
            },
            // The first of them gets the object a queue, or merges, and then there is room for the others.
            |operation| self.queue(object, operation, origin),
        )
    }

    /// Calls `f` with the state, if the object is free and nothing has to be executed before. Else `f` comes back.
    #[inline]
    pub(crate) fn with_at_once<R, F: FnOnce(&mut S) -> R>(
        &self,
        object: &Lent<S>,
        f: F,
    ) -> Result<R, F> {
        if !object.gate.lock.try_exclusive_at_once() {
            return Err(f);
        }
        let _inside = Updating::new(&object.gate, true);
        if !object.is_whole() {
            return Err(f);
        }
        let on_panic = OnPanic(&object.gate);
        // SAFETY: the object is held by `_inside`.
        let result = object.state.with_mut(|state| f(unsafe { &mut *state }));
        mem::forget(on_panic);
        Ok(result)
    }

    /// Whether an update tries to execute its operation.
    #[inline(always)]
    fn executes(&self, object: &Lent<S>) -> bool {
        match self.options.objects.mode {
            Mode::Adaptive => !object.defers(),
            Mode::Eager => true,
            Mode::Deferring => false,
            Mode::Restless => self.draw(),
        }
    }

    /// Now so, now so.
    #[cold]
    fn draw(&self) -> bool {
        // Relaxed: it publishes nothing.
        let drawn = self.account.restless.fetch_add(1, Ordering::Relaxed);
        drawn.wrapping_mul(0x9e37_79b9) >> 31 == 0
    }

    /// As for objects that own their queues: executes an operation now, if the object is free, and everything before it has been executed; with
    /// `HELPING` also if the object soon is free, and if what is before it can be executed by this thread. Else the operation comes back. A thread
    /// that holds any object executes nothing.
    #[inline(always)]
    fn execute<const HELPING: bool>(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Q::Operation> {
        if !Q::at_once(&operation) || held::any() {
            return Err(operation);
        }
        let gate = &object.gate;
        if gate.lock.try_exclusive_at_once() {
            let inside = Updating::new(gate, true);
            return self.execute_inside::<HELPING>(object, inside, operation, origin);
        }
        if HELPING {
            return self.execute_soon(object, operation, origin);
        }
        Err(operation)
    }

    #[cold]
    #[inline(never)]
    fn execute_soon(
        &self,
        object: &Lent<S>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Q::Operation> {
        // Somebody has waited in vain for who has it now.
        if !object.is_clean() || !in_a_moment(&object.gate.lock, &self.options.objects) {
            return Err(operation);
        }
        let inside = Updating::new(&object.gate, false);
        self.was_contended(object);
        self.execute_inside::<true>(object, inside, operation, origin)
    }

    #[inline(always)]
    fn execute_inside<const HELPING: bool>(
        &self,
        object: &Lent<S>,
        inside: Updating<'_>,
        operation: Q::Operation,
        origin: Origin,
    ) -> Result<(), Q::Operation> {
        if !(object.is_whole() || HELPING && self.catch_up(object)) {
            return Err(operation);
        }
        let mut spent = None;
        let mut scratch = None;
        let executed = object.state.with_mut(|state| {
            // SAFETY: the object is held by `inside`.
            let state = unsafe { &mut *state };
            caught(|| spent = Q::execute(operation, origin, state, &mut scratch))
        });
        if !executed {
            self.blame(object, scratch);
        }
        drop(inside);
        // What is left of the operation is dropped without the lock.
        drop(spent);
        Ok(())
    }

    /// An operation has panicked.
    #[cold]
    #[inline(never)]
    fn blame(&self, object: &Lent<S>, scratch: Option<Q::Scratch>) {
        object.gate.poison();
        if let Some(scratch) = scratch {
            // It says where the operation was queued.
            let batch = Batch {
                queues: Default::default(),
                used: 0,
                absorbed: 0,
                scratch,
            };
            self.leave_unfinished(object, batch, true);
        }
    }

    /// Executes what has been queued before, if this thread may. Whether nothing is left.
    #[cold]
    #[inline(never)]
    fn catch_up(&self, object: &Lent<S>) -> bool {
        if !self.options.objects.updaters_merge() || object.is_poisoned() || object.defers() {
            return false;
        }
        self.merge_contained(object);
        self.charge(|bill| bill.updater_merges += 1);
        !object.is_poisoned() && !object.is_unfinished()
    }
}

impl<S, Q: Queue<S>, E: Environment> Cache<S, Q, E> {
    /// An update has waited for the lock of the object, which it now has.
    #[cold]
    fn was_contended(&self, object: &Lent<S>) {
        self.learn(object, true, CONTENDED);
    }

    /// A merge has found so many operations, those that were absorbed included, in so many queues.
    pub(super) fn was_merged(&self, object: &Lent<S>, found: u64, queues: usize) {
        // What only one slot has queued, nobody else was in the way of.
        if found < FEW || queues < 2 {
            self.learn(object, false, COOL);
        }
    }

    /// Something speaks for a mode: one time of so many the object, which the caller has to itself, takes it.
    fn learn(&self, object: &Lent<S>, defers: bool, times: u32) {
        if self.options.objects.mode != Mode::Adaptive || object.defers() == defers {
            return;
        }
        self.charge(|bill| {
            if bill.draw(times) && object.set_defers(defers) {
                bill.mode_changes += 1;
            }
        });
    }
}

impl Bill {
    /// True once in so many times, as luck has it.
    fn draw(&mut self, times: u32) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random.is_multiple_of(times)
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;
    use crate::cpu::{CoreId, Native};
    use crate::engine::queue::{Absorbed, Limits};
    use crate::engine::{CacheOptions, slots};
    use alloc::vec::Vec;
    use core::convert::Infallible;

    /// In which there is nothing.
    struct Empty;

    impl Queue<u32> for Empty {
        type Operation = Infallible;
        type Scratch = ();
        type Swept = ();
        const STAMPED: bool = false;

        fn new(_: Limits) -> Self {
            Self
        }

        fn append(
            &mut self,
            operation: Infallible,
            _: u64,
            _: slots::Origin,
        ) -> Absorbed<Infallible> {
            match operation {}
        }

        fn sweep(&mut self) {}

        fn len(&self) -> usize {
            0
        }

        fn memory(&self) -> usize {
            0
        }

        fn apply(_: &mut [Self], _: &mut u32, _: usize, (): &mut ()) -> usize {
            0
        }
    }

    type Sums = Cache<u32, Empty, Native>;

    fn mode_of(cache: &Sums, object: &Lent<u32>) -> (bool, u64) {
        (object.defers(), cache.stats().mode_changes)
    }

    #[test]
    fn an_object_defers_while_that_is_worth_it() {
        let cache = Sums::new(CacheOptions::DEFAULT, Native);
        let [object, other] = [Lent::new(0), Lent::new(0)];
        // So often that it is certain.
        let often = |learn: &dyn Fn()| (0..1000).for_each(|_| learn());
        often(&|| cache.was_merged(&object, 1, 1));
        assert_eq!(mode_of(&cache, &object), (false, 0));
        often(&|| cache.was_contended(&object));
        assert_eq!(mode_of(&cache, &object), (true, 1));
        assert!(!other.defers());
        often(&|| cache.was_merged(&object, FEW, 2));
        assert_eq!(mode_of(&cache, &object), (true, 1));
        often(&|| cache.was_merged(&object, FEW - 1, 2));
        assert_eq!(mode_of(&cache, &object), (false, 2));
        often(&|| cache.was_contended(&object));
        often(&|| cache.was_merged(&object, 1000, 1));
        assert_eq!(mode_of(&cache, &object), (false, 4));
    }

    #[test]
    fn what_is_drawn_is_drawn_as_often_as_it_says() {
        let mut bills: Vec<_> = (0..48).map(|slot| Bill::new(CoreId::new(slot))).collect();
        for bill in &mut bills {
            let mut bill = *bill;
            let drawn = (0..1600).filter(|_| bill.draw(16)).count();
            assert!((60..150).contains(&drawn), "{drawn} of 100");
        }
        // Slots do not all draw it at the same time.
        let mut first = 0;
        for bill in &mut bills {
            first += usize::from((0..4).any(|_| bill.draw(16)));
        }
        assert!((4..24).contains(&first), "{first} of some 11");
    }
}
