//! Input and output: which calls on descriptors will not wait.
//!
//! A read of a regular file does not wait for anybody. A read of a pipe, a socket or a terminal may wait for another
//! thread of this program, which needs the turn: so the descriptor is asked first, and the turn is given away if it is
//! not ready. What comes from outside depends on the host's time, and is noted as not reproducible.

use std::ffi::{c_int, c_long, c_short, c_ulong};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use crate::model::Ticks;
use crate::plugin::clock::{self, Rest};
use crate::plugin::memory;
use crate::plugin::numbers as n;
use crate::plugin::numbers::EFAULT;
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::{Call, Change, Step, Then};

/// Why runs may differ.
pub(crate) const INPUT_OUTPUT: &str = "real input or output";

const POLLIN: c_short = 1;
const POLLOUT: c_short = 4;
/// Descriptors that one call may wait for; more are a mistake, which the kernel will find.
const MOST: usize = 1 << 16;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

unsafe extern "C" {
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
}

fn any_ready(fds: &mut [PollFd]) -> bool {
    // SAFETY: the descriptors are a slice of that many; a timeout of 0 does not wait.
    unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, 0) != 0 }
}

fn is_ready(fd: i32, events: c_short) -> bool {
    any_ready(&mut [PollFd {
        fd,
        events,
        revents: 0,
    }])
}

fn is_nonblocking(fd: i32) -> bool {
    const F_GETFL: c_int = 3;
    const O_NONBLOCK: c_int = 0o4000;
    // SAFETY: reads the flags of a descriptor, or fails.
    let flags = unsafe { fcntl(fd, F_GETFL) };
    flags >= 0 && flags & O_NONBLOCK != 0
}

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file, a folder, a disk, a device that is memory, or nothing: no call on it waits for anybody.
    File,
    /// A pipe.
    Pipe,
    /// A socket, a terminal, or an object of the kernel.
    Other,
}

fn kind(fd: i32) -> Kind {
    if fd < 0 {
        return Kind::File;
    }
    // SAFETY: the descriptor is only asked what it is, which fails if it is not open; never dropped, it is never closed.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let Ok(metadata) = file.metadata() else {
        return Kind::File;
    };
    let kind = metadata.file_type();
    // Devices with major number 1 are /dev/null, /dev/zero, /dev/urandom and the like.
    let is_memory = kind.is_char_device() && (metadata.rdev() >> 8) & 0xfff == 1;
    if kind.is_file() || kind.is_dir() || kind.is_block_device() || is_memory {
        Kind::File
    } else if kind.is_fifo() {
        Kind::Pipe
    } else {
        Kind::Other
    }
}

const DONT_WAIT: u64 = 0x40;

/// A call that takes something in.
pub(crate) fn input(sim: &mut Simulator, call: &Call) -> Step {
    let fd = call.arguments[0] as i32;
    if kind(fd) == Kind::File {
        return Step::Quick;
    }
    sim.unreproducible(INPUT_OUTPUT);
    let flags = match call.number {
        n::RECVFROM | n::RECVMMSG => call.arguments[3],
        n::RECVMSG => call.arguments[2],
        _ => 0,
    };
    // Several messages may be waited for after the first.
    let at_once = call.number != n::RECVMMSG && is_ready(fd, POLLIN);
    if flags & DONT_WAIT != 0 || at_once || is_nonblocking(fd) {
        Step::Quick
    } else {
        Step::Blocks
    }
}

/// A call that gives something out.
pub(crate) fn output(call: &Call) -> Step {
    /// What a pipe that is ready takes without waiting.
    const ATOMIC: u64 = 4096;
    let fd = call.arguments[0] as i32;
    let kind = kind(fd);
    if kind == Kind::File {
        return Step::Quick;
    }
    let flags = match call.number {
        n::SENDTO | n::SENDMMSG => call.arguments[3],
        n::SENDMSG => call.arguments[2],
        _ => 0,
    };
    if flags & DONT_WAIT != 0 || is_nonblocking(fd) {
        return Step::Quick;
    }
    let length = match call.number {
        n::WRITE | n::SENDTO | n::PWRITE64 => call.arguments[2],
        n::WRITEV => gathered(call.arguments[1], call.arguments[2]),
        n::SENDMSG => match memory::read_words(call.arguments[1].wrapping_add(16)) {
            Some([vectors, count]) => gathered(vectors, count),
            None => return Step::Quick,
        },
        _ => u64::MAX,
    };
    if length <= ATOMIC && is_ready(fd, POLLOUT) {
        Step::Quick
    } else {
        Step::Blocks
    }
}

/// The length of what `count` pairs of address and length stand for.
fn gathered(vectors: u64, count: u64) -> u64 {
    let mut sum = 0_u64;
    for index in 0..count.min(1024) {
        let Some([_, length]) = memory::read_words(vectors.wrapping_add(16 * index)) else {
            return 0;
        };
        sum = sum.saturating_add(length);
    }
    sum
}

/// How long a call waits, in nanoseconds; `None`: for ever.
type Timeout = Option<u64>;

/// A call that waits for one of several descriptors, or for a time.
pub(crate) fn wait(sim: &mut Simulator, call: &Call) -> Step {
    let [first, second, third, fourth, fifth, _] = call.arguments;
    let timeout = match call.number {
        n::POLL => Ok(milliseconds(third)),
        n::EPOLL_WAIT | n::EPOLL_PWAIT => Ok(milliseconds(fourth)),
        n::PPOLL => timespec(third),
        n::EPOLL_PWAIT2 => timespec(fourth),
        n::PSELECT6 => timespec(fifth),
        _ => timeval(fifth),
    };
    let timeout = match timeout {
        Ok(timeout) => timeout,
        Err(error) => return Step::Done(error),
    };
    let fds = match call.number {
        n::POLL | n::PPOLL => listed(first, second),
        n::SELECT | n::PSELECT6 => in_sets(first, [second, third, fourth]),
        _ => Some(vec![PollFd {
            fd: first as i32,
            events: POLLIN,
            revents: 0,
        }]),
    };
    // What cannot be read is an error, and the kernel's to find: at once, whatever the timeout.
    let Some(mut fds) = fds else {
        return Step::Quick;
    };
    if fds.iter().all(|fd| fd.fd < 0) {
        if let Some(nanoseconds) = timeout {
            let deadline = deadline(sim, nanoseconds);
            let rest = match call.number {
                n::SELECT => Rest::Timeval(fifth),
                n::PSELECT6 => Rest::Timespec(fifth),
                n::PPOLL => Rest::Timespec(third),
                _ => Rest::None,
            };
            return clock::sleep_until(sim, deadline, rest);
        }
        sim.unreproducible("waiting for signals");
        return Step::Blocks;
    }
    // Rust's runtime asks so, when a program begins, which of the first three descriptors are open.
    if timeout == Some(0) && fds.iter().all(|fd| fd.events == 0) {
        return Step::Quick;
    }
    sim.unreproducible(INPUT_OUTPUT);
    if timeout == Some(0) || any_ready(&mut fds) {
        return Step::Quick;
    }
    match timeout {
        None => Step::Blocks,
        Some(nanoseconds) => Step::Changed(Change {
            blocks: true,
            ..Change::followed_by(Then::Timeout(deadline(sim, nanoseconds)))
        }),
    }
}

fn deadline(sim: &Simulator, nanoseconds: u64) -> Ticks {
    sim.now()
        .saturating_add(clock::ticks(&sim.settings.machine, nanoseconds))
}

fn milliseconds(argument: u64) -> Timeout {
    u64::try_from(argument as i32)
        .ok()
        .map(|milliseconds| milliseconds * 1_000_000)
}

fn timespec(address: u64) -> Result<Timeout, i64> {
    if address == 0 {
        return Ok(None);
    }
    clock::read_timespec(address).map(Some)
}

fn timeval(address: u64) -> Result<Timeout, i64> {
    if address == 0 {
        return Ok(None);
    }
    let [seconds, microseconds] = memory::read_words(address).ok_or(EFAULT)?;
    if (seconds | microseconds) > i64::MAX as u64 {
        return Err(n::EINVAL);
    }
    let seconds = seconds.saturating_mul(1_000_000_000);
    Ok(Some(
        seconds.saturating_add(microseconds.saturating_mul(1000)),
    ))
}

/// The descriptors of `poll`.
fn listed(address: u64, count: u64) -> Option<Vec<PollFd>> {
    let count = usize::try_from(count).ok().filter(|&count| count <= MOST)?;
    let mut bytes = vec![0; count * 8];
    if !memory::read(address, &mut bytes) {
        return None;
    }
    let fd = |entry: &[u8]| PollFd {
        fd: c_int::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]),
        events: c_short::from_le_bytes([entry[4], entry[5]]),
        revents: 0,
    };
    Some(bytes.chunks_exact(8).map(fd).collect())
}

/// The descriptors of `select`, which is asked about those below `count`.
fn in_sets(count: u64, sets: [u64; 3]) -> Option<Vec<PollFd>> {
    let count = usize::try_from(count as c_int)
        .ok()
        .filter(|&count| count <= MOST)?;
    let mut bits = [const { Vec::new() }; 3];
    for (bits, address) in bits.iter_mut().zip(sets) {
        *bits = vec![0_u8; count.div_ceil(8)];
        // The kernel reads whole words.
        if address != 0 && !memory::read(address, bits) {
            return None;
        }
    }
    const POLLPRI: c_short = 2;
    let mut fds = Vec::new();
    for fd in 0..count {
        let mut events = 0;
        for (bits, event) in bits.iter().zip([POLLIN, POLLOUT, POLLPRI]) {
            if bits[fd / 8] & 1 << (fd % 8) != 0 {
                events |= event;
            }
        }
        if events != 0 {
            fds.push(PollFd {
                fd: fd as c_int,
                events,
                revents: 0,
            });
        }
    }
    Some(fds)
}

const _: () = assert!(size_of::<c_long>() == 8 && size_of::<PollFd>() == 8);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    fn call(number: u64, arguments: [u64; 3]) -> Call {
        Call {
            number,
            arguments: [arguments[0], arguments[1], arguments[2], 0, 0, 0],
            stack: 0,
        }
    }

    #[test]
    fn files_never_wait_and_pipes_do_unless_they_are_ready() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let file = File::open("/proc/self/stat").expect("a file");
        let null = File::open("/dev/null").expect("a device");
        assert_eq!(kind(file.as_raw_fd()), Kind::File);
        assert_eq!(kind(null.as_raw_fd()), Kind::File);
        assert_eq!(kind(reader.as_raw_fd()), Kind::Pipe);
        assert_eq!(kind(-1), Kind::File);
        assert!(!is_ready(reader.as_raw_fd(), POLLIN));
        writer.write_all(b"x").expect("room");
        assert!(is_ready(reader.as_raw_fd(), POLLIN));
        assert!(!is_nonblocking(reader.as_raw_fd()));
        let fd = writer.as_raw_fd() as u64;
        assert!(matches!(
            output(&call(n::WRITE, [fd, 0, 4096])),
            Step::Quick
        ));
        assert!(matches!(
            output(&call(n::WRITE, [fd, 0, 4097])),
            Step::Blocks
        ));
        let vectors = [0_u64, 4000, 0, 97];
        let vectors = vectors.as_ptr() as u64;
        assert!(matches!(
            output(&call(n::WRITEV, [fd, vectors, 1])),
            Step::Quick
        ));
        assert!(matches!(
            output(&call(n::WRITEV, [fd, vectors, 2])),
            Step::Blocks
        ));
    }

    #[test]
    fn timeouts_are_read_as_each_call_has_them() {
        assert_eq!(milliseconds(u64::MAX), None);
        assert_eq!(milliseconds(u64::from(u32::MAX)), None);
        assert_eq!(milliseconds(3), Some(3_000_000));
        let value = [1_u64, 500];
        let address = value.as_ptr() as u64;
        assert_eq!(timespec(address), Ok(Some(1_000_000_500)));
        assert_eq!(timeval(address), Ok(Some(1_000_500_000)));
        assert_eq!(timeval(0), Ok(None));
        assert_eq!(timeval(8), Err(EFAULT));
    }

    #[test]
    fn sets_name_their_descriptors() {
        let reads = [0b1001_u64, 0];
        let writes = [0b1000_u64, 1];
        let sets = [reads.as_ptr() as u64, writes.as_ptr() as u64, 0];
        let named = |count| {
            let fds = in_sets(count, sets).expect("both can be read");
            fds.iter().map(|fd| (fd.fd, fd.events)).collect::<Vec<_>>()
        };
        assert_eq!(
            named(65),
            [(0, POLLIN), (3, POLLIN | POLLOUT), (64, POLLOUT)]
        );
        assert_eq!(named(3), [(0, POLLIN)]);
        assert!(in_sets(65, [8, 0, 0]).is_none());
        assert!(listed(8, 1).is_none() && listed(0, 0).is_some_and(|fds| fds.is_empty()));
    }
}
