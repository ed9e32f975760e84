//! Real memory: frames are pages of a memory file, and address spaces are ranges of this process' addresses.

use super::{BackEnd, Refused};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames in a file without a name, mapped with `mmap`.
///
/// A page that shows nothing is reserved address space, which faults. Unmapping is finished when the call returns: the kernel
/// has flushed all TLBs then, so there is no grace period to be waited for. A frame's memory is taken when it is first
/// touched, and given back to the system when the frame is granted the next time.
///
/// A process may have 65530 mappings as a rule (`vm.max_map_count`). Pages that lie beside each other and show neighbouring frames are
/// one; but when single ones are taken away it falls into pieces, and cannot if there is no room for them. So half the limit
/// is for the pages, each counted alone: beyond that, mapping is [refused](Refused::TooManyMappings).
#[derive(Debug)]
pub struct MemoryFile {
    file: OwnedFd,
    frames: u32,
    page_size: usize,
    mapped: AtomicU64,
    most: u64,
}

/// An address space of a [`MemoryFile`]: reserved addresses of this process, given back when this is dropped.
#[derive(Debug)]
pub struct AddressRange {
    start: NonNull<u8>,
    pages: u32,
    page_size: usize,
}

// SAFETY: it stands for addresses, not for what lies there.
unsafe impl Send for AddressRange {}
// SAFETY: as above.
unsafe impl Sync for AddressRange {}

impl AddressRange {
    /// Where a page lies.
    ///
    /// # Panics
    /// If there is no such page.
    #[must_use]
    pub fn address(&self, page: u32) -> NonNull<u8> {
        assert!(page < self.pages, "there is no page {page}");
        // SAFETY: within the range, which is one reservation.
        unsafe { self.start.add(page as usize * self.page_size) }
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        // SAFETY: nobody can use the address space any more. (It has the bounds of a mapping, so this needs no new one.)
        unsafe {
            libc::munmap(
                self.start.as_ptr().cast(),
                self.pages as usize * self.page_size,
            )
        };
    }
}

fn refused(what: &'static str) -> Refused {
    Refused::System {
        what,
        cause: io::Error::last_os_error(),
    }
}

impl MemoryFile {
    /// A file with so many frames, none of which takes memory yet.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(frames: u32) -> Result<Self, Refused> {
        // SAFETY: asks for a number.
        let page_size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
            .map_err(|_| refused("tell the size of a page"))?;
        // SAFETY: the name is a string that ends with a zero.
        let file = unsafe { libc::memfd_create(c"frames".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(refused("make a memory file"));
        }
        // SAFETY: just opened, and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let length = i64::from(frames) * page_size as i64;
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), length) } != 0 {
            return Err(refused("make a memory file long"));
        }
        Ok(Self {
            file,
            frames,
            page_size,
            mapped: AtomicU64::new(0),
            most: std::fs::read_to_string("/proc/sys/vm/max_map_count")
                .ok()
                .and_then(|text| text.trim().parse::<u64>().ok())
                .map_or(32765, |most| most / 2),
        })
    }

    /// Maps so many pages at most, instead of what the system's limit allows.
    #[must_use]
    pub fn most_pages(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// How many bytes a page has.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// The bytes at the beginning of a page, if it is mapped and can be read; nothing faults.
    ///
    /// # Errors
    /// If the page shows nothing, or the system refuses.
    pub fn read(&self, space: &AddressRange, page: u32) -> io::Result<u64> {
        let mut value = 0_u64;
        let local = libc::iovec {
            iov_base: ptr::from_mut(&mut value).cast(),
            iov_len: size_of::<u64>(),
        };
        let remote = libc::iovec {
            iov_base: space.address(page).as_ptr().cast(),
            iov_len: size_of::<u64>(),
        };
        // SAFETY: the local part is a number of ours; the kernel checks the other one.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        match read {
            8 => Ok(value),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Writes the bytes at the beginning of a page; nothing faults.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&self, space: &AddressRange, page: u32, mut value: u64) -> io::Result<()> {
        let local = libc::iovec {
            iov_base: ptr::from_mut(&mut value).cast(),
            iov_len: size_of::<u64>(),
        };
        let remote = libc::iovec {
            iov_base: space.address(page).as_ptr().cast(),
            iov_len: size_of::<u64>(),
        };
        // SAFETY: what is written to lies in a reservation of ours, and is memory of the file or faults; the kernel finds that out.
        let written = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
        match written {
            8 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl BackEnd for MemoryFile {
    type Space = AddressRange;

    fn frames(&self) -> u32 {
        self.frames
    }

    fn create(&self, pages: u32) -> Result<AddressRange, Refused> {
        // SAFETY: new addresses, of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                pages as usize * self.page_size,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(AddressRange {
                start,
                pages,
                page_size: self.page_size,
            }),
            _ => Err(refused("reserve addresses")),
        }
    }

    fn clear(&self, frame: u32, count: u32) -> Result<(), Refused> {
        let size = self.page_size as i64;
        // SAFETY: the descriptor is open, and nobody has these frames mapped.
        let result = unsafe {
            libc::fallocate(
                self.file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                i64::from(frame) * size,
                i64::from(count) * size,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(refused("give back a frame's memory"))
        }
    }

    fn map(&self, space: &AddressRange, page: u32, frame: u32, count: u32) -> Result<(), Refused> {
        // Relaxed: a number that nothing else depends on.
        let mapped = self.mapped.fetch_add(u64::from(count), Ordering::Relaxed);
        let refuse = |error| {
            // Relaxed: as above.
            self.mapped.fetch_sub(u64::from(count), Ordering::Relaxed);
            Err(error)
        };
        if mapped + u64::from(count) > self.most {
            return refuse(Refused::TooManyMappings {
                mapped,
                most: self.most,
            });
        }
        // SAFETY: in place of a part of a reservation of ours, which nothing in this process refers to.
        let start = unsafe {
            libc::mmap(
                space.address(page).as_ptr().cast(),
                count as usize * self.page_size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                self.file.as_raw_fd(),
                i64::from(frame) * self.page_size as i64,
            )
        };
        if start == libc::MAP_FAILED {
            return refuse(refused("map a part of the memory file"));
        }
        Ok(())
    }

    fn unmap(&self, space: &AddressRange, page: u32, count: u32) {
        // SAFETY: as in `map`; whoever still uses the page faults, as he should.
        let start = unsafe {
            libc::mmap(
                space.address(page).as_ptr().cast(),
                count as usize * self.page_size,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            // Somebody else has used up what was set aside. The frame would be given to others with this page still on it.
            eprintln!("{}", refused("unmap a page"));
            std::process::abort();
        }
        // Relaxed: as in `map`.
        self.mapped.fetch_sub(u64::from(count), Ordering::Relaxed);
    }

    /// As the kernel has it: a look through `/proc/self/maps`.
    fn frame_at(&self, space: &AddressRange, page: u32) -> Option<u32> {
        let address = space.address(page).as_ptr().addr() as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        maps.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let start = u64::from_str_radix(start, 16).ok()?;
            let end = u64::from_str_radix(end, 16).ok()?;
            if !(start..end).contains(&address) || !line.contains("/memfd:frames") {
                return None;
            }
            let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
            u32::try_from((offset + (address - start)) / self.page_size as u64).ok()
        })
    }
}
