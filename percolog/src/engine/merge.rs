//! One deferred object: how updates come together.

use super::batch::Merged;
use super::contained::contained;
use super::gate::{Door, Refusal, Wait};
use super::guard::{SynchronizeError, Synchronized};
use super::limits::Mode;
use super::mode::{DIRTY, KEEPS_WAITING, Use, Verdict};
use super::object::{Center, Object};
use super::queue::{Limits, Queue};
use super::slots::{Slots, Stamps};
use super::stats::{Drained, MemoryUsage, ModeReason, Tally};
use crate::cpu::Environment;
use crate::sync::Patience;
use crate::sync::atomic::{Ordering, fence};
use core::mem;
use core::ptr::NonNull;

/// A thread inside an object, alone, without a guard: gives the object back when dropped.
struct Inside<'a>(Door<'a>);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave_exclusive();
    }
}

/// A batch that is being worked on. When this is over, by return or by a panic, the account is right;
/// and a panic poisons the object.
struct Work<'a, S, Q: Queue<S>> {
    merged: &'a mut Merged<S, Q>,
    center: &'a Center<S, Q>,
    /// What operations that disappear from the batch are counted as.
    tally: &'a Tally,
    completed: bool,
}

impl<S, Q: Queue<S>> Work<'_, S, Q> {
    fn do_it<R>(mut self, f: impl FnOnce(&mut [Q], &mut S, &mut Q::Scratch) -> R) -> R {
        let Merged {
            queues,
            state,
            scratch,
            ..
        } = &mut *self.merged;
        let result = f(
            queues,
            state,
            scratch.get_or_insert_with(Q::Scratch::default),
        );
        self.completed = true;
        result
    }
}

impl<S, Q: Queue<S>> Drop for Work<'_, S, Q> {
    fn drop(&mut self) {
        let left = self.merged.queues.iter().map(Q::len).sum::<usize>();
        self.tally.add((self.merged.left - left) as u64);
        self.merged.left = left;
        self.center.account.unfinished.set(left as u64);
        if !self.completed {
            self.center.leave_unfinished();
            self.center.gate.poison();
        }
    }
}

/// The locks of the queues of one cut. They are released also when unwinding.
struct Cut<'a, S, Q: Queue<S>> {
    slots: &'a Slots<S, Q>,
    taken: &'a [usize],
    threshold: u32,
    /// Later than every stamp in the queues: each was taken before its lock was released, and we
    /// have acquired them all. 0 until it is taken.
    stamp: u64,
}

impl<S, Q: Queue<S>> Cut<'_, S, Q> {
    /// Lets the slots go on, and returns the latest stamp they knew.
    fn release(&mut self) -> u64 {
        let mut latest = 0;
        for slot in mem::take(&mut self.taken) {
            let Some(place) = self.slots.touched(*slot) else {
                unreachable!("a slot's place is never taken away")
            };
            // SAFETY: `Object::take` has kept the lock of every slot in `taken`, once, and `taken` is
            // empty from now on.
            let mut held = unsafe { place.resume() };
            let slot = held.get();
            latest = latest.max(slot.latest);
            // From here on a smaller stamp is one taken before this cut; see `Object::push`.
            slot.latest = slot.latest.max(self.stamp);
            slot.marked = false;
            slot.set_threshold(self.threshold);
        }
        latest
    }
}

impl<S, Q: Queue<S>> Drop for Cut<'_, S, Q> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<S, Q: Queue<S>, E: Environment> Object<S, Q, E> {
    /// Takes the queues of all dirty slots, at one instant. Returns whether there were any.
    ///
    /// All their locks are held until a look at the marks finds no further one. Each look that does
    /// find one locks a queue, so there are at most as many as slots, and writers cannot keep a
    /// reader here. No deadlock: only the holder of the object's lock holds more than one slot's
    /// lock, and whoever holds a slot's lock waits for nothing.
    fn take(&self, merged: &mut Merged<S, Q>) -> bool {
        debug_assert!(!merged.unapplied);
        if self.mode.is_eager() {
            let flags = &self.center.gate.flags;
            // Relaxed: as for an update; see `mode`.
            if flags.load(Ordering::Relaxed) & DIRTY == 0 {
                return false;
            }
            // Before the marks are looked at. Acquire pairs with the Release in `announce`.
            if self.options.mode != Mode::Restless || self.mode.is_biased() {
                flags.fetch_and(!DIRTY, Ordering::Acquire);
                // Pairs with the fence in `announce`: a thread that has found the flag set has set its mark before.
                fence(Ordering::SeqCst);
            }
        }
        merged.locked.clear();
        let mut absorbed = 0;
        loop {
            let any = self.dirty.collect(|lowest, distance| {
                // Whose mark we have seen has a queue, which `end` therefore covers.
                let end = self.slots.end();
                for slot in (lowest..end).step_by(distance) {
                    // Slots that share a mark: this one may have been taken for the other's sake.
                    if end > distance && merged.locked.contains(&slot) {
                        continue;
                    }
                    let Some(place) = self.slots.touched(slot) else {
                        continue;
                    };
                    // Made before the slot is stopped: it may allocate.
                    let queue = merged.queue_of(slot, Limits::from(&self.options));
                    let mut held = place.lock();
                    if held.get().marked {
                        held.get().queue.exchange(queue);
                        absorbed += held.get().take_absorbed();
                        held.keep();
                        merged.left += queue.len();
                        merged.locked.push(slot);
                    }
                }
            });
            if !any {
                break;
            }
        }
        if merged.locked.is_empty() {
            return false;
        }
        merged.unapplied = true;
        let mut cut = Cut {
            slots: &self.slots,
            taken: &merged.locked,
            threshold: self.options.first_threshold(),
            stamp: 0,
        };
        cut.stamp = self.stamp();
        let (stamp, latest) = (cut.stamp, cut.release());
        drop(cut);
        if latest > stamp {
            // A stamp from the future: the clocks of two slots differ by more than it takes to go
            // from one to the other.
            self.disorder(latest);
        }
        // Who waits with a full queue has an empty one now, and need not wait for the operations to be executed.
        self.center.gate.lock.let_updaters_go();
        self.center.account.absorbed.add(absorbed);
        let found = merged.left as u64 + absorbed;
        self.learn(merged, found);
        true
    }

    /// Whether a slot may have something to take, as a holder of the object sees it.
    pub(super) fn is_marked(&self) -> bool {
        if self.mode.is_eager() {
            // Relaxed: as for an update; see `mode`.
            self.center.gate.flags.load(Ordering::Relaxed) & DIRTY != 0
        } else {
            !self.dirty.is_clean()
        }
    }

    /// What a merge has found decides how updates go on.
    fn learn(&self, merged: &mut Merged<S, Q>, found: u64) {
        if self.options.mode != Mode::Adaptive {
            return;
        }
        if self.mode.is_eager() {
            self.was_contended(merged, found);
            return;
        }
        let moment = || self.environment.stamp();
        match merged.learner.merged(found, self.usage(), moment) {
            Verdict::Stay => {}
            Verdict::Execute(reason) => self.change_mode(reason),
            Verdict::Defer => {
                self.mode.make_deferring(&self.center.gate, false);
                self.say_why(ModeReason::DeferringWasFaster);
            }
        }
    }

    /// Updates have found the lock of an eager object taken.
    #[cold]
    pub(super) fn was_contended(&self, merged: &mut Merged<S, Q>, times: u64) {
        if self.options.mode != Mode::Adaptive {
            return;
        }
        let often = merged.learner.contended(times, self.usage());
        if often && !self.options.updaters_merge() {
            // Where updaters do not merge, a trial could last for ever.
            merged.learner.trial.skip(self.usage());
            self.change_mode(ModeReason::Contended);
            return;
        }
        if often {
            merged.learner.trial.hasten(self.usage());
        }
        if often || merged.learner.trial.is_executing() {
            self.go_on_with_trial(merged);
        }
    }

    /// Lets an eager object find out, from time to time, whether deferring pays.
    #[inline(always)]
    pub(super) fn go_on_with_trial(&self, merged: &mut Merged<S, Q>) {
        if merged.learner.trial.is_due(self.center.at_once.get()) {
            self.next_step_of_trial(merged);
        }
    }

    #[cold]
    fn next_step_of_trial(&self, merged: &mut Merged<S, Q>) {
        let trial = &mut merged.learner.trial;
        if self.options.mode != Mode::Adaptive || !self.options.updaters_merge() {
            trial.postpone(self.usage());
        } else if trial.step(self.usage(), self.environment.stamp()) {
            self.mode.make_deferring(&self.center.gate, true);
            self.center.account.mode_changes.add(1);
            self.say_why(ModeReason::Trial);
        }
    }

    pub(super) fn usage(&self) -> Use {
        let account = &self.center.account;
        Use {
            at_once: self.center.at_once.get(),
            merged: account.executed.get() + account.absorbed.get(),
            readers: self.center.guards.get(),
        }
    }

    #[cold]
    pub(super) fn change_mode(&self, reason: ModeReason) {
        if self.mode.is_eager() {
            self.mode.make_deferring(&self.center.gate, false);
        } else {
            self.mode.make_eager(&self.center.gate);
        }
        self.center.account.mode_changes.add(1);
        self.say_why(reason);
    }

    fn say_why(&self, reason: ModeReason) {
        // Relaxed: for people.
        self.center
            .mode_reason
            .store(reason as u8, Ordering::Relaxed);
    }

    fn work<'a>(&'a self, merged: &'a mut Merged<S, Q>, tally: &'a Tally) -> Work<'a, S, Q> {
        Work {
            merged,
            center: &self.center,
            tally,
            completed: false,
        }
    }

    /// Applies up to `budget` operations of the batch.
    fn apply(&self, merged: &mut Merged<S, Q>, budget: usize) -> usize {
        let executed = self
            .work(merged, &self.center.account.executed)
            .do_it(|batch, state, scratch| Q::apply(batch, state, budget, scratch));
        // Not when `prepare` has left nothing: that `apply` has seen them is what makes the queues
        // fit to be exchanged again.
        merged.unapplied = merged.left != 0;
        if merged.unapplied {
            self.center.leave_unfinished();
        }
        executed
    }

    /// Takes a new batch and looks for operations in it that need not be executed.
    fn take_and_prepare(&self, merged: &mut Merged<S, Q>) -> bool {
        if !self.take(merged) {
            return false;
        }
        let account = &self.center.account;
        account.merges.add(1);
        self.work(merged, &account.absorbed)
            .do_it(|batch, _, scratch| Q::prepare(batch, scratch));
        true
    }

    /// Executes everything that is pending. The caller has the object for itself.
    pub(super) fn merge(&self, merged: &mut Merged<S, Q>) -> usize {
        if self.options.mode == Mode::Restless && merged.learner.flips() {
            self.change_mode(ModeReason::Fixed);
            if self.mode.is_eager() && merged.learner.flips() {
                self.mode.bias(&self.center.gate);
            }
        }
        let mut executed = 0;
        if merged.unapplied {
            executed += self.apply(merged, usize::MAX);
        }
        if self.take_and_prepare(merged) {
            executed += self.apply(merged, usize::MAX);
        }
        executed
    }

    /// Goes in alone and calls `f` with the merged part, and the way out.
    ///
    /// # Safety
    /// `f` uses the pointer only while the object is held, and leaves through the door once or makes
    /// a guard of it.
    unsafe fn inside<R>(
        &self,
        door: Door<'_>,
        f: impl FnOnce(NonNull<Merged<S, Q>>, Inside<'_>) -> R,
    ) -> R {
        let inside = Inside(door);
        self.center.merged.with_mut(|merged| {
            let Some(merged) = NonNull::new(merged) else {
                unreachable!("a cell has an address")
            };
            f(merged, inside)
        })
    }

    /// The object, for a reader who need not wait, if nothing has to be executed before.
    #[inline(always)]
    pub(crate) fn synchronize_at_once(&self) -> Option<Synchronized<'_, S>> {
        let center = &*self.center;
        if !self.mode.is_plain() || !center.gate.lock.try_exclusive_at_once() {
            return None;
        }
        let door = center.gate.door_at_once(Some(&center.number));
        if !self.is_clean() {
            door.leave_exclusive();
            return None;
        }
        center.guards.add(1);
        let state = center
            .merged
            // SAFETY: this thread has the object for itself.
            .with_mut(|merged| NonNull::from(unsafe { &mut (*merged).state }));
        // SAFETY: as above.
        Some(unsafe { Synchronized::new(door, state) })
    }

    /// Whether the object is eager, and nothing has to be executed before an update or a reader, as the holder of the object sees it.
    #[inline(always)]
    pub(super) fn is_clean(&self) -> bool {
        // Relaxed: set under the lock, or before whatever this thread knows of; see `mode`.
        self.center.gate.flags.load(Ordering::Relaxed) & KEEPS_WAITING == 0
    }

    pub(crate) fn synchronize(
        &self,
        wait: Wait,
    ) -> Result<Synchronized<'_, S>, SynchronizeError<Synchronized<'_, S>>> {
        self.synchronize_through(self.enter(wait)?)
    }

    /// The same, for a thread that has gone in alone.
    pub(super) fn synchronize_through<'a>(
        &'a self,
        door: Door<'a>,
    ) -> Result<Synchronized<'a, S>, SynchronizeError<Synchronized<'a, S>>> {
        // SAFETY: the object is held by `Inside`, then by the guard made of it.
        unsafe {
            self.inside(door, |merged, inside| {
                let poisoned = self.is_poisoned();
                if !poisoned {
                    self.merge(&mut *merged.as_ptr());
                }
                self.center.guards.add(1);
                mem::forget(inside);
                let state = NonNull::new_unchecked(&raw mut (*merged.as_ptr()).state);
                let guard = Synchronized::new(door, state);
                if poisoned {
                    Err(SynchronizeError::Poisoned(guard))
                } else {
                    Ok(guard)
                }
            })
        }
    }

    /// Executes everything that is pending, and calls `f` with the state and a number that is another one
    /// whenever the state may be.
    #[cfg(feature = "std")]
    pub(crate) fn look<R>(
        &self,
        wait: Wait,
        f: impl FnOnce(&S, u64) -> R,
    ) -> Result<R, SynchronizeError<()>> {
        let door = self.enter(wait)?;
        // SAFETY: the object is held by `inside` until it is dropped.
        unsafe {
            self.inside(door, |merged, _inside| {
                if self.is_poisoned() {
                    return Err(SynchronizeError::Poisoned(()));
                }
                let merged = &mut *merged.as_ptr();
                self.merge(merged);
                let changes = self.center.changes();
                Ok(f(&merged.state, changes))
            })
        }
    }

    /// Executes what has been queued since the guard was given out, and returns whether there was a slot
    /// with anything to take.
    ///
    /// # Panics
    /// If an operation panics.
    pub(crate) fn merge_again(&self, guard: &mut Synchronized<'_, S>) -> bool {
        assert!(
            guard.is_of(&self.center.gate),
            "percolog: the guard of another object"
        );
        self.center.merged.with_mut(|merged| {
            // SAFETY: the guard says that this thread has the object for itself, and is borrowed: nobody
            // uses the state through it meanwhile.
            let merged = unsafe { &mut *merged };
            if merged.unapplied {
                self.apply(merged, usize::MAX);
            }
            let any = self.take_and_prepare(merged);
            if any {
                self.apply(merged, usize::MAX);
            }
            any
        })
    }

    /// Executes up to `budget` operations if nobody else has the object. A panic stays here.
    pub(crate) fn drain(&self, budget: usize) -> Drained {
        let mut drained = Drained {
            executed: 0,
            finished: false,
        };
        let Ok(door) = self.enter(Wait::Briefly) else {
            return drained;
        };
        // SAFETY: the object is held by `inside` until it is dropped.
        unsafe {
            self.inside(door, |merged, _inside| {
                if self.is_poisoned() {
                    return;
                }
                contained(|| {
                    let merged = &mut *merged.as_ptr();
                    if merged.unapplied {
                        drained.executed += self.apply(merged, budget);
                    }
                    if !merged.unapplied {
                        let left = budget - drained.executed;
                        if self.take_and_prepare(merged) {
                            drained.executed += self.apply(merged, left);
                        }
                        drained.finished = !merged.unapplied;
                    }
                });
            });
        }
        drained
    }

    /// Merges on behalf of an updater that came to the limit, who must not suffer for what others
    /// have queued: a panic poisons the object and stays here.
    pub(super) fn merge_for_updater(&self, door: Door<'_>) {
        let account = &self.center.account;
        // Under loom every run must do the same, whatever time it is.
        #[cfg(all(feature = "std", not(percolog_loom)))]
        let began = std::time::Instant::now();
        // SAFETY: the object is held by `inside` until it is dropped.
        unsafe {
            self.inside(door, |merged, _inside| {
                if self.is_stuck() {
                    return;
                }
                let done = || account.executed.get() + account.absorbed.get();
                loop {
                    let before = done();
                    let returned = contained(|| {
                        let executed = self.merge(&mut *merged.as_ptr());
                        account.updater_merges.add(1);
                        account.longest_updater_merge.raise_to(executed as u64);
                    });
                    // Behind a panic, if that is right, until none is left; a panic that is no operation's would come again and again.
                    if returned || self.is_stuck() || done() == before {
                        break;
                    }
                }
                #[cfg(all(feature = "std", not(percolog_loom)))]
                account
                    .longest_updater_nanos
                    .raise_to(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            });
        }
    }

    /// The last merge, when the object is dropped.
    pub(super) fn finish(&mut self) {
        let this: &Self = self;
        this.center.merged.with_mut(|merged| {
            // SAFETY: `&mut self`: nobody else can reach the merged part.
            this.merge(unsafe { &mut *merged });
        });
    }

    /// What the queues and the merging have allocated. Keeps merges away while it looks, and locks each slot
    /// for a moment.
    /// `None` if this thread has the object already.
    pub(crate) fn memory_usage(&self) -> Option<MemoryUsage> {
        let door = self.enter_shared(Wait::For(Patience::Unlimited)).ok()?;
        let merging = self.center.merged.with(|merged| {
            // SAFETY: shared use of the merged part; nobody writes it while we have it.
            unsafe { &*merged }.memory()
        });
        let queues = self
            .slots
            .iter()
            .map(|(_, slot)| slot.lock().get().queue.memory())
            .sum::<usize>();
        let queues = queues + self.slots.memory() + self.dirty.memory();
        door.leave_shared(None);
        Some(MemoryUsage { queues, merging })
    }

    /// The state as merged so far, to show it, if nobody has the object just now.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(&S) -> R) -> Option<R> {
        let door = self.enter(Wait::No).ok()?;
        // SAFETY: the object is held by `inside` until it is dropped.
        unsafe { self.inside(door, |merged, _inside| Some(f(&merged.as_ref().state))) }
    }

    /// Where the operation that poisoned the object was queued, if that was recorded.
    pub(crate) fn culprit(&self) -> super::slots::Origin {
        let door = self.enter(Wait::For(Patience::Unlimited)).ok()?;
        // SAFETY: the object is held by `inside` until it is dropped.
        unsafe {
            self.inside(door, |merged, _inside| {
                merged.as_ref().scratch.as_ref().and_then(Q::origin)
            })
        }
    }
}

impl<G> From<Refusal> for SynchronizeError<G> {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Busy => Self::Busy,
            Refusal::Held => Self::Held,
        }
    }
}
