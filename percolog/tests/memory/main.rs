//! What is allocated: how often, how much, and what happens when there is none.
#![cfg(not(percolog_loom))]

mod allocations;
#[path = "../common/mod.rs"]
mod common;
mod counter;
mod namespace_memory;
mod slab_bytes;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

/// Counts what each thread asks for, which other tests do not disturb, and what the process has.
struct Counting;

thread_local! {
    /// How often this thread has asked.
    static CALLS: Cell<usize> = const { Cell::new(0) };
    /// The bytes that it has asked for.
    static ASKED: Cell<usize> = const { Cell::new(0) };
    /// Allocations less frees.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    /// The bytes of those.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    /// Whether there is nothing for this thread.
    static HAS_NOTHING: Cell<bool> = const { Cell::new(false) };
}

/// Bytes that are allocated and not freed, of all threads. Relaxed, here and below: read when the threads have been joined.
static ALL_BYTES: AtomicIsize = AtomicIsize::new(0);
/// Whether there are no blocks of [`LARGE`] bytes for anybody.
static NOTHING_LARGE: AtomicBool = AtomicBool::new(false);
/// What is as large as a slab's chunk.
const LARGE: usize = 8000;

impl Counting {
    /// Whether there is memory: then it is counted.
    fn note(layout: Layout, change: isize) -> bool {
        if HAS_NOTHING.get() || layout.size() >= LARGE && NOTHING_LARGE.load(Ordering::Relaxed) {
            return false;
        }
        CALLS.set(CALLS.get() + 1);
        ASKED.set(ASKED.get() + layout.size());
        BYTES.set(BYTES.get() + change);
        ALL_BYTES.fetch_add(change, Ordering::Relaxed);
        true
    }
}

// SAFETY: what is not refused is passed on to the system's allocator; the counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::note(layout, layout.size() as isize) {
            return std::ptr::null_mut();
        }
        LIVE.set(LIVE.get() + 1);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !Self::note(layout, layout.size() as isize) {
            return std::ptr::null_mut();
        }
        LIVE.set(LIVE.get() + 1);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the caller's contract, `size` is one that a layout of this alignment can have.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !Self::note(new, size as isize - layout.size() as isize) {
            return std::ptr::null_mut();
        }
        // SAFETY: by the caller's contract.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let bytes = layout.size() as isize;
        LIVE.set(LIVE.get() - 1);
        BYTES.set(BYTES.get() - bytes);
        ALL_BYTES.fetch_sub(bytes, Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
