//! A name in the name cache: how many hold a reference to it, and which *generation* of it.
//!
//! Whoever looks a name up reads its generation and, if he wants the name, takes a reference; but only if the
//! name has not been made void meanwhile, which a new generation says: otherwise the lookup begins again
//! (thesis sections 3.4 and 4.2). Making a name void gives it a new generation and needs the exact count of
//! references. Here a name that is looked up again is the same object.
//!
//! All of these are linearizable: a read shows how many references there were at one moment between its call and its
//! return, of which none was given back before it came. (A sum over counts for each core alone would not be: it can miss
//! a reference that is taken on a core where it has been, and see it given back on one where it comes to.)
//!
//! | type | what it is |
//! |---|---|
//! | [`Locked`] | a count behind a mutex, under which the generation is checked |
//! | [`Spinning`] | the same behind a spin lock, as in Linux (Figure 3-3) |
//! | [`LockFree`] | generation and count in one word, as in section 4.2 |
//! | [`PerCpu`] | a count for each core, made by hand |
//! | [`Referenced`] | [`percolog::refcount::CoreArc`], taken on condition, as in section 4.2 |
//!
//! [`Referenced`] stands for [`Implementation::Oplog`](super::Implementation::Oplog). It has no logs and so no
//! statistics, and there is no variant that absorbs: adding up is what a count does with its operations, so there is
//! never one left that could meet another. A readers-writer lock has nothing to share between those who count.
//!
//! These are adapters: they give a reference count the shape of a [`SharedObject`](super::SharedObject).

mod generation;
mod lock_free;
mod locked;
mod percpu;
mod referenced;

pub use lock_free::LockFree;
pub use locked::{Guarded, Lock, Locked, Spinning};
pub use percpu::PerCpu;
pub use referenced::Referenced;

/// A lookup, which takes a reference. A count does not know who holds it.
#[derive(Debug, PartialEq, Eq)]
pub struct Lookup;

/// A reference, to be given back.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference;
