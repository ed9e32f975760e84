//! Going through entries.

use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;

use super::list;
use super::node::{Entry, Spot};

/// An iterator over the entries of an [`OrderedList`](super::OrderedList) or a [`Map`](super::Map).
pub struct EntryIter<'s, K, V> {
    /// What has been shown last; `None` when there is nothing behind it.
    behind: Option<Spot>,
    entries: PhantomData<&'s Entry<K, V>>,
}

// SAFETY: an `EntryIter` lends `&K` and `&V`. The section that it goes through is borrowed, and ends where it may.
unsafe impl<K: Sync, V: Sync> Send for EntryIter<'_, K, V> {}
// SAFETY: as above.
unsafe impl<K: Sync, V: Sync> Sync for EntryIter<'_, K, V> {}

impl<K, V> EntryIter<'_, K, V> {
    /// # Safety
    /// The caller is in a section of the list's domain for as long as `'s`, in which the node was found; or it is a sentinel.
    /// Entries are of this type.
    pub(super) unsafe fn new(behind: Spot) -> Self {
        Self {
            behind: Some(behind),
            entries: PhantomData,
        }
    }

    /// Shows nothing more.
    pub(super) fn stop(&mut self) {
        self.behind = None;
    }
}

impl<'s, K, V> Iterator for EntryIter<'s, K, V> {
    type Item = (&'s K, &'s V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // SAFETY: by contract of `new`, and each node leads to one that is good as long.
            match unsafe { list::next(self.behind?) } {
                None => self.behind = None,
                Some((at, is_entry)) => {
                    self.behind = Some(at);
                    if is_entry {
                        // SAFETY: as above.
                        let entry: &Entry<K, V> = unsafe { list::entry(at) };
                        return Some((&entry.key, &entry.value));
                    }
                }
            }
        }
    }
}

impl<K, V> FusedIterator for EntryIter<'_, K, V> {}

impl<K, V> Clone for EntryIter<'_, K, V> {
    fn clone(&self) -> Self {
        Self {
            behind: self.behind,
            entries: PhantomData,
        }
    }
}

impl<K, V> fmt::Debug for EntryIter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryIter").finish_non_exhaustive()
    }
}
