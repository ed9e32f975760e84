//! What the system does itself.

use crate::mapdb::Refused;
use std::io;
use std::ptr::{self, NonNull};

/// Linux: anonymous memory, mapped and touched, and unmapped again.
///
/// There is one address space, that of this process, and there are no trees: it is what a mapping database costs where the system
/// keeps one of its own.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    page_size: usize,
}

/// Pages of anonymous memory, unmapped when this is dropped.
#[derive(Debug)]
pub struct Anonymous {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: memory that nobody else has.
unsafe impl Send for Anonymous {}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

impl Kernel {
    /// The system that this runs on.
    #[must_use]
    pub fn new() -> Self {
        // SAFETY: asks for a number.
        let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            page_size: usize::try_from(page_size).unwrap_or(4096),
        }
    }

    /// Maps so many pages, and writes to each, so that it has a frame.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn map(self, pages: u32) -> Result<Anonymous, Refused> {
        let bytes = pages as usize * self.page_size;
        // SAFETY: new addresses, of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let mapped = match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Anonymous { start, bytes },
            _ => {
                return Err(Refused::System {
                    what: "map memory",
                    cause: io::Error::last_os_error(),
                });
            }
        };
        for at in (0..bytes).step_by(self.page_size) {
            // SAFETY: within what was just mapped, and nobody else's. Volatile: for what it does to the page, not for the byte.
            unsafe { mapped.start.add(at).write_volatile(1) };
        }
        Ok(mapped)
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody else's.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
