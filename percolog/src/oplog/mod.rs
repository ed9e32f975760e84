//! Ordered logs: any structure, updated without touching a shared cache line while many threads do so.
//!
//! [`Logged`] wraps a structure. Updates are values ([`Operation`]). As long as few threads use the structure, they are executed
//! at once, under its lock. While many do, they go, with a time stamp, into
//! a queue of the slot that makes them; reading ([`Logged::synchronize`]) merges the queues by stamp,
//! executes the operations in that order and gives out a guard.
//!
//! ```
//! use percolog::oplog::{Logged, Operation};
//! use std::collections::BTreeSet;
//!
//! enum Edit { Add(u64), Remove(u64) }
//!
//! impl Operation<BTreeSet<u64>> for Edit {
//!     fn exec(self, open: &mut BTreeSet<u64>) {
//!         match self {
//!             Edit::Add(id) => { open.insert(id); }
//!             Edit::Remove(id) => { open.remove(&id); }
//!         }
//!     }
//! }
//!
//! static OPEN: Logged<BTreeSet<u64>, Edit> = Logged::new(BTreeSet::new());
//! OPEN.queue(Edit::Add(3));                       // under contention: no shared cache line
//! assert!(OPEN.synchronize().contains(&3));       // merges what is queued, then reads
//! ```
//!
//! **Order.** Linearizable: an update that returned before `synchronize` was called is in what it
//! shows, and if one update returned before another was called, by whatever threads, they are
//! executed in that order.
//!
//! **Sustained ceiling.** Logging moves the work to the reader; it does not make it less. Operations
//! that do not absorb each other are executed one after the other, so a stream of them runs no faster
//! than one core can execute it. Give operations that cancel or replace each other an
//! [absorption](Operation::absorb) rule, and those that never have to be executed cost their append
//! alone.
//!
//! # `fork`
//!
//! `fork` does not wait for updates and reads of logs. A child that was copied while another thread was in
//! the middle of one finds a lock taken that nobody will ever give back, as with `std`'s `Mutex`: what it
//! may use is what no other thread used at that time.
//!
//! # What the published code gets wrong
//!
//! Facts about the logs of ScaleFS, the operating system that came after the thesis, what is done about each of them here, and the
//! test that shows it. `lent` stands for the folder `percolog/tests/logs/lent`, `set` for `percolog/tests/logs/set`, `engine` for the models in
//! `percolog/src/engine` (every interleaving, `--cfg percolog_loom`), the others for files in `percolog/tests`.
//!
//! | there | here | shown by |
//! |---|---|---|
//! | A reader passes over all cores until a pass finds nothing: while writers go on, it need not end. | A merge goes to each slot once. It keeps the slots that it has been to until it has all; of objects with lent logs, it lets no new slot begin meanwhile. | `consistent_cut::a_merge_visits_a_slot_once_however_busy_its_writers_are`, `engine::models::cut::a_reader_is_shown_what_finished_before`, `engine::lent::models::a_reader_is_shown_what_finished_before` |
//! | Who needs a place in the cache spins for as long as somebody reads the object that has it. | The other object's log is set aside; an update never waits for another object's reader. | `lent::trouble::an_update_does_not_wait_for_another_objects_reader`, `engine::lent::models::a_queue_that_was_set_aside_comes_back_or_is_merged` |
//! | Who reads one object and updates another with the same place waits for itself. | As above: it is only ever tried. | `lent::trouble::a_thread_pushes_what_it_holds_aside`, `lent::trouble::operations_that_are_executed_may_push_others_out` |
//! | An object that is destroyed can leave its tag in the cache for the next one at that address, or lose what is pending without a word. | Its tags are taken away first, and what is pending is executed, or discarded where [`OnDrop`] says so. | `lent::trouble::what_is_pending_when_an_object_goes_away`, `lent::trouble::an_object_whose_guard_was_forgotten_can_go_away`, `lent::threads::sums_stay_right_while_objects_come_and_go`, `engine::lent::models::destruction_against_taking_back` |
//! | Places of the cache share lines. | Each is on lines of its own. | `lent::sizes::places_are_on_lines_of_their_own` |
//! | Logs are sorted by a sort that is not stable, by time stamps that can be equal. | Of one log, equal stamps keep their order; operations of different logs have equal stamps only if neither returned before the other was called. | `stamps::operations_with_equal_stamps_stay_in_the_order_in_which_they_were_queued` |
//! | Nothing bounds the memory. | A limit for each log and a cap on how many there are. | `lent::sizes::the_cache_is_bounded_however_many_objects_there_are`, `limits::merging_keeps_queues_short`, `allocations::a_queue_that_absorbs_for_ever_does_not_grow` |
//! | A removal cancels the insertion of the same name: of `link X, unlink X, link Y, link X, unlink X` the last link is lost, and what was there before stays. | Only an identity that was nowhere before ([`token_pair`]) cancels. Under a name, the last word replaces earlier ones and is executed. | `set::histories::links_and_unlinks_around_another_one`, `set::histories::adding_and_removing_what_is_there_leaves_it_absent`, `set::histories::a_key_that_two_cores_change_in_turn_ends_absent`, `consistent_cut::links_and_unlinks_end_as_they_would_at_once_wherever_they_are_queued` |
//!
//! Boyd-Wickizer, *Optimizing Communication Bottlenecks in Multiprocessor Operating System Kernels*,
//! chapters 5 to 7.

mod across;
mod closure;
mod entry;
mod identity;
mod index;
mod lent;
mod log;
mod logged;
#[cfg(all(test, percolog_loom))]
mod models;
mod operation;
mod row;
mod window;

pub use closure::LoggedFn;
pub use identity::{AddToken, RemoveToken, token_pair};
pub use lent::{Cached, Lent, LogCache, LogCacheBuilder};
pub use logged::{Logged, LoggedBuilder};
pub use operation::{Absorb, Combined, Operation};

#[cfg(feature = "std")]
pub use crate::engine::{Drain, DrainThread};
pub use crate::engine::{
    Drained, Full, FullReason, LogCacheStats, LogStats, MemoryUsage, Mode, ModeReason, OnDrop,
    Policy, ReadGuard, SynchronizeError, Synchronized,
};
