//! Objects whose queues are lent to them by a cache.
//!
//! Most instances of a structure are not contended, and a queue a core for each of them would be memory
//! wasted. So a cache, one for all objects of a kind, lends queues to those that are being updated. The
//! object itself is its state and eight bytes ([`Lent`]): lock, flags, and the set of the slots that
//! have a queue of its. Each slot has a direct-mapped table of *places* ([`Cache`]): a tag, which is the
//! object's address, and a queue. Queues belong to a pool with a cap, and move between places as values: what is
//! in them stays where it is.
//!
//! **Invariants.**
//!
//! * A slot has at most one queue of an object: at the object's place, tagged, or set aside. It moves
//!   between the two only under the lock of the place.
//! * Where there is one, the slot is in the object's set. The set is emptied only by who has the object
//!   to itself and has visited all slots in it; it then has no tag anywhere.
//! * A tagged object is alive as long as the place is locked: its destruction takes the tags away first.
//!
//! **Locks.** In this order: object, place, the slot's side. An update that finds its place taken by
//! another object has to go the other way: it *tries* the other object's lock under the lock of the
//! place. If it gets it, it lets go of the place and merges that object, as the thesis says. If it does
//! not, because there is a reader, or because this thread is that reader, the queue is set aside, and
//! whoever merges the object next finds it there. So an update never waits for an unrelated object.
//!
//! # What an object that is not contended has
//!
//! Its state, eight bytes, and no queue: an update takes the object's lock if that is free, and executes its operation in place, once what is
//! in queues has been. An update that finds the lock taken waits for a moment, as in objects that own their queues. Where that
//! happens often the object is made *deferring* (a bit beside the set): its updates are queued without a look at the lock, in queues that the cache
//! lends; merges that find little in them make it eager again. What is executed at once overtakes nothing: an update that has returned
//! and is in a queue has its slot in the set, where whoever has the lock sees it.
//!
//! # Why the cut is consistent
//!
//! A merge first *closes* the object: one exchange on the word that has the set in it. While an object is
//! closed no slot can be added to the set. Then the merge visits the slots in the set, one after the
//! other, takes what is queued there and the tag. Then it empties the set and opens the object.
//!
//! Suppose update *x* finished before *y* was called and *y* is in the cut. If *x*'s slot was not in the
//! set, or had been visited, when *x* came, *x* had to enter the set, which it could only do before the
//! object was closed, or after it was opened. Before: it is in the set, and in the cut. After: *y* began when the
//! visits were over, and is not in the cut. Otherwise *x* went to a queue that was still to be visited,
//! and is in the cut. An update that cancels an earlier one does so in that one's queue, where the same holds.
//! What finished before the merge began is in the set by then. Writers cannot keep the merge busy: it
//! visits each slot once. And it holds one place at a time, so that two merges, of objects that have the same
//! place, cannot wait for each other.
//!
//! # What the first update after a merge moves
//!
//! The merge has written to the place, and has been in the queue's memory; and the set is a word of the object's. These are
//! three lines, and there is no fourth: the queue begins in the place, behind the lock and the tag, and a slot enters
//! the set by an *or*, which cannot fail. (With a compare-and-exchange, of slots that come at the same moment all but one would
//! have fetched the line in vain.)
//!
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*,
//! §5.2.3 and chapter 7.

mod append;
mod cache;
mod core_set;
mod eager;
mod evict;
mod merge;
#[cfg(all(test, percolog_loom))]
mod models;
mod object;
mod places;

pub use cache::LogCacheStats;
pub(crate) use cache::{Cache, CacheOptions};
pub(crate) use object::Lent;
