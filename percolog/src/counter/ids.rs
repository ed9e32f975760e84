//! Which cell of every row is a counter's.

use crate::cpu::undivided::undivided;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{SlotLock, const_fn};
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// Shares in a row's first chunk; each further chunk has twice as many.
#[cfg(not(percolog_loom))]
pub(super) const FIRST: usize = 64;
#[cfg(percolog_loom)]
pub(super) const FIRST: usize = 1;

/// Chunks of a row, counting the one that [`Place::NONE`] is in, which is never made.
///
/// A power of two, so that a masked number needs no bounds check.
#[cfg(not(percolog_loom))]
pub(super) const CHUNKS: usize = 32;
#[cfg(percolog_loom)]
pub(super) const CHUNKS: usize = 4;

/// Bytes of a share, whichever bank it is in.
#[cfg(not(percolog_loom))]
const SHARE: usize = 1 << SHARE_BITS;

const _: () = assert!(CHUNKS.is_power_of_two() && CHUNKS <= 1 << INDEX);

/// The size of a share as a power of two.
const SHARE_BITS: u32 = 4;

/// Where a place has its index: one more bit than [`SHARE_BITS`], so that a shift and an *and* make it a distance in bytes.
pub(super) const INDEX: u32 = 5;

/// Where a counter's share lies in every row: the chunk in the lowest five bits, and above them the share's index there.
/// Decoding takes three instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    /// No place has been assigned. Decodes to a chunk that no row has, so that looking up a share
    /// needs no separate test.
    pub(super) const NONE: Self = Self(0);

    /// The place with this number.
    pub(super) fn numbered(id: u64) -> Self {
        let chunk = (id / FIRST as u64 + 1).ilog2() as usize;
        // 64 · (2^27 − 1) counters of 16 bytes, and 16 in the center, are 256 GiB.
        assert!(
            chunk + 1 < CHUNKS.min(28),
            "more counters than memory could hold"
        );
        let within = id - first_id(chunk);
        Self(within << INDEX | (chunk as u64 + 1))
    }

    /// The number of an assigned place.
    pub(super) fn id(self) -> u64 {
        first_id(self.chunk() - 1) + self.index() as u64
    }

    /// The place that is kept in `word`.
    #[inline(always)]
    pub(super) fn kept_in(word: &AtomicU64) -> Self {
        // Acquire pairs with the Release in `Places::of`: shares that the last owner of the place left behind are seen
        // cleared.
        Self::from_bits(word.load(Ordering::Acquire))
    }

    #[inline(always)]
    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// The chunk, below [`CHUNKS`].
    #[inline(always)]
    pub(super) fn chunk(self) -> usize {
        self.0 as usize % CHUNKS
    }

    fn index(self) -> usize {
        (self.0 >> INDEX) as usize
    }

    /// The share at this place of the chunk that begins at `chunk`.
    ///
    /// # Safety
    /// `chunk` points to [`chunk_length`] shares.
    #[inline(always)]
    pub(super) unsafe fn within<S>(self, chunk: *const S) -> *const S {
        #[cfg(not(percolog_loom))]
        {
            const { assert!(size_of::<S>() == SHARE) };
            // SAFETY: a place's index is that of one of the shares of its chunk, all of which are `SHARE` bytes.
            unsafe { chunk.byte_add((self.0 >> (INDEX - SHARE_BITS)) as usize & !(SHARE - 1)) }
        }
        // The model checker's atomics make shares of different sizes.
        #[cfg(percolog_loom)]
        // SAFETY: as above, with the share's own size.
        unsafe {
            chunk.add(self.index())
        }
    }
}

/// How many shares the chunk with this number has. Number 0 belongs to [`Place::NONE`].
pub(super) fn chunk_length(chunk: usize) -> usize {
    debug_assert!(chunk != 0, "the chunk of no place");
    FIRST << (chunk - 1)
}

fn first_id(chunk: usize) -> u64 {
    FIRST as u64 * ((1 << chunk) - 1)
}

/// Who has which place.
#[derive(Debug)]
pub(super) struct Places {
    ids: SlotLock<Ids>,
}

impl Places {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { ids: SlotLock::new(Ids::new()) }
        }
    }

    /// A place that nobody has.
    pub(super) fn take(&self) -> Place {
        Place::numbered(undivided(|| self.ids.lock().get().take()))
    }

    /// Takes back a place whose shares are clear.
    pub(super) fn give(&self, place: Place) {
        undivided(|| self.ids.lock().get().give(place.id()));
    }

    /// The place that is kept in `word`, assigned if there is none.
    pub(super) fn of(&self, word: &AtomicU64) -> Place {
        let place = Place::kept_in(word);
        if place != Place::NONE {
            return place;
        }
        let fresh = self.take();
        // Release hands on what taking the number from the locked `ids` made visible: the clearing of
        // the shares by the place's last owner (`take_back`). Its partners are the Acquire here and in
        // `Place::kept_in`.
        match word.compare_exchange(
            Place::NONE.bits(),
            fresh.bits(),
            Ordering::Release,
            Ordering::Acquire,
        ) {
            Ok(_) => fresh,
            Err(winner) => {
                self.give(fresh);
                Place::from_bits(winner)
            }
        }
    }

    /// Takes back the place that is kept in `word`, for another owner. Its shares are clear, and nobody uses the word.
    pub(super) fn take_back(&self, word: &AtomicU64) {
        let place = Place::kept_in(word);
        if place != Place::NONE {
            // Relaxed: nobody uses the word. The lock orders the clearing before the next owner's use.
            word.store(Place::NONE.bits(), Ordering::Relaxed);
            self.give(place);
        }
    }

    /// How many places there have ever been.
    #[cfg(test)]
    pub(super) fn ever(&self) -> u64 {
        self.ids.lock().get().ever()
    }
}

/// The numbers that are not in use.
///
/// They are reused smallest first: after many counters came and went, those that remain, and the
/// threads that come to use them, touch small chunks only.
#[derive(Debug)]
struct Ids {
    next: u64,
    free: BinaryHeap<Reverse<u64>>,
}

impl Ids {
    const fn new() -> Self {
        Self {
            next: 0,
            free: BinaryHeap::new(),
        }
    }

    /// The smallest number that is not in use.
    fn take(&mut self) -> u64 {
        if let Some(Reverse(id)) = self.free.pop() {
            return id;
        }
        self.next += 1;
        self.next - 1
    }

    /// Takes a number back. The shares behind it are zero.
    fn give(&mut self, id: u64) {
        debug_assert!(id < self.next);
        self.free.push(Reverse(id));
    }

    /// How many different numbers were ever taken.
    #[cfg(test)]
    fn ever(&self) -> u64 {
        self.next
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_are_distinct_within_their_chunks_and_reversible() {
        assert_eq!(Place::NONE.chunk(), 0);
        let mut before = Place::NONE;
        for id in 0..100_000 {
            let place = Place::numbered(id);
            assert_eq!(place.id(), id);
            assert!(place.chunk() > 0 && place.chunk() < CHUNKS);
            assert!(place.index() < chunk_length(place.chunk()));
            if place.chunk() == before.chunk() {
                assert_eq!(place.index(), before.index() + 1);
            } else {
                assert_eq!((place.chunk(), place.index()), (before.chunk() + 1, 0));
            }
            before = place;
        }
        // The last one there is.
        let last = 64 * ((1 << 27) - 1) - 1;
        assert_eq!(Place::numbered(last).id(), last);
    }

    #[test]
    fn numbers_are_reused_smallest_first() {
        let mut ids = Ids::new();
        for id in 0..10 {
            assert_eq!(ids.take(), id);
        }
        for id in [7, 2, 9] {
            ids.give(id);
        }
        assert_eq!([ids.take(), ids.take(), ids.take()], [2, 7, 9]);
        assert_eq!(ids.take(), 10);
    }
}
