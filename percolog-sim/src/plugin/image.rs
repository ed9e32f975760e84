//! This plugin's own file, for the programs that the guest executes.
//!
//! The launcher hands the plugin to QEMU in a file that lies in memory alone, and QEMU finds it by its number among the
//! process's open files. The guest must not see that file, may close all that it does not know, and may become a user
//! who has no right to open anybody else's: so the file is read when the plugin is loaded, and closed. A program that
//! is executed gets a new one, made a moment before.

use std::ffi::{c_char, c_int, c_long, c_uint};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use crate::plugin::HIGH_FILE;

const SYS_MEMFD_CREATE: c_long = 319;
/// `MFD_ALLOW_SEALING`
const ALLOW_SEALING: c_uint = 2;
const F_DUPFD: c_int = 0;
const F_GETFD: c_int = 1;
const F_ADD_SEALS: c_int = 1033;
/// No more seals, no other length, no other contents.
const ALL_SEALS: c_int = 1 | 2 | 4 | 8;

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn fcntl(file: c_int, command: c_int, ...) -> c_int;
}

static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();

/// Reads the plugin from the open file with this number, and closes it.
pub(crate) fn take_over(number: &str) -> Result<(), String> {
    let refused = |why: &dyn std::fmt::Display| format!("no plugin in the file {number}: {why}");
    let file: RawFd = number.parse().map_err(|error| refused(&error))?;
    if file <= 2 {
        return Err(refused(&"this is input or output"));
    }
    // SAFETY: a valid command, whatever the number.
    if unsafe { fcntl(file, F_GETFD) } < 0 {
        return Err(refused(&io::Error::last_os_error()));
    }
    // SAFETY: the launcher, or this plugin in the process before, opened the file for this, and nobody else uses it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(file) });
    let mut image = Vec::new();
    file.read_to_end(&mut image)
        .map_err(|error| refused(&error))?;
    // A second load reads the same.
    let _ = IMAGE.set(image);
    Ok(())
}

/// Whether the plugin came in such a file.
pub(crate) fn is_here() -> bool {
    IMAGE.get().is_some()
}

/// An open file with the plugin in it, which a program that is executed inherits.
#[derive(Debug)]
pub(crate) struct Handed(OwnedFd);

impl Handed {
    /// Its number.
    pub(crate) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Makes a file with the plugin in it.
pub(crate) fn hand_on() -> io::Result<Handed> {
    let image = IMAGE.get().map_or(&[][..], Vec::as_slice);
    let name: *const c_char = c"percolog-plugin".as_ptr();
    // SAFETY: the name is terminated by zero. Without a close-on-exec flag the file outlives the execution.
    let made = unsafe { syscall(SYS_MEMFD_CREATE, name, ALLOW_SEALING) };
    let made = owned(made as c_int)?;
    // The guest expects its own files at the low numbers, should the execution fail.
    // SAFETY: a valid command on an open file.
    let high = unsafe { fcntl(made.as_raw_fd(), F_DUPFD, HIGH_FILE) };
    let mut file = File::from(owned(high).unwrap_or(made));
    file.write_all(image)?;
    // The next process reads from where this one has stopped.
    io::Seek::rewind(&mut file)?;
    // SAFETY: a valid command on an open file. Unsealed it would do as well.
    let _ = unsafe { fcntl(file.as_raw_fd(), F_ADD_SEALS, ALL_SEALS) };
    Ok(Handed(file.into()))
}

fn owned(file: c_int) -> io::Result<OwnedFd> {
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn what_is_taken_over_is_handed_on() {
        let mut folder_file = tempfile::tempfile().expect("a temporary file");
        folder_file.write_all(b"plugin").expect("it can be written");
        io::Seek::rewind(&mut folder_file).expect("it can be read again");
        let number = folder_file.into_raw_fd();
        assert!(!is_here());
        take_over(&number.to_string()).expect("it is open");
        assert!(is_here());
        for _ in 0..2 {
            let handed = hand_on().expect("this system has files in memory");
            let path = format!("/proc/self/fd/{}", handed.number());
            assert_eq!(std::fs::read(&path).expect("it is there"), b"plugin");
            // QEMU opens it anew, but the plugin reads on where the file stands.
            let mut inherited = File::from(handed.0.try_clone().expect("it can be opened twice"));
            let mut image = Vec::new();
            inherited.read_to_end(&mut image).expect("it can be read");
            assert_eq!(image, b"plugin");
            let changed = std::fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .and_then(|mut file| file.write_all(b"x"));
            assert!(changed.is_err(), "it is sealed");
        }
    }

    #[test]
    fn what_is_no_open_file_is_refused() {
        for number in ["2", "-1", "none", "99999"] {
            let error = take_over(number).expect_err("this is none");
            assert!(error.contains(number), "{error}");
        }
    }
}
