//! Shared data structures whose updates write no cache line that another core uses, and whose reads see every finished update.
//!
//! For programs with many threads that share counters, references, tables or other structures, and that get slower with every core. Find the line that
//! is in the way first: the command `percolog sim` of this repository names it, and says what a fix brings.
//!
//! ```
//! use percolog::counter::Counter;
//! use percolog::oplog::LoggedFn;
//! use std::collections::BTreeMap;
//!
//! static HITS: Counter = Counter::new();
//! static SEEN: LoggedFn<BTreeMap<u64, u32>> = LoggedFn::new(BTreeMap::new());
//!
//! std::thread::scope(|scope| {
//!     for visitor in 0..4u64 {
//!         scope.spawn(move || {
//!             HITS.increment();                                                    // a line of this thread
//!             SEEN.update(move |seen| *seen.entry(visitor % 2).or_default() += 1); // a log of this core
//!         });
//!     }
//! });
//! assert_eq!(HITS.sum(), 4);
//! assert_eq!(SEEN.synchronize()[&0], 2);
//! ```
//!
//! # What is here
//!
//! | you have | see |
//! |---|---|
//! | a counter, or a number in use, in an atomic | [`counter`]: [`Counter`](counter::Counter), [`SloppyCounter`](counter::SloppyCounter) |
//! | statistics behind a lock: sums, extremes, histograms, counts by label | [`reduce`] |
//! | an `Arc` that many threads clone and drop | [`refcount`]: [`CoreArc`](refcount::CoreArc) |
//! | a value that is replaced whole, or nodes that are read without locks | [`reclaim`]: [`Replaceable`](reclaim::Replaceable), [`Domain`](reclaim::Domain) |
//! | connections, sessions, open files: a list of what is there now | [`Registry`](collections::Registry) |
//! | a map, set, cache, event queue, free list or table | [`collections`] |
//! | any structure behind a lock that is updated often and read rarely | [`oplog`]: [`Logged`](oplog::Logged), [`LoggedFn`](oplog::LoggedFn), [`Lent`](oplog::Lent) |
//! | timers, dirty pages: objects that are linked and unlinked | [`ldu`]: [`Deferred`](ldu::Deferred), [`Fifo`](ldu::Fifo) |
//! | handles that users pass in | [`namespace`]: [`Namespace`](namespace::Namespace) |
//! | nodes that are allocated and freed on all cores; a lock in each | [`slab`], [`lock`] |
//! | an object of which each core should have its own part | [`clustered`]: [`ObjectRef`](clustered::ObjectRef) |
//! | storage of your own, one place a core | [`cpu`]: [`PerCore`](cpu::PerCore) |
//!
//! The repository's guide, `docs/choosing.md`, compares all types by what they cost and when something else is better.
//!
//! # Contract
//!
//! 1. **Linearizable.** A read shows every update that returned before it began. Logged updates are executed in an order in which an update that
//!    returned before another was called comes first. ([`counter`] promises less order, and says what.)
//! 2. **No shared cache line is written by an update between two reads**, on any number of cores.
//! 3. **Nothing is lost** when threads exit or migrate, a log is full, an operation panics, or the object is dropped.
//! 4. **Bounded.** A log that reaches its limit does what its [`Policy`](oplog::Policy) says; [`stats`](oplog::Logged::stats) shows what that has cost.
//! 5. **Progress and cost are stated.** Each method says whether it is wait-free, lock-free or blocking, how many cache lines it moves, what it
//!    allocates, and when it panics. Threads may outnumber cores.
//!
//! # Signal handlers
//!
//! Nothing here may be used in a signal handler, apart from [`SloppyCounter`](counter::SloppyCounter)'s `acquire` and `release`, and
//! [`SharedRequestCounter`](requests::SharedRequestCounter)'s `try_enter` and its guard; both say when. A handler that interrupts a call of this library on its own
//! thread can wait for that thread for ever, or change what the call is changing.
//!
//! # Miri and other checkers
//!
//! Under Miri the library does without what Miri cannot follow: assembly, rseq, `membarrier` and the processor's counter.
//! `RUSTFLAGS="--cfg percolog_portable"` does the same for any other checker. Slots are then leased by threads, barriers are fences, and
//! stamps come from one shared counter. Results are the same, and speed is not.
//!
//! # When to use something else
//!
//! * **Updates whose result is needed**: [`collections::Map`], or a sharded map such as `dashmap` where such updates are most of the load.
//! * **Reads as frequent as updates**: an atomic or a sharded map. A read of a log or a counter visits every core that has updated since the last
//!   read. [`oplog::Logged`] notices, and then is a lock: no worse than the one that you have, and no better than that.
//! * **A sustained stream of updates that neither cancel, overwrite nor add up**: one core executes them in the end, so that they run no faster than one
//!   core can execute them. What is removed is communication, not work.
//! * **One thread, or no contention**: what you have. A `Logged` costs about what a mutex does, and an update that is logged 23 ns<!-- from targets: ordered append: queue of 24 bytes --> (Zen 5).
//!
//! A panic in a logged operation surfaces where the operation is executed, not where it was queued.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `std` (default) | slots, threads and clock of the operating system; waiting threads are parked |
//! | `histogram` | `reduce::HdrHistogram`, on the crate `hdrhistogram`; includes `std` |
//! | `alloc` | everything but [`refcount`], on a platform of the program's own; see [`platform!`] |
//! | neither | [`cpu`]: slots and stamps alone |
//!
//! x86-64 and aarch64 have fast stamps. Elsewhere, and where the clock cannot be trusted ([`cpu::clock::health`] says why), stamps come from one shared
//! counter, and ordered updates then write one shared line.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "alloc")]
mod hash;
mod sync;

#[cfg(feature = "alloc")]
pub mod clustered;
#[cfg(feature = "alloc")]
pub mod collections;
#[cfg(feature = "alloc")]
pub mod counter;
pub mod cpu;
#[cfg(feature = "alloc")]
pub mod dhash;
#[cfg(feature = "alloc")]
mod engine;
#[cfg(feature = "alloc")]
pub mod ldu;
#[cfg(feature = "alloc")]
pub mod lock;
#[cfg(feature = "alloc")]
pub mod namespace;
#[cfg(feature = "alloc")]
pub mod oplog;
#[cfg(feature = "alloc")]
pub mod reclaim;
#[cfg(feature = "alloc")]
pub mod reduce;
#[cfg(feature = "std")]
pub mod refcount;
#[cfg(feature = "alloc")]
pub mod requests;
#[cfg(feature = "alloc")]
pub mod slab;
#[doc(hidden)]
pub mod testing {
    //! Seams for percolog's own tests: an environment that says which slot a thread is on and what time it is.
    //!
    //! Not part of the stable interface.
    pub use crate::cpu::environment::{Environment, Native};
}
