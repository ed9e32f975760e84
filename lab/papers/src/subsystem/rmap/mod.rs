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
//! With locks and with stamped logs every operation takes effect at one moment. A log without stamps keeps the order of
//! each mapping's own two updates, and what it shows has all that finished before; of two mappings that come and go meanwhile it may
//! show the later one alone. Without locks a truncate and a look are walks, during which mappings come and go: [`LockFree`] says
//! what that means.
//!
//! | type | what it is |
//! |---|---|
//! | [`Locked`] | an [`IntervalMap`] behind a mutex, as in Linux |
//! | [`RwLocked`] | the same map behind a readers-writer lock |
//! | [`PerCpu`] | a map for each core, made by hand: the alternative that the thesis weighs logs against |
//! | [`LockFree`] | a lock-free skip list of a well-kept library |
//! | [`Harris`] | Harris' lock-free list, with which the papers compare |
//! | [`LoggedMap`] | the same map behind [`percolog::oplog::Logged`], each update carried out in order |
//! | [`AbsorbingMap`] | logged, and a removal meets its addition in the log where it can |
//! | [`DeferredMap`] | the map behind [`percolog::ldu::Deferred`], whose log has the mappings themselves: one log, or one for each core |

mod absorbing;
mod cut;
mod deferred;
mod harris;
mod interval_map;
mod lock_free;
mod locked;
mod logged;
mod object;
mod percpu;
mod rwlocked;

pub use absorbing::AbsorbingMap;
pub use deferred::DeferredMap;
pub use harris::Harris;
pub use interval_map::IntervalMap;
pub use lock_free::LockFree;
pub use locked::Locked;
pub use logged::LoggedMap;
pub use object::{Anonymous, OfFile};
pub use percpu::PerCpu;
pub use rwlocked::RwLocked;

use super::Entry;
use percolog::oplog::LogStats;

/// The reverse map of one file.
///
/// The two halves of a mapping's life are made together by [`ReverseMap::identity`], and each is used up
/// by the call that it is for: nothing can be added or removed twice.
pub trait ReverseMap: Default + Send + Sync + 'static {
    /// What adds a mapping.
    type Addition: Send;
    /// What removes it again.
    type Removal: Send;

    /// Both halves of the life of `mapping`, in which nothing has happened yet.
    fn identity(mapping: Entry) -> (Self::Addition, Self::Removal);

    /// A process has mapped a part of the file.
    fn add(&self, addition: Self::Addition);

    /// A mapping has gone. One that a truncate removed before stays removed.
    fn remove(&self, removal: Self::Removal);

    /// Cuts every mapping beyond `length`, and tells which they were, as they were, in order of offset.
    fn truncate(&self, length: u64) -> Vec<Entry>;

    /// The mappings that have the byte at `offset`, in order of offset.
    fn at(&self, offset: u64) -> Vec<Entry>;

    /// What the logs have done so far, if there are any.
    fn statistics(&self) -> Option<LogStats> {
        None
    }

    /// All mappings, in order of offset and identity.
    fn mappings(&self) -> Vec<Entry>;
}
