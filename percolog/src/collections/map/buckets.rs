//! Shortcuts into the list: one for each bucket of a hash map, of which there are twice as many when it is time.
//!
//! Entries lie in the list in the order of their hashes, read from the lowest bit to the highest (O. Shalev and N. Shavit,
//! *Split-Ordered Lists: Lock-Free Extensible Hash Tables*). So those of one bucket lie side by side, however many buckets there
//! are: if there are twice as many, each is split where a sentinel is put, and no entry moves.
//!
//! A bucket *is* its sentinel. They lie in segments, of which each next one doubles their number; a segment is made of zeros, and a
//! bucket's sentinel is linked when something is first added there. Until then, one walks from the bucket that it will be split
//! off. Bucket 0 is the head of the list. So there is always a place to begin, also where memory for buckets has run out.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::{self, NonNull};

use super::list;
use super::node::{Node, Spot};
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::const_fn;

/// How many buckets the first segment has, as a power of two.
const FIRST_BITS: u32 = if cfg!(percolog_loom) { 1 } else { 4 };
const FIRST: usize = 1 << FIRST_BITS;
/// How many segments there can be.
const SEGMENTS: usize = if cfg!(percolog_loom) { 2 } else { 28 };
/// How many buckets there can be.
const MOST: usize = FIRST << (SEGMENTS - 1);

pub(super) struct Buckets {
    /// How many are used: a power of two.
    count: AtomicUsize,
    segments: [AtomicPtr<Node>; SEGMENTS],
}

/// The segment that a bucket is in, and its place there.
#[inline(always)]
fn locate(bucket: usize) -> (usize, usize) {
    let segment = ((bucket | (FIRST - 1)).ilog2() + 1 - FIRST_BITS) as usize;
    // What all segments before it have, or nothing before the first.
    let before = ((FIRST / 2) << segment) & !(FIRST - 1);
    (segment, bucket - before)
}

/// How many buckets a segment has.
fn length(segment: usize) -> usize {
    if segment == 0 {
        FIRST
    } else {
        (FIRST / 2) << segment
    }
}

/// The number of an entry with this hash.
#[inline(always)]
pub(super) fn order_of_entry(hash: u64) -> u64 {
    hash.reverse_bits() | 1
}

/// The number of a bucket's sentinel: smaller than those of all entries in the bucket, and not smaller than those of all in front
/// of it.
fn order_of_bucket(bucket: usize) -> u64 {
    (bucket as u64).reverse_bits()
}

impl Buckets {
    const_fn! {
        /// For so many entries.
        pub(super) const fn new(capacity: usize) -> Self {
            let count = if capacity <= FIRST {
                FIRST
            } else if capacity >= MOST {
                MOST
            } else {
                capacity.next_power_of_two()
            };
            Self {
                count: AtomicUsize::new(count),
                #[cfg(not(percolog_loom))]
                segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
                #[cfg(percolog_loom)]
                segments: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            }
        }
    }

    /// How many buckets are used.
    pub(super) fn count(&self) -> usize {
        // Relaxed: any number that was ever there is a right one; whether a bucket is linked says the bucket.
        self.count.load(Ordering::Relaxed)
    }

    /// Doubles the number of buckets if it is this one.
    pub(super) fn grow(&self, from: usize) {
        if from < MOST {
            // Relaxed, both: as in `count`.
            let _ =
                self.count
                    .compare_exchange(from, 2 * from, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// A bucket, if its segment is there.
    #[inline(always)]
    fn get(&self, bucket: usize) -> Option<Spot> {
        let (segment, at) = locate(bucket);
        // Acquire pairs with the Release in `segment`: its buckets are initialized.
        let segment = self.segments[segment].load(Ordering::Acquire);
        // SAFETY: a segment has so many buckets.
        NonNull::new(segment).map(|segment| unsafe { segment.add(at) })
    }

    #[inline(always)]
    fn linked(&self, bucket: usize) -> Option<Spot> {
        // SAFETY: buckets live as long as this.
        self.get(bucket)
            .filter(|bucket| unsafe { bucket.as_ref() }.is_linked())
    }

    /// Where to begin to look for an entry with this hash. Writes nothing.
    #[inline(always)]
    pub(super) fn start(&self, head: Spot, hash: u64) -> Spot {
        let mut bucket = hash as usize & (self.count() - 1);
        while bucket != 0 {
            if let Some(start) = self.linked(bucket) {
                return start;
            }
            // It will be split off that one.
            bucket ^= 1 << bucket.ilog2();
        }
        head
    }

    /// The same, for who adds an entry: the bucket is linked, if there is memory for it.
    ///
    /// # Safety
    /// The caller is in a section of the list's domain; `head` is the list's.
    #[inline]
    pub(super) unsafe fn start_to_add(&self, head: Spot, hash: u64) -> Spot {
        let bucket = hash as usize & (self.count() - 1);
        if bucket == 0 {
            return head;
        }
        match self.linked(bucket) {
            Some(start) => start,
            // SAFETY: by contract.
            None => unsafe { self.link(head, bucket) },
        }
    }

    /// Links a bucket, and before that those that it was split off.
    ///
    /// # Safety
    /// As for [`start_to_add`](Self::start_to_add).
    #[cold]
    unsafe fn link(&self, head: Spot, bucket: usize) -> Spot {
        let mut start = head;
        let mut bits = bucket;
        while bits != 0 {
            // With one more of its bits, from the lowest on.
            bits &= bits - 1;
            let ancestor = bucket ^ bits;
            let Some(spot) = self.segment(ancestor) else {
                break;
            };
            // SAFETY: by contract; `start` is a sentinel that is linked, and in front, for its bits are the ancestor's lower ones.
            unsafe { list::link_bucket(start, spot, order_of_bucket(ancestor)) };
            start = spot;
        }
        start
    }

    /// A bucket, in a segment that is made if it is not there; `None` if there is no memory.
    fn segment(&self, bucket: usize) -> Option<Spot> {
        if let Some(there) = self.get(bucket) {
            return Some(there);
        }
        let (segment, _) = locate(bucket);
        let layout = Layout::array::<Node>(length(segment)).ok()?;
        // SAFETY: the layout has a size.
        let fresh = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast::<Node>();
        #[cfg(percolog_loom)]
        for at in 0..length(segment) {
            // SAFETY: just allocated, with room for so many.
            unsafe { fresh.add(at).write(Node::bucket()) };
        }
        // Release publishes the buckets to the Acquire in `get`. Relaxed on failure: what is there is looked up again.
        let published = self.segments[segment].compare_exchange(
            ptr::null_mut(),
            fresh.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        if published.is_err() {
            // SAFETY: allocated above, and nobody else has it.
            unsafe { release(fresh, segment) };
        }
        self.get(bucket)
    }

    /// Bytes of the segments, as asked of the allocator.
    pub(super) fn memory(&self) -> usize {
        (0..SEGMENTS)
            // Relaxed: a number.
            .filter(|at| !self.segments[*at].load(Ordering::Relaxed).is_null())
            .map(|at| length(at) * size_of::<Node>())
            .sum()
    }
}

/// # Safety
/// The segment of that number, made by `segment`, and not used after this.
unsafe fn release(buckets: NonNull<Node>, segment: usize) {
    // Models have nodes that own something.
    #[cfg(percolog_loom)]
    for at in 0..length(segment) {
        // SAFETY: by contract.
        unsafe { buckets.add(at).drop_in_place() };
    }
    if let Ok(layout) = Layout::array::<Node>(length(segment)) {
        // SAFETY: by contract, with the layout it was allocated with.
        unsafe { dealloc(buckets.as_ptr().cast(), layout) };
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        for at in 0..SEGMENTS {
            // Relaxed: nobody else has it.
            if let Some(segment) = NonNull::new(self.segments[at].load(Ordering::Relaxed)) {
                // SAFETY: made by `segment`; whoever drops this has emptied the list.
                unsafe { release(segment, at) };
            }
        }
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for bucket in 0..10_000 {
            assert_eq!(locate(bucket), expected, "{bucket}");
            expected.1 += 1;
            if expected.1 == length(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        let (segment, at) = locate(MOST - 1);
        assert_eq!((segment, at), (SEGMENTS - 1, length(SEGMENTS - 1) - 1));
    }

    #[test]
    fn a_bucket_lies_in_front_of_its_entries_and_behind_the_others() {
        for count in [16usize, 64, 1024] {
            for hash in (0..5000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let bucket = hash as usize & (count - 1);
                let order = order_of_entry(hash);
                assert!(order_of_bucket(bucket) < order);
                let behind = (0..count)
                    .map(order_of_bucket)
                    .filter(|next| *next > order_of_bucket(bucket))
                    .min();
                assert!(behind.is_none_or(|next| order < next));
            }
        }
    }
}
