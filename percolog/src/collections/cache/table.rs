//! Items, and the chains through which they are found.
//!
//! *Invariant:* an item is in the chain of its hash from the moment when it is linked until it is unlinked; chains change only under the
//! lock of their line. Sections follow them without it.
//!
//! *Why a lookup is right.* A node that is put at the head of a chain leads to what was there before. One that takes
//! another's place leads to where that one led. One that is taken out goes on leading to where it led, so whoever stands on
//! it goes on along nodes that were in the chain when it was. What is found that way may have been taken out
//! meanwhile, but not before the lookup began: a node that was taken out leads to another one only if that one was taken out later, or not
//! at all, and who came to the first one was inside before it was taken out. So every item that a lookup finds was there at some
//! moment while it looked; and one that was there the whole time is found, since it is only ever replaced where it stands.
//! For the same reason whatever is met was retired while the section was open, and is not destroyed before it ends.

use crate::counter::memory::{self, Zero};
use crate::lock::{NodeGuard, NodeLock, TryLockError};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use core::ptr::{self, NonNull};

/// No lifetime.
pub(super) const FOR_EVER: u64 = u64::MAX;

/// The version of an item that was never linked, because another one took its place at once.
pub(super) const REPLACED: u64 = 0;

/// So many chains share a line, a lock and a sequence of versions: with them, they are 64 bytes.
pub(super) const HEADS: usize = if cfg!(percolog_loom) { 1 } else { 6 };

/// An item.
#[repr(C)]
pub(super) struct Node<K, V> {
    next: AtomicPtr<Self>,
    /// Odd, so that it is not taken for a place in a ring that nobody has.
    pub(super) hash: u64,
    /// When the item ceases to be there, in the time source's milliseconds.
    expires: AtomicU64,
    /// Whether it was used since the hand came by: CLOCK's mark.
    used: AtomicU32,
    /// Where in its list's ring it stands. Written before it is linked.
    place: AtomicU32,
    pub(super) key: K,
    pub(super) value: V,
    pub(super) weight: usize,
    /// Which of the items that were ever linked in its line it is; and whether it was put in [whatever was there](Self::overwrites).
    /// Written before it is linked.
    version: AtomicU64,
}

impl<K, V> Node<K, V> {
    /// An item that is linked nowhere.
    pub(super) fn new(hash: u64, key: K, value: V, weight: usize, expires: u64) -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            hash,
            expires: AtomicU64::new(expires),
            used: AtomicU32::new(0),
            place: AtomicU32::new(0),
            key,
            value,
            weight,
            version: AtomicU64::new(0),
        }
    }

    /// When it ceases to be there.
    #[inline(always)]
    pub(super) fn expires(&self) -> u64 {
        // Relaxed: a number that means what it says; nothing is read through it.
        self.expires.load(Ordering::Relaxed)
    }

    /// Another lifetime. For who has the node to himself, or the lock of its line.
    pub(super) fn set_expires(&self, expires: u64) {
        // Relaxed: for whoever takes it out the lock orders it; a lookup sees either.
        self.expires.store(expires, Ordering::Relaxed);
    }

    /// Whether it has ceased to be there.
    #[inline(always)]
    pub(super) fn is_expired(&self, now: impl FnOnce() -> u64) -> bool {
        let expires = self.expires();
        expires != FOR_EVER && expires <= now()
    }

    /// Where in its list's ring it stands.
    pub(super) fn place(&self) -> u32 {
        // Relaxed, all of these: written before the node is linked, and published with it.
        self.place.load(Ordering::Relaxed)
    }

    /// For who has it to himself.
    pub(super) fn set_place(&self, place: u32) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// Which of the items that were ever linked in its line it is. None has [`REPLACED`].
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Whether it was put in whatever was there before, so that it could also have been put in place of something else.
    pub(super) fn overwrites(&self) -> bool {
        self.version() & 1 == 1
    }

    /// Whether the mark is set.
    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        // Relaxed, here and below: a hint about what to evict.
        self.used.load(Ordering::Relaxed) != 0
    }

    /// Sets the mark, or takes it away.
    pub(super) fn set_used(&self, used: bool) {
        self.used.store(u32::from(used), Ordering::Relaxed);
    }

    /// For who follows the chain.
    pub(super) fn next(&self) -> *mut Self {
        // Acquire pairs with the Release with which the next node was linked.
        self.next.load(Ordering::Acquire)
    }
}

/// Some chains, and their lock.
#[repr(C)]
pub(super) struct Line<K, V> {
    lock: NodeLock,
    /// How many items were linked here: each gets another number.
    versions: AtomicU64,
    heads: [AtomicPtr<Node<K, V>>; HEADS],
}

// Where pointers are smaller, so is a line.
#[cfg(all(not(percolog_loom), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Line<u8, u8>>() == 64);

impl<K, V> Default for Line<K, V> {
    fn default() -> Self {
        Self {
            lock: NodeLock::new(),
            versions: AtomicU64::new(0),
            heads: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }
}

// SAFETY: a lock that nobody has is 0, as are null pointers; no destructor but that of a model's lock.
unsafe impl<K, V> Zero for Line<K, V> {}

/// A line's lock is held.
pub(super) struct Locked<'a, K, V> {
    line: &'a Line<K, V>,
    _guard: NodeGuard<'a>,
}

/// Where a node stands in its chain, under the line's lock.
pub(super) struct Found<'a, K, V> {
    /// What leads to it, or the chain's head if there is none.
    link: &'a AtomicPtr<Node<K, V>>,
    pub(super) node: Option<NonNull<Node<K, V>>>,
}

/// All lines.
pub(super) struct Table<K, V> {
    lines: NonNull<Line<K, V>>,
    count: usize,
}

/// Takes a lock, also if somebody panicked under it: what a lock of the cache guards is whole whenever code of users runs.
pub(super) fn take(lock: &NodeLock) -> NodeGuard<'_> {
    match lock.lock() {
        Ok(guard) => guard,
        Err(error) => match error.into_guard() {
            Some(mut guard) => {
                guard.clear_poison();
                guard
            }
            None => unreachable!("the cache's locks are not freed"),
        },
    }
}

impl<K, V> Table<K, V> {
    /// Chains for about so many items; `None` if there is no memory. It is touched, and so taken from the system, as it is used.
    pub(super) fn new(items: usize) -> Option<Self> {
        // Three items for four chains: a lookup that finds something meets 1.4 items, one that does not 0.75.
        let count = (items / HEADS).saturating_mul(4) / 3 + 1;
        Some(Self {
            lines: NonNull::new(memory::try_zeroed(count))?,
            count,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.count * size_of::<Line<K, V>>()
    }

    /// The line of a hash.
    #[inline(always)]
    pub(super) fn line(&self, hash: u64) -> &Line<K, V> {
        let at = (u128::from(hash) * self.count as u128) >> 64;
        // SAFETY: below the number of lines, which live as long as the table.
        unsafe { self.lines.add(at as usize).as_ref() }
    }

    /// All of them.
    pub(super) fn lines(&self) -> &[Line<K, V>] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr(), self.count) }
    }

    /// Follows the hash's chain to a node that is `wanted`.
    ///
    /// # Safety
    /// The caller is in a section that was open before the node was found, and uses it no longer.
    #[inline(always)]
    pub(super) unsafe fn find(
        &self,
        hash: u64,
        mut wanted: impl FnMut(&Node<K, V>) -> bool,
    ) -> Option<NonNull<Node<K, V>>> {
        // Acquire pairs with the Release with which the node was linked.
        let mut at = self.line(hash).head(hash).load(Ordering::Acquire);
        while let Some(here) = NonNull::new(at) {
            // SAFETY: see the module: what is met in a section is live.
            let node = unsafe { here.as_ref() };
            if node.hash == hash && wanted(node) {
                return Some(here);
            }
            at = node.next();
        }
        None
    }
}

impl<K, V> Drop for Table<K, V> {
    fn drop(&mut self) {
        // SAFETY: made in `new` with this count; who had the table has taken the nodes out.
        unsafe { memory::free(self.lines.as_ptr(), self.count) };
    }
}

impl<K, V> Line<K, V> {
    #[inline(always)]
    fn head(&self, hash: u64) -> &AtomicPtr<Node<K, V>> {
        // Other bits than those that chose the line, as long as there are fewer lines than 2³².
        let at = ((hash >> 16 & 0xffff) * HEADS as u64) >> 16;
        &self.heads[at as usize]
    }

    /// Takes the line's lock if nobody has it.
    pub(super) fn try_lock(&self) -> Option<Locked<'_, K, V>> {
        let guard = match self.lock.try_lock() {
            Ok(guard) => guard,
            // As in `take`.
            Err(TryLockError::Poisoned(mut guard)) => {
                guard.clear_poison();
                guard
            }
            Err(TryLockError::WouldBlock | TryLockError::Freed) => return None,
        };
        Some(Locked {
            line: self,
            _guard: guard,
        })
    }

    /// Takes the line's lock.
    pub(super) fn lock(&self) -> Locked<'_, K, V> {
        Locked {
            line: self,
            _guard: take(&self.lock),
        }
    }

    /// The first node of each chain.
    pub(super) fn first(&self, chain: usize) -> *mut Node<K, V> {
        // Acquire as in `find`.
        self.heads[chain].load(Ordering::Acquire)
    }

    /// Calls `f` with each node of the line, and forgets them all.
    pub(super) fn drain(&self, mut f: impl FnMut(NonNull<Node<K, V>>)) {
        for head in &self.heads {
            // Acquire as in `find`.
            let mut at = head.swap(ptr::null_mut(), Ordering::Acquire);
            while let Some(node) = NonNull::new(at) {
                // SAFETY: the caller gets it in a moment, and not before.
                at = unsafe { node.as_ref() }.next();
                f(node);
            }
        }
    }
}

impl<'a, K, V> Locked<'a, K, V> {
    /// Looks for a node that is `wanted`, and for what leads to it.
    pub(super) fn find(
        &self,
        hash: u64,
        mut wanted: impl FnMut(&Node<K, V>) -> bool,
    ) -> Found<'a, K, V> {
        let head = self.line.head(hash);
        let mut link = head;
        loop {
            // Relaxed, as all reads of links under the lock: they were changed under it.
            let Some(here) = NonNull::new(link.load(Ordering::Relaxed)) else {
                return Found {
                    link: head,
                    node: None,
                };
            };
            // SAFETY: in the chain, which nobody else changes while the lock is held.
            let node: &'a Node<K, V> = unsafe { here.as_ref() };
            if node.hash == hash && wanted(node) {
                return Found {
                    link,
                    node: Some(here),
                };
            }
            link = &node.next;
        }
    }

    /// Links a node in place of what was found, or at the head of the chain if nothing was; what was there is unlinked. Returns the version
    /// that the node gets, which says whether it overwrites.
    ///
    /// # Safety
    /// Nobody else has the node, it is of this line, and what was found was found under this lock.
    pub(super) unsafe fn link(
        &self,
        found: &Found<'a, K, V>,
        node: NonNull<Node<K, V>>,
        overwrites: bool,
    ) -> u64 {
        // Relaxed, both: under the lock.
        let version = self.line.versions.load(Ordering::Relaxed) + 1;
        self.line.versions.store(version, Ordering::Relaxed);
        let version = version << 1 | u64::from(overwrites);
        let next = match found.node {
            // SAFETY: in the chain, as in `find`.
            Some(old) => unsafe { old.as_ref() }.next.load(Ordering::Relaxed),
            None => found.link.load(Ordering::Relaxed),
        };
        // SAFETY: nobody else has it.
        unsafe {
            node.as_ref().version.store(version, Ordering::Relaxed);
            node.as_ref().next.store(next, Ordering::Relaxed);
        }
        // Release publishes the node to the Acquire of whoever follows the chain.
        found.link.store(node.as_ptr(), Ordering::Release);
        version
    }

    /// Takes what was found out of its chain. It goes on leading to what comes behind it.
    ///
    /// # Safety
    /// It was found under this lock.
    pub(super) unsafe fn unlink(&self, found: &Found<'a, K, V>) {
        if let Some(node) = found.node {
            // SAFETY: in the chain, as in `find`.
            let next = unsafe { node.as_ref() }.next.load(Ordering::Relaxed);
            // Release: whoever comes by this link to the next node has not come by the one that linked it.
            found.link.store(next, Ordering::Release);
        }
    }
}
