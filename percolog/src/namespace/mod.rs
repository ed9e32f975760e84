//! Namespaces: generational ids for values, looked up without a store to a shared line.
//!
//! A server hands out names for what it keeps: file descriptors, handles, session numbers, frames, pages of an address
//! space. Every request begins with such a number and needs the object that it names; and what the number names may just be
//! going away on another processor. A lock around a table of them is what all requests meet at. Here a lookup is a walk down a shallow trie and one
//! comparison, and what it finds stays for as long as its [section](crate::reclaim::Section) does.
//!
//! ```
//! use percolog::namespace::Namespace;
//! use percolog::reclaim::Domain;
//!
//! static DOMAIN: Domain = Domain::new();
//! static FILES: Namespace<'static, String> = Namespace::new(&DOMAIN);
//!
//! let id = FILES.insert(String::from("a file")).expect("there are ids");
//! let number: u64 = id.to_bits(); // for users, who may hand back anything
//!
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let section = DOMAIN.enter(); // no shared line is written
//!         if let Ok(file) = FILES.get(&section, id) {
//!             assert_eq!(file, "a file"); // also if it is removed right now
//!         }
//!     });
//!     scope.spawn(|| FILES.remove(id).is_ok());
//! });
//! let section = DOMAIN.enter();
//! assert!(FILES.get(&section, id).is_err(), "and never another's file");
//! # let _ = number;
//! ```
//!
//! # Contract
//!
//! * **An id names one value, for ever.** An index is used again, its generation is not: an id whose value was removed is
//!   [`StaleId`], however much was inserted since. An index whose 2³¹ generations have been used up is used no more.
//! * **What a section has found stays** until it ends: the value is dropped, and its index used again, when every section has ended
//!   that was open when it was removed, and when the domain's [custom grace period](crate::reclaim::GracePeriod) has elapsed.
//! * **Of several threads that remove one id one succeeds.**
//! * **Lookups, insertions and removals of one id are linearizable**: a value can be found from the moment its `insert`, or
//!   `insert_extent`, makes it so, to that of its `remove`. (Whoever uses an id has been given it, in a way that orders memory, as
//!   channels, locks and joins do.) Members of an extent become findable one after the other.
//! * **Nothing is lost.** Who gets no id gets his value back, and before that all slots have been searched. Every value is dropped
//!   once, if removed, or with the namespace. A destructor that panics does no harm (with the `std` feature; [`NamespaceStats::panics`] counts).
//! * Not checked: ids of another namespace of the same type may name values here.
//!
//! # Cost and progress
//!
//! | method | progress | cache lines moved |
//! |---|---|---|
//! | [`get`](Namespace::get) | wait-free | none but those of what is looked up, after they were changed |
//! | [`insert`](Namespace::insert) | blocking for some instructions, if another thread is on the slot | none; once for some dozens, those of what the slots share |
//! | [`remove`](Namespace::remove) | the same | that of the entry, if it was inserted elsewhere; once for 64, [that of the domain](crate::reclaim::Domain#progress-and-cost) |
//! | [`insert_extent`](Namespace::insert_extent) | blocking, while others take ids in bulk | those of what the slots share; once for as many ids as there are, those of every slot |
//! | [`collect`](Namespace::collect); `insert` where no id is free | blocking, for a look at every slot | those of every slot |
//!
//! A lookup is two loads for the root, one for each level below, and one for the generation. There is a level for the first 512 ids (fewer,
//! down to 64, where entries are large), and one for each factor of 512 beyond: two for a quarter of a million.
//! [`Namespace::within`] makes the first step once for many lookups. Calls of `insert` and `remove` lock their
//! slot, which is one exchange on a line of its own; and drop four values at most that others have left there. No
//! destructor runs under a lock.
//!
//! **Memory**: an entry of a value and 8 bytes for each id; leaves are made when ids below them are first needed, and stay, as do
//! nodes, until the namespace is dropped: memory is that of the most ids that there were at once. "There" are those in use, those that wait for
//! sections (up to some thousand a slot, without bound while a section stays open), and up to some hundreds that a slot keeps for its next
//! insertions. Before more memory is taken, another slot is helped that its threads may have left; for extents all slots are searched, each
//! time that as many ids have gone to extents as there are. And 1.25 KiB for each slot that inserts or removes; making that is the only
//! allocation whose failure ends the program. [`Namespace::memory_usage`] says how much it is.
//!
//! # Extents
//!
//! [`insert_extent`](Namespace::insert_extent) gives consecutive indices to as many values as are asked for at once, aligned to the next power of
//! two: what pages of a mapping need. Any part of an extent can be removed. What is free again is joined with free neighbours (a buddy
//! allocator, split to single ids): see [`insert_extent`](Namespace::insert_extent) for what fragmentation can cost.
//!
//! # Threads, slots and forks
//!
//! Nothing belongs to a thread: what a thread that has ended has left on its [slot](crate::cpu), others find there. In a child made by
//! `fork` while other threads were inserting or removing, a lock may stay taken: such a child should look up only.
//!
//! # Where this differs from the paper
//!
//! Q. Wang, T. Stamler, G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*, EuroSys 2016, §3.6.
//!
//! * Ids have generations. There, an id that is used again after it was quiescent names the new node, also to those who have kept it.
//! * Indices lie on the slot that removed them, and go back in bulk: the paper's allocator sends each back to the core that it came from.
//! * Extents are any number of ids, can be removed in parts, and are joined again. The library that was published with the paper
//!   has single ids only; the paper, a list for each size.
//! * Growing the trie swaps its root and nothing else, and no memory is freed while the namespace lives. The published one
//!   can lose a subtree to a plain store, and frees leaves that can still be reached.
//! * The custom grace period is the domain's, and is asked here as well.

mod extents;
mod id;
mod insertion;
#[cfg(not(percolog_loom))]
mod iter;
#[cfg(not(percolog_loom))]
mod names;
mod removal;
mod shelf;
mod stock;
mod table;
mod trie;

#[cfg(all(test, percolog_loom))]
mod models;
#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests;

pub use id::{Extent, Id, InsertError, InsertReason, StaleId};
#[cfg(not(percolog_loom))]
pub use iter::NamespaceIter;
#[cfg(not(percolog_loom))]
pub use names::{Lookup, Namespace, NamespaceBuilder, NamespaceStats, RemovedValue};
