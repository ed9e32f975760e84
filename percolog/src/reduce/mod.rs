//! Reducers: per-thread shares of a value, updated without contention and merged when the value is read.
//!
//! For statistics that are more than a count: minima, maxima and means, histograms, counts by label. Start here if you have a
//! `Mutex<Stats>` that every request takes. Not for values that are read as often as they are updated, and not for updates
//! that need the whole value (*"add unless it is above the limit"*): an update sees its own thread's share only.
//!
//! # How it works
//!
//! *Invariant:* the value is the merge of all shares, and a share is used by one thread at a time.
//!
//! A thread leases a share when it first updates, and uses it from then on with plain loads and stores; when the thread
//! exits, the next thread that leases the number goes on with the share. A read keeps all owners out of their shares at one
//! moment, with a [barrier](crate::cpu::barrier) that costs only the reader, and merges what it finds: a *consistent cut*.
//! Threads beyond the 512 leases, and destructors of thread-local values that run after the lease has been given back, use
//! one of 16 other shares, behind a lock each. Without the `std` feature each slot has such a share behind a lock.
//! (The shares are `cpu::shards`, where it is said why this is right.)
//!
//! This is what S. Boyd-Wickizer's thesis, *Optimizing Communication Bottlenecks in Multiprocessor Operating System
//! Kernels*, §6.2 and Figure 6-3, does for counters (operations are executed on a per-core value at once instead of being
//! logged), for any value that can be merged, and with reads that are one moment of all cores.
//!
//! # Which to use
//!
//! | what you want to know | type |
//! |---|---|
//! | one number | [`Counter`](crate::counter::Counter): cheaper, smaller, and read without stopping anybody |
//! | several that belong together, or what is not a sum | [`Reducer`] of a tuple, an array, or a type of your own |
//! | minimum, maximum, mean and variance | [`Summary`] |
//! | how often, by label | [`CounterMap`] |
//! | which of very many keys come most often | [`TopK`] |
//! | quantiles of latencies, sizes and the like | `HdrHistogram`, with the feature `histogram` |

// Under the model checker only the models use what is here.
#![cfg_attr(percolog_loom, allow(dead_code))]

#[cfg(not(percolog_loom))]
mod counter_map;
#[cfg(all(feature = "histogram", not(percolog_loom)))]
mod histogram;
mod merge;
#[cfg(not(percolog_loom))]
mod reducer;
#[cfg(not(percolog_loom))]
mod summary;
#[cfg(not(percolog_loom))]
mod tables;
#[cfg(not(percolog_loom))]
mod top;

#[cfg(not(percolog_loom))]
pub use counter_map::{CounterMap, CounterMapIntoIter, CounterMapSnapshot};
#[cfg(all(feature = "histogram", not(percolog_loom)))]
pub use histogram::{HdrBounds, HdrBoundsError, HdrHistogram, HdrSnapshot};
pub use merge::{Max, Merge, Min, Sum};
#[cfg(not(percolog_loom))]
pub use reducer::Reducer;
#[cfg(not(percolog_loom))]
pub use summary::{Summary, SummarySnapshot};
#[cfg(not(percolog_loom))]
pub use top::{TopK, TopKEntry, TopKSnapshot};

use core::fmt;

/// The error of a read when the kernel refuses the [barrier](crate::cpu::barrier) that it had offered.
///
/// A filter of system calls that was installed later can do that.
///
/// Nothing was changed, and updates go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierError(());

impl BarrierError {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

impl fmt::Display for BarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel refused the membarrier that it had offered; start the program with PERCOLOG_BARRIER=fence, or let the filter of system calls allow membarrier")
    }
}

impl core::error::Error for BarrierError {}
