//! The way of a value into the namespace and out of it.
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
use core::mem::MaybeUninit;

use super::Reason;
use super::shelf::{BATCH, List, Shelf};
use super::stock::{CHUNK, Stock};
use super::trie::{Entry, Root, Trie};
use crate::cpu::{CoreId, PerCore};
use crate::reclaim::{Period, contain};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Isolated, SlotGuard, SlotLock, const_fn};

/// How many values a call drops: more than one, so that what has gathered goes away.
const PACE: usize = 4;

/// How many values a search for ids drops at a time: nobody else finds their ids meanwhile.
const IN_HAND: usize = 16;

/// How many slots without a shelf are passed over in search for one that may need help.
const STEPS: usize = 8;

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
    trie: Trie<T>,
    shelves: PerCore<SlotLock<Shelf>>,
    /// No index has been given out from here on.
    end: AtomicU32,
    center: Isolated<SlotLock<Center>>,
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
    stock: Stock,
    /// The slot that was helped last.
    helped: usize,
}

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
                    stock: Stock::new(limit),
                    helped: 0,
                })),
            }
        }
    }

    #[inline(always)]
    fn shelf(&self, slot: CoreId) -> &SlotLock<Shelf> {
        self.shelves
            .get_or_make(slot, || SlotLock::new(Shelf::default()))
    }

    // ── Lookups ──

    /// Where the value of an id lies, if it is in use. Nothing is stored anywhere.
    ///
    /// The value stays there while a section is open that was open before this was called.
    #[inline(always)]
    pub(super) fn get(&self, index: u32, generation: u32) -> Option<*const T> {
        Self::value_of(self.trie.find(index)?, generation)
    }

    #[inline(always)]
    fn value_of(entry: &Entry<T>, generation: u32) -> Option<*const T> {
        // Acquire pairs with the Release in `publish`: the value is read after it was written.
        if entry.word.load(Ordering::Acquire) != generation {
            return None;
        }
        Some(entry.value.with(|value| value.cast::<T>()))
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
    ) -> Option<*const T> {
        if index >= beginning.end {
            return self.get_anew(index, generation);
        }
        // SAFETY: all entries below the end had been made.
        let entry = unsafe { self.trie.known(beginning.root, index) };
        Self::value_of(entry, generation)
    }

    /// The trie may have grown.
    #[cold]
    #[inline(never)]
    fn get_anew(&self, index: u32, generation: u32) -> Option<*const T> {
        self.get(index, generation)
    }

    /// The next id in use from an index on, with its generation and its value, which stays as it does for [`get`](Self::get).
    pub(super) fn next(&self, from: u32) -> Option<(u32, u32, *const T)> {
        // Acquire pairs with the Release in `grow`.
        let end = self.end.load(Ordering::Acquire);
        (from..end).find_map(|index| {
            let entry = self.trie.find(index)?;
            // Acquire: as in `get`.
            let word = entry.word.load(Ordering::Acquire);
            (word % 2 == 1).then(|| (index, word, entry.value.with(|value| value.cast::<T>())))
        })
    }

    // ── In ──

    /// Puts a value in; its index and its generation.
    #[inline]
    pub(super) fn insert(&self, time: &impl Time, value: T) -> Result<(u32, u32), (T, Reason)> {
        let (index, entry) = match self.take(time) {
            Ok(taken) => taken,
            Err(reason) => return Err((value, reason)),
        };
        Self::write(entry, value);
        // Relaxed: who has taken the id is the only one that changes the word.
        let generation = entry.word.load(Ordering::Relaxed) + 1;
        Self::publish(entry, generation);
        Ok((index, generation))
    }

    #[inline(always)]
    fn write(entry: &Entry<T>, value: T) {
        // SAFETY: the id belongs to the caller and has no value, and nobody has a reference to what was there.
        entry.value.with_mut(|place| unsafe {
            (*place).write(value);
        });
    }

    /// From now on a value can be found that was written before.
    #[inline(always)]
    fn publish(entry: &Entry<T>, generation: u32) {
        // Release publishes the value to the Acquire in `get`, `next` and `unlink`.
        entry.word.store(generation, Ordering::Release);
    }

    /// Takes an id that has no value.
    #[inline]
    fn take(&self, time: &impl Time) -> Result<(u32, &Entry<T>), Reason> {
        let place = self.shelf(time.slot());
        let (taken, ripe) = {
            let mut shelf = place.lock();
            let shelf = shelf.get();
            let taken = shelf.take_free(&self.trie);
            shelf.inserted += u64::from(taken.is_some());
            (taken, !shelf.ripe.is_empty() && !shelf.reaping)
        };
        if ripe {
            self.reap(place, PACE, false);
        }
        match taken {
            Some(taken) => Ok(taken),
            None => self.take_slowly(time, place),
        }
    }

    #[cold]
    fn take_slowly(
        &self,
        time: &impl Time,
        place: &SlotLock<Shelf>,
    ) -> Result<(u32, &Entry<T>), Reason> {
        self.ripen(time, place, false);
        self.reap(place, PACE, false);
        if let Some(taken) = self.take_from(place, List::new()) {
            return Ok(taken);
        }
        let mut has_helped = false;
        let memory_is_short = loop {
            let mut center = self.center.lock();
            let Center { stock, helped } = center.get();
            let list = stock.take_some(&self.trie);
            if list.is_empty() {
                let Some(end) = stock.beyond(&self.trie, 0) else {
                    break false;
                };
                // Before more memory is taken: what other slots have, and do not come for.
                if !has_helped {
                    has_helped = true;
                    let other = self.after(helped);
                    drop(center);
                    if let Some(other) = other {
                        self.help(time, other);
                    }
                    continue;
                }
                match stock.missing(&self.trie, end) {
                    Some(missing) => {
                        drop(center);
                        if self.trie.make(missing * CHUNK).is_err() {
                            break true;
                        }
                    }
                    None => self.grow(stock, end),
                }
                continue;
            }
            // With the stock's lock, so that nobody misses what is on its way.
            if let Some(taken) = self.take_from(place, list) {
                return Ok(taken);
            }
        };
        let mut center = self.sweep(time);
        let list = center.get().stock.take_some(&self.trie);
        if let Some(taken) = self.take_from(place, list) {
            return Ok(taken);
        }
        drop(center);
        Err(self.reason(memory_is_short))
    }

    /// Adds a list to what a slot has, and takes an id of it.
    fn take_from(&self, place: &SlotLock<Shelf>, list: List) -> Option<(u32, &Entry<T>)> {
        let mut shelf = place.lock();
        let shelf = shelf.get();
        shelf.free.append(&self.trie, list);
        let taken = shelf.take_free(&self.trie);
        shelf.inserted += u64::from(taken.is_some());
        taken
    }

    fn grow(&self, stock: &mut Stock, end: u32) {
        stock.grow(&self.trie, end);
        // Release pairs with the Acquire in `beginning`: leaves were looked for, and found, above. Only under the stock's lock.
        self.end.store(
            stock.limit().min(end.saturating_mul(CHUNK)),
            Ordering::Release,
        );
    }

    /// The slot behind the one that was helped last.
    fn after(&self, helped: &mut usize) -> Option<&SlotLock<Shelf>> {
        let slots = self.shelves.end().max(1);
        for _ in 0..STEPS {
            *helped = (*helped + 1) % slots;
            if let Some(place) = self.shelves.touched(CoreId::new(*helped as u32)) {
                return Some(place);
            }
        }
        None
    }

    /// Does for a slot what it does for itself when it is used: threads may have gone.
    fn help(&self, time: &impl Time, place: &SlotLock<Shelf>) {
        self.seal(time, place, 1);
        self.ripen(time, place, false);
        self.reap(place, IN_HAND, false);
        self.give_back(place);
    }

    #[cold]
    fn reason(&self, memory_is_short: bool) -> Reason {
        if memory_is_short {
            return Reason::NoMemory;
        }
        let totals = self.totals();
        Reason::NoIds {
            limit: self.center.lock().get().stock.limit(),
            in_use: totals.inserted.saturating_sub(totals.removed),
            waiting: totals.unusable as u64,
        }
    }

    // ── Extents ──

    /// Puts in what `make` makes, under so many contiguous indices; the first one, and the generation of all.
    pub(super) fn insert_extent(
        &self,
        time: &impl Time,
        count: u32,
        mut make: impl FnMut(u32) -> T,
    ) -> Result<(u32, u32), Reason> {
        let base = self.take_range(time, count)?;
        let mut unpublished = Unpublished {
            table: self,
            base,
            count,
            made: 0,
        };
        let mut generation = 0;
        while unpublished.made < count {
            let entry = self.trie.entry(base + unpublished.made);
            // Relaxed: as in `insert`.
            generation = generation.max(entry.word.load(Ordering::Relaxed) + 1);
            Self::write(entry, make(unpublished.made));
            unpublished.made += 1;
        }
        mem::forget(unpublished);
        let place = self.shelf(time.slot());
        place.lock().get().inserted += u64::from(count);
        for index in base..base + count {
            Self::publish(self.trie.entry(index), generation);
        }
        Ok((base, generation))
    }

    fn take_range(&self, time: &impl Time, count: u32) -> Result<u32, Reason> {
        let Some(length) = count.checked_next_power_of_two() else {
            return Err(self.reason(false));
        };
        let class = length.ilog2();
        // What it does not need of its block goes back at once.
        let take = |stock: &mut Stock| {
            let base = stock.take_block(&self.trie, class)?;
            stock.put_range(&self.trie, base + count, base + length);
            Some(base)
        };
        let mut center = self.center.lock();
        let mut has_swept = false;
        loop {
            let stock = &mut center.get().stock;
            if let Some(base) = take(stock) {
                return Ok(base);
            }
            match stock.beyond(&self.trie, class) {
                Some(end) => {
                    let Some(missing) = stock.missing(&self.trie, end) else {
                        self.grow(stock, end);
                        continue;
                    };
                    // No memory is asked for with the lock.
                    drop(center);
                    if self.make_all(missing, end).is_err() {
                        center = self.sweep(time);
                        return take(&mut center.get().stock).ok_or(Reason::NoMemory);
                    }
                    center = self.center.lock();
                }
                None if has_swept => break,
                None => {
                    drop(center);
                    center = self.sweep(time);
                    has_swept = true;
                }
            }
        }
        drop(center);
        Err(self.reason(false))
    }

    fn make_all(&self, from: u32, end: u32) -> Result<(), super::trie::NoMemory> {
        (from..end).try_for_each(|number| {
            if self.trie.chunk(number).is_some() {
                Ok(())
            } else {
                self.trie.make(number * CHUNK)
            }
        })
    }

    // ── Out ──

    /// Makes a value unfindable, if it is of this generation; of several that try, for one. Whoever did it has the value until it
    /// [retires](Self::retire) it.
    #[inline]
    pub(super) fn unlink(&self, index: u32, generation: u32) -> Option<&Entry<T>> {
        let entry = self.trie.find(index)?;
        // Acquire pairs with the Release in `publish`: the value is dropped after it was written. What is done when the
        // value is quiescent is ordered behind this by the slot's lock. A failure reads nothing that is used.
        entry
            .word
            .compare_exchange(
                generation,
                generation.wrapping_add(1),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .ok()
            .map(|_| entry)
    }

    /// Has a value dropped, and its id used again, when no section can have it any more.
    #[inline]
    pub(super) fn retire(&self, time: &impl Time, index: u32, entry: &Entry<T>) {
        let place = self.shelf(time.slot());
        let (full, ripe, many) = {
            let mut shelf = place.lock();
            let shelf = shelf.get();
            shelf.open.push(index, entry);
            shelf.removed += 1;
            (
                shelf.open.len().is_multiple_of(BATCH),
                !shelf.ripe.is_empty() && !shelf.reaping,
                shelf.has_many(),
            )
        };
        if full {
            self.look(time, place);
        }
        if ripe {
            self.reap(place, PACE, false);
        }
        if many {
            self.give_back(place);
        }
    }

    /// Closes the batch, and looks what is quiescent.
    #[cold]
    fn look(&self, time: &impl Time, place: &SlotLock<Shelf>) {
        self.seal(time, place, BATCH);
        self.ripen(time, place, false);
        if place.lock().get().is_worth_a_look() {
            self.ripen(time, place, true);
            let target = time.worth_a_look();
            place.lock().get().has_looked(target);
        }
    }

    /// Gives a stamp to what has none, if there is so much of it.
    fn seal(&self, time: &impl Time, place: &SlotLock<Shelf>, at_least: usize) {
        let what = place.lock().get().sealable(at_least);
        if let Some(what) = what {
            // After all that was unlinked: that was before it came here, under the slot's lock.
            let period = time.begin();
            place.lock().get().seal(&self.trie, what, period);
        }
    }

    /// Lets go of what waits no longer.
    fn ripen(&self, time: &impl Time, place: &SlotLock<Shelf>, look: bool) {
        loop {
            let oldest = place.lock().get().oldest();
            match oldest {
                Some(period) if time.is_over(period, look) => {
                    place.lock().get().ripen(&self.trie, period);
                }
                _ => return,
            }
        }
    }

    /// Drops up to so many values that no section can have; says how many. Destructors of users run here, which may use the
    /// table; those inside of others drop nothing, unless they must.
    fn reap(&self, place: &SlotLock<Shelf>, most: usize, by_force: bool) -> usize {
        let mut list = {
            let mut shelf = place.lock();
            let shelf = shelf.get();
            if shelf.ripe.is_empty() || (shelf.reaping && !by_force) {
                return 0;
            }
            shelf.reaping = true;
            shelf.ripe.take(&self.trie, most)
        };
        let reaped = list.len();
        let mut free = List::new();
        let mut dropping = None;
        let panics = contain(|| {
            // The one whose destructor panicked: its value is gone.
            if let Some((index, entry)) = dropping.take() {
                free.push(index, entry);
            }
            while let Some((index, entry)) = list.pop(&self.trie) {
                dropping = Some((index, entry));
                Self::drop_value(entry);
                dropping = None;
                free.push(index, entry);
            }
        });
        let mut shelf = place.lock();
        let shelf = shelf.get();
        shelf.free.append(&self.trie, free);
        shelf.panics += panics;
        shelf.reaping = false;
        reaped
    }

    fn drop_value(entry: &Entry<T>) {
        // SAFETY: the id was in use and is not any more, nobody can have its value, and whoever calls this has the list that
        // it was in: nobody else drops it.
        entry
            .value
            .with_mut(|value| unsafe { MaybeUninit::assume_init_drop(&mut *value) });
    }

    /// Gives the stock some of the ids of a slot that has many.
    #[cold]
    fn give_back(&self, place: &SlotLock<Shelf>) {
        let mut center = self.center.lock();
        let list = {
            let mut shelf = place.lock();
            let shelf = shelf.get();
            if !shelf.has_many() {
                return;
            }
            shelf.take_surplus(&self.trie)
        };
        self.put(&mut center, place, list);
    }

    fn put(&self, center: &mut SlotGuard<'_, Center>, place: &SlotLock<Shelf>, list: List) {
        let worn = center.get().stock.put_list(&self.trie, list);
        if worn != 0 {
            place.lock().get().worn += worn as u64;
        }
    }

    /// Puts all ids into the stock that are free or can be, on whatever slots, and keeps its lock.
    fn sweep(&self, time: &impl Time) -> SlotGuard<'_, Center> {
        self.collect(time);
        let mut center = self.center.lock();
        for (_, place) in self.shelves.iter() {
            let list = mem::replace(&mut place.lock().get().free, List::new());
            self.put(&mut center, place, list);
        }
        center
    }

    /// Drops all values that no section can have any more, on whatever slot they were removed; says how many ids became free.
    pub(super) fn collect(&self, time: &impl Time) -> usize {
        let mut collected = 0;
        for (_, place) in self.shelves.iter() {
            let before = place.lock().get().unusable();
            // Twice: there may have been no room for all that had no stamp.
            for _ in 0..2 {
                self.seal(time, place, 1);
                self.ripen(time, place, true);
            }
            while self.reap(place, IN_HAND, true) != 0 {}
            collected += before.saturating_sub(place.lock().get().unusable());
        }
        collected
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
        totals.given_out = stock.limit().min(stock.frontier().saturating_mul(CHUNK));
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

    /// The trie without the rest.
    #[cfg(all(test, percolog_loom))]
    pub(super) fn trie(&self) -> &Trie<T> {
        &self.trie
    }
}

/// An extent that is being made, and that nobody can find yet.
struct Unpublished<'t, T> {
    table: &'t Table<T>,
    base: u32,
    count: u32,
    made: u32,
}

impl<T> Drop for Unpublished<'_, T> {
    /// Making a value has panicked: drops those that were made, and gives the ids back, which nobody has seen.
    fn drop(&mut self) {
        let trie = &self.table.trie;
        let mut made = 0..self.made;
        contain(|| {
            for offset in made.by_ref() {
                Table::drop_value(trie.entry(self.base + offset));
            }
        });
        let mut center = self.table.center.lock();
        let stock = &mut center.get().stock;
        stock.put_range(trie, self.base, self.base + self.count);
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
