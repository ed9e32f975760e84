//! The queue of somebody who watches the file system: whoever changes a file appends a notification, and the
//! watcher takes what has come (thesis section 3.3, where the order decides whether a file is there or not).
//!
//! All of these promise the same order, whatever threads append: if one append returned before another was
//! called, its notification comes first. So each process's notifications come in that process's order. A read
//! takes everything that had come at one moment: an append that returned before the read was called is in it, or in a
//! read before it.
//!
//! | type | what it is | where the order comes from |
//! |---|---|---|
//! | [`Locked`] | a queue behind a mutex | the lock |
//! | [`PerCpu`] | a queue for each core, made by hand | a time stamp on each notification |
//! | [`LockFree`] | a lock-free queue of a well-kept library | the queue's tail |
//! | [`LoggedQueue`] | the library's event queue: a log for each core | the logs' time stamps |
//!
//! Nothing leaves a queue by itself, so there is no [`Implementation::OplogAbsorb`](super::Implementation):
//! an append cancels with nothing. A readers-writer lock has nothing to share, as a read takes what is there.
//!
//! These are adapters: they give an event queue the shape of a [`SharedObject`](super::SharedObject).

mod lock_free;
mod locked;
mod logged;
mod percpu;
#[cfg(test)]
mod tests;

pub use lock_free::LockFree;
pub use locked::Locked;
pub use logged::LoggedQueue;
pub use percpu::PerCpu;

use super::Entry;

/// What would make a notification leave again: nothing does, but reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stays;

/// Notifications in the order in which they are delivered.
///
/// Two are equal when they hold the same notifications, and each process's in the same order. How those of
/// different processes are mixed is not compared: processes that run at once have no order.
#[derive(Clone, Debug, Default)]
pub struct Delivery(pub Vec<Entry>);

impl PartialEq for Delivery {
    fn eq(&self, other: &Delivery) -> bool {
        let by_process = |delivery: &Delivery| {
            let mut entries = delivery.0.clone();
            // Stable, so that each process's keep their order.
            entries.sort_by_key(|entry| entry.process);
            entries
        };
        self.0.len() == other.0.len() && by_process(self) == by_process(other)
    }
}
