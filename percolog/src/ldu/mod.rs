//! Logged containers whose insertions and removals cancel each other, without time stamps.
//!
//! A [`Deferred`] container is one that many threads put [entries](Entry) into and take them out of, and
//! that is looked at now and then: the mappings of a file, the timers that are set, the connections that
//! are open. An update changes the entry's own word and, if the entry is not in the log already, puts it
//! there; whoever [synchronizes](Deferred::synchronize) looks at the entries in the log and does to the
//! container what is left to be done. What was inserted and removed in between is not even looked for:
//! the update that cancelled the other was one atomic operation on memory that only this thread uses.
//!
//! ```
//! use percolog::ldu::{Deferred, Entry, Sorted};
//!
//! static TIMERS: Deferred<Sorted<u64>> = Deferred::new(Sorted::new());
//!
//! let timeout = Entry::new(300);
//! TIMERS.insert(&timeout)?; // a request begins
//! TIMERS.remove(&timeout)?; // and ends in time: nothing is left to be done
//! TIMERS.insert(&timeout)?; // the next one
//!
//! let mut timers = TIMERS.synchronize();
//! assert_eq!(timers.pop_first().map(|entry| *entry), Some(300));
//! assert!(!timeout.is_linked());
//! # Ok::<(), percolog::ldu::UpdateError>(())
//! ```
//!
//! # Which order is kept
//!
//! * **Of one entry's updates**: they are linearizable, whichever threads make them and whichever containers
//!   they move it between. Each says whether it has changed anything.
//! * **What a reader sees**: every update that finished before the container's lock was taken. An update that
//!   runs at the same time as the merge may be in what it shows or not.
//! * **Not kept** is the order between entries. A reader may see an update and miss an earlier one of another
//!   entry, if both ran at the same time as the merge; intermediate states may never be seen; and in which
//!   order the container is given its entries is left open. Where order matters, [`Fifo`] keeps it, and
//!   [`oplog`](crate::oplog) does for any operation; a stamp is most of what an update costs there.
//!
//! # Who pays
//!
//! An update that cancels is one compare-and-exchange on the entry's line. One that enqueues needs the slot's
//! lock beside it (or, with [`Variant::Global`], a compare-and-exchange on a list that all threads share).
//! Nothing is allocated. An entry that two threads update takes its line from one to the other: this
//! is for entries that one thread at a time uses. *Sustained ceiling:* none for updates that cancel within the
//! log's reach; entries that are inserted and stay, or are new each time, cost whoever merges a look
//! each, so at most what one core can look at.
//!
//! Merging is done by readers, by updaters at the [limit](DeferredBuilder::limit), by whoever calls
//! [`drain`](Deferred::drain), or by a timer: `oplog::DrainThread`.
//!
//! # What the published code gets wrong
//!
//! Facts about the patches as published, what is done about each of them here, and the test that shows it. `models` stands for
//! `percolog/src/ldu/models` (every interleaving, `--cfg percolog_loom`), the others for files in `percolog/tests/logs/ldu`. What has two
//! variants is tested with both.
//!
//! | there | here | shown by |
//! |---|---|---|
//! | An object may be freed when its mask of used nodes is empty; the merge still has to exchange its mark a second time, in freed memory. | The log's and the container's shares of an entry are counted in the same word that says that they have it. | `models::an_entry_is_freed_once`, `models::an_entry_of_the_common_list_is_freed_once`, `containers::handles_may_go_while_the_entry_is_queued` |
//! | A merge reads an entry's link after it has declared the entry's node free: one that comes into the log again takes the rest of the list along. | The link is read first. | `models::entries_queued_again_while_a_merge_goes_on`, `models::entries_queued_again_in_the_common_list` |
//! | Remove, change the key, insert: the two cancel, and the object stays where the old key belongs. | A key cannot be changed. [`Entry::rekey`] makes an entry that cancels with nothing of the old one's. | `handles::a_new_key_leaves_no_stale_place`, `handles::a_new_key_uses_the_old_memory_where_nobody_else_has_it` |
//! | An update cancels with a pending one whichever structure that one is for. | An entry's record is bound to a container by the container's name, which is never given out twice. | `containers::an_entry_moves_to_another_container_while_its_removal_is_in_the_log`, `containers::a_container_at_the_same_address_is_another_one`, `models::bound_to_one_container` |
//! | The queue is detached before the structure's lock is taken: a second reader finds it empty, gets the lock first, and misses what the first has in hand. | It is moved behind a mark and under a lock at which the second reader waits. | `models::a_list_that_another_reader_has_taken_is_waited_for` |
//! | Marks and masks are cleared with plain stores: what was done before need not be seen by who finds them clear. | One word, and every change of it is an exchange that acquires and releases. | `models::updates_while_an_entry_is_looked_at`, `models::updates_while_an_entry_is_looked_at_from_the_common_list` |
//! | A structure that goes away is cleaned up only if its log is not empty. | Its log is emptied and its members are dropped, whichever of them there are. | `containers::dropping_a_container_unlinks_what_is_in_it_and_what_is_in_its_log` |
//! | Updates of one object must come one at a time. | Any thread may update any entry. | `order::updates_of_an_entry_are_linearizable`, `threads::threads_that_share_entries_and_move_them_agree`, `models::inserted_again_while_it_is_removed` |
//! | Between two ticks of the timer a log has no bound. | A [limit](DeferredBuilder::limit), and a [`Policy`] that says what happens there. | `containers::a_limit_makes_updates_merge_or_is_told` |
//! | Insertions and removals say nothing of whether they changed anything. | They do. | `containers::an_update_says_whether_it_changed_anything` |
//! | No order between objects, so neither stacks nor queues. | [`Fifo`]. Containers without stamps give none either: see above. | `fifo::order_is_kept_across_slots`, `order::a_fifo_is_linearizable` |
//!
//! # After a fork
//!
//! A child that was copied while another thread was in the middle of an update finds a slot's lock, or an
//! entry's claim, that nobody will ever release: as with any lock, what the child may use is what no other
//! thread used at that time.
//!
//! J. Kyong, *A Lightweight Log-based Deferred Update for Linux Kernel Scalability*; and the patches
//! published with it. What they require of their callers (updates of an entry one at a time, one structure
//! for each entry, keys that do not change) is provided for here.

#[cfg(doc)]
use crate::engine::Policy;

mod container;
mod deferred;
mod entry;
mod fifo;
mod identity;
#[cfg(all(test, percolog_loom))]
mod models;
mod node;
mod queue;

pub use container::{Bag, Container, Sorted};
pub use deferred::{Deferred, DeferredBuilder, Variant};
pub use entry::{Entry, Member, UpdateError};
pub use fifo::{Fifo, FifoGuard, Stamped};
