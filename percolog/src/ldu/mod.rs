//! Containers whose updates cancel each other, without time stamps.
//!
//! A [`Deferred`] container is one that many threads put [entries](Entry) into and take them out of, and
//! that is looked at now and then: the mappings of a file, the timers that are set, the connections that
//! are open. An update changes the entry's own word and, if the entry is not in the log already, puts it
//! there; whoever [synchronizes](Deferred::synchronize) looks at the entries in the log and does to the
//! container what is left to be done. What was inserted and removed in between is not even looked for:
//! the update that cancelled the other was one atomic operation on memory that only this thread uses.
//!
//! ```
//! use percolog::ldu::{Deferred, Entry, Sorted};
//!
//! static TIMERS: Deferred<Sorted<u64>> = Deferred::new(Sorted::new());
//!
//! let timeout = Entry::new(300);
//! TIMERS.insert(&timeout)?; // a request begins
//! TIMERS.remove(&timeout)?; // and ends in time: nothing is left to be done
//! TIMERS.insert(&timeout)?; // the next one
//!
//! let mut timers = TIMERS.synchronize();
//! assert_eq!(timers.pop_first().map(|entry| *entry), Some(300));
//! assert!(!timeout.is_linked());
//! # Ok::<(), percolog::ldu::Refused>(())
//! ```
//!
//! # Which order is kept
//!
//! * **Of one entry's updates**: they are linearizable, whichever threads make them and whichever containers
//!   they move it between. Each says whether it has changed anything.
//! * **What a reader sees**: every update that finished before the container's lock was taken. An update that
//!   runs at the same time as the merge may be in what it shows or not.
//! * **Not kept** is the order between entries. A reader may see an update and miss an earlier one of another
//!   entry, if both ran at the same time as the merge; intermediate states may never be seen; and in which
//!   order the container is given its entries is left open. Where order matters, [`Fifo`] keeps it, and
//!   [`oplog`](crate::oplog) does for any operation; a stamp is most of what an update costs there.
//!
//! # Who pays
//!
//! An update that cancels is one compare-and-exchange on the entry's line. One that enqueues needs the slot's
//! lock beside it (or, with [`Variant::Global`], a compare-and-exchange on a list that all threads share).
//! Nothing is allocated. An entry that two threads update takes its line from one to the other: this
//! is for entries that one thread at a time uses. *Sustained ceiling:* none for updates that cancel within the
//! log's reach; entries that are inserted and stay, or are new each time, cost whoever merges a look
//! each, so at most what one core can look at.
//!
//! Merging is done by readers, by updaters at the [limit](Builder::limit), by whoever calls
//! [`drain`](Deferred::drain), or by a timer: `engine::Periodic`.
//!
//! # After a fork
//!
//! A child that was copied while another thread was in the middle of an update finds a slot's lock, or an
//! entry's claim, that nobody will ever release: as with any lock, what the child may use is what no other
//! thread used at that time.
//!
//! J. Kyong, *A Lightweight Log-based Deferred Update for Linux Kernel Scalability*; and the patches
//! published with it. What they require of their callers (updates of an entry one at a time, one structure
//! for each entry, keys that do not change) is provided for here.

mod container;
mod deferred;
mod entry;
mod fifo;
mod identity;
#[cfg(all(test, percolog_loom))]
mod models;
mod node;
mod queue;

pub use container::{Bag, Container, Sorted};
pub use deferred::{Builder, Deferred, Variant};
pub use entry::{Entry, Member, Refused};
pub use fifo::{Fifo, FifoGuard, Stamped};

pub use crate::engine::{
    Drained, OnDrop, Policy, Reason, Shared, Stats, SynchronizeError, Synchronized,
};
