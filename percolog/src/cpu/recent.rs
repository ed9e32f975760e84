//! Where a thread has its own part of objects that it used a short time ago.
//!
//! An object that keeps something for each thread finds it through tables, by the thread's [lease](super::lease). A few threads' parts are remembered in a table of the thread, in which one comparison finds them.
//!
//! Objects are known by [identities](identity), which are never used again: an entry that outlives its object is found by
//! nobody. (An address would be.) An entry does not outlive the thread's right to the part: the lease [forgets](forget_all)
//! all when it is given back.

use crate::sync::global::{AtomicU64, Ordering};

/// Objects whose numbers differ by this much are remembered in the same entry.
#[cfg(all(feature = "std", not(percolog_loom)))]
const ENTRIES: u64 = 8;

/// From one identity to the next: the size of an entry, so that a few of an identity's bits say where its entry is.
const STEP: u64 = 16;

/// The identity of an object that has none yet.
pub(crate) const UNIDENTIFIED: u64 = 0;

/// An identity that no other object of the process has, or has had.
pub(crate) fn identity() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(UNIDENTIFIED);
    // Relaxed: any number will do.
    LAST.fetch_add(STEP, Ordering::Relaxed) + STEP
}

#[cfg(all(feature = "std", not(percolog_loom)))]
mod table {
    use super::{ENTRIES, STEP};
    use core::cell::Cell;
    use core::ptr::{self, NonNull};

    /// The object's identity, and the thread's part of it.
    type Entry = Cell<(u64, *const ())>;

    const _: () = assert!(size_of::<Entry>() <= STEP as usize);

    /// No identity, not even [`UNIDENTIFIED`](super::UNIDENTIFIED).
    const EMPTY: (u64, *const ()) = (u64::MAX, ptr::null());

    std::thread_local! {
        /// Without a destructor, so that it can be read as long as the thread runs.
        static RECENT: [Entry; ENTRIES as usize] = const { [const { Cell::new(EMPTY) }; ENTRIES as usize] };
    }

    const fn entry(identity: u64) -> usize {
        (identity / STEP % ENTRIES) as usize
    }

    /// The part that the thread remembers for this identity. Its type is the one that it was [remembered](remember) with.
    #[inline(always)]
    pub(crate) fn find<T>(identity: u64) -> Option<NonNull<T>> {
        let (found, part) = RECENT.with(|recent| recent[entry(identity)].get());
        if found != identity {
            return None;
        }
        // SAFETY: `remember` put a reference there.
        Some(unsafe { NonNull::new_unchecked(part.cast_mut()).cast() })
    }

    /// Remembers where the thread's part is, until another one takes its entry.
    #[inline]
    pub(crate) fn remember<T>(identity: u64, part: &T) {
        RECENT.with(|recent| recent[entry(identity)].set((identity, ptr::from_ref(part).cast())));
    }

    /// No part is the thread's any more.
    pub(crate) fn forget_all() {
        RECENT.with(|recent| recent.iter().for_each(|entry| entry.set(EMPTY)));
    }
}

#[cfg(all(feature = "std", not(percolog_loom)))]
pub(crate) use table::{find, forget_all, remember};

#[cfg(not(all(feature = "std", not(percolog_loom))))]
mod none {
    //! Nothing is remembered where the library knows of no threads, and in models.

    #[cfg(not(percolog_loom))]
    #[inline(always)]
    pub(crate) fn find<T>(_identity: u64) -> Option<core::ptr::NonNull<T>> {
        None
    }

    #[inline(always)]
    pub(crate) fn remember<T>(_identity: u64, _part: &T) {}
}

#[cfg(not(any(feature = "std", percolog_loom)))]
pub(crate) use none::find;
#[cfg(not(all(feature = "std", not(percolog_loom))))]
pub(crate) use none::remember;
