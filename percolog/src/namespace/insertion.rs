//! The way of a value in: an id of the slot's own, of the stock, of memory that is taken for it, or of another slot.

use super::InsertReason;
use super::removal::PACE;
use super::shelf::{List, Shelf};
use super::stock::{CHUNK, Stock};
use super::table::{Center, Table, Time};
use super::trie::Entry;
use crate::cpu::CoreId;
use crate::sync::atomic::Ordering;
use crate::sync::{SlotGuard, SlotLock};

/// How many slots without a shelf are passed over in search for one that may need help.
const STEPS: usize = 8;

impl<T> Table<T> {
    /// Puts a value in; its index and its generation.
    #[inline]
    pub(super) fn insert(
        &self,
        time: &impl Time,
        value: T,
    ) -> Result<(u32, u32), (T, InsertReason)> {
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
    pub(super) fn write(entry: &Entry<T>, value: T) {
        // SAFETY: the id belongs to the caller and has no value, and nobody has a reference to what was there.
        entry.value.with_mut(|place| unsafe {
            (*place).write(value);
        });
    }

    /// From now on a value can be found that was written before.
    #[inline(always)]
    pub(super) fn publish(entry: &Entry<T>, generation: u32) {
        // Release publishes the value to the Acquire in `get`, `next` and `unlink`.
        entry.word.store(generation, Ordering::Release);
    }

    /// Takes an id that has no value.
    #[inline]
    fn take(&self, time: &impl Time) -> Result<(u32, &Entry<T>), InsertReason> {
        let place = self.shelf(time.slot());
        let (taken, ripe) = {
            let mut shelf = place.lock();
            let shelf = shelf.get();
            let taken = shelf.take_free(&self.trie);
            shelf.inserted += u64::from(taken.is_some());
            (taken, shelf.should_reap())
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
    ) -> Result<(u32, &Entry<T>), InsertReason> {
        self.ripen(time, place, false);
        self.reap(place, PACE, false);
        if let Some(taken) = self.take_from(place, List::new()) {
            return Ok(taken);
        }
        let mut has_helped = false;
        let memory_is_short = loop {
            let mut center = self.center.lock();
            let stock = &mut center.get().stock;
            let list = stock.take_some(&self.trie);
            if list.is_empty() {
                let Some(end) = stock.beyond(&self.trie, 0) else {
                    break false;
                };
                if !has_helped {
                    has_helped = true;
                    self.help_another(time, center);
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

    pub(super) fn grow(&self, stock: &mut Stock, end: u32) {
        stock.grow(&self.trie, end);
        // Release pairs with the Acquire in `beginning`: leaves were looked for, and found, above. Only under the stock's lock.
        self.end.store(
            stock.limit().min(end.saturating_mul(CHUNK)),
            Ordering::Release,
        );
    }

    /// Before more memory is taken: what some other slot has, and its threads, which may be gone, do not come for.
    fn help_another(&self, time: &impl Time, mut center: SlotGuard<'_, Center>) {
        let other = self.next_to_help(&mut center.get().helped);
        drop(center);
        if let Some(other) = other {
            self.help(time, other);
        }
    }

    /// The slot behind the one that was helped last.
    fn next_to_help(&self, helped: &mut usize) -> Option<&SlotLock<Shelf>> {
        let slots = self.shelves.end().max(1);
        for _ in 0..STEPS {
            *helped = (*helped + 1) % slots;
            if let Some(place) = self.shelves.touched(CoreId::new(*helped as u32)) {
                return Some(place);
            }
        }
        None
    }

    #[cold]
    pub(super) fn reason(&self, memory_is_short: bool) -> InsertReason {
        if memory_is_short {
            return InsertReason::NoMemory;
        }
        let totals = self.totals();
        InsertReason::NoIds {
            limit: self.center.lock().get().stock.limit(),
            in_use: totals.inserted.saturating_sub(totals.removed),
            waiting: totals.unusable as u64,
        }
    }
}
