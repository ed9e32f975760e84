//! Makes a trace of what `strace -f -y -ttt` wrote.
//!
//! Two passes. [`lines`] joins calls that were interrupted by other processes' lines and keeps those
//! that matter; it must see the whole text first, because a child's lines may come before the line that
//! says who its parent is (always so with `vfork`). [`Tracker`] then follows tasks and address spaces in
//! order and writes events.

mod arguments;
mod files;
mod lines;
mod tracker;

use super::error::StraceError;
use super::{Description, Trace};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use tracker::Tracker;

/// The system calls to record: `strace -e trace=…`.
pub(super) const CALLS: &str = "mmap,munmap,mremap,clone,clone3,fork,vfork,execve,execveat,open,openat,openat2,creat,truncate,ftruncate,chdir,fchdir";

/// The file that the kernel maps when a path is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it really is: symbolic links followed, for a script its interpreter.
    pub path: PathBuf,
    /// Its length in bytes.
    pub length: u64,
}

/// Reads the output of `strace -f -y -ttt` into a trace.
///
/// `directory` is where the recorded command was started; `program` finds the file that is behind an
/// executed path (`None`: the mapping of that program is left out). Only `description.page_size` bears on
/// the events.
///
/// # Errors
/// When the text cannot be read, is not as `strace` writes it, or holds no event.
pub fn parse(
    input: impl BufRead,
    directory: &Path,
    description: Description,
    program: impl FnMut(&Path) -> Option<Program>,
) -> Result<Trace, StraceError> {
    let log = lines::read(input)?;
    let mut tracker = Tracker::new(&log, directory, description.page_size, program);
    for entry in &log.entries {
        tracker.follow(entry)?;
    }
    let (files, events) = tracker.finish()?;
    Ok(Trace::new(description, files, events)?)
}

#[cfg(test)]
mod tests;
