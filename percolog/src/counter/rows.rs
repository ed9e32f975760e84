//! Rows of shares, made when they are first touched.

use super::ids::{CHUNKS, Place, chunk_length};
use super::memory::{self, Zero};
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::const_fn;
use core::ptr;

/// A bank of `N` rows, each with a share for every counter.
///
/// Rows and their chunks appear at first touch and stay until the bank is dropped, which the bank of
/// the process never is: a row's next writer continues in it.
#[derive(Debug)]
pub(super) struct Rows<S: Zero, const N: usize> {
    /// One more than the largest number of a row that is, or is being, made.
    made: AtomicUsize,
    rows: [AtomicPtr<Row<S>>; N],
}

/// One row: chunks of shares, on lines that are shared with no other row.
///
/// The users come last, on a line that walks over the chunks do not read.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Row<S> {
    chunks: [AtomicPtr<S>; CHUNKS],
    /// How many uses of the row's shares are under way, where that is of interest to the shares' kind.
    users: AtomicUsize,
}

impl<S> Row<S> {
    /// See [`Row::users`].
    #[inline(always)]
    pub(super) fn users(&self) -> &AtomicUsize {
        &self.users
    }

    /// Whether a use is under way.
    pub(super) fn is_used(&self) -> bool {
        // Acquire pairs with the Release at the end of a use: what it did is seen.
        self.users.load(Ordering::Acquire) != 0
    }

    /// The share at `place`, if it has been touched.
    #[inline(always)]
    pub(super) fn find(&self, place: Place) -> Option<&S> {
        // Acquire pairs with the Release in `publish`: the chunk's shares are initialized.
        let chunk = self.chunks[place.chunk()].load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a published chunk has `chunk_length` shares (`Place::NONE` has no chunk), and it lives as
        // long as the bank.
        Some(unsafe { &*place.within(chunk) })
    }
}

impl<S> Default for Row<S> {
    fn default() -> Self {
        Self {
            chunks: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            users: AtomicUsize::new(0),
        }
    }
}

// SAFETY: null pointers and an integer, whose bytes are zero; no destructor.
unsafe impl<S> Zero for Row<S> {}

impl<S: Zero, const N: usize> Rows<S, N> {
    const_fn! {
        /// A bank of which nothing is touched yet. Allocates nothing.
        pub(super) const fn new() -> Self {
            #[cfg(not(percolog_loom))]
            let rows = [const { AtomicPtr::new(ptr::null_mut()) }; N];
            #[cfg(percolog_loom)]
            let rows = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
            Self { made: AtomicUsize::new(0), rows }
        }
    }

    /// The row `number`, if anything in it has been touched.
    #[inline(always)]
    pub(super) fn row(&self, number: usize) -> Option<&Row<S>> {
        // Acquire pairs with the Release in `publish`: the row's pointers are initialized.
        let row = self.rows.get(number)?.load(Ordering::Acquire);
        // SAFETY: a published row lives as long as the bank.
        unsafe { row.as_ref() }
    }

    /// The share at `place` in the row `number`, if it has been touched.
    #[inline(always)]
    pub(super) fn find(&self, number: usize, place: Place) -> Option<&S> {
        self.row(number)?.find(place)
    }

    /// The share at `place` in the row `number`, made if it has not been touched.
    #[cold]
    pub(super) fn touch(&self, number: usize, place: Place) -> &S {
        assert!(
            place != Place::NONE,
            "a place is assigned before it is touched"
        );
        if let Some(share) = self.find(number, place) {
            return share;
        }
        // Raised before the row is published: whoever finds the row, and then finishes an add in it,
        // has the mark behind them (through the Acquire of the row), and so has every `iter` that
        // comes after that add. Relaxed: the mark alone publishes nothing.
        self.made.fetch_max(number + 1, Ordering::Relaxed);
        let row = publish(&self.rows[number], 1);
        publish(&row.chunks[place.chunk()], chunk_length(place.chunk()));
        match self.find(number, place) {
            Some(share) => share,
            None => unreachable!("rows and chunks that were published stay"),
        }
    }

    /// All rows where anything has been touched, with their numbers; those touched while the iteration runs may be missed.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &Row<S>)> {
        // Relaxed: a touch that comes before this is seen by coherence, which is all that is
        // promised. See `touch`.
        let made = self.made.load(Ordering::Relaxed);
        (0..made).filter_map(move |number| Some((number, self.row(number)?)))
    }

    /// The shares at `place` in all rows where it has been touched; those touched while the
    /// iteration runs may be missed.
    pub(super) fn iter(&self, place: Place) -> impl Iterator<Item = &S> {
        self.rows().filter_map(move |(_, row)| row.find(place))
    }
}

/// Makes `entry` point to `count` values if it is null, and returns the first.
fn publish<T: Zero>(entry: &AtomicPtr<T>, count: usize) -> &T {
    // Acquire pairs with the Release below.
    let mut values = entry.load(Ordering::Acquire);
    if values.is_null() {
        let fresh = memory::zeroed::<T>(count);
        // Release publishes the zeroed values to every Acquire load of the entry; on failure Acquire
        // does the same for the values of whoever was faster.
        match entry.compare_exchange(ptr::null_mut(), fresh, Ordering::Release, Ordering::Acquire) {
            Ok(_) => values = fresh,
            Err(winner) => {
                values = winner;
                // SAFETY: from `zeroed` with the same count just above, and never published.
                unsafe { memory::free(fresh, count) };
            }
        }
    }
    // SAFETY: what an entry points to lives until the bank that owns the entry is dropped, and the
    // borrow of the entry keeps it from being dropped.
    unsafe { &*values }
}

impl<S: Zero, const N: usize> Drop for Rows<S, N> {
    fn drop(&mut self) {
        for row in &self.rows {
            let row = row.load(Ordering::Acquire);
            // SAFETY: published rows are live, and nobody else can reach them any more.
            let Some(chunks) = (unsafe { row.as_ref() }).map(|row| &row.chunks) else {
                continue;
            };
            for (number, chunk) in chunks.iter().enumerate().skip(1) {
                let chunk = chunk.load(Ordering::Acquire);
                if !chunk.is_null() {
                    // SAFETY: published by `touch` with this length, freed only here.
                    unsafe { memory::free(chunk, chunk_length(number)) };
                }
            }
            // SAFETY: published by `touch` as one row, freed only here; `chunks` is not used again.
            unsafe { memory::free(row, 1) };
        }
    }
}
