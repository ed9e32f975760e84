//! What happens in a trace.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that one process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Microseconds since the recording began.
    pub time: u64,
    /// Who did it: processes (and threads) are numbered in order of appearance.
    pub process: u32,
    /// What was done.
    pub action: Action,
}

/// What a process can do that matters to a reverse map of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Maps a part of a file, in place of whatever was at those addresses.
    Map {
        /// Where.
        address: u64,
        /// How many bytes, in whole pages.
        length: u64,
        /// Which file.
        file: u32,
        /// From which byte of the file on.
        offset: u64,
    },
    /// Unmaps a range of addresses that file mappings were in.
    Unmap {
        /// From where.
        address: u64,
        /// How many bytes, in whole pages.
        length: u64,
    },
    /// Starts a process.
    Fork {
        /// Its number.
        child: u32,
        /// Whether the two share one address space (threads, `vfork`) or the child has a copy.
        shared: bool,
    },
    /// Starts a program: every mapping goes (or a shared address space is left), the program's comes.
    Exec {
        /// The program's file and its length in whole pages; `None` where the recorder could not tell.
        program: Option<(u32, u64)>,
    },
    /// Ends; the last user of an address space takes its mappings along.
    Exit,
    /// Cuts a file down (or draws it out) to a length.
    Truncate {
        /// Which file.
        file: u32,
        /// Its new length in bytes.
        length: u64,
    },
}

/// A file of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// What it is.
    pub kind: FileKind,
    /// Its name without directories when it belongs to the operating system, otherwise nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// What a file is, as far as its path tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A program that a process executed.
    Program,
    /// A shared library.
    Library,
    /// An object file or an archive of them.
    Object,
    /// Source text.
    Source,
    /// Languages, character sets, caches of the loader.
    Locale,
    /// A file in a folder for temporary files.
    Temporary,
    /// Any other.
    Other,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FileKind::Program => "program",
            FileKind::Library => "library",
            FileKind::Object => "object",
            FileKind::Source => "source",
            FileKind::Locale => "locale",
            FileKind::Temporary => "temporary",
            FileKind::Other => "other",
        })
    }
}

/// How many events of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// [`Action::Map`]
    pub map: u64,
    /// [`Action::Unmap`]
    pub unmap: u64,
    /// [`Action::Fork`] with a copied address space
    pub fork: u64,
    /// [`Action::Fork`] with a shared address space
    pub share: u64,
    /// [`Action::Exec`]
    pub exec: u64,
    /// [`Action::Exit`]
    pub exit: u64,
    /// [`Action::Truncate`]
    pub truncate: u64,
}

impl Counts {
    /// Counts `events`.
    #[must_use]
    pub fn of(events: &[Event]) -> Counts {
        let mut counts = Counts::default();
        for event in events {
            *match event.action {
                Action::Map { .. } => &mut counts.map,
                Action::Unmap { .. } => &mut counts.unmap,
                Action::Fork { shared: false, .. } => &mut counts.fork,
                Action::Fork { shared: true, .. } => &mut counts.share,
                Action::Exec { .. } => &mut counts.exec,
                Action::Exit => &mut counts.exit,
                Action::Truncate { .. } => &mut counts.truncate,
            } += 1;
        }
        counts
    }
}
