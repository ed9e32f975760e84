//! What users see of the list.

use core::borrow::Borrow;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::{Bound, RangeBounds};

use super::entries::{Added, Entries, Place};
use super::errors::{AddError, ChangeError};
use super::iter::EntryIter;
use super::list::{self, Lack, Refused};
use super::node::PLAIN;
use crate::reclaim::{Domain, InSection};
use crate::slab;

/// A short sorted list of entries with lock-free reads.
///
/// See the [module](super) for the contract, and for what an operation costs; [`Map`](super::Map) is for many entries.
///
/// **Finding an entry takes a step for each one in front of it**: some dozens of entries, not thousands. What it has and a map has
/// not is an order: entries are gone through by key, from any place to any other.
///
/// ```
/// use percolog::collections::OrderedList;
/// use percolog::reclaim::Domain;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct Timer {
///     fired: AtomicU64,
/// }
///
/// static DOMAIN: Domain = Domain::new();
/// static TIMERS: OrderedList<'static, u64, Timer> = OrderedList::new(&DOMAIN);
///
/// for due in [30, 10, 20] {
///     TIMERS.add(due, Timer { fired: 0.into() }).expect("no such timer, and there is memory");
/// }
/// TIMERS.modify(&20, |timer| timer.fired.fetch_add(1, Ordering::Relaxed)).expect("it is there");
/// assert!(TIMERS.delete(&10));
///
/// let section = DOMAIN.enter();
/// let due: Vec<u64> = TIMERS.range(&section, ..25).map(|(due, _)| *due).collect();
/// assert_eq!(due, [20]);
/// ```
pub struct OrderedList<'d, K: Ord + Send + Sync + 'static, V: Send + Sync + 'static> {
    entries: Entries<'d, K, V>,
}

impl<'d, K: Ord + Send + Sync + 'static, V: Send + Sync + 'static> OrderedList<'d, K, V> {
    /// Creates an empty list, whose entries are read in sections of this domain. Allocates nothing before it is used. For one with a limit
    /// there is a [`MapBuilder`](super::MapBuilder).
    #[must_use]
    pub const fn new(domain: &'d Domain) -> Self {
        Self::with(domain, slab::SlabBuilder::new())
    }

    pub(super) const fn with(domain: &'d Domain, memory: slab::SlabBuilder) -> Self {
        Self {
            entries: Entries::new(domain, memory),
        }
    }

    /// What the entries are read in sections of.
    #[must_use]
    pub fn domain(&self) -> &'d Domain {
        self.entries.domain()
    }

    #[inline]
    fn place<'q, Q>(
        &self,
        key: &'q Q,
    ) -> Place<impl Fn(&K) -> core::cmp::Ordering + use<'q, K, V, Q>>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        Place {
            start: self.entries.head(),
            order: PLAIN,
            compare: move |other: &K| other.borrow().cmp(key),
        }
    }

    #[inline]
    fn check(&self, section: &impl InSection) {
        assert!(
            section.is_of(self.domain()),
            "the section is one of another domain than the list"
        );
    }

    /// # Safety
    /// The caller is in a section of the domain, and stays there for `'s`.
    #[inline]
    unsafe fn insert<'s, R>(
        &self,
        entry: (K, V),
        replace: bool,
        last: impl FnOnce(&V) -> R,
    ) -> Result<Added<'s, K, V, R>, Refused<K, V>> {
        let place = (self.entries.head(), PLAIN);
        // SAFETY: by contract.
        unsafe { self.entries.add(place, entry, replace, K::cmp, last) }
    }

    // ── Looking ──

    /// Shows an entry's value to `f`, in a section of its own; `None` if there is no such entry.
    ///
    /// *Progress:* wait-free, but for a thread's first section, if those who change the entries stop some time. *Cost:* no line is
    /// written.
    #[inline]
    pub fn observe<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let section = self.entries.enter();
        self.get(&section, key).map(f)
    }

    /// An entry's value, for as long as the section lasts: for several lookups in one section, and to hold on for a moment. What
    /// is deleted or replaced meanwhile can still be read.
    ///
    /// *Progress* and *cost:* as [`observe`](Self::observe), without the section.
    ///
    /// # Panics
    /// If the section is one of another domain.
    #[inline]
    #[must_use]
    pub fn get<'s, Q>(&'s self, section: &'s impl InSection, key: &Q) -> Option<&'s V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.check(section);
        // SAFETY: in a section of the domain for `'s`.
        let found = unsafe { self.entries.find(&self.place(key)) };
        found.map(|entry| &entry.value)
    }

    /// Returns whether there is such an entry.
    ///
    /// *Progress* and *cost:* as [`observe`](Self::observe).
    #[inline]
    #[must_use]
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.observe(key, |_| ()).is_some()
    }

    /// Returns the number of entries. Exact if nobody adds or deletes; of those who are at it each counts or does not.
    ///
    /// *Progress:* lock-free. *Cost:* a line of each thread that has added or deleted since the last call: see [`Counter::sum`].
    ///
    /// [`Counter::sum`]: crate::counter::Counter::sum
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// About how many entries there are: off by at most 128 for each thread that adds or deletes.
    ///
    /// *Progress:* wait-free. *Cost:* one line.
    #[must_use]
    pub fn len_estimate(&self) -> usize {
        self.entries.about()
    }

    /// Returns whether there is no entry.
    ///
    /// *Progress* and *cost:* as [`observe`](Self::observe).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let section = self.entries.enter();
        self.iter(&section).next().is_none()
    }

    /// All entries, by their keys. Others may add and delete meanwhile: what is there all the time is shown, and no key twice.
    ///
    /// # Panics
    /// If the section is one of another domain.
    pub fn iter<'s>(&'s self, section: &'s impl InSection) -> EntryIter<'s, K, V> {
        self.check(section);
        // SAFETY: in a section of the domain for `'s`.
        unsafe { self.entries.iter() }
    }

    /// Entries from one key to another, as [`iter`](Self::iter).
    ///
    /// # Panics
    /// If the section is one of another domain.
    pub fn range<'s, Q, R>(
        &'s self,
        section: &'s impl InSection,
        range: R,
    ) -> EntryRange<'s, K, V, R, Q>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
        R: RangeBounds<Q>,
    {
        self.check(section);
        let start = range.start_bound();
        let mut passed = 0;
        // SAFETY: in a section of the domain for `'s`; entries with this number are of this type. What is behind the last one in front
        // of the range was found in the section.
        let entries = unsafe {
            let position = list::find(self.entries.head(), PLAIN, &mut passed, |at| {
                let key = list::entry::<K, V>(at).key.borrow();
                match start {
                    Bound::Included(start) => key.cmp(start),
                    Bound::Excluded(start) => key.cmp(start).then(core::cmp::Ordering::Less),
                    Bound::Unbounded => core::cmp::Ordering::Greater,
                }
            });
            EntryIter::new(position.before())
        };
        EntryRange {
            entries,
            range,
            key: core::marker::PhantomData,
        }
    }

    // ── Changing one ──

    /// Runs `f` with an entry's value, while nobody else modifies, updates, replaces or deletes it. Observers go on reading
    /// it, so what `f` changes are atomics (or fields that are only ever used here).
    ///
    /// `f` should be short: it runs in a section, and under the lock of the entry, which those who add or delete just behind it
    /// need as well. It may look things up. It must not change this structure: it could wait for itself.
    ///
    /// *Progress:* blocking, while somebody else has the entry. *Cost:* the entry's line, and what `f` does.
    ///
    /// # Errors
    /// [`ChangeError::Absent`] if there is no such entry, [`ChangeError::Poisoned`] if an earlier `f` panicked; `f` has not run
    /// then.
    ///
    /// # Panics
    /// If `f` does: the entry is poisoned from then on.
    #[inline]
    pub fn modify<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Result<R, ChangeError>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let _section = self.entries.enter();
        // SAFETY: in a section of the domain.
        unsafe { self.entries.modify(self.place(key), f) }
    }

    /// Puts what `f` makes of an entry's value in its place, while nobody else changes it. Observers see
    /// the old value or the new one, whole; the old one is dropped when no section can have it.
    ///
    /// The same holds for `f` as in [`modify`](Self::modify), also for destructors of values that were deleted or replaced before,
    /// which may run if memory is short.
    ///
    /// *Progress:* blocking, while somebody else has the entry, or the one in front of it. *Cost:* an entry allocated and one
    /// retired; the lines of the entry and of the one in front.
    ///
    /// # Errors
    /// As [`modify`](Self::modify), and [`ChangeError::Exhausted`] if there is no memory. The old value stays then.
    ///
    /// # Panics
    /// If `f` or the key's `clone` does: the entry is poisoned from then on.
    pub fn update<Q>(&self, key: &Q, f: impl FnOnce(&V) -> V) -> Result<(), ChangeError>
    where
        K: Borrow<Q> + Clone,
        Q: Ord + ?Sized,
    {
        let _section = self.entries.enter();
        // SAFETY: in a section of the domain.
        unsafe { self.entries.update(self.place(key), f) }
    }

    /// Says that a poisoned entry is in order; whether it was poisoned.
    ///
    /// *Progress* and *cost:* as [`modify`](Self::modify).
    pub fn clear_poison<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let _section = self.entries.enter();
        // SAFETY: in a section of the domain.
        unsafe { self.entries.clear_poison(self.place(key)) }
    }

    // ── Adding and deleting ──

    /// Adds an entry, if there is none with this key.
    ///
    /// *Progress:* blocking, while somebody else has the entry in front of its place. *Cost:* the line of the one in front, and
    /// that of the new entry. No allocation while the thread's part of the slab has room.
    ///
    /// # Errors
    /// Both come back if there is an entry, or no memory for one.
    #[inline]
    pub fn add(&self, key: K, value: V) -> Result<(), AddError<K, V>> {
        let _section = self.entries.enter();
        // SAFETY: in a section of the domain.
        let added = unsafe { self.insert((key, value), false, |_| ()) };
        added.map(|_| ()).map_err(AddError::because)
    }

    /// The value of the entry with this key, which is added if there is none: `make` says with which value, under no lock. If
    /// somebody else adds the key at the same moment, what `make` made is dropped, and the other's value found.
    ///
    /// ```
    /// use percolog::collections::OrderedList;
    /// use percolog::reclaim::Domain;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// static DOMAIN: Domain = Domain::new();
    /// let words: OrderedList<'_, &str, AtomicU64> = OrderedList::new(&DOMAIN);
    /// let section = DOMAIN.enter();
    /// for word in ["to", "be", "or", "not", "to", "be"] {
    ///     let count = words.get_or_add(&section, word, AtomicU64::default).expect("there is memory");
    ///     count.fetch_add(1, Ordering::Relaxed);
    /// }
    /// assert_eq!(words.observe("to", |count| count.load(Ordering::Relaxed)), Some(2));
    /// ```
    ///
    /// What is found may be deleted at any moment, and is read all the same until the section ends: where others delete, and no
    /// change may be lost, [`modify`](Self::modify) it.
    ///
    /// *Progress* and *cost:* as [`get`](Self::get) if there is one, else as [`add`](Self::add).
    ///
    /// # Errors
    /// Both come back if there is no memory.
    ///
    /// # Panics
    /// If the section is one of another domain.
    pub fn get_or_add<'s>(
        &'s self,
        section: &'s impl InSection,
        key: K,
        make: impl FnOnce() -> V,
    ) -> Result<&'s V, AddError<K, V>> {
        if let Some(found) = self.get(section, &key) {
            return Ok(found);
        }
        // SAFETY: in a section of the domain for `'s`.
        match unsafe { self.insert((key, make()), false, |_| ()) } {
            Ok(added) => Ok(&added.entry.value),
            Err(refused) => match refused.lack {
                // SAFETY: found in the section.
                Lack::Exists(there) => Ok(unsafe { &there.as_ref().value }),
                Lack::Memory(_) => Err(AddError::because(refused)),
            },
        }
    }

    /// Adds an entry, or puts it in the place of the one with this key, poisoned or not; whether there was one.
    /// ([`put_with`](Self::put_with) shows what was there.)
    ///
    /// *Progress* and *cost:* as [`add`](Self::add), or as [`update`](Self::update).
    ///
    /// # Errors
    /// Both come back if there is no memory.
    #[inline]
    pub fn put(&self, key: K, value: V) -> Result<bool, AddError<K, V>> {
        self.put_with(key, value, |_| ()).map(|last| last.is_some())
    }

    /// Puts an entry there, and shows the value that it has replaced to `f`: as it was left, for nobody modifies it any more. `f`
    /// runs after that, under no lock; `None` if there was none.
    ///
    /// *Progress* and *cost:* as [`put`](Self::put).
    ///
    /// # Errors
    /// Both come back if there is no memory.
    #[inline]
    pub fn put_with<R>(
        &self,
        key: K,
        value: V,
        f: impl FnOnce(&V) -> R,
    ) -> Result<Option<R>, AddError<K, V>> {
        let _section = self.entries.enter();
        // SAFETY: in a section of the domain.
        let added = unsafe { self.insert((key, value), true, f) };
        added.map(|added| added.replaced).map_err(AddError::because)
    }

    /// Deletes an entry, poisoned or not; whether there was one. Of several that delete one entry one is told so. The
    /// value is dropped when no section can have it.
    ///
    /// (That is why it does not return the value: others may be reading it. [`delete_with`](Self::delete_with) shows it once more.)
    ///
    /// *Progress:* blocking, while somebody else has the entry, or the one in front of it. *Cost:* the lines of both, and
    /// [retiring](Domain::retire).
    #[inline]
    pub fn delete<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.delete_with(key, |_| ()).is_some()
    }

    /// Deletes an entry, and shows its value to `f`: as it was left, for nobody modifies it any more. `f` runs after the entry was
    /// deleted, under no lock; `None` if there was none.
    ///
    /// *Progress* and *cost:* as [`delete`](Self::delete).
    pub fn delete_with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let _section = self.entries.enter();
        // SAFETY: in a section of the domain.
        unsafe { self.entries.delete(self.place(key), |_| true, f) }
    }

    /// Deletes an entry if `f` says so of its value, while nobody modifies it; whether it did. For `f` holds what holds in
    /// [`modify`](Self::modify); it is also asked about a poisoned entry.
    ///
    /// *Progress* and *cost:* as [`delete`](Self::delete).
    ///
    /// # Panics
    /// If `f` does: the entry stays, poisoned.
    pub fn delete_if<Q>(&self, key: &Q, f: impl FnOnce(&V) -> bool) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let _section = self.entries.enter();
        // SAFETY: in a section of the domain.
        unsafe { self.entries.delete(self.place(key), f, |_| ()).is_some() }
    }

    /// Deletes every entry that is there all the time, one after the other, and perhaps some that are added meanwhile: if others
    /// add without end, this has none either.
    ///
    /// *Progress* and *cost:* those of a [`delete`](Self::delete) for each.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// How many bytes have been asked of the allocator for entries, and not been given back. What was deleted counts until it is
    /// destroyed; destroyed ones' memory is kept for others, a few chunks a thread.
    ///
    /// *Progress:* wait-free. *Cost:* a line of each thread that has added.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.entries.slab().memory_usage()
    }

    /// Destroys what this thread has deleted or replaced, and no section can have, and gives memory back that is not needed: as
    /// [`Slab::collect`](slab::Slab::collect).
    pub fn collect(&self) {
        self.entries.slab().collect();
    }
}

/// An iterator over the entries of an [`OrderedList`] in a range of keys.
pub struct EntryRange<'s, K, V, R, Q: ?Sized> {
    entries: EntryIter<'s, K, V>,
    range: R,
    key: core::marker::PhantomData<fn(&Q)>,
}

impl<'s, K: Borrow<Q>, V, R: RangeBounds<Q>, Q: Ord + ?Sized> Iterator
    for EntryRange<'s, K, V, R, Q>
{
    type Item = (&'s K, &'s V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (key, value) = self.entries.next()?;
            let is_beyond = match self.range.end_bound() {
                Bound::Included(end) => key.borrow() > end,
                Bound::Excluded(end) => key.borrow() >= end,
                Bound::Unbounded => false,
            };
            if is_beyond {
                self.entries.stop();
                return None;
            }
            // What was added just in front of the range is passed.
            let is_inside = match self.range.start_bound() {
                Bound::Included(start) => key.borrow() >= start,
                Bound::Excluded(start) => key.borrow() > start,
                Bound::Unbounded => true,
            };
            if is_inside {
                return Some((key, value));
            }
        }
    }
}

impl<K: Borrow<Q>, V, R: RangeBounds<Q>, Q: Ord + ?Sized> FusedIterator
    for EntryRange<'_, K, V, R, Q>
{
}

impl<K, V, R: fmt::Debug, Q: ?Sized> fmt::Debug for EntryRange<'_, K, V, R, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EntryRange").field(&self.range).finish()
    }
}

impl<K, V> Default for OrderedList<'static, K, V>
where
    K: Ord + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// In a [domain](Self::domain) that such lists and maps share.
    fn default() -> Self {
        Self::new(super::shared_domain())
    }
}

impl<K, V> FromIterator<(K, V)> for OrderedList<'static, K, V>
where
    K: Ord + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// As [`default`](Self::default), and [extended](Self::extend).
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut list = Self::default();
        list.extend(entries);
        list
    }
}

impl<K, V> Extend<(K, V)> for OrderedList<'_, K, V>
where
    K: Ord + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// [Puts](Self::put) all of them there, so that of equal keys the last one stays.
    ///
    /// # Panics
    /// If there is no memory.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            if let Err(error) = self.put(key, value) {
                panic!("{error}");
            }
        }
    }
}

impl<K, V> fmt::Debug for OrderedList<'_, K, V>
where
    K: Ord + Send + Sync + fmt::Debug + 'static,
    V: Send + Sync + fmt::Debug + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let section = self.entries.enter();
        f.debug_map().entries(self.iter(&section)).finish()
    }
}
