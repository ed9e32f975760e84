//! `seize` 0.5: Hyaline, batches of at least 32 objects that are counted by the threads which might see them, with
//! `membarrier` where the system has it (its default feature).
//!
//! Retiring goes to the collector itself, which asks for no section.

use std::ptr::NonNull;

use seize::Collector;

use crate::reclaim::node::Node;
use crate::reclaim::{Handle, Reclaimer};

/// A collector.
#[derive(Debug)]
pub struct Seize(Collector);

impl Reclaimer for Seize {
    const NAME: &'static str = "seize";
    const WAITS: bool = false;
    type Handle<'r> = SeizeHandle<'r>;

    fn new() -> Self {
        Self(Collector::new())
    }

    fn register(&self) -> SeizeHandle<'_> {
        SeizeHandle(&self.0)
    }

    fn finish(&self) {
        // SAFETY: every handle has been dropped, so no thread is in a section or retires anything.
        unsafe { self.0.reclaim_all() };
    }
}

/// One thread's access; the collector finds the thread's state by itself.
#[derive(Debug)]
pub struct SeizeHandle<'r>(&'r Collector);

impl Handle for SeizeHandle<'_> {
    #[inline]
    fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T {
        let guard = self.0.enter();
        let result = inside();
        drop(guard);
        result
    }

    #[inline]
    unsafe fn retire(&mut self, node: NonNull<Node>) {
        // SAFETY: no section that begins later can find it, it is retired once, and it came from one allocation.
        unsafe { self.0.retire(node.as_ptr(), free) };
    }
}

/// # Safety
/// As for [`Node::free`].
unsafe fn free(node: *mut Node, _collector: &Collector) {
    if let Some(node) = NonNull::new(node) {
        // SAFETY: as the caller promises.
        unsafe { Node::free(node) };
    }
}
