//! Counts in the threads' own places, and why nobody is missed.
//!
//! *Invariant:* every request that has gone out was counted in before: of the counts out that anybody sees, the counts in are there to
//! be seen.
//!
//! # Why nobody is inside when the sums are equal
//!
//! Who enters stores its count, passes the [light barrier](crate::cpu::barrier), and loads the state; who stops requests stores the
//! state, passes the heavy one, and loads the counts. So a request that was let in, which has not seen the stop, is in the counts in
//! that are loaded afterwards: call those *E*. (It is, too, if its place was made a moment before: that was stored even earlier.)
//!
//! The counts out are loaded **first**: call those *L*. Each is stored with Release after the count in of the same request, by
//! the same thread or by one that the pass was handed to, and loaded with Acquire; so the count in of each request in *L* is
//! found by the loads that follow, and *L* is a part of *E*. If both have as many, they are the same, and every request that was let in has
//! gone out. What was done inside is seen by then, for the same reason.
//!
//! The other order would be wrong: a request that comes in and goes out between the two sums would be in *L* and not in *E*, and hide
//! one that is still inside. (Paul McKenney's SRCU sums in this order, for this reason.)
//!
//! Requests that see the stop count themselves out again. They only ever make the sums differ, for a moment.
//!
//! So nobody is ever kept out of a place, and places need no locks: they are not `cpu::shards`.

use super::control::{Control, Word};
use crate::cpu::PerCore;
use crate::cpu::barrier::{self, BarrierMode};
use crate::cpu::lease::Who;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::const_fn;

/// A place of one thread, or a common one.
#[derive(Debug)]
struct Place {
    mode: BarrierMode,
    entered: AtomicU64,
    left: AtomicU64,
}

impl Place {
    fn new() -> Self {
        Self {
            mode: barrier::mode(),
            entered: AtomicU64::new(0),
            left: AtomicU64::new(0),
        }
    }

    /// Adds one, for the only thread that writes the word.
    #[inline(always)]
    fn advance(word: &AtomicU64, order: Ordering) {
        // Relaxed: what this thread wrote itself, or the last holder of the lease, which handed it on.
        let before = word.load(Ordering::Relaxed);
        word.store(before.wrapping_add(1), order);
    }
}

/// The counts of one object: a place for each lease, and some for threads without one.
#[derive(Debug)]
pub(super) struct Places(PerCore<Place>);

impl Places {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self(PerCore::new())
        }
    }

    #[inline(always)]
    fn place(&self, who: Who) -> &Place {
        self.0.get_or_make(who.place(), Place::new)
    }

    /// Counts a request in at the place of a lease, and out again if it may not enter.
    ///
    /// # Safety
    /// The caller holds the lease.
    #[inline(always)]
    pub(super) unsafe fn enter_leased(&self, lease: usize, control: &Control) -> Result<(), Word> {
        let place = self.place(Who::Leased(lease));
        // Relaxed: ordered by the barriers, see the module.
        Place::advance(&place.entered, Ordering::Relaxed);
        barrier::light(place.mode);
        let word = control.load();
        if word.is_open() {
            return Ok(());
        }
        // Release: as in `leave_leased`.
        Place::advance(&place.left, Ordering::Release);
        Err(word)
    }

    /// Counts a request out at the place of a lease, wherever it was counted in.
    ///
    /// # Safety
    /// The caller holds the lease.
    #[inline(always)]
    pub(super) unsafe fn leave_leased(&self, lease: usize) {
        // Release pairs with the Acquire in `inside`: see the module.
        Place::advance(&self.place(Who::Leased(lease)).left, Ordering::Release);
    }

    /// Counts a request in at a common place, and out again if it may not enter.
    pub(super) fn enter_common(&self, number: usize, control: &Control) -> Result<(), Word> {
        let place = self.place(Who::Common(number));
        // Relaxed: as in `enter_leased`.
        place.entered.fetch_add(1, Ordering::Relaxed);
        barrier::light(place.mode);
        let word = control.load();
        if word.is_open() {
            return Ok(());
        }
        self.leave_common(number);
        Err(word)
    }

    /// Counts a request out at a common place, wherever it was counted in.
    pub(super) fn leave_common(&self, number: usize) {
        // Release pairs with the Acquire in `inside`: see the module.
        let place = self.place(Who::Common(number));
        place.left.fetch_add(1, Ordering::Release);
    }

    /// Requests that were counted in and not out. 0 is exact for who stopped them and passed the barrier: see the module.
    pub(super) fn inside(&self) -> u64 {
        let sum = |count: &dyn Fn(&Place) -> u64| {
            self.0
                .iter()
                .fold(0u64, |sum, (_, place)| sum.wrapping_add(count(place)))
        };
        // Acquire pairs with the Release of who leaves: its count in is found below, and what it did inside is seen.
        let left = sum(&|place| place.left.load(Ordering::Acquire));
        // After the counts out: see the module. Acquire keeps what is loaded next behind it: the word that says whether requests have been let in since
        // pairs with the Release in `open`, and nothing may be concluded from counts that are younger than that look.
        let entered = sum(&|place| place.entered.load(Ordering::Acquire));
        entered.wrapping_sub(left)
    }
}
