//! Recorded runs of real programs: which process mapped which part of which file, and when.
//!
//! A [`Trace`] is read from a file ([`Trace::open`]), from the one that comes with this crate
//! ([`Trace::bundled`]), or recorded here and now ([`record`], which needs `strace`).
//!
//! # What a trace holds
//! Only what matters to a reverse map of files: see [`Action`]. Mappings of memory without a file are
//! left out. Files have a [`FileKind`] and, when they belong to the operating system, their name; the
//! paths of the machine that recorded are not kept. Processes are numbered in order of appearance.
//!
//! # What `strace` cannot see
//! * The kernel's own mappings of the program and its interpreter (`ld.so`) at `exec`. The program is
//!   entered as *one* mapping of its whole length, the interpreter is left out.
//! * Inodes: a file is its path. Two files that bore the same path one after the other are one here.
//! * Splits without a change of the mapped range (`mprotect`), which also update the kernel's tree.
//! * Whether opening with `O_TRUNC` found the file there or made it: both are a truncate to nothing.

mod error;
mod event;
mod format;
mod info;
#[cfg(unix)]
mod record;
#[cfg(unix)]
mod strace;
mod validate;
mod varint;

pub use error::{RecordError, StraceError, TraceError};
pub use event::{Action, Counts, Event, File, FileKind};
pub use format::Header;
pub use info::Info;
#[cfg(unix)]
pub use record::{Recorded, Request, record};
#[cfg(unix)]
pub use strace::{Program, parse as parse_strace};

use crate::replay::plan::Plan;
use std::path::Path;

/// The most mappings that the events of a trace may amount to, each counted once: a replay holds them all
/// in memory.
pub const MAX_MAPPINGS: usize = 1 << 22;

/// The trace that comes with this crate; `traces/README.md` says how it was recorded.
const BUNDLED: &[u8] = include_bytes!("../../traces/xz-build.trace");

/// A recorded run: files, and events in the order in which they happened.
///
/// Every trace, however it was made, keeps these rules: process 0 is the first; every other process is
/// brought forth by one [`Action::Fork`], acts only after that, and ends with one [`Action::Exit`];
/// times never decrease; file numbers exist; no mapping is empty or passes the end of what 64 bits hold;
/// all events together amount to no more than [`MAX_MAPPINGS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    header: Header,
    events: Vec<Event>,
}

impl Trace {
    /// The trace that comes with this crate: a parallel build of xz.
    ///
    /// # Errors
    /// Never with the file that is published; a damaged one is told from a sound one as by [`Trace::open`].
    pub fn bundled() -> Result<Trace, TraceError> {
        Trace::from_bytes(BUNDLED)
    }

    /// Reads the trace in the file `path`.
    ///
    /// # Errors
    /// When the file cannot be read, is no trace, is damaged in any bit, cut short or drawn out, or
    /// breaks the rules above.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let bytes = std::fs::read(path).map_err(|cause| TraceError::Unreadable { cause })?;
        Trace::from_bytes(&bytes)
    }

    /// Reads a trace that is already in memory.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Trace, TraceError> {
        let (header, events) = format::decode(bytes)?;
        Trace::of(header, events)
    }

    /// The bytes of a file that [`Trace::open`] reads.
    ///
    /// # Errors
    /// When the trace is too long for the format (more than `u32::MAX` bytes of header).
    pub fn to_bytes(&self) -> Result<Vec<u8>, TraceError> {
        format::encode(&self.header, &self.events)
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
        let header = Header::new(description, files, &events);
        Trace::of(header, events)
    }

    fn of(header: Header, events: Vec<Event>) -> Result<Trace, TraceError> {
        validate::validate(&header, &events)?;
        let trace = Trace { header, events };
        // Forks copy mappings, so a short trace can amount to very many.
        match Plan::new(&trace, MAX_MAPPINGS) {
            Some(_) => Ok(trace),
            None => Err(TraceError::TooLarge { most: MAX_MAPPINGS }),
        }
    }

    /// What the file says of itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The files, by number.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.header.files
    }

    /// The events, in the order in which they happened.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// A file's name for people: its own, or its kind and number.
    #[must_use]
    pub fn file_name(&self, file: u32) -> String {
        match self.header.files.get(file as usize) {
            Some(File { kind, name }) if name.is_empty() => format!("{kind} {file}"),
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
}
