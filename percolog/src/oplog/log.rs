//! The queue behind [`Logged`](super::Logged): stamped operations, absorbed where they allow it.

use super::entry::Entries;
use super::index::{Index, spread};
use super::operation::{Absorb, Operation};
use crate::engine::{Absorbed, Limits, Queue};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::panic::Location;

/// One slot's operations, ordered by stamp.
#[repr(C)]
pub struct Log<O> {
    entries: Entries<O>,
    /// Where to find operations that a later one can absorb; stays empty unless `O` absorbs. It stays
    /// with its slot when a merge takes the operations, and is cleared when the slot finds that they
    /// are gone: a merge has nothing to look up, and would only pull its lines away.
    index: Index,
    /// Operations of this slot that have been executed and handed back.
    spent: Vec<O>,
    limits: Limits,
}

/// What merging keeps between merges.
#[derive(Default)]
pub struct Scratch {
    /// The first stamp of each queue, smallest first.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Absorption across queues: a queue's number and the place in it, by hash.
    seen: hashbrown::HashTable<Seen>,
    origin: Option<&'static Location<'static>>,
}

struct Seen {
    hash: u64,
    queue: usize,
    place: usize,
}

impl<O> Log<O> {
    /// Takes a spent operation out.
    pub(super) fn take_spent(&mut self) -> Option<O> {
        self.spent.pop()
    }

    /// Appends an operation and takes the earlier one out that it makes unnecessary, if there is one.
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
        let Self { entries, index, .. } = self;
        if entries.places() == 0 {
            index.clear();
        }
        let mut absorbed = Absorbed::Nothing;
        match later.absorb() {
            Absorb::Never => {}
            Absorb::Begin(birth) => index.insert(spread(birth.id()), entries.places()),
            Absorb::Replace(hash) => {
                let hash = spread(hash);
                let earlier = index.find_mut(hash, |place| {
                    entries.get(place).is_some_and(|(_, earlier)| {
                        matches!(earlier.absorb(), Absorb::Replace(_)) && later.replaces(earlier)
                    })
                });
                match earlier {
                    None => index.insert(hash, entries.places()),
                    Some(place) => {
                        if let Some(earlier) = entries.take(*place) {
                            absorbed = Absorbed::Replaced(earlier);
                        }
                        // If the earlier operation was the last, its place is taken over.
                        entries.trim();
                        *place = entries.places();
                    }
                }
            }
            Absorb::End(death) => {
                let id = death.id();
                let begun = index.remove(spread(id), |place| {
                    entries
                        .get(place)
                        .is_some_and(|(_, earlier)| begins::<S, O>(earlier, id))
                });
                if let Some(earlier) = begun.and_then(|place| entries.take(place)) {
                    entries.trim();
                    return Absorbed::Cancelled(earlier, later);
                }
            }
        }
        entries.push(stamp, later, origin);
        self.tidy::<S>();
        absorbed
    }

    /// Vacancies may not outnumber operations for long, or a queue that absorbs would grow for ever.
    fn tidy<S>(&mut self)
    where
        O: Operation<S>,
    {
        if self.entries.places() < 2 * self.entries.len() + self.limits.limit.min(64) {
            return;
        }
        let index = &mut self.index;
        index.clear();
        self.entries.compact(|place, operation| {
            if let Some(hash) = absorbable::<S, O>(operation) {
                index.insert(hash, place);
            }
        });
    }
}

/// The hash under which an operation that can be absorbed by a later one is found.
fn absorbable<S, O: Operation<S>>(operation: &O) -> Option<u64> {
    match operation.absorb() {
        Absorb::Replace(hash) => Some(spread(hash)),
        Absorb::Begin(birth) => Some(spread(birth.id())),
        Absorb::Never | Absorb::End(_) => None,
    }
}

fn begins<S, O: Operation<S>>(operation: &O, id: u64) -> bool {
    matches!(operation.absorb(), Absorb::Begin(birth) if birth.id() == id)
}

impl<S, O: Operation<S>> Queue<S> for Log<O> {
    type Operation = O;
    type Scratch = Scratch;
    const STAMPED: bool = true;

    fn new(limits: Limits) -> Self {
        Self {
            entries: Entries::with_room(limits.limit.min(ROOM)),
            index: Index::default(),
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
        self.entries.memory() + self.index.memory() + self.spent.capacity() * size_of::<O>()
    }

    fn prepare(queues: &mut [Self], scratch: &mut Scratch) {
        if !O::ABSORBS || queues.len() < 2 || !queues[0].limits.absorb_while_merging {
            return;
        }
        cancel_across::<S, O>(queues, &mut scratch.seen);
        replace_across::<S, O>(queues, &mut scratch.seen);
        scratch.seen.clear();
    }

    fn apply(queues: &mut [Self], state: &mut S, budget: usize, scratch: &mut Scratch) -> usize {
        let heads = &mut scratch.heads;
        heads.clear();
        for (at, queue) in queues.iter_mut().enumerate() {
            if let Some(first) = queue.entries.first() {
                heads.push(Reverse((first, at)));
            }
        }
        let mut executed = 0;
        while executed < budget {
            let Some(Reverse((_, at))) = heads.pop() else {
                break;
            };
            // The queue that is ahead is emptied up to where the next one begins. Equal stamps on
            // different queues belong to operations that overlapped; the smaller slot goes first.
            let bound = heads.peek().map_or(
                u64::MAX,
                |Reverse((next, other))| {
                    if at < *other { *next } else { *next - 1 }
                },
            );
            let Log {
                entries,
                spent,
                limits,
                ..
            } = &mut queues[at];
            while executed < budget {
                let Some((operation, origin)) = entries.pop_up_to(bound) else {
                    break;
                };
                if cfg!(percolog_origin) {
                    scratch.origin = origin;
                }
                executed += 1;
                if let Some(kept) = operation.exec_keeping(state)
                    && spent.len() < limits.limit
                {
                    spent.push(kept);
                }
            }
            match entries.first() {
                Some(first) => heads.push(Reverse((first, at))),
                None => entries.reset(2 * limits.limit.max(ROOM)),
            }
        }
        executed
    }

    fn origin(scratch: &Scratch) -> Option<&'static Location<'static>> {
        scratch.origin
    }
}

/// Most places that room is made for before they are needed.
const ROOM: usize = 1024;

/// Drops every pair of operations that adds and *then* removes the same unique identity, whichever
/// queues they are in (the thesis' "global" absorption, §6.2). A removal that comes first removes
/// nothing, and what is added behind it stays.
fn cancel_across<S, O: Operation<S>>(queues: &mut [Log<O>], seen: &mut hashbrown::HashTable<Seen>) {
    seen.clear();
    for_each_place(queues, |queues, queue, place| {
        if let Some((_, operation)) = queues[queue].entries.get(place)
            && let Absorb::Begin(birth) = operation.absorb()
        {
            let hash = spread(birth.id());
            let item = Seen { hash, queue, place };
            seen.insert_unique(hash, item, |item| item.hash);
        }
    });
    if seen.is_empty() {
        return;
    }
    for_each_place(queues, |queues, queue, place| {
        let Some((stamp, operation)) = queues[queue].entries.get(place) else {
            return;
        };
        let Absorb::End(death) = operation.absorb() else {
            return;
        };
        let id = death.id();
        let begun = seen.find(spread(id), |item| {
            queues[item.queue]
                .entries
                .get(item.place)
                .is_some_and(|(begun, earlier)| {
                    // The order in which `apply` would execute them.
                    (begun, item.queue, item.place) < (stamp, queue, place)
                        && begins::<S, O>(earlier, id)
                })
        });
        if let Some(Seen {
            queue: from,
            place: at,
            ..
        }) = begun
        {
            let (from, at) = (*from, *at);
            drop(queues[from].entries.take(at));
            drop(queues[queue].entries.take(place));
        }
    });
}

/// Drops every operation that a later one on the same key replaces, whichever queues they are in.
fn replace_across<S, O: Operation<S>>(
    queues: &mut [Log<O>],
    seen: &mut hashbrown::HashTable<Seen>,
) {
    seen.clear();
    for_each_place(queues, |queues, queue, place| {
        let Some((stamp, operation)) = queues[queue].entries.get(place) else {
            return;
        };
        let Absorb::Replace(hash) = operation.absorb() else {
            return;
        };
        let hash = spread(hash);
        let other = seen.find_mut(hash, |item| {
            item.hash == hash
                && queues[item.queue]
                    .entries
                    .get(item.place)
                    .is_some_and(|(_, other)| operation.replaces(other))
        });
        match other {
            None => {
                let item = Seen { hash, queue, place };
                seen.insert_unique(hash, item, |item| item.hash);
            }
            Some(other) => {
                let (from, at) = (other.queue, other.place);
                let theirs = queues[from].entries.get(at).map_or(0, |(stamp, _)| stamp);
                // The order in which `apply` would execute them.
                if (theirs, from, at) < (stamp, queue, place) {
                    (other.queue, other.place) = (queue, place);
                    drop(queues[from].entries.take(at));
                } else {
                    drop(queues[queue].entries.take(place));
                }
            }
        }
    });
}

fn for_each_place<O>(queues: &mut [Log<O>], mut f: impl FnMut(&mut [Log<O>], usize, usize)) {
    for queue in 0..queues.len() {
        for place in 0..queues[queue].entries.places() {
            f(queues, queue, place);
        }
    }
}

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
