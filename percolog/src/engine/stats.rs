//! The bill: what deferring has cost, and who paid.

use super::limits::Mode;
use crate::sync::const_fn;
// No part of any algorithm, so the model checker need not look at it: its search is the deeper.
use crate::sync::global::{AtomicU64, Ordering};
use core::time::Duration;

/// Statistics of an object's logs: what its deferred updates have cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Slots that have ever updated the object.
    pub slots: usize,
    /// Operations queued and not yet executed.
    pub pending: usize,
    /// Bytes allocated by the slots' queues.
    pub queue_bytes: usize,
    /// How often dirty queues were taken and applied, by readers and updaters.
    pub merges: u64,
    /// Operations executed.
    pub executed: u64,
    /// Of those, how many were executed by [`queue`](crate::oplog::Logged::queue) itself, without being queued.
    pub at_once: u64,
    /// Whether updates are executed at once just now ([`Mode::Eager`]) or deferred ([`Mode::Deferring`]).
    pub mode: Mode,
    /// How often that has changed.
    pub mode_changes: u64,
    /// Why it is so.
    pub mode_reason: ModeReason,
    /// Whether the object is in a phase of reading, in which [`read`](crate::oplog::Logged::read) writes on a line of its slot only, and
    /// an update looks at all slots' lines.
    pub biased_to_readers: bool,
    /// Operations that never had to be executed, because others cancelled or replaced them.
    pub absorbed: u64,
    /// Operations dropped because of [`Policy::Discard`](super::Policy::Discard) or
    /// [`Policy::MergeOrDiscard`](super::Policy::MergeOrDiscard).
    pub discarded: u64,
    /// Merges paid by updaters that came to the limit.
    pub updater_merges: u64,
    /// Most operations executed in one merge paid by an updater.
    pub longest_updater_merge: u64,
    /// The longest time an updater spent on a merge; zero where there is no clock (no `std`).
    pub longest_updater_wait: Duration,
    /// Operations whose stamp was out of order or in the future: the clock cannot be trusted.
    pub clock_violations: u64,
}

/// Why updates are executed at once just now, or deferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum ModeReason {
    /// Nothing has spoken against how the object began: at once.
    #[default]
    Initial,
    /// The builder said so, or a type that is made of a log.
    Fixed,
    /// Deferring is being tried, and timed.
    Trial,
    /// It has been tried, and was faster by a tenth or more: deferred.
    DeferringWasFaster,
    /// It has been tried, and was not: at once.
    DeferringWasNotFaster,
    /// The lock was contended, and updates must not merge, so that nothing could be timed: deferred.
    Contended,
    /// Merges found few operations: at once.
    FewUpdates,
    /// The last trial was a million updates ago: at once, until the next one.
    TrialIsOld,
}

impl ModeReason {
    const ALL: [Self; 8] = [
        Self::Initial,
        Self::Fixed,
        Self::Trial,
        Self::DeferringWasFaster,
        Self::DeferringWasNotFaster,
        Self::Contended,
        Self::FewUpdates,
        Self::TrialIsOld,
    ];

    pub(crate) fn from_number(number: u8) -> Self {
        Self::ALL[usize::from(number) % Self::ALL.len()]
    }
}

/// The memory that an object has allocated for its logs, in bytes.
///
/// To the byte: the sizes that were asked for. What the allocator adds (headers, rounding, what it keeps for
/// itself) is not in it, nor is the object's own size, nor what the structure and queued operations own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// For the slots' queues: their places, the operations in them, what they keep for reuse, the index by which
    /// operations find those that they absorb, and the dirty marks.
    pub queues: usize,
    /// For merging: the second queue of each slot, and what putting operations in order takes.
    pub merging: usize,
}

impl MemoryUsage {
    /// Both together.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.queues + self.merging
    }
}

/// The result of a call of `drain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Operations executed.
    pub executed: usize,
    /// Whether everything that was queued before the call has been executed. `false` as well when
    /// somebody else had the object, or when it is poisoned.
    pub finished: bool,
}

/// The part of the account that is kept with the object's lock.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) merges: Tally,
    pub(crate) executed: Tally,
    pub(crate) mode_changes: Tally,
    pub(crate) absorbed: Tally,
    pub(crate) updater_merges: Tally,
    pub(crate) longest_updater_merge: Tally,
    pub(crate) longest_updater_nanos: Tally,
    pub(crate) clock_violations: Tally,
    /// Operations in a batch that has not been applied in full.
    pub(crate) unfinished: Tally,
}

impl Account {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self {
                merges: Tally::new(),
                executed: Tally::new(),
                mode_changes: Tally::new(),
                absorbed: Tally::new(),
                updater_merges: Tally::new(),
                longest_updater_merge: Tally::new(),
                longest_updater_nanos: Tally::new(),
                clock_violations: Tally::new(),
                unfinished: Tally::new(),
            }
        }
    }
}

/// A number that one thread at a time writes and any thread may read.
///
/// Relaxed throughout: each is a statistic of its own that publishes nothing.
#[derive(Debug)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    #[inline(always)]
    pub(crate) fn add(&self, more: u64) {
        if more != 0 {
            // Not an atomic addition: only the holder of the object's lock writes. (Violations can be
            // met by several slots at once; of those the number may then be too small, never zero.)
            self.0
                .store(self.get().wrapping_add(more), Ordering::Relaxed);
        }
    }

    pub(crate) fn raise_to(&self, value: u64) {
        if value > self.get() {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn set(&self, value: u64) {
        if value != self.get() {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
