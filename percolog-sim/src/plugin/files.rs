//! Files that describe the machine: the guest opens those of the host, and gets those of the described one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::plugin::memory;
use crate::plugin::numbers as n;
use crate::plugin::simulator::Simulator;
use crate::plugin::syscalls::{Call, Change, Scratch, Step, Then};

/// As long as a path may be.
pub(crate) const LONGEST: usize = 4095;

/// Which paths stand for others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redirects(HashMap<Vec<u8>, Vec<u8>>);

impl Redirects {
    /// Files and folders by the path that the guest uses. What lies in a folder is looked for in the one that replaces it.
    pub(crate) fn new(files: &[(String, String)]) -> Redirects {
        let pair = |(guest, real): &(String, String)| {
            (guest.clone().into_bytes(), real.clone().into_bytes())
        };
        Redirects(files.iter().map(pair).collect())
    }

    /// The path in place of an absolute one.
    fn find(&self, path: &[u8]) -> Option<Vec<u8>> {
        if self.0.is_empty() || path.first() != Some(&b'/') {
            return None;
        }
        let path = normal(path);
        let mut end = path.len();
        while end > 0 {
            if let Some(real) = self.0.get(&path[..end]) {
                return Some([real, &path[end..]].concat());
            }
            end = path[..end].iter().rposition(|&byte| byte == b'/')?;
        }
        None
    }
}

/// An absolute path without repeated separators, `.` and `..`.
fn normal(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut normal = Vec::with_capacity(path.len());
    for part in parts {
        normal.push(b'/');
        normal.extend_from_slice(part);
    }
    normal
}

/// Which argument of a call is its path, whether the one before it is a folder that it may be relative to, and which
/// are its flags.
struct Shape {
    path: usize,
    flags: Option<usize>,
}

fn shape(number: u64) -> Shape {
    let (path, flags) = match number {
        n::OPEN => (0, Some(1)),
        n::OPENAT => (1, Some(2)),
        n::OPENAT2 | n::NEWFSTATAT | n::STATX | n::FACCESSAT | n::FACCESSAT2 | n::READLINKAT => {
            (1, None)
        }
        _ => (0, None),
    };
    Shape { path, flags }
}

const WRITES: u64 = 3;
const NONBLOCK: u64 = 0o4000;

/// A call that names a file.
pub(crate) fn call(sim: &mut Simulator, call: &Call) -> Step {
    let shape = shape(call.number);
    let Some(path) = memory::read_string(call.arguments[shape.path], LONGEST) else {
        return Step::Quick;
    };
    let opens = matches!(call.number, n::OPEN | n::OPENAT | n::OPENAT2 | n::CREAT);
    let flags = match shape.flags {
        Some(index) => call.arguments[index],
        None if call.number == n::CREAT => WRITES,
        None => 0,
    };
    if opens && flags & WRITES != 0 {
        // The replacements belong to the launcher, and are not written.
        return opening(call, shape.path, &path, flags);
    }
    let is_link = matches!(call.number, n::READLINK | n::READLINKAT | n::LSTAT);
    let real = if let Some(real) = sim.guest().redirects.find(&path) {
        real
    } else if !opens && !is_link && is_own_program(&path) {
        // The emulator answers for opening this path and for reading the link, and shows itself otherwise.
        sim.guest().emulator.program.clone()
    } else {
        if opens && matches!(&path[..], b"/dev/urandom" | b"/dev/random") {
            sim.unreproducible("random bytes of the host");
        }
        return opening(call, shape.path, &path, flags);
    };
    let text = [&real[..], &[0]].concat();
    match Scratch::write(call.stack, &text) {
        Some((address, scratch)) => Step::Changed(Change {
            arguments: vec![(shape.path, address)],
            scratch: Some(scratch),
            ..Change::followed_by(Then::Nothing)
        }),
        None => {
            let path = String::from_utf8_lossy(&path);
            sim.unsimulated(format!(
                "{path}: opened on the host, for want of room below the stack"
            ));
            Step::Quick
        }
    }
}

/// Whether the path is the link to the program of this process.
pub(crate) fn is_own_program(path: &[u8]) -> bool {
    path == b"/proc/self/exe"
        || path == b"/proc/thread-self/exe"
        || path == format!("/proc/{}/exe", std::process::id()).as_bytes()
}

/// A named pipe is opened when somebody opens its other end.
fn opening(call: &Call, path_index: usize, path: &[u8], flags: u64) -> Step {
    let opens = matches!(call.number, n::OPEN | n::OPENAT | n::OPENAT2);
    if !opens || flags & NONBLOCK != 0 {
        return Step::Quick;
    }
    let folder = if path_index == 1 {
        call.arguments[0] as i32
    } else {
        n::AT_FDCWD
    };
    let is_pipe =
        std::fs::metadata(at(folder, path)).is_ok_and(|found| found.file_type().is_fifo());
    if is_pipe { Step::Blocks } else { Step::Quick }
}

/// A path that may be relative to an open folder.
pub(crate) fn at(folder: i32, path: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(path));
    if path.is_absolute() || folder == n::AT_FDCWD {
        path.to_owned()
    } else {
        Path::new(&format!("/proc/self/fd/{folder}")).join(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirects() -> Redirects {
        let files = [
            ("/proc/cpuinfo", "/run/x/cpuinfo"),
            ("/sys/devices/system/cpu", "/run/x/cpu"),
            ("/sys/devices/system/cpu/online", "/run/x/on line"),
        ];
        Redirects::new(&files.map(|(guest, real)| (guest.to_owned(), real.to_owned())))
    }

    #[test]
    fn files_and_what_lies_in_folders_are_replaced() {
        let redirects = redirects();
        let find = |path: &str| {
            redirects
                .find(path.as_bytes())
                .map(|real| String::from_utf8_lossy(&real).into_owned())
        };
        for (path, real) in [
            ("/proc/cpuinfo", Some("/run/x/cpuinfo")),
            ("/proc//./cpuinfo", Some("/run/x/cpuinfo")),
            ("/proc/self/../cpuinfo", Some("/run/x/cpuinfo")),
            ("/sys/devices/system/cpu", Some("/run/x/cpu")),
            ("/sys/devices/system/cpu/", Some("/run/x/cpu")),
            (
                "/sys/devices/system/cpu/cpu3/topology/core_id",
                Some("/run/x/cpu/cpu3/topology/core_id"),
            ),
            ("/sys/devices/system/cpu/online", Some("/run/x/on line")),
            ("/sys/devices/system/cpufreq", None),
            ("/proc", None),
            ("/", None),
            ("proc/cpuinfo", None),
            ("", None),
        ] {
            assert_eq!(find(path).as_deref(), real, "{path}");
        }
        assert_eq!(Redirects::default().find(b"/proc/cpuinfo"), None);
    }

    #[test]
    fn the_path_is_where_each_call_has_it() {
        assert_eq!(shape(n::OPEN).path, 0);
        assert_eq!(
            (shape(n::OPENAT).path, shape(n::OPENAT).flags),
            (1, Some(2))
        );
        assert_eq!(shape(n::NEWFSTATAT).path, 1);
        assert_eq!(shape(n::READLINK).path, 0);
    }

    #[test]
    fn relative_paths_are_found_through_their_folder() {
        assert_eq!(at(n::AT_FDCWD, b"a/b"), Path::new("a/b"));
        assert_eq!(at(7, b"a"), Path::new("/proc/self/fd/7/a"));
        assert_eq!(at(7, b"/a"), Path::new("/a"));
    }
}
