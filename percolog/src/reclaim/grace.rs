//! Grace periods of the program's own.

/// An additional grace period of a domain: what has to have happened, besides the end of sections, before objects are
/// destroyed.
///
/// The kernel that unmaps a page may give the frame to somebody else only when no processor has the
/// old translation in its TLB any more; that has nothing to do with sections. With a grace period of
/// its own the frame is retired like any other object, and the domain asks before it reclaims.
///
/// A domain calls [`begin`](Self::begin) for each block of objects, after the last of them was
/// retired, and keeps what it returns. Once the sections are over it asks
/// [`elapsed`](Self::elapsed), from then on at every further block that its thread retires, until the
/// answer is yes. Both are called from within `retire` and `collect` and must not wait. They may use
/// the domain. If `begin` panics, the objects that it was called for are never destroyed.
///
/// Wang, Stamler and Parmer, *Parallel Sections*, §3.7.
///
/// ```
/// use percolog::reclaim::{Domain, GracePeriod, DomainOptions, Owned};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// How often each of two processors has flushed its TLB.
/// struct AllTlbsFlushed([AtomicU64; 2]);
///
/// impl AllTlbsFlushed {
///     fn least(&self) -> u64 {
///         self.0.iter().map(|flushes| flushes.load(Ordering::SeqCst)).min().unwrap_or(0)
///     }
///     fn most(&self) -> u64 {
///         self.0.iter().map(|flushes| flushes.load(Ordering::SeqCst)).max().unwrap_or(0)
///     }
/// }
///
/// impl GracePeriod for AllTlbsFlushed {
///     fn begin(&self) -> u64 {
///         self.most()
///     }
///     fn elapsed(&self, ticket: u64) -> bool {
///         // Every processor has flushed at least once more than any had when the frame was retired.
///         self.least() > ticket
///     }
/// }
///
/// static TLBS: AllTlbsFlushed = AllTlbsFlushed([AtomicU64::new(0), AtomicU64::new(0)]);
/// static FRAMES: Domain = Domain::with(DomainOptions::new().grace(&TLBS));
///
/// struct Frame([u8; 64]);
///
/// // SAFETY: nobody else has ever seen the frame.
/// unsafe { FRAMES.retire(Owned::new(Frame([0; 64])).into()) };
/// assert_eq!(FRAMES.collect(), 0, "no section is open, but the TLBs may still know the frame");
/// TLBS.0[0].fetch_add(1, Ordering::SeqCst);
/// assert_eq!(FRAMES.collect(), 0, "one has not been flushed");
/// TLBS.0[1].fetch_add(1, Ordering::SeqCst);
/// assert_eq!(FRAMES.collect(), 1);
/// ```
pub trait GracePeriod: Sync {
    /// Called after objects were retired; the answer is kept with them.
    fn begin(&self) -> u64 {
        0
    }

    /// Whether objects for which `begin` returned this may be destroyed.
    fn elapsed(&self, ticket: u64) -> bool;
}

/// What something that the domain does not keep itself waits for, before it is destroyed or reused: that sections have
/// ended, and that the custom grace period has elapsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) stamp: u64,
    pub(crate) ticket: u64,
}

impl Period {
    /// Before everything.
    pub(crate) const START: Self = Self {
        stamp: 0,
        ticket: 0,
    };
}
