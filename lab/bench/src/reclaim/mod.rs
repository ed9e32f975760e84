//! Memory reclamation under reads and updates: what a reader's section costs, and what it costs to free memory that
//! readers may still see.
//!
//! The workload is that of Q. Wang, T. Stamler and G. Parmer, *Parallel Sections: Scaling System-Level
//! Data-Structures*, §5.1. A *read* enters a section and leaves it; the section is empty, so that nothing but the
//! reclaimer is measured. An *update* allocates one cache line and retires the one that the thread allocated before,
//! or, where the reclaimer has no other way, waits until no reader can see it and frees it. Which of the two comes
//! next is read from a [trace] that was made before the measurement, of which each thread has its own part.
//!
//! * [`bare`]: that workload, its rates and, in a pass of its own, the time of single calls;
//! * [`checked`]: the same operations on memory that readers really read, which finds what is freed too early;
//! * [`shared`]: a table whose elements are read and replaced, also beside a reader that stays inside;
//! * [`simulated`]: the first one on cores of a simulated machine, in its cycles;
//! * [`lone`]: what a section costs by itself, what idle threads cost an update, what one stalled reader holds back.
//!
//! Every run ends with everything freed, within the time that is measured, and counts it.

pub mod bare;
pub mod checked;
mod kinds;
pub mod lone;
pub mod node;
pub mod peers;
pub mod shared;
pub mod simulated;
pub mod trace;

use std::ptr::NonNull;

pub use kinds::{ReclaimerKind, Visitor};
use node::Node;

/// A way to know when memory may be freed.
pub trait Reclaimer: Sync {
    /// How tables call it.
    const NAME: &'static str;

    /// Whether [`Handle::retire`] waits until it has freed the object.
    const WAITS: bool;

    /// What one thread needs for its sections and its updates.
    type Handle<'r>: Handle
    where
        Self: 'r;

    /// One without threads.
    fn new() -> Self;

    /// Makes the calling thread one whose sections count.
    fn register(&self) -> Self::Handle<'_>;

    /// Frees everything that was retired. Every handle has been dropped before, and none is made afterwards.
    fn finish(&self);
}

/// One thread's access to a [`Reclaimer`].
pub trait Handle {
    /// Runs `inside` in a section.
    fn section<T>(&mut self, inside: impl FnOnce() -> T) -> T;

    /// An empty section.
    #[inline]
    fn read(&mut self) {
        self.section(|| ());
    }

    /// This many empty sections. Where the reclaimer is in C, so is this loop: the call from Rust is no part of it.
    #[inline]
    fn reads(&mut self, count: u64) {
        for _ in 0..count {
            self.read();
        }
    }

    /// Frees `node`, as soon as no section can see it any more.
    ///
    /// # Safety
    /// It came from [`node::Account::allocate`], sections that begin from now on cannot find it, and it was not retired
    /// before. The calling thread is in no section.
    unsafe fn retire(&mut self, node: NonNull<Node>);
}
