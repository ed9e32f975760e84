//! What both structures have: the list, the slab of its entries, and how many there are.

use core::cmp::Ordering as Compared;
use core::ptr::NonNull;

use super::errors::ChangeError;
use super::iter::EntryIter;
use super::list::{self, Refused};
use super::node::{Entry, Node, Room, Spot};
use crate::counter::Counter;
use crate::reclaim::{Domain, Section};
use crate::slab::{self, Slab};
use crate::sync::Isolated;

/// So many entries a thread may have added or deleted before the others can see that without asking it.
const BATCH: u64 = 64;

/// In a section that long, entries are cleared.
const CLEARED_AT_A_TIME: usize = 64;

pub(super) struct Entries<'d, K: Send + Sync + 'static, V: Send + Sync + 'static> {
    slab: Slab<'d, Entry<K, V>>,
    /// Written by those who add or delete in front of all others.
    head: Isolated<Node>,
    /// Written while few add and delete.
    length: Isolated<Counter>,
}

/// Where the entry of a key is, or would be.
pub(super) struct Place<C> {
    /// In front of it, and never freed.
    pub(super) start: Spot,
    pub(super) order: u64,
    pub(super) compare: C,
}

/// What became of an entry that was to be added.
pub(super) struct Added<'s, K, V, R> {
    pub(super) entry: &'s Entry<K, V>,
    /// What was said of the one that it replaced.
    pub(super) replaced: Option<R>,
    /// How many nodes the walk has passed.
    pub(super) passed: usize,
}

/// Retires what was taken out: after it was shown, also if who looks at it panics.
struct Retire<'a, 'd, K: Send + Sync + 'static, V: Send + Sync + 'static>(
    &'a Slab<'d, Entry<K, V>>,
    NonNull<Entry<K, V>>,
);

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Drop for Retire<'_, '_, K, V> {
    fn drop(&mut self) {
        // SAFETY: taken out by who made this, for this alone.
        unsafe { self.0.retire(self.1) };
    }
}

// SAFETY: entries are found by many threads at once (`Sync`), and come and go on any (`Send`).
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Entries<'_, K, V> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Entries<'_, K, V> {}

impl<'d, K: Send + Sync + 'static, V: Send + Sync + 'static> Entries<'d, K, V> {
    pub(super) const fn new(domain: &'d Domain, options: slab::SlabBuilder) -> Self {
        Self {
            slab: options.build(domain),
            head: Isolated::new(Node::head()),
            length: Isolated::new(Counter::with_batch(BATCH)),
        }
    }

    #[inline(always)]
    pub(super) fn domain(&self) -> &'d Domain {
        self.slab.domain()
    }

    #[inline(always)]
    pub(super) fn enter(&self) -> Section<'d> {
        self.slab.domain().enter()
    }

    pub(super) fn slab(&self) -> &Slab<'d, Entry<K, V>> {
        &self.slab
    }

    #[inline(always)]
    pub(super) fn head(&self) -> Spot {
        Spot::from(&*self.head)
    }

    /// How many there are, if nobody changes that.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.length.sum()).unwrap_or(0)
    }

    /// About how many there are.
    pub(super) fn about(&self) -> usize {
        usize::try_from(self.length.estimate()).unwrap_or(0)
    }

    /// # Safety
    /// For this method and all that follow: the caller is in a section of the domain, and stays there for `'s`; `start` is the
    /// head, or a bucket that is linked, in front of the place.
    #[inline(always)]
    pub(super) unsafe fn find<'s>(
        &self,
        place: &Place<impl Fn(&K) -> Compared>,
    ) -> Option<&'s Entry<K, V>> {
        // SAFETY: by contract; nodes with an entry's number are entries of this type.
        unsafe {
            let position = list::find(place.start, place.order, &mut 0, |at| {
                (place.compare)(&list::entry::<K, V>(at).key)
            });
            position.found.then(|| position.entry())
        }
    }

    /// Adds an entry, or replaces one if that is wanted; what was replaced is shown to `last`.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    #[inline]
    pub(super) unsafe fn add<'s, R>(
        &self,
        place: (Spot, u64),
        entry: (K, V),
        replace: bool,
        compare: impl Fn(&K, &K) -> Compared,
        last: impl FnOnce(&V) -> R,
    ) -> Result<Added<'s, K, V, R>, Refused<K, V>> {
        let mut passed = 0;
        // SAFETY: by contract.
        let inserted =
            unsafe { list::insert(&self.slab, place, entry, replace, &mut passed, compare)? };
        let replaced = match inserted.replaced {
            Some(replaced) => {
                let replaced = Retire(&self.slab, replaced);
                // SAFETY: not retired yet.
                Some(last(unsafe { &replaced.1.as_ref().value }))
            }
            None => {
                self.length.increment();
                None
            }
        };
        Ok(Added {
            // SAFETY: it was in the list in this section, so it is there until that ends.
            entry: unsafe { inserted.entry.as_ref() },
            replaced,
            passed,
        })
    }

    /// # Safety
    /// As for [`find`](Self::find).
    pub(super) unsafe fn delete<R>(
        &self,
        place: Place<impl Fn(&K) -> Compared>,
        condition: impl FnOnce(&V) -> bool,
        last: impl FnOnce(&V) -> R,
    ) -> Option<R> {
        // SAFETY: by contract.
        let removed = unsafe { list::remove(place.start, place.order, place.compare, condition)? };
        self.length.decrement();
        let removed = Retire(&self.slab, removed);
        // SAFETY: not retired yet.
        Some(last(unsafe { &removed.1.as_ref().value }))
    }

    /// # Safety
    /// As for [`find`](Self::find).
    pub(super) unsafe fn modify<R>(
        &self,
        place: Place<impl Fn(&K) -> Compared>,
        change: impl FnOnce(&V) -> R,
    ) -> Result<R, ChangeError> {
        // SAFETY: by contract.
        let locked = unsafe { list::lock::<K, V>(place.start, place.order, place.compare) };
        let locked = locked.ok_or(ChangeError::Absent)?;
        if locked.guard.is_poisoned() {
            return Err(ChangeError::Poisoned);
        }
        Ok(change(&locked.entry().value))
    }

    /// # Safety
    /// As for [`find`](Self::find).
    pub(super) unsafe fn update(
        &self,
        place: Place<impl Fn(&K) -> Compared>,
        new: impl FnOnce(&V) -> V,
    ) -> Result<(), ChangeError>
    where
        K: Clone,
    {
        let Place {
            start,
            order,
            compare,
        } = place;
        // SAFETY: by contract.
        let locked = unsafe { list::lock::<K, V>(start, order, compare) };
        let locked = locked.ok_or(ChangeError::Absent)?;
        if locked.guard.is_poisoned() {
            return Err(ChangeError::Poisoned);
        }
        let Entry { key, value, .. } = locked.entry();
        let fresh = Entry::new(order, key.clone(), new(value));
        match Room::insert(&self.slab, fresh) {
            // SAFETY: by contract; the key is a clone.
            Ok(fresh) => unsafe {
                locked.replace(&self.slab, start, fresh);
                Ok(())
            },
            Err((refused, limit)) => {
                // The new value's destructor is the user's, and runs under no lock.
                drop(locked);
                drop(refused);
                Err(ChangeError::Exhausted { limit })
            }
        }
    }

    /// # Safety
    /// As for [`find`](Self::find).
    pub(super) unsafe fn clear_poison(&self, place: Place<impl Fn(&K) -> Compared>) -> bool {
        // SAFETY: by contract.
        let locked = unsafe { list::lock::<K, V>(place.start, place.order, place.compare) };
        locked.is_some_and(|mut locked| {
            let was = locked.guard.is_poisoned();
            locked.guard.clear_poison();
            was
        })
    }

    /// # Safety
    /// As for [`find`](Self::find).
    pub(super) unsafe fn iter<'s>(&self) -> EntryIter<'s, K, V> {
        // SAFETY: by contract.
        unsafe { EntryIter::new(self.head()) }
    }

    /// Deletes every entry that is there all the time.
    pub(super) fn clear(&self) {
        // The last sentinel that was passed: from there on, nothing has been deleted yet.
        let mut start = self.head();
        loop {
            let section = self.enter();
            let mut deleted = 0;
            while deleted < CLEARED_AT_A_TIME {
                // SAFETY: in a section; `start` is a sentinel.
                match unsafe { list::next(start) } {
                    None => return,
                    Some((at, false)) => start = at,
                    Some((at, true)) => {
                        // SAFETY: as above; the entry was found in the section.
                        unsafe {
                            if let Some(entry) = list::remove_found::<K, V>(start, start, at) {
                                self.length.decrement();
                                self.slab.retire(entry);
                            }
                        }
                        deleted += 1;
                    }
                }
            }
            drop(section);
        }
    }
}

impl<K: Send + Sync + 'static, V: Send + Sync + 'static> Drop for Entries<'_, K, V> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the list, and its entries are all from the slab.
        unsafe { list::destroy::<K, V, Slab<'_, Entry<K, V>>>(&self.head) };
    }
}
