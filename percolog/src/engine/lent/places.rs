//! A slot's places: many, of which most are never needed.

use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{Isolated, despite_panics};
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ptr;

/// So many places are made together.
const TOGETHER: usize = 64;

/// So many pointers to groups lie together, on lines that are written only when a group is made: every update reads them.
const POINTERS: usize = 16;

/// A fixed number of `T`s, made by sixty-fours when the first of them is needed: objects that several threads fight over are few, and all
/// places of a slot would take a mebibyte, and the time to write to it, in the middle of an update.
pub(super) struct Places<T> {
    /// Null, or the first of a boxed slice of [`together`](Self::together) values, which stays until this is dropped.
    groups: Box<[Isolated<[AtomicPtr<T>; POINTERS]>]>,
    /// How many there are.
    places: usize,
    owns: PhantomData<Box<[T]>>,
}

// SAFETY: `&Places<T>` hands out `&T` to any thread (`T: Sync`), and makes a `T` on one thread that is dropped by whichever drops this
// (`T: Send`).
unsafe impl<T: Send + Sync> Sync for Places<T> {}
// SAFETY: owning it is owning its `T`s.
unsafe impl<T: Send> Send for Places<T> {}

impl<T> Places<T> {
    /// `places`, which is a power of two: none of them is made yet.
    pub(super) fn new(places: usize) -> Self {
        debug_assert!(places.is_power_of_two());
        let lines = places.div_ceil(TOGETHER * POINTERS);
        let none = || Isolated::new(core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())));
        Self {
            groups: (0..lines).map(|_| none()).collect(),
            places,
            owns: PhantomData,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places
    }

    /// The pointer to the group that the place is in.
    #[inline(always)]
    fn group(&self, place: usize) -> &AtomicPtr<T> {
        &self.groups[place / (TOGETHER * POINTERS)][place / TOGETHER % POINTERS]
    }

    /// How many of them are made at once.
    fn together(&self) -> usize {
        self.places.min(TOGETHER)
    }

    /// The place, if it has been made.
    #[inline(always)]
    pub(super) fn made(&self, place: usize) -> Option<&T> {
        debug_assert!(place < self.places);
        // Acquire pairs with the Release in `make`: the values are initialized.
        let group = self.group(place).load(Ordering::Acquire);
        if group.is_null() {
            return None;
        }
        // SAFETY: `place` is below `places`, so that what is left of it is below `together`, and a published group has so many live values.
        Some(unsafe { &*group.add(place % TOGETHER) })
    }

    /// The place, made with its neighbours if it is the first of them. If two threads make them at the same time, those of one are dropped.
    #[inline(always)]
    pub(super) fn get(&self, place: usize, value: impl Fn() -> T) -> &T {
        match self.made(place) {
            Some(value) => value,
            None => self.make(place, value),
        }
    }

    #[cold]
    #[inline(never)]
    fn make(&self, place: usize, value: impl Fn() -> T) -> &T {
        let fresh: Box<[T]> = (0..self.together()).map(|_| value()).collect();
        let fresh = Box::into_raw(fresh);
        let group = self.group(place);
        // Release publishes the values to the Acquire loads in `made`; on failure Acquire does the same for those of the thread that won.
        let made = group.compare_exchange(
            ptr::null_mut(),
            fresh.cast(),
            Ordering::Release,
            Ordering::Acquire,
        );
        if made.is_err() {
            // SAFETY: it was made above and not published.
            drop(unsafe { Box::from_raw(fresh) });
        }
        match self.made(place) {
            Some(value) => value,
            None => unreachable!("a group that has been published stays"),
        }
    }

    /// All that have been made.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.places).filter_map(|place| self.made(place))
    }

    /// Bytes asked of the allocator, without what the values own.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.groups) + self.iter().count() * size_of::<T>()
    }
}

impl<T> Drop for Places<T> {
    fn drop(&mut self) {
        let together = self.together();
        despite_panics(0..self.places.div_ceil(TOGETHER), |group| {
            // Relaxed: `&mut self` comes after every use.
            let group = self.group(group * TOGETHER).load(Ordering::Relaxed);
            if !group.is_null() {
                // SAFETY: a published group is a boxed slice of so many, which is freed only here.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(group, together)) });
            }
        });
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use core::cell::Cell;

    struct Counted(Rc<Cell<usize>>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    #[test]
    fn places_are_made_when_they_are_needed_and_dropped_once() {
        for (places, together) in [(1, 1), (16, 16), (64, 64), (256, 64)] {
            let alive = Rc::new(Cell::new(0));
            let all = Places::new(places);
            let value = || {
                alive.set(alive.get() + 1);
                Counted(alive.clone())
            };
            assert!(all.made(places - 1).is_none() && all.iter().count() == 0);
            let first = ptr::from_ref(all.get(places - 1, value));
            assert_eq!(first, ptr::from_ref(all.get(places - 1, value)));
            assert_eq!((alive.get(), all.iter().count()), (together, together));
            let other = all.get(0, value);
            assert_eq!(first == ptr::from_ref(other), places == 1);
            assert_eq!(alive.get(), together.max(places.min(2 * together)));
            assert_eq!(all.len(), places);
            drop(all);
            assert_eq!(alive.get(), 0);
        }
    }
}
