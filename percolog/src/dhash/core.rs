//! Lookups, removals and visits, for a thread that says which lease it has.
//!
//! # Why a removal happens at one moment
//!
//! Who removes an element has the lock of its part of the master table, marks all registered replicas, takes the element out, and
//! releases the lock. A lookup finds the element in its own place if the mark is not there yet, and then it came before the removal. If it
//! is, or if there is no replica, the lookup goes to the master table, waits for the lock, and comes after the removal. So between the
//! first mark and the last one, some find the element and nobody finds it gone; and who has found it gone, or heard of that, has acquired
//! what the lock's release published: all marks. A replica is registered under the same lock, so none is made behind the removal's back.
//!
//! # What a visit sees
//!
//! A visit keeps all users out of their places, guards included, before it takes the lock: each local part is seen between two guards,
//! and what is registered does not change until the visit is over.

use super::Reentered;
use super::element::{Handle, Owned, Record, Replica};
use super::local::{InUse, Local};
use super::master::{Entry, Master};
use super::places::{Inside, Locals};
use crate::cpu::shards::NoVisit;
use crate::cpu::undivided::undivided;
use crate::sync::despite_panics;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use hashbrown::hash_table;

/// How a place's part of an element is made.
pub(super) type MakeLocal<K, S, L> = fn(&K, &S) -> L;
/// What becomes of one that is discarded.
pub(super) type FoldLocal<K, S, L> = fn(&K, &S, L);

/// The tables.
pub(super) struct Core<K, S, L> {
    locals: Locals<K, S, L>,
    master: Arc<Master<K, S, L>>,
    make: MakeLocal<K, S, L>,
    pub(super) fold: FoldLocal<K, S, L>,
}

/// A replica that is locked: its thread is inside its place, and no other guard of it is out.
pub(super) struct Locked<'a, K, S, L> {
    replica: Handle<K, S, L>,
    inside: Inside<'a, K, S, L>,
}

/// Sums over the tables.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sums {
    pub(super) elements: usize,
    pub(super) replicas: usize,
    pub(super) dead: usize,
    pub(super) tables: usize,
}

impl From<InUse> for Reentered {
    fn from(_: InUse) -> Self {
        Self(())
    }
}

impl<'a, K, S, L> Locked<'a, K, S, L> {
    /// Locks a replica, unless this thread has done so.
    ///
    /// # Safety
    /// The replica is in the table of the place that is given.
    #[inline(always)]
    unsafe fn new(
        replica: Handle<K, S, L>,
        inside: Inside<'a, K, S, L>,
    ) -> Result<Self, Reentered> {
        // SAFETY: by contract.
        let held = unsafe { replica.get() }.held();
        if held.replace(true) {
            return Err(Reentered(()));
        }
        Ok(Self { replica, inside })
    }

    #[inline(always)]
    pub(super) fn replica(&self) -> &Replica<K, S, L> {
        // SAFETY: what is locked is not taken out of its place.
        unsafe { self.replica.get() }
    }

    /// Removes the element; whether it was there.
    pub(super) fn empty(self) -> Result<bool, Reentered> {
        let record = self.replica().record();
        remove(self.inside.master(), record.hash, |it| {
            Arc::ptr_eq(it, record)
        })
    }
}

impl<K, S, L> Drop for Locked<'_, K, S, L> {
    #[inline(always)]
    fn drop(&mut self) {
        self.replica().held().set(false);
    }
}

/// Removes the element that `is_it` tells by its record; whether there was one. The caller is inside a place.
fn remove<K, S, L>(
    master: &Master<K, S, L>,
    hash: u64,
    is_it: impl Fn(&Arc<Record<K, S>>) -> bool,
) -> Result<bool, Reentered> {
    let mut shard = master.lock(hash)?;
    let Ok(found) = shard.get().find_entry(hash, |entry| is_it(&entry.record)) else {
        return Ok(false);
    };
    for replica in &found.get().replicas {
        // SAFETY: it is registered, and the lock is held; the list goes with the entry.
        unsafe { replica.kill() };
    }
    let (entry, _) = found.remove();
    // Destructors of users run without the lock.
    drop(shard);
    drop(entry);
    Ok(true)
}

impl<K, S, L> Core<K, S, L> {
    pub(super) fn new(shards: usize, make: MakeLocal<K, S, L>) -> Self {
        Self {
            locals: Locals::new(),
            master: Arc::new(Master::new(shards)),
            make,
            fold: |_, _, local| drop(local),
        }
    }

    /// Enters the calling thread's place.
    ///
    /// # Safety
    /// The caller holds the lease, if it says so, and drops what is returned itself.
    #[inline(always)]
    pub(super) unsafe fn enter(
        &self,
        lease: Option<usize>,
        common: impl FnOnce() -> usize,
    ) -> Result<Inside<'_, K, S, L>, Reentered> {
        match lease {
            // SAFETY: by contract.
            Some(lease) => unsafe { Inside::leased(&self.locals, lease, &self.master) },
            None => Inside::common(&self.locals, common(), &self.master),
        }
    }

    /// Discards all replicas of the place that no guard is out for; how many.
    pub(super) fn evict(&self, inside: &Inside<'_, K, S, L>) -> Result<usize, Reentered> {
        self.master.check()?;
        // SAFETY: the place is the caller's.
        let taken = unsafe { inside.local().take_all()? };
        let count = taken.len();
        let mut discarded = Vec::with_capacity(count);
        for handle in taken {
            // SAFETY: as above; it stays in reach of who removes its element until it is off the list.
            let replica = unsafe { handle.get() };
            let record = replica.record();
            let mut shard = self.master.lock(record.hash)?;
            // Of what is dead, the list is gone.
            if let Some(entry) = shard
                .get()
                .find_mut(record.hash, |entry| Arc::ptr_eq(&entry.record, record))
            {
                entry.replicas.retain(|it| *it != handle);
            }
            drop(shard);
            // SAFETY: it is out of the table, off the list or dead, and without a guard.
            discarded.push(unsafe { handle.take() });
        }
        self.discard(discarded);
        Ok(count)
    }

    /// Hands local parts to who wants to keep something of them.
    fn discard(&self, replicas: Vec<Owned<K, S, L>>) {
        despite_panics(replicas, |replica| {
            let (key, local, record) = replica.into_inner().into_parts();
            (self.fold)(&key, &record.shared, local);
        });
    }

    /// Frees what is left of removed elements in all places; how much that was.
    pub(super) fn trim(&self, lease: Option<usize>) -> Result<usize, NoVisit> {
        self.master.check()?;
        let mut dead = Vec::new();
        self.locals
            .visit_all(lease, |local| dead.append(&mut local.trim()), || ())?;
        let count = dead.len();
        self.discard(dead);
        Ok(count)
    }

    /// What there is at one moment.
    pub(super) fn sums(&self, lease: Option<usize>) -> Result<Sums, NoVisit> {
        self.master.check()?;
        let (mut tables, mut all) = (0, 0);
        self.locals.visit_all(
            lease,
            |local| {
                tables += 1;
                all += local.len();
            },
            || (),
        )?;
        let mut sums = Sums {
            tables,
            ..Sums::default()
        };
        undivided(|| {
            self.master.each(|shard| {
                sums.elements += shard.len();
                sums.replicas += shard
                    .iter()
                    .map(|entry| entry.replicas.len())
                    .sum::<usize>();
            })
        })?;
        sums.dead = all.saturating_sub(sums.replicas);
        Ok(sums)
    }

    /// How many elements there are, part by part.
    pub(super) fn len(&self) -> Result<usize, Reentered> {
        let mut len = 0;
        undivided(|| self.master.each(|shard| len += shard.len()))?;
        Ok(len)
    }

    /// Shows `f` all elements, without a lock.
    pub(super) fn for_each(
        &self,
        mut f: impl FnMut(&K, &S) -> ControlFlow<()>,
    ) -> Result<(), Reentered> {
        let mut records = Vec::new();
        undivided(|| {
            self.master.each(|shard| {
                records.extend(shard.iter().map(|entry| entry.record.clone()));
            })
        })?;
        for record in records {
            if f(&record.key, &record.shared).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl<K: Eq + Clone, S, L> Core<K, S, L> {
    /// Locks the replica of the caller's place, which is made if there is none, and the element with it if `make` is given.
    #[inline(always)]
    pub(super) fn lookup<'a>(
        &'a self,
        inside: Inside<'a, K, S, L>,
        hash: u64,
        key: &K,
        make: Option<impl FnOnce(&K) -> S>,
    ) -> Result<Option<Locked<'a, K, S, L>>, Reentered> {
        // SAFETY: the place is the caller's.
        match unsafe { inside.local().find(hash, key) } {
            // SAFETY: just found in that place.
            Some(replica) => unsafe { Locked::new(replica, inside) }.map(Some),
            None => self.miss(inside, hash, key, make),
        }
    }

    #[cold]
    #[inline(never)]
    fn miss<'a>(
        &'a self,
        inside: Inside<'a, K, S, L>,
        hash: u64,
        key: &K,
        make: Option<impl FnOnce(&K) -> S>,
    ) -> Result<Option<Locked<'a, K, S, L>>, Reentered> {
        inside.local().check()?;
        let mut shard = self.master.lock(hash)?;
        let entry = shard.get().entry(
            hash,
            |entry| entry.record.key == *key,
            |entry| entry.record.hash,
        );
        // All that is code of users comes first: if it panics, nothing was changed.
        let record = match (&entry, make) {
            (hash_table::Entry::Occupied(found), _) => found.get().record.clone(),
            (hash_table::Entry::Vacant(_), None) => return Ok(None),
            (hash_table::Entry::Vacant(_), Some(make)) => Arc::new(Record {
                hash,
                key: key.clone(),
                shared: make(key),
            }),
        };
        let local = (self.make)(&record.key, &record.shared);
        let replica = Replica::new(key.clone(), local, record.clone());
        let entry = entry
            .or_insert_with(|| Entry {
                record,
                replicas: Vec::new(),
            })
            .into_mut();
        entry.replicas.reserve(1);
        let replica = Handle::of(replica);
        // SAFETY: the place is the caller's.
        let dead = unsafe { inside.local().insert(hash, replica) };
        let dead = match dead {
            Ok(dead) => dead,
            // Nobody reads it further up: `check` has said so, and the lock has kept others from coming here since.
            Err(InUse) => unreachable!("the local table was free"),
        };
        entry.replicas.push(replica);
        drop(shard);
        // Locked before any code of users runs, which may take from the place what no guard is out for.
        // SAFETY: just put there.
        let locked = unsafe { Locked::new(replica, inside) };
        self.discard(dead);
        locked.map(Some)
    }
}

impl<K: Eq, S, L> Core<K, S, L> {
    /// Removes the element of a key; whether there was one. Waits for no guard.
    ///
    /// # Safety
    /// As for [`enter`](Self::enter).
    pub(super) unsafe fn remove_key(
        &self,
        lease: Option<usize>,
        hash: u64,
        key: &K,
    ) -> Result<bool, Reentered> {
        let is_it = |record: &Arc<Record<K, S>>| record.key == *key;
        match lease {
            Some(lease) => {
                // So that a `fork` waits for this, which costs less than a step.
                // SAFETY: by contract.
                let _inside = unsafe { Inside::leased(&self.locals, lease, &self.master) }?;
                remove(&self.master, hash, is_it)
            }
            // In a common place another thread may have a guard.
            None => undivided(|| remove(&self.master, hash, is_it)),
        }
    }

    /// Shows `each` all local parts of an element as they are at one moment, with what `begin` makes of the shared one; `None` if there
    /// is no such element.
    pub(super) fn gather<A>(
        &self,
        lease: Option<usize>,
        hash: u64,
        key: &K,
        begin: impl FnOnce(&S) -> A,
        mut each: impl FnMut(&mut A, &mut L),
    ) -> Result<Option<A>, NoVisit> {
        self.master.check()?;
        self.locals.visit_all(
            lease,
            |_| (),
            || {
                let mut shard = self.master.lock(hash)?;
                let Some(entry) = shard.get().find(hash, |entry| entry.record.key == *key) else {
                    return Ok(None);
                };
                let mut all = begin(&entry.record.shared);
                for replica in &entry.replicas {
                    // SAFETY: it is registered, and its place's user is kept out, as are all guards.
                    let local = unsafe { replica.get() }.local();
                    // SAFETY: as above: the only reference, for as long as the call.
                    local.with_mut(|local| each(&mut all, unsafe { &mut *local }));
                }
                Ok(Some(all))
            },
        )?
    }
}

impl<K, S, L> Drop for Core<K, S, L> {
    fn drop(&mut self) {
        let mut left = Vec::new();
        for local in self.locals.values_mut() {
            // SAFETY: who drops the tables has them to itself; guards borrow them.
            left.append(&mut unsafe { Local::end(local) });
        }
        self.discard(left);
    }
}
