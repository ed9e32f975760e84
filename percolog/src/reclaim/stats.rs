//! What reclaiming has cost, and what it has not done yet.

use super::options::DomainClock;
use super::stalled::StalledSection;
use crate::cpu::barrier;

/// Statistics of a [`Domain`](super::Domain), returned by [`Domain::stats`](super::Domain::stats).
///
/// Numbers of different threads are read one after the other, while those go on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainStats {
    /// Objects that were retired and are not destroyed.
    pub unreclaimed: u64,
    /// Their bytes: of the objects themselves, not of what they own.
    pub unreclaimed_bytes: u64,
    /// Objects that have ever been retired.
    pub retired: u64,
    /// Objects that have been destroyed.
    pub destroyed: u64,
    /// How often threads were looked at to find out up to when all have left their sections.
    pub scans: u64,
    /// How many of these scans found a section in the way.
    pub failed_scans: u64,
    /// How many lines of other threads the scans have read: each is a transfer, and another one when
    /// its thread enters its next section.
    pub lines_read: u64,
    /// How often objects could be destroyed without a scan, because of what others had found out.
    pub borrowed: u64,
    /// Destructors that panicked. The object is gone, and nothing else is lost.
    pub panics: u64,
    /// Objects that were handed back because of the cap.
    pub refused: u64,
    /// Objects that were taken although the cap was reached.
    pub beyond_cap: u64,
    /// Threads and owned sections that scans look at.
    pub active: usize,
    /// Which clock is used.
    pub clock: DomainClock,
    /// Which barrier is used.
    pub barrier: barrier::BarrierMode,
    /// The section that was in the way of the last scan, if that scan failed.
    pub stalled: Option<StalledSection>,
}
