//! The table that knows all elements, and who has replicas of them.
//!
//! *Invariant:* an element is found here from when it is made until it is removed. Each live replica is in its element's list, and
//! nothing else is; who removes an element marks the replicas in its list in the same hold of the lock.

use super::Reentered;
use super::element::{Handle, Record};
use crate::cpu::OwnTable;
use crate::sync::held::{self, Held};
use crate::sync::{Isolated, SlotGuard, SlotLock};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// An element, and its live replicas.
pub(super) struct Entry<K, S, L> {
    pub(super) record: Arc<Record<K, S>>,
    pub(super) replicas: Vec<Handle<K, S, L>>,
}

/// A part of the table, which grows by itself.
pub(super) type Shard<K, S, L> = OwnTable<Entry<K, S, L>>;

/// Parts that have a lock each, on lines of their own.
type Shards<K, S, L> = Box<[Isolated<SlotLock<Shard<K, S, L>>>]>;

/// The table.
pub(super) struct Master<K, S, L> {
    shards: Shards<K, S, L>,
}

/// A part of the table, locked, and the record that this thread has it.
pub(super) struct Locked<'a, K, S, L> {
    shard: SlotGuard<'a, Shard<K, S, L>>,
    #[allow(dead_code, reason = "dropped")]
    record: Held,
}

impl<K, S, L> Locked<'_, K, S, L> {
    pub(super) fn get(&mut self) -> &mut Shard<K, S, L> {
        self.shard.get()
    }
}

impl<K, S, L> Master<K, S, L> {
    /// A table with so many parts, which is a power of two.
    pub(super) fn new(shards: usize) -> Self {
        debug_assert!(shards.is_power_of_two());
        Self {
            shards: (0..shards)
                .map(|_| Isolated::new(SlotLock::new(OwnTable::new())))
                .collect(),
        }
    }

    /// What is recorded of a thread that has any part: it may not wait for another one, since the one who has that may wait for this
    /// one.
    fn address(&self) -> usize {
        self.shards.as_ptr().addr()
    }

    /// Fails if this thread has a part, as far as that is [recorded](held).
    pub(super) fn check(&self) -> Result<(), Reentered> {
        if held::contains(self.address()) {
            Err(Reentered(()))
        } else {
            Ok(())
        }
    }

    /// The part for a hash, locked. The caller is inside a place, or in the middle of a [step](crate::cpu::undivided): so a `fork`
    /// waits for it.
    pub(super) fn lock(&self, hash: u64) -> Result<Locked<'_, K, S, L>, Reentered> {
        // The tables use the lowest bits and the seven highest ones.
        let shard = (hash >> 45) as usize & (self.shards.len() - 1);
        self.lock_number(shard)
    }

    fn lock_number(&self, shard: usize) -> Result<Locked<'_, K, S, L>, Reentered> {
        self.check()?;
        let shard = self.shards[shard].lock();
        Ok(Locked {
            shard,
            record: Held::new(self.address()),
        })
    }

    /// Runs `f` on one part after the other, locked, as [`lock`](Self::lock) says.
    pub(super) fn each(&self, mut f: impl FnMut(&mut Shard<K, S, L>)) -> Result<(), Reentered> {
        for shard in 0..self.shards.len() {
            f(self.lock_number(shard)?.get());
        }
        Ok(())
    }
}
