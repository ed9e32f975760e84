//! Recorded runs of real programs: which process mapped which part of which file, and when.
//!
//! A [`Trace`] is read from a file ([`Trace::open`]), from the one that comes with this crate
//! ([`Trace::bundled`]), or recorded here and now ([`record`], which needs `strace`).
//!
//! # What a trace holds
//! Only what matters to the [subsystems](crate::subsystem): see [`Action`]. Files have a [`FileKind`] and as
//! much of their name as was asked for ([`Names`]). Tasks (processes and threads) are numbered in order of
//! appearance.
//!
//! # What `strace` cannot see
//! * The kernel's own mappings of the program and its interpreter (`ld.so`) at `exec`, and the stack. The
//!   program is entered as *one* mapping of its whole length, the others are left out.
//! * Inodes: a file is its path. Two files that bore the same path one after the other are one here, and a
//!   file with two names is two. An opened or mapped file has the path that the kernel gives it, with all
//!   symbolic links followed; a name that is only looked up is made absolute as text, its links stay.
//! * Whether opening with `O_CREAT` found the file there or made it. It counts as made with `O_EXCL`, and
//!   when nothing before in the recording has shown that it exists; otherwise, with `O_TRUNC`, as truncated.
//! * Splits without a change of the mapped range (`mprotect`), which also update the kernel's tree; pages of
//!   a file that become memory of the process when it writes to them; memory that several processes share
//!   without a file (it counts as memory like any other).
//! * Descriptors that come by other ways than opening and duplicating (sent through a socket), changes of
//!   the root directory, and calls made through `io_uring`.
//! * When exactly a call took effect: it counts when it returns, those that close and unmap when they begin,
//!   so that nothing is given out anew before it is given back.
//!
//! Lines of `strace`'s that are not understood are left out and counted ([`Header::not_understood`]). A
//! process that appears without anybody having started it counts as a child of the oldest one alive, with a
//! copy of all that it has.

mod bundled;
mod error;
mod event;
mod format;
mod info;
pub(crate) mod plan;
#[cfg(unix)]
mod record;
#[cfg(unix)]
mod strace;
mod validate;
mod varint;

pub use error::{Part, RecordError, StraceError, TraceError};
pub use event::{Action, Backing, Counts, Event, File, FileKind, Names, Shares};
pub use format::Header;
pub use info::{Amount, Info, Shared, Sharing};
#[cfg(unix)]
pub use record::{Recorded, Request, record};
#[cfg(unix)]
pub use strace::{Misread, NotUnderstood, Program, parse as parse_strace};

use crate::subsystem::Subsystem;
use crate::trace::plan::{Most, Plan};
use std::io::Read;
use std::path::Path;

/// The most mappings that the events of a trace may amount to, each counted once: a replay holds them all
/// in memory.
pub const MAX_MAPPINGS: usize = 1 << 22;

/// No more of a file is read: the longest trace that there can be takes less.
const LONGEST_FILE: u64 = 1 << 30;

/// The most mappings that all truncates of a trace may look at, each counted as often as it is looked at: a replay does that again
/// and again.
pub const MAX_LOOKED_AT: u64 = 1 << 28;

/// A recorded run: files, and events in the order in which they happened.
///
/// Every trace, however it was made, keeps these rules: task 0 is the first; every other task is
/// brought forth by one [`Action::Fork`], acts only after that, and ends with one [`Action::Exit`];
/// times never decrease; file numbers exist; threads share their memory; no mapping is empty or passes the
/// end of what 64 bits hold, and memory has no offset; all events together amount to no more than
/// [`MAX_MAPPINGS`], and all truncates together look at no more than [`MAX_LOOKED_AT`]. Which descriptors are open is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    header: Header,
    files: Vec<File>,
    events: Vec<Event>,
    /// How many mappings or copies of descriptors the events amount to, whichever are more.
    amount: usize,
}

impl Trace {
    /// Reads the trace in the file `path`.
    ///
    /// # Errors
    /// When the file cannot be read, is no trace, is damaged in any bit, cut short or drawn out, unfolds to more than its length
    /// allows (8 events and 8 mappings a byte, beside the first 65,536 of each), or breaks the rules above.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let unreadable = |cause| TraceError::Unreadable { cause };
        let mut file = std::fs::File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        // First what tells a trace from a device that never ends.
        for most in [format::MAGIC.len() as u64, LONGEST_FILE] {
            file.by_ref()
                .take(most)
                .read_to_end(&mut bytes)
                .map_err(unreadable)?;
            if !bytes.starts_with(format::MAGIC) {
                break;
            }
        }
        Trace::from_bytes(&bytes)
    }

    /// Reads a trace that is already in memory.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Trace, TraceError> {
        let (header, files, events) = format::decode(bytes)?;
        let most = format::Allowance::of(bytes.len()).mappings;
        Trace::of(header, files, events, most)
    }

    /// The bytes of a file that [`Trace::open`] reads.
    ///
    /// # Errors
    /// When the trace is too long for the format.
    pub fn to_bytes(&self) -> Result<Vec<u8>, TraceError> {
        format::encode(&self.header, &self.files, &self.events, self.amount)
    }

    /// Makes a trace of `events` over `files`; counts are filled in.
    ///
    /// # Errors
    /// When the events break the rules above.
    pub fn new(
        description: Description,
        files: Vec<File>,
        events: Vec<Event>,
    ) -> Result<Trace, TraceError> {
        let header = Header::new(description, &events);
        Trace::of(header, files, events, MAX_MAPPINGS)
    }

    /// A trace that amounts to no more than `most` mappings.
    fn of(
        header: Header,
        files: Vec<File>,
        events: Vec<Event>,
        most: usize,
    ) -> Result<Trace, TraceError> {
        validate::validate(&header, files.len(), &events)?;
        let mut trace = Trace {
            header,
            files,
            events,
            amount: 0,
        };
        // Forks copy, so a short trace can amount to very much. Other subsystems hold what events enter, no more.
        for subsystem in [Subsystem::Files, Subsystem::Memory, Subsystem::OpenFiles] {
            let plan = Plan::new(&trace, subsystem, None, Most::of_entries(most))?;
            trace.amount = trace.amount.max(plan.amount());
        }
        Ok(trace)
    }

    /// What the file says of itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The files, by number.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The events, in the order in which they happened.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// A file's name for people: its own, or its kind and what stands for its path.
    #[must_use]
    pub fn file_name(&self, file: u32) -> String {
        match self.files.get(file as usize) {
            Some(File { kind, name }) if name.is_empty() => format!("{kind} {file}"),
            Some(File { kind, name }) if name.starts_with('#') => format!("{kind} {name}"),
            Some(File { name, .. }) => name.clone(),
            None => format!("file {file}"),
        }
    }

    /// A summary: processes, events by kind, sharing, peaks.
    #[must_use]
    pub fn info(&self) -> Info {
        info::summarize(self)
    }
}

/// What was recorded, in words; part of a trace's header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The command, without the directories of the machine that ran it.
    pub command: String,
    /// What the command built or ran, with its version.
    pub package: String,
    /// The day of the recording, `YYYY-MM-DD`.
    pub recorded: String,
    /// The tool that recorded, with its version and options.
    pub recorder: String,
    /// The recording machine's page size in bytes; mappings are whole pages.
    pub page_size: u64,
    /// How much is told of the files' paths.
    pub names: Names,
    /// How many lines of the recorder's output were not understood.
    pub not_understood: u64,
}
