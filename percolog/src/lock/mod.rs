//! Per-node locks for structures that are read without locks.
//!
//! Where a lookup takes no lock, whoever has found a node can be late: when it comes to lock the
//! node, somebody else may have taken the node out of the structure and freed it. An ordinary lock
//! would let it in, and it would change what nobody will ever read. A [`NodeLock`] knows that its
//! node was freed, and says so instead.
//!
//! ```
//! use percolog::lock::{NodeLock, LockError};
//! use percolog::reclaim::{Domain, Link, Owned};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! /// Changed under the lock, read without it.
//! struct Account {
//!     lock: NodeLock,
//!     balance: AtomicU64,
//! }
//!
//! static DOMAIN: Domain = Domain::new();
//!
//! /// Whether there was an account to pay it into.
//! fn pay(account: &Link<Account>, amount: u64) -> bool {
//!     let section = DOMAIN.enter();
//!     let Some(found) = account.load(&section) else { return false };
//!     match found.get().lock.lock() {
//!         Ok(_guard) => {
//!             let balance = found.balance.load(Ordering::Relaxed);
//!             found.balance.store(balance + amount, Ordering::Release);
//!             true
//!         }
//!         Err(LockError::Freed) => false, // closed between the lookup and the lock
//!         Err(LockError::Poisoned(_)) => panic!("somebody panicked in the middle of a change"),
//!     }
//! }
//!
//! fn close(account: &Link<Account>) -> Option<u64> {
//!     let section = DOMAIN.enter();
//!     let guard = account.load(&section)?.get().lock.lock().ok()?;
//!     // Under the lock, so nobody else takes it out.
//!     let unlinked = guard.release_and_free(account.swap(None)?);
//!     let balance = unlinked.balance.load(Ordering::Relaxed);
//!     // SAFETY: the only link to it leads nowhere now, and is read in sections of DOMAIN.
//!     unsafe { DOMAIN.retire(unlinked) };
//!     Some(balance)
//! }
//!
//! let account = Link::new(Owned::new(Account { lock: NodeLock::new(), balance: 0.into() }));
//! assert!(pay(&account, 5));
//! assert_eq!(close(&account), Some(5));
//! assert!(!pay(&account, 5));
//! ```
//!
//! # Contract
//!
//! * At most one thread has the lock. What one holder did to the node, the next one sees.
//! * Once a node is [freed](NodeGuard::release_and_free) nobody gets its lock any more: neither who
//!   comes later nor who was waiting then. They are told [`LockError::Freed`], and see everything
//!   that was done before, such as that the node was unlinked: who looks it up again does not find
//!   it.
//! * Marking the node and letting go of the lock is one step: nobody gets in between.
//! * Freeing a node does not destroy it: its memory is there while anybody can wait for its lock,
//!   hold it, or look at it. Whoever does has a reference to the node, which ends before the
//!   section in which it was found does, and so does a guard: that is checked by the compiler. Who
//!   marks a node and [retires](crate::reclaim::Domain::retire) it therefore takes away no word
//!   that somebody sleeps on. (The other way round, a lock in memory that is *not* retired, such as
//!   a `Box` that is dropped, can only be dropped when nobody has a reference to it any more.)
//! * A holder that panics poisons the lock, as it does with `std`'s: see [`LockError::Poisoned`].
//! * The lock is not fair: a thread that comes by can be faster than one that is waking up.
//!
//! # More than one lock
//!
//! Nothing here finds out that two threads wait for each other. Whoever takes several locks takes
//! them in an order that all agree on (parent before child; by key; by address), or takes the first
//! and [tries](NodeLock::try_lock) the others, and lets go of all if that fails. What was found
//! before the second lock is taken can have changed by then, and the second node can have been
//! freed: look again under both. A thread that takes a lock that it has waits for itself.
//!
//! # Cost
//!
//! Four bytes. Taking a lock that is free is one atomic exchange, and so is letting go. A waiter
//! pauses a few times, and then sleeps until the holder lets go (the Linux futex; elsewhere, and
//! without the `std` feature, it keeps looking). The holder pays for waking one of those who sleep, and
//! who frees the node for waking them all.
//!
//! Keep what is done under the lock short: those who wait do so in their sections, and while a section
//! is open nothing of its domain is destroyed.
//!
//! # `fork`
//!
//! As with `std`'s `Mutex`, a lock that another thread holds at the time of a `fork` stays taken in
//! the child. So in a child take only locks of nodes that it made itself, or that nobody else
//! locked at the time of the `fork`.
//!
//! # Where this differs from the paper
//!
//! Q. Wang, T. Stamler, G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*,
//! EuroSys 2016, §2.2 and §3.5: `ps_lock_take`, `ps_lock_release` and `ps_lock_release_free`. There
//! the node's memory has a header that says that it was freed; here the lock has a bit for it, so
//! nodes may lie in any memory.

#[cfg(all(test, percolog_loom))]
mod models;

use core::fmt;
use core::marker::PhantomData;

#[cfg(not(percolog_loom))]
use crate::reclaim::{Memory, Unlinked};
use crate::sync::atomic::Ordering;
use crate::sync::{Backoff, ParkingWord, const_fn};

/// Somebody holds the lock.
const TAKEN: u32 = 1;
/// Somebody sleeps, or is about to, or may still be asleep; set only while the lock is taken.
const PARKED: u32 = 2;
/// A holder panicked.
const POISONED: u32 = 4;
/// The node was freed. The last value of the word, beside `POISONED`.
const FREED: u32 = 8;

/// A one-word mutex for a node that can be freed.
///
/// See the [module](self).
///
/// It lies in the node that it is the lock of. Of what it protects it knows nothing: fields that
/// are read without the lock are atomics, the others lie in an `UnsafeCell`.
pub struct NodeLock {
    word: ParkingWord,
}

/// A guard of a [`NodeLock`]: unlocks when it is dropped, or [freed](Self::release_and_free) with its node.
#[must_use = "the lock is released when this is dropped"]
pub struct NodeGuard<'a> {
    lock: &'a NodeLock,
    poisoned: bool,
    was_panicking: bool,
    /// As `std`'s: a panic poisons what its own thread holds.
    on_this_thread: PhantomData<*mut ()>,
}

// SAFETY: `&NodeGuard` only says whether the lock is poisoned.
unsafe impl Sync for NodeGuard<'_> {}

/// The error of [`NodeLock::lock`].
pub enum LockError<'a> {
    /// The node was freed: it is not in the structure any more. Look it up again, or give up.
    Freed,
    /// The lock is taken, and an earlier holder panicked: the node can be in the middle of a
    /// change. The guard is as good as any; [`NodeGuard::clear_poison`] when the node has been put
    /// in order.
    Poisoned(NodeGuard<'a>),
}

/// The error of [`NodeLock::try_lock`].
pub enum TryLockError<'a> {
    /// Somebody else holds the lock.
    WouldBlock,
    /// As [`LockError::Freed`].
    Freed,
    /// As [`LockError::Poisoned`].
    Poisoned(NodeGuard<'a>),
}

/// A proof that a node without a link was marked as freed: see [`NodeGuard::release_as_freed`].
#[must_use = "the node is marked as freed, and still has to be retired"]
#[derive(Debug)]
pub struct Freed(());

impl NodeLock {
    const_fn! {
        /// The lock of a node that nobody holds.
        #[must_use]
        pub const fn new() -> Self {
            Self { word: ParkingWord::new(0) }
        }
    }

    /// Takes the lock; waits while somebody else has it.
    ///
    /// *Progress:* blocking. *Cost:* one atomic exchange if nobody has it.
    ///
    /// # Errors
    /// [`LockError::Freed`] if the node was freed, before or while this waited.
    /// [`LockError::Poisoned`], with the lock taken, if a holder panicked.
    #[inline]
    pub fn lock(&self) -> Result<NodeGuard<'_>, LockError<'_>> {
        // Acquire pairs with the Release of the last holder. A failed exchange reads nothing that
        // is used: Relaxed.
        match self
            .word
            .compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Ok(self.guard(false)),
            Err(_) => self.take_slowly(),
        }
    }

    /// Takes the lock if nobody has it.
    ///
    /// *Progress:* lock-free. *Cost:* as [`lock`](Self::lock).
    ///
    /// # Errors
    /// As `lock`, and [`TryLockError::WouldBlock`] if somebody has it.
    #[inline]
    pub fn try_lock(&self) -> Result<NodeGuard<'_>, TryLockError<'_>> {
        self.try_take_marked(0)
    }

    /// The same, and sets a mark with it.
    #[inline]
    fn try_take_marked(&self, mark: u32) -> Result<NodeGuard<'_>, TryLockError<'_>> {
        // Acquire pairs with the Release in `free`, for who is told that the node was freed.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word & FREED != 0 {
                return Err(TryLockError::Freed);
            }
            if word & TAKEN != 0 {
                return Err(TryLockError::WouldBlock);
            }
            // Acquire on success pairs with the Release of the last holder, on failure as the load above.
            match self.word.compare_exchange_weak(
                word,
                word | TAKEN | mark,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) if word & POISONED != 0 => {
                    return Err(TryLockError::Poisoned(self.guard(true)));
                }
                Ok(_) => return Ok(self.guard(false)),
                Err(now) => word = now,
            }
        }
    }

    /// Returns whether the node was freed. Once it says so it stays so; otherwise it is a thing of the
    /// past, unless the caller holds the lock.
    ///
    /// *Progress:* wait-free. *Cost:* one load.
    #[inline]
    #[must_use]
    pub fn is_freed(&self) -> bool {
        // Acquire pairs with the Release in `free`: whoever is told so sees what was done before.
        self.word.load(Ordering::Acquire) & FREED != 0
    }

    fn guard(&self, poisoned: bool) -> NodeGuard<'_> {
        NodeGuard {
            lock: self,
            poisoned,
            was_panicking: is_panicking(),
            on_this_thread: PhantomData,
        }
    }

    #[cold]
    fn take_slowly(&self) -> Result<NodeGuard<'_>, LockError<'_>> {
        let mut backoff = Backoff::new();
        let mut mark = 0;
        loop {
            match self.try_take_marked(mark) {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(guard)) => return Err(LockError::Poisoned(guard)),
                Err(TryLockError::Freed) => {
                    #[cfg(feature = "std")]
                    if mark != 0 {
                        // Who freed it may have come in between, and have seen no mark.
                        self.word.unpark_all();
                    }
                    return Err(LockError::Freed);
                }
                Err(TryLockError::WouldBlock) => {
                    if self.wait(&mut backoff) {
                        // Whoever let go woke this thread alone, and took the mark of the others along.
                        mark = PARKED;
                    }
                }
            }
        }
    }

    /// Waits until the holder lets go, perhaps not as long. Says whether it slept.
    fn wait(&self, backoff: &mut Backoff) -> bool {
        #[cfg(feature = "std")]
        if backoff.is_spent() {
            // Relaxed: what is read decides only whether to sleep, and the kernel compares it again.
            let word = self.word.load(Ordering::Relaxed);
            if word & TAKEN == 0 {
                return false;
            }
            // The mark is set by an exchange, so the holder's finds it, or this one finds that the
            // holder has let go. Relaxed: it publishes nothing.
            let marked = word & PARKED != 0
                || self
                    .word
                    .compare_exchange(word, word | PARKED, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if marked {
                self.word.park(word | PARKED, None, backoff);
            }
            return marked;
        }
        backoff.wait();
        false
    }

    /// The holder leaves this in the word, and wakes one of those who sleep: it takes the lock with their mark, so that it wakes the
    /// next one in turn, or sets the mark and sleeps again, or tells them that the node is gone. If the node is gone now all are woken.
    fn leave(&self, word: u32) {
        // Release pairs with the Acquire of whoever takes the lock next, or is told that the node
        // was freed. An exchange, so that a mark set meanwhile is found.
        let before = self.word.swap(word, Ordering::Release);
        #[cfg(feature = "std")]
        if before & PARKED != 0 {
            // From here on the node may be gone: the kernel takes the address for a name.
            if word & FREED == 0 {
                self.word.unpark_one();
            } else {
                self.word.unpark_all();
            }
        }
        #[cfg(not(feature = "std"))]
        let _ = before;
    }
}

impl<'a> NodeGuard<'a> {
    /// Marks the node as freed and lets go of its lock, in one step. Whoever waits for the lock, or
    /// comes later, is told that the node was freed.
    ///
    /// The node must have been taken out of the structure before, by the caller, who shows it here
    /// and gets it back, to [retire](crate::reclaim::Domain::retire) it.
    ///
    /// *Progress:* wait-free. *Cost:* one atomic exchange, and waking all who wait.
    ///
    /// # Panics
    /// If the lock is not one that lies in the node. The lock is released and poisoned then, and
    /// the node leaked.
    #[cfg(not(percolog_loom))]
    #[inline]
    pub fn release_and_free<T, M: Memory>(self, unlinked: Unlinked<T, M>) -> Unlinked<T, M> {
        let start = core::ptr::from_ref(&*unlinked).addr();
        let lock = core::ptr::from_ref(self.lock).addr();
        assert!(
            (start..start + size_of::<T>()).contains(&lock),
            "the lock of another node"
        );
        let Freed(()) = self.release_as_freed();
        unlinked
    }

    /// The same for a node that was never behind a [`Link`](crate::reclaim::Link): the caller has
    /// made it unreachable, and retires it.
    ///
    /// *Progress:* wait-free. *Cost:* one atomic exchange, and waking all who wait.
    #[inline]
    pub fn release_as_freed(self) -> Freed {
        let poisoned = if self.poisoned { POISONED } else { 0 };
        let lock = self.lock;
        core::mem::forget(self);
        lock.leave(FREED | poisoned);
        Freed(())
    }

    /// Returns whether an earlier holder panicked, and nobody has [cleared](Self::clear_poison) that.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// The node is in order again: the lock is not poisoned when this guard is dropped.
    pub fn clear_poison(&mut self) {
        self.poisoned = false;
    }

    /// Returns whether this is the guard of that lock.
    #[must_use]
    pub fn is_of(&self, lock: &NodeLock) -> bool {
        core::ptr::eq(self.lock, lock)
    }
}

impl Drop for NodeGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let panicked = !self.was_panicking && is_panicking();
        let poisoned = self.poisoned || panicked;
        self.lock.leave(if poisoned { POISONED } else { 0 });
    }
}

impl<'a> LockError<'a> {
    /// The guard of a lock that is poisoned, for who does not care.
    #[must_use]
    pub fn into_guard(self) -> Option<NodeGuard<'a>> {
        match self {
            Self::Freed => None,
            Self::Poisoned(guard) => Some(guard),
        }
    }
}

impl Default for NodeLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for NodeLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: for people.
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("NodeLock")
            .field("taken", &(word & TAKEN != 0))
            .field("freed", &(word & FREED != 0))
            .field("poisoned", &(word & POISONED != 0))
            .finish()
    }
}

impl fmt::Debug for NodeGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeGuard")
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

const FREED_TEXT: &str = "the node was freed";
const POISONED_TEXT: &str = "a thread panicked while it held the node's lock";

impl fmt::Debug for LockError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Freed => "Freed",
            Self::Poisoned(_) => "Poisoned(..)",
        })
    }
}

impl fmt::Display for LockError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Freed => FREED_TEXT,
            Self::Poisoned(_) => POISONED_TEXT,
        })
    }
}

impl core::error::Error for LockError<'_> {}

impl fmt::Debug for TryLockError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "WouldBlock",
            Self::Freed => "Freed",
            Self::Poisoned(_) => "Poisoned(..)",
        })
    }
}

impl fmt::Display for TryLockError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "somebody else has the node's lock",
            Self::Freed => FREED_TEXT,
            Self::Poisoned(_) => POISONED_TEXT,
        })
    }
}

impl core::error::Error for TryLockError<'_> {}

fn is_panicking() -> bool {
    #[cfg(feature = "std")]
    return std::thread::panicking();
    // Without `std` a panic does not come back.
    #[cfg(not(feature = "std"))]
    false
}
