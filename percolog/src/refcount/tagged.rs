//! The pointer in a reference, which says what the reference is.

use core::ptr::NonNull;

use super::shared::Header;

/// Where the header is, and whether the reference that says so is hot: the lowest bit, since headers are aligned.
#[derive(Clone, Copy)]
pub(super) struct Tagged(NonNull<Header>);

const _: () = assert!(align_of::<Header>() >= 8);

impl Tagged {
    pub(super) fn cold(header: NonNull<Header>) -> Self {
        Self(header)
    }

    #[inline(always)]
    pub(super) fn is_hot(self) -> bool {
        self.0.addr().get() & 1 != 0
    }

    /// Of the same header, and hot or not.
    #[inline(always)]
    pub(super) fn but(self, is_hot: bool) -> Self {
        let pointer = (self.0.as_ptr()).map_addr(|address| address & !1 | usize::from(is_hot));
        // SAFETY: the header's address is not zero, and even.
        Self(unsafe { NonNull::new_unchecked(pointer) })
    }

    #[inline(always)]
    pub(super) fn is_of(self, other: Self) -> bool {
        self.but(false).0 == other.but(false).0
    }

    /// # Safety
    /// There is a reference for so long.
    #[inline(always)]
    pub(super) unsafe fn get<'a>(self) -> &'a Header {
        // SAFETY: the caller's promise.
        unsafe { self.but(false).0.as_ref() }
    }
}
