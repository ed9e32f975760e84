//! First pass: from lines to the calls that matter, whole and in the order in which they took effect.
//!
//! Paths are kept once each, by number: a long recording says the same ones again and again.

use super::arguments::{number, split, success};
use super::calls::{Meaning, What, has_flag, meaning};
use crate::trace::event::Shares;
use std::collections::HashMap;
use std::io::{self, BufRead};

/// Everything that matters in one recording.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) entries: Vec<Entry>,
    /// Every call that starts a process, by the number that entries refer to.
    pub(super) births: Vec<Birth>,
    pub(super) texts: Texts,
    /// Lines that were not understood, and why.
    pub(super) misread: Vec<(u64, &'static str)>,
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
    pub(super) shares: Shares,
    /// Whether a change of one's working directory is the other's, too.
    pub(super) directory: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    Process(u32),
    /// The call failed.
    None,
    /// The recording ended inside the call.
    Unknown,
}

/// A text by its number in [`Texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text(u32);

/// Different texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    numbers: HashMap<Box<[u8]>, u32>,
    texts: Vec<Box<[u8]>>,
}

impl Texts {
    pub(super) fn number(&mut self, text: &[u8]) -> Text {
        if let Some(&number) = self.numbers.get(text) {
            return Text(number);
        }
        // A recording of 2^32 different paths does not fit in memory.
        let number = self.texts.len() as u32;
        self.numbers.insert(text.into(), number);
        self.texts.push(text.into());
        Text(number)
    }

    pub(super) fn get(&self, text: Text) -> &[u8] {
        &self.texts[text.0 as usize]
    }
}

/// Reads the whole text.
pub(super) fn read(mut input: impl BufRead) -> io::Result<Log> {
    let mut reader = Reader::default();
    let mut text = Vec::new();
    loop {
        text.clear();
        if input.read_until(b'\n', &mut text)? == 0 {
            break;
        }
        reader.line += 1;
        let line = text.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if let Err(why) = reader.read_line(line) {
            reader.log.misread.push((reader.line, why));
        }
    }
    // Only the numbers are needed from now on.
    reader.log.texts.numbers = HashMap::new();
    Ok(reader.log)
}

#[derive(Default)]
struct Reader {
    log: Log,
    line: u64,
    /// Calls that other processes' lines have interrupted.
    open: HashMap<u32, Open>,
}

enum Open {
    /// The text so far, and the birth that it is if it is one.
    Waits { text: Vec<u8>, birth: Option<usize> },
    /// It has taken effect already, as far as others are concerned.
    Done,
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
            let begun = begun.trim_ascii_end();
            if frees(begun) {
                // What is freed can be somebody else's before the call returns.
                self.open.insert(process, Open::Done);
                let whole = [begun, b") = 0"].concat();
                return self.complete(process, time, &whole, None);
            }
            let birth = starts_process(begun).then(|| self.begin_birth(process, time, begun));
            let text = begun.to_vec();
            self.open.insert(process, Open::Waits { text, birth });
            return Ok(());
        }
        if rest.ends_with(b"<detached ...>") {
            return Ok(());
        }
        let birth = starts_process(rest).then(|| self.begin_birth(process, time, rest));
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
        let (mut text, birth) = match self.open.remove(&process) {
            Some(Open::Waits { text, birth }) => (text, birth),
            // Begun before the recording.
            Some(Open::Done) | None => return Ok(()),
        };
        if text.split(|&byte| byte == b'(').next() != Some(name) {
            return Err("another call resumes than was interrupted");
        }
        // A blank stood between, if anything: arguments are trimmed anyway.
        text.push(b' ');
        text.extend_from_slice(&rest[end + mark.len()..]);
        self.complete(process, time, &text, birth)
    }

    /// `text` is the call as far as its flags, at least.
    fn begin_birth(&mut self, process: u32, time: u64, text: &[u8]) -> usize {
        let birth = self.log.births.len();
        let thread = has_flag(text, b"CLONE_THREAD");
        self.log.births.push(Birth {
            parent: process,
            child: Child::Unknown,
            shares: Shares {
                // The kernel starts no thread with memory of its own.
                memory: thread || text.starts_with(b"vfork(") || has_flag(text, b"CLONE_VM"),
                descriptors: has_flag(text, b"CLONE_FILES"),
                process: thread,
            },
            directory: has_flag(text, b"CLONE_FS"),
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
            self.log.births[number].child = match success(call.result) {
                Some(child) => Child::Process(
                    u32::try_from(child).map_err(|_| "a process number that is too large")?,
                ),
                None => Child::None,
            };
            self.note(process, time, What::BirthEnds(number));
            return Ok(());
        }
        match meaning(&call, &mut self.log.texts) {
            Meaning::Nothing => Ok(()),
            Meaning::One(what) => {
                self.note(process, time, what);
                Ok(())
            }
            Meaning::Impossible => Err("a call with arguments it cannot have"),
        }
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

/// Whether the call gives something back that others can be given while it is under way.
fn frees(text: &[u8]) -> bool {
    text.starts_with(b"close(") || text.starts_with(b"munmap(")
}

fn starts_process(text: &[u8]) -> bool {
    ["clone(", "clone3(", "fork(", "vfork("]
        .iter()
        .any(|start| text.starts_with(start.as_bytes()))
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
