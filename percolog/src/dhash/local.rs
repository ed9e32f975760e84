//! A place's own table.

use super::element::{Handle, Owned};
use crate::cpu::OwnLines;
use crate::sync::UnsafeCell;
use alloc::vec::Vec;
use core::cell::Cell;
use hashbrown::HashTable;

/// In the state: the table is being read, and must not be changed.
const READING: u32 = 1 << 31;
/// In the state: the place is a common one.
const COMMON: u32 = 1 << 30;

/// The table of one place, for whoever uses the place. It can be used while it is used already, by code of users that it
/// runs: comparisons. Then it is read, and not changed. Changes run no such code.
pub(super) struct Local<K, S, L> {
    /// How often the place's user is inside, for each guard and each call under way, and the bits above.
    state: Cell<u32>,
    table: UnsafeCell<HashTable<Handle<K, S, L>, OwnLines>>,
}

/// What remains to be done by who leaves a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing: there are other guards.
    Again,
    /// It is left.
    Leased,
    /// It is left, and is a common one.
    Common,
}

/// The table is being read, further up in the same thread.
#[derive(Debug)]
pub(super) struct InUse;

impl<K, S, L> Local<K, S, L> {
    pub(super) fn new() -> Self {
        Self {
            state: Cell::new(0),
            table: UnsafeCell::new(HashTable::new_in(OwnLines)),
        }
    }

    /// The place is entered by who was not inside.
    #[inline(always)]
    pub(super) fn enter(&self, is_common: bool) {
        self.state.set(if is_common { COMMON + 1 } else { 1 });
    }

    /// The place is entered by who is inside.
    pub(super) fn enter_again(&self) {
        self.state.set(self.state.get() + 1);
    }

    /// One use of the place is over.
    #[inline(always)]
    pub(super) fn leave(&self) -> Left {
        let left = self.state.get() - 1;
        self.state.set(left);
        match left {
            0 => Left::Leased,
            COMMON => Left::Common,
            _ => Left::Again,
        }
    }

    /// Fails if a change cannot be made now.
    pub(super) fn check(&self) -> Result<(), InUse> {
        if self.state.get() & READING == 0 {
            Ok(())
        } else {
            Err(InUse)
        }
    }

    /// Changes the table.
    ///
    /// # Safety
    /// The caller uses the place, and `change` runs no code of users.
    unsafe fn change<R>(
        &self,
        change: impl FnOnce(&mut HashTable<Handle<K, S, L>, OwnLines>) -> R,
    ) -> Result<R, InUse> {
        self.check()?;
        // SAFETY: nobody reads the table, here or further up; what runs until this returns does not come here.
        Ok(self.table.with_mut(|table| change(unsafe { &mut *table })))
    }

    /// The live replica of a key.
    ///
    /// # Safety
    /// The caller uses the place.
    #[inline(always)]
    pub(super) unsafe fn find(&self, hash: u64, key: &K) -> Option<Handle<K, S, L>>
    where
        K: Eq,
    {
        // Read further up or not, as before, also if a comparison panics. How many guards are out may have changed: a comparison can get one.
        struct Read<'a>(&'a Cell<u32>, u32);
        impl Drop for Read<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.set(self.0.get() & !READING | self.1);
            }
        }
        let before = self.state.get();
        self.state.set(before | READING);
        let _read = Read(&self.state, before & READING);
        self.table.with(|table| {
            // SAFETY: nobody else uses the place, and this thread changes nothing until the state is as before.
            let table = unsafe { &*table };
            table
                .find(hash, |replica| {
                    // SAFETY: by contract, and the replica is in the table.
                    let replica = unsafe { replica.get() };
                    replica.key() == key && !replica.is_dead()
                })
                .copied()
        })
    }

    /// Puts a replica in, and returns dead ones that had to go for it.
    ///
    /// A table that is full is swept, and made anew for twice what is left: so there are never more dead replicas than live ones (and ones
    /// under a guard) were at the last sweep, rounded up as hash tables do, and a sweep is paid by as many insertions.
    ///
    /// # Safety
    /// The caller uses the place.
    pub(super) unsafe fn insert(
        &self,
        hash: u64,
        replica: Handle<K, S, L>,
    ) -> Result<Vec<Owned<K, S, L>>, InUse> {
        // SAFETY: by contract, and those asked for are in the table.
        let hash_of = |replica: &Handle<K, S, L>| unsafe { replica.get() }.record().hash;
        let insert = |table: &mut HashTable<_, _>| {
            let mut dead = Vec::new();
            if table.len() == table.capacity() {
                // SAFETY: by contract.
                dead = unsafe { sweep(table) };
                let mut fresh = HashTable::with_capacity_in(2 * table.len() + 1, OwnLines);
                for replica in table.drain() {
                    fresh.insert_unique(hash_of(&replica), replica, hash_of);
                }
                *table = fresh;
            }
            table.insert_unique(hash, replica, hash_of);
            dead
        };
        // SAFETY: by contract; what is dead is dropped by the caller.
        unsafe { self.change(insert) }
    }

    /// Takes out all replicas that no guard is out for; those that are not dead are registered.
    ///
    /// # Safety
    /// The caller uses the place.
    pub(super) unsafe fn take_all(&self) -> Result<Vec<Handle<K, S, L>>, InUse> {
        let take = |table: &mut HashTable<Handle<K, S, L>, OwnLines>| {
            let mut taken = Vec::new();
            table.retain(|replica| {
                // SAFETY: by contract, and the replica is in the table.
                let stays = unsafe { replica.get() }.held().get();
                if !stays {
                    taken.push(*replica);
                }
                stays
            });
            if table.is_empty() {
                *table = HashTable::new_in(OwnLines);
            }
            taken
        };
        // SAFETY: by contract.
        unsafe { self.change(take) }
    }

    fn table(&mut self) -> &mut HashTable<Handle<K, S, L>, OwnLines> {
        // SAFETY: this has the table to itself.
        self.table.with_mut(|table| unsafe { &mut *table })
    }

    /// Takes out what is dead, for a visitor, and gives back memory.
    pub(super) fn trim(&mut self) -> Vec<Owned<K, S, L>> {
        let table = self.table();
        // SAFETY: who has the place to itself uses it.
        let dead = unsafe { sweep(table) };
        // SAFETY: as above, and those asked for are in the table.
        table.shrink_to_fit(|replica| unsafe { replica.get() }.record().hash);
        dead
    }

    /// How many replicas there are, dead ones included.
    pub(super) fn len(&mut self) -> usize {
        self.table().len()
    }

    /// Everything, when neither the place nor the master table is used any more.
    ///
    /// # Safety
    /// No use of the table, or of a guard, comes after this.
    pub(super) unsafe fn end(&mut self) -> Vec<Owned<K, S, L>> {
        let table = core::mem::replace(self.table(), HashTable::new_in(OwnLines));
        // SAFETY: by contract, and they have just been taken out.
        table
            .into_iter()
            .map(|replica| unsafe { replica.take() })
            .collect()
    }
}

/// Takes out what is dead, and has no guard.
///
/// # Safety
/// The caller uses the place.
unsafe fn sweep<K, S, L>(table: &mut HashTable<Handle<K, S, L>, OwnLines>) -> Vec<Owned<K, S, L>> {
    let mut dead = Vec::new();
    table.retain(|replica| {
        // SAFETY: by contract, and the replica is in the table.
        let here = unsafe { replica.get() };
        let stays = here.held().get() || !here.is_dead();
        if !stays {
            // SAFETY: it is dead, without a guard, and leaves the table with this.
            dead.push(unsafe { replica.take() });
        }
        stays
    });
    dead
}
