//! The seam through which a deferred structure learns its slot and the time.

use super::{CoreId, clock};

/// Where a structure gets its slot, its chip and its stamps from.
///
/// Programs use [`Native`] and never see this. Tests inject their own to force migrations and clock
/// skew that no machine would produce on demand; everything that decides *where* and *when* goes
/// through here.
pub trait Environment {
    /// The slot of the calling thread.
    fn slot(&self) -> CoreId;

    /// A stamp that is greater than every stamp whose taking the calling thread can know of, and not
    /// taken before the thread's earlier loads have completed.
    fn stamp(&self) -> u64;

    /// A stamp that is taken before anything the thread does later: no later load runs ahead of it.
    /// (Earlier ones may still be under way.)
    fn stamp_first(&self) -> u64 {
        self.stamp()
    }

    /// The chip (NUMA node) the caller runs on. A hint: it decides which line a dirty mark is set in
    /// and never whether it is found.
    fn chip(&self) -> usize {
        0
    }

    /// Called when a stamp was found out of order; `latest` is the largest stamp seen so far.
    fn disorder(&self, latest: u64) {
        let _ = latest;
    }
}

/// The machine as it is: [`current`](super::current) and [`clock::stamp`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Native;

impl Environment for Native {
    #[inline(always)]
    fn slot(&self) -> CoreId {
        super::current()
    }

    #[inline(always)]
    fn stamp(&self) -> u64 {
        clock::stamp()
    }

    #[inline(always)]
    fn stamp_first(&self) -> u64 {
        clock::stamp_first()
    }

    #[inline]
    fn chip(&self) -> usize {
        super::chip()
    }

    fn disorder(&self, latest: u64) {
        clock::mark_sick(latest);
    }
}
