//! Ordered logs: any structure, updated without touching a shared cache line.
//!
//! [`Logged`] wraps a structure. Updates are values ([`Operation`]) that go, with a time stamp, into
//! a queue of the slot that makes them; reading ([`Logged::synchronize`]) merges the queues by stamp,
//! executes the operations in that order and gives out a guard.
//!
//! ```
//! use percolog::oplog::{Logged, Operation};
//! use std::collections::BTreeSet;
//!
//! enum Edit { Add(u64), Remove(u64) }
//!
//! impl Operation<BTreeSet<u64>> for Edit {
//!     fn exec(self, open: &mut BTreeSet<u64>) {
//!         match self {
//!             Edit::Add(id) => { open.insert(id); }
//!             Edit::Remove(id) => { open.remove(&id); }
//!         }
//!     }
//! }
//!
//! static OPEN: Logged<BTreeSet<u64>, Edit> = Logged::new(BTreeSet::new());
//! OPEN.queue(Edit::Add(3));                       // no shared cache line
//! assert!(OPEN.synchronize().contains(&3));       // merges every queue, then reads
//! ```
//!
//! **Order.** Linearizable: an update that returned before `synchronize` was called is in what it
//! shows, and if one update returned before another was called, by whatever threads, they are
//! executed in that order.
//!
//! **Sustained ceiling.** Logging moves the work to the reader; it does not make it less. Operations
//! that do not absorb each other are executed one after the other, so a stream of them runs no faster
//! than one core can execute it. Give operations that cancel or replace each other an
//! [absorption](Operation::absorb) rule, and those that never have to be executed cost their append
//! alone.
//!
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*,
//! chapters 5 to 7.

mod closure;
mod entry;
mod identity;
mod index;
mod lent;
mod log;
mod logged;
#[cfg(all(test, percolog_loom))]
mod models;
mod operation;
mod row;

pub use closure::LoggedFn;
pub use identity::{Birth, Death, unique};
pub use lent::{CacheBuilder, Cached, Lent, LogCache};
pub use log::Log;
pub use logged::{Builder, Logged};
pub use operation::{Absorb, Operation};

pub use crate::engine::{
    CacheStats, Drained, Full, MemoryUsage, OnDrop, Policy, Reason, Shared, Stats,
    SynchronizeError, Synchronized,
};
