//! Keeping what one core writes off the lines that others use.

/// Bytes that are kept apart so that two slots never write the same line: 128, two 64-byte lines,
/// since processors of today fetch lines in pairs.
///
/// Override it when building with `RUSTFLAGS='--cfg percolog_line_size="64"'`; 32, 64, 128 and 256
/// are known. Memory per touched slot is rounded up to a multiple of it.
pub const LINE_SIZE: usize = core::mem::align_of::<Line>();

#[cfg_attr(percolog_line_size = "32", repr(align(32)))]
#[cfg_attr(percolog_line_size = "64", repr(align(64)))]
#[cfg_attr(percolog_line_size = "256", repr(align(256)))]
#[cfg_attr(
    not(any(
        percolog_line_size = "32",
        percolog_line_size = "64",
        percolog_line_size = "256"
    )),
    repr(align(128))
)]
#[derive(Debug, Default, Clone, Copy)]
struct Line;

/// A value that shares no line with its neighbours.
#[cfg(feature = "alloc")]
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Isolated<T> {
    line: Line,
    value: T,
}

#[cfg(feature = "alloc")]
impl<T> Isolated<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { line: Line, value }
    }

    pub(crate) fn into_inner(self) -> T {
        self.value
    }

    /// Where the value is in memory that is to become this, for values that are made in place.
    ///
    /// # Safety
    /// The memory is in bounds of one allocation.
    pub(crate) const unsafe fn value_in(isolated: *mut Self) -> *mut T {
        // SAFETY: in bounds, by the caller; nothing is read.
        unsafe { &raw mut (*isolated).value }
    }
}

#[cfg(feature = "alloc")]
impl<T> core::borrow::Borrow<T> for Isolated<T> {
    #[inline(always)]
    fn borrow(&self) -> &T {
        &self.value
    }
}

#[cfg(feature = "alloc")]
impl<T> core::ops::Deref for Isolated<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(feature = "alloc")]
impl<T> core::ops::DerefMut for Isolated<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::{Isolated, LINE_SIZE};

    #[test]
    fn isolated_values_fill_whole_lines() {
        assert_eq!(size_of::<Isolated<u8>>(), LINE_SIZE);
        assert_eq!(align_of::<Isolated<u8>>(), LINE_SIZE);
    }
}
