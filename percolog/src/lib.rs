//! Shared data structures whose **updates touch no shared cache line**, while every read still sees
//! every finished update, in order.
//!
//! | what you have | what to use |
//! |---|---|
//! | a counter that many threads add to and few read | [`counter::Counter`]: 1–2 ns an add, exact when read |
//! | a lock around a structure that is updated all the time and read now and then | [`oplog::Logged`]: updates become values in a queue of the core that makes them |
//! | the same, and the updates are closures | [`oplog::LoggedFn`] |
//! | things that are added and soon removed again (connections, mappings, open files) | [`oplog::Logged`] with [absorption](oplog::Operation#absorption): most updates never have to be executed |
//! | last writer wins (registers, configuration, presence) | the same, with [`Absorb::Replace`](oplog::Absorb::Replace) |
//! | storage of your own, one place a core | [`cpu::PerCore`] |
//! | updates whose answer you need at once (was it there before?) | not this: a sharded map such as `dashmap` |
//! | mostly reads | not this: `std::sync::RwLock`, `arc-swap`, `left-right`, or RCU |
//! | a set or map updated as often as it is read | not this: `dashmap`; every read here collects from every core |
//!
//! # The idea
//!
//! Threads that fight over a structure spend their time moving cache lines, not working. A line that
//! was written on one core and is needed on another takes 50 to 500 cycles to get there, and everyone
//! who wants it waits in line. RCU took that cost from *readers*. percolog takes it from *updates*:
//!
//! ```text
//!  core 0 ──add──▶ [queue 0]─┐
//!  core 1 ──add──▶ [queue 1]─┼─ merged by time ─▶ the structure ◀── a reader pays for the merge
//!  core 2 ──add──▶ [queue 2]─┘
//! ```
//!
//! An update is written, with a time stamp, to a queue that belongs to the core it is made on. A
//! reader takes all queues at one instant, merges them by stamp, executes the operations on the one
//! shared structure, and reads it. Nothing about the structure has to be concurrent, and nothing
//! about its interface has to change: say which calls update and which read.
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
//!             HITS.increment();                                              // no shared cache line
//!             SEEN.update(move |seen| *seen.entry(visitor % 2).or_default() += 1); // nor here
//!         });
//!     }
//! });
//! assert_eq!(HITS.sum(), 4);
//! assert_eq!(SEEN.synchronize()[&0], 2);
//! ```
//!
//! The idea is OpLog's: S. Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor
//! Operating System Kernels*, PhD thesis, MIT 2014, chapters 5 to 7.
//!
//! # The contract
//!
//! 1. **Linearizable** ([`oplog`]). An update that returned before a reader asked is in what the
//!    reader sees. If one update returned before another was called, on whatever threads, they are
//!    executed in that order. A guard shows the state at one instant. ([`counter`] promises less order,
//!    and says exactly what.)
//! 2. **No shared line is written by an update between two reads**, on any number of cores.
//! 3. **Nothing is lost**: not when threads exit or migrate, not when a queue is full, not when an
//!    operation panics, not when the object is dropped.
//! 4. **Bounded, and the bill is visible.** A queue that reaches its limit does what its
//!    [`Policy`](oplog::Policy) says; [`stats`](oplog::Logged::stats) shows what deferring has cost and
//!    who paid.
//! 5. **Honest progress.** Each method says whether it is wait-free, lock-free or blocking, what it
//!    costs in cache-line transfers and allocations, and when it panics. Threads may outnumber cores:
//!    nobody spins out a time slice behind an owner that is not running.
//!
//! # The sustained ceiling
//!
//! What is removed is *communication, not work*. Updates that cancel, overwrite or add up cost their
//! append and no more, on any number of cores. Updates that do none of these are executed in the end,
//! one after the other: a stream of them runs no faster than **one core can execute it**, however many
//! cores feed it. For such a stream percolog buys short update times and batching, not scaling.
//!
//! # The trade-offs
//!
//! * A read costs a merge: a visit to every core that has updated since the last one. From some share
//!   of reads on, a plain lock is faster; where that point lies is measured by the repository's
//!   benchmarks and printed in its README.
//! * An ordered update pays for its time stamp, about 15 ns. Counters need no order and pay none.
//! * Updates give no answer. [`with`](oplog::Logged::with) merges first, and then answers.
//! * Memory: a queue of up to 128 operations for each core that updates an object, and a second one
//!   that is being merged. Objects that are many and rarely touched are better off with a lock.
//! * A panic in an operation comes out where it is executed, not where it was queued.
//!
//! # Platforms and features
//!
//! | feature | what it gives |
//! |---|---|
//! | `std` (default) | slots, threads and clock of the operating system; waiting threads are parked |
//! | `alloc` | counters and logs on a platform of the program's own; see [`platform!`] |
//! | neither | [`cpu`]: slots and stamps alone |
//!
//! x86-64 and aarch64 have fast stamps; elsewhere, and where the clock cannot be trusted
//! ([`cpu::clock::health`] says why), stamps come from one shared counter, and ordered updates then do
//! touch one shared line.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod sync;

#[cfg(feature = "alloc")]
pub mod counter;
pub mod cpu;
#[cfg(feature = "alloc")]
pub mod engine;
#[cfg(feature = "alloc")]
pub mod oplog;
