//! What the processes that run on one machine have in common.
//!
//! A guest that forks is two processes of the host, and both have the simulation: what one changes the other sees. So all
//! of it lies in memory that is mapped to be shared, which a fork neither copies nor moves: the statics that are wrapped
//! in [`Common`], and what the plugin allocates ([`heap`](crate::plugin::heap)).

use std::ffi::{c_int, c_void};
use std::ops::Deref;

const READ_AND_WRITE: c_int = 3;
const SHARED: c_int = 1;
const FIXED: c_int = 0x10;
const ANONYMOUS: c_int = 0x20;
const NO_RESERVE: c_int = 0x4000;

unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        length: usize,
        rights: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
}

/// Where there is nothing else: far from programs and libraries, between which QEMU's translations lie. They call the plugin, and a call
/// that reaches farther than two gigabytes costs more.
const APART: usize = 0x6000_0000_0000;

/// Maps so many bytes that forked processes share; nothing if there are not so many addresses.
pub(crate) fn map(length: usize) -> Option<usize> {
    let flags = SHARED | ANONYMOUS | NO_RESERVE;
    // SAFETY: a new mapping takes nothing from anybody: where something is, the kernel finds another place.
    let found = unsafe { mmap(APART as *mut c_void, length, READ_AND_WRITE, flags, -1, 0) };
    // All ones is the error.
    (found as usize != usize::MAX).then_some(found as usize)
}

/// A static that forked processes share once [`Common::share`] was called. It fills whole pages.
#[repr(align(4096))]
pub(crate) struct Common<T>(T);

impl<T> Common<T> {
    /// Not yet shared.
    pub(crate) const fn new(value: T) -> Self {
        Common(value)
    }

    /// Has the pages shared with the processes that are forked from now on. To be called while nobody else uses it.
    ///
    /// # Panics
    ///
    /// If the kernel has no memory.
    pub(crate) fn share(&'static self) {
        let here: *const Self = self;
        let length = size_of::<Self>();
        let Some(copy) = map(length) else {
            out_of_memory();
        };
        let flags = SHARED | FIXED | ANONYMOUS;
        // SAFETY: the pages are those of this static and of nothing else, since it is aligned to pages and as large as some; nobody
        // uses it now, and its bytes are the same afterwards. The copy is as large. It stays mapped: a few pages.
        unsafe {
            std::ptr::copy_nonoverlapping(here.cast::<u8>(), copy as *mut u8, length);
            let place = here.cast_mut().cast::<c_void>();
            if mmap(place, length, READ_AND_WRITE, flags, -1, 0) != place {
                out_of_memory();
            }
            std::ptr::copy_nonoverlapping(copy as *const u8, place.cast::<u8>(), length);
        }
    }
}

impl<T> Deref for Common<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// There is no memory for the plugin. Nothing can be allocated here, not even a message.
fn out_of_memory() -> ! {
    crate::plugin::leave_with(b"percolog sim: no memory for the simulator\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    unsafe extern "C" {
        fn fork() -> c_int;
        fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
        fn _exit(status: c_int) -> !;
    }

    #[test]
    fn a_child_and_its_parent_see_what_the_other_has_written() {
        static OURS: Common<AtomicU64> = Common::new(AtomicU64::new(7));
        static MINE: AtomicU64 = AtomicU64::new(7);
        OURS.share();
        assert_eq!(OURS.load(Ordering::Relaxed), 7, "it holds what it held");
        // SAFETY: the child makes system calls and touches atomics, and ends.
        let child = unsafe { fork() };
        if child == 0 {
            OURS.fetch_add(1, Ordering::Relaxed);
            MINE.fetch_add(1, Ordering::Relaxed);
            // SAFETY: it does not return.
            unsafe { _exit(0) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: the child is this process's.
        assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(OURS.load(Ordering::Relaxed), 8);
        assert_eq!(MINE.load(Ordering::Relaxed), 7);
    }
}
