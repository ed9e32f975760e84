//! The guest's memory, reached without trusting the guest's pointers.
//!
//! Guest addresses are host addresses. A bad one must make a system call fail with `EFAULT`, as the kernel would, and
//! not end the emulator: so the kernel copies, on a system call that reports what it cannot reach.

use std::ffi::{c_int, c_ulong, c_void};

#[repr(C)]
struct Span {
    base: *mut c_void,
    length: usize,
}

unsafe extern "C" {
    fn getpid() -> c_int;
    fn process_vm_readv(
        pid: c_int,
        local: *const Span,
        locals: c_ulong,
        remote: *const Span,
        remotes: c_ulong,
        flags: c_ulong,
    ) -> isize;
    fn process_vm_writev(
        pid: c_int,
        local: *const Span,
        locals: c_ulong,
        remote: *const Span,
        remotes: c_ulong,
        flags: c_ulong,
    ) -> isize;
}

const EFAULT: i32 = 14;
const ESRCH: i32 = 3;

/// What the kernel's copy came to.
enum Copied {
    All,
    /// Some of the addresses are not the guest's to use in this way.
    Fault,
    /// The kernel does not offer the call, or a filter forbids it.
    Unavailable,
}

fn judge(copied: isize, wanted: usize) -> Copied {
    match usize::try_from(copied) {
        Ok(copied) if copied == wanted => Copied::All,
        Ok(_) => Copied::Fault,
        Err(_) => match std::io::Error::last_os_error().raw_os_error() {
            Some(EFAULT | ESRCH) => Copied::Fault,
            _ => Copied::Unavailable,
        },
    }
}

/// Fills `into` from the guest's memory; `false` if it cannot be read.
#[must_use]
pub(crate) fn read(address: u64, into: &mut [u8]) -> bool {
    if into.is_empty() {
        return true;
    }
    let local = Span {
        base: into.as_mut_ptr().cast(),
        length: into.len(),
    };
    let remote = Span {
        base: address as *mut c_void,
        length: into.len(),
    };
    // SAFETY: the local span is `into`, which is borrowed mutably; the kernel checks the remote one.
    let copied =
        unsafe { process_vm_readv(getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    match judge(copied, into.len()) {
        Copied::All => true,
        Copied::Fault => false,
        Copied::Unavailable => {
            if address < 4096 {
                return false;
            }
            // SAFETY: the guest passed the address to a system call as readable; a wrong one ends the guest with the
            // signal that an access of its own would. The destination is `into`, as long.
            unsafe {
                std::ptr::copy(address as *const u8, into.as_mut_ptr(), into.len());
            }
            true
        }
    }
}

/// Copies `bytes` into the guest's memory; `false` if it cannot be written.
#[must_use]
pub(crate) fn write(address: u64, bytes: &[u8]) -> bool {
    write_to(std::process::id(), address, bytes)
}

/// Copies `bytes` into the memory of a process of the machine; `false` if it cannot be written.
#[must_use]
pub(crate) fn write_to(process: u32, address: u64, bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let local = Span {
        base: bytes.as_ptr().cast_mut().cast(),
        length: bytes.len(),
    };
    let remote = Span {
        base: address as *mut c_void,
        length: bytes.len(),
    };
    // SAFETY: the kernel only reads the local span, which is `bytes`; it checks the remote one. The caller has the turn,
    // so that no guest thread uses the memory meanwhile, and the simulator keeps no reference into the guest's memory.
    let copied = unsafe {
        process_vm_writev(
            process as c_int,
            &raw const local,
            1,
            &raw const remote,
            1,
            0,
        )
    };
    match judge(copied, bytes.len()) {
        Copied::All => true,
        Copied::Fault => false,
        Copied::Unavailable => {
            if address < 4096 || process != std::process::id() {
                return false;
            }
            // SAFETY: as above: the guest passed the address as writable, and the source is `bytes`, as long.
            unsafe {
                std::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len());
            }
            true
        }
    }
}

/// A 32-bit word of the guest.
pub(crate) fn read_u32(address: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    read(address, &mut bytes).then(|| u32::from_le_bytes(bytes))
}

/// Several 64-bit words that follow one another.
pub(crate) fn read_words<const N: usize>(address: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (index, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        if !read(address.checked_add(8 * index as u64)?, &mut bytes) {
            return None;
        }
        *word = u64::from_le_bytes(bytes);
    }
    Some(words)
}

/// Writes 64-bit words, one after another.
#[must_use]
pub(crate) fn write_words(address: u64, words: &[u64]) -> bool {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    write(address, &bytes)
}

/// A string that ends with zero, without the zero; `None` if it cannot be read or is longer than `limit`.
pub(crate) fn read_string(address: u64, limit: usize) -> Option<Vec<u8>> {
    const STEP: u64 = 256;
    let mut string = Vec::new();
    let mut at = address;
    while string.len() <= limit {
        // A step does not cross into a page that the string may not reach.
        let step = STEP - at % STEP;
        let mut bytes = [0; STEP as usize];
        let bytes = &mut bytes[..step as usize];
        if !read(at, bytes) {
            return None;
        }
        if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
            string.extend_from_slice(&bytes[..end]);
            return (string.len() <= limit).then_some(string);
        }
        string.extend_from_slice(bytes);
        at = at.checked_add(step)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_reached_is_a_fault_and_not_the_end() {
        let mut byte = [0];
        assert!(!read(0, &mut byte));
        assert!(!read(u64::MAX - 8, &mut byte));
        assert!(!write(8, &[1]));
        assert_eq!(read_string(16, 100), None);
        // Code can be read and not written.
        let code = read as *const () as u64;
        assert!(read(code, &mut byte));
        assert!(!write(code, &byte));
    }

    #[test]
    fn strings_end_at_their_zero_or_at_the_limit() {
        let text: Vec<u8> = std::iter::repeat_n(b'x', 1000).chain([0, b'y']).collect();
        let address = text.as_ptr() as u64;
        assert_eq!(read_string(address, 4096), Some(vec![b'x'; 1000]));
        assert_eq!(read_string(address + 999, 4096), Some(b"x".to_vec()));
        assert_eq!(read_string(address, 1000), Some(vec![b'x'; 1000]));
        assert_eq!(read_string(address, 999), None);
    }

    #[test]
    fn words_come_back() {
        let mut words = [0_u64; 3];
        assert!(write_words(words.as_mut_ptr() as u64, &[1, u64::MAX, 3]));
        assert_eq!(words, [1, u64::MAX, 3]);
        assert_eq!(read_words::<3>(words.as_ptr() as u64), Some(words));
        assert_eq!(read_u32(words.as_ptr() as u64 + 8), Some(u32::MAX));
    }
}
