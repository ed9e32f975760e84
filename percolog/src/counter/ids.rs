//! Which cell of every row is a counter's.

use super::bank::Own;
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
pub(super) const SHARE: usize = 16;
/// The model checker's atomics have a size of their own.
#[cfg(percolog_loom)]
pub(super) const SHARE: usize = size_of::<Own>();

const _: () = assert!(size_of::<Own>() == SHARE && CHUNKS.is_power_of_two());

/// Where a counter's share lies in every row: the chunk in the lowest byte, above it the distance in
/// bytes from the chunk's start. Decoding takes two instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    /// No place has been assigned. Decodes to a chunk that no row has, so that looking up a share
    /// needs no separate test.
    pub(super) const NONE: Self = Self(0);

    /// The place with this number.
    pub(super) fn numbered(id: u64) -> Self {
        let chunk = (id / FIRST as u64 + 1).ilog2() as usize;
        // 64 · (2^31 − 1) counters of 32 bytes do not fit any memory.
        assert!(chunk + 1 < CHUNKS, "more counters than memory could hold");
        let within = id - first_id(chunk);
        Self((within * SHARE as u64) << 8 | (chunk as u64 + 1))
    }

    /// The number of an assigned place.
    pub(super) fn id(self) -> u64 {
        first_id(self.chunk() - 1) + self.offset() as u64 / SHARE as u64
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

    /// The distance from the chunk's start in bytes.
    #[inline(always)]
    pub(super) fn offset(self) -> usize {
        (self.0 >> 8) as usize
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

/// The numbers that are not in use.
///
/// They are reused smallest first: after many counters came and went, those that remain, and the
/// threads that come to use them, touch small chunks only.
#[derive(Debug)]
pub(super) struct Ids {
    next: u64,
    free: BinaryHeap<Reverse<u64>>,
}

impl Ids {
    pub(super) const fn new() -> Self {
        Self {
            next: 0,
            free: BinaryHeap::new(),
        }
    }

    /// The smallest number that is not in use.
    pub(super) fn take(&mut self) -> u64 {
        if let Some(Reverse(id)) = self.free.pop() {
            return id;
        }
        self.next += 1;
        self.next - 1
    }

    /// Takes a number back. The shares behind it are zero.
    pub(super) fn give(&mut self, id: u64) {
        debug_assert!(id < self.next);
        self.free.push(Reverse(id));
    }

    /// How many different numbers were ever taken.
    #[cfg(test)]
    pub(super) fn ever(&self) -> u64 {
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
            assert!(place.offset() + SHARE <= chunk_length(place.chunk()) * SHARE);
            if place.chunk() == before.chunk() {
                assert_eq!(place.offset(), before.offset() + SHARE);
            } else {
                assert_eq!((place.chunk(), place.offset()), (before.chunk() + 1, 0));
            }
            before = place;
        }
        // The last one there is.
        let last = 64 * ((1 << 31) - 1) - 1;
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
