//! A row of stamped operations, each of which can be taken out once.

use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::panic::Location;

/// Marks a place whose operation has been taken out. No stamp is zero.
const VACANT: u64 = 0;

/// One stamped operation, or the place where one was.
struct Entry<O> {
    /// `VACANT`, or the operation's stamp; the operation is there exactly in the latter case.
    stamp: u64,
    operation: MaybeUninit<O>,
    #[cfg(percolog_origin)]
    origin: Option<&'static Location<'static>>,
}

/// Stamped operations in the order of their stamps, with vacancies.
#[repr(C)]
pub(super) struct Entries<O> {
    row: Vec<Entry<O>>,
    live: usize,
    /// Everything before this place is vacant.
    head: usize,
}

impl<O> Entries<O> {
    /// How many bytes an append touches, from the start.
    #[cfg(test)]
    pub(super) const HOT_BYTES: usize = core::mem::offset_of!(Self, head);

    pub(super) fn with_room(room: usize) -> Self {
        Self {
            row: Vec::with_capacity(room),
            head: 0,
            live: 0,
        }
    }

    /// How many operations there are.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// How many places there are, vacant ones included.
    pub(super) fn places(&self) -> usize {
        self.row.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.row.capacity() * size_of::<Entry<O>>()
    }

    /// Appends, and returns the place.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        stamp: u64,
        operation: O,
        origin: Option<&'static Location<'static>>,
    ) -> usize {
        let _ = origin;
        let place = self.row.len();
        self.row.push(Entry {
            // Injected clocks may start at zero, and their next stamp is then greater than that.
            stamp: stamp.saturating_add(VACANT + 1),
            operation: MaybeUninit::new(operation),
            #[cfg(percolog_origin)]
            origin,
        });
        self.live += 1;
        place
    }

    /// The stamp and operation at a place, if it is not vacant.
    pub(super) fn get(&self, place: usize) -> Option<(u64, &O)> {
        let entry = self.row.get(place)?;
        if entry.stamp == VACANT {
            return None;
        }
        // SAFETY: the stamp says that the operation is there.
        Some((entry.stamp, unsafe { entry.operation.assume_init_ref() }))
    }

    /// Takes the operation out of a place.
    pub(super) fn take(&mut self, place: usize) -> Option<O> {
        let entry = self.row.get_mut(place)?;
        if entry.stamp == VACANT {
            return None;
        }
        entry.stamp = VACANT;
        self.live -= 1;
        // SAFETY: the stamp said that the operation was there, and now says that it is not.
        Some(unsafe { entry.operation.assume_init_read() })
    }

    /// Drops vacancies at the end.
    pub(super) fn trim(&mut self) {
        while self.row.last().is_some_and(|entry| entry.stamp == VACANT) {
            self.row.pop();
        }
        self.head = self.head.min(self.row.len());
    }

    /// The stamp of the first operation.
    #[inline]
    pub(super) fn first(&mut self) -> Option<u64> {
        while let Some(entry) = self.row.get(self.head) {
            if entry.stamp != VACANT {
                return Some(entry.stamp);
            }
            self.head += 1;
        }
        None
    }

    /// Takes the first operation out; its stamp must not be greater than `bound`.
    #[inline]
    pub(super) fn pop_up_to(
        &mut self,
        bound: u64,
    ) -> Option<(O, Option<&'static Location<'static>>)> {
        if self.first()? > bound {
            return None;
        }
        let place = self.head;
        #[cfg(percolog_origin)]
        let origin = self.row[place].origin;
        #[cfg(not(percolog_origin))]
        let origin = None;
        let operation = self.take(place)?;
        self.head += 1;
        Some((operation, origin))
    }

    /// Moves the operations together, in order, and calls `moved` with each new place.
    pub(super) fn compact(&mut self, mut moved: impl FnMut(usize, &O)) {
        // Entries are plain memory: dropping a vacant one drops nothing.
        self.row.retain(|entry| entry.stamp != VACANT);
        self.head = 0;
        for place in 0..self.row.len() {
            if let Some((_, operation)) = self.get(place) {
                moved(place, operation);
            }
        }
    }

    /// Forgets the vacancies of a row in which nothing is left; keeps its memory unless it has grown
    /// beyond `keep` places.
    pub(super) fn reset(&mut self, keep: usize) {
        debug_assert_eq!(self.live, 0);
        self.row.clear();
        self.head = 0;
        if self.row.capacity() > keep {
            self.row.shrink_to(keep);
        }
    }
}

impl<O> Drop for Entries<O> {
    fn drop(&mut self) {
        for place in self.head..self.row.len() {
            drop(self.take(place));
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_operation_is_dropped_once_wherever_it_is() {
        let counted = Arc::new(());
        let mut entries = Entries::with_room(4);
        for stamp in 0..10 {
            entries.push(stamp, counted.clone(), None);
        }
        assert_eq!(Arc::strong_count(&counted), 11);
        drop(entries.take(9));
        assert!(entries.take(9).is_none());
        entries.trim();
        assert_eq!(entries.places(), 9);
        drop(entries.pop_up_to(0));
        assert_eq!(entries.len(), 9, "stamps are kept one greater, so that none is 0");
        drop(entries.pop_up_to(1));
        drop(entries.take(4));
        assert_eq!(Arc::strong_count(&counted), 8);
        let mut places = std::vec::Vec::new();
        entries.compact(|place, _| places.push(place));
        assert_eq!(places, (0..7).collect::<std::vec::Vec<_>>());
        drop(entries);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
