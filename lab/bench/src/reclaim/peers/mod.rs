//! The reclaimers, one file each.
//!
//! Each is used as its own documentation says it should be used; each file says which choice was made for it. Those in
//! C are there with the feature `c-peers`.

#[cfg(feature = "c-peers")]
mod ck_epoch;
#[cfg(feature = "c-peers")]
mod ck_locks;
mod crossbeam_epoch;
mod percolog;
mod seize;
#[cfg(feature = "c-peers")]
mod urcu;

#[cfg(feature = "c-peers")]
pub use ck_epoch::{CkEpochCall, CkEpochWait};
#[cfg(feature = "c-peers")]
pub use ck_locks::{BrLock, McsLock};
pub use crossbeam_epoch::CrossbeamEpoch;
pub use percolog::{
    ClockAtExit, Coarse, Fenced, Forgetting, NotBorrowing, Percolog, PercologHandle, ScansInOrder,
    Tsc, TscFenced, Variant,
};
pub use seize::Seize;
#[cfg(feature = "c-peers")]
pub use urcu::{UrcuMbCall, UrcuMbWait, UrcuMembCall, UrcuMembWait};
