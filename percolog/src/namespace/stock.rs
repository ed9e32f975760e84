//! The ids that belong to no slot: what slots take from when they run out, and where contiguous ids come from.
//!
//! Ids lie in *chunks* of 64, and of each chunk one word says which of its ids are here. A chunk with all of them here is joined with
//! its neighbour, if that is the same, into a block twice as long, and so on: blocks of any power of two, aligned to their
//! length (a buddy allocator). There is a list for each length. A chunk of which only a part is here stands in the list of the longest
//! aligned run that it has. So to join and to split inside of a chunk is to set and to clear bits.
//!
//! *Fragmentation.* An extent of *n* ids is taken out of a block of the next power of two, and what it does not need goes back at
//! once: no id is lost inside. But it begins where such a block can begin, so one id in use keeps the blocks around it from
//! being joined, and an extent may not be had although enough ids are free. Single ids are taken from the shortest blocks
//! first, to leave long ones whole.
//!
//! All of this is used by one thread at a time, under the table's lock.

use super::shelf::{List, NIL};
use super::trie::{Entry, Trie};
use crate::sync::atomic::Ordering;

/// How many bits of an index name an id in its chunk.
#[cfg(not(percolog_loom))]
pub(super) const CHUNK_BITS: u32 = 6;
#[cfg(percolog_loom)]
pub(super) const CHUNK_BITS: u32 = 1;

/// How many ids a chunk has.
pub(super) const CHUNK: u32 = 1 << CHUNK_BITS;

/// All ids of a chunk.
const FULL: u64 = u64::MAX >> (64 - CHUNK);

/// A slot that takes ids takes about so many at once.
const ENOUGH: usize = CHUNK as usize / 2;

/// Lengths that lists are for, by their binary logarithm.
const CLASSES: usize = 32;

/// In no list.
const NONE: u8 = u8::MAX;

/// What is known of 64 neighbouring ids.
pub(super) struct Chunk {
    /// A bit for each id: whether it is here.
    free: u64,
    /// Its neighbours in its list.
    next: u32,
    previous: u32,
    /// The list that it is in.
    class: u8,
}

impl Chunk {
    pub(super) const fn new() -> Self {
        Self {
            free: 0,
            next: NIL,
            previous: NIL,
            class: NONE,
        }
    }
}

/// Where the aligned runs of `1 << class` set bits begin.
fn runs(mask: u64, class: u32) -> u64 {
    let mut runs = mask;
    for smaller in 0..class {
        let length = 1 << smaller;
        // A run of twice the length begins at an even multiple of the length, and two begin there, one behind the other.
        runs &= (runs >> length) & multiples(2 * length);
    }
    runs
}

/// Bits at the multiples of a power of two.
fn multiples(of: u32) -> u64 {
    if of >= 64 {
        1
    } else {
        u64::MAX / ((1 << of) - 1)
    }
}

/// The length of the longest aligned run of set bits, by its binary logarithm.
fn longest(mask: u64) -> u8 {
    if mask == 0 {
        return NONE;
    }
    let mut class = 0;
    while class < CHUNK_BITS && runs(mask, class + 1) != 0 {
        class += 1;
    }
    class as u8
}

/// Where to cut `1 << class` set bits out of those: out of the shortest aligned run that is long enough.
fn cut(mask: u64, class: u32) -> u32 {
    for class in class..=CHUNK_BITS {
        let longer = if class < CHUNK_BITS {
            runs(mask, class + 1)
        } else {
            0
        };
        let alone = runs(mask, class) & !(longer | longer.checked_shl(1 << class).unwrap_or(0));
        if alone != 0 {
            return alone.trailing_zeros();
        }
    }
    unreachable!("there is such a run")
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stock {
    /// The first chunk of each list.
    heads: [u32; CLASSES],
    /// Chunks from here on have never been used.
    frontier: u32,
    /// No index reaches this.
    limit: u32,
    /// How many ids are here.
    free: usize,
}

impl Stock {
    pub(super) const fn new(limit: u32) -> Self {
        Self {
            heads: [NIL; CLASSES],
            frontier: 0,
            limit,
            free: 0,
        }
    }

    /// How many ids there have ever been here.
    pub(super) fn seen(&self) -> u32 {
        self.limit.min(self.frontier.saturating_mul(CHUNK))
    }

    pub(super) fn free(&self) -> usize {
        self.free
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    fn with<T, R>(trie: &Trie<T>, number: u32, f: impl FnOnce(&mut Chunk) -> R) -> R {
        match trie.chunk(number) {
            // SAFETY: the stock is used by one thread at a time, and `f` uses no other chunk.
            Some(chunk) => chunk.with_mut(|chunk| f(unsafe { &mut *chunk })),
            None => unreachable!("chunks below the frontier have a leaf"),
        }
    }

    // ── Lists ──

    fn link<T>(&mut self, trie: &Trie<T>, number: u32, class: u8) {
        let head = core::mem::replace(&mut self.heads[usize::from(class)], number);
        Self::with(trie, number, |chunk| {
            chunk.class = class;
            chunk.next = head;
            chunk.previous = NIL;
        });
        if head != NIL {
            Self::with(trie, head, |chunk| chunk.previous = number);
        }
    }

    fn unlink<T>(&mut self, trie: &Trie<T>, number: u32) {
        let (class, next, previous) = Self::with(trie, number, |chunk| {
            let class = core::mem::replace(&mut chunk.class, NONE);
            (class, chunk.next, chunk.previous)
        });
        if class == NONE {
            return;
        }
        if previous == NIL {
            self.heads[usize::from(class)] = next;
        } else {
            Self::with(trie, previous, |chunk| chunk.next = next);
        }
        if next != NIL {
            Self::with(trie, next, |chunk| chunk.previous = previous);
        }
    }

    /// The shortest of the lengths from this one on of which there is a block.
    fn shortest(&self, from: u32) -> Option<u32> {
        (from..CLASSES as u32).find(|class| self.heads[*class as usize] != NIL)
    }

    // ── Giving ──

    /// Puts ids of one chunk here. None of them may be here already.
    fn put_mask<T>(&mut self, trie: &Trie<T>, number: u32, mask: u64) {
        if mask == 0 {
            return;
        }
        self.unlink(trie, number);
        let free = Self::with(trie, number, |chunk| {
            debug_assert_eq!(chunk.free & mask, 0, "an id is given back once");
            chunk.free |= mask;
            chunk.free
        });
        self.free += mask.count_ones() as usize;
        if free == FULL {
            self.join(trie, number);
        } else {
            self.link(trie, number, longest(free));
        }
    }

    /// Links a chunk that is entirely here, joined with all neighbours that it can be joined with.
    fn join<T>(&mut self, trie: &Trie<T>, mut number: u32) {
        let mut class = CHUNK_BITS as u8;
        while usize::from(class) + 1 < CLASSES {
            let neighbour = number ^ (1 << (u32::from(class) - CHUNK_BITS));
            if neighbour >= self.frontier
                || Self::with(trie, neighbour, |chunk| chunk.class) != class
            {
                break;
            }
            self.unlink(trie, neighbour);
            number = number.min(neighbour);
            class += 1;
        }
        self.link(trie, number, class);
    }

    /// Puts an id here.
    pub(super) fn put<T>(&mut self, trie: &Trie<T>, index: u32) {
        self.put_mask(trie, index / CHUNK, 1 << (index % CHUNK));
    }

    /// Puts neighbouring ids here.
    pub(super) fn put_range<T>(&mut self, trie: &Trie<T>, start: u32, end: u32) {
        let mut at = start;
        while at < end {
            let number = at / CHUNK;
            let stop = end.min((number + 1) * CHUNK);
            let mask = (FULL >> (CHUNK - (stop - at))) << (at % CHUNK);
            self.put_mask(trie, number, mask);
            at = stop;
        }
    }

    /// Puts the ids of a list here, but for those that are worn out; says how many of these there were.
    pub(super) fn put_list<T>(&mut self, trie: &Trie<T>, mut list: List) -> usize {
        let mut worn = 0;
        while let Some((index, entry)) = list.pop(trie) {
            if is_worn(entry) {
                worn += 1;
            } else {
                self.put(trie, index);
            }
        }
        worn
    }

    // ── Growing ──

    /// How many chunks there can be, the last one perhaps with fewer ids.
    pub(super) fn chunks(&self) -> u32 {
        self.limit.div_ceil(CHUNK)
    }

    /// Where the frontier has to be, so that there is a block of this length that there was not; nothing if the limit is in the way.
    pub(super) fn beyond<T>(&self, trie: &Trie<T>, class: u32) -> Option<u32> {
        if class < CHUNK_BITS {
            return (self.frontier < self.chunks()).then_some(self.frontier + 1);
        }
        let length = 1 << (class - CHUNK_BITS);
        let whole = |end: &u32| *end <= self.limit / CHUNK;
        // The block that the frontier is in, if all of it that is before the frontier is here.
        let start = self.frontier / length * length;
        let is_here = |number| Self::with(trie, number, |chunk| chunk.free == FULL);
        if let Some(end) = start.checked_add(length).filter(whole)
            && (start..self.frontier).all(is_here)
        {
            return Some(end);
        }
        self.frontier
            .checked_next_multiple_of(length)?
            .checked_add(length)
            .filter(whole)
    }

    /// Whether all chunks before `end` have a leaf; if not, one that has none.
    pub(super) fn missing<T>(&self, trie: &Trie<T>, end: u32) -> Option<u32> {
        (self.frontier..end).find(|number| trie.chunk(*number).is_none())
    }

    /// Takes the chunks before `end` into use. They have leaves.
    pub(super) fn grow<T>(&mut self, trie: &Trie<T>, end: u32) {
        while self.frontier < end {
            let number = self.frontier;
            self.frontier += 1;
            let start = number * CHUNK;
            self.put_range(trie, start, self.limit.min(start.saturating_add(CHUNK)));
        }
    }

    // ── Taking ──

    /// Takes the first block of a list, and splits it until it is this long, or a chunk.
    fn split<T>(&mut self, trie: &Trie<T>, class: u32, until: u32) -> u32 {
        let number = self.heads[class as usize];
        self.unlink(trie, number);
        for class in (until.max(CHUNK_BITS)..class).rev() {
            self.link(trie, number + (1 << (class - CHUNK_BITS)), class as u8);
        }
        number
    }

    /// Takes a block of `1 << class` ids, aligned to its length; where it begins.
    pub(super) fn take_block<T>(&mut self, trie: &Trie<T>, class: u32) -> Option<u32> {
        let number = self.split(trie, self.shortest(class)?, class);
        self.free -= 1 << class;
        if class >= CHUNK_BITS {
            for number in number..number + (1 << (class - CHUNK_BITS)) {
                Self::with(trie, number, |chunk| chunk.free = 0);
            }
            return Some(number * CHUNK);
        }
        let (at, left) = Self::with(trie, number, |chunk| {
            let at = cut(chunk.free, class);
            chunk.free &= !((FULL >> (CHUNK - (1 << class))) << at);
            (at, chunk.free)
        });
        if left != 0 {
            self.link(trie, number, longest(left));
        }
        Some(number * CHUNK + at)
    }

    /// Takes single ids, some dozens of them; from what cannot be part of a long block, as long as there is such.
    pub(super) fn take_some<T>(&mut self, trie: &Trie<T>) -> List {
        let mut list = List::new();
        while list.len() < ENOUGH.max(1) {
            let Some(class) = self.shortest(0) else { break };
            if class >= CHUNK_BITS && !list.is_empty() {
                break;
            }
            let number = self.split(trie, class, CHUNK_BITS);
            let mut mask = Self::with(trie, number, |chunk| core::mem::take(&mut chunk.free));
            self.free -= mask.count_ones() as usize;
            while mask != 0 {
                // From above, so that the list begins with the smallest.
                let at = 63 - mask.leading_zeros();
                mask &= !(1 << at);
                let index = number * CHUNK + at;
                list.push(index, trie.entry(index));
            }
        }
        list
    }
}

/// Whether an id that is not in use has had all its generations.
pub(super) fn is_worn<T>(entry: &Entry<T>) -> bool {
    // Relaxed: an id that is not in use is changed by whoever has it, and handed over under locks.
    entry.word.load(Ordering::Relaxed) == 0
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_aligned_and_whole() {
        for mask in [
            0,
            1,
            2,
            3,
            6,
            0b1111_0110,
            u64::MAX,
            u64::MAX << 1,
            0xffff_0000_ffff_ffff,
        ] {
            for class in 0..=6 {
                let length = 1u32 << class;
                let block = if class == 6 {
                    u64::MAX
                } else {
                    (1 << length) - 1
                };
                let expected = (0..64)
                    .step_by(length as usize)
                    .filter(|at| (mask >> at) & block == block)
                    .fold(0, |runs, at| runs | 1u64 << at);
                assert_eq!(runs(mask, class), expected, "{mask:x} {class}");
            }
        }
        assert_eq!(longest(0b110), 0);
        assert_eq!(longest(0b1100), 1);
        assert_eq!(longest(u64::MAX), 6);
        assert_eq!(longest(0), NONE);
    }

    #[test]
    fn what_is_given_back_is_joined_again() {
        let trie: Trie<u8> = Trie::new();
        let mut stock = Stock::new(1000);
        assert_eq!(stock.chunks(), 16);
        for number in 0..16 {
            trie.make(number * CHUNK).expect("there is memory");
        }
        stock.grow(&trie, 16);
        assert_eq!((stock.free(), stock.seen()), (1000, 1000));
        // 512, 256, 128, 64, 32, and 8 at the end.
        assert_eq!(stock.take_block(&trie, 10), None);
        assert_eq!(stock.take_block(&trie, 9), Some(0));
        assert_eq!(stock.take_block(&trie, 9), None);
        assert_eq!(stock.take_block(&trie, 3), Some(992));
        assert_eq!(stock.take_block(&trie, 4), Some(960));
        stock.put_range(&trie, 0, 100);
        stock.put(&trie, 300);
        stock.put_range(&trie, 101, 300);
        stock.put_range(&trie, 301, 512);
        assert_eq!(stock.take_block(&trie, 9), None, "one is missing");
        stock.put(&trie, 100);
        assert_eq!(stock.take_block(&trie, 9), Some(0));
        let mut list = stock.take_some(&trie);
        let first = list.pop(&trie).map(|(index, _)| index);
        assert!(first.is_some_and(|index| index >= 960), "{first:?}");
        assert_eq!(stock.put_list(&trie, list), 0);
    }
}
