//! From an index to its entry: a radix trie that is looked up without a lock, and that only grows.
//!
//! The root is one word: a pointer to a node or a leaf, and in its low bits the height of what lies there. Everything that
//! hangs below a node says by its place how high it is, so one load tells a lookup all that it needs.
//!
//! *Why growing loses nothing.* A trie that is too low gets a new root, whose first child is the old one, by one
//! compare-and-swap of the root word. If somebody else was faster, the new root is freed, and it is looked at again how high the
//! trie is now. Nodes never move and never change what hangs below them, so whoever found the old root before, and hangs a leaf
//! below it, hangs it below the new one as well. A child is put into its place by compare-and-swap, too: of two that make the
//! same one, one is taken.
//!
//! *What is never freed.* Nodes and leaves stay until the trie is dropped. So a lookup needs a section for the values, and
//! none for its way to them.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;

use alloc::alloc::{Layout, alloc, dealloc};

use super::stock::{CHUNK, CHUNK_BITS, Chunk};
use crate::cpu::LINE_SIZE;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::sync::{UnsafeCell, const_fn};

/// How many bits of an index a node decides.
#[cfg(not(percolog_loom))]
const NODE_BITS: u32 = 9;
#[cfg(percolog_loom)]
const NODE_BITS: u32 = 1;

const NODE: usize = 1 << NODE_BITS;

/// The most bytes of values in a leaf, unless so few values take more.
const LEAF_BYTES: usize = 16 << 10;

/// The bits of the root word that say how high the trie is.
#[cfg(not(percolog_loom))]
const HEIGHT: usize = 0b11;
/// Nodes of one bit each make high tries.
#[cfg(percolog_loom)]
const HEIGHT: usize = 0b1_1111;

const _: () = assert!(
    LINE_SIZE > HEIGHT,
    "pointers to lines have room for the height"
);
#[cfg(not(percolog_loom))]
const _: () = assert!(
    CHUNK_BITS as usize + HEIGHT * NODE_BITS as usize >= 32,
    "every index has a place"
);

/// What an index that nobody has ever had begins with: no name, and not worn out.
const FRESH: u32 = 2;

/// What one index leads to.
pub(super) struct Entry<T> {
    /// The generation: odd while there is a value of that generation to be found, even while there is none; zero, when all
    /// generations have been used up.
    pub(super) word: AtomicU32,
    /// The index behind this one in the list that this one is in. Belongs to whoever has that list.
    pub(super) next: AtomicU32,
    /// There from before the word becomes odd until the id has been quiescent since it became even.
    pub(super) value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Entry<T> {
    /// The value.
    ///
    /// # Safety
    /// It is there, and stays for as long as what is returned is used.
    #[inline(always)]
    pub(super) unsafe fn value(&self) -> &T {
        // SAFETY: by contract it has been written; nobody writes what is there before it is dropped.
        self.value
            .with(|value| unsafe { (*value).assume_init_ref() })
    }
}

/// A root of a trie, taken apart.
#[derive(Clone, Copy)]
pub(super) struct Root {
    at: *mut (),
    /// How many bits of an index are decided from here on.
    bits: u32,
}

struct Node {
    children: [AtomicPtr<()>; NODE],
}

/// The allocator has no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoMemory;

pub(super) struct Trie<T> {
    root: AtomicPtr<()>,
    /// Of all nodes and leaves, as asked of the allocator.
    bytes: AtomicUsize,
    owns: PhantomData<T>,
    /// Values are put in through shared references, so a lifetime in `T` must not be shortened.
    takes: PhantomData<fn(T)>,
}

/// How many low bits of an index name an entry in its leaf.
const fn leaf_bits<T>() -> u32 {
    let most = if cfg!(percolog_loom) {
        CHUNK_BITS
    } else {
        CHUNK_BITS + 3
    };
    let mut bits = most;
    while bits > CHUNK_BITS && size_of::<Entry<T>>() << bits > LEAF_BYTES {
        bits -= 1;
    }
    bits
}

impl<T> Trie<T> {
    const LEAF_BITS: u32 = leaf_bits::<T>();
    const LEAF: usize = 1 << Self::LEAF_BITS;
    /// Chunks lie behind the entries of their leaf: a lookup never comes near them.
    const CHUNKS_AT: usize =
        (size_of::<Entry<T>>() * Self::LEAF).next_multiple_of(align_of::<UnsafeCell<Chunk>>());

    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                root: AtomicPtr::new(ptr::null_mut()),
                bytes: AtomicUsize::new(0),
                owns: PhantomData,
                takes: PhantomData,
            }
        }
    }

    /// How many bytes have been asked of the allocator.
    pub(super) fn memory(&self) -> usize {
        // Relaxed: a number.
        self.bytes.load(Ordering::Relaxed)
    }

    /// The root as it is now. It leads to everything that it leads to now, for as long as the trie lives: a later root is above it.
    #[inline(always)]
    pub(super) fn root(&self) -> Root {
        // Acquire pairs with the Release with which the root was put there: what lies there is initialized.
        let root = self.root.load(Ordering::Acquire);
        Root {
            at: root.map_addr(|address| address & !HEIGHT),
            bits: Self::LEAF_BITS + NODE_BITS * (root.addr() & HEIGHT) as u32,
        }
    }

    /// The entries of the leaf that an index is in; null if there is none below this root of the trie.
    #[inline(always)]
    fn leaf(root: Root, index: u32) -> *mut Entry<T> {
        let Root { mut at, mut bits } = root;
        if u64::from(index) >> bits != 0 {
            return ptr::null_mut();
        }
        while bits > Self::LEAF_BITS && !at.is_null() {
            bits -= NODE_BITS;
            // SAFETY: what lies above a leaf is a node, if it is there.
            at = unsafe { Self::below(at, index >> bits) };
        }
        at.cast()
    }

    /// The entry of an index that is there.
    ///
    /// # Safety
    /// The root was found in this trie, after the entry had been made.
    #[inline(always)]
    pub(super) unsafe fn known(&self, root: Root, index: u32) -> &Entry<T> {
        let Root { mut at, mut bits } = root;
        // The usual height first: what is shifted by is a constant there, and nothing is above what is left.
        if bits == Self::LEAF_BITS + NODE_BITS {
            // SAFETY: this root is a node, and decides all that the index has above its leaf.
            let child = unsafe {
                (*at.cast::<Node>())
                    .children
                    .get_unchecked((index >> Self::LEAF_BITS) as usize)
            };
            // Acquire: as in `below`.
            at = child.load(Ordering::Acquire);
        } else {
            while bits > Self::LEAF_BITS {
                bits -= NODE_BITS;
                // SAFETY: what lies above a leaf is a node, and all that lead to this one are there.
                at = unsafe { Self::below(at, index >> bits) };
            }
        }
        // SAFETY: by contract this is a leaf, which has so many entries, initialized before it was published, and lives as long
        // as the trie.
        unsafe { &*at.cast::<Entry<T>>().add(index as usize % Self::LEAF) }
    }

    /// What hangs below a node at a place, of which the low bits count.
    ///
    /// # Safety
    /// It is a node of a trie that lives.
    #[inline(always)]
    unsafe fn below(node: *mut (), place: u32) -> *mut () {
        // SAFETY: by contract.
        let node = unsafe { &*node.cast::<Node>() };
        // Acquire pairs with the Release with which the child was put there.
        node.children[place as usize % NODE].load(Ordering::Acquire)
    }

    /// The entry of an index, if its leaf has been made.
    #[inline(always)]
    pub(super) fn find(&self, index: u32) -> Option<&Entry<T>> {
        let leaf = Self::leaf(self.root(), index);
        if leaf.is_null() {
            return None;
        }
        // SAFETY: a leaf has so many entries, initialized before it was published, and lives as long as the trie.
        Some(unsafe { &*leaf.add(index as usize % Self::LEAF) })
    }

    /// The entry of an index that has been given out.
    #[inline]
    pub(super) fn entry(&self, index: u32) -> &Entry<T> {
        match self.find(index) {
            Some(entry) => entry,
            None => unreachable!("what is in a list has an entry"),
        }
    }

    /// What is known of a chunk whose leaf has been made. Whoever looks into it has the lock of the stock.
    pub(super) fn chunk(&self, number: u32) -> Option<&UnsafeCell<Chunk>> {
        let index = number.checked_mul(CHUNK)?;
        let leaf = Self::leaf(self.root(), index);
        if leaf.is_null() {
            return None;
        }
        let at = index as usize % Self::LEAF / CHUNK as usize;
        // SAFETY: behind its entries a leaf has a chunk for each `CHUNK` of them; it lives as long as the trie.
        Some(unsafe {
            &*leaf
                .byte_add(Self::CHUNKS_AT)
                .cast::<UnsafeCell<Chunk>>()
                .add(at)
        })
    }

    // ── Growing ──

    /// Sees to it that an index has an entry. Lock-free.
    #[cold]
    pub(super) fn make(&self, index: u32) -> Result<(), NoMemory> {
        let (root, mut bits) = self.raise(index)?;
        let mut at = root;
        while bits > Self::LEAF_BITS {
            bits -= NODE_BITS;
            // SAFETY: as in `leaf`.
            let node = unsafe { &*at.cast::<Node>() };
            let child = &node.children[(index >> bits) as usize % NODE];
            // Acquire, as in `leaf`.
            at = child.load(Ordering::Acquire);
            if at.is_null() {
                at = self.hang(child, bits)?;
            }
        }
        Ok(())
    }

    /// Makes the trie as high as an index needs it; the root, without its height, and how many bits it decides.
    fn raise(&self, index: u32) -> Result<(*mut (), u32), NoMemory> {
        loop {
            // Acquire, as in `root`.
            let root = self.root.load(Ordering::Acquire);
            if root.is_null() {
                self.hang(&self.root, Self::LEAF_BITS)?;
                continue;
            }
            let height = root.addr() & HEIGHT;
            let old = root.map_addr(|address| address & !HEIGHT);
            let bits = Self::LEAF_BITS + NODE_BITS * height as u32;
            if u64::from(index) >> bits == 0 {
                return Ok((old, bits));
            }
            let fresh = new_node(old)?;
            let raised = fresh.map_addr(|address| address | (height + 1));
            // Release publishes the node to the Acquire of those who load the root; a failure reads nothing that is used.
            if self
                .root
                .compare_exchange(root, raised, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                // Relaxed: a number.
                self.bytes
                    .fetch_add(node_layout().size(), Ordering::Relaxed);
            } else {
                // SAFETY: made above, and not published; its child is not freed with it.
                unsafe { dealloc(fresh.cast(), node_layout()) };
            }
        }
    }

    /// Puts what decides so many bits into a place that is empty, unless somebody else was faster; what is there then.
    fn hang(&self, place: &AtomicPtr<()>, bits: u32) -> Result<*mut (), NoMemory> {
        let (fresh, layout) = if bits == Self::LEAF_BITS {
            (Self::new_leaf()?, Self::leaf_layout())
        } else {
            (new_node(ptr::null_mut())?, node_layout())
        };
        // Release publishes what was made to the Acquire of those who load the place; on failure Acquire does that for
        // what won.
        match place.compare_exchange(ptr::null_mut(), fresh, Ordering::Release, Ordering::Acquire) {
            Ok(_) => {
                // Relaxed: a number.
                self.bytes.fetch_add(layout.size(), Ordering::Relaxed);
                Ok(fresh)
            }
            Err(winner) => {
                // SAFETY: made above with this layout, and not published. Without values nothing needs to be dropped.
                unsafe { dealloc(fresh.cast(), layout) };
                Ok(winner)
            }
        }
    }

    fn leaf_layout() -> Layout {
        let chunks = (Self::LEAF / CHUNK as usize) * size_of::<UnsafeCell<Chunk>>();
        let align = LINE_SIZE
            .max(align_of::<Entry<T>>())
            .max(align_of::<UnsafeCell<Chunk>>());
        match Layout::from_size_align(Self::CHUNKS_AT + chunks, align) {
            Ok(layout) => layout.pad_to_align(),
            Err(_) => panic!("a leaf of the namespace would be larger than any memory"),
        }
    }

    fn new_leaf() -> Result<*mut (), NoMemory> {
        let leaf = memory(Self::leaf_layout())?.cast::<Entry<T>>();
        for at in 0..Self::LEAF {
            // SAFETY: freshly allocated, with room for so many entries.
            unsafe {
                leaf.add(at).write(Entry {
                    word: AtomicU32::new(FRESH),
                    next: AtomicU32::new(0),
                    value: UnsafeCell::new(MaybeUninit::uninit()),
                });
            }
        }
        for at in 0..Self::LEAF / CHUNK as usize {
            // SAFETY: behind the entries there is room for a chunk for each `CHUNK` of them, and it is aligned.
            unsafe {
                let chunks = leaf.byte_add(Self::CHUNKS_AT).cast::<UnsafeCell<Chunk>>();
                chunks.add(at).write(UnsafeCell::new(Chunk::new()));
            }
        }
        Ok(leaf.cast())
    }

    /// Frees what decides so many bits, and everything below.
    ///
    /// # Safety
    /// It is of this trie, and nobody uses it any more.
    unsafe fn free(at: *mut (), bits: u32) {
        if at.is_null() {
            return;
        }
        if bits == Self::LEAF_BITS {
            let leaf = at.cast::<Entry<T>>();
            for at in 0..Self::LEAF {
                // SAFETY: a leaf has so many. Values are in `MaybeUninit`, and so are not dropped here.
                unsafe { leaf.add(at).drop_in_place() };
            }
            for at in 0..Self::LEAF / CHUNK as usize {
                // SAFETY: and so many chunks behind.
                unsafe {
                    let chunks = leaf.byte_add(Self::CHUNKS_AT).cast::<UnsafeCell<Chunk>>();
                    chunks.add(at).drop_in_place();
                }
            }
            // SAFETY: allocated with this layout.
            unsafe { dealloc(at.cast(), Self::leaf_layout()) };
            return;
        }
        let node = at.cast::<Node>();
        // SAFETY: a node, which nobody else uses.
        for child in unsafe { &(*node).children } {
            // SAFETY: what hangs below a node decides so many bits less. Acquire: as in `leaf`.
            unsafe { Self::free(child.load(Ordering::Acquire), bits - NODE_BITS) };
        }
        // SAFETY: allocated with this layout, in `new_node`.
        unsafe {
            node.drop_in_place();
            dealloc(at.cast(), node_layout());
        }
    }
}

impl<T> Drop for Trie<T> {
    /// Frees nodes and leaves. Values must have been dropped before.
    fn drop(&mut self) {
        // Acquire: as in `root`.
        let root = self.root.load(Ordering::Acquire);
        let bits = Self::LEAF_BITS + NODE_BITS * (root.addr() & HEIGHT) as u32;
        // SAFETY: the root decides so many bits, and `&mut self` keeps everybody away.
        unsafe { Self::free(root.map_addr(|address| address & !HEIGHT), bits) };
    }
}

fn node_layout() -> Layout {
    match Layout::new::<Node>().align_to(LINE_SIZE) {
        Ok(layout) => layout.pad_to_align(),
        Err(_) => unreachable!("a node is small"),
    }
}

fn new_node(first: *mut ()) -> Result<*mut (), NoMemory> {
    let node = memory(node_layout())?.cast::<Node>();
    let children =
        core::array::from_fn(|at| AtomicPtr::new(if at == 0 { first } else { ptr::null_mut() }));
    // SAFETY: freshly allocated, with this layout.
    unsafe { node.write(Node { children }) };
    Ok(node.cast())
}

fn memory(layout: Layout) -> Result<*mut u8, NoMemory> {
    // SAFETY: neither nodes nor leaves are without size.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        Err(NoMemory)
    } else {
        Ok(memory)
    }
}
