//! The object that every update allocates and retires, and the account of how many there are.
//!
//! All peers allocate and free it in the same way, through the global allocator: what differs between them is when.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use percolog::counter::Counter;

/// What a node holds between its allocation and its end.
const ALIVE: u64 = 0xA11C_E0DE_A11C_E0DE;
/// What it holds after its end.
const DEAD: u64 = 0xDEAD_DEAD_DEAD_DEAD;

/// One cache line of memory, as an element of a list or of a tree would be.
#[repr(C)]
#[derive(Debug)]
pub struct Node {
    /// Room for what a reclaimer in C chains retired objects with. It must come first: those reclaimers pass a pointer
    /// to it, and so to the node.
    chain: UnsafeCell<[usize; 3]>,
    /// [`ALIVE`] or [`DEAD`].
    mark: AtomicU64,
    /// Where its end is entered.
    account: NonNull<Account>,
    /// What a list would keep in it.
    payload: [u64; 3],
}

const _: () = assert!(size_of::<Node>() == Node::BYTES as usize);

impl Node {
    /// Bytes of a node. What the allocator adds is the same for all.
    pub const BYTES: u64 = 64;

    /// Whether it may still be read: false only if it was freed too early.
    #[inline]
    #[must_use]
    pub fn is_alive(&self) -> bool {
        // Relaxed: a reader that is right sees the mark of the node's allocation, published with the pointer; one that
        // is wrong sees some other value sooner or later.
        self.mark.load(Ordering::Relaxed) == ALIVE
    }

    /// Frees a node: what every reclaimer does in the end.
    ///
    /// # Safety
    /// `node` came from [`Account::allocate`], whose account still exists, and nobody uses it any more.
    #[inline]
    pub unsafe fn free(node: NonNull<Self>) {
        // SAFETY: the node exists, as the caller promises.
        let account = unsafe { node.as_ref() }.account;
        // SAFETY: as the caller promises.
        unsafe { account.as_ref().end(node) };
    }

    /// [`free`](Self::free), as reclaimers in C call it.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    pub unsafe extern "C" fn free_from_c(node: *mut c_void) {
        if let Some(node) = NonNull::new(node.cast()) {
            // SAFETY: as the caller promises.
            unsafe { Self::free(node) };
        }
    }
}

/// Counts the nodes of one run.
#[derive(Debug, Default)]
pub struct Account {
    /// Nodes that were retired, as far as workers have told.
    retired: Counter,
    /// Nodes that came to their end.
    freed: Counter,
    /// The most that were retired and not freed, at the moments somebody looked.
    peak: AtomicU64,
    /// A node came to its end twice.
    freed_twice: AtomicBool,
    /// Where dead nodes are kept until the end of the run, if readers are to notice them.
    graves: Option<Graves>,
}

/// Dead nodes, which keep their mark.
#[derive(Debug, Default)]
struct Graves(Mutex<Vec<NonNull<Node>>>);

// SAFETY: the nodes belong to the list; no thread uses them for anything but to see that they are dead.
unsafe impl Send for Graves {}
// SAFETY: see above; the list is behind its mutex.
unsafe impl Sync for Graves {}

impl Account {
    /// An account whose dead nodes stay allocated, and marked, until it is dropped.
    #[must_use]
    pub fn with_graves() -> Self {
        Self {
            graves: Some(Graves::default()),
            ..Self::default()
        }
    }

    /// A new node. It holds a pointer to this account, which must not move before the node's end.
    #[inline]
    #[must_use]
    pub fn allocate(&self) -> NonNull<Node> {
        NonNull::from(Box::leak(Box::new(Node {
            chain: UnsafeCell::new([0; 3]),
            mark: AtomicU64::new(ALIVE),
            account: NonNull::from(self),
            payload: [1; 3],
        })))
    }

    /// # Safety
    /// As for [`Node::free`].
    #[inline]
    unsafe fn end(&self, node: NonNull<Node>) {
        self.freed.increment();
        match &self.graves {
            // SAFETY: it came out of a `Box`, and nobody uses it any more.
            None => drop(unsafe { Box::from_raw(node.as_ptr()) }),
            Some(graves) => {
                // Relaxed: readers look for nothing but the mark itself. SAFETY: it stays allocated.
                let mark = unsafe { node.as_ref() }.mark.swap(DEAD, Ordering::Relaxed);
                if mark == ALIVE {
                    let mut graves = graves.0.lock().unwrap_or_else(PoisonError::into_inner);
                    graves.push(node);
                } else {
                    // Relaxed: read after the threads have been joined.
                    self.freed_twice.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Enters how many more nodes were retired.
    #[inline]
    pub fn retire(&self, nodes: u64) {
        self.retired.add(nodes as i64);
    }

    /// Looks how many nodes are retired and not freed, for [`peak`](Self::peak).
    pub fn look(&self) -> u64 {
        // The freed ones first: nodes freed in between must not be missing from the sum.
        let freed = self.freed.sum();
        let pending = u64::try_from(self.retired.sum() - freed).unwrap_or(0);
        // Relaxed: a maximum that nothing else depends on.
        self.peak.fetch_max(pending, Ordering::Relaxed);
        pending
    }

    /// The most nodes that were retired and not freed, of the moments at which somebody looked.
    #[must_use]
    pub fn peak(&self) -> u64 {
        // Relaxed: see `look`.
        self.peak.load(Ordering::Relaxed)
    }

    /// Compares retired and freed nodes, after everything should have been freed.
    ///
    /// # Errors
    /// Says what was lost, or freed twice.
    pub fn check(&self) -> Result<(), String> {
        let (retired, freed) = (self.retired.sum(), self.freed.sum());
        // Relaxed: the threads that might have stored it have been joined, or have handed their nodes over.
        if self.freed_twice.load(Ordering::Relaxed) {
            return Err("an object was freed twice".to_owned());
        }
        if retired == freed {
            Ok(())
        } else {
            Err(format!("{retired} objects were retired, {freed} freed"))
        }
    }
}

impl Drop for Graves {
    fn drop(&mut self) {
        let graves = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for node in graves.drain(..) {
            // SAFETY: it came out of a `Box`, and was put here once, at its end.
            drop(unsafe { Box::from_raw(node.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_knows_what_is_missing() {
        let account = Account::default();
        let nodes = [account.allocate(), account.allocate()];
        account.retire(2);
        // SAFETY: nobody else has it.
        unsafe { Node::free(nodes[0]) };
        assert_eq!(account.look(), 1);
        assert!(account.check().is_err());
        // SAFETY: nobody else has it.
        unsafe { Node::free(nodes[1]) };
        assert_eq!(account.check(), Ok(()));
        assert_eq!((account.look(), account.peak()), (0, 1));
    }

    #[test]
    fn the_dead_are_known_as_dead_and_die_once() {
        let account = Account::with_graves();
        let node = account.allocate();
        account.retire(1);
        // SAFETY: an account with graves keeps it allocated.
        assert!(unsafe { node.as_ref() }.is_alive());
        // SAFETY: as above.
        unsafe { Node::free_from_c(node.as_ptr().cast()) };
        // SAFETY: as above.
        assert!(!unsafe { node.as_ref() }.is_alive());
        assert_eq!(account.check(), Ok(()));
        // SAFETY: as above: that is what it must notice.
        unsafe { Node::free(node) };
        assert_eq!(account.check(), Err("an object was freed twice".to_owned()));
    }
}
