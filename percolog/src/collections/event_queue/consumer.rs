//! The queue, as its consumer sees it.

use super::pace::Pace;
use super::queue::EventQueue;
use super::waiting::{Batch, Delivery};
use crate::cpu::{Environment, Native};
#[cfg(feature = "std")]
use crate::sync::Backoff;
use crate::sync::SlotGuard;
use alloc::vec::Vec;
use core::fmt;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

/// The consumer of an [`EventQueue`]: there is one at a time.
///
/// It takes hold of everything that has come, in one *look*, and then hands it out without any lock. What it has not handed out when it is
/// dropped is there for the next consumer.
///
/// Every look is one moment: it finds each event whose push returned before it began, and no event that belongs before one of
/// these is left behind (see the [module](super)).
#[must_use = "the queue is free for another consumer as soon as this is dropped"]
pub struct Consumer<'a, T: Send, E: Environment = Native> {
    queue: &'a EventQueue<T, E>,
    taken: SlotGuard<'a, Taken<T>>,
}

/// What the consumer has taken hold of and not handed out yet.
#[derive(Debug)]
pub(super) struct Taken<T> {
    batch: Batch<T>,
    pace: Pace,
}

impl<T> Taken<T> {
    pub(super) const fn new() -> Self {
        Self {
            batch: Batch::new(),
            pace: Pace::new(),
        }
    }
}

impl<T: Send, E: Environment> EventQueue<T, E> {
    /// Becomes the queue's consumer; `None` while somebody else is. *Progress:* waits for no longer than some pauses.
    #[must_use]
    pub fn consumer(&self) -> Option<Consumer<'_, T, E>> {
        Some(Consumer {
            taken: self.taken.lock_briefly()?,
            queue: self,
        })
    }
}

impl<T: Send, E: Environment> Consumer<'_, T, E> {
    /// Takes hold of everything that has come, and tells whether there is anything to hand out.
    #[track_caller]
    fn look(&mut self) -> bool {
        let taken = self.taken.get();
        if taken.batch.is_empty() {
            self.queue.log.synchronize().take(&mut taken.batch);
            taken.pace.learn(taken.batch.len());
        }
        !taken.batch.is_empty()
    }

    /// The next event, if there is one.
    ///
    /// *Progress:* blocking while another thread merges. *Cost:* a look if the last one's events have all been handed out.
    ///
    /// # Panics
    /// If the queue is poisoned.
    #[track_caller]
    pub fn try_next(&mut self) -> Option<Delivery<T>> {
        if let Some(next) = self.taken.get().batch.pop() {
            return Some(next);
        }
        self.look();
        self.taken.get().batch.pop()
    }

    /// Calls `deliver` with everything that has come before this was called, in order, and returns how much that was: the rest
    /// of an earlier look, and one more look. Producers who never pause do not keep it here.
    ///
    /// No lock that a producer needs is held meanwhile, and `deliver` may push to the queue. If it panics, the event that it was given is
    /// gone, and those behind it stay.
    ///
    /// # Panics
    /// If the queue is poisoned, and where `deliver` does.
    #[track_caller]
    pub fn drain(&mut self, mut deliver: impl FnMut(Delivery<T>)) -> usize {
        let count = self.hand_out(&mut deliver);
        self.look();
        count + self.hand_out(&mut deliver)
    }

    /// What is left of the last look.
    fn hand_out(&mut self, deliver: &mut impl FnMut(Delivery<T>)) -> usize {
        let batch = &mut self.taken.get().batch;
        let mut count = 0;
        // One at a time, so that a panic in `deliver` leaves the others.
        while let Some(next) = batch.pop() {
            count += 1;
            deliver(next);
        }
        count
    }

    /// Appends everything that has come before this was called, in order, and returns how much that was.
    ///
    /// # Panics
    /// If the queue is poisoned.
    #[track_caller]
    pub fn drain_batch(&mut self, into: &mut Vec<Delivery<T>>) -> usize {
        let before = into.len();
        self.taken.get().batch.move_to(into);
        self.look();
        self.taken.get().batch.move_to(into);
        into.len() - before
    }

    /// Bytes that the queue has asked of the allocator, exactly while nobody pushes. Brings together what has come, and takes hold of
    /// nothing. What the events themselves point to is not counted.
    ///
    /// # Panics
    /// If the queue is poisoned.
    #[track_caller]
    #[must_use]
    pub fn memory_usage(&mut self) -> usize {
        let waiting = self.queue.log.synchronize().memory();
        let taken = self.taken.get().batch.memory();
        self.queue.log.memory_usage().total() + waiting + taken
    }
}

#[cfg(feature = "std")]
impl<T: Send, E: Environment> Consumer<'_, T, E> {
    /// The next event; sleeps until there is one.
    ///
    /// *Progress:* blocking. *Cost:* some looks within a microsecond or two, and then a system call to make sure that nobody pushes unseen
    /// and one to sleep; the producer of the next event pays for one that wakes. Between the look that found nothing and the
    /// sleep no event is missed. While looks bring few events and more follow, the first one comes after up to a microsecond or two, in
    /// which there will be more: each look costs producers time.
    ///
    /// # Panics
    /// If the queue is poisoned.
    #[track_caller]
    pub fn wait_next(&mut self) -> Delivery<T> {
        loop {
            self.wait_until(None);
            if let Some(next) = self.taken.get().batch.pop() {
                return next;
            }
        }
    }

    /// The next event; sleeps until there is one, or for so long.
    ///
    /// *Progress and cost:* as [`wait_next`](Self::wait_next).
    ///
    /// # Panics
    /// If the queue is poisoned.
    #[track_caller]
    pub fn wait_next_for(&mut self, timeout: Duration) -> Option<Delivery<T>> {
        // A deadline beyond what the clock can express is none.
        let Some(deadline) = Instant::now().checked_add(timeout) else {
            return Some(self.wait_next());
        };
        self.wait_until(Some(deadline));
        self.taken.get().batch.pop()
    }

    /// Sleeps until there is something, or for so long; then calls `deliver` with it, in order, and returns how much that was: the rest of an
    /// earlier look, or where there is none what one look finds. For consumers that live on what comes: with
    /// [`wait_next_for`](Self::wait_next_for) and [`drain`](Self::drain) after it there would be two looks where one brings more.
    ///
    /// ```
    /// use percolog::collections::EventQueue;
    /// use std::time::Duration;
    ///
    /// let queue = EventQueue::unbounded();
    /// queue.extend([1, 2, 3]);
    /// let mut consumer = queue.consumer().unwrap();
    /// let mut sum = 0;
    /// let moment = Duration::from_millis(1);
    /// while consumer.wait_drain_for(moment, |event| sum += event.into_event().unwrap()) != 0 {}
    /// assert_eq!(sum, 6);
    /// ```
    ///
    /// *Progress and cost:* as [`wait_next`](Self::wait_next). `deliver` may push, and panic, as with [`drain`](Self::drain).
    ///
    /// # Panics
    /// If the queue is poisoned, and where `deliver` does.
    #[track_caller]
    pub fn wait_drain_for(
        &mut self,
        timeout: Duration,
        mut deliver: impl FnMut(Delivery<T>),
    ) -> usize {
        // A deadline beyond what the clock can express is none.
        self.wait_until(Instant::now().checked_add(timeout));
        self.hand_out(&mut deliver)
    }

    /// Waits until there is something to hand out. May return early only if there is a deadline.
    #[track_caller]
    fn wait_until(&mut self, deadline: Option<Instant>) {
        let taken = self.taken.get();
        if !taken.batch.is_empty() {
            return;
        }
        taken.pace.wait();
        let mut backoff = Backoff::new();
        while !self.look() {
            // A pause is shorter than what sleeping takes, for both sides.
            if !backoff.is_spent() {
                backoff.wait();
                continue;
            }
            let bell = &self.queue.bell;
            if !bell.sleep(deadline, || self.look()) {
                // Whoever asks for nothing but what is there is given that.
                self.look();
                return;
            }
        }
    }
}

impl<T: Send, E: Environment> fmt::Debug for Consumer<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}
