//! The lock of one slot's queue.

use super::atomic::{AtomicU32, Ordering};
use super::wait::Backoff;
use super::{ThreadId, UnsafeCell, const_fn};

/// A mutual-exclusion lock for a few instructions at a time.
///
/// Its word is written by its own slot, by a thread that migrated away in mid-update, and by whoever
/// merges; so it is nearly always uncontended, and the owner's release is a plain store that looks
/// at nobody. Waiters therefore cannot be woken: they pause, yield, then sleep and look again.
///
/// The word comes first: what an update needs besides is meant to lie on the same line behind it. Something of four bytes that is
/// not under the lock, if the slot has it, takes no room `beside` the word.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SlotLock<T, B = ()> {
    /// [`FREE`], or the [`ThreadId`] of who has the lock.
    word: AtomicU32,
    beside: B,
    value: UnsafeCell<T>,
}

const FREE: u32 = 0;

// SAFETY: the lock hands out the value to one thread at a time, so sharing the lock moves the value
// between threads (`T: Send`) and never shares it: no `Sync` bound is needed. What is beside it is shared.
unsafe impl<T: Send, B: Sync> Sync for SlotLock<T, B> {}

/// Exclusive use of a [`SlotLock`]'s value.
#[derive(Debug)]
pub(crate) struct SlotGuard<'a, T, B = ()> {
    lock: &'a SlotLock<T, B>,
}

impl<T> SlotLock<T> {
    const_fn! {
        pub(crate) const fn new(value: T) -> Self {
            Self::with_neighbour(value, ())
        }
    }
}

impl<T, B> SlotLock<T, B> {
    const_fn! {
        pub(crate) const fn with_neighbour(value: T, beside: B) -> Self {
            Self { word: AtomicU32::new(FREE), beside, value: UnsafeCell::new(value) }
        }
    }

    /// What lies beside the lock, and is not under it.
    #[inline(always)]
    pub(crate) fn beside(&self) -> &B {
        &self.beside
    }

    /// The value, for who has the lock to itself.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: nobody else has the lock.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// Takes the lock, waiting as long as it takes.
    #[inline]
    pub(crate) fn lock(&self) -> SlotGuard<'_, T, B> {
        self.lock_as(ThreadId::UNKNOWN)
    }

    /// Takes the lock, waiting as long as it takes, and leaves word of who has it.
    #[inline]
    pub(crate) fn lock_as(&self, owner: ThreadId) -> SlotGuard<'_, T, B> {
        if !self.take(owner) {
            self.lock_slowly(owner);
        }
        SlotGuard { lock: self }
    }

    /// Takes the lock, giving up after the brief spinning phase.
    #[inline]
    pub(crate) fn lock_briefly(&self) -> Option<SlotGuard<'_, T, B>> {
        self.lock_briefly_as(ThreadId::UNKNOWN)
    }

    /// As [`lock_as`](Self::lock_as), giving up after the brief spinning phase.
    #[inline]
    pub(crate) fn lock_briefly_as(&self, owner: ThreadId) -> Option<SlotGuard<'_, T, B>> {
        if !self.take(owner) {
            #[cfg(percolog_loom)]
            return None;
            #[cfg(not(percolog_loom))]
            {
                let mut backoff = Backoff::new();
                loop {
                    if backoff.is_spent() {
                        return None;
                    }
                    backoff.wait();
                    if self.take(owner) {
                        break;
                    }
                }
            }
        }
        Some(SlotGuard { lock: self })
    }

    /// Whether the calling thread, which is `me`, has taken the lock as such, with [`lock_as`](Self::lock_as) or
    /// [`lock_briefly_as`](Self::lock_briefly_as). The record lies in the lock, so it cannot be taken for another lock's.
    #[inline]
    pub(crate) fn is_taken_by(&self, me: ThreadId) -> bool {
        // Relaxed: a thread reads its own number only where it wrote it itself.
        me != ThreadId::UNKNOWN && self.word.load(Ordering::Relaxed) == me.word()
    }

    #[inline(always)]
    fn take(&self, owner: ThreadId) -> bool {
        // Acquire pairs with the Release store in `SlotGuard::drop`: what the last owner wrote to the
        // value is seen. A failed exchange reads nothing that is used: Relaxed.
        self.word
            .compare_exchange(FREE, owner.word(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[cold]
    fn lock_slowly(&self, owner: ThreadId) {
        let mut backoff = Backoff::new();
        loop {
            backoff.wait();
            // Without looking first: who looks and then tries has the line come twice, and between the two an owner who takes the lock again
            // and again has always taken it.
            if self.take(owner) {
                return;
            }
        }
    }

    /// A guard for a lock that this thread has taken and [kept](SlotGuard::keep).
    ///
    /// # Safety
    /// The lock was kept, and is resumed once.
    pub(crate) unsafe fn resume(&self) -> SlotGuard<'_, T, B> {
        SlotGuard { lock: self }
    }
}

impl<T, B> SlotGuard<'_, T, B> {
    /// Keeps the lock taken without a guard, until [`SlotLock::resume`].
    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }

    /// The guarded value.
    #[inline(always)]
    pub(crate) fn get(&mut self) -> &mut T {
        // SAFETY: the guard is proof that the lock is taken by us, and `&mut self` that this is the
        // only reference handed out through it.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T, B> Drop for SlotGuard<'_, T, B> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release pairs with the Acquire exchange of the next owner.
        self.lock.word.store(FREE, Ordering::Release);
    }
}
