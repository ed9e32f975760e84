//! The way home: where a place finds what others have freed of its blocks.

use super::chunk::Block;
use crate::sync::Isolated;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use core::ptr;

/// Where blocks are sent, and the number of the place that takes them in there.
///
/// Both are known without a look at the home, whose line is written by all who send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address {
    pub(super) home: *const Home,
    pub(super) number: usize,
}

/// Where blocks of a place wait to be taken in.
pub(super) struct Home(Isolated<Waiting>);

struct Waiting {
    first: AtomicPtr<Block>,
    count: AtomicUsize,
}

impl Home {
    pub(super) fn new() -> Self {
        Self(Isolated::new(Waiting {
            first: AtomicPtr::new(ptr::null_mut()),
            count: AtomicUsize::new(0),
        }))
    }

    /// Adds a list that is linked from `first` to `last`; how many are there now.
    ///
    /// Lock-free.
    pub(super) fn push(&self, first: *mut Block, last: *mut Block, count: usize) -> usize {
        let mut before = self.0.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the list is the caller's.
            unsafe { Block::set_next(last, before) };
            // Release pairs with the Acquire in `take`: the links, and whatever was done with the
            // objects. Lists that were pushed before stay published: an exchange continues their
            // release. Whatever the word was in between does not matter, since lists are only taken
            // out whole. Relaxed on failure: what is read is linked to, not looked into.
            match self.0.first.compare_exchange_weak(
                before,
                first,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                // Relaxed: decides only when somebody looks.
                Ok(_) => {
                    return self
                        .0
                        .count
                        .fetch_add(count, Ordering::Relaxed)
                        .wrapping_add(count);
                }
                Err(now) => before = now,
            }
        }
    }

    /// Takes out all that is there.
    pub(super) fn take(&self) -> *mut Block {
        // Relaxed: a hint, so that a line that nobody sends to is not written.
        if self.0.first.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        // Acquire pairs with the Release in `push`.
        self.0.first.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// So many were taken.
    pub(super) fn taken(&self, count: usize) {
        if count != 0 {
            // Relaxed: as in `push`. It can come before the addition, and wraps then for a moment.
            self.0.count.fetch_sub(count, Ordering::Relaxed);
        }
    }
}
