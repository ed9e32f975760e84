//! Makes a trace of what `strace -f -y -ttt` wrote.
//!
//! Two passes. [`lines`] joins calls that were interrupted by other processes' lines and keeps those
//! that matter, as [`calls`] understands them; it must see the whole text first, because a child's lines may come before the line that
//! says who its parent is (always so with `vfork`). [`Tracker`] then follows tasks in order and writes
//! events.
//!
//! What is not understood is left out, counted and shown: a recording of a long run is worth something
//! although `strace` wrote one line that nobody expected.

mod arguments;
mod calls;
mod files;
mod lines;
mod tracker;

use super::error::StraceError;
use super::{Description, Trace};
use std::io::{BufRead, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tracker::Tracker;

/// The system calls to record: `strace -e trace=…`. With `?`, those that not every machine has.
pub(super) const CALLS: &str = "mmap,munmap,mremap,brk,\
    clone,?clone3,?fork,?vfork,execve,?execveat,\
    ?open,openat,?openat2,?creat,close,?close_range,dup,?dup2,dup3,fcntl,\
    ?stat,?lstat,?newfstatat,?statx,?access,faccessat,?faccessat2,?readlink,readlinkat,\
    ?rename,?renameat,renameat2,?unlink,unlinkat,?rmdir,\
    ?mkdir,mkdirat,?link,linkat,?symlink,symlinkat,?mknod,mknodat,\
    truncate,ftruncate,chdir,fchdir";

/// The file that the kernel maps when a path is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it really is: symbolic links followed, for a script its interpreter.
    pub path: PathBuf,
    /// Its length in bytes.
    pub length: u64,
}

/// What of `strace`'s output was not understood; it is missing from the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotUnderstood {
    /// How many lines.
    pub lines: u64,
    /// The first few of them.
    pub first: Vec<Misread>,
}

/// A line that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// How many lines [`NotUnderstood::first`] shows.
const SHOWN: usize = 5;
/// How many bytes of each.
const SHOWN_BYTES: usize = 160;

/// Reads the output of `strace -f -y -ttt` into a trace.
///
/// `directory` is where the recorded command was started; `program` finds the file that is behind an
/// executed path (`None`: the mapping of that program is left out). Of `description`, `page_size` and
/// `names` bear on the trace; `not_understood` is filled in.
///
/// Lines that are not understood are left out and counted. The text is read a second time as far as the
/// first few of them, to show them.
///
/// # Errors
/// When the text cannot be read, or nothing in it is understood.
pub fn parse(
    mut input: impl BufRead + Seek,
    directory: &Path,
    mut description: Description,
    program: impl FnMut(&Path) -> Option<Program>,
) -> Result<(Trace, NotUnderstood), StraceError> {
    let start = input.stream_position()?;
    let mut log = lines::read(&mut input)?;
    let mut misread = std::mem::take(&mut log.misread);
    let mut tracker = Tracker::new(
        &log,
        directory,
        description.page_size,
        description.names,
        program,
    );
    for entry in &log.entries {
        if let Err(why) = tracker.follow(entry) {
            misread.push((entry.line, why));
        }
        tracker.check()?;
    }
    let (files, events) = tracker.finish();
    misread.sort_by_key(|&(line, _)| line);
    misread.dedup_by_key(|&mut (line, _)| line);
    input.seek(SeekFrom::Start(start))?;
    let first = show(input, &misread)?;
    if events.is_empty() {
        return Err(match first.into_iter().next() {
            Some(Misread { line, why, .. }) => StraceError::Foreign { line, why },
            None => StraceError::Empty,
        });
    }
    description.not_understood = misread.len() as u64;
    let not_understood = NotUnderstood {
        lines: description.not_understood,
        first,
    };
    Ok((Trace::new(description, files, events)?, not_understood))
}

/// The first of the lines that were not understood.
fn show(mut input: impl BufRead, misread: &[(u64, &'static str)]) -> std::io::Result<Vec<Misread>> {
    let mut shown = Vec::new();
    let mut number = 0;
    let mut text = Vec::new();
    for &(line, why) in misread.iter().take(SHOWN) {
        while number < line {
            text.clear();
            input.read_until(b'\n', &mut text)?;
            number += 1;
        }
        let start = &text[..text.len().min(SHOWN_BYTES)];
        shown.push(Misread {
            line,
            text: String::from_utf8_lossy(start).trim().to_owned(),
            why,
        });
    }
    Ok(shown)
}

#[cfg(test)]
mod tests;
