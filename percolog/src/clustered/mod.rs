//! Clustered objects: one object to its users, with a representative on every core.
//!
//! Other modules defer updates to one structure. This one is for state that should not be one structure at all: counters, caches, free lists,
//! lists of what is attached, which could be taken apart by core if only their users need not know. Callers hold an [`ObjectRef`] to an *interface*, a trait. Behind
//! it stands an *implementation*: a [`Root`], of which there is one, and *representatives*, which it makes when a slot first calls the object. One
//! for all is an ordinary shared object; one for each slot, or each chip, is a distributed one; and which it is can change while it is in use.
//!
//! ```
//! use percolog::clustered::{self, Distributed, ObjectRef, Placement, SwapPolicy, Shared};
//! use std::collections::HashMap;
//! use std::mem;
//! use std::sync::Mutex;
//!
//! // An ordinary type behind an interface.
//! trait Views: Sync {
//!     fn view(&self, page: u32);
//! }
//! #[derive(Default)]
//! struct Counts(Mutex<HashMap<u32, u64>>);
//! impl Views for Counts {
//!     fn view(&self, page: u32) { *self.0.lock().unwrap().entry(page).or_default() += 1; }
//! }
//!
//! // A caller: it names the interface, and nothing else.
//! fn serve(views: ObjectRef<dyn Views>) -> Result<(), clustered::StaleRef> {
//!     views.call(|views| views.view(7))
//! }
//!
//! // Shared, as it was …
//! let views = clustered::create(Shared::new(Counts::default(), |it| it as &dyn Views));
//! serve(views)?;
//! // … and distributed: the caller is the same, the object is, and it is in use.
//! views.swap(SwapPolicy::Wait, |old| {
//!     // Nobody calls the old one now. The first representative goes on with what it has counted.
//!     let old: Option<&Shared<Counts, dyn Views>> = old.root();
//!     let counted = old.map(|old| mem::take(&mut *old.value().0.lock().unwrap()));
//!     let first = Mutex::new(counted.unwrap_or_default());
//!     Distributed::new(
//!         Placement::EachSlot,
//!         move |_| Counts(Mutex::new(mem::take(&mut *first.lock().unwrap()))),
//!         |it| it as &dyn Views,
//!     )
//! })?;
//! serve(views)?;
//! views.destroy()?;
//! assert!(serve(views).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The repository's `docs/distribute.md` goes this way with a type that is summed up in the end, and shows what it gains, simulated.
//!
//! | to | use |
//! |---|---|
//! | put a value behind an interface as it is | [`Shared`] |
//! | have one for each slot, chip, or group of slots | [`Distributed`], with a [`Placement`] |
//! | let representatives share state, sum up, or tell all of them something | [`Root`], [`Siblings`] |
//! | see, count, trace or refuse its calls | [`interposable!`](crate::interposable), [`ObjectRef::interpose`] |
//! | exchange the implementation, and carry its state over | [`ObjectRef::swap`], with a [`SwapPolicy`] |
//! | get rid of it while it is called | [`ObjectRef::destroy`] |
//! | hold off, or wait for, the requests of an object that is being changed | [`requests`](crate::requests): entering and leaving touch nothing shared |
//! | look up, on all cores, what hardly changes; have a part of each element for each thread | [`DHash`](crate::dhash::DHash); [`Partitioned`](crate::dhash::Partitioned), if most look-ups miss |
//!
//! # Contract
//!
//! * A call goes to the representative of the slot that it is made on, which is made once, lazily. Threads that need one which has not been made
//!   wait for each other if it is of the same object; they keep no other object waiting. A thread can lose its slot in the middle of a call, and another one call the same
//!   representative: so these are `Sync`, and what a slot has for itself it has nearly always, not always.
//! * A reference is an index and a generation. One that is stale, or forged, is an error, never another object, never undefined behaviour.
//! * A call in flight finishes on what it began on, whatever is swapped or destroyed meanwhile; the next one finds the new implementation, or
//!   an error. No lock says whether an object exists.
//! * What representatives do among themselves is theirs. [`Siblings`] makes them come together right: one that is made meanwhile is in, or out.
//!
//! # Cost
//!
//! A call is a section, one look at the slot's own table, and a virtual call: nothing shared is written or waited for, and no line moves,
//! on any number of cores. [`ObjectRef::get`] in a section that is open already takes 1 to 2 ns beyond a virtual call.
//!
//! An object takes some 330 bytes and five allocations; a representative its size, in whole lines, and one or two. A slot that has called any object has a table
//! for 256 indices, of 8 KiB; one for the next 256 once it calls an object with such an index, and then others, each twice as large as the one before, for those that are used.
//! An index is used again after its object has been destroyed, so they are as many as there were objects at once.
//!
//! # `fork`
//!
//! Objects can be called, exchanged and destroyed in a child. Sections of other threads have ended there. A `fork` waits for representatives that are being
//! made or looked at. A swap that another thread was in the middle of does not take place there, and holds nobody back: calls go on to the old
//! implementation, without what the closure had taken out of it by then.
//!
//! # Where this differs from the paper
//!
//! J. Appavoo and others, *Experience Distributing Objects in an SMMP OS*, ACM TOCS 25(3), 2007, §2.2, §2.3 and §3.3: K42's Clustered Objects.
//!
//! | K42 | here | what is different |
//! |---|---|---|
//! | Clustered Object Identifier: the address of an entry of the local table, mapped at the same address on all processors | [`ObjectRef`] | an index and a generation; a stale one is an error |
//! | Global Translation Table, Local Translation Tables | a [namespace](crate::namespace); a table for each slot, whose entries are read whole or not at all | grow without moving |
//! | Root, Rep, `handleMiss` | [`Root`], [`Root::Rep`], [`Root::create`] | placement is said, not programmed, unless it is [`Placement::By`] |
//! | the Default Object, whose methods are trampolines to the miss handler | a look at the generation | |
//! | a Rep's pointer to its Root | an `Arc` that the root shares, and [`Siblings`] | |
//! | a generic interposer, by virtual functions of any signature | [`interposable!`](crate::interposable) writes the methods | typed; a refused call has an answer of its type |
//! | destruction when all running threads have finished | [sections](crate::reclaim) | |
//! | hot-swapping: forward, block, transfer | [`SwapPolicy::Pass`], [`SwapPolicy::Wait`] | sections that are open go on, so that none waits for what waits for it |

mod arrangement;
#[cfg(not(percolog_loom))]
mod exchange;
mod interpose;
#[cfg(all(test, percolog_loom))]
mod models;
mod object;
#[cfg(not(percolog_loom))]
mod reference;
mod representatives;
mod root;
mod translation;
mod turn;
#[cfg(not(percolog_loom))]
mod waiting;

pub use arrangement::CurrentRoot;
#[cfg(not(percolog_loom))]
pub use exchange::{ExchangeError, InterposerId, SwapPolicy};
pub use interpose::{Answer, Call, CallRejected, Interposable, Interposed, Interposer, PassedCall};
pub use object::StaleRef;
#[cfg(not(percolog_loom))]
pub use reference::{
    CreateError, ObjectRef, ObjectSection, ObjectStats, collect, create, enter, stats, try_create,
};
pub use representatives::{Representatives, Siblings};
pub use root::{Distributed, Place, Placement, Root, Shared, ValueRep};
