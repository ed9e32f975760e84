//! What users see of the distributed table.

use super::Reentered;
use super::core::{Core, Locked};
use super::interface::{ElementTable, LockedElement};
use super::places::Inside;
use crate::cpu::lease;
use crate::cpu::shards::NoVisit;
use crate::hash::DefaultHashBuilder;
use ::core::fmt;
use ::core::hash::{BuildHasher, Hash};
use ::core::ops::{ControlFlow, Deref, DerefMut};

/// Parts of the master table.
const SHARDS: usize = 16;

/// A hash table in which each thread has a replica of its own of every element it uses.
///
/// An element has a key, a *shared* part `S`, of which there is one, and a *local* part `L` for each thread that has looked it up. A lookup
/// returns a guard of the local part, which no other thread can touch meanwhile.
///
/// Before: everybody who uses a page takes its lock, or that of its shard, and writes to what it counts.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
///
/// struct Page { frame: u64, uses: u64 }
///
/// let pages = Mutex::new(HashMap::from([(7u64, Page { frame: 1042, uses: 0 })]));
/// if let Some(page) = pages.lock().expect("nobody panics").get_mut(&7) {
///     page.uses += 1;
/// }
/// ```
///
/// After: a thread that uses a page again touches its own memory only.
///
/// ```
/// use percolog::dhash::DHash;
///
/// struct Page { frame: u64 }
///
/// let pages: DHash<u64, Page, u64> = DHash::new(|_offset, _page| 0);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for _ in 0..1000 {
///                 let mut uses = pages.find_or_allocate_and_lock(&7, |offset| Page { frame: offset + 1035 })?;
///                 assert_eq!(uses.shared().frame, 1042);
///                 *uses += 1;
///             }
///             Ok::<(), percolog::dhash::Reentered>(())
///         });
///     }
/// });
/// let uses = pages.gather(&7, |_page| 0, |sum, uses| *sum += *uses)?;
/// assert_eq!(uses, Some(4000));
/// assert!(pages.empty_data(&7)?);
/// assert!(pages.find_and_lock(&7)?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Contract
///
/// * **Linearizable.** Lookups, removals and gathers of a key happen one after the other, each between its call and its return.
///   [`empty_data`](Self::empty_data) removes an element from all threads' tables at one moment: nobody finds it afterwards.
/// * **Only one allocates.** Of threads that miss a key together, one calls its `make_shared`, and the others find what that made.
/// * **Local parts** are made by the function that the table was made with, the first time that a thread looks the element up (and once more
///   after it was [evicted](Self::evict_local)). They stay when a thread exits, and are used by a thread that comes later. Which threads
///   share one after the other, and whether two do that do not run at once, is not defined: a local part is for what can be
///   gathered, and for what makes the element quicker to use.
/// * **What is discarded** (evicted, or of an element that was removed, or left when the table is dropped) is handed with the key and the shared
///   part to the function given to [`folding`](Self::folding), or is dropped. Of a removed element that happens with a delay: when its
///   thread's table next has to grow, is evicted or [trimmed](Self::trim). So to keep sums exact, gather before removing,
///   or have them folded into a shared part that outlives the element, such as one behind an `Arc`.
/// * **A guard** keeps the local part to itself until it is dropped. It stays valid when the element is removed;
///   [`is_emptied`](Element::is_emptied) says so. A thread may have guards of several elements at once; a second one of the same
///   element is an [error](Reentered), and so is a gather by who has a guard. That holds for guards in thread-local values, too, until they
///   are destroyed; they keep the thread's table from threads that come later.
/// * **What a table calls** (hashing, comparing, making, folding, visiting) should be short, and must not use the same table, but for lookups
///   that hit: whatever would wait returns [`Reentered`] there. Without the `std` feature that is not noticed, and waits for ever; and then a
///   thread may have one guard at a time. Where such code panics, the call has changed nothing, but that
///   parts were discarded: a panic while one is folded or dropped keeps no other from it, and goes on when all are gone.
///
/// # Guards are locks
///
/// Whoever gathers from a table waits for all guards of it, and so does a `fork`; those who come meanwhile wait for the gather. Keep guards for a short
/// time. Within one table there is no order to keep: lookups and removals wait for no guard (but lookups by threads beyond the 512 that have
/// a table of their own). With guards of one table in
/// your hands, gather from another one only if nobody does so the other way round. A guard that is forgotten keeps gathers waiting for
/// ever.
///
/// # Cost
///
/// *Time:* a lookup that finds a local part is a handful of plain loads and stores of the thread's own lines: no atomic update, no fence where
/// the kernel has `membarrier`, and nothing moves between threads, on any number of cores. A miss takes the lock of one of 16 parts
/// of the master table, and allocates the local part; the first one also the element. A removal takes that lock, and moves one line
/// for each thread that has a part. A gather takes one heavy barrier (some 10 µs if others are running), an atomic exchange for each thread's table,
/// and moves each local part. Threads beyond the 512 that have a table of their own share 16 others, behind a lock each, which a
/// guard holds. Without the `std` feature each slot has such a table.
///
/// *Memory:* some 2 KiB, and for each thread two allocations of whole [lines](crate::cpu::LINE_SIZE) (the table doubles as it
/// grows); for each element an allocation and a place in the master table; for each local part an allocation of
/// whole lines, with a copy of the key, and eight bytes in the element's list. A thread's table is swept when it is full, and made anew for
/// twice what is left: it never holds more dead parts than it had live ones then, rounded up to the size of a hash table. [`evict_local`](Self::evict_local) gives up a thread's
/// parts, [`trim`](Self::trim) everybody's dead ones.
///
/// # `fork`
///
/// A forked child has every element, and all calls of other threads as a whole or not at all: `fork` waits until other threads' guards are
/// dropped, and whoever begins a call waits until the process is copied.
///
/// # Signals
///
/// A signal handler must not use a table that it may have interrupted.
pub struct DHash<K, S = (), L = (), B = DefaultHashBuilder> {
    core: Core<K, S, L>,
    hasher: B,
}

/// A guard of an element, locked by this thread: its local part, and the shared part.
///
/// Unlocked when it is dropped.
///
/// It stays on its thread.
#[must_use = "who drops the element unlocks it"]
pub struct Element<'a, K, S, L>(Locked<'a, K, S, L>);

/// Sizes of a [`DHash`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DHashStats {
    /// Elements in the master table.
    pub elements: usize,
    /// Local parts of these.
    pub replicas: usize,
    /// Local parts of elements that were removed, which wait to be freed. (Off by what happens between two looks.)
    pub dead: usize,
    /// Local tables.
    pub tables: usize,
}

/// An error of operations on all threads' parts: nothing was changed.
///
/// Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VisitError {
    /// The calling thread has a guard of this table, or was called by it.
    Reentered,
    /// The kernel refused the [barrier](crate::cpu::barrier) that it had offered, so that nobody can be kept out. A filter of system calls
    /// that was installed later can do that.
    Barrier,
}

impl From<NoVisit> for VisitError {
    fn from(reason: NoVisit) -> Self {
        match reason {
            NoVisit::Reentered => Self::Reentered,
            NoVisit::Refused => Self::Barrier,
        }
    }
}

impl fmt::Display for VisitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reentered => Reentered(()).fmt(f),
            Self::Barrier => f.write_str("the kernel refused the membarrier that it had offered; start the program with PERCOLOG_BARRIER=fence, or let the filter of system calls allow membarrier"),
        }
    }
}

impl ::core::error::Error for VisitError {}

impl<K, S, L> DHash<K, S, L> {
    /// Creates a table whose local parts are made by this function, from the key and the shared part.
    #[must_use]
    pub fn new(make_local: fn(&K, &S) -> L) -> Self {
        Self::with_hasher(make_local, DefaultHashBuilder::default())
    }
}

impl<K, S, L, B> DHash<K, S, L, B> {
    /// The same, with hashes of one's own.
    #[must_use]
    pub fn with_hasher(make_local: fn(&K, &S) -> L, hasher: B) -> Self {
        Self {
            core: Core::new(SHARDS, make_local),
            hasher,
        }
    }

    /// Has local parts that are discarded handed to this function, which may add them to what is shared.
    ///
    /// ```
    /// use percolog::dhash::DHash;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let hits: DHash<&str, AtomicU64, u64> = DHash::new(|_, _| 0)
    ///     .folding(|_, total, mine| { total.fetch_add(mine, Ordering::Relaxed); });
    /// *hits.find_or_allocate_and_lock(&"index", |_| AtomicU64::new(0))? += 3;
    /// hits.evict_local()?;
    /// let total = hits.gather(&"index", |total| total.load(Ordering::Relaxed), |sum, mine| *sum += *mine)?;
    /// assert_eq!(total, Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn folding(mut self, fold_local: fn(&K, &S, L)) -> Self {
        self.core.fold = fold_local;
        self
    }

    #[inline(always)]
    fn enter(&self) -> Result<Inside<'_, K, S, L>, Reentered> {
        // SAFETY: a thread keeps its lease until the destructors of its thread-local values run, and while it is inside; what is
        // returned stays on the thread.
        unsafe { self.core.enter(mine(), lease::common) }
    }

    /// Shows `f` every element, until it breaks: each that is there throughout, and of those that come or go meanwhile some.
    ///
    /// It runs without a lock, and may use the table.
    ///
    /// *Progress:* blocking. *Cost:* the lines of the master table, and memory for a list of all elements.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table.
    ///
    /// # Panics
    /// Where `f` does.
    pub fn for_each(&self, f: impl FnMut(&K, &S) -> ControlFlow<()>) -> Result<(), Reentered> {
        self.core.for_each(f)
    }

    /// Returns the number of elements, counted part by part.
    ///
    /// *Progress:* blocking. *Cost:* sixteen locks.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table.
    pub fn len(&self) -> Result<usize, Reentered> {
        self.core.len()
    }

    /// Returns whether there is no element.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool, Reentered> {
        Ok(self.len()? == 0)
    }

    /// Sizes of all tables.
    ///
    /// *Progress:* blocking: waits for all guards. *Cost:* as [`gather`](Self::gather), and sixteen locks.
    ///
    /// # Errors
    /// [`VisitError`].
    pub fn stats(&self) -> Result<DHashStats, VisitError> {
        let sums = self.core.sums(mine())?;
        Ok(DHashStats {
            elements: sums.elements,
            replicas: sums.replicas,
            dead: sums.dead,
            tables: sums.tables,
        })
    }

    /// Discards the local parts that this thread's table has, but for those that guards are out for; how many. Elements stay.
    ///
    /// (A thread without a table of its own discards those of the one that it shares.)
    ///
    /// *Progress:* blocking. *Cost:* a lock of the master table for each.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table.
    ///
    /// # Panics
    /// Where the function given to [`folding`](Self::folding) does.
    pub fn evict_local(&self) -> Result<usize, Reentered> {
        self.core.evict(&self.enter()?)
    }

    /// Frees what removed elements have left in all threads' tables, and the memory of tables that are larger than they have to be; how
    /// many local parts that were.
    ///
    /// *Progress:* blocking: waits for all guards. *Cost:* as [`gather`](Self::gather), and a look at every local part.
    ///
    /// # Errors
    /// [`VisitError`].
    ///
    /// # Panics
    /// Where the function given to [`folding`](Self::folding) does.
    pub fn trim(&self) -> Result<usize, VisitError> {
        Ok(self.core.trim(mine())?)
    }
}

impl<K: Hash + Eq, S, L, B: BuildHasher> DHash<K, S, L, B> {
    /// Removes the element of a key, from all threads' tables at one moment; whether there was one.
    ///
    /// Guards that are out stay valid. The shared part is dropped with the last of the element's local parts: see [the contract](Self#contract).
    ///
    /// *Progress:* blocking; waits for no guard. *Cost:* a lock, and a line of each thread that has a local part.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table.
    pub fn empty_data(&self, key: &K) -> Result<bool, Reentered> {
        let hash = self.hasher.hash_one(key);
        // SAFETY: as in `enter`.
        unsafe { self.core.remove_key(mine(), hash, key) }
    }

    /// Goes through all local parts of an element as they are at one moment: `begin` is shown the shared part, and makes what `each` adds the
    /// local parts to, which it may change. `None` if there is no such element.
    ///
    /// Who makes a local part meanwhile waits, and is not seen.
    ///
    /// *Progress:* blocking: waits for all guards of the table. *Cost:* a heavy barrier, an exchange for each thread's table, and the lines of each
    /// local part.
    ///
    /// # Errors
    /// [`VisitError`].
    ///
    /// # Panics
    /// Where `begin` and `each` do; what they changed stays.
    pub fn gather<A>(
        &self,
        key: &K,
        begin: impl FnOnce(&S) -> A,
        each: impl FnMut(&mut A, &mut L),
    ) -> Result<Option<A>, VisitError> {
        let hash = self.hasher.hash_one(key);
        Ok(self.core.gather(mine(), hash, key, begin, each)?)
    }

    /// Changes all local parts of an element at one moment; how many there are, or `None` if there is no such element.
    ///
    /// Local parts that are made later are made as always: put what they must know into the shared part first.
    ///
    /// *Progress* and *cost:* as [`gather`](Self::gather).
    ///
    /// # Errors
    /// [`VisitError`].
    ///
    /// # Panics
    /// Where `change` does; what it changed stays.
    pub fn scatter(
        &self,
        key: &K,
        mut change: impl FnMut(&mut L),
    ) -> Result<Option<usize>, VisitError> {
        self.gather(
            key,
            |_| 0,
            |count, local| {
                *count += 1;
                change(local);
            },
        )
    }
}

impl<K: Hash + Eq + Clone, S, L, B: BuildHasher> DHash<K, S, L, B> {
    /// This thread's part of the element of a key, locked. If there is no such element, `make_shared` makes its shared part.
    ///
    /// `make_shared` runs under a lock of the master table: what takes long is better done by who gets the guard, under a state in the shared
    /// part that others respect.
    ///
    /// *Progress:* wait-free if the thread has a part and nobody gathers; blocking otherwise. *Cost:* see [the type](Self#cost).
    ///
    /// # Errors
    /// [`Reentered`]: the thread has a guard of this element, or was called by the table.
    ///
    /// # Panics
    /// Where hashing, comparing, `make_shared` or the function that makes local parts do, with nothing changed. And where the function given to
    /// [`folding`](Self::folding) does, which is called if the place's table has to grow: then the element has been made, and is not locked.
    #[inline]
    pub fn find_or_allocate_and_lock(
        &self,
        key: &K,
        make_shared: impl FnOnce(&K) -> S,
    ) -> Result<Element<'_, K, S, L>, Reentered> {
        // Before the place is entered: it is code of the user's.
        let hash = self.hasher.hash_one(key);
        let inside = self.enter()?;
        match self.core.lookup(inside, hash, key, Some(make_shared))? {
            Some(locked) => Ok(Element(locked)),
            None => unreachable!("what is missing is made"),
        }
    }

    /// This thread's part of the element of a key, locked, which is made if the element is there; `None` if it is not.
    ///
    /// *Progress* and *cost:* as [`find_or_allocate_and_lock`](Self::find_or_allocate_and_lock); a key without an element costs a lock of the
    /// master table each time.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    #[inline]
    pub fn find_and_lock(&self, key: &K) -> Result<Option<Element<'_, K, S, L>>, Reentered> {
        let hash = self.hasher.hash_one(key);
        let inside = self.enter()?;
        let make = None::<fn(&K) -> S>;
        Ok(self.core.lookup(inside, hash, key, make)?.map(Element))
    }
}

impl<K: Hash + Eq + Clone, S, L, B: BuildHasher> ElementTable<K, S> for DHash<K, S, L, B> {
    type Element<'a>
        = Element<'a, K, S, L>
    where
        Self: 'a;

    #[inline]
    fn find_or_allocate_and_lock(
        &self,
        key: &K,
        make_shared: impl FnOnce(&K) -> S,
    ) -> Result<Element<'_, K, S, L>, Reentered> {
        self.find_or_allocate_and_lock(key, make_shared)
    }

    #[inline]
    fn find_and_lock(&self, key: &K) -> Result<Option<Element<'_, K, S, L>>, Reentered> {
        self.find_and_lock(key)
    }

    fn empty_data(&self, key: &K) -> Result<bool, Reentered> {
        self.empty_data(key)
    }

    fn len(&self) -> Result<usize, Reentered> {
        self.len()
    }
}

impl<K, S, L> Element<'_, K, S, L> {
    /// The element's key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &K {
        self.0.replica().key()
    }

    /// What all threads share of the element.
    #[inline]
    #[must_use]
    pub fn shared(&self) -> &S {
        &self.0.replica().record().shared
    }

    /// Returns whether the element has been removed since it was found. Its parts are there until the guard is dropped.
    ///
    /// While somebody is removing it, this can be `true` where another thread still finds the element, on a place that was not told yet: the removal
    /// happens at the moment at which its call finds nobody who could.
    #[inline]
    #[must_use]
    pub fn is_emptied(&self) -> bool {
        self.0.replica().is_dead()
    }

    /// Removes the element, as [`empty_data`](DHash::empty_data) does, but not another one that has come to have its key; whether it was still
    /// there.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table.
    pub fn empty(self) -> Result<bool, Reentered> {
        self.0.empty()
    }
}

impl<K, S, L> LockedElement<K, S> for Element<'_, K, S, L> {
    fn key(&self) -> &K {
        self.key()
    }

    fn shared(&self) -> &S {
        self.shared()
    }

    fn is_emptied(&self) -> bool {
        self.is_emptied()
    }

    fn empty(self) -> Result<bool, Reentered> {
        self.empty()
    }
}

impl<K, S, L> Deref for Element<'_, K, S, L> {
    type Target = L;

    #[inline(always)]
    fn deref(&self) -> &L {
        // SAFETY: no other guard of the replica is out, its place is this thread's until this one is dropped, and visitors are kept out.
        self.0.replica().local().with(|local| unsafe { &*local })
    }
}

impl<K, S, L> DerefMut for Element<'_, K, S, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut L {
        // SAFETY: as above; and this borrows the guard exclusively.
        self.0
            .replica()
            .local()
            .with_mut(|local| unsafe { &mut *local })
    }
}

impl<K: fmt::Debug, S: fmt::Debug, L: fmt::Debug> fmt::Debug for Element<'_, K, S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Element")
            .field("key", self.key())
            .field("shared", self.shared())
            .field("local", &**self)
            .field("is_emptied", &self.is_emptied())
            .finish()
    }
}

/// Shows that there is one, and not what is in it: no log line should take every lock by accident.
impl<K, S, L, B> fmt::Debug for DHash<K, S, L, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DHash").finish_non_exhaustive()
    }
}

/// The lease of this thread, if it has one, and if it is kept while a guard is out: which is found out from what `fork` needs.
#[inline(always)]
fn mine() -> Option<usize> {
    if cfg!(unix) { lease::mine() } else { None }
}
