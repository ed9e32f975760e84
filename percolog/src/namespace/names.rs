//! What users see.

use core::fmt;
use core::ops::Deref;

use super::id::{Extent, Id, InsertError, InsertReason, StaleId};
use super::iter::NamespaceIter;
use super::table::{Beginning, Table, Time};
use super::trie::Entry;
use crate::cpu::{self, CoreId};
use crate::reclaim::{Domain, InSection, Period};

/// The most ids there can be: the last chunk of indices is left out, so that there is an index that is none.
const MOST_IDS: u32 = u32::MAX - 63;

impl Time for Domain {
    #[inline(always)]
    fn slot(&self) -> CoreId {
        cpu::current()
    }

    fn begin(&self) -> Period {
        self.begin_period()
    }

    fn is_over(&self, period: Period, look: bool) -> bool {
        Domain::is_over(self, period, look)
    }

    fn worth_a_look(&self) -> usize {
        Domain::worth_a_look(self)
    }
}

/// A builder of a [`Namespace`].
///
/// ```
/// use percolog::namespace::{NamespaceBuilder, Namespace, InsertReason};
/// use percolog::reclaim::Domain;
///
/// static DOMAIN: Domain = Domain::new();
/// static FRAMES: Namespace<'static, [u8; 16]> = NamespaceBuilder::new().max_ids(2).build(&DOMAIN);
///
/// FRAMES.insert([1; 16]).expect("there are two");
/// FRAMES.insert([2; 16]).expect("there are two");
/// let refused = FRAMES.insert([3; 16]).expect_err("there is no third");
/// assert_eq!(refused.value, [3; 16]);
/// assert!(matches!(refused.reason, InsertReason::NoIds { limit: 2, in_use: 2, .. }));
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct NamespaceBuilder {
    max_ids: u32,
}

impl NamespaceBuilder {
    /// As many ids as there can be.
    pub const fn new() -> Self {
        Self { max_ids: MOST_IDS }
    }

    /// Sets the number of ids: every index is below this. At most 2³² − 64, which is also the default.
    ///
    /// Counted are those in use and those that wait for sections, so a limit should leave room for the latter. It takes no memory
    /// by itself.
    pub const fn max_ids(mut self, most: u32) -> Self {
        self.max_ids = if most < MOST_IDS { most } else { MOST_IDS };
        self
    }

    /// A namespace for values that are looked up in sections of this domain. Allocates nothing before it is used.
    #[must_use]
    pub const fn build<T>(self, domain: &Domain) -> Namespace<'_, T> {
        Namespace {
            domain,
            table: Table::new(self.max_ids),
        }
    }
}

impl Default for NamespaceBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// A table of values by generational id, looked up without a store to a shared line.
///
/// See the [module](super) for an example, the contract and the costs.
pub struct Namespace<'d, T> {
    domain: &'d Domain,
    table: Table<T>,
}

impl<'d, T> Namespace<'d, T> {
    /// Creates a namespace without a limit of its own. Allocates nothing before it is used.
    #[must_use]
    pub const fn new(domain: &'d Domain) -> Self {
        NamespaceBuilder::new().build(domain)
    }

    /// The domain whose sections values are looked up in.
    #[must_use]
    pub fn domain(&self) -> &'d Domain {
        self.domain
    }

    /// Returns the number of values: exactly, if nobody inserts or removes meanwhile; otherwise each of those calls is counted or not.
    ///
    /// *Progress:* blocking, for some instructions at a time. *Cost:* a line of each slot.
    #[must_use]
    pub fn len(&self) -> usize {
        let totals = self.table.totals();
        totals.inserted.saturating_sub(totals.removed) as usize
    }

    /// Returns whether there is no value, as [`len`](Self::len) counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes have been asked of the allocator and not given back. What values own is not among them.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.table.memory()
    }

    /// Returns statistics: what there is, and what waits; all numbers at about the same time.
    #[must_use]
    pub fn stats(&self) -> NamespaceStats {
        let totals = self.table.totals();
        NamespaceStats {
            inserted: totals.inserted,
            removed: totals.removed,
            waiting: totals.unusable,
            free: totals.free,
            worn_out: totals.worn,
            given_out: totals.given_out,
            panics: totals.panics,
            memory: self.table.memory(),
        }
    }

    fn require(&self, section: &impl InSection) {
        assert!(
            section.is_of(self.domain),
            "the section is one of another domain than the namespace"
        );
    }
}

impl<T: Send + Sync> Namespace<'_, T> {
    /// The value that an id names, for as long as the section lasts, also if it is removed meanwhile.
    ///
    /// *Progress:* wait-free. *Cost:* some loads, of the section's domain, the trie, and the value's generation; no store.
    ///
    /// # Errors
    /// If the id names nothing (any more).
    ///
    /// # Panics
    /// If the section is one of another domain.
    #[inline]
    pub fn get<'s>(&'s self, section: &'s impl InSection, id: Id<T>) -> Result<&'s T, StaleId> {
        self.within(section).get(id)
    }

    /// Lookups in a section: who makes many at once has the section checked once.
    ///
    /// # Panics
    /// If the section is one of another domain.
    #[inline]
    pub fn within<'s>(&'s self, section: &'s impl InSection) -> Lookup<'s, T> {
        self.require(section);
        Lookup {
            table: &self.table,
            beginning: self.table.beginning(),
        }
    }

    /// Puts a value in.
    ///
    /// *Progress and cost:* see the [module](super#cost-and-progress). May run destructors of removed values.
    ///
    /// # Errors
    /// If there is no id, or no memory: the value, and the reason. Before that, all values that no section can have any more are
    /// dropped, on all slots, and their ids found. What another thread is dropping at this moment is not waited for.
    #[inline]
    pub fn insert(&self, value: T) -> Result<Id<T>, InsertError<T>> {
        match self.table.insert(self.domain, value) {
            Ok((index, generation)) => Ok(Id::new(index, generation)),
            Err((value, reason)) => Err(InsertError { value, reason }),
        }
    }

    /// Takes a value out: from now on its id names nothing. The value is dropped when every section has ended that is open
    /// now, in some later call of `insert`, `remove` or [`collect`](Self::collect), on any thread.
    ///
    /// What is returned is the value, for a last look; it is given up when that is dropped.
    ///
    /// *Progress and cost:* see the [module](super#cost-and-progress). May run destructors of other values.
    ///
    /// # Errors
    /// If the id names nothing (any more): of several calls for one id, one removes it.
    #[inline]
    pub fn remove(&self, id: Id<T>) -> Result<RemovedValue<'_, T>, StaleId> {
        match self.table.unlink(id.index(), id.generation()) {
            Some(entry) => Ok(RemovedValue {
                namespace: self,
                index: id.index(),
                entry,
            }),
            None => Err(StaleId),
        }
    }

    /// Puts in as many values as are asked for, with consecutive indices; `make` makes each from its offset.
    ///
    /// The first index is a multiple of the next power of two. If there is no room `make` is not called, and if it panics the values
    /// that it has made are dropped, and nothing was inserted.
    ///
    /// *Fragmentation:* extents are cut out of free blocks of the next power of two, aligned to their length, and what they do not need of it
    /// is free at once. A block that has one id in use is not whole. So an extent may not be had although enough ids are free;
    /// and with a limit that is no power of two none is longer than the largest aligned block below that limit. Single ids are taken from the
    /// smallest pieces first.
    ///
    /// *Progress:* blocking: lists of free blocks are behind a lock, and if there is no block, all slots are searched. *Cost:* in the
    /// order of the members, and of the free blocks' lengths.
    ///
    /// # Errors
    /// If there is no such block, or no memory.
    ///
    /// # Panics
    /// If `count` is zero, and where `make` does.
    pub fn insert_extent(
        &self,
        count: u32,
        make: impl FnMut(u32) -> T,
    ) -> Result<Extent<T>, InsertReason> {
        assert!(count != 0, "an extent has members");
        let (base, generation) = self.table.insert_extent(self.domain, count, make)?;
        Ok(Extent::new(Id::new(base, generation), count))
    }

    /// Takes out all members of an extent that are still there, or of a [part](Extent::part) of one; says how many these were. Each is
    /// removed as by [`remove`](Self::remove).
    ///
    /// # Errors
    /// If none was there any more.
    pub fn remove_extent(&self, extent: Extent<T>) -> Result<u32, StaleId> {
        let mut removed = 0;
        for id in extent.ids() {
            removed += u32::from(self.remove(id).is_ok());
        }
        if removed == 0 {
            Err(StaleId)
        } else {
            Ok(removed)
        }
    }

    /// All values, in the order of their indices, each with its id.
    ///
    /// Each value that was inserted before this was called, and is not removed before the iteration ends, is there once. None that was
    /// removed before this was called is there. Of those that come and go meanwhile, some are.
    ///
    /// *Cost:* in the order of the ids that have ever been given out.
    ///
    /// # Panics
    /// If the section is one of another domain.
    pub fn iter<'s>(&'s self, section: &'s impl InSection) -> NamespaceIter<'s, T> {
        self.require(section);
        NamespaceIter::new(&self.table)
    }

    /// Drops all values that were removed, on any thread, and that no section can have any more; says how many.
    ///
    /// For moments at which there is time: what a slot's threads have removed is otherwise dropped when something is inserted or removed
    /// on that slot, or when ids run out. If the calling thread is in a section itself, little will be dropped; and with
    /// [`DomainClock::Tsc`](crate::reclaim::DomainClock::Tsc) nothing is that was removed in the last 10 µs or so.
    pub fn collect(&self) -> usize {
        self.table.collect(self.domain)
    }
}

impl<T: fmt::Debug> fmt::Debug for Namespace<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the values: reading them takes a section.
        f.debug_struct("Namespace")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// A view of a [`Namespace`] for lookups in one section.
pub struct Lookup<'s, T> {
    table: &'s Table<T>,
    beginning: Beginning,
}

impl<'s, T: Send + Sync> Lookup<'s, T> {
    /// The value that an id names, for as long as the section lasts: [`Namespace::get`].
    ///
    /// # Errors
    /// If the id names nothing (any more).
    #[inline]
    pub fn get(self, id: Id<T>) -> Result<&'s T, StaleId> {
        // SAFETY: the beginning is the table's.
        match unsafe {
            self.table
                .get_from(self.beginning, id.index(), id.generation())
        } {
            // SAFETY: found in a section that is open for `'s`, of the domain that the table is used with.
            Some(entry) => Ok(unsafe { entry.value() }),
            None => Err(StaleId),
        }
    }
}

impl<T> Clone for Lookup<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lookup<'_, T> {}

impl<T> fmt::Debug for Lookup<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

/// A value that was just removed: it cannot be found any more, and sections may still read it.
///
/// It is given up when this is dropped. If this is forgotten, the value is never dropped, and its id not used again.
pub struct RemovedValue<'n, T: Send + Sync> {
    namespace: &'n Namespace<'n, T>,
    index: u32,
    entry: &'n Entry<T>,
}

impl<T: Send + Sync> Deref for RemovedValue<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is there until it is retired, which is done when this is dropped.
        unsafe { self.entry.value() }
    }
}

impl<T: Send + Sync> Drop for RemovedValue<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let Namespace { domain, table } = self.namespace;
        table.retire(*domain, self.index, self.entry);
    }
}

impl<T: Send + Sync + fmt::Debug> fmt::Debug for RemovedValue<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemovedValue").field(&**self).finish()
    }
}

/// Statistics of a [`Namespace`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamespaceStats {
    /// Values that were ever inserted.
    pub inserted: u64,
    /// Values that were ever removed.
    pub removed: u64,
    /// Ids that were removed and cannot be used again yet: their values may still be looked at, or have not been dropped.
    pub waiting: usize,
    /// Ids that have been used, or lie beside such, and can be used.
    pub free: usize,
    /// Indices that are used no more because they have been used 2³¹ times.
    pub worn_out: u64,
    /// Every index that has ever been used is below this.
    pub given_out: u32,
    /// Destructors that panicked in calls of the namespace.
    pub panics: u64,
    /// See [`Namespace::memory_usage`].
    pub memory: usize,
}
