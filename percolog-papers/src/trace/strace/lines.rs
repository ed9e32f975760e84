//! First pass: from lines to the calls that matter, whole and in the order in which they ended.

use super::arguments::{Call, descriptor_path, number, split, string, success};
use crate::trace::error::StraceError;
use std::collections::HashMap;
use std::io::BufRead;

/// Everything that matters in one recording.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) entries: Vec<Entry>,
    /// Every call that starts a process, by the number that entries refer to.
    pub(super) births: Vec<Birth>,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// From 1.
    pub(super) line: u64,
    /// Microseconds of the machine's clock.
    pub(super) time: u64,
    /// As the operating system numbers it.
    pub(super) process: u32,
    pub(super) what: What,
}

/// A call that starts a process or thread.
#[derive(Debug)]
pub(super) struct Birth {
    pub(super) parent: u32,
    pub(super) child: Child,
    /// Whether the child uses the parent's address space.
    pub(super) shared: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Process(u32),
    /// The call failed.
    None,
    /// The recording ended inside the call.
    Unknown,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Memory of a file, or of none, was mapped.
    Map {
        address: u64,
        length: u64,
        file: Option<Vec<u8>>,
        offset: u64,
    },
    Unmap {
        address: u64,
        length: u64,
    },
    Remap {
        from: u64,
        old_length: u64,
        to: u64,
        length: u64,
        /// `MREMAP_DONTUNMAP`: the old range stays.
        keeps: bool,
    },
    /// A program was started; its path if `strace` shows it whole.
    Exec {
        path: Option<Vec<u8>>,
    },
    Truncate {
        path: Vec<u8>,
        length: u64,
    },
    ChangeDirectory {
        path: Vec<u8>,
    },
    /// A call that starts a process was entered: its number in [`Log::births`].
    BirthBegins(usize),
    BirthEnds(usize),
    Exited,
    /// The leader of a process whose thread, of this number, executes a program and takes its place.
    Superseded {
        by: u32,
    },
}

/// Reads the whole text.
pub(super) fn read(mut input: impl BufRead) -> Result<Log, StraceError> {
    let mut reader = Reader::default();
    let mut text = Vec::new();
    loop {
        text.clear();
        if input.read_until(b'\n', &mut text)? == 0 {
            break;
        }
        reader.line += 1;
        let line = text.trim_ascii();
        if !line.is_empty() {
            reader
                .read_line(line)
                .map_err(|problem| StraceError::Line {
                    line: reader.line,
                    problem,
                })?;
        }
    }
    if reader.log.entries.is_empty() {
        return Err(StraceError::Empty);
    }
    Ok(reader.log)
}

#[derive(Default)]
struct Reader {
    log: Log,
    line: u64,
    /// Calls that other processes' lines have interrupted: the text so far.
    open: HashMap<u32, Open>,
}

struct Open {
    text: Vec<u8>,
    birth: Option<usize>,
}

/// What came before another process's line; a thread that executes a program takes its leader's number.
fn interrupted(text: &[u8]) -> Option<&[u8]> {
    if let Some(begun) = text.strip_suffix(b"<unfinished ...>") {
        return Some(begun);
    }
    let (begun, number) = rsplit_at(text.strip_suffix(b" ...>")?, b"<pid changed to ")?;
    number.iter().all(u8::is_ascii_digit).then_some(begun)
}

impl Reader {
    fn read_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        const SHAPE: &str = "not `PROCESS TIME …`; record with strace -f -y -ttt -o FILE";
        let (process, rest) = word(line).ok_or(SHAPE)?;
        let process = number(process)
            .and_then(|process| u32::try_from(process).ok())
            .ok_or(SHAPE)?;
        let (time, rest) = word(rest).ok_or(SHAPE)?;
        let time = microseconds(time).ok_or(SHAPE)?;

        if let Some(rest) = rest.strip_prefix(b"+++ ") {
            return self.read_end(process, time, rest);
        }
        if rest.starts_with(b"--- ") || rest.starts_with(b"[") {
            // Signals, and remarks on 32-bit programs.
            return Ok(());
        }
        if let Some(rest) = rest.strip_prefix(b"<... ") {
            return self.resume(process, time, rest);
        }
        if let Some(begun) = interrupted(rest) {
            let birth = starts_process(begun).then(|| self.begin_birth(process, time));
            self.open.insert(
                process,
                Open {
                    text: begun.trim_ascii_end().to_vec(),
                    birth,
                },
            );
            return Ok(());
        }
        if rest.ends_with(b"<detached ...>") {
            return Ok(());
        }
        let birth = starts_process(rest).then(|| self.begin_birth(process, time));
        self.complete(process, time, rest, birth)
    }

    fn read_end(&mut self, process: u32, time: u64, rest: &[u8]) -> Result<(), &'static str> {
        if rest.starts_with(b"exited with ") || rest.starts_with(b"killed by ") {
            self.open.remove(&process);
            self.note(process, time, What::Exited);
            return Ok(());
        }
        let by = rest
            .strip_prefix(b"superseded by execve in pid ")
            .and_then(|rest| number(word(rest)?.0))
            .and_then(|by| u32::try_from(by).ok())
            .ok_or("an end that is neither an exit, a kill nor an execve")?;
        // The call goes on under the leader's number.
        if let Some(open) = self.open.remove(&by) {
            self.open.insert(process, open);
        }
        self.note(process, time, What::Superseded { by });
        Ok(())
    }

    fn resume(&mut self, process: u32, time: u64, rest: &[u8]) -> Result<(), &'static str> {
        const SHAPE: &str = "not `<... CALL resumed>…`";
        let mark = b" resumed>";
        let end = rest
            .windows(mark.len())
            .position(|window| window == mark)
            .ok_or(SHAPE)?;
        let name = &rest[..end];
        let Some(mut open) = self.open.remove(&process) else {
            // Begun before the recording.
            return Ok(());
        };
        if open.text.split(|&byte| byte == b'(').next() != Some(name) {
            return Err("another call resumes than was interrupted");
        }
        // A blank stood between, if anything: arguments are trimmed anyway.
        open.text.push(b' ');
        open.text.extend_from_slice(&rest[end + mark.len()..]);
        self.complete(process, time, &open.text, open.birth)
    }

    fn begin_birth(&mut self, process: u32, time: u64) -> usize {
        let birth = self.log.births.len();
        self.log.births.push(Birth {
            parent: process,
            child: Child::Unknown,
            shared: false,
        });
        self.note(process, time, What::BirthBegins(birth));
        birth
    }

    fn complete(
        &mut self,
        process: u32,
        time: u64,
        text: &[u8],
        birth: Option<usize>,
    ) -> Result<(), &'static str> {
        let call = split(text).ok_or("a call that cannot be taken apart")?;
        if let Some(number) = birth {
            let child = match success(call.result) {
                Some(child) => Child::Process(
                    u32::try_from(child).map_err(|_| "a process number that is too large")?,
                ),
                None => Child::None,
            };
            let birth = &mut self.log.births[number];
            birth.child = child;
            birth.shared = call.name == "vfork"
                || call
                    .arguments
                    .iter()
                    .any(|argument| has_flag(argument, b"CLONE_VM"));
            self.note(process, time, What::BirthEnds(number));
        } else if let Some(what) = meaning(&call).ok_or("a call with arguments it cannot have")? {
            self.note(process, time, what);
        }
        Ok(())
    }

    fn note(&mut self, process: u32, time: u64, what: What) {
        self.log.entries.push(Entry {
            line: self.line,
            time,
            process,
            what,
        });
    }
}

fn starts_process(text: &[u8]) -> bool {
    ["clone(", "clone3(", "fork(", "vfork("]
        .iter()
        .any(|start| text.starts_with(start.as_bytes()))
}

/// What a complete call means here: `None` when it cannot be read, `Some(None)` when it does not matter.
#[allow(clippy::option_option, reason = "two different absences, both local")]
fn meaning(call: &Call<'_>) -> Option<Option<What>> {
    let Some(result) = success(call.result) else {
        return Some(None);
    };
    let argument = |index: usize| call.arguments.get(index).copied();
    let value = |index: usize| argument(index).and_then(number);
    Some(match call.name {
        "mmap" => {
            let anonymous = has_flag(argument(3)?, b"MAP_ANONYMOUS");
            Some(What::Map {
                address: result,
                length: value(1)?,
                file: if anonymous {
                    None
                } else {
                    descriptor_path(argument(4)?)
                },
                offset: value(5)?,
            })
        }
        "munmap" => Some(What::Unmap {
            address: value(0)?,
            length: value(1)?,
        }),
        "mremap" => Some(What::Remap {
            from: value(0)?,
            old_length: value(1)?,
            to: result,
            length: value(2)?,
            keeps: has_flag(argument(3)?, b"MREMAP_DONTUNMAP"),
        }),
        "execve" => Some(What::Exec {
            path: string(argument(0)?),
        }),
        "execveat" => {
            let folder = descriptor_path(argument(0)?);
            let path = string(argument(1)?).and_then(|path| match folder {
                Some(folder) if path.is_empty() => Some(folder),
                Some(folder) if !path.starts_with(b"/") => {
                    Some([&folder[..], b"/", &path].concat())
                }
                None if !path.starts_with(b"/") => None,
                _ => Some(path),
            });
            Some(What::Exec { path })
        }
        "open" if has_flag(argument(1)?, b"O_TRUNC") => truncated(call, 0),
        "openat" | "openat2" if has_flag(argument(2)?, b"O_TRUNC") => truncated(call, 0),
        "creat" => truncated(call, 0),
        "ftruncate" => {
            let length = value(1)?;
            descriptor_path(argument(0)?).map(|path| What::Truncate { path, length })
        }
        "truncate" => {
            let length = value(1)?;
            string(argument(0)?).map(|path| What::Truncate { path, length })
        }
        "chdir" => string(argument(0)?).map(|path| What::ChangeDirectory { path }),
        "fchdir" => descriptor_path(argument(0)?).map(|path| What::ChangeDirectory { path }),
        _ => None,
    })
}

/// A file that was opened and truncated on the way; the descriptor's path is the true one.
fn truncated(call: &Call<'_>, length: u64) -> Option<What> {
    descriptor_path(call.result).map(|path| What::Truncate { path, length })
}

/// Whether `flag` is among the flags, and not merely the front of another's name.
fn has_flag(flags: &[u8], flag: &[u8]) -> bool {
    flags
        .split(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'))
        .any(|word| word == flag)
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return None;
    }
    let end = text
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(text.len());
    Some((&text[..end], text[end..].trim_ascii_start()))
}

/// What stands before and behind the last `mark`.
fn rsplit_at<'t>(text: &'t [u8], mark: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let at = text
        .windows(mark.len())
        .rposition(|window| window == mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// `SECONDS.MICROSECONDS`, as `-ttt` writes it.
fn microseconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.len() != 6 {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let fraction: u64 = fraction.parse().ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(fraction)
}
