//! Hands the plugin to QEMU: in a file that lies in memory alone, or, where there is no such thing, in a folder.
//!
//! A file in memory needs no place that may be written and executed from; a folder of temporary files may be mounted so
//! that nothing in it can be loaded (`noexec`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The plugin, as QEMU finds it.
#[derive(Debug)]
pub(super) enum Plugin {
    /// An open file, which QEMU inherits.
    #[cfg(target_os = "linux")]
    Memory(OwnedFd),
    /// A file with a name.
    File(PathBuf),
}

impl Plugin {
    /// Makes it; `folder` is where the file with a name would be.
    pub(super) fn make(image: &[u8], folder: &Path) -> Result<Plugin, (PathBuf, io::Error)> {
        #[cfg(target_os = "linux")]
        if let Ok(file) = in_memory(image) {
            return Ok(Plugin::Memory(file));
        }
        Plugin::in_folder(image, folder)
    }

    fn in_folder(image: &[u8], folder: &Path) -> Result<Plugin, (PathBuf, io::Error)> {
        let path = folder.join("plugin.so");
        match fs::write(&path, image) {
            Ok(()) => Ok(Plugin::File(path)),
            Err(error) => Err((path, error)),
        }
    }

    /// Where QEMU, and what it starts, finds the plugin.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            #[cfg(target_os = "linux")]
            Plugin::Memory(file) => in_process(file),
            Plugin::File(path) => path.clone(),
        }
    }

    /// What the plugin is told of itself, besides its settings.
    pub(super) fn argument(&self) -> Option<String> {
        match self {
            #[cfg(target_os = "linux")]
            Plugin::Memory(file) => Some(format!("memory={}", file.as_raw_fd())),
            Plugin::File(_) => None,
        }
    }

    /// Lets the process that `command` starts have it.
    pub(super) fn pass_to(&self, command: &mut Command) {
        #[cfg(target_os = "linux")]
        if let Plugin::Memory(file) = self {
            use std::os::unix::process::CommandExt;
            let file = file.as_raw_fd();
            let inherit = move || {
                // SAFETY: the file is open: `self` lives until the process has been started.
                match unsafe { libc::fcntl(file, libc::F_SETFD, 0) } {
                    -1 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                }
            };
            // SAFETY: between fork and exec the closure makes one system call, and neither allocates nor locks.
            unsafe { command.pre_exec(inherit) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = command;
    }
}

/// A sealed file in memory, that this process can open by its number.
#[cfg(target_os = "linux")]
fn in_memory(image: &[u8]) -> io::Result<OwnedFd> {
    use std::io::{Seek, Write};
    /// The guest's own files have the low numbers.
    const HIGH: libc::c_int = 900;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is terminated by zero.
    let made = owned(unsafe { libc::memfd_create(c"percolog-plugin".as_ptr(), flags) })?;
    // SAFETY: a valid command on an open file.
    let high = owned(unsafe { libc::fcntl(made.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH) });
    let mut file = fs::File::from(high.unwrap_or(made));
    file.write_all(image)?;
    file.rewind()?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: a valid command on an open file.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let file = OwnedFd::from(file);
    // Where `/proc` is missing QEMU could not find it.
    fs::File::open(in_process(&file))?;
    Ok(file)
}

#[cfg(target_os = "linux")]
fn owned(file: libc::c_int) -> io::Result<OwnedFd> {
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// What an open file of a process is called in that process.
#[cfg(target_os = "linux")]
fn in_process(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn in_memory_it_cannot_be_changed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plugin = Plugin::make(b"image", folder.path()).expect("it can be made");
        assert!(
            matches!(plugin, Plugin::Memory(_)),
            "this system has files in memory"
        );
        assert_eq!(fs::read(plugin.path()).expect("it is there"), b"image");
        let changed = fs::OpenOptions::new()
            .write(true)
            .open(plugin.path())
            .and_then(|mut file| file.write_all(b"other"));
        assert!(changed.is_err(), "it is sealed");
        let none_left = fs::read_dir(folder.path()).expect("it is there").next();
        assert!(none_left.is_none(), "nothing is written");
    }

    #[test]
    fn a_started_process_finds_it_and_others_do_not() {
        let plugin = Plugin::make(b"image", Path::new("/nonexistent")).expect("it can be made");
        let cat = |given: bool| {
            let mut command = Command::new("cat");
            command.arg(plugin.path());
            if given {
                plugin.pass_to(&mut command);
            }
            command.output().expect("`cat` starts").stdout
        };
        assert_eq!(cat(true), b"image");
        assert_eq!(cat(false), b"");
    }

    #[test]
    fn without_files_in_memory_it_lies_in_the_folder() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plugin = Plugin::in_folder(b"image", folder.path()).expect("it can be written");
        assert_eq!(plugin.argument(), None);
        assert_eq!(fs::read(plugin.path()).expect("it is there"), b"image");
        let (path, _) = Plugin::in_folder(b"image", Path::new("/nonexistent"))
            .expect_err("there is no such folder");
        assert_eq!(path, Path::new("/nonexistent/plugin.so"));
    }
}
