//! Ready-made concurrent collections: maps, sets, queues, caches, registries.
//!
//! Each says which queue it uses and why, in which order its updates take effect, what they cost in lines
//! moved between cores, and from where on it cannot be faster (its *sustained ceiling*).
//!
//! | type | what it is | an update | a read |
//! |---|---|---|---|
//! | [`Cache`] | values by key, in so many bytes, with lifetimes; what was not used for long goes first | locks of its chain, and of its list if room is made | follows a chain in a section, and notes in its thread's own lines that it did |
//! | [`channel`] | many senders, each in its own order, one receiver | an append to the sender's own queue | the receiver takes what each sender has sent |
//! | [`EventQueue`] | many producers, one order, one live consumer | an append to the core's own log | the consumer takes all that has come |
//! | `Snapshots` | what another structure showed last | that structure's own | wait-free, of a view that is stale by a bound |
//! | [`Lru`] | the keys of a cache, in the order in which they were last used | an append, or nothing at all if the core has touched the key before | whoever evicts brings the logs together |
//! | [`Map`] | a hash map that is looked up without locks | locks its entry, or the one in front | writes nothing |
//! | [`OrderedList`] | a few entries in the order of their keys, the same way | the same | writes nothing, and goes through what lies in front |
//! | [`PerCoreList`] | a bag: connections to accept, free buffers | a push to the core's own list, or a pop from it | whoever finds its own list empty steals from another one |
//! | [`Registry`] | what is there now: open files, sessions, connections | an append, or nothing at all if what ends began a moment ago | whoever lists brings the logs together |
//! | [`Sessions`] | sessions that are opened, touched again and again, closed, and expire | a change of what waits in the core's own log | whoever lists brings the logs together |
//! | [`TableCache`] | a table that is looked up everywhere and hardly ever changed: mounts, routes | takes every core's copy away | a lookup in the core's own copies |
//! | [`Set`] | a set of keys, ordered or hashed | an append to the core's own log, or nothing but a replacement there | whoever asks brings the logs together |
//!
//! **Invariant.** Nothing that stands on a log has an atomic or a lock of its own around its contents: contents change only as
//! operations of the log, and what such a collection promises of order is what [`oplog`](crate::oplog) promises. (The one
//! exception wakes threads that sleep, and carries no data.) Those that have answers to give at once stand on no log, and say why
//! what they answer is true: in [`channel`] each sender has a queue with one producer and one consumer; in [`PerCoreList`] and [`TableCache`] each core's part has a lock that its own core takes; in [`Map`] and
//! [`OrderedList`] ([`map`]) each entry has one, and lookups take none; nor do those of [`Cache`], whose locks are those of who
//! changes it.
//!
//! **`fork`.** What stands on a log or has locks is in a child as a `Mutex` of `std` is: usable if no other thread used it at the
//! time ([`oplog`](crate::oplog#fork)). [`Map`] and [`Cache`] say what else holds there.
//!
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*, §3.3 (inotify), §5.2
//! and §6.2 (absorption); Boyd-Wickizer et al., *An Analysis of Linux Scalability to Many Cores*, §4.2 and §4.5 (lists and tables
//! for each core);
//! Wang et al., *Parallel Sections: Scaling System-Level Data-Structures*, §2.2 (observe, modify, delete), §5.2 (caches).

pub mod cache;
pub mod channel;
pub mod event_queue;
// Under loom there are no sections to read views in.
mod lru;
pub mod map;
mod per_core_list;
mod registry;
mod sessions;
mod set;
#[cfg(all(feature = "std", not(percolog_loom)))]
mod snapshots;
mod table_cache;

pub use crate::hash::{DefaultHashBuilder, DefaultHasher};
#[cfg(not(percolog_loom))]
pub use cache::calls::Cache;

pub use event_queue::queue::EventQueue;
pub use lru::{Lru, LruBuilder};
#[cfg(not(percolog_loom))]
pub use map::hash_map::Map;
#[cfg(not(percolog_loom))]
pub use map::ordered_list::OrderedList;
pub use per_core_list::PerCoreList;
pub use registry::{Listing, Registration, Registry};
pub use sessions::{SessionList, Sessions};
pub use set::{Set, SetState};
#[cfg(all(feature = "std", not(percolog_loom)))]
pub use snapshots::{SnapshotRef, SnapshotSource, Snapshots};
pub use table_cache::TableCache;
