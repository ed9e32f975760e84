//! Shared data structures whose **updates touch no shared cache line**, while every read still sees
//! every finished update, in order.
//!
//! | what you have | what to use |
//! |---|---|
//! | a counter that many threads add to and few read | [`counter::Counter`]: 1–2 ns an add, exact when read |
//! | several numbers that belong together, minima, maxima, or anything else that can be merged, behind a lock | [`reduce::Reducer`]: an update changes its thread's share, a read merges them as they are at one moment |
//! | a count of things in use, acquired and released, in a word that other code uses as well | [`counter::SloppyCounter`]: spares for each thread, and an exact answer when one is asked for |
//! | a histogram behind a lock: latencies, sizes | `reduce::HdrHistogram` (feature `histogram`): the same, with quantiles |
//! | counts by label, in a map of atomics | [`reduce::CounterMap`]: exact, bounded, and a hot label costs nanoseconds |
//! | the most frequent of very many keys; minimum, maximum, mean | [`reduce::TopK`], [`reduce::Summary`] |
//! | a lock around a structure that is updated all the time and read now and then | [`oplog::Logged`]: updates become values in a queue of the core that makes them |
//! | the same, and the updates are closures | [`oplog::LoggedFn`] |
//! | the same, in millions of objects of which few are updated at a time | [`oplog::Lent`]: eight bytes an object; logs are lent to those that need them |
//! | things that are added and soon removed again (connections, mappings, open files) | [`oplog::Logged`] with [absorption](oplog::Operation#absorption): most updates never have to be executed |
//! | the same, and all that has to be known is what is there now | [`collections::Registry`]: a handle for each, dropped from anywhere; exact `len`; listed rarely |
//! | events that many threads report, and one thread follows, in order | [`collections::EventQueue`]: a bounded queue, delivered without a delay, that wakes its consumer |
//! | a cache of bounded size that many threads read | [`collections::Cache`]: a hit stores to no shared line, values are lent in sections, nothing is ever resized |
//! | the keys of a cache in the order in which they were last used | [`collections::Lru`]: a hit is one append, eviction finds the exact order |
//! | a list behind a lock that all cores push to and pop from, in no order that matters between them | [`collections::PerCoreList`]: a list for each core, and stealing |
//! | a table that is looked up on all cores and hardly ever changed | [`collections::TableCache`]: a lookup touches this core's copies, an update takes them away |
//! | a set behind a lock, or a sharded one, whose answers nobody uses: who is connected, what is dirty, what is mapped | [`collections::Set`]: a change replaces an earlier one of its key on its core, and most never have to be executed |
//! | entries with handles of their own (timers, mappings of a file) that are put in and taken out again | [`ldu::Deferred`]: the two cancel by one atomic update of the entry; nothing is allocated, and no time stamp is taken |
//! | the same in a queue: retransmissions, requests with a deadline | [`ldu::Fifo`]: first in, first out, whatever leaves before its turn |
//! | any of these, and readers that can do with what was there a moment ago | `collections::Snapshots`: they read the last view at once, without a lock |
//! | last writer wins (registers, configuration, presence) | the same, with [`Absorb::Replace`](oplog::Absorb::Replace) |
//! | a value that is read all the time and replaced whole (configuration, routes) | [`reclaim::Replaceable`]: a read writes nothing shared, a replacement waits for nobody |
//! | handles: numbers that users hand in, for objects that come and go (descriptors, sessions, frames) | [`namespace::Namespace`]: a lookup writes nothing shared, a stale number is an error |
//! | a hash map behind a lock, or a sharded one: sessions, names, pages; looked up all the time, and changed often | [`collections::Map`]: a lookup writes nothing shared, a change locks its entry |
//! | the same for a few entries that are gone through in order | [`collections::OrderedList`] |
//! | nodes of a lock-free structure of your own | [`reclaim::Domain`]: they are destroyed when nobody can be reading them |
//! | the same, allocated and freed all the time, on all cores | [`slab::Slab`]: a thread's own lists; what others free goes home in batches |
//! | an object of which each core should have its own part, or whose implementation is to change while it is used | [`clustered::ObjectRef`]: callers name the interface; behind it is one representative, or one a slot |
//! | requests under way, counted so that they can be held off and waited for | [`clustered::requests::RequestCounter`]: enter and leave in 2 ns, and the count is exact when it matters |
//! | elements that all threads look up, lock and change, and that are removed now and then | [`clustered::dhash::DHash`]: a thread's own part of each, found without touching what others use |
//! | a lock in each of those nodes | [`lock::NodeLock`]: it knows that its node was freed |
//! | counters, gauges and histograms of the `metrics` facade or of `prometheus-client` | the crates `percolog-metrics` and `percolog-prometheus` |
//! | an `Arc` that threads clone and drop all the time | [`refcount::CoreArc`]: a clone writes its thread's memory only, the value is destroyed a little later |
//! | storage of your own, one place a core | [`cpu::PerCore`] |
//! | updates whose answer you need at once (was it there before?) | [`collections::Map`]; a sharded map such as `dashmap`, if they are most of what is done |
//! | mostly reads, updated in place | not this: `std::sync::RwLock`, `left-right` |
//! | a set updated as often as it is read | `collections::Map<K, ()>`, or `dashmap`; every read of the structures with logs collects from every core |
//!
//! # Statistics and references
//!
//! All of these are exact: nothing is sampled, and no update that has finished is missing from what is read afterwards. What they
//! differ in is what a read costs, and whether it shows one moment of all threads.
//!
//! | what you have | type | what a read costs | what it promises | take an ordinary one instead |
//! |---|---|---|---|---|
//! | a count of events, bytes, errors | [`counter::Counter`] | [`sum`](counter::Counter::sum): a line of each thread that added since the last one; [`estimate`](counter::Counter::estimate): two words | every add that finished; adds under way each for itself | `AtomicI64`: if it is read as often as it is added to, or if what is added depends on the value (a limit, the next number) |
//! | a gauge that goes up and down: sessions, bytes of a pool | [`counter::SloppyCounter`] | [`in_use`](counter::SloppyCounter::in_use): a barrier of some microseconds, and a line of each thread; [`central`](counter::SloppyCounter::central), never too low: one word | exactly what is in use at one moment | `AtomicI64`: if something happens when it becomes zero |
//! | a gauge that is set | `Gauge` of `percolog-instruments` | the same as a reducer | what was set last, and all changes since | `AtomicU64`: if one thread sets it, and nobody adds |
//! | a distribution: latencies, sizes | `reduce::HdrHistogram` (feature `histogram`) | the same as a reducer, with some kilobytes for each thread | count, sum, minimum and maximum exact, quantiles to the figures chosen, of one moment | an array of atomics: if it is a few buckets that are read one by one |
//! | counts by label | [`reduce::CounterMap`] | the same as a reducer, with each thread's table | each label's count exact, all of one moment, no more labels than the bound | a map of atomics: if labels are read one by one, all the time, or removed |
//! | counts of keys without end: addresses, users | [`reduce::TopK`] | the same as a reducer, with each thread's table | no count off by more than the total over *k*, and each says by how much; the total exact | `HashMap` behind a lock: if there are few updates, and every key counts |
//! | minimum, maximum, mean, variance | [`reduce::Summary`] | the same as a reducer | of one moment; mean and variance as exact as floats are | one thread's own variable: if one thread observes |
//! | several numbers that belong together | [`reduce::Reducer`] | [`read`](reduce::Reducer::read): a barrier of some microseconds, and the lines of each thread's share | each update is there entirely or not at all, all of one moment; [`take`](reduce::Reducer::take): each in exactly one | a mutex: if an update has to see the whole value |
//! | references that are cloned all the time | [`refcount::CoreArc`], [`refcount::CoreWeak`] | a use costs what it does with `Arc`; [`count`](refcount::CoreArc::count), [`get_mut`](refcount::CoreArc::get_mut): a barrier of some microseconds, and everybody waits | destroyed after the last drop, once, and not before; bounded, but not at once | `Arc`: if it matters when it is destroyed (files, locks, channels), or if it is cloned now and then; if it begins to matter later, [`switch_to_atomic`](refcount::CoreArc::switch_to_atomic) |
//! | references from a cache, to what may have been removed | [`refcount::Generation`] and [`clone_if`](refcount::CoreArc::clone_if); [`refcount::Compared`] for keys | a comparison: loads | no reference of an old generation is taken without being counted | a lock: if there are fewer than some thousand lookups for each removal that counts |
//!
//! # Order, bound, cost, ceiling
//!
//! Of what keeps updates in logs. *Moves*: cache lines an update moves from core to core, counted on 48 and 256 simulated cores and
//! asserted there: between reads; over 100,000 updates with all merges they cause; the first update after a read. *Bound*: how much a
//! core's log holds before the update that finds it full pays, by merging unless you say otherwise.
//!
//! | type | order | bound | moves | sustained ceiling |
//! |---|---|---|---|---|
//! | [`oplog::Logged`], [`oplog::LoggedFn`] | all updates, linearizable | 128 updates | 0; ≤ 2 · entry/64 + 0.1; ≤ 3 | what one core can execute |
//! | the same with absorption, [`collections::Set`] | the same | 128 keys | 0; 0; ≤ 3 | none while a core's keys fit its log |
//! | [`oplog::Lent`] | the same | 128 updates, and the cache's pool | see there; ≤ 2 · entry/64 + 0.1; see there | what one core can execute, or absorbs |
//! | [`collections::Registry`] | the same | 128 entries that are there for longer | 0; 0; ≤ 3 | none for entries that go from the core they came on |
//! | [`collections::EventQueue`] | all events, linearizable, with a mark where some were lost | its capacity | 0; ≤ 2 · entry/64 + 0.1; ≤ 3 | what the consumer takes |
//! | [`collections::Lru`] | keys by their last touch, exactly | 128 keys; touches beyond are discarded and counted | 0; ≤ 2 · entry/64 + 0.1, or 0 for few keys; ≤ 3 | none for a core's hot keys; else what one core can execute |
//! | [`collections::Cache`] | linearizable, key by key | its bytes | a lookup 0; a set its chain's, the item's, and its list's if room is made | none for lookups, and for sets of different keys |
//! | [`ldu::Deferred`] | of each entry's updates; none between entries | 128 entries, or a list without end that takes no memory | 0; 0; 3 and an upgrade | none for entries that come and go; else what one core can look at |
//! | [`ldu::Fifo`] | all pushes, linearizable | the same | 0; 0; as `Deferred` | what the popper takes |
//! | [`collections::PerCoreList`] | none between cores; empty means empty at one moment | none | 0; 0; ≤ 3 | none while cores pop what they push |
//! | [`collections::TableCache`] | linearizable | copies a core, as set | a lookup 0; 0 | none for lookups; updates one at a time |
//! | [`collections::Map`], [`collections::OrderedList`] | linearizable | the limit that you set | a lookup 0; a modification of a core's own keys ≤ 0.05, deleting and adding one ≤ 1 | changes of one entry, one at a time |
//! | `collections::Snapshots` | views follow one another; stale by the bound you set | — | as what it is made of; a look 0 | none for readers |
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
//!   that is being merged. Objects that are many and rarely touched have theirs [lent](oplog::Lent).
//! * A panic in an operation comes out where it is executed, not where it was queued.
//!
//! # Platforms and features
//!
//! | feature | what it gives |
//! |---|---|
//! | `std` (default) | slots, threads and clock of the operating system; waiting threads are parked |
//! | `histogram` | `reduce::HdrHistogram`, on the crate `hdrhistogram`; includes `std` |
//! | `alloc` | the same but for [`refcount`], on a platform of the program's own; see [`platform!`] |
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
pub mod clustered;
#[cfg(feature = "alloc")]
pub mod collections;
#[cfg(feature = "alloc")]
pub mod counter;
pub mod cpu;
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
pub mod slab;
#[doc(hidden)]
pub mod testing {
    //! Seams for percolog's own tests: an environment that says which slot a thread is on and what time it is.
    //!
    //! Not part of the stable interface.
    pub use crate::cpu::environment::{Environment, Native};
}
