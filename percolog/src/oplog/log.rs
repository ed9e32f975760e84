//! The queue behind [`Logged`](super::Logged): stamped operations, absorbed where they allow it.

use super::across::{Across, HasEntries, begins, combine_into};
use super::entry::Entries;
use super::index::{Index, spread};
use super::operation::{Absorb, Operation};
use super::window::{InOrder, Window};
use crate::engine::{Absorbed, Execute, Limits, Queue};
use alloc::vec::Vec;
use core::fmt;
use core::panic::Location;

/// One slot's operations: in the order of their stamps, or, if operations absorb each other, wherever
/// there is room.
#[repr(C)]
pub(crate) struct Log<O> {
    entries: Entries<O>,
    /// Where to find operations that a later one can absorb; stays empty unless `O` absorbs. It stays
    /// with its slot when a merge takes the operations, and is cleared when the slot finds that they
    /// are gone: a merge has nothing to look up, and would only pull its lines away.
    index: Index,
    /// Places of `entries` that can be used again. Belongs to the slot, like the index.
    vacant: Vec<usize>,
    /// The stamp of the last append. Belongs to the slot, like the index.
    newest: u64,
    /// Operations of this slot that have been executed and handed back.
    spent: Vec<O>,
    limits: Limits,
}

/// What merging keeps between merges.
#[derive(Default)]
pub(crate) struct Scratch {
    /// What comes next of queues that are in order.
    window: Window,
    /// Stamp, queue and place of every operation, for queues that are not in order.
    order: Vec<(u64, usize, usize)>,
    across: Across,
    origin: Option<&'static Location<'static>>,
}

impl<O> Log<O> {
    /// Takes a spent operation out.
    pub(super) fn take_spent(&mut self) -> Option<O> {
        self.spent.pop()
    }

    /// Forgets the places of operations that a merge has taken.
    #[inline(always)]
    fn forget_taken(&mut self) {
        if self.entries.places() == 0 {
            self.index.clear();
            self.vacant.clear();
        }
    }

    /// Takes the operation out that began what ends with `id`, if it is here.
    #[inline(always)]
    fn take_begun<S>(&mut self, id: u64) -> Option<O>
    where
        O: Operation<S>,
    {
        let Self { entries, index, .. } = self;
        let place = index.remove(spread(id), |place| {
            entries
                .get(place)
                .is_some_and(|(_, earlier)| begins::<S, O>(earlier, id))
        })?;
        let earlier = self.entries.take(place)?;
        self.vacant.push(place);
        Some(earlier)
    }

    /// Lets an earlier operation take this one in, whose hash this is, or gives it back.
    fn combine<S>(&mut self, later: O, hash: u64) -> Result<Absorbed<O>, O>
    where
        O: Operation<S>,
    {
        let hash = spread(hash);
        let Self { entries, index, .. } = self;
        let (mut later, mut is_nothing) = (Some(later), false);
        let place = index.find_mut(hash, |place| {
            let Some(earlier) = entries.get_mut(place) else {
                return false;
            };
            match combine_into::<S, O>(earlier, &mut later) {
                Some(nothing) => {
                    is_nothing = nothing;
                    true
                }
                None => false,
            }
        });
        let Some(place) = place.copied() else {
            return Err(later.unwrap_or_else(|| unreachable!("nobody has taken it in")));
        };
        if !is_nothing {
            return Ok(Absorbed::Combined);
        }
        index.remove(hash, |other| other == place);
        let earlier = entries.take(place);
        self.vacant.push(place);
        Ok(earlier.map_or(Absorbed::Combined, Absorbed::Annulled))
    }

    /// What [`Queue::cancel`] does.
    #[inline(always)]
    fn cancel_or_combine<S>(&mut self, later: O) -> Result<Absorbed<O>, O>
    where
        O: Operation<S>,
    {
        let end = match later.absorb() {
            Absorb::Remove(death) => death.id(),
            Absorb::Combine(hash) => return self.combine::<S>(later, hash),
            _ => return Err(later),
        };
        match self.take_begun::<S>(end) {
            Some(earlier) => Ok(Absorbed::Cancelled(earlier, later)),
            None => Err(later),
        }
    }

    /// Appends an operation and takes the earlier one out that it makes unnecessary, if there is one.
    ///
    /// An operation goes wherever there is room: merging sorts by stamp. Only one whose stamp equals
    /// the last one's goes to the end, so that operations with equal stamps stay in order.
    #[inline]
    fn append_absorbing<S>(
        &mut self,
        later: O,
        stamp: u64,
        origin: Option<&'static Location<'static>>,
    ) -> Absorbed<O>
    where
        O: Operation<S>,
    {
        self.forget_taken();
        let later = match self.cancel_or_combine::<S>(later) {
            Ok(absorbed) => return absorbed,
            Err(later) => later,
        };
        let Self {
            entries,
            index,
            vacant,
            newest,
            ..
        } = self;
        // An empty row has no operation to be in order with, so a tie found by chance does no harm.
        let tie = O::ORDERED && stamp == *newest;
        *newest = stamp;
        let key = match later.absorb() {
            // What it ends is not here.
            Absorb::Never | Absorb::Remove(_) => None,
            Absorb::Add(birth) => Some(spread(birth.id())),
            // None of those that are here has taken it in.
            Absorb::Combine(hash) => Some(spread(hash)),
            Absorb::Replace(hash) => {
                let hash = spread(hash);
                if let Some(place) = place_of::<S, O>(index, entries, hash, &later) {
                    let earlier = replace_at(entries, vacant, place, tie, (stamp, later, origin));
                    return earlier.map_or(Absorbed::Nothing, Absorbed::Replaced);
                }
                Some(hash)
            }
        };
        let place = match if tie { None } else { vacant.pop() } {
            Some(place) => {
                entries.put(place, stamp, later, origin);
                place
            }
            None => entries.push(stamp, later, origin),
        };
        if let Some(hash) = key {
            index.insert(hash, place);
        }
        Absorbed::Nothing
    }

    /// Executes operations in the order in which they are in the queues, which is that of the stamps.
    fn apply_in_order<S>(
        queues: &mut [Self],
        state: &mut S,
        budget: usize,
        scratch: &mut Scratch,
    ) -> usize
    where
        O: Operation<S>,
    {
        let Scratch { window, origin, .. } = scratch;
        let mut executed = 0;
        let mut busy = queues.iter_mut().filter(|queue| queue.entries.len() != 0);
        let first = busy.next();
        if let (Some(queue), None) = (first, busy.next()) {
            // Nothing to compare with.
            return queue.exec_all(state, budget, origin);
        }
        while executed < budget && window.fill(queues, budget - executed) {
            for at in window.order() {
                if executed == budget {
                    break;
                }
                executed += usize::from(queues[at].exec_first(state, origin));
            }
        }
        executed
    }

    /// Executes what is in one queue, then what is in the next.
    fn apply_in_any_order<S>(
        queues: &mut [Self],
        state: &mut S,
        budget: usize,
        scratch: &mut Scratch,
    ) -> usize
    where
        O: Operation<S>,
    {
        let execute = |executed, queue: &mut Self| {
            executed + queue.exec_all(state, budget - executed, &mut scratch.origin)
        };
        queues.iter_mut().fold(0, execute)
    }

    /// Executes operations of a queue that is in order. Returns how many.
    fn exec_all<S>(
        &mut self,
        state: &mut S,
        budget: usize,
        origin: &mut Option<&'static Location<'static>>,
    ) -> usize
    where
        O: Operation<S>,
    {
        let mut executed = 0;
        while executed < budget && self.exec_first(state, origin) {
            executed += 1;
        }
        executed
    }

    /// Executes the first operation of a queue that is in order, if there is one.
    #[inline(always)]
    fn exec_first<S>(
        &mut self,
        state: &mut S,
        origin: &mut Option<&'static Location<'static>>,
    ) -> bool
    where
        O: Operation<S>,
    {
        let Some((operation, place)) = self.entries.pop() else {
            return false;
        };
        *origin = place;
        self.keep(operation.exec_keeping(state));
        true
    }

    /// Executes operations in the order of their stamps, wherever in the queues they are.
    fn apply_sorted<S>(
        queues: &mut [Self],
        state: &mut S,
        budget: usize,
        scratch: &mut Scratch,
    ) -> usize
    where
        O: Operation<S>,
    {
        let order = &mut scratch.order;
        order.clear();
        for (at, queue) in queues.iter().enumerate() {
            let places = 0..queue.entries.places();
            order.extend(places.filter_map(|place| {
                let (stamp, _) = queue.entries.get(place)?;
                Some((stamp, at, place))
            }));
        }
        order.sort_unstable();
        let mut executed = 0;
        for (_, at, place) in order.iter().take(budget) {
            let queue = &mut queues[*at];
            scratch.origin = queue.entries.origin(*place);
            if let Some(operation) = queue.entries.take(*place) {
                executed += 1;
                queue.keep(operation.exec_keeping(state));
            }
        }
        executed
    }

    /// Keeps a spent operation for its slot.
    #[inline]
    fn keep(&mut self, spent: Option<O>) {
        if let Some(spent) = spent
            && self.spent.len() < self.limits.spent
        {
            self.spent.push(spent);
        }
    }
}

impl<O> InOrder for Log<O> {
    #[inline(always)]
    fn stamp(&self, behind: usize) -> Option<u64> {
        self.entries.stamp(behind)
    }

    fn last(&self) -> Option<u64> {
        self.entries.stamp(self.entries.len().checked_sub(1)?)
    }

    #[inline(always)]
    fn stamps(&self) -> impl Iterator<Item = u64> {
        self.entries.stamps()
    }
}

impl<O> HasEntries<O> for Log<O> {
    fn entries(&self) -> &Entries<O> {
        &self.entries
    }

    fn entries_mut(&mut self) -> &mut Entries<O> {
        &mut self.entries
    }
}

/// Where the operation is that `later`, whose hash this is, replaces.
#[inline(always)]
fn place_of<'a, S, O: Operation<S>>(
    index: &'a mut Index,
    entries: &Entries<O>,
    hash: u64,
    later: &O,
) -> Option<&'a mut usize> {
    index.find_mut(hash, |place| {
        entries.get(place).is_some_and(|(_, earlier)| {
            matches!(earlier.absorb(), Absorb::Replace(_)) && later.replaces(earlier)
        })
    })
}

/// Puts an operation, with its stamp and origin, where another is, or behind all others if its stamp equals the last one's;
/// returns the other.
#[inline(always)]
fn replace_at<O>(
    entries: &mut Entries<O>,
    vacant: &mut Vec<usize>,
    place: &mut usize,
    tie: bool,
    (stamp, later, origin): (u64, O, Option<&'static Location<'static>>),
) -> Option<O> {
    if !tie {
        return entries.put(*place, stamp, later, origin);
    }
    let earlier = entries.take(*place);
    vacant.push(*place);
    *place = entries.push(stamp, later, origin);
    earlier
}

impl<S, O: Operation<S>> Queue<S> for Log<O> {
    type Operation = O;
    type Scratch = Scratch;
    /// Operations that absorb each other do so when they are appended.
    type Swept = ();
    const STAMPED: bool = O::ORDERED;

    fn new(limits: Limits) -> Self {
        Self {
            entries: Entries::with_room(limits.room.min(ROOM)),
            index: Index::default(),
            vacant: Vec::new(),
            newest: 0,
            spent: Vec::new(),
            limits,
        }
    }

    #[inline(always)]
    fn append(
        &mut self,
        operation: O,
        stamp: u64,
        origin: Option<&'static Location<'static>>,
    ) -> Absorbed<O> {
        if !O::ABSORBS {
            self.entries.push(stamp, operation, origin);
            return Absorbed::Nothing;
        }
        self.append_absorbing::<S>(operation, stamp, origin)
    }

    #[inline(always)]
    fn may_cancel(operation: &O) -> bool {
        O::ABSORBS && matches!(operation.absorb(), Absorb::Remove(_) | Absorb::Combine(_))
    }

    #[inline(always)]
    fn cancel(&mut self, operation: O) -> Result<Absorbed<O>, O> {
        self.forget_taken();
        self.cancel_or_combine::<S>(operation)
    }

    fn replace(
        &mut self,
        operation: O,
        stamp: u64,
        origin: Option<&'static Location<'static>>,
    ) -> Result<Absorbed<O>, O> {
        if !O::ABSORBS {
            return Err(operation);
        }
        self.forget_taken();
        let Absorb::Replace(hash) = operation.absorb() else {
            return Err(operation);
        };
        let Self {
            entries,
            index,
            vacant,
            newest,
            ..
        } = self;
        let Some(place) = place_of::<S, O>(index, entries, spread(hash), &operation) else {
            return Err(operation);
        };
        let tie = O::ORDERED && stamp == *newest;
        *newest = stamp;
        let earlier = replace_at(entries, vacant, place, tie, (stamp, operation, origin));
        Ok(earlier.map_or(Absorbed::Nothing, Absorbed::Replaced))
    }

    #[inline(always)]
    fn sweep(&mut self) {}

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn exchange(&mut self, empty: &mut Self) {
        core::mem::swap(&mut self.entries, &mut empty.entries);
        if !(self.spent.is_empty() && empty.spent.is_empty()) {
            core::mem::swap(&mut self.spent, &mut empty.spent);
        }
    }

    fn memory(&self) -> usize {
        self.entries.memory()
            + self.index.memory()
            + self.vacant.capacity() * size_of::<usize>()
            + self.spent.capacity() * size_of::<O>()
    }

    fn scratch_memory(scratch: &Scratch) -> usize {
        scratch.window.memory()
            + scratch.order.capacity() * size_of::<(u64, usize, usize)>()
            + scratch.across.memory()
    }

    fn prepare(queues: &mut [Self], scratch: &mut Scratch) {
        let mut busy = queues.iter().filter(|queue| queue.entries.len() != 0);
        let alone = busy
            .next()
            .is_none_or(|first| !first.limits.absorb_while_merging)
            || busy.next().is_none();
        if !O::ABSORBS || alone {
            return;
        }
        scratch.across.absorb::<S, O>(queues);
    }

    fn apply(queues: &mut [Self], state: &mut S, budget: usize, scratch: &mut Scratch) -> usize {
        // Where nothing has been absorbed, the order of appending is still there.
        let sort = O::ABSORBS && queues.iter().any(|queue| queue.entries.is_scattered());
        let executed = if sort {
            Self::apply_sorted(queues, state, budget, scratch)
        } else if !O::ORDERED {
            Self::apply_in_any_order(queues, state, budget, scratch)
        } else {
            Self::apply_in_order(queues, state, budget, scratch)
        };
        // Only an operation that has not come back is to be blamed for what happens next.
        scratch.origin = None;
        for queue in queues {
            if queue.entries.len() == 0 && queue.entries.places() != 0 {
                queue.entries.reset(2 * queue.limits.limit.max(ROOM));
            }
        }
        executed
    }

    fn origin(scratch: &Scratch) -> Option<&'static Location<'static>> {
        scratch.origin
    }
}

impl<S, O: Operation<S>> Execute<S> for Log<O> {
    const ABSORBS: bool = O::ABSORBS;

    #[inline(always)]
    fn at_once(_operation: &O) -> bool {
        O::AT_ONCE
    }

    #[inline(always)]
    fn execute(
        operation: O,
        origin: Option<&'static Location<'static>>,
        state: &mut S,
        scratch: &mut Option<Scratch>,
    ) -> Option<O> {
        if cfg!(percolog_origin) {
            scratch.get_or_insert_with(Scratch::default).origin = origin;
        }
        let spent = operation.exec_keeping(state);
        if let (true, Some(scratch)) = (cfg!(percolog_origin), scratch) {
            // Only an operation that has not come back is to be blamed for what happens next.
            scratch.origin = None;
        }
        spent
    }
}

/// Most places that room is made for before they are needed.
const ROOM: usize = 1024;

impl<O> fmt::Debug for Log<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("pending", &self.entries.len())
            .field("spent", &self.spent.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn what_an_append_needs_comes_first() {
        // The engine's own words before the queue take 32 bytes.
        let end = 32 + offset_of!(Log<u64>, entries) + Entries::<u64>::HOT_BYTES;
        assert!(end <= 64, "{end} bytes of a line of 64");
    }
}
