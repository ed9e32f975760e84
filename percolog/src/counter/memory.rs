//! Zeroed memory that shares no line with anything else.

#[cfg(not(percolog_loom))]
pub(super) use plain::zeroed;
#[cfg(not(percolog_loom))]
pub(crate) use plain::{free, try_zeroed};

#[cfg(percolog_loom)]
pub(super) use modelled::zeroed;
#[cfg(percolog_loom)]
pub(crate) use modelled::{free, try_zeroed};

/// Types whose value is [`Default`] when all their bytes are zero.
///
/// # Safety
/// All-zero bytes are a valid value, equal to the default, and the type has no destructor.
pub(crate) unsafe trait Zero: Default {}

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

    /// `None` if so many have no room anywhere.
    fn plan<T>(count: usize) -> Option<Plan> {
        const { assert!(align_of::<T>() <= HEADER && size_of::<T>() != 0) };
        debug_assert!(count != 0, "memory has a size");
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
        planned.ok()
    }

    /// `count` zeroed values on lines of their own.
    pub(in crate::counter) fn zeroed<T: Zero>(count: usize) -> *mut T {
        let Some(plan) = plan::<T>(count) else {
            panic!("more counters than addresses")
        };
        let values = take::<T>(&plan);
        if values.is_null() {
            handle_alloc_error(plan.layout);
        }
        values
    }

    /// The same, but null if there is no memory for so many.
    pub(crate) fn try_zeroed<T: Zero>(count: usize) -> *mut T {
        plan::<T>(count).map_or(ptr::null_mut(), |plan| take(&plan))
    }

    fn take<T: Zero>(plan: &Plan) -> *mut T {
        // SAFETY: there is at least one `T`, and it has a size.
        let start = unsafe { alloc_zeroed(plan.layout) };
        if start.is_null() || !plan.by_hand {
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

    /// Frees what [`zeroed`] or [`try_zeroed`] returned.
    ///
    /// # Safety
    /// `values` comes from one of them with this `count`, and is not used again.
    pub(crate) unsafe fn free<T: Zero>(values: *mut T, count: usize) {
        let Some(Plan { layout, by_hand }) = plan::<T>(count) else {
            return;
        };
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
        try_zeroed(count)
    }

    pub(crate) fn try_zeroed<T: Zero>(count: usize) -> *mut T {
        let values: Box<[T]> = (0..count).map(|_| T::default()).collect();
        Box::into_raw(values).cast()
    }

    /// # Safety
    /// `values` comes from [`zeroed`] with this `count`, and is not used again.
    pub(crate) unsafe fn free<T: Zero>(values: *mut T, count: usize) {
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
