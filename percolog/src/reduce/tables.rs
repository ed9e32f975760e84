//! Hash tables that share no line with other memory: one thread writes to its own all the time.

use crate::sync::LINE_SIZE;
use allocator_api2::alloc::{AllocError, Allocator, Global, Layout};
use core::ptr::NonNull;
use hashbrown::DefaultHashBuilder;

/// A map on lines of its own.
pub(super) type Table<K, V> = hashbrown::HashMap<K, V, DefaultHashBuilder, OwnLines>;

/// A set on lines of its own.
pub(super) type Set<K> = hashbrown::HashSet<K, DefaultHashBuilder, OwnLines>;

/// The global allocator, asked for whole lines.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OwnLines;

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

#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn tables_lie_on_whole_lines() {
        for size in [1, 100, 128, 1000] {
            let layout = Layout::from_size_align(size, 16).expect("valid");
            let memory = OwnLines.allocate(layout).expect("there is memory");
            assert_eq!(memory.cast::<u8>().addr().get() % LINE_SIZE, 0);
            assert_eq!(memory.len() % LINE_SIZE, 0);
            // SAFETY: allocated just above.
            unsafe { OwnLines.deallocate(memory.cast(), layout) };
        }
        let mut table: Table<u32, u32> = Table::default();
        table.extend((0..1000).map(|number| (number, number)));
        table.shrink_to_fit();
        assert_eq!(table.values().sum::<u32>(), 999 * 500);
    }
}
