//! The channel as its senders see it, and what they share with the receiver.

use super::chain::{Chain, Producer, chain};
use super::{SendError, TrySendError};
#[cfg(feature = "std")]
use crate::collections::event_queue::bell::Bell;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{Backoff, Isolated};
use alloc::sync::Arc;
use core::fmt;
use core::ptr::{self, NonNull};
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

/// What all senders and the receiver of a channel share. It is written only when a sender comes, when the receiver sleeps, and when it goes.
pub(super) struct Shared<T> {
    /// Chains that the receiver has not found yet, linked; or `closed()`.
    registered: AtomicPtr<Chain<T>>,
    /// The receiver sleeps here.
    #[cfg(feature = "std")]
    pub(super) bell: Bell,
    pub(super) capacity: usize,
}

/// The address that says that there is no receiver: no chain has it.
fn closed<T>() -> *mut Chain<T> {
    NonNull::dangling().as_ptr()
}

/// Chains that the receiver is given.
pub(super) struct Registered<T>(*mut Chain<T>);

impl<T> Iterator for Registered<T> {
    type Item = NonNull<Chain<T>>;

    fn next(&mut self) -> Option<NonNull<Chain<T>>> {
        let chain = NonNull::new(self.0)?;
        // SAFETY: a chain that is registered is freed only after it has been given to the receiver, who reads the link before that. Whoever
        // registered the chain wrote the link before, and the list was taken with Acquire.
        self.0 = unsafe { chain.as_ref().link.with(|link| *link) };
        Some(chain)
    }
}

impl<T> Shared<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            registered: AtomicPtr::new(ptr::null_mut()),
            #[cfg(feature = "std")]
            bell: Bell::new(),
            capacity,
        }
    }

    /// Gives the receiver a chain. Hands it back if there is none.
    fn register(&self, chain: NonNull<Chain<T>>) -> Result<(), NonNull<Chain<T>>> {
        // Relaxed: the exchange below decides.
        let mut first = self.registered.load(Ordering::Relaxed);
        loop {
            if first == closed() {
                return Err(chain);
            }
            // SAFETY: the link is this thread's until the chain is registered.
            unsafe { chain.as_ref().link.with_mut(|link| *link = first) };
            // Release pairs with the Acquire in `registered` and `close`: the chain and its link. Relaxed on failure: as above.
            match self.registered.compare_exchange_weak(
                first,
                chain.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => first = now,
            }
        }
    }

    /// Whether there are chains that the receiver has not found.
    pub(super) fn has_registered(&self) -> bool {
        // Relaxed: what is found is taken with Acquire. A chain whose registration the receiver knows of is found in any case.
        !self.registered.load(Ordering::Relaxed).is_null()
    }

    /// Takes the chains that have been registered. Only for the receiver, before it closes the channel.
    pub(super) fn registered(&self) -> Registered<T> {
        // Acquire pairs with the Release in `register`.
        Registered(self.registered.swap(ptr::null_mut(), Ordering::Acquire))
    }

    /// The same, and from then on there is no receiver.
    pub(super) fn close(&self) -> Registered<T> {
        // Acquire: as in `registered`.
        Registered(self.registered.swap(closed(), Ordering::Acquire))
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        // Relaxed: whoever learns late sends what the chain's last owner drops.
        self.registered.load(Ordering::Relaxed) == closed()
    }
}

/// A sender that sleeps is woken when half of its room is free: to be woken for each event costs both sides more than the event. A
/// receiver that takes fewer, and then none, lets it sleep for so long.
#[cfg(feature = "std")]
const NAP: Duration = Duration::from_millis(1);

/// Access to what is shared; wakes the receiver when it goes.
struct Attached<T>(Arc<Isolated<Shared<T>>>);

impl<T> Drop for Attached<T> {
    fn drop(&mut self) {
        #[cfg(feature = "std")]
        self.0.bell.ring();
    }
}

/// The sending side of a channel; each clone has a queue of its own.
///
/// See the [module](super) for an example, the order and the cost.
///
/// A sender can be moved to another thread, but not shared: clone it for each thread. An event that has been sent is delivered, or dropped with
/// the receiver, whether its sender is still there or not.
pub struct Sender<T: Send> {
    // First: its end is what the bell then tells of.
    producer: Producer<T>,
    shared: Attached<T>,
}

impl<T: Send> Sender<T> {
    pub(super) fn new(shared: Arc<Isolated<Shared<T>>>) -> Self {
        let (producer, chain) = chain(shared.capacity);
        if let Err(chain) = shared.register(chain) {
            // SAFETY: this is the only source, since the chain was not registered.
            drop(unsafe { super::chain::Source::of(chain) });
        }
        Self {
            producer,
            shared: Attached(shared),
        }
    }

    /// Sends an event: every look of the receiver that begins after this has returned finds it. Waits while as many events as the channel's
    /// capacity wait in this sender's queue.
    ///
    /// # Performance
    /// Wait-free if the channel has no bound; otherwise blocking. Moves no cache line between two looks of the receiver; in the long run the
    /// event's bytes, and a line or two for each look that finds any. Allocates a segment of 64 events when none of this sender's is free.
    ///
    /// # Errors
    /// Hands the event back if the receiver has been dropped.
    #[inline]
    pub fn send(&self, event: T) -> Result<(), SendError<T>> {
        match self.try_send(event) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(event)) => Err(SendError(event)),
            Err(TrySendError::Full(event)) => self.send_waiting(event),
        }
    }

    /// Sends an event if there is room.
    ///
    /// # Performance
    /// As [`send`](Self::send), and never waits.
    ///
    /// # Errors
    /// Hands the event back if as many events as the channel's capacity wait in this sender's queue, or if the receiver has been dropped.
    #[inline]
    pub fn try_send(&self, event: T) -> Result<(), TrySendError<T>> {
        if self.is_disconnected() {
            return Err(TrySendError::Disconnected(event));
        }
        if !self.producer.has_room() {
            return Err(TrySendError::Full(event));
        }
        self.producer.push(event);
        #[cfg(feature = "std")]
        self.shared.0.bell.ring();
        Ok(())
    }

    #[cold]
    fn send_waiting(&self, event: T) -> Result<(), SendError<T>> {
        let mut backoff = Backoff::new();
        let may_go_on = || self.is_disconnected() || self.producer.has_room();
        while !may_go_on() {
            #[cfg(feature = "std")]
            if backoff.has_yielded() {
                // A model's clock stands still.
                let deadline = Instant::now().checked_add(NAP);
                let deadline = deadline.filter(|_| !cfg!(percolog_loom));
                self.producer.sleep(deadline, may_go_on);
                continue;
            }
            backoff.wait();
        }
        self.try_send(event)
            .map_err(|error| SendError(error.into_inner()))
    }

    /// Returns whether the receiver has been dropped.
    #[inline]
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.shared.0.is_closed()
    }
}

impl<T: Send> Clone for Sender<T> {
    /// A sender with a queue of its own, and no order between its events and those of this one. Allocates.
    fn clone(&self) -> Self {
        Self::new(self.shared.0.clone())
    }
}

impl<T: Send> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}
