//! Where lent queues are: by slot, and in each slot by the object's address.

use super::object::Lent;
use super::places::Places;
use crate::cpu::{CoreId, Environment, PerCore};
use crate::engine::limits::Options;
use crate::engine::queue::{Limits, Queue};
use crate::engine::slots::Slot;
use crate::engine::stats::Tally;
use crate::sync::atomic::AtomicU32;
use crate::sync::{Isolated, SlotLock, const_fn};
use alloc::vec::Vec;
use core::ptr::NonNull;

/// How a cache is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheOptions {
    pub(crate) objects: Options,
    /// Places of a slot, a power of two.
    pub(crate) places: usize,
    /// Queues that a slot makes before it takes one from another object.
    pub(crate) queues: usize,
    /// Operations that room is made for when a queue is made.
    pub(crate) room: usize,
}

impl CacheOptions {
    /// 4096 places, as in the thesis (§8.3.2), and as many queues; room for 8 operations, as most objects never need more.
    pub(crate) const DEFAULT: Self = Self {
        objects: Options::DEFAULT,
        places: 4096,
        queues: 4096,
        room: 8,
    };
}

/// The queues that all objects of a kind share.
pub(crate) struct Cache<S, Q: Queue<S>, E> {
    pub(super) options: CacheOptions,
    pub(super) environment: E,
    pub(super) slots: PerCore<Table<S, Q>>,
    /// By the slot of who merges: what merging needs, between two merges.
    /// Not beside the tables: making a slot's tools must not pull away what every update reads.
    tools: Isolated<PerCore<SlotLock<Tools<S, Q>>>>,
    /// What panics and budgets have left, with the objects' addresses.
    pub(super) unfinished: Locked<Vec<Unfinished<S, Q>>>,
    pub(super) account: Isolated<CacheAccount>,
}

/// What has been left of an object's batch, and the object's address.
type Unfinished<S, Q> = (usize, Batch<S, Q>);

/// A slot's part.
pub(super) struct Table<S, Q> {
    pub(super) places: Places<Locked<Place<S, Q>>>,
    pub(super) side: Locked<Side<S, Q>>,
}

/// On lines of its own: a merge of one object, on another core, must not pull away the place of the next.
pub(super) type Locked<T> = Isolated<SlotLock<T>>;

/// Where the queue of an object can be; many objects have the same place.
///
/// The queue is here, and not behind a pointer, and begins behind the tag: the first update after a merge, which
/// writes to both, needs one line of them.
#[repr(C)]
pub(super) struct Place<S, Q> {
    /// Whose queue it is: then that object has this slot in its set. Without a tag the queue is empty.
    pub(super) tag: Option<NonNull<Lent<S>>>,
    pub(super) queue: Option<LentQueue<Q>>,
}

/// A queue and what the cache knows of it.
pub(super) type LentQueue<Q> = Slot<Q, ()>;

/// What a slot has besides its places.
pub(super) struct Side<S, Q> {
    /// Queues whose objects were in use when their places were needed.
    pub(super) aside: Vec<Aside<S, Q>>,
    /// Empty queues that belong to no place.
    pub(super) free: Vec<LentQueue<Q>>,
    /// How many queues this slot has made and not freed.
    pub(super) made: usize,
    /// Where to look for a queue when there may be no more.
    pub(super) hand: usize,
    pub(super) evictions: u64,
    pub(super) set_aside: u64,
}

/// A queue that has been set aside, and whose it is.
type Aside<S, Q> = (NonNull<Lent<S>>, LentQueue<Q>);

/// What the threads of a slot merge with, and what they have merged.
struct Tools<S, Q: Queue<S>> {
    batches: Vec<Batch<S, Q>>,
    bill: Bill,
}

/// What merging has cost, on one slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bill {
    pub(super) merges: u64,
    pub(super) executed: u64,
    pub(super) absorbed: u64,
    pub(super) updater_merges: u64,
    pub(super) longest_updater_merge: u64,
    pub(super) mode_changes: u64,
    /// For what is drawn.
    pub(super) random: u32,
}

impl Bill {
    /// For that slot: no two draw the same.
    pub(super) fn new(slot: CoreId) -> Self {
        Self {
            merges: 0,
            executed: 0,
            absorbed: 0,
            updater_merges: 0,
            longest_updater_merge: 0,
            mode_changes: 0,
            // Not zero, whatever the slot.
            random: (slot.place() as u32 + 1).wrapping_mul(0x9e37_79b9) | 1,
        }
    }
}

/// What was taken in one cut, and what merging keeps.
pub(super) struct Batch<S, Q: Queue<S>> {
    pub(super) queues: Vec<Q>,
    /// How many of the queues have been exchanged.
    pub(super) used: usize,
    /// Operations that the queues had absorbed before they were taken, and that have not been counted elsewhere.
    pub(super) absorbed: u64,
    pub(super) scratch: Q::Scratch,
}

/// What all objects of a cache have cost together.
pub(super) struct CacheAccount {
    pub(super) clock_violations: Tally,
    /// For [`Mode::Restless`](crate::engine::Mode::Restless).
    pub(super) restless: AtomicU32,
}

// SAFETY: tags are names, and are looked through only under the rules of this room, by which the object is
// alive; its state is used under its own lock (`S: Send`). Queues can be sent by their trait.
unsafe impl<S: Send, Q: Queue<S>> Send for Place<S, Q> {}
// SAFETY: as above.
unsafe impl<S: Send, Q: Queue<S>> Send for Side<S, Q> {}

/// Batches that a slot keeps between merges. More are needed when merges nest.
const TOOLS: usize = 2;

/// Most queues that a batch keeps between merges.
const KEPT: usize = 64;

impl<S, Q: Queue<S>, E: Environment> Cache<S, Q, E> {
    const_fn! {
        pub(crate) const fn new(options: CacheOptions, environment: E) -> Self {
            Self {
                options,
                environment,
                slots: PerCore::new(),
                tools: Isolated::new(PerCore::new()),
                unfinished: Isolated::new(SlotLock::new(Vec::new())),
                account: Isolated::new(CacheAccount { clock_violations: Tally::new(), restless: AtomicU32::new(0) }),
            }
        }
    }

    #[inline(always)]
    pub(super) fn table(&self, slot: CoreId) -> &Table<S, Q> {
        self.slots
            .get_or_make(slot, || Table::new(self.options.places))
    }

    /// The number of the object's place, in every slot.
    #[inline(always)]
    pub(super) fn place(&self, object: &Lent<S>) -> usize {
        // Fibonacci hashing: neighbours in memory go to places far from each other.
        let spread = (object.address() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> 32) as usize & (self.options.places - 1)
    }

    pub(super) fn limits(&self) -> Limits {
        let objects = Limits::from(&self.options.objects);
        Limits {
            room: objects.room.min(self.options.room),
            spent: 0,
            ..objects
        }
    }

    pub(super) fn new_queue(&self) -> LentQueue<Q> {
        Slot::with_queue(&self.options.objects, Q::new(self.limits()))
    }

    fn tools(&self) -> &SlotLock<Tools<S, Q>> {
        let slot = self.environment.slot();
        self.tools.get_or_make(slot, || {
            SlotLock::new(Tools {
                batches: Vec::new(),
                bill: Bill::new(slot),
            })
        })
    }

    /// Has the slot's bill written on. What is added to it is on no line that other slots write to.
    pub(super) fn charge(&self, write: impl FnOnce(&mut Bill)) {
        write(&mut self.tools().lock().get().bill);
    }

    /// An empty batch.
    pub(super) fn batch(&self) -> Batch<S, Q> {
        let kept = self.tools().lock().get().batches.pop();
        kept.unwrap_or_else(|| Batch {
            queues: Vec::new(),
            used: 0,
            absorbed: 0,
            scratch: Q::Scratch::default(),
        })
    }

    /// Keeps an empty batch for the next merge.
    pub(super) fn keep(&self, mut batch: Batch<S, Q>) {
        debug_assert!(batch.queues.iter().all(Q::is_empty));
        batch.used = 0;
        batch.queues.truncate(KEPT);
        let mut tools = self.tools().lock();
        let batches = &mut tools.get().batches;
        if batches.len() < TOOLS {
            batches.push(batch);
        } else {
            // Freed without the lock.
            drop(tools);
            drop(batch);
        }
    }

    /// What the cache has, and what it has cost. Locks each place of each slot for a moment.
    pub(crate) fn stats(&self) -> LogCacheStats {
        let mut stats = LogCacheStats {
            clock_violations: self.account.clock_violations.get(),
            ..LogCacheStats::default()
        };
        let count = |queue: &LentQueue<Q>, stats: &mut LogCacheStats| {
            stats.pending += queue.queue.len();
            stats.queue_bytes += queue.queue.memory();
            stats.absorbed += queue.absorbed();
            stats.discarded += queue.discarded;
        };
        for (_, table) in self.slots.iter() {
            stats.slots += 1;
            stats.table_bytes += size_of::<Table<S, Q>>() + table.places.memory();
            for place in table.places.iter() {
                let mut held = place.lock();
                let place = held.get();
                stats.lent += usize::from(place.tag.is_some());
                if let Some(queue) = &place.queue {
                    count(queue, &mut stats);
                }
            }
            let mut held = table.side.lock();
            let side = held.get();
            side.free.iter().for_each(|queue| count(queue, &mut stats));
            for (_, queue) in &side.aside {
                count(queue, &mut stats);
            }
            stats.queue_bytes += side.free.capacity() * size_of::<LentQueue<Q>>()
                + side.aside.capacity() * size_of::<Aside<S, Q>>();
            stats.lent += side.aside.len();
            stats.aside += side.aside.len();
            stats.queues += side.made;
            stats.evictions += side.evictions;
            stats.set_aside += side.set_aside;
        }
        for (_, tools) in self.tools.iter() {
            let mut held = tools.lock();
            let Tools { batches, bill } = held.get();
            stats.merges += bill.merges;
            stats.executed += bill.executed;
            stats.absorbed += bill.absorbed;
            stats.updater_merges += bill.updater_merges;
            stats.mode_changes += bill.mode_changes;
            stats.longest_updater_merge =
                stats.longest_updater_merge.max(bill.longest_updater_merge);
            stats.queue_bytes += batches.capacity() * size_of::<Batch<S, Q>>();
            for batch in batches.iter() {
                let queues = batch.queues.iter().map(Q::memory).sum::<usize>();
                let room = batch.queues.capacity() * size_of::<Q>();
                stats.queue_bytes += queues + room + Q::scratch_memory(&batch.scratch);
            }
        }
        let mut held = self.unfinished.lock();
        for (_, batch) in held.get().iter() {
            stats.pending += batch.queues.iter().map(Q::len).sum::<usize>();
        }
        stats
    }
}

impl<S, Q> Table<S, Q> {
    fn new(places: usize) -> Self {
        Self {
            places: Places::new(places),
            side: Isolated::new(SlotLock::new(Side {
                aside: Vec::new(),
                free: Vec::new(),
                made: 0,
                hand: 0,
                evictions: 0,
                set_aside: 0,
            })),
        }
    }
}

impl<S, Q> Table<S, Q> {
    /// The place of that number.
    #[inline(always)]
    pub(super) fn place(&self, number: usize) -> &Locked<Place<S, Q>> {
        self.places.get(number, || {
            Isolated::new(SlotLock::new(Place {
                tag: None,
                queue: None,
            }))
        })
    }
}

impl<S, Q> Side<S, Q> {
    /// Takes the object's queue out, if it has been set aside.
    pub(super) fn take(&mut self, object: &Lent<S>) -> Option<LentQueue<Q>> {
        let at = self
            .aside
            .iter()
            .position(|(tag, _)| *tag == object.tag())?;
        Some(self.aside.swap_remove(at).1)
    }

    /// Keeps an empty queue, or gives it back if there are more of them than there should be.
    #[must_use]
    pub(super) fn put_back(&mut self, queue: LentQueue<Q>, limit: usize) -> Option<LentQueue<Q>> {
        if self.made > limit {
            self.made -= 1;
            return Some(queue);
        }
        self.free.push(queue);
        None
    }
}

/// Statistics of a log cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogCacheStats {
    /// Slots that have updated an object of the cache.
    pub slots: usize,
    /// Queues that there are.
    pub queues: usize,
    /// Queues that are lent to an object just now: it has updates pending on that slot.
    pub lent: usize,
    /// Lent queues whose objects were in use when their places were needed for others.
    pub aside: usize,
    /// Operations queued and not yet executed, of all objects.
    pub pending: usize,
    /// Bytes of what is in the queues, and of what merging keeps.
    pub queue_bytes: usize,
    /// Bytes of the slots' tables, in which the queues are.
    pub table_bytes: usize,
    /// How often an object was merged, by readers and updaters.
    pub merges: u64,
    /// Operations executed after they had been queued. Of those that were executed at once nobody keeps count: that would be one more line
    /// for each.
    pub executed: u64,
    /// How often an object began to defer its updates, or ceased to.
    pub mode_changes: u64,
    /// Merges paid by updaters that came to the limit.
    pub updater_merges: u64,
    /// Most operations executed in one merge paid by an updater: one that came to the limit, or needed another object's place.
    pub longest_updater_merge: u64,
    /// Objects that were merged because their place, or their queue, was needed for another one.
    pub evictions: u64,
    /// How often a queue was set aside, because its object was in use.
    pub set_aside: u64,
    /// Operations that never had to be executed, because others cancelled or replaced them.
    pub absorbed: u64,
    /// Operations dropped because of [`Policy::Discard`](super::super::Policy::Discard) or `MergeOrDiscard`.
    pub discarded: u64,
    /// Operations whose stamp was out of order or in the future: the clock cannot be trusted.
    pub clock_violations: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn the_queue_begins_within_the_first_32_bytes() {
        // The lock's word takes the first 8, with padding. What follows has no room for a flag that says whether there is a queue:
        // there is a pointer in it that is never null.
        assert!(
            8 + offset_of!(Place<u8, NonNull<u8>>, queue)
                + offset_of!(LentQueue<NonNull<u8>>, queue)
                <= 32
        );
        assert_eq!(
            size_of::<Option<LentQueue<NonNull<u8>>>>(),
            size_of::<LentQueue<NonNull<u8>>>()
        );
    }
}
