//! The translation tables of the slots: where a call finds its representative.
//!
//! Each slot has a table with an [`Entry`] for each index. It is read by calls on that slot, and written when an object is
//! bound there or unbound; so its lines stay in the slot's cache.
//!
//! *Invariant:* an entry is written by one thread at a time: whoever has the lock of the object that the index belongs to. (An
//! index changes hands after quiescence, and whoever gets it has the last owner's writes behind it.)
//!
//! *Why a call never sees half of an entry.* An entry is a word, with the object's generation and a version in it, and the two halves of a
//! pointer. Its writer stores a word that no reference has, with the next version; then the halves; then the word with the generation and
//! another version. A reader loads the word, the halves, and the word again. If it loads a half that was stored later than the word was,
//! then what the writer stored in the word before that half is seen by the second look (Release and Acquire of the half), and that
//! differs from what the first look saw: versions are not repeated until 2³¹ bindings later. All of these would have to happen in one
//! section of the reader, and all that they replace would have to be kept until that ends.

use core::marker::PhantomData;
use core::mem;
use core::ptr;

use crate::cpu::{CoreId, PerCore};
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::const_fn;
use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Entries in a slot's own place. Each further segment doubles what is there.
#[cfg(not(percolog_loom))]
const FIRST: usize = 256;
#[cfg(percolog_loom)]
const FIRST: usize = 2;

/// Segments besides the first.
#[cfg(not(percolog_loom))]
const SEGMENTS: usize = 17;
#[cfg(percolog_loom)]
const SEGMENTS: usize = 1;

/// How many indices there are.
pub(super) const INDICES: usize = FIRST << SEGMENTS;

/// A pointer to an interface, taken apart: two words of which only [`Words::pointer`] knows what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Words([*mut (); 2]);

impl Words {
    const NONE: Self = Self([ptr::null_mut(); 2]);

    pub(super) fn of<I: ?Sized>(pointer: *const I) -> Self {
        const { assert!(mem::size_of::<*const I>() <= mem::size_of::<Self>()) };
        let mut words = Self::NONE;
        // SAFETY: a pointer is initialized memory without padding, no larger than two words (checked above), and is copied as
        // what it is: words of pointer type keep its provenance.
        unsafe {
            ptr::copy_nonoverlapping(
                ptr::from_ref(&pointer).cast::<u8>(),
                words.0.as_mut_ptr().cast::<u8>(),
                mem::size_of::<*const I>(),
            );
        }
        words
    }

    /// # Safety
    /// The words were [made](Self::of) of a pointer of this type.
    #[inline(always)]
    pub(super) unsafe fn pointer<I: ?Sized>(self) -> *const I {
        const { assert!(mem::size_of::<*const I>() <= mem::size_of::<Self>()) };
        // SAFETY: by contract: the first bytes are those of such a pointer. They need not be aligned better than words are.
        unsafe { ptr::from_ref(&self.0).cast::<*const I>().read_unaligned() }
    }
}

/// What a slot knows of one index.
#[derive(Debug)]
#[repr(C, align(32))]
pub(super) struct Entry {
    /// The generation, 0 if nothing is bound, in the upper half; the version in the lower.
    word: AtomicU64,
    halves: [AtomicPtr<()>; 2],
}

const fn generation_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The next version of a word, with this generation.
const fn next(word: u64, generation: u32) -> u64 {
    (generation as u64) << 32 | (word as u32).wrapping_add(1) as u64
}

impl Entry {
    /// The pointer that is bound for an object of this generation. Wait-free: three loads of one line, and one of them again.
    #[inline(always)]
    pub(super) fn find(&self, generation: u32) -> Option<Words> {
        // Acquire pairs with the Release at the end of `bind`: the halves that belong to the word are seen, and what they
        // point to.
        let word = self.word.load(Ordering::Acquire);
        if generation_of(word) != generation {
            return None;
        }
        // Acquire, both, pairs with the Release in `write`: see the module. Neither is it done after the second look.
        let words = Words([
            self.halves[0].load(Ordering::Acquire),
            self.halves[1].load(Ordering::Acquire),
        ]);
        // Relaxed: ordered after the halves by their Acquire, and nothing else is done on its strength.
        if self.word.load(Ordering::Relaxed) != word {
            return None;
        }
        Some(words)
    }

    /// Binds an object. Whoever calls has its lock.
    pub(super) fn bind(&self, generation: u32, words: Words) {
        self.write(words);
        // Relaxed: nobody else writes it. Release pairs with the Acquire in `find`.
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(next(word, generation), Ordering::Release);
    }

    /// Takes the binding away. Whoever calls has the object's lock.
    pub(super) fn unbind(&self) {
        self.write(Words::NONE);
    }

    fn write(&self, words: Words) {
        // Relaxed: nobody else writes it; and the stores below, which are Release, come after this for whoever sees one of them.
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(next(word, 0), Ordering::Relaxed);
        for (half, value) in self.halves.iter().zip(words.0) {
            // Release pairs with the Acquire in `find`: who sees this sees the word above, or a later one.
            half.store(value, Ordering::Release);
        }
    }

    #[cfg(any(percolog_loom, test))]
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            halves: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }
}

/// One slot's table.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Table {
    /// In the place itself: one load less.
    first: [Entry; FIRST],
    /// Segment *n* has `FIRST << n` entries. They never move.
    segments: [AtomicPtr<Entry>; SEGMENTS],
    owns: PhantomData<alloc::boxed::Box<[Entry]>>,
}

/// The segment of an index beyond the first ones, and the place there.
#[inline(always)]
const fn locate(index: usize) -> (usize, usize) {
    let segment = (index / FIRST).ilog2() as usize;
    (segment, index - (FIRST << segment))
}

fn layout(segment: usize) -> Layout {
    match Layout::array::<Entry>(FIRST << segment).and_then(|it| it.align_to(crate::cpu::LINE_SIZE))
    {
        Ok(layout) => layout.pad_to_align(),
        Err(_) => unreachable!("a segment has at most 2²⁴ entries"),
    }
}

impl Default for Table {
    fn default() -> Self {
        #[cfg(not(percolog_loom))]
        let first = [const {
            Entry {
                word: AtomicU64::new(0),
                halves: [const { AtomicPtr::new(ptr::null_mut()) }; 2],
            }
        }; FIRST];
        #[cfg(percolog_loom)]
        let first = core::array::from_fn(|_| Entry::new());
        Self {
            first,
            segments: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            owns: PhantomData,
        }
    }
}

impl Table {
    /// The entry of an index, if its segment is there.
    #[inline(always)]
    pub(super) fn entry(&self, index: u32) -> Option<&Entry> {
        let index = index as usize;
        match self.first.get(index) {
            Some(entry) => Some(entry),
            None => self.further(index),
        }
    }

    #[inline]
    fn further(&self, index: usize) -> Option<&Entry> {
        let (segment, at) = locate(index);
        // Acquire pairs with the Release in `grow`: the segment is seen empty, or later.
        let entries = self.segments.get(segment)?.load(Ordering::Acquire);
        if entries.is_null() {
            return None;
        }
        // SAFETY: a published segment has `FIRST << segment` entries, `at` is below that, and it lives as long as the table.
        Some(unsafe { &*entries.add(at) })
    }

    /// The entry of an index, with its segment made if it is the first there. Whether the index is below [`INDICES`] is the
    /// caller's business.
    fn entry_or_make(&self, index: u32) -> &Entry {
        loop {
            if let Some(entry) = self.entry(index) {
                return entry;
            }
            self.grow(locate(index as usize).0);
        }
    }

    #[cold]
    fn grow(&self, segment: usize) {
        let layout = layout(segment);
        let fresh = allocate(layout, FIRST << segment);
        // Release publishes the entries to the Acquire in `further`. On failure another thread's segment is used, after
        // an Acquire there.
        if self.segments[segment]
            .compare_exchange(ptr::null_mut(), fresh, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            // SAFETY: allocated above with this layout, and nobody else has seen it.
            unsafe { dealloc(fresh.cast(), layout) };
        }
    }
}

/// Entries of which nothing is bound. Memory that the system has just cleared is not touched.
fn allocate(layout: Layout, count: usize) -> *mut Entry {
    // SAFETY: the layout is not empty.
    let fresh = unsafe { alloc_zeroed(layout) }.cast::<Entry>();
    if fresh.is_null() {
        handle_alloc_error(layout);
    }
    // Zeros are an empty entry: a word without generation, and null pointers. Not so loom's.
    #[cfg(percolog_loom)]
    for at in 0..count {
        // SAFETY: there is room for `count` entries.
        unsafe { fresh.add(at).write(Entry::new()) };
    }
    let _ = count;
    fresh
}

impl Drop for Table {
    fn drop(&mut self) {
        for (segment, entries) in self.segments.iter().enumerate() {
            // Relaxed: nobody else uses the table any more.
            let entries = entries.load(Ordering::Relaxed);
            if !entries.is_null() {
                #[cfg(percolog_loom)]
                for at in 0..FIRST << segment {
                    // SAFETY: `allocate` made so many.
                    unsafe { ptr::drop_in_place(entries.add(at)) };
                }
                // SAFETY: made by `grow` with this layout, and nobody can reach it any more.
                unsafe { dealloc(entries.cast(), layout(segment)) };
            }
        }
    }
}

/// The tables of all slots.
#[derive(Debug)]
pub(super) struct Tables {
    slots: PerCore<Table>,
}

impl Tables {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self { slots: PerCore::new() }
        }
    }

    /// What is bound on a slot. Wait-free.
    #[inline(always)]
    pub(super) fn find(&self, slot: CoreId, index: u32, generation: u32) -> Option<Words> {
        self.slots.touched(slot)?.entry(index)?.find(generation)
    }

    /// The entry to write to.
    pub(super) fn entry(&self, slot: CoreId, index: u32) -> &Entry {
        self.slots.get(slot).entry_or_make(index)
    }

    /// The entry of an index, if there is one.
    pub(super) fn existing(&self, slot: CoreId, index: u32) -> Option<&Entry> {
        self.slots.touched(slot)?.entry(index)
    }

    /// Bytes asked of the allocator. What the system has not been made to provide by a touch is counted too.
    pub(super) fn memory(&self) -> usize {
        let segments: usize = self
            .slots
            .iter()
            .flat_map(|(_, table)| table.segments.iter().enumerate())
            // Relaxed: only asked whether there is one.
            .filter(|(_, entries)| !entries.load(Ordering::Relaxed).is_null())
            .map(|(segment, _)| layout(segment).size())
            .sum();
        self.slots.memory() + segments
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::{Entry, FIRST, INDICES, Table, Tables, Words, locate};
    use crate::cpu::CoreId;
    use core::fmt::Display;

    #[test]
    fn a_pointer_survives_being_taken_apart() {
        let number = 42_u32;
        let wide: &dyn Display = &number;
        // SAFETY: made of pointers of these types.
        unsafe {
            let back: *const dyn Display = Words::of::<dyn Display>(wide).pointer();
            assert_eq!((*back).to_string(), "42");
            let back: *const str = Words::of::<str>("abc").pointer();
            assert_eq!(&*back, "abc");
            let back: *const u32 = Words::of::<u32>(&number).pointer();
            assert_eq!(*back, 42);
        }
    }

    #[test]
    fn an_entry_knows_one_generation() {
        let entry = Entry::new();
        let words = Words::of::<u32>(&7);
        assert_eq!(entry.find(1), None);
        entry.bind(1, words);
        assert_eq!(entry.find(1), Some(words));
        assert_eq!(entry.find(3), None);
        entry.unbind();
        assert_eq!(entry.find(1), None);
        assert_eq!(entry.find(3), None);
    }

    #[test]
    fn segments_follow_one_another() {
        assert_eq!(locate(FIRST), (0, 0));
        assert_eq!(locate(2 * FIRST - 1), (0, FIRST - 1));
        assert_eq!(locate(2 * FIRST), (1, 0));
        assert_eq!(locate(INDICES - 1).0, super::SEGMENTS - 1);
        let table = Table::default();
        for index in [0, FIRST - 1, FIRST, 5 * FIRST, 100_000] {
            let words = Words::of::<u32>(&7);
            table.entry_or_make(index as u32).bind(5, words);
            let entry = table.entry(index as u32).map(|it| it.find(5));
            assert_eq!(entry, Some(Some(words)), "index {index}");
        }
    }

    #[test]
    fn slots_do_not_see_each_others_bindings() {
        let tables = Tables::new();
        let words = Words::of::<u32>(&7);
        tables.entry(CoreId::new(3), 9).bind(1, words);
        assert_eq!(tables.find(CoreId::new(3), 9, 1), Some(words));
        assert_eq!(tables.find(CoreId::new(2), 9, 1), None);
        assert!(tables.memory() > 0);
    }
}
