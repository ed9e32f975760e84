//! Where a thread has its own part of objects that it used a short time ago.
//!
//! An object that keeps something for each thread finds it through tables, by the thread's [lease](super::lease). Each
//! thread remembers a few of its parts in a table of its own, in which one comparison finds them.
//!
//! Objects are known by [identities](identity), which are never used again: an entry that outlives its object is found by
//! nobody. (An address would be.) An entry does not outlive the thread's right to the part: the lease [forgets](forget_all)
//! all when it is given back.

use crate::sync::global::{AtomicU64, Ordering};

/// How many parts a thread remembers, at most.
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

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;
    use crate::cpu::lease;
    use crate::sync::atomic::AtomicU32;
    use std::vec::Vec;

    #[test]
    fn what_was_remembered_is_found_until_another_takes_its_entry() {
        let identities: Vec<_> = (0..ENTRIES).map(|_| identity()).collect();
        let parts: Vec<_> = identities.iter().map(|identity| identity + 1).collect();
        for (identity, part) in identities.iter().zip(&parts) {
            assert_eq!(find::<u64>(*identity), None);
            remember(*identity, part);
        }
        for (identity, part) in identities.iter().zip(&parts) {
            assert_eq!(find(*identity), Some(part.into()));
        }
        let another = identities[3] + ENTRIES * STEP;
        assert_eq!(find::<u64>(another), None);
        remember(another, &parts[0]);
        assert_eq!(find(another), Some((&parts[0]).into()));
        assert_eq!(find::<u64>(identities[3]), None);
        assert_eq!(find(identities[4]), Some((&parts[4]).into()));
        assert_eq!(find::<u64>(UNIDENTIFIED), None);
    }

    #[test]
    fn nothing_is_remembered_beyond_the_lease() {
        static LOOKED: AtomicU32 = AtomicU32::new(0);
        static PART: u64 = 1;
        struct Last(u64);
        impl Drop for Last {
            fn drop(&mut self) {
                if lease::mine().is_none() {
                    assert_eq!(find::<u64>(self.0), None);
                    LOOKED.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        // One is destroyed before the lease is given back, and one afterwards.
        std::thread_local! {
            static ONE: core::cell::OnceCell<Last> = const { core::cell::OnceCell::new() };
            static OTHER: core::cell::OnceCell<Last> = const { core::cell::OnceCell::new() };
        }
        std::thread::spawn(|| {
            let identity = identity();
            ONE.with(|one| assert!(one.set(Last(identity)).is_ok()));
            assert!(lease::mine().is_some());
            OTHER.with(|other| assert!(other.set(Last(identity)).is_ok()));
            remember(identity, &PART);
        })
        .join()
        .expect("no panic");
        assert_eq!(LOOKED.load(Ordering::Relaxed), 1);
    }
}
