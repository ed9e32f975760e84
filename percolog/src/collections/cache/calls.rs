//! The cache itself: items that lie in a slab, and are looked up in sections.

use super::builder::{CacheBuilder, CacheStats};
use super::core::{Condition, Core, Gone, Put, Unfit};
use super::item::{CacheItem, CacheIter, ItemVersion, PutError, PutReason};
use super::notes::Kind;
use super::table::{FOR_EVER, Node, REPLACED};
use super::time::{DefaultTime, TimeSource};
use crate::cpu::lease::Who;
use crate::hash::DefaultHashBuilder;
use crate::reclaim::{Domain, InSection, Owned, Unlinked, contain};
use crate::slab::{InSlab, Slab};
use crate::sync::atomic::{AtomicUsize, Ordering};
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::mem;
use core::ptr::NonNull;
use core::time::Duration;

/// A cache of bounded size, read without a store to a shared line.
///
/// See the [module](super) for an example, the contract and the costs.
pub struct Cache<'d, K, V, S = DefaultHashBuilder, C = DefaultTime> {
    pub(super) core: Core<K, V>,
    pub(super) slab: Slab<'d, Node<K, V>>,
    pub(super) domain: &'d Domain,
    pub(super) hasher: S,
    pub(super) time: C,
    pub(super) weigher: fn(&K, &V) -> usize,
    pub(super) limit: usize,
    /// The list that the next call of `expire` begins with.
    pub(super) next: AtomicUsize,
}

/// The condition under which [`Cache::put`] stores an item.
///
/// An item that has expired is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutCondition {
    /// Whether the key has one or not.
    Always,
    /// If the key has none.
    Absent,
    /// If the key has one.
    Present,
    /// If the key has this one.
    Unchanged(ItemVersion),
}

/// Retires what was taken out: when this is dropped, and so also when code of the user's panics.
struct Retiring<'a, K: Send + 'static, V: Send + 'static> {
    domain: &'a Domain,
    gone: Gone<K, V>,
}

impl<K: Send + 'static, V: Send + 'static> Drop for Retiring<'_, K, V> {
    fn drop(&mut self) {
        while let Some(node) = self.gone.pop() {
            // SAFETY: nodes of a cache come from its slab. This one was taken out of the only chain that it was in, which
            // is followed in sections of this domain, once.
            unsafe {
                let node = Unlinked::from(Owned::<_, InSlab>::from_raw(node));
                self.domain.retire(node);
            }
        }
    }
}

/// A node that is not linked yet; dropped if it never is.
struct Fresh<K, V>(NonNull<Node<K, V>>);

impl<K, V> Fresh<K, V> {
    fn new(node: Owned<Node<K, V>, InSlab>) -> Self {
        Self(node.into_raw())
    }

    fn into_owned(self) -> Owned<Node<K, V>, InSlab> {
        let node = self.0;
        mem::forget(self);
        // SAFETY: comes from an `Owned`, and was not linked.
        unsafe { Owned::from_raw(node) }
    }
}

impl<K, V> Drop for Fresh<K, V> {
    fn drop(&mut self) {
        // SAFETY: as above.
        drop(unsafe { Owned::<_, InSlab>::from_raw(self.0) });
    }
}

/// Mixes a hash, so that all bits of the result depend on all bits of it, whatever the hasher; odd.
#[inline(always)]
fn mixed(hash: u64) -> u64 {
    // The golden ratio is a customary multiplier without structure.
    let wide = u128::from(hash) * 0x9e37_79b9_7f4a_7c15;
    ((wide >> 64) as u64 ^ wide as u64) | 1
}

impl<K, V> Cache<'_, K, V> {
    /// How a cache is to work whose items weigh no more than so many bytes.
    pub fn builder(bytes: usize) -> CacheBuilder<K, V> {
        CacheBuilder::new(bytes)
    }
}

impl<K, V, S, C> Cache<'_, K, V, S, C> {
    /// What an item weighs at least: its key, its value, and what the cache adds: node, chain and ring.
    pub const ITEM_BYTES: usize = {
        type One<K, V> = Slab<'static, Node<K, V>>;
        // In the slab, a chunk's header included; three quarters of a chain and a lock; and a place in a ring.
        One::<K, V>::CHUNK_BYTES.div_ceil(One::<K, V>::CHUNK_OBJECTS) + 16 + 8
    };
}

impl<'d, K, V, S, C> Cache<'d, K, V, S, C>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
    C: TimeSource,
{
    /// The domain whose sections items are looked up in.
    #[must_use]
    pub fn domain(&self) -> &'d Domain {
        self.domain
    }

    #[inline(always)]
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        mixed(self.hasher.hash_one(key))
    }

    #[inline(always)]
    fn check(&self, section: &impl InSection) {
        assert!(
            section.is_of(self.domain),
            "a section of another domain than the cache's"
        );
    }

    fn expiry(&self, ttl: Option<Duration>) -> u64 {
        let Some(ttl) = ttl else { return FOR_EVER };
        // Rounded up, and less than what means for ever.
        let ttl = ttl.as_nanos().div_ceil(1_000_000);
        let ttl = u64::try_from(ttl).unwrap_or(FOR_EVER);
        self.time.now().saturating_add(ttl).min(FOR_EVER - 1)
    }

    // ── Lookups ──

    /// The value of a key, for as long as the section lasts.
    ///
    /// *Progress:* wait-free but for the length of a chain, which changes while it is followed only by what is put in and taken out.
    /// *Cost:* no store to a line that others write; two lines are read, and another one for each item before
    /// it in its chain.
    ///
    /// # Panics
    /// If the section is one of another domain. Where `Hash` or `Eq` of the key panic, or the time source does.
    #[inline]
    #[must_use]
    pub fn get<'s, Q>(&'s self, section: &'s impl InSection, key: &Q) -> Option<&'s V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_item(section, key).map(|item| item.value())
    }

    /// The item of a key: its value, and [which one](CacheItem::version) it is.
    ///
    /// *Progress*, *cost:* as [`get`](Self::get).
    ///
    /// # Panics
    /// As [`get`](Self::get).
    #[inline]
    #[must_use]
    pub fn get_item<'s, Q>(
        &'s self,
        section: &'s impl InSection,
        key: &Q,
    ) -> Option<CacheItem<'s, K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.check(section);
        // SAFETY: in a section of the cache's domain, which is borrowed for as long as the item.
        unsafe {
            let hash = self.hash(key);
            let is_key = |other: &K| other.borrow() == key;
            let node = self.core.hit(Who::am_i(), hash, &self.time, is_key)?;
            Some(CacheItem::new(node))
        }
    }

    /// Calls `look` with the value of a key, in a section of its own.
    ///
    /// *Progress*, *cost:* as [`get`](Self::get), and a section.
    ///
    /// # Panics
    /// As [`get`](Self::get), and where `look` does.
    #[inline]
    pub fn observe<Q, R>(&self, key: &Q, look: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let section = self.domain.enter();
        self.get(&section, key).map(look)
    }

    /// Returns whether the key has an item. Does not count as a use of it.
    ///
    /// *Progress*, *cost*, *panics:* as [`observe`](Self::observe).
    #[must_use]
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let _section = self.domain.enter();
        let is_key = |other: &K| other.borrow() == key;
        // SAFETY: in a section of the cache's domain.
        unsafe { self.core.find(self.hash(key), &self.time, is_key) }.is_some()
    }

    /// All items, in no order: each that is there the whole time, as it is at some moment of the walk, and some of those that come or go
    /// meanwhile. Those that have expired when the walk begins are left out. Walking is not using.
    ///
    /// The section is open for as long as the walk takes.
    ///
    /// *Cost:* every line of the cache is read.
    ///
    /// # Panics
    /// If the section is one of another domain, and where the time source does.
    pub fn iter<'s>(&'s self, section: &'s impl InSection) -> CacheIter<'s, K, V> {
        self.check(section);
        // SAFETY: in a section of the cache's domain, which is borrowed for as long as the walk.
        unsafe { CacheIter::new(&self.core.table, self.time.now()) }
    }

    // ── What puts in ──

    /// Puts a value in, in place of what the key had. If another thread puts one in at the same time, and so whatever is there, this one's may
    /// be dropped at once, as if it had come just before; the version that is then returned is that of no item.
    ///
    /// *Progress:* blocking. *Cost:* see the [module](super).
    ///
    /// # Errors
    /// If it is too large, or there is no memory: the item.
    ///
    /// # Panics
    /// Where code of the user's does: `Hash` and `Eq` of the key, the weigher, the time source. Nothing has happened then, or (with
    /// `Eq`) some items were evicted; key and value are dropped.
    pub fn set(&self, key: K, value: V) -> Result<ItemVersion, PutError<K, V>> {
        self.put(key, value, PutCondition::Always, None)
    }

    /// The same, for so long.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn set_for(&self, key: K, value: V, ttl: Duration) -> Result<ItemVersion, PutError<K, V>> {
        self.put(key, value, PutCondition::Always, Some(ttl))
    }

    /// Puts a value in if the key has none.
    ///
    /// # Errors
    /// [`PutReason::Present`], and as [`set`](Self::set).
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn add(&self, key: K, value: V) -> Result<ItemVersion, PutError<K, V>> {
        self.put(key, value, PutCondition::Absent, None)
    }

    /// Puts a value in if the key has one.
    ///
    /// # Errors
    /// [`PutReason::Absent`], and as [`set`](Self::set).
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn replace(&self, key: K, value: V) -> Result<ItemVersion, PutError<K, V>> {
        self.put(key, value, PutCondition::Present, None)
    }

    /// Puts a value in if the key still has the item with this version.
    ///
    /// # Errors
    /// [`PutReason::Changed`] if it has another one, [`PutReason::Absent`] if it has none, and as [`set`](Self::set).
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn compare_and_set(
        &self,
        key: K,
        version: ItemVersion,
        value: V,
    ) -> Result<ItemVersion, PutError<K, V>> {
        self.put(key, value, PutCondition::Unchanged(version), None)
    }

    /// Puts a value in if the condition is met, for so long, or without a lifetime.
    ///
    /// # Errors
    /// If the condition is not met, and as [`set`](Self::set).
    ///
    /// # Panics
    /// As [`set`](Self::set).
    pub fn put(
        &self,
        key: K,
        value: V,
        when: PutCondition,
        ttl: Option<Duration>,
    ) -> Result<ItemVersion, PutError<K, V>> {
        let condition = match when {
            PutCondition::Always => Condition::Always,
            PutCondition::Absent => Condition::Absent,
            PutCondition::Present => Condition::Present,
            PutCondition::Unchanged(version) => Condition::Version(version.to_bits()),
        };
        let hash = self.hash(&key);
        let expires = self.expiry(ttl);
        self.link(hash, key, value, expires, condition)
    }

    /// Puts what `f` makes of a key's value in its place, with what is left of its lifetime; `None` if the key has none.
    ///
    /// `f` is called without a lock, in a section, and again if somebody else was faster. What is put in replaces the very value
    /// that `f` saw last.
    ///
    /// *Progress:* blocking. *Cost:* as [`set`](Self::set), for each call of `f`.
    ///
    /// # Errors
    /// As [`set`](Self::set): the last value that `f` made.
    ///
    /// # Panics
    /// As [`set`](Self::set), and where `f` or `Clone` do.
    pub fn update<Q>(
        &self,
        key: &Q,
        mut f: impl FnMut(&V) -> V,
    ) -> Result<Option<ItemVersion>, PutError<K, V>>
    where
        K: Borrow<Q> + Clone,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        loop {
            // Open until the new value is there, so that no other node can lie where the old one did.
            let _section = self.domain.enter();
            let is_key = |other: &K| other.borrow() == key;
            // SAFETY: in a section of the cache's domain.
            let Some(old) = (unsafe { self.core.find(hash, &self.time, is_key) }) else {
                return Ok(None);
            };
            // SAFETY: as above.
            let item = unsafe { old.as_ref() };
            let value = f(&item.value);
            let key = item.key.clone();
            match self.link(hash, key, value, item.expires(), Condition::Same(old)) {
                Ok(version) => return Ok(Some(version)),
                Err(rejected) if rejected.reason == PutReason::Changed => {}
                Err(rejected) if rejected.reason == PutReason::Absent => return Ok(None),
                Err(rejected) => return Err(rejected),
            }
        }
    }

    fn link(
        &self,
        hash: u64,
        key: K,
        value: V,
        expires: u64,
        condition: Condition<NonNull<Node<K, V>>>,
    ) -> Result<ItemVersion, PutError<K, V>> {
        let share = self.core.lists.share;
        let weight = (self.weigher)(&key, &value).saturating_add(Self::ITEM_BYTES);
        if weight > share {
            let reason = PutReason::TooLarge { weight, share };
            return Err(self.reject(key, value, reason));
        }
        let node = Node::new(hash, key, value, weight, expires);
        let node = match self.slab.insert(node) {
            Ok(node) => Fresh::new(node),
            Err(full) => {
                let Node { key, value, .. } = full.value;
                return Err(self.reject(key, value, PutReason::NoMemory { limit: full.limit }));
            }
        };
        loop {
            let mut retiring = Retiring {
                domain: self.domain,
                gone: Gone::new(),
            };
            // Left before anything is retired, which could not be destroyed otherwise.
            let _section = self.domain.enter();
            // SAFETY: in a section of the cache's domain; the node is ours, and its weight was looked at.
            let put = unsafe {
                self.core.put(
                    Who::am_i(),
                    node.0,
                    condition,
                    &self.time,
                    &mut retiring.gone,
                )
            };
            let unfit = match put {
                Ok(Put::More) => continue,
                Ok(Put::Done(version)) => {
                    // The cache's from here on.
                    mem::forget(node);
                    return Ok(ItemVersion::from_bits(version));
                }
                Ok(Put::Overtaken) => {
                    let mut node = Some(node);
                    contain(|| drop(node.take()));
                    return Ok(ItemVersion::from_bits(REPLACED));
                }
                Err(unfit) => unfit,
            };
            let Node { key, value, .. } = Slab::into_inner(node.into_owned());
            let reason = match unfit {
                Unfit::Absent => PutReason::Absent,
                Unfit::Present => PutReason::Present,
                Unfit::Changed => PutReason::Changed,
            };
            return Err(self.reject(key, value, reason));
        }
    }

    #[cold]
    fn reject(&self, key: K, value: V, reason: PutReason) -> PutError<K, V> {
        self.core.slots.of(Who::am_i()).count(Kind::Rejections);
        PutError { key, value, reason }
    }

    // ── What takes out ──

    /// Takes the item of a key out; whether there was one.
    ///
    /// *Progress:* blocking. *Cost:* nothing is written if there is none; else the lines of the item, its chain and its list.
    ///
    /// # Panics
    /// Where `Hash` or `Eq` of the key or the time source do; nothing has happened then.
    pub fn delete<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let mut retiring = Retiring {
            domain: self.domain,
            gone: Gone::new(),
        };
        let _section = self.domain.enter();
        let is_key = |other: &K| other.borrow() == key;
        let (time, gone) = (&self.time, &mut retiring.gone);
        // SAFETY: in a section of the cache's domain; what is gone is retired when it is over.
        unsafe { self.core.remove(Who::am_i(), hash, time, is_key, gone) }
    }

    /// Gives the item of a key another lifetime, from now on; or none, so that it does not expire. Counts as a use. Whether there is one.
    ///
    /// *Progress:* blocking. *Cost:* the lines of the item and its chain.
    ///
    /// # Panics
    /// Where `Hash` or `Eq` of the key or the time source do; nothing has happened then.
    pub fn touch<Q>(&self, key: &Q, ttl: Option<Duration>) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let expires = self.expiry(ttl);
        let is_key = |other: &K| other.borrow() == key;
        self.core.touch(self.hash(key), expires, &self.time, is_key)
    }

    /// Looks at so many places of each list for items that have expired, going on where the last call stopped, and takes them out. How
    /// many that were.
    ///
    /// An item that has expired is not found by anybody; but it takes up room until its key is set again, the hand
    /// comes by, or this finds it.
    ///
    /// *Progress:* blocking; each list's lock is held for as long as that many places take. *Cost:* some lines for each place.
    ///
    /// # Panics
    /// Where the time source does.
    pub fn expire(&self, places: usize) -> usize {
        let lists = self.core.lists.count();
        // Relaxed: who comes at the same time begins elsewhere, that is all.
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut expired = 0;
        for list in 0..lists {
            let mut left = places;
            loop {
                let mut retiring = Retiring {
                    domain: self.domain,
                    gone: Gone::new(),
                };
                let _section = self.domain.enter();
                let gone = &mut retiring.gone;
                let number = first.wrapping_add(list) % lists;
                // SAFETY: in a section of the cache's domain; what is gone is retired when it is over.
                left = unsafe {
                    self.core
                        .expire(Who::am_i(), number, left, &self.time, gone)
                };
                expired += gone.len();
                // There is no more room for what was taken out only if there was much of it.
                if left == 0 || !gone.is_full() {
                    break;
                }
            }
        }
        expired
    }

    /// Takes out all items that were there when this was called, each for itself; what is put in meanwhile may stay.
    ///
    /// *Progress:* blocking. *Cost:* the lines of all items.
    pub fn clear(&self) {
        for list in 0..self.core.lists.count() {
            let mut from = Some(0);
            while let Some(place) = from {
                let mut retiring = Retiring {
                    domain: self.domain,
                    gone: Gone::new(),
                };
                from = self.core.clear(list, place, &mut retiring.gone);
            }
        }
    }

    /// Destroys what was taken out and can be seen by nobody, and gives memory without items back to the system; how many bytes.
    ///
    /// For moments at which there is time. See [`Slab::collect`].
    pub fn collect(&self) -> usize {
        self.slab.collect()
    }

    // ── Figures ──

    /// Returns the number of items, those included that have expired and were not met since. Exact if nobody changes them; otherwise each
    /// list is counted for itself.
    ///
    /// *Progress:* wait-free. *Cost:* a line of each list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.lists.items()
    }

    /// Returns whether there are none, as [`len`](Self::len) counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the items weigh: never more than the [limit](Self::limit).
    ///
    /// *Progress*, *cost:* as [`len`](Self::len).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.core.lists.bytes()
    }

    /// What the items may weigh together.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// What the items of one list may weigh, and so an item at most.
    #[must_use]
    pub fn share(&self) -> usize {
        self.core.lists.share
    }

    /// Returns the number of lists.
    #[must_use]
    pub fn lists(&self) -> usize {
        self.core.lists.count()
    }

    /// Returns statistics: what the cache has done, and what it holds.
    ///
    /// *Progress:* wait-free. *Cost:* a line or two of each thread that has used the cache, and of each list.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let total = |kind| self.core.slots.total(kind);
        CacheStats {
            hits: total(Kind::Hits),
            misses: total(Kind::Misses),
            sets: total(Kind::Sets),
            deletes: total(Kind::Deletes),
            evictions: total(Kind::Evictions),
            expirations: total(Kind::Expirations),
            rejected: total(Kind::Rejections),
            items: self.len(),
            bytes: self.bytes(),
            limit: self.limit,
        }
    }

    /// How many bytes the cache has asked the allocator for, and not given back: tables, of which only what was used takes memory, and its
    /// slab, with what was taken out and waits for sections to end. What keys and values have allocated is not among them.
    ///
    /// *Progress:* wait-free. *Cost:* as [`stats`](Self::stats).
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        let core = &self.core;
        core.table.bytes() + core.lists.memory() + core.slots.memory() + self.slab.memory_usage()
    }
}

impl<K, V, S, C> Drop for Cache<'_, K, V, S, C> {
    fn drop(&mut self) {
        for line in self.core.table.lines() {
            line.drain(|node| {
                // SAFETY: sections that could have seen it would borrow the cache; nodes come from its slab.
                let mut node = Some(unsafe { Owned::<_, InSlab>::from_raw(node) });
                // A destructor that panics keeps no other from running.
                contain(|| drop(node.take()));
            });
        }
    }
}

impl<K, V, S, C> fmt::Debug for Cache<'_, K, V, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("items", &self.core.lists.items())
            .field("bytes", &self.core.lists.bytes())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
