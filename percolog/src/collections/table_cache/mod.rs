//! A central table with per-core copies of looked-up entries.
//!
//! The mount tables of S. Boyd-Wickizer et al., *An Analysis of Linux Scalability to Many Cores*, OSDI 2010, §4.5.
//!
//! # Why no lookup is late
//!
//! *Invariant:* while nobody updates, each copy on any core is equal to the entry of the central table.
//!
//! The central table has a readers-writer lock, each core's copies have a lock of their own, taken behind the central one if
//! both are needed. A lookup that misses makes its copy *while it holds the central lock for reading*; an update holds it for writing, and
//! first takes away every core's copy of the key, then changes the entry. So:
//!
//! * when an update returns, no copy of what was there before is left, and none can be made: a lookup that begins later, or that was
//!   under way and missed, reads the central table behind the update;
//! * nobody sees the new value before the last copy of the old one is gone: those who miss meanwhile wait for the central lock.
//!   So if one lookup has returned the new value, a lookup that begins afterwards, on whatever core, does not return the
//!   old one. Lookups and updates are linearizable; an update takes effect when it releases the central lock.
//!
//! Copies are taken away first so that a panic of the key's `Eq` or `Hash` leaves fewer copies, and never one that is old.

#[cfg(all(test, percolog_loom))]
mod models;

use crate::cpu::{self, CoreId, Environment, Native, OwnTable, PerCore};
use crate::hash::DefaultHashBuilder;
use crate::sync::{Isolated, ObjectLock, Patience, SlotLock, UnsafeCell, const_fn};
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::mem;

/// A hash table with per-core copies of looked-up entries, for tables that hardly ever change.
///
/// Before: a table behind a readers-writer lock. Readers do not exclude each other, but each of them writes to the lock.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::RwLock;
///
/// let mounts = RwLock::new(HashMap::from([("/home", 3)]));
/// assert_eq!(mounts.read().expect("nobody panics").get("/home"), Some(&3));
/// ```
///
/// After: a lookup of something that this core has looked up before touches this core's memory alone.
///
/// ```
/// use percolog::collections::TableCache;
///
/// let mounts = TableCache::new();
/// mounts.insert("/home", 3);
/// assert_eq!(mounts.get("/home"), Some(3)); // from the central table: this core has a copy now
/// assert_eq!(mounts.get("/home"), Some(3)); // from the copy
/// assert_eq!(mounts.insert("/home", 4), Some(3)); // takes the copies away
/// assert_eq!(mounts.get("/home"), Some(4));
/// assert_eq!(mounts.remove("/home"), Some(4));
/// assert_eq!(mounts.get("/home"), None);
/// ```
///
/// # Contract
///
/// **Linearizable.** A lookup that begins after an update has returned sees it, on whatever core; and once a lookup has returned
/// an update's value, no lookup that begins later returns the value before.
///
/// **What is absent is not remembered**: each lookup of a key that is not in the table goes to the central one, and so costs what
/// it does without copies.
///
/// # Cost
///
/// | method | progress | cache lines moved |
/// |---|---|---|
/// | [`get`](Self::get) of a key with a copy here | blocking for a few instructions: a thread that lost its processor in the middle of one, or an update, can hold this core's copies | none, but for what cloning the value moves |
/// | [`get`](Self::get) of another one | blocking while somebody updates | the central lock's, and the entry's |
/// | [`insert`](Self::insert), [`remove`](Self::remove), [`clear`](Self::clear) | blocking | the central lock's, and for each core that has ever looked anything up its lock's and the copy's |
///
/// A lookup hands out a *clone*: reference counts that all cores write, as an `Arc`'s, would be the shared line again; take a
#[cfg_attr(
    feature = "std",
    doc = "[`CoreArc`](crate::refcount::CoreArc) for values that are not small."
)]
#[cfg_attr(
    not(feature = "std"),
    doc = "`CoreArc` (feature `std`) for values that are not small."
)]
///
/// *Memory:* a core has copies of no more keys than [`copies_per_core`](Self::copies_per_core) says, and of no more than are in the
/// table. At that bound all of its copies are dropped, and it begins anew.
///
/// *Sustained ceiling:* none for lookups of what is there. Updates are made one after the other, and each visits every core; from
/// about one update for each hundred lookups on, a lock is faster.
///
/// # Re-entrance
///
/// `Hash` and `Eq` of the key, `Clone` of both, and [`for_each`](Self::for_each)'s closure run under a lock of the table and must not
/// use it: they would wait for themselves. What is dropped is dropped under none,
/// and a destructor that panics keeps no other from running.
pub struct TableCache<K, V, S = DefaultHashBuilder, E = Native> {
    copies: PerCore<SlotLock<Table<K, V>>>,
    bound: usize,
    hasher: S,
    environment: E,
    center: Isolated<Center<K, V>>,
}

/// Entries, each with its key's hash, on lines of their own. A table that grows or tidies up asks no key for its hash: hashbrown
/// drops entries where that panics.
type Table<K, V> = OwnTable<(u64, K, V)>;

/// The central table, behind its lock.
struct Center<K, V> {
    lock: ObjectLock,
    table: UnsafeCell<Table<K, V>>,
}

// SAFETY: the lock gives the table to one thread at a time (`Send`), or shared references to several (`Sync`).
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Center<K, V> {}

/// Releases a lock, also when what was done under it panics.
struct Release<'a> {
    lock: &'a ObjectLock,
    release: fn(&ObjectLock),
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        (self.release)(self.lock);
    }
}

impl<K, V> Center<K, V> {
    fn shared<R>(&self, f: impl FnOnce(&Table<K, V>) -> R) -> R {
        let lock = &self.lock;
        // Unlimited: it is always taken.
        lock.shared(Patience::Unlimited);
        let release = ObjectLock::release_shared;
        let _taken = Release { lock, release };
        // SAFETY: taken for sharing until the end of the function: nobody writes.
        self.table.with(|table| f(unsafe { &*table }))
    }

    fn exclusive<R>(&self, f: impl FnOnce(&mut Table<K, V>) -> R) -> R {
        let lock = &self.lock;
        // Unlimited: it is always taken.
        lock.exclusive(Patience::Unlimited);
        let release = ObjectLock::release_exclusive;
        let _taken = Release { lock, release };
        // SAFETY: taken for this thread alone until the end of the function.
        self.table.with_mut(|table| f(unsafe { &mut *table }))
    }
}

fn find<'t, K: Borrow<Q>, V, Q: Eq + ?Sized>(
    table: &'t Table<K, V>,
    hash: u64,
    key: &Q,
) -> Option<(&'t K, &'t V)> {
    let found = table.find(hash, |(_, other, _)| other.borrow() == key);
    found.map(|(_, key, value)| (key, value))
}

fn take<K: Borrow<Q>, V, Q: Eq + ?Sized>(
    table: &mut Table<K, V>,
    hash: u64,
    key: &Q,
) -> Option<(K, V)> {
    let entry = table.find_entry(hash, |(_, other, _)| other.borrow() == key);
    let ((_, key, value), _) = entry.ok()?.remove();
    Some((key, value))
}

/// Puts a key in that is absent.
fn put<K, V>(table: &mut Table<K, V>, hash: u64, key: K, value: V) {
    table.insert_unique(hash, (hash, key, value), |(hash, ..)| *hash);
}

impl<K, V> TableCache<K, V> {
    /// Creates an empty table. Allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(DefaultHashBuilder::default())
    }
}

impl<K, V, S> TableCache<K, V, S> {
    const_fn! {
        /// Creates an empty table with a hasher of its own; usable in statics if that is. Allocates nothing.
        ///
        /// ```
        /// use percolog::collections::TableCache;
        /// use std::hash::{BuildHasherDefault, DefaultHasher};
        ///
        /// static NAMES: TableCache<u32, &str, BuildHasherDefault<DefaultHasher>> =
        ///     TableCache::with_hasher(BuildHasherDefault::new());
        /// NAMES.insert(0, "root");
        /// assert_eq!(NAMES.get(&0), Some("root"));
        /// ```
        #[must_use]
        pub const fn with_hasher(hasher: S) -> Self {
            Self::new_in(hasher, Native)
        }
    }
}

impl<K, V, S, E> TableCache<K, V, S, E> {
    const_fn! {
        /// An empty table in an environment of its own: for tests that say which core they are on.
        #[doc(hidden)]
        #[must_use]
        pub const fn new_in(hasher: S, environment: E) -> Self {
            Self {
                copies: PerCore::new(),
                bound: 1024,
                hasher,
                environment,
                center: Isolated::new(Center {
                    lock: ObjectLock::new(),
                    table: UnsafeCell::new(Table::new()),
                }),
            }
        }
    }

    /// Of how many keys a core has copies at most: 1024 unless said otherwise, at least 1.
    ///
    /// ```
    /// use percolog::collections::TableCache;
    ///
    /// let names = TableCache::<u32, String>::new().copies_per_core(64);
    /// names.insert(0, "root".to_owned());
    /// assert_eq!(names.get(&0).as_deref(), Some("root"));
    /// ```
    #[must_use]
    pub fn copies_per_core(mut self, keys: usize) -> Self {
        self.bound = keys.max(1);
        self
    }
}

impl<K, V, S, E> TableCache<K, V, S, E>
where
    K: Hash + Eq,
    S: BuildHasher,
    E: Environment,
{
    /// A clone of the key's value.
    ///
    /// See [the type](Self#cost) for progress and cost. A miss allocates where the core's memory for copies grows.
    ///
    /// # Panics
    /// Where the key's `Hash`, `Eq` or `Clone` do, or the value's `Clone`.
    #[inline]
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q> + Clone,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        let hash = self.hasher.hash_one(key);
        let slot = self.environment.slot();
        let copy = cpu::without_preemption(|| {
            let mut copies = self.copies.touched(slot)?.lock();
            find(copies.get(), hash, key).map(|(_, value)| value.clone())
        });
        copy.or_else(|| self.fetch(slot, hash, key))
    }

    /// Looks the key up in the central table, and leaves a copy on the slot.
    #[cold]
    #[inline(never)]
    fn fetch<Q>(&self, slot: CoreId, hash: u64, key: &Q) -> Option<V>
    where
        K: Borrow<Q> + Clone,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        // Out here: nothing is dropped under a lock, not even by a panic.
        let (mut own, mut copy, mut found) = (None, None, None);
        let spent = self.center.shared(|table| {
            let (key, value) = find(table, hash, key)?;
            own = Some(key.clone());
            copy = Some(value.clone());
            found = Some(value.clone());
            // Under the central lock: see the module.
            self.remember(slot, hash, &mut own, &mut copy)
        });
        // First: a destructor that panics behind the return would leak what is returned. The same below.
        drop((spent, own, copy));
        found
    }

    /// Takes these and keeps them on the slot, unless there is a copy of the key. Returns the copies that had to go.
    fn remember(
        &self,
        slot: CoreId,
        hash: u64,
        own: &mut Option<K>,
        copy: &mut Option<V>,
    ) -> Option<Table<K, V>> {
        let place = self
            .copies
            .get_or_make(slot, || SlotLock::new(Table::new()));
        cpu::without_preemption(|| {
            let mut copies = place.lock();
            let copies = copies.get();
            // Another thread of this slot may have been faster.
            if find(copies, hash, own.as_ref()?).is_some() {
                return None;
            }
            let is_full = copies.len() >= self.bound;
            let spent = is_full.then(|| mem::replace(copies, Table::new()));
            put(copies, hash, own.take()?, copy.take()?);
            spent
        })
    }

    /// Takes every core's copy of the key away, to `spent`. The caller holds the central lock exclusively.
    fn forget<Q>(&self, hash: u64, key: &Q, spent: &mut Vec<(K, V)>)
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // A slot whose first copy was made before is found: it was made under the central lock.
        let copies = self.copies.iter();
        spent.extend(copies.filter_map(|(_, copies)| {
            cpu::without_preemption(|| take(copies.lock().get(), hash, key))
        }));
    }

    /// Puts a value in, and returns the one that was there before.
    ///
    /// Every lookup that begins after this has returned sees it. Allocates where the table grows, and for the copies that are
    /// taken away.
    ///
    /// # Panics
    /// Where the key's `Hash` or `Eq` do; the table is then as before.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        let hash = self.hasher.hash_one(&key);
        // Out here: nothing is dropped under a lock, not even by a panic.
        let (mut spent, mut new) = (Vec::new(), Some((key, value)));
        self.center.exclusive(|table| {
            let (key, value) = new.as_mut()?;
            if find(table, hash, key).is_some() {
                self.forget(hash, key, &mut spent);
                let (_, _, before) = table.find_mut(hash, |(_, other, _)| other == key)?;
                mem::swap(before, value);
            } else {
                // What is absent has no copies.
                let (key, value) = new.take()?;
                put(table, hash, key, value);
            }
            Some(())
        });
        // In the new value's place is the one before.
        let (key, before) = new.unzip();
        drop((key, spent));
        before
    }

    /// Takes a key out, and returns its value.
    ///
    /// No lookup that begins after this has returned finds it.
    ///
    /// # Panics
    /// Where the key's `Hash` or `Eq` do; the table is then as before.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let mut spent = Vec::new();
        let (key, value) = self.center.exclusive(|table| {
            find(table, hash, key)?;
            self.forget(hash, key, &mut spent);
            take(table, hash, key)
        })?;
        drop((key, spent));
        Some(value)
    }

    /// Takes all keys out.
    pub fn clear(&self) {
        let spent = self.center.exclusive(|table| {
            let copies: Vec<_> = self
                .copies
                .iter()
                .map(|(_, copies)| take_all(copies))
                .collect();
            (copies, mem::replace(table, Table::new()))
        });
        drop(spent);
    }

    /// Calls `f` for every entry of the central table, as it is at one moment, in no particular order.
    ///
    /// # Panics
    /// Where `f` does.
    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        self.center
            .shared(|table| table.iter().for_each(|(_, key, value)| f(key, value)));
    }

    /// Returns the number of keys in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.center.shared(|table| table.len())
    }

    /// Returns whether no key is in the table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many copies the cores have, about: each core is counted for itself.
    #[must_use]
    pub fn copies(&self) -> usize {
        let copies = self.copies.iter();
        copies
            .map(|(_, copies)| cpu::without_preemption(|| copies.lock().get().len()))
            .sum()
    }
}

fn take_all<K, V>(copies: &SlotLock<Table<K, V>>) -> Table<K, V> {
    let empty = Table::new();
    cpu::without_preemption(|| mem::replace(copies.lock().get(), empty))
}

impl<K, V, S: Default> Default for TableCache<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K, V, S, E> fmt::Debug for TableCache<K, V, S, E>
where
    K: Hash + Eq + fmt::Debug,
    V: fmt::Debug,
    S: BuildHasher,
    E: Environment,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        self.for_each(|key, value| {
            map.entry(key, value);
        });
        map.finish()
    }
}
