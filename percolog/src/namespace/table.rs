//! What a namespace is made of, and how it is looked up. The ways of values [in](super::insertion), [many at once](super::extents),
//! and [out](super::removal) have files of their own.
//!
//! *The states of an id.* It is in the [stock](super::stock); or free on a slot's [shelf](super::shelf); or in use: its word is odd
//! and its value can be found; or it was removed: its word is even again, its value is still there for sections that have found it,
//! and it waits, with others that were removed on its slot, until all of them are quiescent. Then the value is dropped, and the id is
//! free on that slot. A slot that has many gives some to the stock, and a slot that has none takes some from there.
//!
//! *Why a section never sees another's value.* A lookup takes a value only if the word is the generation that its id asks for, and
//! each generation is one value's. The value stays in its place until every section that can have read that word has ended: the
//! period begins after the word was changed, and is over before the value is dropped.
//!
//! *Locks.* That of the stock is taken before that of a slot, and no two slots' are taken at once. No code of users runs under either:
//! neither destructors nor grace periods. Ids move between slots under the stock's lock alone, so who has it, and has looked at all
//! slots, has seen all free ids, but for those whose values somebody is dropping.

use core::mem;

use super::shelf::{List, Shelf};
use super::stock::Stock;
use super::trie::{Entry, Root, Trie};
use crate::cpu::{CoreId, PerCore};
use crate::reclaim::{Period, contain};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Isolated, LINE_SIZE, SlotLock, const_fn};

/// What tells where a thread is, and what is quiescent.
pub(super) trait Time {
    /// The slot of the caller.
    fn slot(&self) -> CoreId;
    /// What everything waits for that the caller knows to be removed.
    fn begin(&self) -> Period;
    /// Whether that is over; with a look at all threads, or as far as others have found out.
    fn is_over(&self, period: Period, look: bool) -> bool;
    /// How many ids should have gathered for a look at all threads.
    fn worth_a_look(&self) -> usize;
}

/// See the module.
pub(super) struct Table<T> {
    pub(super) trie: Trie<T>,
    pub(super) shelves: PerCore<SlotLock<Shelf>>,
    /// No index has been given out from here on.
    pub(super) end: AtomicU32,
    pub(super) center: Isolated<SlotLock<Center>>,
}

/// Where lookups of a table can begin: what it had been once, which it still is.
#[derive(Clone, Copy)]
pub(super) struct Beginning {
    /// All entries below were there,
    end: u32,
    /// and are below this.
    root: Root,
}

/// What belongs to no slot.
#[derive(Debug)]
pub(super) struct Center {
    /// Apart from the lock: who waits looks at that, and takes the line from who has it.
    pub(super) stock: Isolated<Stock>,
    /// The slot that was helped last.
    pub(super) helped: usize,
    /// How many ids have gone to extents since all slots were searched for such as can be joined.
    pub(super) since_search: u64,
}

/// See [`Center::stock`].
const _: () = assert!(align_of::<Center>() == LINE_SIZE);

/// Says that what follows is done rarely.
#[cold]
fn rarely() {}

// SAFETY: a table gives `&T` to many threads (`Sync`), and takes and drops values on any (`Send`). Cells are guarded as their
// documentation says.
unsafe impl<T: Send + Sync> Sync for Table<T> {}
// SAFETY: owning a table is owning its values.
unsafe impl<T: Send> Send for Table<T> {}

/// What slots have and have done, summed up.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Totals {
    pub(super) inserted: u64,
    pub(super) removed: u64,
    pub(super) unusable: usize,
    pub(super) free: usize,
    pub(super) worn: u64,
    pub(super) panics: u64,
    pub(super) given_out: u32,
}

impl<T> Table<T> {
    const_fn! {
        pub(super) const fn new(limit: u32) -> Self {
            Self {
                trie: Trie::new(),
                shelves: PerCore::new(),
                end: AtomicU32::new(0),
                center: Isolated::new(SlotLock::new(Center {
                    stock: Isolated::new(Stock::new(limit)),
                    helped: 0,
                    since_search: 0,
                })),
            }
        }
    }

    #[inline(always)]
    pub(super) fn shelf(&self, slot: CoreId) -> &SlotLock<Shelf> {
        self.shelves
            .get_or_make(slot, || SlotLock::new(Shelf::default()))
    }

    // ── Lookups ──

    /// The entry of an id, if it is in use. Nothing is stored anywhere.
    ///
    /// Its value stays there while a section is open that was open before this was called.
    #[inline(always)]
    pub(super) fn get(&self, index: u32, generation: u32) -> Option<&Entry<T>> {
        self.trie
            .find(index)
            .filter(|entry| Self::has(entry, generation))
    }

    #[inline(always)]
    fn has(entry: &Entry<T>, generation: u32) -> bool {
        // Acquire pairs with the Release in `publish`: the value is read after it was written. That it is not dropped before it
        // has been read is for the section, see above.
        entry.word.load(Ordering::Acquire) == generation
    }

    /// Where many lookups can begin.
    #[inline(always)]
    pub(super) fn beginning(&self) -> Beginning {
        // Acquire pairs with the Release in `grow`: the root, which is looked at later, leads to all entries below.
        let end = self.end.load(Ordering::Acquire);
        Beginning {
            end,
            root: self.trie.root(),
        }
    }

    /// As [`get`](Self::get), from where lookups can begin.
    ///
    /// # Safety
    /// That is the [`beginning`](Self::beginning) of this table, now or earlier.
    #[inline(always)]
    pub(super) unsafe fn get_from(
        &self,
        beginning: Beginning,
        index: u32,
        generation: u32,
    ) -> Option<&Entry<T>> {
        if index < beginning.end {
            // SAFETY: all entries below the end had been made.
            let entry = unsafe { self.trie.known(beginning.root, index) };
            return Self::has(entry, generation).then_some(entry);
        }
        // The trie may have grown. Not a call: what a loop of lookups keeps in registers stays there.
        rarely();
        self.get(index, generation)
    }

    /// The next id in use from an index on, with its generation and its entry, whose value stays as it does for [`get`](Self::get).
    pub(super) fn next(&self, from: u32) -> Option<(u32, u32, &Entry<T>)> {
        // Acquire pairs with the Release in `grow`.
        let end = self.end.load(Ordering::Acquire);
        (from..end).find_map(|index| {
            let entry = self.trie.find(index)?;
            // Acquire: as in `get`.
            let word = entry.word.load(Ordering::Acquire);
            (word % 2 == 1).then_some((index, word, entry))
        })
    }

    // ── Numbers ──

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (_, place) in self.shelves.iter() {
            let mut shelf = place.lock();
            let shelf = shelf.get();
            totals.inserted += shelf.inserted;
            totals.removed += shelf.removed;
            totals.unusable += shelf.unusable();
            totals.free += shelf.free.len();
            totals.worn += shelf.worn;
            totals.panics += shelf.panics;
        }
        let mut center = self.center.lock();
        let stock = &center.get().stock;
        totals.free += stock.free();
        totals.given_out = stock.seen();
        totals
    }

    pub(super) fn memory(&self) -> usize {
        self.trie.memory() + self.shelves.memory()
    }

    /// The word of an index, to make up a past.
    #[cfg(all(test, not(percolog_loom)))]
    pub(super) fn word(&self, index: u32) -> &AtomicU32 {
        &self.trie.entry(index).word
    }
}

impl<T> Drop for Table<T> {
    /// Drops all values: nobody can have one, since lookups borrow the table.
    fn drop(&mut self) {
        if !mem::needs_drop::<T>() {
            return;
        }
        let mut removed = List::new();
        for shelf in self.shelves.values_mut() {
            removed.append(&self.trie, shelf.get_mut().take_all(&self.trie));
        }
        // Acquire: as in `next`.
        let mut indices = 0..self.end.load(Ordering::Acquire);
        contain(|| {
            while let Some((_, entry)) = removed.pop(&self.trie) {
                Self::drop_value(entry);
            }
            for index in indices.by_ref() {
                match self.trie.find(index) {
                    // Acquire: as in `get`.
                    Some(entry) if entry.word.load(Ordering::Acquire) % 2 == 1 => {
                        Self::drop_value(entry);
                    }
                    _ => {}
                }
            }
        });
    }
}
