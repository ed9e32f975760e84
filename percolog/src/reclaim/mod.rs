//! Safe memory reclamation with parallel sections: reads store to no shared line, frees never wait.
//!
//! A structure that is read without locks cannot free what it takes out: somebody may still be
//! reading it. Counting the readers would make them fight over the count. Here time decides. A thread
//! notes when it enters a *section*, and that it has left; whoever takes an object out notes when; and
//! as soon as every section that began before has ended, the object is destroyed.
//!
//! **A clock, and two numbers for each thread, decide everything**: when the thread entered, with a flag that
//! says whether it is still inside, and up to when it is known to have been clear. The smallest of the second
//! numbers is how far everything is quiescent.
//!
//! ```
//! use percolog::reclaim::Replaceable;
//!
//! static CONFIG: Replaceable<String> = Replaceable::lazy(|| String::from("v1"));
//!
//! std::thread::scope(|scope| {
//!     scope.spawn(|| CONFIG.read(|config| assert!(config.starts_with('v')))); // no shared line is written
//!     scope.spawn(|| CONFIG.replace(String::from("v2")));                     // never waits for a reader
//! });
//! assert_eq!(CONFIG.read(|config| config.clone()), "v2");
//! ```
//!
//! | what you have | what to use |
//! |---|---|
//! | a value that is read all the time and replaced whole | [`Replaceable`]: safe |
//! | a list, tree or table of your own, whose nodes are read without locks | [`Link`], [`Domain::retire`]: retiring is `unsafe` |
//! | the same, allocated and freed all the time | a [slab](crate::slab), whose objects are linked and retired as boxed ones are |
//! | memory that is neither: pages, handles | [`Domain::retire_with`]; or [`Domain::now`] and [`Domain::quiescent`] |
//! | something else that must happen before reuse | [`GracePeriod`] |
//! | readers that hold on for long, or sleep | not this: a reference count; a section that stays open keeps everything |
//!
//! # What it costs
//!
//! * **A section**: two stores to a line of one's own. With [`DomainClock::Coarse`] one load of a line that all
//!   threads share and that changes rarely; where the kernel has no
//!   [`membarrier`](crate::cpu::barrier) a fence, too.
//! * **A free**: a store into a block of 64 objects. Each full block gets a stamp; what others have
//!   found out is one load away; and if that does not suffice and 128 objects have gathered (16 for each thread that is not
//!   idle, if that is more; 1024, where the look takes a `membarrier`; up to twice that, so that not all threads look at once), the
//!   thread looks at the others: one line of each. What it finds out all of them use.
//! * **Idle threads, and threads that have ended: nothing.** They are not looked at.
//! * **Memory**: what is retired stays until sections have ended: some hundreds of objects a thread. A section that never ends
//!   keeps everything; [`Domain::stats`] says how much, and names the thread, and [`DomainOptions::cap`] bounds it.
//!
//! Without the `std` feature there are no threads to hold a record: a section takes the one of its
//! slot, or another if that is in use, and gives it back, which is an atomic update at either end. What was retired waits at its
//! slot for the next call there.
//!
//! # The paper's interface
//!
//! | §2.2 of the paper | here | what is different |
//! |---|---|---|
//! | `ps_enter` | [`Domain::enter`], [`Domain::enter_owned`] | sections may overlap, and an owned one may be sent to another thread |
//! | `ps_exit` | dropping the [`Section`] | references that were found in it cannot outlive it; [`Section::renew`] is leaving and entering in one |
//! | `ps_alloc` | [`Slab::insert`](crate::slab::Slab::insert); [`Owned::new`] where a box will do | typed; where there is no memory the value is handed back |
//! | `ps_free` | [`Slab::free`](crate::slab::Slab::free), [`Domain::retire`]; [`Domain::retire_with`], [`Domain::try_retire`] | takes an [`Unlinked`], which only a link gives: an object is unlinked before it is freed, and runs its destructor |
//! | `ps_quiesce` | [`Domain::quiescent`] of a [`Stamp`] of [`Domain::now`] | the caller's own section counts |
//! | `synchronize`, which others have and the paper's library does without | [`Domain::synchronize`], [`Domain::synchronize_for`] | |
//! | `ps_lock_take` | [`NodeLock::lock`](crate::lock::NodeLock::lock), [`try_lock`](crate::lock::NodeLock::try_lock) | besides "it was freed" there is "a holder panicked" |
//! | `ps_lock_release` | dropping the [`NodeGuard`](crate::lock::NodeGuard) | |
//! | `ps_lock_release_free` | [`NodeGuard::release_and_free`](crate::lock::NodeGuard::release_and_free), then `ps_free`'s | hands the node back, so that its contents can be used once more before it is retired |
//! | `lookup` of an identifier (Figure 1) | [`Namespace::get`](crate::namespace::Namespace::get) | a stale id is an error |
//! | a custom grace period (§3.7) | [`DomainOptions::grace`] | |
//!
//! # Where this differs from the paper
//!
//! Q. Wang, T. Stamler, G. Parmer, *Parallel Sections: Scaling System-Level Data-Structures*, EuroSys
//! 2016, §2.2 and §3.1–3.3, with all four optimizations ([`Optimizations`]), and custom grace periods
//! (§3.7, [`GracePeriod`]). Different are:
//!
//! * Being inside is a flag, not a comparison of two stamps; stamps may be equal.
//! * The own section counts: a thread may retire what it is looking at.
//! * Blocks of objects share a stamp, so retiring takes no fence but once in 64 times.
//! * What a scan finds out of a thread is remembered in one number that all scanners share, not in one for
//!   each pair of threads, and what it finds out of all is published once: O(n) memory instead of O(n²).
//! * The coarse clock, and the barrier that costs readers nothing.
//! * One core reclaims, the number of threads is not fixed, and what a stalled reader has made pile up
//!   goes away after it.

mod cap;
mod collector;
#[cfg(not(percolog_loom))]
mod domain;
mod frees;
mod grace;
#[cfg(not(percolog_loom))]
mod link;
mod open;
mod options;
mod parking;
mod queue;
mod records;
#[cfg(not(percolog_loom))]
mod replaceable;
#[cfg(not(percolog_loom))]
mod section;
mod stalled;
mod stats;
#[cfg(all(feature = "std", not(percolog_loom)))]
mod threads;

#[cfg(all(test, percolog_loom))]
pub(crate) mod models;
#[cfg(all(test, feature = "std", not(percolog_loom)))]
mod tests;

#[cfg(not(percolog_loom))]
pub use domain::{Domain, Stamp};
pub(crate) use frees::contain;
pub use grace::GracePeriod;
pub(crate) use grace::Period;
#[cfg(not(percolog_loom))]
pub use link::{Boxed, CompareExchangeError, DomainFull, Link, Memory, Owned, Ref, Unlinked};
pub(crate) use open::Mark;
pub use options::{DomainClock, DomainOptions, Optimizations, WhenFull};
#[cfg(not(percolog_loom))]
pub use replaceable::Replaceable;
#[cfg(not(percolog_loom))]
pub use section::{InSection, OwnedSection, Section};
#[cfg(feature = "std")]
pub use stalled::TimedOut;
pub use stalled::{StalledSection, Verdict};
pub use stats::DomainStats;
