//! Going through all values.

use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;

use super::id::Id;
use super::table::Table;

/// An iterator over the values of a [`Namespace`](super::Namespace), in the order of their indices.
pub struct NamespaceIter<'s, T> {
    table: &'s Table<T>,
    next: u32,
    /// In whose section this is.
    section: PhantomData<&'s ()>,
}

impl<'s, T> NamespaceIter<'s, T> {
    /// The caller is in a section of the table's domain for as long as `'s`.
    pub(super) fn new(table: &'s Table<T>) -> Self {
        Self {
            table,
            next: 0,
            section: PhantomData,
        }
    }
}

impl<'s, T> Iterator for NamespaceIter<'s, T> {
    type Item = (Id<T>, &'s T);

    fn next(&mut self) -> Option<Self::Item> {
        let (index, generation, entry) = self.table.next(self.next)?;
        self.next = index + 1;
        // SAFETY: found in a section that is open for `'s`.
        Some((Id::new(index, generation), unsafe { entry.value() }))
    }
}

impl<T> FusedIterator for NamespaceIter<'_, T> {}

impl<T> fmt::Debug for NamespaceIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceIter")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
