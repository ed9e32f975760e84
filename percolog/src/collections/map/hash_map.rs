//! What users see of the map.

use core::borrow::Borrow;
use core::cmp::Ordering as Compared;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use super::buckets::{Buckets, order_of_entry};
use super::entries::{Added, Entries, Place};
use super::errors::{AddError, ChangeError};
use super::iter::EntryIter;
use super::list::{Lack, Refused};
use crate::hash::DefaultHashBuilder;
use crate::reclaim::{Domain, InSection};
use crate::slab;

/// Who passes so many entries when adding one looks whether it is time for more buckets.
const FAR: usize = 3;

/// A hash map with lock-free reads and a lock for each entry.
///
/// See the [module](super) for the contract, and for what an operation costs.
///
/// ```
/// use percolog::collections::Map;
/// use percolog::reclaim::Domain;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// static DOMAIN: Domain = Domain::new();
/// let accounts: Map<'_, String, AtomicU64> = Map::new(&DOMAIN);
/// accounts.add("ada".into(), AtomicU64::new(5)).expect("there is no ada, and there is memory");
///
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         // Excludes other modifications of ada, and her deletion; nobody who looks waits.
///         let paid = accounts.modify("ada", |balance| {
///             balance.store(balance.load(Ordering::Relaxed) + 5, Ordering::Release);
///         });
///         assert!(paid.is_ok());
///     });
///     scope.spawn(|| {
///         let balance = accounts.observe("ada", |balance| balance.load(Ordering::Acquire));
///         assert!(balance == Some(5) || balance == Some(10));
///     });
/// });
/// assert_eq!(accounts.delete_with("ada", |balance| balance.load(Ordering::Relaxed)), Some(10));
/// assert!(accounts.is_empty());
/// ```
///
/// *Hashing.* Buckets are chosen by the lowest bits of a hash. Entries whose hashes are equal are told apart by their keys alone,
/// one after the other: who can choose keys for you should not be able to make them collide, which the default sees to.
///
/// *Growth.* Who adds an entry and finds its bucket long looks at the [estimate](Self::len_estimate) of the length, and doubles
/// the number of buckets if there are more entries. Nothing is moved: a bucket is split when something is next added there. A map
/// does not become smaller.
pub struct Map<'d, K, V, S = DefaultHashBuilder>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    // In this order: entries are destroyed along the list, which goes through the buckets.
    entries: Entries<'d, K, V>,
    buckets: Buckets,
    hasher: S,
}

impl<'d, K, V> Map<'d, K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Creates an empty map, whose entries are read in sections of this domain. Allocates nothing before it is used. For one with a limit,
    /// or with room for many, there is a [`MapBuilder`](super::MapBuilder).
    #[must_use]
    pub fn new(domain: &'d Domain) -> Self {
        Self::with_hasher(domain, DefaultHashBuilder::new())
    }
}

impl<'d, K, V, S> Map<'d, K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    /// The same, with a way to hash of the user's own.
    ///
    /// ```
    /// use percolog::collections::Map;
    /// use percolog::reclaim::Domain;
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    ///
    /// static DOMAIN: Domain = Domain::new();
    /// // Keys are our own, so nobody makes them collide.
    /// static PAGES: Map<'static, u64, u64, BuildHasherDefault<DefaultHasher>> =
    ///     Map::with_hasher(&DOMAIN, BuildHasherDefault::new());
    ///
    /// PAGES.add(7, 0x7000).expect("there is no page 7, and there is memory");
    /// assert_eq!(PAGES.observe(&7, |frame| *frame), Some(0x7000));
    /// ```
    #[must_use]
    pub const fn with_hasher(domain: &'d Domain, hasher: S) -> Self {
        Self::with(domain, slab::SlabBuilder::new(), 0, hasher)
    }

    pub(super) const fn with(
        domain: &'d Domain,
        memory: slab::SlabBuilder,
        capacity: usize,
        hasher: S,
    ) -> Self {
        Self {
            entries: Entries::new(domain, memory),
            buckets: Buckets::new(capacity),
            hasher,
        }
    }

    /// What the entries are read in sections of.
    #[must_use]
    pub fn domain(&self) -> &'d Domain {
        self.entries.domain()
    }

    /// The way to hash.
    #[must_use]
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the number of buckets. Never fewer than before.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.buckets.count()
    }

    #[inline]
    fn place<'q, Q>(&self, key: &'q Q) -> Place<impl Fn(&K) -> Compared + use<'q, K, V, S, Q>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        Place {
            start: self.buckets.start(self.entries.head(), hash),
            order: order_of_entry(hash),
            compare: move |other: &K| compare(other.borrow(), key),
        }
    }

    #[inline]
    fn check(&self, section: &impl InSection) {
        assert!(
            section.is_of(self.domain()),
            "the section is one of another domain than the map"
        );
    }

    /// # Safety
    /// The caller is in a section of the domain, and stays there for `'s`.
    #[inline]
    unsafe fn insert<'s, R>(
        &self,
        hash: u64,
        entry: (K, V),
        replace: bool,
        last: impl FnOnce(&V) -> R,
    ) -> Result<Added<'s, K, V, R>, Refused<K, V>> {
        // SAFETY: by contract.
        let added = unsafe {
            let start = self.buckets.start_to_add(self.entries.head(), hash);
            let place = (start, order_of_entry(hash));
            self.entries.add(place, entry, replace, compare, last)?
        };
        if added.passed >= FAR {
            self.look_at_length();
        }
        Ok(added)
    }

    #[cold]
    fn look_at_length(&self) {
        let buckets = self.buckets.count();
        if self.entries.about() > buckets {
            self.buckets.grow(buckets);
        }
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
        Q: Hash + Eq + ?Sized,
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
        Q: Hash + Eq + ?Sized,
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
        Q: Hash + Eq + ?Sized,
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

    /// Returns whether there is no entry. As exact as [`len`](Self::len), and as dear.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries, in no order that means anything. Others may add and delete meanwhile: what is there all the time is shown,
    /// once; a key that is deleted and added again may be shown twice.
    ///
    /// # Panics
    /// If the section is one of another domain.
    pub fn iter<'s>(&'s self, section: &'s impl InSection) -> EntryIter<'s, K, V> {
        self.check(section);
        // SAFETY: in a section of the domain for `'s`.
        unsafe { self.entries.iter() }
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
        Q: Hash + Eq + ?Sized,
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
        Q: Hash + Eq + ?Sized,
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
        Q: Hash + Eq + ?Sized,
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
        let hash = self.hasher.hash_one(&key);
        // SAFETY: in a section of the domain.
        let added = unsafe { self.insert(hash, (key, value), false, |_| ()) };
        added.map(|_| ()).map_err(AddError::because)
    }

    /// The value of the entry with this key, which is added if there is none: `make` says with which value, under no lock. If
    /// somebody else adds the key at the same moment, what `make` made is dropped, and the other's value found.
    ///
    /// ```
    /// use percolog::collections::Map;
    /// use percolog::reclaim::Domain;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// static DOMAIN: Domain = Domain::new();
    /// let words: Map<'_, &str, AtomicU64> = Map::new(&DOMAIN);
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
        self.check(section);
        let hash = self.hasher.hash_one(&key);
        let place = Place {
            start: self.buckets.start(self.entries.head(), hash),
            order: order_of_entry(hash),
            compare: |other: &K| compare(other, &key),
        };
        // SAFETY: in a section of the domain for `'s`.
        if let Some(found) = unsafe { self.entries.find(&place) } {
            return Ok(&found.value);
        }
        // SAFETY: as above.
        match unsafe { self.insert(hash, (key, make()), false, |_| ()) } {
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
        let hash = self.hasher.hash_one(&key);
        // SAFETY: in a section of the domain.
        let added = unsafe { self.insert(hash, (key, value), true, f) };
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
        Q: Hash + Eq + ?Sized,
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
        Q: Hash + Eq + ?Sized,
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
        Q: Hash + Eq + ?Sized,
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

    /// How many bytes have been asked of the allocator for entries, and not been given back, and for buckets. What was deleted
    /// counts until it is destroyed; destroyed ones' memory is kept for others, a few chunks a thread.
    ///
    /// *Progress:* wait-free. *Cost:* a line of each thread that has added.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.entries.slab().memory_usage() + self.buckets.memory()
    }

    /// Destroys what this thread has deleted or replaced, and no section can have, and gives memory back that is not needed: as
    /// [`Slab::collect`](slab::Slab::collect).
    pub fn collect(&self) {
        self.entries.slab().collect();
    }
}

/// Among entries of one hash: equal, or further on.
#[inline]
fn compare<Q: Eq + ?Sized>(one: &Q, other: &Q) -> Compared {
    if one == other {
        Compared::Equal
    } else {
        Compared::Less
    }
}

impl<K, V, S> Default for Map<'static, K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Default,
{
    /// In a [domain](Self::domain) that such lists and maps share.
    fn default() -> Self {
        Self::with_hasher(super::shared_domain(), S::default())
    }
}

impl<K, V, S> FromIterator<(K, V)> for Map<'static, K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Default,
{
    /// As [`default`](Self::default), and [extended](Self::extend).
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<K, V, S> Extend<(K, V)> for Map<'_, K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
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

impl<K, V, S> fmt::Debug for Map<'_, K, V, S>
where
    K: Hash + Eq + Send + Sync + fmt::Debug + 'static,
    V: Send + Sync + fmt::Debug + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _section = self.entries.enter();
        // SAFETY: in a section of the domain.
        f.debug_map()
            .entries(unsafe { self.entries.iter() })
            .finish()
    }
}
