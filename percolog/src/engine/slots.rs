//! Where the queues live: each object owns one for every slot that has updated it.
//!
//! Queues that a cache lends are found by the object's address instead; see `lent`.

use super::limits::Options;
use super::queue::{Absorbed, Limits, Queue};
use super::stats::Tally;
use crate::cpu::{CoreId, Environment, PerCore};
use crate::sync::{ReaderMark, SlotLock, const_fn};
use core::marker::PhantomData;
use core::panic::Location;

/// Where an operation was queued, when that is recorded.
pub(crate) type Origin = Option<&'static Location<'static>>;

/// How long a queue may be for an operation to be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// To where the slot's updates stop to think.
    Threshold,
    /// To the hard limit.
    Hard,
}

/// What gives stamps to operations: an object, or a cache of queues.
pub(super) trait Stamps {
    /// Whether its queues have any.
    const STAMPED: bool;

    type Environment: Environment;

    /// Its clock, and where it is counted how often that was wrong.
    fn clock(&self) -> (&Self::Environment, &Tally);

    /// A stamp that is taken now; 0 where queues have none.
    #[inline(always)]
    fn stamp(&self) -> u64 {
        if Self::STAMPED {
            self.clock().0.stamp()
        } else {
            0
        }
    }

    /// The clock is wrong: there was a stamp as late as this before.
    fn disorder(&self, latest: u64) {
        let (environment, violations) = self.clock();
        violations.add(1);
        environment.disorder(latest);
    }
}

/// A stamp for an operation whose own has become too old for the queue: its thread was held up between its stamp and the lock, and another
/// used the queue, or a merge emptied it. One that is taken now, under the lock, must be at least as large as any taken under it before:
/// if it is not, the clock is wrong. The queue's own order is right in any case.
#[cold]
fn stamp_again(stamps: &impl Stamps, latest: u64) -> u64 {
    let stamp = stamps.stamp();
    if stamp >= latest {
        return stamp;
    }
    stamps.disorder(latest);
    latest
}

/// One slot's queue and what the engine knows of it, under the slot's lock.
///
/// In this order so that an update needs one line of it: after a merge, which writes here, each further
/// line would be one more transfer. What a queue needs to append should come first in it, too.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot<Q, M = bool> {
    /// Whether the slot's dirty mark is set, or has been collected by a merge that is about to take
    /// this queue. Queues that a cache lends have no mark, and no room for one in their line: then this is nothing.
    pub(crate) marked: M,
    /// At which length an update stops to think.
    threshold: u32,
    /// Operations that were absorbed when they, or others, were appended, and have not been counted elsewhere. Here, so that who
    /// takes the queue can have the number without another line.
    absorbed: u32,
    /// No stamp appended from now on is smaller: the newest in the queue, or the last cut.
    pub(crate) latest: u64,
    pub(crate) queue: Q,
    /// In units of 2³², what `absorbed` had no room for.
    absorbed_before: u32,
    /// Operations dropped by [`Policy::Discard`](super::Policy::Discard) or `MergeOrDiscard`.
    pub(crate) discarded: u64,
}

/// A slot's queue under its lock, and the mark of its readers.
pub(crate) type Place<Q> = SlotLock<Slot<Q>, ReaderMark>;

/// The queues of one object.
#[derive(Debug)]
pub(crate) struct Slots<S, Q> {
    places: PerCore<Place<Q>>,
    applies_to: PhantomData<fn(&mut S)>,
}

impl<S, Q: Queue<S>> Slots<S, Q> {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self { places: PerCore::new(), applies_to: PhantomData }
        }
    }

    /// The slot's queue, made if it is the slot's first update.
    #[inline(always)]
    pub(crate) fn get(&self, slot: CoreId, options: &Options) -> &Place<Q> {
        self.places.get_or_make(slot, || {
            SlotLock::with_neighbour(Slot::new(options), ReaderMark::new())
        })
    }

    /// The mark of the slot's readers, if the slot has a queue.
    #[inline(always)]
    pub(crate) fn mark(&self, slot: CoreId) -> Option<&ReaderMark> {
        self.places.touched(slot).map(Place::beside)
    }

    /// The marks of all slots.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &ReaderMark> {
        self.places.iter().map(|(_, place)| place.beside())
    }

    /// No slot from this one on has a queue.
    pub(crate) fn end(&self) -> usize {
        self.places.end()
    }

    /// The slot's queue, if it has one.
    pub(crate) fn touched(&self, slot: usize) -> Option<&Place<Q>> {
        self.places.touched(CoreId::new(slot as u32))
    }

    /// Bytes allocated for the places of queues; what the queues have allocated is not among them.
    pub(crate) fn memory(&self) -> usize {
        self.places.memory()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (CoreId, &Place<Q>)> {
        self.places.iter()
    }
}

impl<Q> Slot<Q> {
    fn new<S>(options: &Options) -> Self
    where
        Q: Queue<S>,
    {
        Self::with_queue(options, Q::new(Limits::from(options)))
    }
}

impl<Q, M: Default> Slot<Q, M> {
    pub(super) fn with_queue(options: &Options, queue: Q) -> Self {
        Self {
            marked: M::default(),
            threshold: options.first_threshold(),
            absorbed: 0,
            latest: 0,
            queue,
            absorbed_before: 0,
            discarded: 0,
        }
    }
}

impl<Q, M> Slot<Q, M> {
    #[inline(always)]
    pub(super) fn count_absorbed(&mut self, more: u64) {
        // A few at a time.
        let (sum, is_over) = self.absorbed.overflowing_add(more as u32);
        self.absorbed = sum;
        if is_over {
            self.absorbed_before += 1;
        }
    }

    /// Operations that were absorbed here and have not been [taken](Self::take_absorbed).
    pub(super) fn absorbed(&self) -> u64 {
        u64::from(self.absorbed_before) << 32 | u64::from(self.absorbed)
    }

    /// The same of the last four billion, to be counted elsewhere.
    #[inline(always)]
    pub(super) fn take_absorbed(&mut self) -> u64 {
        u64::from(core::mem::take(&mut self.absorbed))
    }

    /// Lets updates go on without a second thought up to this length.
    #[inline(always)]
    pub(super) fn set_threshold(&mut self, threshold: u32) {
        self.threshold = threshold;
    }

    /// Whether an operation can be appended without a second thought.
    #[inline(always)]
    pub(super) fn is_short<S>(&self) -> bool
    where
        Q: Queue<S>,
    {
        self.queue.len() < self.threshold as usize
    }
}

impl<Q, M> Slot<Q, M> {
    /// Whether it may be appended to.
    #[inline(always)]
    pub(super) fn has_room<S>(&mut self, options: &Options, bound: Bound) -> bool
    where
        Q: Queue<S>,
    {
        let length = self.queue.len();
        if length >= self.threshold as usize {
            if bound == Bound::Threshold || length >= options.hard_limit {
                return false;
            }
            // Do not think again at every single operation until someone merges.
            self.threshold = bounded(
                length
                    .saturating_add(options.limit / 2 + 1)
                    .min(options.hard_limit),
            );
        }
        true
    }

    /// The stamp, or a new one if it has become too old for the queue.
    #[inline(always)]
    pub(super) fn in_order<S>(&mut self, stamps: &impl Stamps, mut stamp: u64) -> u64
    where
        Q: Queue<S>,
    {
        if Q::STAMPED {
            if stamp < self.latest {
                stamp = stamp_again(stamps, self.latest);
            }
            self.latest = stamp;
        }
        stamp
    }

    /// Appends an operation whose stamp is [in order](Self::in_order).
    #[inline(always)]
    pub(super) fn append<S>(
        &mut self,
        operation: Q::Operation,
        stamp: u64,
        origin: Origin,
    ) -> Absorbed<Q::Operation>
    where
        Q: Queue<S>,
    {
        let absorbed = self.queue.append(operation, stamp, origin);
        self.count_absorbed(absorbed.count());
        absorbed
    }

    /// Lets an operation cancel or replace one that is in a queue without room: that makes it no longer. `early` is its
    /// stamp, if it may not cancel. Nothing is marked: whatever is in a queue has set the dirty mark, or, for queues that a
    /// cache lends, has entered the slot in the object's set.
    #[cold]
    pub(super) fn absorb<S>(
        &mut self,
        stamps: &impl Stamps,
        operation: Q::Operation,
        early: Option<u64>,
        origin: Origin,
    ) -> Result<Absorbed<Q::Operation>, Q::Operation>
    where
        Q: Queue<S>,
    {
        let absorbed = match early {
            None => self.queue.cancel(operation)?,
            Some(stamp) => {
                let stamp = self.in_order::<S>(stamps, stamp);
                self.queue.replace(operation, stamp, origin)?
            }
        };
        self.count_absorbed(absorbed.count());
        Ok(absorbed)
    }
}

/// A length as a threshold: one that is larger than any queue stays so.
pub(super) const fn bounded(length: usize) -> u32 {
    if length > u32::MAX as usize {
        u32::MAX
    } else {
        length as u32
    }
}

impl From<&Options> for Limits {
    fn from(options: &Options) -> Self {
        Self {
            limit: options.limit,
            room: options.limit,
            spent: options.limit,
            absorb_while_merging: options.absorb_while_merging,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn the_queue_begins_within_the_first_32_bytes() {
        // The lock's word takes the first 8, with padding.
        assert!(8 + offset_of!(Slot<u64>, queue) <= 32);
    }
}
