//! What happens in a trace.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that one task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Microseconds since the recording began.
    pub time: u64,
    /// Who did it, a process or a thread; they are numbered in order of appearance.
    pub task: u32,
    /// What was done.
    pub action: Action,
}

/// What a mapping shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backing {
    /// A part of this file.
    File(u32),
    /// Memory without a file.
    Memory,
}

/// What a new task has in common with the one that started it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shares {
    /// The address space (threads, `vfork`); otherwise the new one has a copy.
    pub memory: bool,
    /// The table of descriptors; otherwise the new one has a copy.
    pub descriptors: bool,
    /// The process: it is a thread. Threads share their memory.
    pub process: bool,
}

/// What a task can do that matters to the [subsystems](crate::subsystem).
///
/// Only files that have a path are tracked: no pipes, no sockets, no devices. A descriptor is tracked as
/// long as it stands for such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Maps a part of a file, or memory, in place of whatever was at those addresses.
    Map {
        /// Where.
        address: u64,
        /// How many bytes, in whole pages.
        length: u64,
        /// What.
        backing: Backing,
        /// From which byte of the file on; 0 for memory.
        offset: u64,
    },
    /// Unmaps a range of addresses that mappings were in.
    Unmap {
        /// From where.
        address: u64,
        /// How many bytes, in whole pages.
        length: u64,
    },
    /// Moves the end of the heap. The first one of an address space (and of a program) says where the heap
    /// begins.
    Break {
        /// The heap's end from now on.
        end: u64,
    },
    /// Starts a task.
    Fork {
        /// Its number.
        child: u32,
        /// What the two have in common.
        shares: Shares,
    },
    /// Starts a program: every mapping goes (or a shared address space is left), the program's comes;
    /// descriptors are no longer shared with anybody, and those marked `close_on_exec` are closed.
    Exec {
        /// The program's file and its length in whole pages; `None` where the recorder could not tell.
        program: Option<(u32, u64)>,
    },
    /// Ends; the last user of an address space takes its mappings along, the last user of a table of
    /// descriptors closes them.
    Exit,
    /// Cuts a file down (or draws it out) to a length.
    Truncate {
        /// Which file.
        file: u32,
        /// Its new length in bytes.
        length: u64,
    },
    /// Opens a file by its path.
    Open {
        /// Which file.
        file: u32,
        /// The descriptor that stands for it from now on.
        descriptor: u32,
        /// Whether starting a program closes it.
        close_on_exec: bool,
    },
    /// Closes a tracked descriptor.
    Close {
        /// Which one.
        descriptor: u32,
    },
    /// Makes a second descriptor for an open file; `to` is closed first if it was open.
    Duplicate {
        /// The tracked descriptor that there is.
        from: u32,
        /// The one that there is besides from now on.
        to: u32,
        /// Whether starting a program closes the new one.
        close_on_exec: bool,
    },
    /// Says anew whether starting a program closes a tracked descriptor.
    Inherit {
        /// Which one.
        descriptor: u32,
        /// Whether it is closed.
        close_on_exec: bool,
    },
    /// Looks a name up and opens nothing: `stat`, `access`, `readlink`, an `open` that failed.
    Stat {
        /// The file of that name, whether it exists or not.
        file: u32,
    },
    /// Makes a name: a new file, a folder, a link.
    Create {
        /// The file of that name.
        file: u32,
    },
    /// Gives a file another name.
    Rename {
        /// The file of the old name.
        from: u32,
        /// The file of the new name.
        to: u32,
    },
    /// Takes a name away.
    Unlink {
        /// The file of that name.
        file: u32,
    },
}

/// A file of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// What it is.
    pub kind: FileKind,
    /// What is told of its path, see [`Names`]; nothing in traces that were made up.
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

/// How much a trace tells of the files' paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// Nothing: `#` and eight hexadecimal digits stand for each path. They come from a hash under a key that
    /// is drawn for each recording and thrown away, so no path can be tried against them.
    #[default]
    None,
    /// The last name, without folders, of files that belong to the operating system; nothing of others.
    System,
    /// The whole path of every file.
    All,
}

/// How many events of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// [`Action::Map`] of a file
    pub map: u64,
    /// [`Action::Map`] of memory
    pub map_memory: u64,
    /// [`Action::Unmap`]
    pub unmap: u64,
    /// [`Action::Break`]
    pub heap: u64,
    /// [`Action::Fork`] with a copied address space
    pub fork: u64,
    /// [`Action::Fork`] of a process with a shared address space
    pub share: u64,
    /// [`Action::Fork`] of a thread
    pub thread: u64,
    /// [`Action::Exec`]
    pub exec: u64,
    /// [`Action::Exit`]
    pub exit: u64,
    /// [`Action::Truncate`]
    pub truncate: u64,
    /// [`Action::Open`]
    pub open: u64,
    /// [`Action::Close`]
    pub close: u64,
    /// [`Action::Duplicate`]
    pub duplicate: u64,
    /// [`Action::Inherit`]
    pub inherit: u64,
    /// [`Action::Stat`]
    pub stat: u64,
    /// [`Action::Create`]
    pub create: u64,
    /// [`Action::Rename`]
    pub rename: u64,
    /// [`Action::Unlink`]
    pub unlink: u64,
}

impl Counts {
    /// Counts `events`.
    #[must_use]
    pub fn of(events: &[Event]) -> Counts {
        let mut counts = Counts::default();
        for event in events {
            *match event.action {
                Action::Map {
                    backing: Backing::File(_),
                    ..
                } => &mut counts.map,
                Action::Map {
                    backing: Backing::Memory,
                    ..
                } => &mut counts.map_memory,
                Action::Unmap { .. } => &mut counts.unmap,
                Action::Break { .. } => &mut counts.heap,
                Action::Fork { shares, .. } if shares.process => &mut counts.thread,
                Action::Fork { shares, .. } if shares.memory => &mut counts.share,
                Action::Fork { .. } => &mut counts.fork,
                Action::Exec { .. } => &mut counts.exec,
                Action::Exit => &mut counts.exit,
                Action::Truncate { .. } => &mut counts.truncate,
                Action::Open { .. } => &mut counts.open,
                Action::Close { .. } => &mut counts.close,
                Action::Duplicate { .. } => &mut counts.duplicate,
                Action::Inherit { .. } => &mut counts.inherit,
                Action::Stat { .. } => &mut counts.stat,
                Action::Create { .. } => &mut counts.create,
                Action::Rename { .. } => &mut counts.rename,
                Action::Unlink { .. } => &mut counts.unlink,
            } += 1;
        }
        counts
    }

    /// Each kind's name, and how many there are.
    #[must_use]
    pub fn by_kind(&self) -> [(&'static str, u64); 18] {
        [
            ("map file", self.map),
            ("map memory", self.map_memory),
            ("unmap", self.unmap),
            ("break", self.heap),
            ("fork", self.fork),
            ("fork sharing memory", self.share),
            ("thread", self.thread),
            ("exec", self.exec),
            ("exit", self.exit),
            ("truncate", self.truncate),
            ("open", self.open),
            ("close", self.close),
            ("duplicate", self.duplicate),
            ("inherit", self.inherit),
            ("stat", self.stat),
            ("create", self.create),
            ("rename", self.rename),
            ("unlink", self.unlink),
        ]
    }

    /// How many events there are; `None` when that is more than 64 bits hold.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        self.by_kind()
            .into_iter()
            .try_fold(0_u64, |total, (_, count)| total.checked_add(count))
    }

    /// How many events start a task; `None` when that is more than 64 bits hold.
    pub(super) fn starts(&self) -> Option<u64> {
        self.fork.checked_add(self.share)?.checked_add(self.thread)
    }
}
