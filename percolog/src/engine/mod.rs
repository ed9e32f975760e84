//! What every deferred structure shares: a state, one queue a slot, and the reader who brings them
//! together.
//!
//! An `Object` is generic in what its queues mean ([`Queue`]): the engine knows slots, dirty marks,
//! limits, guards, poisoning and accounts; the queue knows how to append, absorb and apply. Where the
//! queues *live* is kept apart too: an `Object` owns its queues (`Slots`); to a `Lent` object a cache
//! lends them (`lent`), and takes them back for others.
//!
//! **Invariant.** The operations of an object are, in the order in which they take effect: the state;
//! then the *batch* (queues taken from their slots in one cut and not yet applied, usually empty);
//! then the slots' queues. Only the holder of the object's lock moves operations from right to left,
//! and it takes all dirty queues at one instant, holding all their locks: no operation is taken while
//! one that caused it stays behind. (Reading "everything stamped up to now", queue by queue, would be
//! wrong for queues that absorb: they change what they hold.)
//!
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*,
//! §5.1 (logs and cut), §6.1 (the interface), chapter 7 (limits, locks, which slots have a queue).

mod batch;
mod contained;
mod dirty;
mod eager;
mod gate;
mod guard;
mod lent;
mod limits;
mod merge;
mod mode;
#[cfg(all(test, percolog_loom))]
pub(crate) mod models;
mod object;
#[cfg(feature = "std")]
mod periodic;
mod queue;
mod reading;
mod room;
mod slots;
mod stats;
mod trial;

pub(crate) use gate::Wait;
pub use guard::{ReadGuard, SynchronizeError, Synchronized};
pub use lent::LogCacheStats;
pub(crate) use lent::{Cache, CacheOptions, Lent};
pub(crate) use limits::Options;
pub use limits::{Full, FullReason, Mode, OnDrop, Policy};
pub(crate) use object::Object;
#[cfg(feature = "std")]
pub use periodic::{Drain, DrainThread};
pub(crate) use queue::{Absorbed, Execute, Limits, Queue};
pub(crate) use slots::Origin;
pub use stats::{Drained, LogStats, MemoryUsage, ModeReason};
