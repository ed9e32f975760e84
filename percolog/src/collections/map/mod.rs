//! A hash map and an ordered list with lock-free reads and a lock for each entry.
//!
//! Tables of a server or of a kernel are read all the time and changed often: sessions, names, pages, timers. A lock around one,
//! or around each part of it, is written by everybody who only wants to look. Here a lookup writes nothing that others use; a
//! change locks the entry that it changes, or the one in front of it, and no more.
//!
//! ```
//! use percolog::collections::Map;
//! use percolog::reclaim::Domain;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! struct Session {
//!     requests: AtomicU64,
//! }
//!
//! static DOMAIN: Domain = Domain::new();
//! let sessions: Map<'_, u32, Session> = Map::new(&DOMAIN);
//!
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         sessions.add(7, Session { requests: 0.into() }).expect("there is memory");
//!         sessions.modify(&7, |session| session.requests.fetch_add(1, Ordering::Relaxed)).expect("it is there");
//!         assert!(sessions.delete(&7));
//!     });
//!     scope.spawn(|| {
//!         // Many lookups in one section; what they find stays until it ends, also if it is deleted right now.
//!         let section = DOMAIN.enter();
//!         if let Some(session) = sessions.get(&section, &7) {
//!             assert!(session.requests.load(Ordering::Relaxed) <= 1);
//!         }
//!     });
//! });
//! assert!(!sessions.contains(&7));
//! ```
//!
//! | what you have | what to use |
//! |---|---|
//! | entries that are found by their keys | [`Map`] |
//! | a few dozen entries that are gone through in order | [`OrderedList`]: each lookup goes through what lies in front |
//! | handles that you give out yourself | a [namespace](crate::namespace): its lookup is an index |
//! | changes whose answers nobody needs | [`Set`](super::Set): its changes touch no shared line at all |
//! | a map that fits into no cache, and few threads | `dashmap`: its entries lie side by side, ours behind links |
//! | very many entries in order | not this: `crossbeam-skiplist`, or a `BTreeMap` behind a lock |
//!
//! # Contract
//!
//! * **Linearizable.** Each operation on a key takes effect at one moment between its call and its return: adding, putting,
//!   updating and deleting when a link is written; a lookup that finds, at a moment at which the entry was there; and one that
//!   finds nothing, at a moment at which there was none. That need not be the last moment: an entry that is added while a lookup
//!   goes on may be missed. (What [`modify`](Map::modify) changes takes effect when the closure's atomics say so.
//!   [`iter`](Map::iter), [`clear`](Map::clear) and [`len`](Map::len) are no single moment; each says what it is.)
//! * **What a section has found stays** until it ends: deleted and replaced entries are dropped when every section has ended that
//!   was open then. Once, and not earlier than with the domain's [custom grace period](crate::reclaim::GracePeriod).
//! * **One at a time changes an entry**: [`modify`](Map::modify), [`update`](Map::update), [`put`](Map::put) and
//!   [`delete`](Map::delete) exclude each other. Observers are excluded by nobody.
//! * **Nothing is lost** when memory runs out: key and value come back. Memory for a map's buckets that is not to be had makes it
//!   slow, and is no error.
//! * **A closure that panics** under an entry's lock poisons that entry: [`ChangeError::Poisoned`]. The structure itself is always
//!   whole: no code of yours runs in the middle of a change of links. Comparisons run under no lock. A destructor that panics does
//!   no harm, as [there](crate::reclaim::Domain#destructors); dropping a structure tells of it, when all others are dropped.
//!
//! # The operations of the paper
//!
//! | the paper's §2 | here |
//! |---|---|
//! | `observe`: enter, look up, read, leave | [`Map::observe`]; [`Map::get`] in a section of the caller's |
//! | `modify`: enter, look up, `ps_lock_take`, change, release, leave | [`Map::modify`]; [`Map::update`] copies, so that observers see all of it or nothing |
//! | adding | [`Map::add`], [`Map::get_or_add`]; [`Map::put`], and [`Map::put_with`], which shows what was there |
//! | `delete`: enter, look up, `ps_lock_take`, unlink, `ps_lock_release_free`, leave | [`Map::delete`], [`Map::delete_if`]; "cleanup" is [`Map::delete_with`] |
//!
//! `OrderedList` has the same ones.
//!
//! # Cost and progress
//!
//! | method | progress | cache lines moved |
//! |---|---|---|
//! | [`observe`](Map::observe), [`get`](Map::get), [`contains`](Map::contains) | wait-free, unless entries are added in front of it faster than it goes | none but those that others have changed |
//! | [`modify`](Map::modify) | blocking, while somebody has the entry | the entry's |
//! | [`add`](Map::add) | blocking, while somebody has the entry in front | that entry's, or the bucket's; and the new one's |
//! | [`put`](Map::put) of what is there, [`update`](Map::update), [`delete`](Map::delete) | blocking, while somebody has the entry or the one in front | both; and [retiring](crate::reclaim::Domain#progress-and-cost) |
//! | [`len_estimate`](Map::len_estimate) | wait-free | one |
//! | [`len`](Map::len) | lock-free | one of each thread that has added or deleted |
//!
//! *A map* has about one or two buckets for each entry: a lookup hashes, reads three words that hardly ever change, the bucket's
//! line, and those of one entry or two. *A list* reads a line of every entry in front.
//! Where these lines are in no cache, each is waited for, one after the other: a table whose entries lie side by side is two to six
//! times as fast. In caches a lookup takes less than twice as long as `dashmap`'s, and moves nothing when there are more threads. (A
//! shared machine, one thread, 8-byte keys and values, half of them found, in ns: 43 and 26 with 2048 entries, 50 and 27 with
//! 8192, 260 to 410 and 64 to 71 with 65,536. A list of 32 entries takes 52 where `crossbeam-skiplist` takes 60, and 51 and 186 on
//! two threads.)
//!
//! Adding and deleting count in a [`Counter`](crate::counter::Counter): a word of the thread's own once it is hot. A
//! map doubles its buckets without a stop: that writes one word, and each bucket is linked when something is first added there.
//!
//! Entries come from a [slab](crate::slab), so they are allocated without an atomic. Entries that one thread has added lie side by
//! side, two or three of small ones in one line: threads that modify each others' neighbours move that line. Align a value to a
//! line if that matters.
//!
//! **Memory**: 40 bytes an entry beside key and value (24 for the link, the number and the lock; 16 of the slab), and in a map 24
//! to 48 for buckets. What a section keeps, and what threads keep for their next entries, comes on top:
//! [`memory_usage`](Map::memory_usage).
//!
//! # Closures
//!
//! What is given to [`modify`](Map::modify), [`update`](Map::update) and [`delete_if`](Map::delete_if) runs in a section and under
//! the lock of its entry, which is also the lock of the place behind it: keep it short. In there, look up what you like, and
//! change nothing of the same structure: nobody finds out that a thread waits for itself, or two for each other.
//!
//! # `fork`
//!
//! A child goes on with a structure that no other thread was changing. What another thread was changing stays locked there,
//! as with a `Mutex`: such a child should look up only, which waits for nobody.
//!
//! # Where this differs from the paper
//!
//! Q. Wang, T. Stamler, G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*, EuroSys 2016, §2.2 with Figure 1.
//! There the three operations are a sketch, and the structure behind `lookup` is the reader's. Here it is a list in the manner of
//! Heller, Herlihy, Luchangco, Moir, Scherer and Shavit, *A Lazy Concurrent List-Based Set Algorithm*, with the lock's own mark
//! that its node was freed where theirs has a bit beside it, and locks taken from the back, so that no code of users runs while
//! somebody holds two; and for the map, the order of Shalev and Shavit, *Split-Ordered Lists: Lock-Free Extensible Hash Tables*.
//! The paper's memcached locks its buckets; here there are no locks of buckets.

// Under loom there are no domains and slabs: models bring their own.
#![cfg_attr(percolog_loom, allow(dead_code))]

#[cfg(doc)]
use crate::collections::{Map, OrderedList};

mod buckets;
mod list;
mod node;

#[cfg(not(percolog_loom))]
mod builder;
#[cfg(not(percolog_loom))]
mod entries;
mod errors;
#[cfg(not(percolog_loom))]
pub(super) mod hash_map;
#[cfg(not(percolog_loom))]
mod iter;
#[cfg(not(percolog_loom))]
pub(super) mod ordered_list;
#[cfg(not(percolog_loom))]
mod room;

#[cfg(all(test, percolog_loom))]
mod models;

#[cfg(not(percolog_loom))]
pub use crate::hash::DefaultHashBuilder;
#[cfg(not(percolog_loom))]
pub use builder::MapBuilder;
pub use errors::{AddError, AddReason, ChangeError};
#[cfg(not(percolog_loom))]
pub use iter::EntryIter;
#[cfg(not(percolog_loom))]
pub use ordered_list::EntryRange;

/// For structures of which nobody says where they belong.
#[cfg(not(percolog_loom))]
fn shared_domain() -> &'static crate::reclaim::Domain {
    static SHARED: crate::reclaim::Domain = crate::reclaim::Domain::new();
    &SHARED
}
