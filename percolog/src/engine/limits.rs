//! What happens when a slot's queue is full.

use super::slots::bounded;
use core::fmt;

/// What `queue` does when the slot's queue has reached its limit, and the operation neither cancels nor replaces one that is in it:
/// what does takes no room, and is queued as below the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Merge on the spot if the object is free; while it is taken, grow to the hard limit; then wait.
    #[default]
    Merge,
    /// Grow without bound; someone else sees to it that the object is synchronized or drained.
    Grow,
    /// Refuse: `try_queue` hands the operation back, and `queue` panics.
    Full,
    /// Drop the operation and count it.
    Discard,
    /// Merge on the spot if the object is free; while it is taken, or poisoned, drop the operation and count it. For hints of which
    /// one more or less does not matter, from threads that are not to wait.
    MergeOrDiscard,
}

/// Whether [`queue`](crate::oplog::Logged::queue) executes operations at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// As it goes best: at once while the object's lock is usually free, or readers come often; deferred while updates of several
    /// threads meet and readers come seldom. The object learns it, and changes with the load.
    #[default]
    Adaptive,
    /// At once, unless the object is in use just then.
    Eager,
    /// Never: whoever reads executes them, or finds its queue full.
    Deferring,
    /// Now so, now so, for no reason: for tests.
    #[doc(hidden)]
    Restless,
}

/// The treatment of pending operations when the object is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDrop {
    /// They are executed, as if each had been when it was queued. Not if the object is poisoned, or
    /// dropped by a thread that panics: then they are dropped. One that panics goes on to who drops the object; those behind it are dropped.
    #[default]
    Apply,
    /// They are dropped without being executed.
    Discard,
}

/// An object's limits, fixed when it is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) limit: usize,
    pub(crate) hard_limit: usize,
    pub(crate) policy: Policy,
    pub(crate) mode: Mode,
    pub(crate) on_drop: OnDrop,
    pub(crate) absorb_while_merging: bool,
    /// Whether the state is in order whatever operation has panicked: then poison is for those who read, and updaters who come to
    /// the limit go on merging, so that what is pending does not grow until somebody clears it.
    pub(crate) merge_poisoned: bool,
}

impl Options {
    /// 128 operations a slot, as in the thesis (chapter 7).
    pub(crate) const DEFAULT: Self = Self {
        limit: 128,
        hard_limit: 16 * 128,
        policy: Policy::Merge,
        mode: Mode::Adaptive,
        on_drop: OnDrop::Apply,
        absorb_while_merging: true,
        merge_poisoned: false,
    };

    /// Whether an updater may execute what others have queued.
    pub(super) const fn updaters_merge(&self) -> bool {
        matches!(self.policy, Policy::Merge | Policy::MergeOrDiscard)
    }

    /// The length at which a slot's queue stops to be appended to without a second thought.
    pub(super) const fn first_threshold(&self) -> u32 {
        match self.policy {
            Policy::Grow => u32::MAX,
            _ => bounded(self.limit),
        }
    }
}

/// The error of queueing an operation, with the operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<O> {
    /// What could not be queued.
    pub operation: O,
    /// Why not.
    pub reason: FullReason,
}

/// The reason why an operation was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullReason {
    /// The slot's queue is at its limit.
    Limit,
    /// The slot's queue is in use by another thread just now.
    Busy,
    /// The slot's queue is at its hard limit, and this thread holds a guard of the object, or runs
    /// one of its operations: waiting for a merge would be waiting for itself.
    Held,
    /// The slot's queue is at its hard limit, and nothing is merged into a poisoned object.
    Poisoned,
}

impl fmt::Display for FullReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limit => "the slot's queue is at its limit",
            Self::Busy => "the slot's queue is in use",
            Self::Held => {
                "the slot's queue is at its hard limit while this thread holds the object"
            }
            Self::Poisoned => "the slot's queue is at its hard limit and the object is poisoned",
        })
    }
}

impl<O> Full<O> {
    /// The operation that was not queued.
    pub fn into_inner(self) -> O {
        self.operation
    }
}

impl<O> fmt::Debug for Full<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<O> fmt::Display for Full<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the operation was not queued: {}", self.reason)
    }
}

impl<O> core::error::Error for Full<O> {}
