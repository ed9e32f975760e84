//! What a slot keeps: ids for what is inserted next, and ids that were removed and still wait.

use super::stock::is_worn;
use super::trie::{Entry, Trie};
use crate::reclaim::Period;
use crate::sync::atomic::Ordering;

/// No index.
pub(super) const NIL: u32 = u32::MAX;

/// How many removed ids share a stamp.
#[cfg(not(percolog_loom))]
pub(super) const BATCH: usize = 64;
#[cfg(percolog_loom)]
pub(super) const BATCH: usize = 1;

/// How many batches can wait. More stay without a stamp until there is room.
#[cfg(not(percolog_loom))]
const BATCHES: usize = 32;
#[cfg(percolog_loom)]
const BATCHES: usize = 2;

/// So many free ids a slot keeps at least, when it gives some back. It keeps as many as one look at all threads makes free, so that
/// who inserts and removes in turns keeps its own; and gives some back when it has twice as many.
const KEPT: usize = if cfg!(percolog_loom) { 1 } else { 96 };

/// As many as it gives back at once.
const AT_ONCE: usize = if cfg!(percolog_loom) { 1 } else { 256 };

/// Ids that are linked through their entries. Whoever has the list has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
    count: usize,
}

impl List {
    pub(super) const fn new() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    #[inline]
    pub(super) fn push<T>(&mut self, index: u32, entry: &Entry<T>) {
        // Relaxed, here and below: who has the list has the links, and lists are handed over under locks.
        entry.next.store(self.head, Ordering::Relaxed);
        if self.head == NIL {
            self.tail = index;
        }
        self.head = index;
        self.count += 1;
    }

    #[inline]
    pub(super) fn pop<'t, T>(&mut self, trie: &'t Trie<T>) -> Option<(u32, &'t Entry<T>)> {
        if self.head == NIL {
            return None;
        }
        let index = self.head;
        let entry = trie.entry(index);
        self.head = entry.next.load(Ordering::Relaxed);
        self.count -= 1;
        Some((index, entry))
    }

    /// Puts another list in front.
    pub(super) fn append<T>(&mut self, trie: &Trie<T>, other: Self) {
        if other.is_empty() {
            return;
        }
        trie.entry(other.tail)
            .next
            .store(self.head, Ordering::Relaxed);
        if self.head == NIL {
            self.tail = other.tail;
        }
        self.head = other.head;
        self.count += other.count;
    }

    /// Up to so many of its ids.
    pub(super) fn take<T>(&mut self, trie: &Trie<T>, most: usize) -> Self {
        if self.count <= most {
            return core::mem::replace(self, Self::new());
        }
        let mut some = Self::new();
        while some.count < most {
            let Some((index, entry)) = self.pop(trie) else {
                break;
            };
            some.push(index, entry);
        }
        some
    }
}

#[derive(Debug, Clone, Copy)]
struct Batch {
    list: List,
    period: Period,
}

/// Ids that were removed on a slot at some moment, and had no stamp then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sealable {
    count: usize,
    version: u64,
}

/// See the module. Used under its slot's lock.
#[derive(Debug)]
pub(super) struct Shelf {
    /// May be used again, and have no value.
    pub(super) free: List,
    /// Removed since the last stamp.
    pub(super) open: List,
    /// Quiescent, and the value is still there.
    pub(super) ripe: List,
    /// How many are dropping values of this slot.
    pub(super) reapers: u32,
    /// Removed before their stamps, in a ring.
    waiting: [Batch; BATCHES],
    first: usize,
    batches: usize,
    /// How many ids are in `waiting`.
    waits: usize,
    /// How many batches there have ever been.
    sealed: u64,
    /// It is worth a look at all threads when so many wait.
    look_at: usize,
    /// How many free ids the slot keeps for itself.
    kept: usize,
    // Statistics, of all time.
    pub(super) inserted: u64,
    pub(super) removed: u64,
    pub(super) worn: u64,
    pub(super) panics: u64,
}

impl Default for Shelf {
    fn default() -> Self {
        let batch = Batch {
            list: List::new(),
            period: Period::START,
        };
        Self {
            free: List::new(),
            open: List::new(),
            ripe: List::new(),
            reapers: 0,
            waiting: [batch; BATCHES],
            first: 0,
            batches: 0,
            waits: 0,
            sealed: 0,
            look_at: 0,
            kept: KEPT,
            inserted: 0,
            removed: 0,
            worn: 0,
            panics: 0,
        }
    }
}

impl Shelf {
    /// An id for a value, and the generation that it gets.
    #[inline]
    pub(super) fn take_free<'t, T>(&mut self, trie: &'t Trie<T>) -> Option<(u32, &'t Entry<T>)> {
        loop {
            let (index, entry) = self.free.pop(trie)?;
            if is_worn(entry) {
                self.worn += 1;
                continue;
            }
            return Some((index, entry));
        }
    }

    /// What can get a stamp now, if it is so much, and if there is room for a batch. It stays where it is until [`seal`](Self::seal).
    pub(super) fn sealable(&self, at_least: usize) -> Option<Sealable> {
        let count = self.open.len();
        (count >= at_least.max(1) && self.has_room()).then_some(Sealable {
            count,
            version: self.sealed,
        })
    }

    /// Whether there is room for a batch.
    pub(super) fn has_room(&self) -> bool {
        self.batches < BATCHES
    }

    /// What was removed before this stamp was taken waits for it, unless somebody else was faster.
    pub(super) fn seal<T>(&mut self, trie: &Trie<T>, what: Sealable, period: Period) {
        if self.sealed != what.version {
            return;
        }
        self.sealed += 1;
        let later = self.open.len() - what.count;
        let later = if later == 0 {
            List::new()
        } else {
            self.open.take(trie, later)
        };
        let list = core::mem::replace(&mut self.open, later);
        self.waiting[(self.first + self.batches) % BATCHES] = Batch { list, period };
        self.batches += 1;
        self.waits += list.len();
    }

    /// What the oldest batch waits for.
    pub(super) fn oldest(&self) -> Option<Period> {
        (self.batches != 0).then(|| self.waiting[self.first].period)
    }

    /// The oldest batch need not wait any more, if it is still this one; how many ids it had. Those without a value to be dropped
    /// are free.
    pub(super) fn ripen<T>(&mut self, trie: &Trie<T>, period: Period) -> usize {
        // Another one that waits for the same is over, too.
        if self.oldest() != Some(period) {
            return 0;
        }
        let list = self.waiting[self.first].list;
        self.first = (self.first + 1) % BATCHES;
        self.batches -= 1;
        self.waits -= list.len();
        if core::mem::needs_drop::<T>() {
            self.ripe.append(trie, list);
        } else {
            self.free.append(trie, list);
        }
        list.len()
    }

    /// Whether there are values to be dropped that nobody is at.
    #[inline]
    pub(super) fn should_reap(&self) -> bool {
        !self.ripe.is_empty() && self.reapers == 0
    }

    /// Whether so many wait that it is worth a look at all threads.
    pub(super) fn is_worth_a_look(&self) -> bool {
        self.waits + self.open.len() >= self.look_at
    }

    /// Whether the slot has so many free ids that others should have some.
    #[inline]
    pub(super) fn has_many(&self) -> bool {
        self.free.len() > 2 * self.kept
    }

    /// Some of those that others should have.
    pub(super) fn take_surplus<T>(&mut self, trie: &Trie<T>) -> List {
        let surplus = self.free.len().saturating_sub(self.kept);
        self.free.take(trie, surplus.min(AT_ONCE))
    }

    /// After a look: the next one is worth it when so many more wait.
    pub(super) fn has_looked(&mut self, target: usize) {
        self.look_at = self.waits + self.open.len() + target;
        self.kept = target.max(KEPT);
    }

    /// How many ids have been removed and cannot be used again yet.
    pub(super) fn unusable(&self) -> usize {
        self.open.len() + self.waits + self.ripe.len()
    }

    /// All ids that were removed and whose value is still there, for who has the shelf to himself.
    pub(super) fn take_all<T>(&mut self, trie: &Trie<T>) -> List {
        let mut all = core::mem::replace(&mut self.open, List::new());
        all.append(trie, core::mem::replace(&mut self.ripe, List::new()));
        while self.batches != 0 {
            all.append(trie, self.waiting[self.first].list);
            self.first = (self.first + 1) % BATCHES;
            self.batches -= 1;
        }
        self.waits = 0;
        all
    }
}
