//! The reverse map of one file: which processes map which part of it.
//!
//! A [`ReverseMap`] hears of every mapping that comes and goes, and is asked only when the file is
//! truncated. The papers' observation is that the updates need not be carried out when they are made:
//! they are logged per core and brought together for the one who asks (Boyd-Wickizer, section 5.3).
//!
//! Invariant: a mapping is an identity that is added once and removed once. A mapping that is cut by
//! `munmap` is removed, and its remains are added as new identities. That is what allows an addition and
//! its removal to cancel to nothing before either is carried out.
//!
//! | type | what it is |
//! |---|---|
//! | [`Locked`] | an [`IntervalMap`] behind a mutex, as in Linux |
//! | [`LoggedMap`] | the same map behind [`percolog::oplog::Logged`], each update carried out in order |
//! | [`AbsorbingMap`] | logged, and a removal meets its addition in the log where it can |

mod absorbing;
mod interval_map;
mod locked;
mod logged;

pub use absorbing::AbsorbingMap;
pub use interval_map::{IntervalMap, Key};
pub use locked::Locked;
pub use logged::LoggedMap;

/// A part of a file that a process maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mapping {
    /// The first byte of the file that is mapped.
    pub offset: u64,
    /// Tells this mapping from every other one there ever is, of any file. (It stands second so that
    /// mappings compare as their [keys](Mapping::key) do.)
    pub identity: u32,
    /// The byte behind the last one that is mapped.
    pub end: u64,
    /// Who maps it.
    pub process: u32,
}

impl Mapping {
    /// Under what an [`IntervalMap`] keeps it.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            offset: self.offset,
            identity: self.identity,
        }
    }
}

/// The reverse map of one file.
///
/// The two halves of a mapping's life are made together by [`ReverseMap::identity`], and each is used up
/// by the call that it is for: nothing can be added or removed twice.
pub trait ReverseMap: Default + Send + Sync {
    /// What adds a mapping.
    type Addition: Send;
    /// What removes it again.
    type Removal: Send;

    /// Both halves of the life of `mapping`, in which nothing has happened yet.
    fn identity(mapping: Mapping) -> (Self::Addition, Self::Removal);

    /// A process has mapped a part of the file.
    fn add(&self, addition: Self::Addition);

    /// A mapping has gone. One that a truncate removed before stays removed.
    fn remove(&self, removal: Self::Removal);

    /// Cuts every mapping beyond `length`, and tells which they were, as they were, in order of offset.
    fn truncate(&self, length: u64) -> Vec<Mapping>;

    /// All mappings, in order of offset and identity.
    fn mappings(&self) -> Vec<Mapping>;
}
