//! The list of counts that may be zero.

use core::ptr::{self, NonNull};

use super::count::Count;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::const_fn;

/// Counts whose sum was zero once since they were looked at.
#[derive(Debug)]
pub(super) struct Candidates {
    first: AtomicPtr<Count>,
}

impl Candidates {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { first: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Adds one, which is not in the list. Lock-free.
    pub(super) fn add(&self, count: &Count) {
        // Relaxed: the exchange below says whether it was the newest.
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            count.rest().next.store(first, Ordering::Relaxed);
            // Release pairs with the Acquire in `take`, of which the list is one release sequence.
            match self.first.compare_exchange_weak(
                first,
                count.key(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes one off the list. Only the collector does this, while nobody can add it again.
    pub(super) fn remove(&self, gone: &Count) {
        for candidate in self.take() {
            // SAFETY: a candidate has its share until the collector, who calls this, gives that up.
            let count = unsafe { candidate.as_ref() };
            if ptr::eq(gone, count) {
                // Relaxed: nobody asks until the caller lets the rows go.
                count.queued.store(0, Ordering::Relaxed);
            } else {
                self.add(count);
            }
        }
    }

    /// Takes all. Only the collector does this.
    pub(super) fn take(&self) -> Taken {
        // Acquire: pairs with the Release in `add`.
        Taken(self.first.swap(ptr::null_mut(), Ordering::Acquire))
    }
}

/// Candidates that were taken.
#[derive(Debug)]
pub(super) struct Taken(*mut Count);

impl Iterator for Taken {
    type Item = NonNull<Count>;

    fn next(&mut self) -> Option<NonNull<Count>> {
        let count = NonNull::new(self.0)?;
        // SAFETY: a candidate has its share until the collector, who calls this, gives that up.
        // Relaxed: `Candidates::take` acquired it.
        self.0 = unsafe { count.as_ref() }
            .rest()
            .next
            .load(Ordering::Relaxed);
        Some(count)
    }
}
