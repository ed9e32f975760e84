//! The way in for many values at once, under neighbouring ids.

use core::mem;

use super::InsertReason;
use super::shelf::Shelf;
use super::stock::{CHUNK, Stock};
use super::table::{Center, Table, Time};
use super::trie::NoMemory;
use crate::reclaim::contain;
use crate::sync::SlotLock;
use crate::sync::atomic::Ordering;

/// So many ids go to extents at least between two searches of all slots that are made before memory is taken.
const SEARCH_AT: u32 = 64 * CHUNK;

impl<T> Table<T> {
    /// Puts in what `make` makes, under so many contiguous indices; the first one, and the generation of all.
    pub(super) fn insert_extent(
        &self,
        time: &impl Time,
        count: u32,
        mut make: impl FnMut(u32) -> T,
    ) -> Result<(u32, u32), InsertReason> {
        let place = self.shelf(time.slot());
        let base = self.take_range(time, count)?;
        let mut unpublished = Unpublished {
            table: self,
            place,
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
        place.lock().get().inserted += u64::from(count);
        for index in base..base + count {
            Self::publish(self.trie.entry(index), generation);
        }
        Ok((base, generation))
    }

    fn take_range(&self, time: &impl Time, count: u32) -> Result<u32, InsertReason> {
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
            let Center {
                stock,
                since_search,
                ..
            } = center.get();
            if let Some(base) = take(stock) {
                *since_search += u64::from(count);
                return Ok(base);
            }
            match stock.beyond(&self.trie, class) {
                // Extents take nothing from slots, so what is removed there, and not much enough to be given back, would only
                // gather, and keep blocks from being joined. A search for as many ids as there are costs little for each.
                Some(_)
                    if !has_swept && *since_search >= u64::from(stock.seen().max(SEARCH_AT)) =>
                {
                    *since_search = 0;
                    drop(center);
                    center = self.sweep(time);
                    has_swept = true;
                }
                Some(end) => {
                    let Some(missing) = stock.missing(&self.trie, end) else {
                        self.grow(stock, end);
                        continue;
                    };
                    // No memory is asked for with the lock.
                    drop(center);
                    if self.make_all(missing, end).is_err() {
                        center = self.sweep(time);
                        return take(&mut center.get().stock).ok_or(InsertReason::NoMemory);
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

    fn make_all(&self, from: u32, end: u32) -> Result<(), NoMemory> {
        (from..end).try_for_each(|number| {
            if self.trie.chunk(number).is_some() {
                Ok(())
            } else {
                self.trie.make(number * CHUNK)
            }
        })
    }
}

/// An extent that is being made, and that nobody can find yet.
struct Unpublished<'t, T> {
    table: &'t Table<T>,
    /// The slot of whoever makes it.
    place: &'t SlotLock<Shelf>,
    base: u32,
    count: u32,
    made: u32,
}

impl<T> Drop for Unpublished<'_, T> {
    /// Making a value has panicked: drops those that were made, and gives the ids back, which nobody has seen.
    fn drop(&mut self) {
        let trie = &self.table.trie;
        let mut made = 0..self.made;
        let panics = contain(|| {
            for offset in made.by_ref() {
                Table::drop_value(trie.entry(self.base + offset));
            }
        });
        self.place.lock().get().panics += panics;
        let mut center = self.table.center.lock();
        let stock = &mut center.get().stock;
        stock.put_range(trie, self.base, self.base + self.count);
    }
}
