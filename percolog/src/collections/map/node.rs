//! Nodes of the list: their links, numbers and locks; and where they lie.

use core::ops::Deref;
#[cfg(percolog_loom)]
use core::ptr;
use core::ptr::NonNull;

use crate::lock::{NodeGuard, NodeLock};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::{UnsafeCell, const_fn};

/// What the last node's link leads to. Null is the link of a bucket that is not in the list yet.
pub(super) const END: *mut Node = NonNull::dangling().as_ptr();

/// What the head's number is, and what those of the entries are where there are no others.
pub(super) const FIRST: u64 = 0;
pub(super) const PLAIN: u64 = 1;

/// What sentinels and entries have in common.
///
/// Memory that is zero is a bucket that is not linked yet.
#[repr(C)]
pub(super) struct Node {
    next: AtomicPtr<Node>,
    /// Written before the node can be found, and not any more.
    order: UnsafeCell<u64>,
    lock: NodeLock,
}

// SAFETY: the order is written by who has the node alone: see `Node::order`.
unsafe impl Sync for Node {}
// SAFETY: a node is plain data; it leads to others, which are `Sync`.
unsafe impl Send for Node {}

/// An entry: what the slab has blocks of.
#[repr(C)]
pub(super) struct Entry<K, V> {
    pub(super) node: Node,
    pub(super) key: K,
    pub(super) value: V,
}

/// A node that can be reached: good while a section is, or for ever if it is a sentinel.
pub(super) type Spot = NonNull<Node>;

impl Node {
    const_fn! {
        /// The sentinel in front of everything.
        pub(super) const fn head() -> Self {
            Self {
                next: AtomicPtr::new(END),
                order: UnsafeCell::new(FIRST),
                lock: NodeLock::new(),
            }
        }
    }

    /// A bucket that is not linked yet.
    #[cfg(percolog_loom)]
    pub(super) fn bucket() -> Self {
        Self {
            next: AtomicPtr::new(ptr::null_mut()),
            order: UnsafeCell::new(0),
            lock: NodeLock::new(),
        }
    }

    pub(super) fn order(&self) -> u64 {
        // SAFETY: written before the node was linked, or under the lock of a bucket that nobody had linked; whoever asks has
        // found the node through a link, or has it alone.
        self.order.with(|order| unsafe { *order })
    }

    #[inline(always)]
    pub(super) fn next(&self) -> *mut Node {
        // SeqCst: see `list`. As an Acquire it pairs with the store in `lead_to` and with those of buckets: what the link leads
        // to is initialized.
        self.next.load(Ordering::SeqCst)
    }

    /// The link as the holder of the lock knows it.
    pub(super) fn next_locked(&self) -> *mut Node {
        // Relaxed: written under the lock, which the caller holds, or before the node was published.
        self.next.load(Ordering::Relaxed)
    }

    /// The caller holds the lock.
    pub(super) fn lead_to(&self, next: *mut Node) {
        // SeqCst: see `list`. As a Release it publishes the node to the load in `next`.
        self.next.store(next, Ordering::SeqCst);
    }

    /// The same, while nobody can find this node. It is published by the link that leads to it.
    pub(super) fn will_lead_to(&self, next: *mut Node) {
        // Relaxed: see above.
        self.next.store(next, Ordering::Relaxed);
    }

    /// Says where a bucket belongs.
    ///
    /// # Safety
    /// The caller holds the lock of a bucket that has never been linked.
    pub(super) unsafe fn set_order(&self, number: u64) {
        // SAFETY: by contract nobody can have found the bucket, and so nobody reads its number.
        self.order.with_mut(|order| unsafe { *order = number });
    }

    /// Whether a bucket can be begun at.
    #[inline(always)]
    pub(super) fn is_linked(&self) -> bool {
        // Acquire pairs with the store in `link_bucket`: the bucket's link leads to what is initialized.
        !self.next.load(Ordering::Acquire).is_null()
    }

    /// Takes the lock, poisoned or not: what a panic can have left half done is a value, never a link. `None` if the node was
    /// freed.
    pub(super) fn lock(&self) -> Option<NodeGuard<'_>> {
        match self.lock.lock() {
            Ok(guard) => Some(guard),
            Err(error) => error.into_guard(),
        }
    }
}

impl<K, V> Entry<K, V> {
    pub(super) fn new(order: u64, key: K, value: V) -> Self {
        Self {
            node: Node {
                next: AtomicPtr::new(END),
                order: UnsafeCell::new(order),
                lock: NodeLock::new(),
            },
            key,
            value,
        }
    }
}

/// Where entries lie, and what becomes of those that were taken out.
pub(super) trait Room<T> {
    /// An entry that nobody else has.
    type Owned: Deref<Target = T>;

    /// Puts an entry there; if there is no room it comes back, with the limit that was reached.
    fn insert(&self, entry: T) -> Result<Self::Owned, (T, Option<usize>)>;

    fn into_raw(owned: Self::Owned) -> NonNull<T>;

    fn into_inner(owned: Self::Owned) -> T;

    /// Destroys the entry when no section can have it.
    ///
    /// # Safety
    /// It came from `into_raw`, was taken out of the list, and is retired once.
    unsafe fn retire(&self, entry: NonNull<T>);

    /// Destroys the entry.
    ///
    /// # Safety
    /// It came from `into_raw`, and nobody has it or will have it.
    unsafe fn destroy(entry: NonNull<T>);
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_is_not_linked_is_zero() {
        // SAFETY: what this test shows, and the fields allow: atomics and a number.
        let bucket: Node = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
        assert!(!bucket.is_linked());
        assert!(matches!(bucket.lock.lock(), Ok(guard) if !guard.is_poisoned()));
        assert_eq!(size_of::<Node>(), 24);
    }
}
