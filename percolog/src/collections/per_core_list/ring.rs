//! A queue with two ends, in memory that shares no line with other memory.

use crate::cpu::OwnLines;
use allocator_api2::vec::Vec;
use core::mem;

/// Items in order, in a ring of places that doubles when it is full.
///
/// What `alloc::collections::VecDeque` is, but on lines of its own: the standard one takes memory from the global allocator
/// only as that hands it out, and a neighbour's writes would move this slot's lines.
#[derive(Debug)]
pub(super) struct Ring<T> {
    places: Vec<Option<T>, OwnLines>,
    /// The place of the oldest item.
    first: usize,
    length: usize,
}

/// Places of a ring that has any.
const LEAST: usize = 8;

impl<T> Ring<T> {
    /// Allocates nothing.
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new_in(OwnLines),
            first: 0,
            length: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The place so many behind the first one. Their number is a power of two, and not zero.
    fn place(&self, behind: usize) -> usize {
        (self.first + behind) & (self.places.len() - 1)
    }

    /// Puts an item behind all others.
    #[inline]
    pub(super) fn push_newest(&mut self, item: T) {
        if self.length == self.places.len() {
            self.grow();
        }
        let place = self.place(self.length);
        self.places[place] = Some(item);
        self.length += 1;
    }

    /// Takes the item out that has been here longest.
    #[inline]
    pub(super) fn pop_oldest(&mut self) -> Option<T> {
        if self.length == 0 {
            return None;
        }
        let item = self.places[self.first].take();
        self.first = self.place(1);
        self.length -= 1;
        item
    }

    /// Takes the item out that was put in last.
    #[inline]
    pub(super) fn pop_newest(&mut self) -> Option<T> {
        if self.length == 0 {
            return None;
        }
        self.length -= 1;
        let place = self.place(self.length);
        self.places[place].take()
    }

    /// The items, oldest first, and their memory.
    pub(super) fn take(&mut self) -> Self {
        mem::replace(self, Self::new())
    }

    #[cold]
    fn grow(&mut self) {
        // A power of two, as the old number is, or the least.
        let room = (2 * self.places.len()).max(LEAST);
        let mut places = Vec::with_capacity_in(room, OwnLines);
        let (newer, older) = self.places.split_at_mut(self.first);
        places.extend(older.iter_mut().chain(newer).map(Option::take));
        places.resize_with(room, || None);
        self.places = places;
        self.first = 0;
    }
}

impl<T> Iterator for Ring<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.pop_oldest()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.length, Some(self.length))
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;
    use crate::sync::LINE_SIZE;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn a_ring_is_a_queue_with_two_ends(steps in prop::collection::vec(0..5u8, 0..200)) {
            let (mut ring, mut model) = (Ring::new(), VecDeque::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    0..3 => {
                        ring.push_newest(number);
                        model.push_back(number);
                    }
                    3 => prop_assert_eq!(ring.pop_oldest(), model.pop_front()),
                    _ => prop_assert_eq!(ring.pop_newest(), model.pop_back()),
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.places.as_ptr() as usize % LINE_SIZE * ring.places.len(), 0);
            }
            prop_assert_eq!(ring.collect::<Vec<_>>(), Vec::from(model));
        }
    }
}
