//! `crossbeam-epoch` 0.9: epochs, a bag of 64 retired objects a thread, an attempt to advance every 128 pins.
//!
//! A collector of its own, with a registered handle a thread, instead of the process's default one: the handle is found
//! without thread-local storage, which is a little faster, and dropping the collector frees everything. Retiring needs
//! a pinned thread.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crossbeam_epoch::{Collector, LocalHandle};

use crate::reclaim::node::Node;
use crate::reclaim::{Handle, Reclaimer};

/// A collector; `None` once everything has been freed.
#[derive(Debug)]
pub struct CrossbeamEpoch(Mutex<Option<Collector>>);

impl Reclaimer for CrossbeamEpoch {
    const NAME: &'static str = "crossbeam-epoch";
    const WAITS: bool = false;
    type Handle<'r> = CrossbeamHandle;

    fn new() -> Self {
        Self(Mutex::new(Some(Collector::new())))
    }

    fn register(&self) -> CrossbeamHandle {
        let mut collector = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        CrossbeamHandle(collector.get_or_insert_default().register())
    }

    fn finish(&self) {
        // The last reference to a collector frees what its threads have left.
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// One thread's handle.
#[derive(Debug)]
pub struct CrossbeamHandle(LocalHandle);

impl Handle for CrossbeamHandle {
    #[inline]
    fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        let guard = self.0.pin();
        let result = inside();
        drop(guard);
        result
    }

    #[inline]
    unsafe fn retire(&mut self, node: NonNull<Node>) {
        let guard = self.0.pin();
        // SAFETY: no section that begins later can find it, and any thread may free it.
        unsafe { guard.defer_unchecked(move || Node::free(node)) };
    }
}
