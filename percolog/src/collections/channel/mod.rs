//! A multi-producer, single-consumer channel: in order for each sender, with no line that senders share.
//!
//! ```
//! use percolog::collections::channel;
//! use std::thread;
//!
//! let (sender, mut receiver) = channel::unbounded();
//! thread::scope(|scope| {
//!     for thread in 0..2 {
//!         let sender = sender.clone();
//!         scope.spawn(move || {
//!             for number in 0..3 {
//!                 sender.send((thread, number)).expect("the receiver is there");
//!             }
//!         });
//!     }
//! });
//! drop(sender);
//!
//! let mut next = [0; 2];
//! // Sleeps while there is no event, and ends when there is no sender.
//! while let Some((thread, number)) = receiver.wait_next() {
//!     assert_eq!(number, next[thread]);
//!     next[thread] += 1;
//! }
//! assert_eq!(next, [3, 3]);
//! ```
//!
//! **Order.** The events of one sender are delivered in its order. Nothing is promised between senders, also where one sent only after it had
//! learned of the other's event: [`EventQueue`](crate::collections::EventQueue) has one order of all events, for 15 ns more an event.
//!
//! **Visibility.** Every look of the receiver that begins after [`send`](Sender::send) returned finds the event.
//!
//! # Design
//!
//! Each sender has a queue of its own, which it appends to with plain stores and one Release store. The receiver looks at all of them, takes from
//! each what it has found there, and then looks again: a sender that never pauses keeps no other one waiting for longer than what it had sent
//! at the look. Segments of 64 events go back to their sender once they are empty; so a channel in a steady state allocates nothing, and
//! a sender keeps as much memory as it has ever needed, until it is dropped and its events are delivered.
//!
//! # Bound
//!
//! The capacity of [`bounded`] is each sender's: so many of its events wait at most, and no sender takes another one's room. There is none to be
//! shared, since senders would have to write a common count for it. [`send`](Sender::send) then waits for room and [`try_send`](Sender::try_send) hands the event back,
//! as they do in other channels. (`EventQueue` drops events that it has no room for and says where: with no order between senders there is no such place.)
//!
//! # When to use something else
//!
//! Where the order between threads matters: [`EventQueue`](crate::collections::EventQueue), which also lives in a `static` and needs no handles. Where there are several
//! receivers, a `select!`, or thousands of senders with an event now and then, each of which the receiver looks at: `crossbeam-channel`.

mod chain;
#[cfg(all(test, percolog_loom))]
mod models;
mod receiver;
mod sender;

pub use receiver::Receiver;
pub use sender::Sender;

use crate::sync::Isolated;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;
use sender::Shared;

/// Creates a channel without a bound.
///
/// For senders that are known to pause, or a receiver that is known to keep up.
#[must_use]
pub fn unbounded<T: Send>() -> (Sender<T>, Receiver<T>) {
    bounded(usize::MAX)
}

/// Creates a channel in which at most `capacity` events of each sender wait (at least one).
///
/// ```
/// use percolog::collections::channel::{self, TrySendError};
///
/// let (sender, mut receiver) = channel::bounded(2);
/// sender.send(1)?;
/// sender.send(2)?;
/// assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
/// assert_eq!(receiver.try_next(), Some(1));
/// sender.send(3)?;
/// # Ok::<(), channel::SendError<i32>>(())
/// ```
#[must_use]
pub fn bounded<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Isolated::new(Shared::new(capacity.max(1))));
    (Sender::new(shared.clone()), Receiver::new(shared))
}

/// The error of sending to a channel whose receiver has been dropped, with the event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> SendError<T> {
    /// The event that was not sent.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sending to a channel whose receiver was dropped")
    }
}

impl<T> Error for SendError<T> {}

/// The error of [`Sender::try_send`], with the event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// As many events of this sender wait as the channel's capacity.
    Full(T),
    /// The receiver has been dropped.
    Disconnected(T),
}

impl<T> TrySendError<T> {
    /// The event that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(event) | Self::Disconnected(event) => event,
        }
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "sending to a full channel",
            Self::Disconnected(_) => "sending to a channel whose receiver was dropped",
        })
    }
}

impl<T> Error for TrySendError<T> {}
