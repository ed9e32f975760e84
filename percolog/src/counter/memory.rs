//! Zeroed memory that shares no line with anything else.

#[cfg(not(percolog_loom))]
pub(super) use plain::{free, zeroed};

#[cfg(percolog_loom)]
pub(super) use modelled::{free, zeroed};

/// Types whose value is [`Default`] when all their bytes are zero.
///
/// # Safety
/// All-zero bytes are a valid value, equal to the default, and the type has no destructor.
pub(super) unsafe trait Zero: Default {}

#[cfg(not(percolog_loom))]
mod plain {
    use super::Zero;
    use crate::cpu::LINE_SIZE;
    use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use core::ptr;

    /// From here on alignment is made by hand.
    ///
    /// The system allocator of `std`, asked for zeroed memory with a large alignment, writes the
    /// zeros itself; asked with a small one, it gets large blocks as fresh pages that cost nothing
    /// until they are touched. A thread that uses few of very many counters should pay for few.
    const LARGE: usize = 32 * 1024;

    /// Where the allocator's own pointer is kept in front of a block aligned by hand.
    const HEADER: usize = 16;

    struct Plan {
        layout: Layout,
        by_hand: bool,
    }

    fn plan<T>(count: usize) -> Plan {
        const { assert!(align_of::<T>() <= HEADER && size_of::<T>() != 0) };
        let planned = Layout::array::<T>(count).and_then(|array| {
            if array.size() < LARGE {
                let layout = array.align_to(LINE_SIZE)?.pad_to_align();
                return Ok(Plan {
                    layout,
                    by_hand: false,
                });
            }
            // The end is padded to whole lines as well.
            let size = array.align_to(LINE_SIZE)?.pad_to_align().size();
            let (layout, _) = Layout::from_size_align(HEADER + LINE_SIZE, HEADER)?
                .extend(Layout::from_size_align(size, HEADER)?)?;
            Ok(Plan {
                layout,
                by_hand: true,
            })
        });
        match planned {
            Ok(plan) => plan,
            Err(_) => panic!("more counters than addresses"),
        }
    }

    /// `count` zeroed values on lines of their own.
    pub(in crate::counter) fn zeroed<T: Zero>(count: usize) -> *mut T {
        let Plan { layout, by_hand } = plan::<T>(count);
        // SAFETY: `count` is not zero and neither is the size of a `T`.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        if !by_hand {
            return start.cast();
        }
        let skipped = (start as usize + HEADER).next_multiple_of(LINE_SIZE) - start as usize;
        // SAFETY: `HEADER <= skipped < HEADER + LINE_SIZE`, which the layout has room for beside the
        // values; the header lies in what is skipped, aligned to `HEADER`.
        unsafe {
            let values = start.add(skipped);
            values.sub(HEADER).cast::<*mut u8>().write(start);
            values.cast()
        }
    }

    /// Frees what [`zeroed`] returned.
    ///
    /// # Safety
    /// `values` comes from `zeroed` with this `count`, and is not used again.
    pub(in crate::counter) unsafe fn free<T: Zero>(values: *mut T, count: usize) {
        let Plan { layout, by_hand } = plan::<T>(count);
        let values = values.cast::<u8>();
        // SAFETY: by contract; the header was written by `zeroed`.
        unsafe {
            let start = if by_hand {
                ptr::read(values.sub(HEADER).cast::<*mut u8>())
            } else {
                values
            };
            dealloc(start, layout);
        }
    }
}

#[cfg(percolog_loom)]
mod modelled {
    //! The model checker's atomics are no plain memory: they have to be constructed.

    use super::Zero;
    use alloc::boxed::Box;
    use core::ptr;

    pub(in crate::counter) fn zeroed<T: Zero>(count: usize) -> *mut T {
        let values: Box<[T]> = (0..count).map(|_| T::default()).collect();
        Box::into_raw(values).cast()
    }

    /// # Safety
    /// `values` comes from [`zeroed`] with this `count`, and is not used again.
    pub(in crate::counter) unsafe fn free<T: Zero>(values: *mut T, count: usize) {
        // SAFETY: by contract.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(values, count)) });
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;
    use crate::cpu::LINE_SIZE;

    #[derive(Default)]
    struct Two(#[allow(dead_code)] u64, u64);

    // SAFETY: integers.
    unsafe impl Zero for Two {}

    #[test]
    fn small_and_large_blocks_are_zeroed_aligned_and_freed() {
        for count in [1, 7, 64, 2047, 2048, 4096, 100_000] {
            let values = zeroed::<Two>(count);
            assert_eq!(values as usize % LINE_SIZE, 0);
            for at in 0..count {
                // SAFETY: within the block, which is zeroed and ours.
                unsafe {
                    assert_eq!((*values.add(at)).1, 0);
                    (*values.add(at)).1 = at as u64 + 1;
                }
            }
            // SAFETY: as many as were asked for.
            unsafe { free(values, count) };
        }
    }
}
