//! A multi-producer, single-consumer queue of events, in one order.
//!
//! ```
//! use percolog::collections::EventQueue;
//! use percolog::collections::event_queue::Delivery;
//! use std::thread;
//!
//! #[derive(Debug, PartialEq)]
//! enum Change { Created(&'static str), Removed(&'static str) }
//!
//! static CHANGES: EventQueue<Change> = EventQueue::new(1000);
//!
//! thread::scope(|scope| {
//!     scope.spawn(|| {
//!         CHANGES.push(Change::Created("a"));   // no shared cache line
//!         CHANGES.push(Change::Removed("a"));
//!     });
//!     let mut changes = CHANGES.consumer().expect("there is no other consumer");
//!     // Sleeps until there is one; the order is never the other way round, whatever threads push.
//!     assert_eq!(changes.wait_next(), Delivery::Event(Change::Created("a")));
//!     assert_eq!(changes.wait_next(), Delivery::Event(Change::Removed("a")));
//! });
//! ```
//!
//! **Order.** Linearizable: it is as if one plain bounded queue stood behind a lock. If one push returned before another was
//! called, on whatever threads, its event is delivered first. A consumer is given every event whose push returned before it looked.
//!
//! # The watermark
//!
//! An event may only be delivered once nothing can arrive that belongs before it. Where producers' queues are merged by time, that is
//! commonly a hope with a delay in it: *wait 10 ms, by then everybody's clock has been seen*. Here it is a property of the cut that
//! the consumer makes, and there is no delay.
//!
//! Let the consumer's *n*-th look take its cut of all producers' queues at the time stamp *Tₙ*. (The engine holds the locks of
//! all queues that have anything when it takes *Tₙ*.) Then:
//!
//! 1. **All stamps in the cut are at most *Tₙ*.** Each was taken before its queue's lock was released, and the cut had acquired all
//!    those locks before it took *Tₙ*; stamps increase along what threads can know of each other.
//! 2. **What is not in the cut had not been pushed.** Had its push returned, its queue would have been marked before the cut began, and the cut
//!    takes every marked queue. So a later event's push was under way at *Tₙ*, or began after it.
//! 3. **So a later event belongs behind the cut.** Take as its place in the order the later one of its stamp and of the last cut that went
//!    by before it was in its queue. That lies between its push's call and its return, by 2; it is at least *Tₙ*; and within
//!    each cut it is the order of the stamps, which the merge keeps.
//!
//! Delivery therefore goes by places in the order that never decrease: once the consumer has been given what was in the cut, no event
//! that belongs before any of it is left anywhere. The engine's models go through the interleavings of 2; a clock that
//! breaks 1 is noticed, counted and replaced ([`EventQueue::stats`]).
//!
//! # Which queue, and why
//!
//! The stamped log of [`oplog`](crate::oplog): the order of events of different producers is the point of an event queue
//! (was the file created before it was removed?), and it takes a time stamp to know it. Events do not cancel each other, so there is
//! no index to keep. Equal neighbours are merged only where all queues come together: that two events are neighbours cannot be known
//! earlier, because one of another core may lie between them.
//!
//! **Sustained ceiling.** Every event is moved to the waiting queue by one thread at a time and from there to the consumer: so many
//! events a second as one core can move, however many cores push.
//!
//! **When to take a channel instead.** Where each producer's own order is enough, or there is one producer, take
//! [`channel`](crate::collections::channel): it takes no time stamp, and delivers several times as many events with any number of producers. Each event
//! here pays for a stamp (a producer pushes no more than about 35 million a second), and each look of the consumer costs the producer
//! several lines. Where events are to be handed to several consumers, take a channel such as `crossbeam-channel`. What the queue buys is the one order,
//! and that what is lost, and where, is told; and its producers on many cores do not fight over a tail: simulated on 48 cores, it is ahead of
//! `crossbeam-channel` from five producers on, and stays where it is with 47, where that has fallen to a fraction of what one producer
//! sends. (`--bench targets -- --only events` of the repository's benchmarks, and `cargo lab figures run inotify`.)
//!
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, §3.3: the inotify queue, whose lock
//! is what stops the kernel's file system from scaling.

#[cfg(doc)]
use crate::collections::EventQueue;

#[cfg(feature = "std")]
pub(super) mod bell;
mod consumer;
#[cfg(all(test, percolog_loom))]
mod models;
pub(super) mod pace;
pub(super) mod queue;
mod waiting;

pub use consumer::Consumer;
pub use queue::EventQueueBuilder;
pub use waiting::Delivery;
