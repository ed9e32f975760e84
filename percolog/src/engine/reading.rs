//! One deferred object: shared readers, and phases of reading.
//!
//! Readers of an eager object that has nothing to execute are inside together. They count themselves in the object's lock, and the
//! line of that goes from one to the next. Where readers meet there, and updates are few, the object is *biased to readers*: each leaves a mark on its slot's
//! line, and updates look at all of these; see [`ReaderMark`]. Whoever updates counts from time to time how many have read since, and
//! ends the phase if they are too few for what an update then costs.

use super::gate::{Door, Refusal, Wait};
use super::guard::{ReadGuard, SynchronizeError, Synchronized};
use super::limits::Mode;
use super::object::Object;
use super::queue::Queue;
use crate::cpu::{CoreId, Environment};
#[cfg(feature = "std")]
use crate::sync::Patience;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::global::{AtomicU8, AtomicU32};
use crate::sync::{Backoff, ReaderMark, held};
use core::ptr::NonNull;

/// So many readers have met others at the lock when it is decided whether a phase of reading begins.
const MEETINGS: u32 = 16;

/// It does not where there are more updates, and exclusive readers, than so many for each of them.
const UPDATES: u32 = 2;

/// So many writers wait for the readers' marks before they count the readers.
const WRITERS: u8 = 8;

/// The phase ends where no more than one has read between two writers, for so many slots that read.
///
/// A writer has to look at the lines of all those slots, and they have to come back. Where they count themselves in the lock, its line moves twice
/// for each reader, one after the other. (Simulated, a map on 24 cores of which 90 % of the operations read: 2.5 times as fast as
/// where phases end at two reads for each slot.)
const SLOTS: u32 = 2;

/// What decides about phases of reading. Written by readers that meet others, and by writers in such a phase; what several of them count together
/// can be wrong by a few.
#[derive(Debug)]
pub(super) struct Reading {
    /// Readers that found others at the lock.
    met: AtomicU32,
    /// What there had been of updates and exclusive readers when that was last looked at.
    others: AtomicU32,
    /// Decisions to leave out.
    postponed: AtomicU8,
    /// Phases in succession that were not worth it.
    failures: AtomicU8,
    /// Writers that waited for marks.
    writers: AtomicU8,
}

impl Reading {
    pub(super) const fn new() -> Self {
        Self {
            met: AtomicU32::new(0),
            others: AtomicU32::new(0),
            postponed: AtomicU8::new(0),
            failures: AtomicU8::new(0),
            writers: AtomicU8::new(0),
        }
    }
}

type Read<'a, S> = Result<ReadGuard<'a, S>, SynchronizeError<ReadGuard<'a, S>>>;

impl<S, Q: Queue<S>, E: Environment> Object<S, Q, E> {
    /// The object for sharing, with everything executed that has been queued.
    ///
    /// Put where it is called: a guard that is handed on in memory costs several stores, for which the next locked instruction waits.
    #[inline(always)]
    pub(crate) fn read(&self, wait: Wait) -> Read<'_, S>
    where
        S: Sync,
    {
        // Who holds any object may hold this one.
        if !self.mode.is_plain() || held::any() {
            return self.read_slowly(wait, false);
        }
        if !self.center.gate.lock.try_shared_at_once() {
            return self.read_slowly(wait, true);
        }
        match self.clean_guard(None) {
            Some(guard) => Ok(guard),
            None => self.read_slowly(wait, false),
        }
    }

    /// The same in a phase of reading, if no writer is inside. For who holds no object.
    #[inline]
    fn read_by_mark(&self) -> Option<ReadGuard<'_, S>>
    where
        S: Sync,
    {
        let mark = self.mark_of_reader();
        if !self.center.gate.lock.share_by_mark(mark) {
            return None;
        }
        self.clean_guard(Some(mark))
    }

    /// A guard for a thread that has just taken a share, with that mark or none; or it gives the share back, if something has to be executed before.
    #[inline(always)]
    fn clean_guard<'a>(&'a self, mark: Option<&'a ReaderMark>) -> Option<ReadGuard<'a, S>>
    where
        S: Sync,
    {
        let door = self.center.gate.shared_door(Some(&self.center.number));
        if !self.is_clean() {
            door.leave_shared(mark);
            return None;
        }
        // SAFETY: we went through the door for shared use, with that mark.
        Some(unsafe { ReadGuard::new(door, mark, self.state()) })
    }

    #[inline(always)]
    fn mark_of_reader(&self) -> &ReaderMark {
        let slot = self.environment.slot();
        match self.slots.mark(slot) {
            Some(mark) if mark.is_enlisted() => mark,
            _ => self.enlist(slot),
        }
    }

    #[cold]
    fn enlist(&self, slot: CoreId) -> &ReaderMark {
        let mark = self.slots.get(slot, &self.options).beside();
        // Behind this a writer finds the place, or has taken the lock where its readers see that.
        fence(Ordering::SeqCst);
        mark.enlist();
        mark
    }

    fn state(&self) -> NonNull<S> {
        self.center.merged.with(|merged| {
            // SAFETY: the cell has an address; nothing is read through it here.
            unsafe { NonNull::new_unchecked((&raw const (*merged).state).cast_mut()) }
        })
    }

    /// `met`: there were others at the lock.
    #[cold]
    #[inline(never)]
    fn read_slowly(&self, wait: Wait, met: bool) -> Read<'_, S>
    where
        S: Sync,
    {
        if self.mode.is_biased()
            && !held::any()
            && let Some(read) = self.read_among_writers(wait)
        {
            return read;
        }
        let gate = &self.center.gate;
        let door = if met && gate.lock.shared_at_once_soon() {
            gate.shared_door(Some(&self.center.number))
        } else {
            self.enter_shared(wait)?
        };
        // SAFETY: shared use of the merged part; nobody writes it while we have it.
        let unapplied = self
            .center
            .merged
            .with(|merged| unsafe { (*merged).unapplied });
        let clean = !unapplied && !self.is_marked();
        let poisoned = self.is_poisoned();
        if clean || poisoned {
            if met {
                self.learn_of_readers();
            }
            // SAFETY: we went through the door for shared use.
            let guard = unsafe { ReadGuard::new(door, None, self.state()) };
            return if poisoned {
                Err(SynchronizeError::Poisoned(guard))
            } else {
                Ok(guard)
            };
        }
        door.leave_shared(None);
        shared(self.synchronize(wait))
    }

    /// In a phase of reading: waits for writers to leave, and executes what they have left if nobody else does. `None` where that
    /// does not help, or the phase is over.
    fn read_among_writers(&self, wait: Wait) -> Option<Read<'_, S>>
    where
        S: Sync,
    {
        let gate = &self.center.gate;
        // A writer looks at as many lines as slots read, and each look at the lock takes the line from it.
        let pauses = 3 + self.slots.end().max(1).ilog2();
        while self.mode.is_biased() {
            if let Some(guard) = self.read_by_mark() {
                return Some(Ok(guard));
            }
            if !self.is_clean() {
                if let Ok(door) = gate.enter(Some(&self.center.number), Wait::No) {
                    return Some(match self.behind_readers(door, wait) {
                        Ok(door) => shared(self.synchronize_through(door)),
                        Err(refusal) => Err(refusal.into()),
                    });
                }
                if !gate.lock.has_writer() {
                    // Readers have it that count themselves.
                    return None;
                }
            }
            if !gate.let_writer_finish(pauses, wait) {
                return Some(Err(SynchronizeError::Busy));
            }
        }
        None
    }

    /// A thread that has gone in alone waits for readers that are inside by their marks, or goes out again.
    #[inline]
    pub(super) fn behind_readers<'a>(
        &self,
        door: Door<'a>,
        wait: Wait,
    ) -> Result<Door<'a>, Refusal> {
        if self.center.gate.lock.is_biased()
            && let Err(refusal) = self.wait_for_readers(wait)
        {
            door.leave_exclusive();
            return Err(refusal);
        }
        Ok(door)
    }

    /// Waits until no reader is inside by its mark. For the exclusive holder of the lock, who uses nothing that it guards before.
    #[cold]
    pub(super) fn wait_for_readers(&self, wait: Wait) -> Result<(), Refusal> {
        // Pairs with the sequentially consistent look at the lock in `share_by_mark`: see `ReaderMark`.
        fence(Ordering::SeqCst);
        let mut backoff = Backoff::new();
        for mark in self.slots.marks() {
            while !mark.is_free() {
                if self.center.gate.is_shared_by_holder(&self.center.number) {
                    return Err(Refusal::Held);
                }
                match wait {
                    Wait::No => return Err(Refusal::Busy),
                    Wait::Briefly if backoff.is_spent() => return Err(Refusal::Busy),
                    #[cfg(feature = "std")]
                    Wait::For(Patience::Until(deadline))
                        if std::time::Instant::now() >= deadline =>
                    {
                        return Err(Refusal::Busy);
                    }
                    Wait::Briefly | Wait::For(_) => backoff.wait(),
                }
            }
        }
        self.learn_of_writers();
        Ok(())
    }

    /// This thread has a share, and met others at the lock.
    fn learn_of_readers(&self) {
        if !self.mode.is_plain() || self.options.mode != Mode::Adaptive {
            return;
        }
        let reading = &self.center.reading;
        // Relaxed, as all of these numbers: they decide about speed, and nothing else.
        let met = reading.met.load(Ordering::Relaxed).wrapping_add(1);
        reading.met.store(met, Ordering::Relaxed);
        if !met.is_multiple_of(MEETINGS) {
            return;
        }
        // The lower half: how many more there are matters.
        let others = (self.usage().updates() + self.center.guards.get()) as u32;
        let before = reading.others.load(Ordering::Relaxed);
        reading.others.store(others, Ordering::Relaxed);
        let since = others.wrapping_sub(before);
        if since > MEETINGS * UPDATES {
            return;
        }
        match reading.postponed.load(Ordering::Relaxed) {
            0 => self.mode.bias(&self.center.gate),
            more => reading.postponed.store(more - 1, Ordering::Relaxed),
        }
    }

    /// This thread has the object alone, in a phase of reading, and all readers have left.
    fn learn_of_writers(&self) {
        let reading = &self.center.reading;
        let writers = reading.writers.load(Ordering::Relaxed).wrapping_add(1);
        reading.writers.store(writers, Ordering::Relaxed);
        if self.options.mode == Mode::Restless {
            if writers.is_multiple_of(2) {
                self.mode.end_bias(&self.center.gate);
                self.center.leave_unfinished();
            }
            return;
        }
        if self.options.mode != Mode::Adaptive || !writers.is_multiple_of(WRITERS) {
            return;
        }
        let (mut slots, mut reads) = (0, 0);
        for mark in self.slots.marks() {
            let entered = mark.take_entered();
            slots += u32::from(entered != 0);
            reads += entered;
        }
        if reads * SLOTS > u32::from(WRITERS) * slots {
            reading.failures.store(0, Ordering::Relaxed);
            return;
        }
        self.mode.end_bias(&self.center.gate);
        let failures = reading.failures.load(Ordering::Relaxed);
        reading.postponed.store(1 << failures, Ordering::Relaxed);
        reading
            .failures
            .store((failures + 1).min(7), Ordering::Relaxed);
    }
}

fn shared<'a, S: Sync>(
    read: Result<Synchronized<'a, S>, SynchronizeError<Synchronized<'a, S>>>,
) -> Read<'a, S> {
    read.map(Synchronized::downgrade)
        .map_err(|error| error.map_guard(Synchronized::downgrade))
}
