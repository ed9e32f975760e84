//! The list of the open files of a file system: who opens a file enters it, whoever closes it last takes it
//! out, and hardly anybody walks the list (in Linux, to find out whether a file system may become read-only).
//!
//! Every file is an identity that is entered once and leaves once, and a walk only looks: so all of these show
//! the same when nothing else happens. They differ in what a walk promises while files come and go.
//!
//! | type | what it is | a walk is |
//! |---|---|---|
//! | [`Locked`] | a [`FileTable`] behind a mutex | one moment |
//! | [`RwLocked`] | the same behind a readers-writer lock | one moment |
//! | [`PerCpu`] | a table for each core, made by hand, as Linux had lists of open files | one moment |
//! | [`LockFree`] | a lock-free skip list of a well-kept library | a walk |
//! | [`Harris`] | Harris' lock-free list | a walk |
//! | [`LoggedFiles`] | the table behind a log for each core | one moment |
//! | [`AbsorbingFiles`] | the library's registry: a file that is closed meets its opening in the log where it can | one moment |
//! | [`DeferredFiles`] | the files themselves in one log, or in one for each core, and a bag of those that are open | all that is there, once |
//!
//! *All that is there, once*: what is opened or closed meanwhile may be in it or not, each file by itself. In *a walk*, a file that is there from its beginning to its end is met, once, and one that comes or goes
//! meanwhile may be met or not.
//!
//! These are adapters: they give a registry of things that come and go the shape of a
//! [`SharedObject`](super::SharedObject).

mod absorbing;
mod deferred;
mod harris;
mod lock_free;
mod locked;
mod logged;
mod percpu;
mod rwlocked;
mod table;

pub use absorbing::AbsorbingFiles;
pub use deferred::DeferredFiles;
pub use harris::Harris;
pub use lock_free::LockFree;
pub use locked::Locked;
pub use logged::LoggedFiles;
pub use percpu::PerCpu;
pub use rwlocked::RwLocked;
pub use table::FileTable;
