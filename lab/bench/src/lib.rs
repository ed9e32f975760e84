//! Workloads and peers: what the `percolog` command and the benchmarks of this repository measure.
//!
//! A figure here is worth something only beside a peer in the same run, so every workload is written once and
//! driven through each structure ([`peers`], one file each) by the same [`runner`]:
//!
//! * N threads start together and run for a fixed time; **one thread is always shown**;
//! * the final read (a sum, a merge) is part of the measured time;
//! * the final state is checked, and every read on the way: a fast wrong answer is an error, not a figure;
//! * the median of a few cells is shown, with the slowest and the fastest beside it.
//!
//! The two workloads are [`counters`] (adds from every thread, read rarely) and [`sets`] (connections that open
//! and close). Both can read at any rate, which gives the [crossing](crossing::crossing): the read ratio from which
//! a per-core log loses.
//!
//! A third one, [`reclaim`], asks what it costs to free memory that others may be reading, and a fourth, [`reducers`], what
//! it costs to fold numbers into a value, a count by label, or a histogram. [`in_use`] is the counter duel for what goes up
//! and down; [`references`] clones and drops, and [`lifetimes`] says how long after the last drop a value is destroyed.
//! [`events`] are produced by many threads, and delivered to one; [`entries`] are timeouts that are set and unset.
//! [`names`] are given to values, looked up, and taken back; [`maps`] find values by key while they are changed; [`caches`] keep those
//! that are asked for, and [`memcached`] those behind a socket. [`heaps`] allocate objects and free them, here and elsewhere.
//!
//! [`osdi10`] has per-core structures of a kernel beside what they replaced.
//!
//! [`regret`] asks how far from the best choice an object is that was put in place without knowing the load.
//!
//! [`mixture`] is the user's own: reads and updates in any proportion, by keys of any skew, as fast as can be or so many a second.
//!
//! [`eviction`] asks another question: not how fast, but which keys a cache keeps.
//!
//! This crate exists for the command; it promises no stable interface.

pub mod append;
pub mod caches;
pub mod calls;
pub mod counters;
pub mod crossing;
pub mod entries;
pub mod events;
pub mod eviction;
pub mod exchange;
pub mod found;
pub mod freeing;
pub mod heaps;
pub mod host;
pub mod in_use;
pub mod interfaces;
pub mod lifetimes;
pub mod maps;
pub mod memcached;
pub mod memory;
pub mod mixture;
pub mod names;
pub mod osdi10;
pub mod peers;
pub mod recency;
pub mod reclaim;
pub mod reducers;
pub mod references;
pub mod regret;
pub mod runner;
pub mod sessions;
pub mod sets;
