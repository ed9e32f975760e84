//! What code needs that can do with either table.

use super::Reentered;

/// A hash table whose elements are locked when they are found: [`DHash`](super::DHash), or [`Partitioned`](super::Partitioned).
///
/// For objects that are to take either, as the file caches of the paper do: whether pages are shared by all threads or each
/// has its own is known to who creates the object.
///
/// ```
/// use percolog::dhash::{DHash, ElementTable, LockedElement, Partitioned};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// A page of a file: where it lies in memory.
/// struct Page { frame: AtomicU64 }
///
/// struct FileCache<T> { pages: T }
///
/// impl<T: ElementTable<u64, Page>> FileCache<T> {
///     fn frame(&self, offset: u64) -> u64 {
///         let page = self.pages
///             .find_or_allocate_and_lock(&offset, |offset| Page { frame: AtomicU64::new(offset + 100) })
///             .expect("this thread has no other page of the file");
///         page.shared().frame.load(Ordering::Relaxed)
///     }
/// }
///
/// let replicated = FileCache { pages: DHash::new(|_: &u64, _: &Page| ()) };
/// let partitioned = FileCache { pages: Partitioned::new(4, |offset: &u64| *offset >> 12) };
/// assert_eq!(replicated.frame(4096), partitioned.frame(4096));
/// ```
pub trait ElementTable<K, S> {
    /// A locked element.
    type Element<'a>: LockedElement<K, S>
    where
        Self: 'a;

    /// The element of a key, locked; made if there is none.
    ///
    /// # Errors
    /// This thread has what it would wait for.
    ///
    /// # Panics
    /// Where hashing, comparing and `make_shared` do, and what else the table calls of its user's.
    fn find_or_allocate_and_lock(
        &self,
        key: &K,
        make_shared: impl FnOnce(&K) -> S,
    ) -> Result<Self::Element<'_>, Reentered>;

    /// The element of a key, locked, if there is one.
    ///
    /// # Errors
    /// This thread has what it would wait for.
    ///
    /// # Panics
    /// Where hashing and comparing do, and what else the table calls of its user's.
    fn find_and_lock(&self, key: &K) -> Result<Option<Self::Element<'_>>, Reentered>;

    /// Removes the element of a key; whether there was one.
    ///
    /// # Errors
    /// This thread has what it would wait for.
    ///
    /// # Panics
    /// Where hashing and comparing do.
    fn empty_data(&self, key: &K) -> Result<bool, Reentered>;

    /// How many elements there are.
    ///
    /// # Errors
    /// This thread has what it would wait for.
    fn len(&self) -> Result<usize, Reentered>;

    /// Whether there is no element.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    fn is_empty(&self) -> Result<bool, Reentered> {
        Ok(self.len()? == 0)
    }
}

/// An element that the calling thread has locked, until it drops this.
pub trait LockedElement<K, S> {
    /// The element's key.
    fn key(&self) -> &K;

    /// What all threads share of the element.
    fn shared(&self) -> &S;

    /// Whether the element has been removed since it was found.
    fn is_emptied(&self) -> bool;

    /// Removes the element; whether it was still there.
    ///
    /// # Errors
    /// This thread has what it would wait for.
    fn empty(self) -> Result<bool, Reentered>;
}
