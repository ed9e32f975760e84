//! The same database behind ordinary locks, and what the system has.

#[cfg(target_os = "linux")]
mod kernel;
mod one_lock;
mod runs;
mod space_locks;
mod tables;

#[cfg(target_os = "linux")]
pub use kernel::{Anonymous, Kernel};
pub use one_lock::OneLock;
pub use space_locks::SpaceLocks;
