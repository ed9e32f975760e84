//! A slot's own storage.

use super::{CoreId, LINE_SIZE};
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::{const_fn, despite_panics};
use alloc::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr;

/// Per-core storage: one isolated `T` a slot, made when the slot first uses it.
///
/// Places are separate allocations, aligned to [`LINE_SIZE`] and padded to a multiple of it, so two
/// slots never write one line. An untouched place costs nothing, an untouched `PerCore` costs its own
/// 72 bytes, and slots beyond any count known earlier work as well.
///
/// ```
/// use percolog::cpu::{self, PerCore};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// static REQUESTS: PerCore<AtomicU64> = PerCore::new();
///
/// // A slot can be shared by two threads for a moment, so updates of a place must be safe to race.
/// REQUESTS.get(cpu::current()).fetch_add(1, Ordering::Relaxed);
/// let total: u64 = REQUESTS.iter().map(|(_, n)| n.load(Ordering::Relaxed)).sum();
/// assert_eq!(total, 1);
/// ```
///
/// *Progress:* wait-free but for the allocator at first touch. *Cost:* two dependent loads of lines
/// that are written only when a slot is touched first.
pub struct PerCore<T> {
    /// Tables of pointers to places. The first has [`FIRST`] entries, and each further one doubles
    /// what is there, so tables never move. A null entry is a place not touched yet.
    tables: [AtomicPtr<AtomicPtr<T>>; TABLES],
    /// One more than the highest place touched.
    end: AtomicUsize,
    owns: PhantomData<Box<T>>,
}

#[cfg(not(percolog_loom))]
const FIRST: usize = 64;
#[cfg(not(percolog_loom))]
const TABLES: usize = 8;

#[cfg(percolog_loom)]
const FIRST: usize = 2;
#[cfg(percolog_loom)]
const TABLES: usize = 2;

/// Slots with a place of their own.
const PLACES: usize = FIRST << (TABLES - 1);

const _: () = assert!(PLACES == CoreId::PLACES);

// SAFETY: `&PerCore<T>` hands out `&T` to any thread (`T: Sync`), and makes a `T` on one thread that
// is dropped by whichever thread drops the `PerCore` (`T: Send`).
unsafe impl<T: Send + Sync> Sync for PerCore<T> {}
// SAFETY: owning a `PerCore<T>` is owning its `T`s.
unsafe impl<T: Send> Send for PerCore<T> {}

/// The table a place is in, and its index there.
#[inline(always)]
const fn locate(place: usize) -> (usize, usize) {
    if place < FIRST {
        (0, place)
    } else {
        let table = (place / FIRST).ilog2() as usize + 1;
        (table, place - (FIRST << (table - 1)))
    }
}

const fn table_length(table: usize) -> usize {
    if table == 0 {
        FIRST
    } else {
        FIRST << (table - 1)
    }
}

impl<T> PerCore<T> {
    const_fn! {
        /// Storage of which nothing is touched yet. Allocates nothing.
        #[must_use]
        pub const fn new() -> Self {
            #[cfg(not(percolog_loom))]
            let tables = [const { AtomicPtr::new(ptr::null_mut()) }; TABLES];
            #[cfg(percolog_loom)]
            let tables = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
            Self { tables, end: AtomicUsize::new(0), owns: PhantomData }
        }
    }

    /// Where the slot's place lies; null if it has not been touched.
    #[inline(always)]
    fn find(&self, slot: CoreId) -> *mut T {
        let (table, index) = locate(slot.place() % PLACES);
        // Acquire pairs with the Release that published the table: its entries are initialized.
        let entries = self.tables[table].load(Ordering::Acquire);
        if entries.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: a published table has `table_length(table)` entries, `index` is below that, and it
        // lives until `self` is dropped.
        let entry = unsafe { &*entries.add(index) };
        // Acquire pairs with the Release that published the place: its `T` is initialized.
        entry.load(Ordering::Acquire)
    }

    /// The slot's place, if it has been touched.
    #[inline(always)]
    #[must_use]
    pub fn touched(&self, slot: CoreId) -> Option<&T> {
        // SAFETY: a published place points to a live `T` until `self` is dropped.
        unsafe { self.find(slot).as_ref() }
    }

    /// The slot's place, made with `make` if it is touched for the first time.
    ///
    /// If two threads touch a place at the same time, both may call `make`; one result is dropped.
    ///
    /// # Panics
    /// Where `make` does, with nothing changed.
    #[inline(always)]
    pub fn get_or_make(&self, slot: CoreId, make: impl FnOnce() -> T) -> &T {
        match self.touched(slot) {
            Some(place) => place,
            None => self.touch(slot, make()),
        }
    }

    #[cold]
    fn touch(&self, slot: CoreId, value: T) -> &T {
        let (table, index) = locate(slot.place() % PLACES);
        let mut entries = self.tables[table].load(Ordering::Acquire);
        if entries.is_null() {
            let length = table_length(table);
            // Every update reads a table: what lies beside it on its lines must not be written.
            let fresh = isolated::array(length, || AtomicPtr::new(ptr::null_mut()));
            // Release publishes the initialized entries to the Acquire loads here and in `touched`;
            // on failure Acquire does the same for the table that won.
            match self.tables[table].compare_exchange(
                ptr::null_mut(),
                fresh,
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => entries = fresh,
                Err(winner) => {
                    entries = winner;
                    // SAFETY: `fresh` came from `isolated::array` above and was not published.
                    unsafe { isolated::free_array(fresh, length) };
                }
            }
        }
        // SAFETY: as in `touched`.
        let entry = unsafe { &*entries.add(index) };
        let fresh = isolated::new(value);
        // Before the place is published: whoever finds the place finds the end beyond it, since the
        // exchange below releases this as well. Hence Relaxed here.
        self.end
            .fetch_max(slot.place() % PLACES + 1, Ordering::Relaxed);
        // Release publishes the `T` to the Acquire loads here and in `touched`.
        match entry.compare_exchange(ptr::null_mut(), fresh, Ordering::Release, Ordering::Acquire) {
            // SAFETY: just published, lives until `self` is dropped.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: `fresh` came from `isolated::new` and was not published; `winner` is live.
                unsafe {
                    isolated::free(fresh);
                    &*winner
                }
            }
        }
    }

    /// One more than the highest place touched, as far as the caller can know.
    #[inline]
    pub(crate) fn end(&self) -> usize {
        // Acquire: no place published before a value of `end` that we read can be missed, see `touch`.
        self.end.load(Ordering::Acquire)
    }

    /// How many bytes have been asked of the allocator for tables and places. What the values own
    /// themselves is not among them.
    #[must_use]
    pub fn memory(&self) -> usize {
        let tables = self
            .tables
            .iter()
            .enumerate()
            // Relaxed: whether there is a table is all that is asked; it is not looked into.
            .filter(|(_, entries)| !entries.load(Ordering::Relaxed).is_null())
            .map(|(table, _)| isolated::size::<AtomicPtr<T>>(table_length(table)))
            .sum::<usize>();
        tables + self.iter().count() * isolated::size::<T>(1)
    }

    /// Every touched place with its slot, in the order of the slots.
    ///
    /// Every place whose touching is known to the caller is there; places touched while the iteration
    /// runs may be missed.
    pub fn iter(&self) -> impl Iterator<Item = (CoreId, &T)> {
        (0..self.end()).filter_map(|place| {
            let slot = CoreId::new(place as u32);
            self.touched(slot).map(|value| (slot, value))
        })
    }
}

impl<T> PerCore<T> {
    /// Every touched place, for who has them to itself.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        (0..self.end()).filter_map(|place| {
            // SAFETY: a published place points to a live `T` until `self` is dropped, each number has another one, and
            // `&mut self` keeps everybody else away from all of them.
            unsafe { self.find(CoreId::new(place as u32)).as_mut() }
        })
    }
}

impl<T: Default> PerCore<T> {
    /// The slot's place, made with [`Default`] if it is touched for the first time.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, slot: CoreId) -> &T {
        self.get_or_make(slot, T::default)
    }
}

impl<T> Default for PerCore<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for PerCore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> Drop for PerCore<T> {
    fn drop(&mut self) {
        despite_panics(0..TABLES, |table| {
            // `&mut self` and this load together see everything published: dropping an object comes
            // after every use of it.
            let entries = self.tables[table].load(Ordering::Acquire);
            if entries.is_null() {
                return;
            }
            let length = table_length(table);
            despite_panics(0..=length, |index| {
                if index == length {
                    // SAFETY: `touch` made the table with this length, and nobody can reach it any more.
                    unsafe { isolated::free_array(entries, length) };
                    return;
                }
                // SAFETY: a published table has so many entries, and lives until it is freed above, in the last of these calls.
                let place = unsafe { &*entries.add(index) }.load(Ordering::Acquire);
                if !place.is_null() {
                    // SAFETY: published places come from `isolated::new`, and are freed only here.
                    unsafe { isolated::free(place) };
                }
            });
        });
    }
}

mod isolated {
    //! Allocations that share no line with any other.

    use super::{LINE_SIZE, Layout, alloc, dealloc, despite_panics, handle_alloc_error, ptr};

    fn layout<T>(count: usize) -> Layout {
        let aligned = Layout::array::<T>(count).and_then(|layout| layout.align_to(LINE_SIZE));
        // A type whose padded size passes `isize::MAX` cannot be in a `Box` either.
        let Ok(layout) = aligned else {
            unreachable!("LINE_SIZE is a power of two and a `T` exists")
        };
        let layout = layout.pad_to_align();
        if layout.size() == 0 {
            // A place is one line at least, also for types without size: `alloc` needs some.
            Layout::from_size_align(LINE_SIZE, LINE_SIZE).unwrap_or(layout)
        } else {
            layout
        }
    }

    /// How many bytes so many values take.
    pub(super) fn size<T>(count: usize) -> usize {
        layout::<T>(count).size()
    }

    pub(super) fn new<T>(value: T) -> *mut T {
        let place = room(layout::<T>(1)).cast::<T>();
        // SAFETY: freshly allocated, large and aligned enough for a `T`.
        unsafe { place.write(value) };
        place
    }

    /// So many values beside each other, which `make` makes without a panic.
    pub(super) fn array<T>(count: usize, make: impl Fn() -> T) -> *mut T {
        let place = room(layout::<T>(count)).cast::<T>();
        for index in 0..count {
            // SAFETY: freshly allocated, large and aligned enough for so many.
            unsafe { place.add(index).write(make()) };
        }
        place
    }

    fn room(layout: Layout) -> *mut u8 {
        // SAFETY: the layout's size is not zero.
        let place = unsafe { alloc(layout) };
        if place.is_null() {
            handle_alloc_error(layout);
        }
        place
    }

    /// # Safety
    /// `place` comes from [`new`] and is not used again.
    pub(super) unsafe fn free<T>(place: *mut T) {
        despite_panics([true, false], |first| {
            // SAFETY: by contract, once each; the layout is the one it was allocated with.
            unsafe {
                if first {
                    place.drop_in_place();
                } else {
                    dealloc(place.cast(), layout::<T>(1));
                }
            }
        });
    }

    /// # Safety
    /// `place` comes from [`array`] with this count and is not used again.
    pub(super) unsafe fn free_array<T>(place: *mut T, count: usize) {
        // SAFETY: by contract; the layout is the one it was allocated with.
        unsafe {
            ptr::slice_from_raw_parts_mut(place, count).drop_in_place();
            dealloc(place.cast(), layout::<T>(count));
        }
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;
    use crate::sync::atomic::AtomicU32;
    use std::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn locates_every_place_once() {
        let mut seen = std::collections::BTreeSet::new();
        for place in 0..PLACES {
            let (table, index) = locate(place);
            assert!(table < TABLES && index < table_length(table));
            assert!(seen.insert((table, index)));
        }
    }

    #[test]
    fn places_are_isolated_and_slots_beyond_any_count_work() {
        let per_core: PerCore<u8> = PerCore::new();
        let slots = [0, 1, 63, 64, 127, 128, 5000, 8191];
        let addresses: Vec<usize> = slots
            .iter()
            .map(|slot| ptr::from_ref(per_core.get(CoreId::new(*slot))) as usize)
            .collect();
        for (at, address) in addresses.iter().enumerate() {
            assert_eq!(address % LINE_SIZE, 0);
            assert!(addresses[..at].iter().all(|other| other != address));
        }
        assert_eq!(per_core.iter().count(), slots.len());
        // Beyond the places: shared, never refused.
        let shared = ptr::from_ref(per_core.get(CoreId::new(u32::MAX))) as usize;
        assert_eq!(shared, *addresses.last().expect("not empty"));
    }

    #[test]
    fn every_value_is_dropped_once_also_when_first_touches_race() {
        struct Counted {
            dropped: Arc<AtomicU32>,
        }
        impl Counted {
            fn new(made: &Arc<AtomicU32>, dropped: &Arc<AtomicU32>) -> Self {
                made.fetch_add(1, Ordering::Relaxed);
                Self {
                    dropped: dropped.clone(),
                }
            }
        }
        impl Drop for Counted {
            fn drop(&mut self) {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (made, dropped) = (Arc::default(), Arc::default());
        let per_core = Arc::new(PerCore::new());
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (per_core, made, dropped) = (
                    Arc::clone(&per_core),
                    Arc::clone(&made),
                    Arc::clone(&dropped),
                );
                std::thread::spawn(move || {
                    for slot in 0..200 {
                        per_core.get_or_make(CoreId::new(slot), || Counted::new(&made, &dropped));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(per_core.iter().count(), 200);
        drop(per_core);
        assert_eq!(
            made.load(Ordering::Relaxed),
            dropped.load(Ordering::Relaxed)
        );
    }
}
