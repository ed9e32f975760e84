//! A lock of one word that works between processes, and can be opened by force where its holder does not exist.

use std::sync::atomic::{AtomicBool, Ordering};

/// Held for a few instructions only: whoever finds it closed yields its processor until it is open.
#[derive(Debug)]
pub(crate) struct Latch(AtomicBool);

impl Latch {
    /// An open one.
    pub(crate) const fn new() -> Self {
        Latch(AtomicBool::new(false))
    }

    /// Waits until it is open, and closes it.
    pub(crate) fn close(&self) {
        // Acquire: pairs with the release store in `open`.
        while self.0.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// Opens it.
    pub(crate) fn open(&self) {
        // Release: pairs with the acquire swap in `close`.
        self.0.store(false, Ordering::Release);
    }
}
