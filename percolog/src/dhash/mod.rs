//! Hash tables whose lookups return a locked element: [`DHash`], with replicas for each thread, and [`Partitioned`], with several master
//! tables.
//!
//! For what every request looks up and changes a little: pages of a file, sessions, routes with a count of their own. A sharded map moves
//! an element's lock, and what is changed, to whoever uses it; a [`DHash`] has a part of each element for each thread, which no
//! other thread touches between two [gathers](DHash::gather).
//!
//! This is the reusable hash table of J. Appavoo et al., *Experience Distributing Objects in an SMMP OS*, ACM Transactions on Computer Systems
//! 25 (3), 2007, §4.4, with the names from there: a *master* table, and *local* ones, which size themselves independently;
//! [`find_or_allocate_and_lock`](DHash::find_or_allocate_and_lock), of which only one of those who miss allocates;
//! [`empty_data`](DHash::empty_data), which removes an element from all tables at one moment; elements with a shared and a distributed
//! constituent; [`scatter`](DHash::scatter) and [`gather`](DHash::gather). And its partitioned relative, for what is found once and
//! seldom again.
//!
//! # How it works
//!
//! *Invariant:* an element is what its record in the master table says; a replica in a local table is used by one thread at a time, and stands for
//! the element until it is marked as dead.
//!
//! A thread's local table lies at its place, whose lock costs its owner nothing ([`BiasedLock`](crate::cpu::barrier)): a lookup enters the
//! place with a store and a load, finds the replica, and looks whether it was marked. The guard that it returns keeps the thread inside: so the lock
//! of the place is the lock of every local part in it. (The paper has a reference count for that and a lock in each element, which cost
//! more here than all the rest.) Who removes an element marks its replicas and waits for nobody; their memory is
//! freed by who uses the place, later. Who gathers keeps everybody out of all places for a moment.
//!
//! `places.rs` has the places, and why nobody waits in a circle; `core.rs` why a removal happens at one moment; `local.rs` and `master.rs` the
//! tables; `element.rs` who may touch what of a replica.

// Under the model checker only the models use what is here.
#![cfg_attr(percolog_loom, allow(dead_code))]

mod core;
mod element;
#[cfg(not(percolog_loom))]
mod interface;
mod local;
mod master;
#[cfg(all(test, percolog_loom))]
mod models;
#[cfg(not(percolog_loom))]
mod partitioned;
mod places;
#[cfg(not(percolog_loom))]
mod table;

#[cfg(not(percolog_loom))]
pub use interface::{ElementTable, LockedElement};
#[cfg(not(percolog_loom))]
pub use partitioned::{Partitioned, PartitionedElement};
#[cfg(not(percolog_loom))]
pub use table::{DHash, DHashStats, Element, VisitError};

use ::core::fmt;

/// The calling thread already has what it would wait for: the element that it looks up, or, in a closure or a comparison that a
/// table has called, the table's own lock. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reentered(());

impl fmt::Display for Reentered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this thread has what it would wait for: drop the element's guard first, and do not use a table in what it calls")
    }
}

impl ::core::error::Error for Reentered {}
