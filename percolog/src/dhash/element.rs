//! What an element is made of: one record, and replicas.
//!
//! *Invariant:* who may touch what of a replica. Its place's user: everything. A visitor, who keeps all users out: the local part. Who
//! removes the element: the mark, while the replica is registered in the master table; the mark is the last thing that it touches.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Isolated, UnsafeCell};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::Cell;
use core::ptr::NonNull;

const ALIVE: u32 = 0;
const DEAD: u32 = 1;

/// What all threads share of an element.
pub(super) struct Record<K, S> {
    pub(super) hash: u64,
    pub(super) key: K,
    pub(super) shared: S,
}

/// What a place has of an element. What a hit looks at comes first, to be on one line.
#[repr(C)]
pub(super) struct Replica<K, S, L> {
    /// Whether the element was removed.
    mark: AtomicU32,
    /// Whether a guard is out. Only the place's user looks.
    held: Cell<bool>,
    /// The record has the key, too, on a line that a hit would have to fetch.
    key: K,
    local: UnsafeCell<L>,
    record: Arc<Record<K, S>>,
}

/// A replica on lines of its own, before it is published, or when it has been taken out of everything.
pub(super) type Owned<K, S, L> = Box<Isolated<Replica<K, S, L>>>;

/// Where a replica lies that is in a local table, and perhaps registered in the master table.
pub(super) struct Handle<K, S, L>(NonNull<Isolated<Replica<K, S, L>>>);

// SAFETY: with the handle, others than who made the replica use and drop its key and local part (`Send`), and share its record, of which
// the last one drops the parts (`Send` and `Sync`). Who may use what at a time, the module says.
unsafe impl<K: Send + Sync, S: Send + Sync, L: Send> Send for Handle<K, S, L> {}

impl<K, S, L> Clone for Handle<K, S, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, S, L> Copy for Handle<K, S, L> {}

impl<K, S, L> PartialEq for Handle<K, S, L> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K, S, L> Replica<K, S, L> {
    pub(super) fn new(key: K, local: L, record: Arc<Record<K, S>>) -> Owned<K, S, L> {
        Box::new(Isolated::new(Self {
            mark: AtomicU32::new(ALIVE),
            held: Cell::new(false),
            key,
            local: UnsafeCell::new(local),
            record,
        }))
    }

    pub(super) fn key(&self) -> &K {
        &self.key
    }

    pub(super) fn record(&self) -> &Arc<Record<K, S>> {
        &self.record
    }

    /// Whether the element was removed. On the place's own line until it is.
    #[inline(always)]
    pub(super) fn is_dead(&self) -> bool {
        // Acquire pairs with the Release in `Handle::kill`: what came before the removal is seen by who finds the element gone, and who
        // frees the replica does so after the last access of who removed it.
        self.mark.load(Ordering::Acquire) == DEAD
    }

    #[inline(always)]
    pub(super) fn held(&self) -> &Cell<bool> {
        &self.held
    }

    #[inline(always)]
    pub(super) fn local(&self) -> &UnsafeCell<L> {
        &self.local
    }

    /// The parts that a discarded replica leaves.
    pub(super) fn into_parts(self) -> (K, L, Arc<Record<K, S>>) {
        let Self {
            key, local, record, ..
        } = self;
        (key, local.into_inner(), record)
    }
}

impl<K, S, L> Handle<K, S, L> {
    /// Publishes a replica.
    pub(super) fn of(replica: Owned<K, S, L>) -> Self {
        Self(NonNull::from(Box::leak(replica)))
    }

    /// The replica.
    ///
    /// # Safety
    /// The caller uses its place, or keeps all users out, and has not taken the replica out of it.
    #[inline(always)]
    pub(super) unsafe fn get<'a>(self) -> &'a Replica<K, S, L> {
        // SAFETY: a replica lives until who uses its place, or keeps all users out, takes it out.
        unsafe { self.0.as_ref() }
    }

    /// Marks a replica of an element that is being removed.
    ///
    /// # Safety
    /// The replica is registered in the master table, whose lock the caller holds; and is so no more when the lock is released.
    pub(super) unsafe fn kill(self) {
        // An isolated value lies where its lines begin.
        let replica: *mut Replica<K, S, L> = self.0.as_ptr().cast();
        // SAFETY: a replica that is registered is freed after it was taken off the list under the lock, or after it was marked.
        let mark = unsafe { &(*replica).mark };
        // Release pairs with the Acquire in `is_dead`.
        mark.store(DEAD, Ordering::Release);
    }

    /// The replica as what it was before it was published.
    ///
    /// # Safety
    /// The caller uses its place, or has used it, and has taken the replica out of it; it is not registered, or it is dead; no guard is out.
    pub(super) unsafe fn take(self) -> Owned<K, S, L> {
        // SAFETY: `of` made the pointer of such a box, and by contract nobody else can find it any more.
        unsafe { Box::from_raw(self.0.as_ptr()) }
    }
}
