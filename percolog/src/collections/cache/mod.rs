//! A cache of bounded size, read without a store to a shared line.
//!
//! A cache that many threads read fights over what its hits write: locks, counts of references, the list that says what was
//! used last. Here a hit writes to lines of its own thread alone. Items are found in [sections](crate::reclaim), so no lock and no count
//! keeps them; and what is to be evicted is decided by CLOCK, whose marks others set for it, from notes that each thread takes for itself.
//!
//! ```
//! use percolog::collections::Cache;
//! use percolog::reclaim::Domain;
//! use std::time::Duration;
//!
//! static SESSIONS: Domain = Domain::new();
//!
//! // No more than 1 MiB, nodes and tables included.
//! let users = Cache::<u64, &str>::builder(1 << 20).build(&SESSIONS).expect("there is memory");
//!
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         users.set(1, "ada").expect("it is small");
//!         users.set_for(2, "bob", Duration::from_secs(3600)).expect("it is small");
//!     });
//!     scope.spawn(|| {
//!         let section = SESSIONS.enter();
//!         // Good until the section ends, whatever others do.
//!         let name = users.get(&section, &1);
//!         assert!(matches!(name, None | Some(&"ada")));
//!     });
//! });
//! assert_eq!(users.observe(&2, |name| name.len()), Some(3));
//! let version = {
//!     let section = SESSIONS.enter();
//!     users.get_item(&section, &1).expect("there is room for both").version()
//! };
//! users.compare_and_set(1, version, "eve").expect("nobody else has set it");
//! let late = users.compare_and_set(1, version, "mallory").expect_err("somebody has");
//! assert_eq!((late.key, late.value), (1, "mallory"));
//! assert!(users.delete(&1) && !users.delete(&1));
//! ```
//!
//! # Contract
//!
//! * **Linearizable, key by key.** A [set](Cache::set), and every other call that puts an item in, takes effect when it links the item; a
//!   [delete](Cache::delete), an eviction or an expiry when it unlinks it; a lookup at some moment between its call and its return. Items may
//!   be evicted at any time: to a program that cannot tell, a miss is always right. What a call reads and changes, it does at once:
//!   [`add`](Cache::add), [`replace`](Cache::replace), [`compare_and_set`](Cache::compare_and_set), [`update`](Cache::update).
//! * **Never more bytes than the bound, not for a moment.** What counts is the weight of what is there: for each item
//!   [`Cache::ITEM_BYTES`], and what the [weigher](CacheBuilder::weigher) says. Room is made before an item is put in.
//!   Beyond the bound come one node for each call under way, and what was taken out and may still be read. That is as much as
//!   retired objects of a [domain](crate::reclaim) are: some hundreds for each thread, unless a section stays open. The
//!   domain's [cap](crate::reclaim::DomainOptions::cap) says what happens then; [`CacheBuilder::memory`] bounds all nodes, whatever they
//!   wait for, and makes it an error to put in what finds no memory.
//! * **Each list has an equal share of the bound.** Items are spread over [lists](CacheBuilder::lists) by their hash, and a list evicts its own. An
//!   item that is larger than a share is an error. There is no sum of all that anybody would have to change.
//! * **What has expired is not found**, by the cache's [time source](TimeSource). It takes up room until its key is set again or looked for
//!   by a delete, the hand meets it, or [`expire`](Cache::expire) does.
//! * **A version belongs to one item** of its key for ever, also if the key was absent in between.
//! * **Errors hand the item back**, and nothing has happened: [`PutError`]. (Other items may have been evicted for one that finds no room in memory.)
//! * **Figures are exact**: [`Cache::stats`] counts each call that has finished.
//!
//! # Cost
//!
//! | call | progress | cache lines moved |
//! |---|---|---|
//! | [`get`](Cache::get), [`observe`](Cache::observe) | wait-free but for the length of a chain (1.4 items on average, if [the expected weight](CacheBuilder::expected_weight) is right) | none is written that others write; those of chain and item are read |
//! | a set of a key that has an item of the same weight | blocking: its chain's lock | chain and lock: one; the old item's; and the domain's and slab's parts: see [`reclaim`](crate::reclaim) and [`slab`](crate::slab) |
//! | any other set | blocking: its list's lock, and for each eviction and itself a chain's | the list's, its ring's, and for each eviction and each item that the hand spares the item's and its chain's; a thread's notes, for each item put in |
//! | [`delete`](Cache::delete) | blocking, as above; of an absent key as `get` | the list's, its ring's, the chain's, the item's |
//! | [`touch`](Cache::touch) | blocking: its chain's lock | the chain's, the item's |
//!
//! No call of the user's code runs under a lock but `Eq` of keys, and the time source. Destructors run in calls that retire nodes, without a lock.
//! Locks are [`NodeLock`](crate::lock::NodeLock)s: who waits for one spins for a moment, and sleeps. Of threads that set one key at the same time, each
//! that gets the lock spares it the others that wait: their items come just before its, and are never linked.
//!
//! *Memory:* an item takes 16 + 48 bytes, its key and its value in the slab, rounded up to its alignment, 8 bytes of a ring and some 15 of
//! chains and locks; [`Cache::ITEM_BYTES`] counts all of that. Each thread that uses the cache takes some 800 bytes. Tables are made as large as they
//! will ever be when the cache is built, and take memory as they are used; nothing is ever resized.
//!
//! # Second chance without stores
//!
//! An item's mark says that it was used since the hand came by. A hit that finds it set stores nothing but its count, in its own
//! thread's line. Another hit notes the item's hash, in a ring of 64 notes of its own thread, over the oldest one if nobody has looked. Whoever
//! puts items in goes through the rings now and then, and sets the marks: once for as many items as there were rings with something new, so each
//! item pays for one ring, on any number of threads. With one thread this is exactly CLOCK, unless there are more than 64 such hits between two
//! insertions. Of YCSB's Zipf keys (0.99), with room for a tenth of them, lookups by eight threads in turn found as much as CLOCK's
//! within 0.1 percentage points; `cargo test --release -p percolog-bench --test hit_ratios -- --nocapture` prints the table.
//!
//! # Panics and poisoning
//!
//! A panic of code of the user's (`Hash`, `Eq`, the weigher, the time source, closures) leaves the cache as it was, or, in a set, with some
//! items evicted; locks are not poisoned. Destructors that panic are contained by the domain, as [it says](crate::reclaim::Domain). `Eq` and
//! `Hash` of keys, and the time source, must not use the cache: a thread would wait for itself.
//!
//! # `fork`
//!
//! A child can look items up at once. As with `std`'s `Mutex`, a lock that another thread holds at the time of a `fork` stays taken
//! in the child, which can then wait for ever in a set: fork when nobody changes the cache, or change it in the child no more.
//!
//! # When to take something else
//!
//! * `quick_cache`, `moka`: if what matters most is the share of lookups that find something. Both know how often an item was used, not only
//!   that it was, and keep better what is popular for long; both have loaders that let one thread compute what several wait for, and
//!   `moka` tells about evictions. If values are cheap to clone, and no section is at hand, they are simpler to use.
//! * [`Lru`](super::Lru): if the exact order of last use is what is asked for.
//! * [`Replaceable`](crate::reclaim::Replaceable), or a map of your own in sections: if nothing has ever to be evicted.
//! * [`Namespace`](crate::namespace::Namespace): if keys are numbers that the program gives out itself.
//!
//! # Where this differs from the paper
//!
//! Q. Wang, T. Stamler, G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*, EuroSys 2016, §5.2: memcached, with lookups in
//! parallel sections, a lock for each bucket, sets in two steps, and CLOCK over 64 lists that hashes choose.
//!
//! * There each hit that finds an item's mark unset sets it, in a line that all readers of the item share. Here it is noted.
//! * There an item that is replaced leaves its list and enters it again. Here, if it weighs the same, the new one takes over its
//!   place, and the list and its lock are not touched.
//! * There a list links its items. Here it is a ring of hashes: the hand knows what comes next before it has the item's line, and asks for it.
//! * There the memory for items is bounded by their number, and freed items are waited for. Here weights are bounded, and memory is, too, if told.
//! * There every set changes the chain. Here one that has to wait, and meanwhile is overtaken by another one of its key, is done.
//! * Lifetimes and versions are here kept under the chain's lock; there they are memcached's own, with its counter for all of them.

#[cfg(doc)]
use crate::collections::Cache;

#[cfg(not(percolog_loom))]
mod builder;
#[cfg(not(percolog_loom))]
pub(super) mod calls;
mod core;
#[cfg(not(percolog_loom))]
mod item;
mod lists;
mod notes;
mod table;
mod time;

#[cfg(all(test, percolog_loom))]
mod models;

#[cfg(not(percolog_loom))]
pub use builder::{CacheBuildError, CacheBuilder, CacheStats};
#[cfg(not(percolog_loom))]
pub use calls::PutCondition;
#[cfg(not(percolog_loom))]
pub use item::{CacheItem, CacheIter, ItemVersion, PutError, PutReason};
#[cfg(feature = "std")]
pub use time::Uptime;
pub use time::{DefaultTime, FrozenTime, TimeSource};
