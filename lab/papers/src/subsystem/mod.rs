//! The subsystems of an operating system that a recorded program updates, and what each can be made of.
//!
//! In each of them processes *enter* themselves with shared objects and *leave* again, all the time, and
//! hardly anybody *reads* what is there. That is the pattern the papers are about.
//!
//! | subsystem | an object is | an entry is | a read is |
//! |---|---|---|---|
//! | [`Files`](Subsystem::Files) | the reverse map of a file | a mapping of a part of it | a truncate |
//! | [`Memory`](Subsystem::Memory) | the reverse map of memory without a file, shared by all that were forked from who made it | a mapping of a part of it | finding who maps a page, to take it away |
//! | [`Names`](Subsystem::Names) | a name of a file in the name cache | a reference, from a lookup until the file is closed | making the name void, which needs the exact count |
//! | [`OpenFiles`](Subsystem::OpenFiles) | the list of the open files of a file system | an open file | walking the list |
//! | [`Events`](Subsystem::Events) | the queue of somebody who watches the file system | a notification | taking what has come |
//!
//! (S. Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*,
//! sections 3.2 to 3.4, 5.3 and 8.4; for memory without a file, J. Kyong, *A Lightweight Log-based Deferred
//! Update for Linux Kernel Scalability*.)
//!
//! Every object of every subsystem, whatever it is made of, is a [`SharedObject`]; so one replay drives all
//! of them. [`visit`] finds the type for a subsystem and an implementation.

mod absorbing_edits;
pub mod deferred;
mod edits;
pub mod events;
mod harris_list;
pub mod names;
pub mod open_files;
pub mod rmap;
mod slots;
pub mod sources;
#[cfg(test)]
mod tests;

use percolog::oplog::LogStats;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// One thing that a process has entered with an object.
///
/// Every entry is an identity that is entered once and leaves at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// Reverse maps: the first byte that is mapped. Open files: the number of the file. Others: nothing.
    pub offset: u64,
    /// Tells this entry from every other one there ever is, of any object. (It stands second so that
    /// entries compare as their [keys](Entry::key) do.)
    pub identity: u32,
    /// Reverse maps: the byte behind the last one that is mapped. Others: nothing.
    pub end: u64,
    /// Whose it is.
    pub process: u32,
}

impl Entry {
    /// What tells it from all others, in order of offset.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            offset: self.offset,
            identity: self.identity,
        }
    }
}

/// What tells entries apart, in order of offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// As in the entry.
    pub offset: u64,
    /// As in the entry.
    pub identity: u32,
}

/// An object that many processes enter themselves with, and few read.
///
/// The two halves of an entry's life are made together by [`SharedObject::life`], and each is used up by the
/// call that it is for: nothing can enter or leave twice.
pub trait SharedObject: Default + Send + Sync + 'static {
    /// What enters.
    type Arrival: Send;
    /// What makes it leave again.
    type Departure: Send;
    /// What a read shows.
    type View: PartialEq + fmt::Debug + Send;

    /// Both halves of the life of `entry`, in which nothing has happened yet.
    fn life(entry: Entry) -> (Self::Arrival, Self::Departure);

    /// An entry comes.
    fn enter(&self, arrival: Self::Arrival);

    /// An entry goes. One that a read has taken away before stays away.
    fn leave(&self, departure: Self::Departure);

    /// The read that the subsystem makes, and what it saw; `argument` is what the subsystem needs for it: the
    /// new length of the file ([`Subsystem::Files`]), the offset that is looked for ([`Subsystem::Memory`]),
    /// otherwise nothing.
    fn read(&self, argument: u64) -> Self::View;

    /// Everything that is there, without changing it.
    fn view(&self) -> Self::View;

    /// What [`view`](SharedObject::view) or [`read`](SharedObject::read) should show when these entries, in order of their keys, are what it
    /// is about.
    fn expected(entries: &[Entry]) -> Self::View;

    /// The entries that a view shows, in any order, where reads take entries away ([`Subsystem::Events`]): what
    /// several reads have taken can then be added up. `None` where no such sum is needed.
    fn taken(view: &Self::View) -> Option<&[Entry]> {
        let _ = view;
        None
    }

    /// What the logs have done so far, if there are any.
    fn statistics(&self) -> Option<LogStats> {
        None
    }
}

/// A subsystem that a recorded program updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subsystem {
    /// Who maps which part of which file: `files`
    Files,
    /// Who maps which part of memory without a file: `memory`
    Memory,
    /// The name cache: `names`
    Names,
    /// The list of open files: `open-files`
    OpenFiles,
    /// The queue of somebody who watches the file system: `events`
    Events,
}

impl Subsystem {
    /// All of them.
    pub const ALL: [Subsystem; 5] = [
        Subsystem::Files,
        Subsystem::Memory,
        Subsystem::Names,
        Subsystem::OpenFiles,
        Subsystem::Events,
    ];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Subsystem::Files => "files",
            Subsystem::Memory => "memory",
            Subsystem::Names => "names",
            Subsystem::OpenFiles => "open-files",
            Subsystem::Events => "events",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Subsystem::Files => "reverse map of files",
            Subsystem::Memory => "reverse map of memory",
            Subsystem::Names => "name cache",
            Subsystem::OpenFiles => "list of open files",
            Subsystem::Events => "event queue",
        }
    }
}

/// What the objects of a subsystem are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Implementation {
    /// A plain structure behind a mutex: `mutex`
    Mutex,
    /// The same behind a lock for which threads wait without sleeping, as parts of a kernel do: `spinlock`
    SpinLock,
    /// The same behind a readers-writer lock: `rwlock`
    RwLock,
    /// A structure for each core, made by hand, and a policy that brings them together: `percpu`
    PerCpu,
    /// A well-kept lock-free structure: `lockfree`
    LockFree,
    /// Harris' lock-free list, which the papers compare with: `harris`
    Harris,
    /// The plain structure behind a log for each core: `oplog`
    Oplog,
    /// ... in which operations that undo each other meet before they are carried out: `oplog-absorb`
    OplogAbsorb,
    /// A log of the entries themselves, without time stamps, that all cores share: `ldu-global`
    LduGlobal,
    /// ... for each core: `ldu-percore`
    LduPerCore,
}

impl Implementation {
    /// All of them, the plainest first.
    pub const ALL: [Implementation; 10] = [
        Implementation::Mutex,
        Implementation::SpinLock,
        Implementation::RwLock,
        Implementation::PerCpu,
        Implementation::LockFree,
        Implementation::Harris,
        Implementation::Oplog,
        Implementation::OplogAbsorb,
        Implementation::LduGlobal,
        Implementation::LduPerCore,
    ];

    /// Its name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Implementation::Mutex => "mutex",
            Implementation::SpinLock => "spinlock",
            Implementation::RwLock => "rwlock",
            Implementation::PerCpu => "percpu",
            Implementation::LockFree => "lockfree",
            Implementation::Harris => "harris",
            Implementation::Oplog => "oplog",
            Implementation::OplogAbsorb => "oplog-absorb",
            Implementation::LduGlobal => "ldu-global",
            Implementation::LduPerCore => "ldu-percore",
        }
    }

    /// Whether it is one of percolog's.
    #[must_use]
    pub const fn is_logged(self) -> bool {
        matches!(
            self,
            Implementation::Oplog
                | Implementation::OplogAbsorb
                | Implementation::LduGlobal
                | Implementation::LduPerCore
        )
    }

    /// Whether there is such an implementation of the subsystem's objects.
    #[must_use]
    pub fn serves(self, subsystem: Subsystem) -> bool {
        struct Nothing;
        impl Visitor for Nothing {
            type Output = ();
            fn visit<O: SharedObject>(self) {}
        }
        visit(subsystem, self, Nothing).is_some()
    }
}

impl fmt::Display for Subsystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no subsystem has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no subsystem {0:?}; there are files, memory, names, open-files and events")]
pub struct UnknownSubsystem(pub String);

impl FromStr for Subsystem {
    type Err = UnknownSubsystem;

    fn from_str(text: &str) -> Result<Subsystem, UnknownSubsystem> {
        Subsystem::ALL
            .into_iter()
            .find(|subsystem| subsystem.name() == text)
            .ok_or_else(|| UnknownSubsystem(text.to_owned()))
    }
}

/// A name that no implementation has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "there is no implementation {0:?}; there are mutex, spinlock, rwlock, percpu, lockfree, harris, oplog, oplog-absorb, ldu-global and ldu-percore"
)]
pub struct UnknownImplementation(pub String);

impl FromStr for Implementation {
    type Err = UnknownImplementation;

    fn from_str(text: &str) -> Result<Implementation, UnknownImplementation> {
        Implementation::ALL
            .into_iter()
            .find(|implementation| implementation.name() == text)
            .ok_or_else(|| UnknownImplementation(text.to_owned()))
    }
}

/// Something to be done with a type of objects; see [`visit`].
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<O: SharedObject>(self) -> Self::Output;
}

/// Does something with the objects of `subsystem` made as `implementation` says; `None` when nobody has made
/// them that way.
pub fn visit<V: Visitor>(
    subsystem: Subsystem,
    implementation: Implementation,
    visitor: V,
) -> Option<V::Output> {
    use {Implementation as I, Subsystem as S};

    // One line for each pair: what is not here does not exist.
    Some(match (subsystem, implementation) {
        (S::Files | S::Memory | S::OpenFiles | S::Events, I::SpinLock) => return None,

        (S::Files, I::Mutex) => visitor.visit::<rmap::OfFile<rmap::Locked>>(),
        (S::Files, I::RwLock) => visitor.visit::<rmap::OfFile<rmap::RwLocked>>(),
        (S::Files, I::PerCpu) => visitor.visit::<rmap::OfFile<rmap::PerCpu>>(),
        (S::Files, I::LockFree) => visitor.visit::<rmap::OfFile<rmap::LockFree>>(),
        (S::Files, I::Harris) => visitor.visit::<rmap::OfFile<rmap::Harris>>(),
        (S::Files, I::Oplog) => visitor.visit::<rmap::OfFile<rmap::LoggedMap>>(),
        (S::Files, I::OplogAbsorb) => visitor.visit::<rmap::OfFile<rmap::AbsorbingMap>>(),
        (S::Files, I::LduGlobal) => {
            visitor.visit::<rmap::OfFile<rmap::DeferredMap<deferred::GlobalQueue>>>()
        }
        (S::Files, I::LduPerCore) => {
            visitor.visit::<rmap::OfFile<rmap::DeferredMap<deferred::PerCoreQueue>>>()
        }

        (S::Memory, I::Mutex) => visitor.visit::<rmap::Anonymous<rmap::Locked>>(),
        (S::Memory, I::RwLock) => visitor.visit::<rmap::Anonymous<rmap::RwLocked>>(),
        (S::Memory, I::PerCpu) => visitor.visit::<rmap::Anonymous<rmap::PerCpu>>(),
        (S::Memory, I::LockFree) => visitor.visit::<rmap::Anonymous<rmap::LockFree>>(),
        (S::Memory, I::Harris) => visitor.visit::<rmap::Anonymous<rmap::Harris>>(),
        (S::Memory, I::Oplog) => visitor.visit::<rmap::Anonymous<rmap::LoggedMap>>(),
        (S::Memory, I::OplogAbsorb) => visitor.visit::<rmap::Anonymous<rmap::AbsorbingMap>>(),
        (S::Memory, I::LduGlobal) => {
            visitor.visit::<rmap::Anonymous<rmap::DeferredMap<deferred::GlobalQueue>>>()
        }
        (S::Memory, I::LduPerCore) => {
            visitor.visit::<rmap::Anonymous<rmap::DeferredMap<deferred::PerCoreQueue>>>()
        }

        (S::Names, I::Mutex) => visitor.visit::<names::Locked>(),
        (S::Names, I::SpinLock) => visitor.visit::<names::Spinning>(),
        (S::Names, I::PerCpu) => visitor.visit::<names::PerCpu>(),
        (S::Names, I::LockFree) => visitor.visit::<names::LockFree>(),
        (S::Names, I::Oplog) => visitor.visit::<names::Referenced>(),
        (S::Names, I::RwLock | I::Harris | I::OplogAbsorb | I::LduGlobal | I::LduPerCore) => {
            return None;
        }

        (S::OpenFiles, I::Mutex) => visitor.visit::<open_files::Locked>(),
        (S::OpenFiles, I::RwLock) => visitor.visit::<open_files::RwLocked>(),
        (S::OpenFiles, I::PerCpu) => visitor.visit::<open_files::PerCpu>(),
        (S::OpenFiles, I::LockFree) => visitor.visit::<open_files::LockFree>(),
        (S::OpenFiles, I::Harris) => visitor.visit::<open_files::Harris>(),
        (S::OpenFiles, I::Oplog) => visitor.visit::<open_files::LoggedFiles>(),
        (S::OpenFiles, I::OplogAbsorb) => visitor.visit::<open_files::AbsorbingFiles>(),
        (S::OpenFiles, I::LduGlobal) => {
            visitor.visit::<open_files::DeferredFiles<deferred::GlobalQueue>>()
        }
        (S::OpenFiles, I::LduPerCore) => {
            visitor.visit::<open_files::DeferredFiles<deferred::PerCoreQueue>>()
        }

        (S::Events, I::Mutex) => visitor.visit::<events::Locked>(),
        (S::Events, I::PerCpu) => visitor.visit::<events::PerCpu>(),
        (S::Events, I::LockFree) => visitor.visit::<events::LockFree>(),
        (S::Events, I::Oplog) => visitor.visit::<events::LoggedQueue>(),
        (S::Events, I::RwLock | I::Harris | I::OplogAbsorb | I::LduGlobal | I::LduPerCore) => {
            return None;
        }
    })
}
