//! Slab allocators for the nodes of structures that are read without locks.
//!
//! A structure that is changed all the time allocates and frees nodes all the time, on all cores,
//! and a node is often freed on another core than it was allocated on. A [`Slab`] is an allocator
//! for nodes of one type: each thread allocates from memory of its own with plain loads and stores;
//! what is freed elsewhere goes home in batches. Nodes are [`Owned`](crate::reclaim::Owned),
//! [linked](crate::reclaim::Link) and [`Unlinked`](crate::reclaim::Unlinked) like boxed ones, and a
//! node's memory is used again when its [`Domain`](crate::reclaim::Domain) says that nobody can be
//! reading it.
//!
//! ```
//! use percolog::reclaim::{Domain, Link};
//! use percolog::slab::{InSlab, Slab};
//!
//! struct Session {
//!     user: u32,
//! }
//!
//! static DOMAIN: Domain = Domain::new();
//! static SESSIONS: Slab<Session> = Slab::new(&DOMAIN);
//!
//! let newest: Link<Session, InSlab> = Link::null();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         for user in 0..1000 {
//!             let session = SESSIONS.insert(Session { user }).expect("there is memory");
//!             if let Some(old) = newest.swap(Some(session)) {
//!                 // SAFETY: no other link led to it, and this one is read in sections of DOMAIN only.
//!                 unsafe { SESSIONS.free(old) };
//!             }
//!         }
//!     });
//!     scope.spawn(|| {
//!         for _ in 0..1000 {
//!             let section = DOMAIN.enter();
//!             if let Some(session) = newest.load(&section) {
//!                 assert!(session.user < 1000);
//!             }
//!         }
//!     });
//! });
//! # let mut newest = newest;
//! drop(newest.take());
//! ```
//!
//! # Contract
//!
//! * **A freed object stays what it was** until every section that was open has ended, and the
//!   domain's [grace period](crate::reclaim::GracePeriod) is over: [`Slab::free`] is
//!   [`Domain::retire`](crate::reclaim::Domain::retire), which may be called just as well. Then it
//!   is dropped, and its memory used for another one. An `Owned` that is dropped was seen by
//!   nobody, and its memory is free at once. With debug assertions a destroyed object is
//!   overwritten, so that whoever still reads it finds out.
//! * **Memory that runs out is an error** that hands the value back: [`AllocError`], at the slab's
//!   [limit](SlabBuilder::limit) or when the system has none. Nothing is lost, and what is freed makes
//!   room again. (Not so for the some hundred bytes that a thread's first use takes, and for the
//!   domain's queues, whose blocks of 2 KiB are allocated as ordinary ones are.)
//! * **Memory goes back.** Of the chunks that the slab is made of, each thread keeps [a
//!   few](SlabBuilder::keep) that are empty; all others are given back to the system when their last
//!   object is, also if the thread that they belong to sleeps, or has ended: whoever sends it much
//!   takes it in for it, and [`Slab::collect`] does so for all.
//! * **Threads that end** leave their chunks to a thread that comes later, and until then to `collect`.
//! * **Dropping a slab is always allowed.** Objects that are still in use stay good, and the last
//!   of a chunk takes its memory along.
//!
//! # Cost
//!
//! *Allocating and freeing on one thread* is some 25 plain instructions each: no atomic update, no
//! fence where the kernel has [`membarrier`](crate::cpu::barrier), no line that others write. Each thread
//! remembers its place in a few slabs. For one that uses more than eight in turn it can be 25 more.
//! *Freeing what another thread allocated:* the object's line moves, as it has to; 32 of them go
//! home with one atomic exchange, and up to 32 for each of 8 other threads wait for company. (Who
//! frees in turn what more than 8 others have allocated sends fewer at a time.) What is read of a
//! chunk to find the way home lies on a line that nobody writes. Retiring comes on top: see
//! [`reclaim`](crate::reclaim).
//!
//! *Memory:* nothing beside an object, which takes eight bytes at least; the time when it was freed is kept
//! by the domain, once for 64 objects. A chunk takes 16 KiB of the address space, of which its own header and what the
//! system's allocator has room for are 384 bytes; or, if that is too little for eight objects, the next power of two
//! that is enough. Chunks are aligned to what they take: so an object's is found. Each belongs to one thread. A thread that uses a slab takes less than a kilobyte. Threads beyond 512 share 16 places
//! behind ordinary locks.
//!
//! *NUMA:* a chunk's memory is touched first by the thread that it is made for, so it lies on that
//! thread's node. A thread that was moved to another node takes chunks that lie there first.
//!
//! # `fork`
//!
//! A child goes on with the slab, whatever other threads were in the middle of. What the parent's
//! other threads had retired is leaked there, as the domain says; so is a chunk that one of them
//! was just handing to the system.
//!
//! # Where this differs from the paper
//!
//! Q. Wang, T. Stamler, G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*,
//! EuroSys 2016, §3.4. There an object waits in a list of its slab's, linked and dated in its
//! header; here in the domain's queue, which knows custom grace periods, caps, and threads that
//! have ended. There what others have freed is taken in by the owner when it allocates, and by
//! nobody if it does not.

mod chunk;
#[cfg(not(percolog_loom))]
mod here;
mod home;
mod lists;
mod places;
mod visits;

#[cfg(all(test, percolog_loom))]
mod models;

#[cfg(not(percolog_loom))]
mod objects;
#[cfg(not(percolog_loom))]
pub use objects::{AllocError, InSlab, Slab, SlabBuilder, SlabStats};
