//! The channel as its receiver sees it.

use super::chain::{Found, Source};
use super::sender::Shared;
use crate::collections::event_queue::pace::Pace;
#[cfg(feature = "std")]
use crate::sync::Backoff;
use crate::sync::{Isolated, despite_panics};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

/// The receiving side of a channel.
///
/// It *looks* how many events each sender has sent, and then hands these out, one sender's after the other's. Every look finds each event
/// that was sent before the look began.
///
/// If it is dropped, events that have not been delivered are dropped, and senders are told with their next event.
pub struct Receiver<T: Send> {
    shared: Arc<Isolated<Shared<T>>>,
    sources: Vec<Source<T>>,
    /// Sources before this one have nothing left of the last look.
    next: usize,
    pace: Pace,
}

impl<T: Send> Receiver<T> {
    pub(super) fn new(shared: Arc<Isolated<Shared<T>>>) -> Self {
        Self {
            shared,
            sources: Vec::new(),
            next: 0,
            pace: Pace::new(),
        }
    }

    /// The first source that has something left of the last look.
    #[inline(always)]
    fn current(&mut self) -> Option<&mut Source<T>> {
        while let Some(source) = self.sources.get(self.next) {
            if source.has_events() {
                return self.sources.get_mut(self.next);
            }
            self.next += 1;
        }
        None
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<T> {
        let capacity = self.shared.capacity;
        self.current()?.pop(capacity)
    }

    /// Looks at all chains unless something is left of the last look, and tells whether there is anything to hand out.
    fn look(&mut self) -> bool {
        if self.current().is_some() {
            return true;
        }
        if self.shared.has_registered() {
            // SAFETY: a chain is registered once, by who made it, and taken from the list once.
            let found = self
                .shared
                .registered()
                .map(|chain| unsafe { Source::of(chain) });
            self.sources.extend(found);
        }
        let capacity = self.shared.capacity;
        let (mut events, mut at) = (0, 0);
        while let Some(source) = self.sources.get_mut(at) {
            match source.look(capacity) {
                Found::End => {
                    self.sources.swap_remove(at);
                    continue;
                }
                Found::Events(more) => events += more,
                Found::Nothing => {}
            }
            at += 1;
        }
        self.next = 0;
        self.pace.learn(events);
        events != 0
    }

    /// Whether no event can come any more, if the last look found none.
    fn is_over(&self) -> bool {
        // A sender is registered before the one that it was cloned from ends, which the look has seen of the last one.
        self.sources.is_empty() && !self.shared.has_registered()
    }

    /// Returns whether all senders have been dropped and all of their events delivered.
    #[must_use]
    pub fn is_disconnected(&mut self) -> bool {
        !self.look() && self.is_over()
    }

    /// The next event, if there is one.
    ///
    /// # Performance
    /// Wait-free. A look if the last one's events have all been handed out: that reads one line of each sender.
    #[inline]
    pub fn try_next(&mut self) -> Option<T> {
        if let Some(event) = self.pop() {
            return Some(event);
        }
        self.look();
        self.pop()
    }

    /// Calls `deliver` with everything that was sent before this was called, and returns how many events that were: the rest of an
    /// earlier look, and one more look. Senders that never pause do not keep it here.
    ///
    /// `deliver` may send to the channel; if that has a bound and is full, [`try_send`](super::Sender::try_send) is the way, since nobody else
    /// makes room. If `deliver` panics, the event that it was given is gone, and those behind it stay.
    pub fn drain(&mut self, mut deliver: impl FnMut(T)) -> usize {
        let count = self.hand_out(&mut deliver);
        self.look();
        count + self.hand_out(&mut deliver)
    }

    /// What is left of the last look.
    fn hand_out(&mut self, deliver: &mut impl FnMut(T)) -> usize {
        let capacity = self.shared.capacity;
        let mut count = 0;
        while let Some(source) = self.current() {
            while let Some(event) = source.pop(capacity) {
                count += 1;
                deliver(event);
            }
        }
        count
    }

    /// Appends everything that was sent before this was called, and returns how many events that were.
    pub fn drain_batch(&mut self, into: &mut Vec<T>) -> usize {
        self.drain(|event| into.push(event))
    }
}

#[cfg(feature = "std")]
impl<T: Send> Receiver<T> {
    /// The next event; sleeps until there is one. `None` if all senders have been dropped and all of their events delivered.
    ///
    /// # Performance
    /// Some looks within a microsecond or two, and then a system call to make sure that nobody sends unseen and one to sleep; whoever
    /// sends the next event pays for one that wakes. While looks bring few events and more follow, the next look comes after a microsecond or two,
    /// in which there will be more: each costs senders time.
    pub fn wait_next(&mut self) -> Option<T> {
        self.wait_until(None);
        self.pop()
    }

    /// The next event; sleeps until there is one, or for so long. `None` also if there can be none any more, at once: see
    /// [`is_disconnected`](Self::is_disconnected).
    ///
    /// # Performance
    /// As [`wait_next`](Self::wait_next).
    pub fn wait_next_for(&mut self, timeout: Duration) -> Option<T> {
        // A deadline beyond what the clock can express is none.
        self.wait_until(Instant::now().checked_add(timeout));
        self.pop()
    }

    /// Sleeps until there is something, or for so long; then calls `deliver` with it and returns how many events that were: the rest of an
    /// earlier look, or where there is none what one look finds. Returns 0 at once if there can be none any more.
    ///
    /// # Performance
    /// As [`wait_next`](Self::wait_next). `deliver` may send, and panic, as with [`drain`](Self::drain).
    pub fn wait_drain_for(&mut self, timeout: Duration, mut deliver: impl FnMut(T)) -> usize {
        // A deadline beyond what the clock can express is none.
        self.wait_until(Instant::now().checked_add(timeout));
        self.hand_out(&mut deliver)
    }

    /// Waits until there is something to hand out, or nothing can come any more, or the deadline has passed.
    fn wait_until(&mut self, deadline: Option<Instant>) {
        if self.current().is_some() {
            return;
        }
        self.pace.wait();
        let mut backoff = Backoff::new();
        while !self.look() && !self.is_over() {
            // Sleeping takes longer, for both sides. And a receiver that is woken by each event, on a processor that the sender needs,
            // would be given no more than that one.
            if !backoff.has_yielded() {
                backoff.wait();
                continue;
            }
            let shared = self.shared.clone();
            if !shared
                .bell
                .sleep(deadline, || self.look() || self.is_over())
            {
                // Whoever asks for nothing but what is there is given that.
                self.look();
                return;
            }
        }
    }
}

impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        // SAFETY: as in `look`.
        let found = self
            .shared
            .close()
            .map(|chain| unsafe { Source::of(chain) });
        self.sources.extend(found);
        // Who waits for room finds that there is no receiver.
        #[cfg(feature = "std")]
        for source in &self.sources {
            source.ring();
        }
        // Each drops its events and leaves its chain to its sender.
        despite_panics(self.sources.drain(..), drop);
    }
}

impl<T: Send> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
