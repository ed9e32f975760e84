//! Names for containers.

use crate::sync::global::{AtomicU64, Ordering};

/// A number that no other container of this process has or had: an address would be used again, and an
/// entry that was left behind by the first container there would be taken for the second one's.
///
/// Asked for when first needed, so that containers can be statics.
#[derive(Debug)]
pub(super) struct Identity(AtomicU64);

/// Zero is nobody's.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Identity {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// *Cost:* a load, after the first time.
    #[inline]
    pub(super) fn get(&self) -> u64 {
        // Relaxed: a number that publishes nothing.
        match self.0.load(Ordering::Relaxed) {
            0 => self.name(),
            name => name,
        }
    }

    #[cold]
    fn name(&self) -> u64 {
        // Relaxed, both: whichever thread is first names it, and the update says who was. The numbers
        // last for centuries.
        let name = NEXT.fetch_add(1, Ordering::Relaxed);
        match self
            .0
            .compare_exchange(0, name, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => name,
            Err(first) => first,
        }
    }
}
