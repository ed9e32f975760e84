//! The way of a value out: unfindable, then quiescent, then dropped; and where its id goes from there.

use core::mem;
use core::mem::MaybeUninit;

use super::shelf::{BATCH, List, Shelf};
use super::table::{Center, Table, Time};
use super::trie::Entry;
use crate::reclaim::contain;
use crate::sync::atomic::Ordering;
use crate::sync::{SlotGuard, SlotLock};

/// How many values a call drops: more than one, so that what has gathered goes away.
pub(super) const PACE: usize = 4;

/// How many values a search for ids drops at a time: nobody else finds their ids meanwhile.
const IN_HAND: usize = 16;

impl<T> Table<T> {
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
                shelf.should_reap(),
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

    /// Lets go of what waits no longer; says how many ids that were.
    pub(super) fn ripen(&self, time: &impl Time, place: &SlotLock<Shelf>, look: bool) -> usize {
        let mut ripened = 0;
        loop {
            let oldest = place.lock().get().oldest();
            match oldest {
                Some(period) if time.is_over(period, look) => {
                    ripened += place.lock().get().ripen(&self.trie, period);
                }
                _ => return ripened,
            }
        }
    }

    /// Drops up to so many values that no section can have; says how many. Destructors of users run here, which may use the
    /// table; those inside of others drop nothing, unless they must.
    pub(super) fn reap(&self, place: &SlotLock<Shelf>, most: usize, by_force: bool) -> usize {
        let list = {
            let mut shelf = place.lock();
            let shelf = shelf.get();
            if shelf.ripe.is_empty() || (shelf.reapers != 0 && !by_force) {
                return 0;
            }
            shelf.reapers += 1;
            shelf.ripe.take(&self.trie, most)
        };
        let reaped = list.len();
        let mut hand = Hand {
            table: self,
            place,
            left: list,
            dropping: None,
            free: List::new(),
            panics: 0,
        };
        hand.panics = contain(|| hand.drop_values());
        reaped
    }

    pub(super) fn drop_value(entry: &Entry<T>) {
        // SAFETY: the id was in use and is not any more, nobody can have its value, and whoever calls this has the list that
        // it was in: nobody else drops it.
        entry
            .value
            .with_mut(|value| unsafe { MaybeUninit::assume_init_drop(&mut *value) });
    }

    /// Does for a slot what it does for itself when it is used: threads may have gone.
    pub(super) fn help(&self, time: &impl Time, place: &SlotLock<Shelf>) {
        self.seal(time, place, 1);
        self.ripen(time, place, false);
        self.reap(place, IN_HAND, false);
        self.give_back(place);
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
    pub(super) fn sweep(&self, time: &impl Time) -> SlotGuard<'_, Center> {
        self.collect(time);
        let mut center = self.center.lock();
        for (_, place) in self.shelves.iter() {
            let list = mem::replace(&mut place.lock().get().free, List::new());
            self.put(&mut center, place, list);
        }
        center
    }

    /// Drops all values that no section can have any more, on whatever slot they were removed; says how many ids that were.
    pub(super) fn collect(&self, time: &impl Time) -> usize {
        // All get their stamps first: one look at the threads is then enough for all.
        for (_, place) in self.shelves.iter() {
            self.seal(time, place, 1);
        }
        let (mut ripened, mut reaped) = (0, 0);
        for (_, place) in self.shelves.iter() {
            if !place.lock().get().has_room() {
                // What has no stamp found no room for one.
                ripened += self.ripen(time, place, true);
                self.seal(time, place, 1);
            }
            ripened += self.ripen(time, place, true);
            loop {
                match self.reap(place, IN_HAND, true) {
                    0 => break,
                    some => reaped += some,
                }
            }
        }
        if mem::needs_drop::<T>() {
            reaped
        } else {
            ripened
        }
    }
}

/// Values that are being dropped.
struct Hand<'t, T> {
    table: &'t Table<T>,
    /// The slot that they were removed on.
    place: &'t SlotLock<Shelf>,
    left: List,
    /// The one whose destructor runs.
    dropping: Option<(u32, &'t Entry<T>)>,
    /// Those that are gone.
    free: List,
    panics: u64,
}

impl<T> Hand<'_, T> {
    /// Goes on behind the value whose destructor has panicked, if one has.
    fn drop_values(&mut self) {
        self.one_is_gone();
        while let Some((index, entry)) = self.left.pop(&self.table.trie) {
            self.dropping = Some((index, entry));
            Table::drop_value(entry);
            self.one_is_gone();
        }
    }

    fn one_is_gone(&mut self) {
        if let Some((index, entry)) = self.dropping.take() {
            self.free.push(index, entry);
        }
    }
}

impl<T> Drop for Hand<'_, T> {
    /// Gives the ids back; where panics are not contained also those whose values have not been dropped.
    fn drop(&mut self) {
        self.one_is_gone();
        let mut shelf = self.place.lock();
        let shelf = shelf.get();
        shelf.ripe.append(&self.table.trie, self.left);
        shelf.free.append(&self.table.trie, self.free);
        shelf.panics += self.panics;
        shelf.reapers -= 1;
    }
}
