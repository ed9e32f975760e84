//! What people take off the shelf: structures of everyday shape that are made of the rooms below.
//!
//! Each says which queue it uses and why, in which order its updates take effect, what they cost in lines
//! moved between cores, and from where on it cannot be faster (its *sustained ceiling*).
//!
//! | type | what it is | an update | a read |
//! |---|---|---|---|
//! | [`EventQueue`] | many producers, one order, one live consumer | an append to the core's own log | the consumer takes all that has come |
//! | [`Registry`] | what is there now: open files, sessions, connections | an append, or nothing at all if what ends began a moment ago | whoever lists brings the logs together |
//!
//! **Invariant.** Nothing here has an atomic or a lock of its own around its contents: contents change only as operations of
//! a log, and what a collection promises of order is what [`oplog`](crate::oplog) promises. The one exception wakes
//! threads that sleep, and carries no data.
//!
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, §3.3 (inotify), §5.2
//! and §6.2 (absorption).

pub mod event_queue;
pub mod registry;

pub use event_queue::EventQueue;
pub use registry::Registry;
