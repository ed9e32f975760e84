//! Memory that shares no line with other memory.

use super::DropsAll;
use crate::sync::LINE_SIZE;
use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
use core::ptr::NonNull;
use hashbrown::HashTable;

/// The global allocator, asked for whole lines.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnLines;

fn whole_lines(layout: Layout) -> Result<Layout, AllocError> {
    match layout.align_to(LINE_SIZE) {
        Ok(aligned) => Ok(aligned.pad_to_align()),
        Err(_) => Err(AllocError),
    }
}

// SAFETY: memory comes from the global allocator, with a layout that the given one fits into, and goes back with the
// same; the allocator has no state.
unsafe impl Allocator for OwnLines {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(whole_lines(layout)?)
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        if let Ok(layout) = whole_lines(layout) {
            // SAFETY: by contract it was allocated above, with this layout; one for which there is none was not.
            unsafe { Global.deallocate(memory, layout) };
        }
    }
}

/// A hash table on lines of its own.
pub(crate) type OwnTable<T> = DropsAll<HashTable<T, OwnLines>>;

impl<T> OwnTable<T> {
    pub(crate) const fn new() -> Self {
        Self::of(HashTable::new_in(OwnLines))
    }
}

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_whole_lines() {
        for size in [1, 100, 128, 1000] {
            let layout = Layout::from_size_align(size, 16).expect("valid");
            let memory = OwnLines.allocate(layout).expect("there is memory");
            assert_eq!(memory.cast::<u8>().addr().get() % LINE_SIZE, 0);
            assert_eq!(memory.len() % LINE_SIZE, 0);
            // SAFETY: allocated just above.
            unsafe { OwnLines.deallocate(memory.cast(), layout) };
        }
    }
}
