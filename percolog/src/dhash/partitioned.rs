//! Several master tables, and no replicas.
//!
//! What it has in common with the table that has them is what callers see: [`ElementTable`], guards, and [`Reentered`]. An element without replicas is
//! one lock with one value in it, which its own guard gives back; that of the other table is a list of parts, none of which has a lock.

use super::Reentered;
use super::interface::{ElementTable, LockedElement};
use crate::cpu::OwnTable;
use crate::cpu::undivided::undivided;
use crate::hash::DefaultHashBuilder;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::held::{self, Held};
use crate::sync::{Isolated, ObjectLock, Patience, SlotLock, UnsafeCell};
use ::core::fmt;
use ::core::hash::{BuildHasher, Hash};
use ::core::marker::PhantomData;
use ::core::ops::{Deref, DerefMut};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

const ALIVE: u32 = 0;
const DEAD: u32 = 1;

/// An element. Who has the lock uses the value.
struct Slot<K, S> {
    lock: ObjectLock,
    mark: AtomicU32,
    hash: u64,
    key: K,
    value: UnsafeCell<S>,
}

// SAFETY: the lock hands the value to one thread at a time (`S: Send`); its holder may hand out shared references, but only on its own
// thread. The key is read by all (`K: Sync`), and dropped with the rest by the last one (`K: Send`).
unsafe impl<K: Send + Sync, S: Send> Sync for Slot<K, S> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, S: Send> Send for Slot<K, S> {}

impl<K, S> Slot<K, S> {
    fn is_dead(&self) -> bool {
        // Acquire pairs with the Release in `kill`: who finds the element gone comes after its removal.
        self.mark.load(Ordering::Acquire) == DEAD
    }

    fn kill(&self) {
        // Release: as above.
        self.mark.store(DEAD, Ordering::Release);
    }

    /// What is recorded of a thread that has the lock.
    fn address(&self) -> usize {
        ::core::ptr::from_ref(self).addr()
    }
}

/// The elements of one master table.
type Slots<K, S> = OwnTable<Arc<Slot<K, S>>>;

/// All of them, with a lock each, on lines of their own.
type Masters<K, S> = Box<[Isolated<SlotLock<Slots<K, S>>>]>;

/// A hash table spread over several master tables, each with the elements of some of the keys, which are shared by all threads.
///
/// For elements that are found once, or by one thread after the other, and have no use for a part in each thread: making
/// replicas of those costs more than it gains. What differs from [`DHash`](super::DHash): an element is locked for all threads, and its guard gives the
/// shared part exclusively. [`ElementTable`] is what both can do.
///
/// Which table a key belongs to is its *group*, a number that the caller's function makes of the key, modulo the number of tables. For
/// pages of a file the paper shifts the page's offset: so pages beside each other, which the same thread is likely to use, are in one table,
/// and threads in different parts of the file meet nowhere.
///
/// ```
/// use percolog::dhash::Partitioned;
///
/// // Sixteen pages of 4096 bytes beside each other belong to one of eight tables.
/// let pages = Partitioned::new(8, |offset: &u64| *offset >> 16);
/// let mut page = pages.find_or_allocate_and_lock(&0x4000, |_| vec![0u8; 4096])?;
/// page[17] = 1;
/// drop(page);
/// assert!(pages.empty_data(&0x4000)?);
/// # Ok::<(), percolog::dhash::Reentered>(())
/// ```
///
/// # Contract
///
/// Linearizable, key by key; of threads that miss a key together, one allocates; nobody finds an element after
/// [`empty_data`](Self::empty_data) has returned. A guard stays valid when its element is removed. Removals wait for no guard. A second guard of the same
/// element in one thread is an [error](Reentered) (without the `std` feature it waits for ever), and guards of several elements must be taken in
/// an order that all threads keep. When the table is dropped, a destructor that panics keeps no other from running, and the panic goes on
/// when all are gone.
///
/// # Cost
///
/// A lookup takes the lock of its table and of its element, and counts a reference: three lines that move if another thread has used them
/// last. A `fork` finds no table in the middle of a change; but elements that other threads had locked stay locked in the child, as a mutex
/// would.
pub struct Partitioned<K, S, B = DefaultHashBuilder> {
    masters: Masters<K, S>,
    group: fn(&K) -> u64,
    hasher: B,
}

/// A guard of an element, locked by this thread.
///
/// It stays on its thread.
#[must_use = "who drops the element unlocks it"]
pub struct PartitionedElement<'a, K, S> {
    slot: Arc<Slot<K, S>>,
    master: Master<'a, K, S>,
    /// What is recorded is the thread's own.
    stays: PhantomData<*const ()>,
}

impl<K, S> Partitioned<K, S> {
    /// So many master tables, at least one, and the group that a key belongs to.
    #[must_use]
    pub fn new(masters: usize, group: fn(&K) -> u64) -> Self {
        Self::with_hasher(masters, group, DefaultHashBuilder::default())
    }
}

impl<K, S, B> Partitioned<K, S, B> {
    /// The same, with hashes of one's own.
    #[must_use]
    pub fn with_hasher(masters: usize, group: fn(&K) -> u64, hasher: B) -> Self {
        Self {
            masters: (0..masters.max(1))
                .map(|_| Isolated::new(SlotLock::new(OwnTable::new())))
                .collect(),
            group,
            hasher,
        }
    }

    /// The table that has a key's element, if there is one.
    fn master(&self, key: &K) -> Master<'_, K, S> {
        let number = (self.group)(key) % self.masters.len() as u64;
        self.of(&self.masters[number as usize])
    }

    fn masters(&self) -> impl Iterator<Item = Master<'_, K, S>> {
        self.masters.iter().map(|slots| self.of(slots))
    }

    fn of<'a>(&self, slots: &'a SlotLock<Slots<K, S>>) -> Master<'a, K, S> {
        let all = self.masters.as_ptr().addr();
        Master { slots, all }
    }

    /// Returns the number of elements, counted table by table.
    ///
    /// *Progress:* blocking. *Cost:* a lock for each table.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table.
    pub fn len(&self) -> Result<usize, Reentered> {
        self.masters()
            .map(|master| master.locked(|slots| slots.len()))
            .sum()
    }

    /// Returns whether there is no element.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool, Reentered> {
        Ok(self.len()? == 0)
    }

    /// Locks one element after the other and shows it to `f`: each that is there throughout, and of those that come or go meanwhile some.
    ///
    /// *Progress:* blocking: waits for each guard. *Cost:* as a lookup of each, and memory for a list of one table's elements.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table, or with a guard of an element, which is then the first one that was not shown.
    ///
    /// # Panics
    /// Where `f` does.
    pub fn for_each(&self, mut f: impl FnMut(&K, &mut S)) -> Result<(), Reentered> {
        for master in self.masters() {
            let slots: Vec<_> = master.locked(|slots| slots.iter().cloned().collect())?;
            for slot in slots {
                let mut element = PartitionedElement::lock(slot, master)?;
                if !element.is_emptied() {
                    let slot = element.slot.clone();
                    f(&slot.key, &mut *element);
                }
            }
        }
        Ok(())
    }
}

impl<K: Hash + Eq, S, B: BuildHasher> Partitioned<K, S, B> {
    /// Removes the element of a key; whether there was one. Guards that are out stay valid.
    ///
    /// *Progress:* blocking; waits for no guard. *Cost:* a lock, and a line of the element.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table.
    pub fn empty_data(&self, key: &K) -> Result<bool, Reentered> {
        let hash = self.hasher.hash_one(key);
        self.master(key).remove(hash, |slot| slot.key == *key)
    }

    /// The element of a key, locked, if there is one.
    ///
    /// *Progress:* blocking: waits for other threads' guards of the element. *Cost:* see [the type](Self#cost).
    ///
    /// # Errors
    /// [`Reentered`]: the thread has a guard of this element, or was called by the table.
    pub fn find_and_lock(
        &self,
        key: &K,
    ) -> Result<Option<PartitionedElement<'_, K, S>>, Reentered> {
        let hash = self.hasher.hash_one(key);
        let master = self.master(key);
        loop {
            let found =
                master.locked(|slots| slots.find(hash, |slot| slot.key == *key).cloned())?;
            let Some(slot) = found else {
                return Ok(None);
            };
            let element = PartitionedElement::lock(slot, master)?;
            // It was there when it was found; but who had it locked may have removed it.
            if !element.is_emptied() {
                return Ok(Some(element));
            }
        }
    }
}

impl<K: Hash + Eq + Clone, S, B: BuildHasher> Partitioned<K, S, B> {
    /// The element of a key, locked; made by `make_shared` if there is none, under the lock of its table.
    ///
    /// *Progress:* blocking: waits for other threads' guards of the element. *Cost:* see [the type](Self#cost); a miss allocates.
    ///
    /// # Errors
    /// [`Reentered`]: the thread has a guard of this element, or was called by the table.
    ///
    /// # Panics
    /// Where hashing, comparing or `make_shared` do, with nothing changed.
    pub fn find_or_allocate_and_lock(
        &self,
        key: &K,
        make_shared: impl FnOnce(&K) -> S,
    ) -> Result<PartitionedElement<'_, K, S>, Reentered> {
        let hash = self.hasher.hash_one(key);
        let master = self.master(key);
        let mut make_shared = Some(make_shared);
        loop {
            let slot = master.locked(|slots| {
                let entry = slots.entry(hash, |slot| slot.key == *key, |slot| slot.hash);
                let made = entry.or_insert_with(|| {
                    // Once made, the element is found, or gone and then made by a second call of this method only.
                    let make = make_shared.take();
                    Arc::new(Slot {
                        lock: ObjectLock::new(),
                        mark: AtomicU32::new(ALIVE),
                        hash,
                        key: key.clone(),
                        value: UnsafeCell::new(match make {
                            Some(make) => make(key),
                            None => unreachable!("what was made is returned"),
                        }),
                    })
                });
                made.get().clone()
            })?;
            let is_made = make_shared.is_none();
            let element = PartitionedElement::lock(slot, master)?;
            // What this call has made it returns, also if it was removed at once.
            if is_made || !element.is_emptied() {
                return Ok(element);
            }
        }
    }
}

/// One of the tables.
struct Master<'a, K, S> {
    slots: &'a SlotLock<Slots<K, S>>,
    /// What is recorded of a thread that has any of them: it may not wait for another one, since the one who has that may wait for this one.
    all: usize,
}

impl<K, S> Clone for Master<'_, K, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, S> Copy for Master<'_, K, S> {}

impl<K, S> Master<'_, K, S> {
    /// Runs `f` on the table, unless this thread is in the middle of doing so with any.
    fn locked<R>(self, f: impl FnOnce(&mut Slots<K, S>) -> R) -> Result<R, Reentered> {
        if held::contains(self.all) {
            return Err(Reentered(()));
        }
        undivided(|| {
            let mut slots = self.slots.lock();
            let _held = Held::new(self.all);
            Ok(f(slots.get()))
        })
    }

    fn remove(self, hash: u64, is_it: impl Fn(&Slot<K, S>) -> bool) -> Result<bool, Reentered> {
        let removed = self.locked(|slots| {
            let found = slots.find_entry(hash, |slot| is_it(slot)).ok()?;
            let (slot, _) = found.remove();
            slot.kill();
            Some(slot)
        })?;
        // The user's destructors run without the lock.
        Ok(removed.is_some())
    }
}

impl<'a, K, S> PartitionedElement<'a, K, S> {
    fn lock(slot: Arc<Slot<K, S>>, master: Master<'a, K, S>) -> Result<Self, Reentered> {
        if !slot.lock.try_exclusive() {
            if held::contains(slot.address()) {
                return Err(Reentered(()));
            }
            slot.lock.exclusive(Patience::Unlimited);
        }
        held::push(slot.address());
        Ok(Self {
            slot,
            master,
            stays: PhantomData,
        })
    }
}

impl<K, S> PartitionedElement<'_, K, S> {
    /// The element's key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.slot.key
    }

    /// Returns whether the element has been removed since it was found.
    #[must_use]
    pub fn is_emptied(&self) -> bool {
        self.slot.is_dead()
    }

    /// Removes the element, but not another one that has come to have its key; whether it was still there.
    ///
    /// # Errors
    /// [`Reentered`]: called by the table.
    pub fn empty(self) -> Result<bool, Reentered> {
        self.master.remove(self.slot.hash, |slot| {
            ::core::ptr::eq(slot, &raw const *self.slot)
        })
    }
}

impl<K, S> Drop for PartitionedElement<'_, K, S> {
    fn drop(&mut self) {
        held::pop(self.slot.address());
        self.slot.lock.release_exclusive();
    }
}

impl<K, S> Deref for PartitionedElement<'_, K, S> {
    type Target = S;

    fn deref(&self) -> &S {
        // SAFETY: this has the lock until it is dropped.
        self.slot.value.with(|value| unsafe { &*value })
    }
}

impl<K, S> DerefMut for PartitionedElement<'_, K, S> {
    fn deref_mut(&mut self) -> &mut S {
        // SAFETY: as above; and this is borrowed exclusively.
        self.slot.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<K: Hash + Eq + Clone, S, B: BuildHasher> ElementTable<K, S> for Partitioned<K, S, B> {
    type Element<'a>
        = PartitionedElement<'a, K, S>
    where
        Self: 'a;

    fn find_or_allocate_and_lock(
        &self,
        key: &K,
        make_shared: impl FnOnce(&K) -> S,
    ) -> Result<PartitionedElement<'_, K, S>, Reentered> {
        self.find_or_allocate_and_lock(key, make_shared)
    }

    fn find_and_lock(&self, key: &K) -> Result<Option<PartitionedElement<'_, K, S>>, Reentered> {
        self.find_and_lock(key)
    }

    fn empty_data(&self, key: &K) -> Result<bool, Reentered> {
        self.empty_data(key)
    }

    fn len(&self) -> Result<usize, Reentered> {
        self.len()
    }
}

impl<K, S> LockedElement<K, S> for PartitionedElement<'_, K, S> {
    fn key(&self) -> &K {
        self.key()
    }

    fn shared(&self) -> &S {
        self
    }

    fn is_emptied(&self) -> bool {
        self.is_emptied()
    }

    fn empty(self) -> Result<bool, Reentered> {
        self.empty()
    }
}

impl<K: fmt::Debug, S: fmt::Debug> fmt::Debug for PartitionedElement<'_, K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionedElement")
            .field("key", self.key())
            .field("shared", &**self)
            .field("is_emptied", &self.is_emptied())
            .finish()
    }
}

/// Shows how many tables there are, and not what is in them.
impl<K, S, B> fmt::Debug for Partitioned<K, S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partitioned")
            .field("masters", &self.masters.len())
            .finish_non_exhaustive()
    }
}
