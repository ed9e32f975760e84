//! A row of stamped operations, each of which can be taken out once.

use super::row::Row;
use crate::sync::despite_panics;
use core::mem::{self, MaybeUninit};
use core::panic::Location;

/// Marks a place whose operation has been taken out. No clock gets there.
const VACANT: u64 = u64::MAX;

/// One stamped operation, or the place where one was.
struct Entry<O> {
    /// `VACANT`, or the operation's stamp; the operation is there exactly in the latter case. As bytes, so that it needs no padding:
    /// an operation of four bytes makes an entry of twelve, not of sixteen, and so many fewer lines go to whoever merges.
    stamp: [u8; 8],
    operation: MaybeUninit<O>,
    #[cfg(percolog_origin)]
    origin: Option<&'static Location<'static>>,
}

impl<O> Entry<O> {
    #[inline(always)]
    fn new(stamp: u64, operation: O, origin: Option<&'static Location<'static>>) -> Self {
        let _ = origin;
        Self {
            // Whatever an injected clock says.
            stamp: stamp.min(VACANT - 1).to_ne_bytes(),
            operation: MaybeUninit::new(operation),
            #[cfg(percolog_origin)]
            origin,
        }
    }

    #[inline(always)]
    fn stamp(&self) -> u64 {
        u64::from_ne_bytes(self.stamp)
    }
}

/// Stamped operations.
///
/// A row is *in order* while operations are only appended at its end and popped at its front. Taking
/// one out elsewhere, or putting one in a vacant place, makes it *scattered*: then nothing is known of
/// the order of its stamps, and vacant places say that they are.
#[repr(C)]
pub(super) struct Entries<O> {
    row: Row<Entry<O>>,
    /// How many places have no operation any more: the first ones, or, with [`SCATTERED`] added, those
    /// that say so.
    gone: usize,
}

const SCATTERED: usize = 1 << (usize::BITS - 1);

impl<O> Entries<O> {
    /// How many bytes an append touches, from the start.
    #[cfg(test)]
    pub(super) const HOT_BYTES: usize = size_of::<Self>();

    pub(super) fn with_room(room: usize) -> Self {
        Self {
            row: Row::with_room(room),
            gone: 0,
        }
    }

    /// How many operations there are.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.row.len() - (self.gone & !SCATTERED)
    }

    /// Whether the operations may be in another order than their stamps.
    #[inline]
    pub(super) fn is_scattered(&self) -> bool {
        self.gone & SCATTERED != 0
    }

    /// How many places there are, those without an operation included.
    pub(super) fn places(&self) -> usize {
        self.row.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.row.memory()
    }

    /// Appends, and returns the place.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        stamp: u64,
        operation: O,
        origin: Option<&'static Location<'static>>,
    ) -> usize {
        let place = self.row.len();
        self.row.push(Entry::new(stamp, operation, origin));
        place
    }

    /// The stamp and operation at a place, if it is not vacant. Not for rows of which something has been
    /// popped.
    pub(super) fn get(&self, place: usize) -> Option<(u64, &O)> {
        let entry = self.row.get(place)?;
        if entry.stamp() == VACANT {
            return None;
        }
        // SAFETY: the stamp says that the operation is there.
        Some((entry.stamp(), unsafe { entry.operation.assume_init_ref() }))
    }

    /// The operation at a place, as [`get`](Self::get).
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut O> {
        let entry = self.row.get_mut(place)?;
        if entry.stamp() == VACANT {
            return None;
        }
        // SAFETY: the stamp says that the operation is there.
        Some(unsafe { entry.operation.assume_init_mut() })
    }

    /// Where the operation at a place was queued, if that is recorded.
    pub(super) fn origin(&self, place: usize) -> Option<&'static Location<'static>> {
        #[cfg(percolog_origin)]
        return self.row.get(place).and_then(|entry| entry.origin);
        #[cfg(not(percolog_origin))]
        {
            let _ = place;
            None
        }
    }

    /// Takes the operation out of a place. Not for rows of which something has been popped.
    pub(super) fn take(&mut self, place: usize) -> Option<O> {
        let entry = self.row.get_mut(place)?;
        if entry.stamp() == VACANT {
            return None;
        }
        entry.stamp = VACANT.to_ne_bytes();
        self.gone = (self.gone + 1) | SCATTERED;
        // SAFETY: the stamp said that the operation was there, and now says that it is not.
        Some(unsafe { entry.operation.assume_init_read() })
    }

    /// Puts an operation in the place of another, which is handed back, or in a vacant one.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        place: usize,
        stamp: u64,
        operation: O,
        origin: Option<&'static Location<'static>>,
    ) -> Option<O> {
        let entry = &mut self.row[place];
        let before = mem::replace(entry, Entry::new(stamp, operation, origin));
        if before.stamp() == VACANT {
            self.gone = (self.gone - 1) | SCATTERED;
            return None;
        }
        self.gone |= SCATTERED;
        // SAFETY: the stamp says that the operation was there, and `before` is used no more.
        Some(unsafe { before.operation.assume_init() })
    }

    /// The stamp of what comes so many places behind the first of a row in order.
    #[inline(always)]
    pub(super) fn stamp(&self, behind: usize) -> Option<u64> {
        self.left().get(behind).map(Entry::stamp)
    }

    /// The stamps of a row in order.
    #[inline(always)]
    pub(super) fn stamps(&self) -> impl Iterator<Item = u64> {
        self.left().iter().map(Entry::stamp)
    }

    /// What is left of a row in order.
    #[inline(always)]
    fn left(&self) -> &[Entry<O>] {
        debug_assert!(!self.is_scattered());
        self.row.get(self.gone..).unwrap_or_default()
    }

    /// Takes the first operation out of a row in order.
    ///
    /// Nothing is written to the row: its lines come from another core's cache and will go back there.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(O, Option<&'static Location<'static>>)> {
        debug_assert!(!self.is_scattered());
        let entry = self.row.get(self.gone)?;
        let origin = self.origin(self.gone);
        self.gone += 1;
        // SAFETY: the operation is there: in a row in order only the first `gone` places are without
        // one, and this was not among them until now.
        let operation = unsafe { entry.operation.assume_init_read() };
        Some((operation, origin))
    }

    /// Forgets the vacancies of a row in which nothing is left; keeps its memory unless it has grown
    /// beyond `keep` places.
    pub(super) fn reset(&mut self, keep: usize) {
        debug_assert_eq!(self.len(), 0);
        self.row.clear();
        self.gone = 0;
        if self.row.room() > keep {
            self.row.shrink_to(keep);
        }
    }
}

impl<O> Drop for Entries<O> {
    fn drop(&mut self) {
        let first = if self.is_scattered() { 0 } else { self.gone };
        let places = first..self.row.len();
        if core::mem::needs_drop::<O>() {
            despite_panics(places.filter_map(|place| self.take(place)), drop);
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
        assert!(entries.put(9, 20, counted.clone(), None).is_none());
        drop(entries.put(9, 21, counted.clone(), None));
        assert_eq!((entries.places(), entries.len()), (10, 10));
        drop(entries.take(4));
        assert_eq!(Arc::strong_count(&counted), 10);
        drop(entries);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn what_has_been_popped_is_not_dropped_again() {
        let counted = Arc::new(());
        let mut entries = Entries::with_room(4);
        for stamp in 0..10 {
            entries.push(stamp, counted.clone(), None);
        }
        assert_eq!(entries.stamp(0), Some(0));
        for stamp in 0..4 {
            drop(entries.pop());
            assert_eq!(entries.stamp(0), Some(stamp + 1));
        }
        assert!(entries.stamps().eq(4..10));
        assert_eq!(entries.len(), 6);
        assert_eq!(Arc::strong_count(&counted), 7);
        drop(entries);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
