//! Entries in a slab.

use core::ptr::NonNull;

use super::node::Room;
use crate::reclaim::{Owned, Unlinked};
use crate::slab::{InSlab, Slab};

impl<T: Send + 'static> Room<T> for Slab<'_, T> {
    type Owned = Owned<T, InSlab>;

    #[inline]
    fn insert(&self, entry: T) -> Result<Self::Owned, (T, Option<usize>)> {
        Slab::insert(self, entry).map_err(|exhausted| (exhausted.value, exhausted.limit))
    }

    #[inline]
    fn into_raw(owned: Self::Owned) -> NonNull<T> {
        owned.into_raw()
    }

    fn into_inner(owned: Self::Owned) -> T {
        Slab::into_inner(owned)
    }

    #[inline]
    unsafe fn retire(&self, entry: NonNull<T>) {
        // SAFETY: by contract it came from an `Owned` of this kind, was taken out by the caller alone, and is read in sections of the
        // slab's domain only.
        unsafe { self.free(Unlinked::from(Owned::<T, InSlab>::from_raw(entry))) };
    }

    unsafe fn destroy(entry: NonNull<T>) {
        // SAFETY: by contract it came from an `Owned` of this kind, and nobody else has it.
        drop(unsafe { Owned::<T, InSlab>::from_raw(entry) });
    }
}
