//! What can be wrong with a trace, with `strace`'s output, or with recording.

use std::fmt;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A part of a trace's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The first bytes, which say where the others are.
    Front,
    /// The header.
    Header,
    /// The table of files.
    Files,
    /// A block of records, numbered from 0.
    Records {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
}

impl Part {
    /// Where a file ends that lacks (the rest of) this part.
    fn cut(&self) -> String {
        match *self {
            Part::Front | Part::Header | Part::Files => format!("in {self}"),
            Part::Records { first: 0, .. } => "before record 0".to_owned(),
            Part::Records { first, .. } => format!("after record {}", first - 1),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Front => f.write_str("its first bytes"),
            Part::Header => f.write_str("its header"),
            Part::Files => f.write_str("its table of files"),
            Part::Records { first, last } => write!(f, "records {first} to {last}"),
        }
    }
}

/// Why there is no trace in a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read the trace: {cause}")]
    Unreadable {
        /// What the operating system said.
        #[source]
        cause: io::Error,
    },
    /// The file does not begin as a trace does.
    #[error("this is no percolog trace; record one with `lab record -o FILE -- COMMAND`")]
    NotATrace,
    /// The file is shorter than it says itself.
    #[error("the trace is cut short {}; copy or record it again", .part.cut())]
    Truncated {
        /// The part that is not whole.
        part: Part,
    },
    /// The file is longer than it says itself.
    #[error("{extra} bytes follow the end of the trace; copy or record it again")]
    Trailing {
        /// How many bytes follow.
        extra: u64,
    },
    /// Bytes have changed since the trace was written.
    #[error("the trace is damaged in {part}; copy or record it again")]
    Damaged {
        /// The part whose checksum is wrong.
        part: Part,
    },
    /// A format that this version of the program does not know.
    #[error(
        "the trace has format {found}, this program reads format {known}; {}",
        if .found > .known { "use a newer percolog" } else { "record it again" }
    )]
    Version {
        /// The file's format.
        found: u16,
        /// The format that is known here.
        known: u16,
    },
    /// The header is not what the format says, though its checksum is right.
    #[error("the trace's header is malformed: {0}")]
    Header(String),
    /// A record is not what the format says, though its checksum is right.
    #[error("the trace is malformed at event {event}: {problem}")]
    Malformed {
        /// The event's number, from 0.
        event: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There are more events than a replay can hold.
    #[error("the trace has more than {most} events, the most for its length; record a shorter run")]
    TooManyEvents {
        /// How many there may be.
        most: u64,
    },
    /// The events amount to more mappings than a replay can hold.
    #[error(
        "the trace amounts to more than {most} mappings, the most for its length; record a shorter run"
    )]
    TooLarge {
        /// How many there may be.
        most: usize,
    },
    /// The truncates look at more mappings than a replay can.
    #[error("the trace's truncates look at more than {most} mappings; record a shorter run")]
    TooMuchToRead {
        /// How many there may be.
        most: u64,
    },
    /// The header counts other events than there are.
    #[error("the trace's header does not fit its events: {0}")]
    Inconsistent(&'static str),
}

/// Why `strace`'s output cannot be understood.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StraceError {
    /// The text cannot be read.
    #[error("cannot read strace's output: {0}")]
    Unreadable(#[from] io::Error),
    /// Nothing in the text is as `strace` writes it.
    #[error("this is no output of strace -f -y -ttt; line {line}: {why}")]
    Foreign {
        /// The first line that was not understood, from 1.
        line: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no event in the text.
    #[error("strace recorded nothing")]
    Empty,
    /// The events do not make a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// Why nothing was recorded. Nothing is left behind at the place where the trace was to go.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No command was given.
    #[error("there is no command to record; put it behind `--`")]
    NoCommand,
    /// The command's program does not exist.
    #[error("cannot find the program {0:?}")]
    NoSuchProgram(PathBuf),
    /// `strace` is not installed.
    #[error("strace is not installed; install it (Debian, Ubuntu: apt-get install strace)")]
    StraceMissing,
    /// `strace` cannot be started.
    #[error("cannot start strace: {0}")]
    StraceFailed(#[source] io::Error),
    /// `strace` ran but saw nothing.
    #[error("strace recorded nothing ({status}); is tracing of processes allowed here?")]
    NothingRecorded {
        /// How `strace` ended.
        status: std::process::ExitStatus,
    },
    /// The output is there already.
    #[error("{0:?} exists; choose another name or replace it with --force")]
    OutputExists(PathBuf),
    /// The output cannot be written.
    #[error("cannot write {path:?}: {cause}")]
    Output {
        /// Where it was to go.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        cause: io::Error,
    },
    /// `strace`'s output cannot be understood.
    #[error(transparent)]
    Strace(#[from] StraceError),
    /// The events do not make a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}
