//! Scalable reference counting: an `Arc` that many cores can clone and drop at the same time.
//!
//! A [`CoreArc`] is counted like an [`Arc`](alloc::sync::Arc) until several cores clone it at the same time: one atomic count, and the
//! last drop destroys the value. A value that is found to be contended becomes *hot*: it is counted on each core from then on,
//! and destroyed a little after its last drop. See [cold and hot](CoreArc#cold-and-hot).
//!
//! # What not to put in it
//!
//! **What is closed when it is dropped, and when matters**: files, sockets, lock guards, channels. The last drop of a hot
//! value does not destroy it. Some later drop of anything hot, or [`reclaim`], does: see
//! [when](CoreArc#when-the-value-is-destroyed). Until then [`CoreWeak::upgrade`] may succeed, *after* the last `CoreArc`
//! is gone. Put it around what many threads share and what only takes memory: configurations, routes, names, documents,
//! the parts of a cache. If it matters when a value is destroyed, from the beginning or later, at a shutdown or when the value is taken out of the table in which
//! everybody finds it, [`CoreArc::switch_to_atomic`] makes it like an `Arc` from then on: the last drop destroys it.
//!
//! # Before and after
//!
//! ```
//! # struct Route;
//! use std::sync::Arc;
//!
//! let route = Arc::new(Route);
//!
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| {
//!             for _ in 0..1000 {
//!                 let mine = route.clone(); // fetches the line of the count
//!                 drop(mine);               // and again
//!             }
//!         });
//!     }
//! });
//! assert_eq!(Arc::strong_count(&route), 1);
//! ```
//!
//! ```
//! # struct Route;
//! use percolog::refcount::CoreArc;
//!
//! let route = CoreArc::new(Route);
//!
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| {
//!             for _ in 0..1000 {
//!                 let mine = route.clone(); // soon writes memory of this thread only
//!                 drop(mine);               // so does this
//!             }
//!         });
//!     }
//! });
//! assert_eq!(CoreArc::count(&route), 1);
//! ```
//!
//! # How it works
//!
//! *Invariant:* an object's cold references are counted in its word; and its hot ones are as many as its count says, plus what the
//! *row* of each thread has added and not given to the count. All hot ones together have one share in the word, and the object is
//! destroyed by whoever leaves nothing there.
//!
//! A thread that clones or drops a hot reference writes +1 or −1 to its own row, which has a place for each of about a thousand objects.
//! What the rows have is added up in *rounds*, by a thread that drops, for all threads: nobody has to tick, and a thread
//! that sleeps for an hour holds up nothing. An object whose sum is zero is not dead yet, because a reference may have
//! been made on one row while another was added up; so the collector looks at all rows twice, and finds an object dead if
//! nothing has happened to it in between.
//!
//! A value that is made [ordinary](CoreArc::switch_to_atomic) is taken out of all rows at one moment, and has its references
//! counted in the word from then on.
//!
//! It is a descendant of Refcache (A. T. Clements, M. F. Kaashoek, N. Zeldovich, *RadixVM*, EuroSys 2013, §3.1), whose
//! rows it has, and of the reference counts of OpLog (S. Boyd-Wickizer's thesis, §6.2), whose readers also add up. It
//! differs from Refcache in how zero is found: an object whose count stays zero for two epochs can still have a reference,
//! if references hop between cores ahead of the flushes; and an epoch ends only when every core has taken part in it. The
//! one-way switch to an ordinary count is that of Linux's `percpu_ref`.

// Under the model checker only the models use what is here.
#![cfg_attr(percolog_loom, allow(dead_code))]

mod candidates;
mod collector;
mod count;
mod generation;
mod heat;
#[cfg(all(test, percolog_loom))]
mod models;
#[cfg(not(percolog_loom))]
mod references;
mod row;
#[cfg(not(percolog_loom))]
mod shared;
#[cfg(not(percolog_loom))]
mod tagged;
#[cfg(all(test, not(percolog_loom)))]
mod tests;
#[cfg(not(percolog_loom))]
mod weak;

pub use generation::{Change, Compared, Comparison, Generation, Seen};
#[cfg(not(percolog_loom))]
pub use references::CoreArc;
#[cfg(not(percolog_loom))]
pub use shared::{RefcountStats, reclaim, stats};
#[cfg(not(percolog_loom))]
pub use weak::CoreWeak;
