//! The queue, as producers see it.

#[cfg(feature = "std")]
use super::bell::Bell;
use super::consumer::Taken;
use super::waiting::{Push, Waiting};
use crate::cpu::{Environment, Native};
use crate::oplog::{Full, LogStats, Logged};
use crate::sync::{Isolated, SlotLock, const_fn};
use core::fmt;

/// A bounded multi-producer, single-consumer queue with one order of all events.
///
/// See the [module](super) for an example, the order and why it holds, and the sustained ceiling.
///
/// # Bound and overflow
///
/// At most `capacity` events wait in the merged queue. One that finds it full is dropped, and a single
/// [`Overflow`](super::Delivery::Overflow) at its place in the order says how many were, one after the other: a consumer that keeps
/// state of its own then knows that it has to look for itself, and from which event on it need not any more. What the
/// consumer has taken hold of and not gone through yet is not counted, and neither are events in the cores' own queues: 256 each, and up to
/// 4096 while a merge is under way.
///
/// # Progress and cost
///
/// | method | progress | cache lines moved | allocations |
/// |---|---|---|---|
/// | [`push`](Self::push) | blocking for a few instructions; merges at 256 events of its own, and waits at 4096 for who merges | none between looks; ≤ 3 at a core's first event after a look; in the long run its bytes, with 8 for the stamp, to whoever merges and back | none, once its queues have grown |
/// | [`try_push`](Self::try_push) | never waits, never merges | as `push` | as `push` |
/// | [`Consumer`](super::Consumer)'s looks | blocking while another thread merges | for each core that has pushed, its lock and its events | none, once its queues have grown |
///
/// While a consumer sleeps, the next event costs its producer a system call, and a line. While none does, a producer only reads the word that says so.
/// Where the system has no `membarrier` ([`barrier::mode`](crate::cpu::barrier::mode)), each push has a memory fence as well.
///
/// # Panics and poisoning
///
/// Events are compared, where equal neighbours are merged, and dropped, where they are lost, by whichever thread merges. If that panics, the
/// queue is poisoned: the consumer's looks panic until [`clear_poison`](Self::clear_poison). The event that was compared or dropped is lost, and
/// is in no [`Overflow`](super::Delivery::Overflow) unless it was about to be; all others are there, in order. Pushing goes on, and so do the merges
/// that it pays for.
///
/// A comparison or a destructor that pushes to the same queue is served, up to the hard limit of its core's queue, where it panics: the
/// merge would wait for itself.
pub struct EventQueue<T: Send, E: Environment = Native> {
    pub(super) log: Logged<Waiting<T>, Push<T>, E>,
    /// What the consumer has taken hold of; whoever has the lock is the consumer.
    pub(super) taken: Isolated<SlotLock<Taken<T>>>,
    #[cfg(feature = "std")]
    pub(super) bell: Isolated<Bell>,
}

/// How many events a core's own queue holds before its producer merges, unless said otherwise. Where a consumer lives, merging is better left to
/// it: what a producer merges goes to the consumer all the same, by way of further lines that both write. So it is more than is pushed while the
/// consumer goes through what its last look has brought.
const LIMIT: usize = 256;

/// A builder of an [`EventQueue`].
///
/// ```
/// use percolog::collections::EventQueue;
/// use percolog::collections::event_queue::{Delivery, EventQueueBuilder};
///
/// static SEEN: EventQueue<&str> = EventQueueBuilder::new(2).build();
///
/// let queue = EventQueueBuilder::new(2).build_merging();
/// for event in ["a", "a", "b", "c", "d"] {
///     queue.push(event);
/// }
/// let mut delivered = Vec::new();
/// queue.consumer().unwrap().drain_batch(&mut delivered);
/// assert_eq!(
///     delivered,
///     [Delivery::Event("a"), Delivery::Event("b"), Delivery::Overflow { lost: 2 }],
/// );
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct EventQueueBuilder {
    capacity: usize,
    limit: usize,
}

impl EventQueueBuilder {
    /// For that many events, at least one.
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity: if capacity == 0 { 1 } else { capacity },
            limit: LIMIT,
        }
    }

    /// How many events a core's own queue holds before its producer merges: 256 unless said otherwise, at least 1. While another
    /// thread merges it grows to 16 times as many.
    pub const fn limit(mut self, events: usize) -> Self {
        self.limit = events;
        self
    }

    const_fn! {
        /// The queue. Allocates nothing; usable in statics.
        pub const fn build<T: Send>(self) -> EventQueue<T> {
            self.build_in(Native)
        }
    }

    const_fn! {
        /// The queue, in an environment of its own: for tests that force migrations and clock skew.
        #[doc(hidden)]
        pub const fn build_in<T: Send, E: Environment>(self, environment: E) -> EventQueue<T, E> {
            self.build_with(None, environment)
        }
    }

    /// The queue, in which an event that is equal to the one before it is dropped, as if it had been that one: unless the other
    /// one has been taken by the consumer meanwhile, which would then not hear of the second.
    #[must_use]
    pub fn build_merging<T: Send + PartialEq>(self) -> EventQueue<T> {
        self.build_merging_in(Native)
    }

    /// As [`build_merging`](Self::build_merging), in an environment of its own.
    #[doc(hidden)]
    pub fn build_merging_in<T: Send + PartialEq, E: Environment>(
        self,
        environment: E,
    ) -> EventQueue<T, E> {
        self.build_with(Some(T::eq), environment)
    }

    const_fn! {
        const fn build_with<T: Send, E: Environment>(
            self,
            same: Option<fn(&T, &T) -> bool>,
            environment: E,
        ) -> EventQueue<T, E> {
            EventQueue {
                log: crate::oplog::LoggedBuilder::new()
                    .mode(crate::oplog::Mode::Deferring)
                    .limit(self.limit)
                    // Events are compared before, and dropped after, anything is changed.
                    .merge_poisoned()
                    .build_in(Waiting::new(self.capacity, same), environment),
                taken: Isolated::new(SlotLock::new(Taken::new())),
                #[cfg(feature = "std")]
                bell: Isolated::new(Bell::new()),
            }
        }
    }
}

impl<T: Send> EventQueue<T> {
    const_fn! {
        /// Creates a queue for that many events (at least one). Allocates nothing; usable in statics.
        #[must_use]
        pub const fn new(capacity: usize) -> Self {
            EventQueueBuilder::new(capacity).build()
        }
    }

    const_fn! {
        /// Creates a queue without a bound: for producers who are known to pause, or consumers who are known to keep up.
        #[must_use]
        pub const fn unbounded() -> Self {
            Self::new(usize::MAX)
        }
    }
}

impl<T: Send, E: Environment> EventQueue<T, E> {
    /// Appends an event: every look that begins after this has returned finds it, or the overflow that it was lost in, unless an
    /// earlier one has.
    ///
    /// See the type for progress and cost.
    ///
    /// # Panics
    /// Only if the core's queue is at its hard limit and a comparison or destructor has called this: see the type.
    #[inline]
    #[track_caller]
    pub fn push(&self, event: T) {
        self.log.queue(Push(event));
        self.ring();
    }

    /// Appends an event unless that would mean to merge or to wait.
    ///
    /// # Errors
    /// Hands the event back if the core's queue has come to where `push` would merge, or is in use by another thread for longer than
    /// a few pauses. Events that were handed back are in no [`Overflow`](super::Delivery::Overflow).
    #[inline]
    #[track_caller]
    pub fn try_push(&self, event: T) -> Result<(), Full<T>> {
        match self.log.try_queue(Push(event)) {
            Ok(()) => {
                self.ring();
                Ok(())
            }
            Err(full) => Err(Full {
                reason: full.reason,
                operation: full.operation.0,
            }),
        }
    }

    /// Appends events, in order, with one lock and one stamp for up to 16 of them. Others' events may come between them.
    ///
    /// # Panics
    /// As [`push`](Self::push); the events before the one that could not be pushed are in the queue.
    #[track_caller]
    pub fn extend(&self, events: impl IntoIterator<Item = T>) {
        self.log.extend(events.into_iter().map(Push));
        self.ring();
    }

    #[inline(always)]
    fn ring(&self) {
        #[cfg(feature = "std")]
        self.bell.ring();
    }

    /// Returns whether bringing events together has panicked: a comparison, or the destructor of an event that was not kept. See
    /// [the type](Self#panics).
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.log.is_poisoned()
    }

    /// Lets the consumer look again.
    pub fn clear_poison(&self) {
        self.log.clear_poison();
    }

    /// Returns statistics: what deferring has cost so far: here `executed` is how many events have been brought together. Locks each core's queue for
    /// a moment.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.log.stats()
    }
}

impl<T: Send, E: Environment> fmt::Debug for EventQueue<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue").finish_non_exhaustive()
    }
}
