//! Absorption of operations that are in different queues, before they are executed.

use super::entry::Entries;
use super::index::spread;
use super::operation::{Absorb, Combined, Operation};
use alloc::vec::Vec;
use core::mem;
use core::panic::Location;

/// A queue of operations, each of which can be taken out.
pub(super) trait HasEntries<O> {
    fn entries(&self) -> &Entries<O>;

    fn entries_mut(&mut self) -> &mut Entries<O>;
}

/// Absorption across queues.
#[derive(Default)]
pub(super) struct Across {
    /// Operations that a later one may absorb, by hash.
    seen: hashbrown::HashTable<Seen>,
    /// Operations that end what another one may have begun.
    ends: Vec<(usize, usize)>,
}

/// A queue's number and the place in it.
#[derive(Clone, Copy)]
struct Seen {
    hash: u64,
    queue: usize,
    place: usize,
}

/// Whether this is what begins what ends with `id`.
pub(super) fn begins<S, O: Operation<S>>(operation: &O, id: u64) -> bool {
    matches!(operation.absorb(), Absorb::Add(birth) if birth.id() == id)
}

/// Lets an operation take the later one in. Says whether there is nothing left to do; nothing if it has nothing to do with it.
pub(super) fn combine_into<S, O: Operation<S>>(
    earlier: &mut O,
    later: &mut Option<O>,
) -> Option<bool> {
    if !matches!(earlier.absorb(), Absorb::Combine(_)) {
        return None;
    }
    match earlier.combine(later.take()?) {
        Combined::One => Some(false),
        Combined::Nothing => Some(true),
        Combined::Apart(apart) => {
            *later = Some(apart);
            None
        }
    }
}

impl Across {
    /// Bytes allocated.
    pub(super) fn memory(&self) -> usize {
        self.seen.allocation_size() + self.ends.capacity() * size_of::<(usize, usize)>()
    }

    /// Absorbs what can be of operations in different queues (the thesis' "global" absorption, §6.2), going through them once: drops
    /// * every one that a later one on the same key replaces;
    /// * every one that another one takes in;
    /// * every pair that adds and *then* removes the same unique identity. (A removal that comes first removes nothing, and what is added
    ///   behind it stays.) They are looked for when all that add have been seen.
    pub(super) fn absorb<S, O: Operation<S>>(&mut self, queues: &mut [impl HasEntries<O>]) {
        // What a panic of an operation has left.
        self.seen.clear();
        self.ends.clear();
        for queue in 0..queues.len() {
            for place in 0..queues[queue].entries().places() {
                let Some((_, operation)) = queues[queue].entries().get(place) else {
                    continue;
                };
                let seen = |hash| Seen {
                    hash: spread(hash),
                    queue,
                    place,
                };
                match operation.absorb() {
                    Absorb::Never => {}
                    Absorb::Remove(_) => self.ends.push((queue, place)),
                    Absorb::Add(birth) => self.see(seen(birth.id())),
                    Absorb::Replace(hash) => self.replace::<S, O>(queues, seen(hash)),
                    Absorb::Combine(hash) => self.combine::<S, O>(queues, seen(hash)),
                }
            }
        }
        for (queue, place) in self.ends.drain(..) {
            cancel::<S, O>(queues, &self.seen, queue, place);
        }
        self.seen.clear();
    }

    fn see(&mut self, item: Seen) {
        self.seen.insert_unique(item.hash, item, |item| item.hash);
    }

    /// Drops this operation, or the one on the same key, whichever is earlier.
    fn replace<S, O: Operation<S>>(&mut self, queues: &mut [impl HasEntries<O>], this: Seen) {
        let mut is_later = false;
        let other = self.seen.find_mut(this.hash, |item| {
            let (Some((theirs, other)), Some((stamp, operation))) =
                (item.of(queues), this.of(queues))
            else {
                return false;
            };
            // The order in which `apply` would execute them.
            is_later = (theirs, item.queue, item.place) < (stamp, this.queue, this.place);
            item.hash == this.hash
                && matches!(other.absorb(), Absorb::Replace(_))
                && if is_later {
                    operation.replaces(other)
                } else {
                    other.replaces(operation)
                }
        });
        match other {
            None => self.see(this),
            Some(other) => {
                let gone = if is_later {
                    mem::replace(other, this)
                } else {
                    this
                };
                drop(queues[gone.queue].entries_mut().take(gone.place));
            }
        }
    }

    /// Lets one of this operation and one on the same key take the other one in.
    fn combine<S, O: Operation<S>>(&mut self, queues: &mut [impl HasEntries<O>], this: Seen) {
        let mut stays = this;
        let mut is_nothing = false;
        let other = self.seen.find_mut(this.hash, |item| {
            let (Some((theirs, _)), Some((stamp, _))) = (item.of(queues), this.of(queues)) else {
                return false;
            };
            // The order in which `apply` would execute them.
            let (into, from) = if (theirs, item.queue, item.place) < (stamp, this.queue, this.place)
            {
                (*item, this)
            } else {
                (this, *item)
            };
            if item.hash != this.hash {
                return false;
            }
            let (stamp, origin) = (from.of(queues).map(|(stamp, _)| stamp), from.origin(queues));
            let mut later = queues[from.queue].entries_mut().take(from.place);
            let earlier = queues[into.queue].entries_mut().get_mut(into.place);
            let outcome = earlier.and_then(|earlier| combine_into::<S, O>(earlier, &mut later));
            if let (Some(stamp), Some(later)) = (stamp, later) {
                // Back where it was.
                queues[from.queue]
                    .entries_mut()
                    .put(from.place, stamp, later, origin);
            }
            let Some(nothing) = outcome else {
                return false;
            };
            (stays, is_nothing) = (into, nothing);
            true
        });
        match other {
            None => self.see(this),
            Some(other) => {
                *other = stays;
                if is_nothing {
                    // Who looks there finds nothing.
                    drop(queues[stays.queue].entries_mut().take(stays.place));
                }
            }
        }
    }
}

impl Seen {
    fn of<'a, O>(&self, queues: &'a [impl HasEntries<O>]) -> Option<(u64, &'a O)> {
        queues[self.queue].entries().get(self.place)
    }

    fn origin<O>(&self, queues: &[impl HasEntries<O>]) -> Option<&'static Location<'static>> {
        queues[self.queue].entries().origin(self.place)
    }
}

/// Drops the operation at this place, which ends something, together with the one that began it before, if that is there.
fn cancel<S, O: Operation<S>>(
    queues: &mut [impl HasEntries<O>],
    seen: &hashbrown::HashTable<Seen>,
    queue: usize,
    place: usize,
) {
    let Some((stamp, operation)) = queues[queue].entries().get(place) else {
        return;
    };
    let Absorb::Remove(death) = operation.absorb() else {
        return;
    };
    let id = death.id();
    let begun = seen.find(spread(id), |item| {
        item.of(queues).is_some_and(|(begun, earlier)| {
            // The order in which `apply` would execute them.
            (begun, item.queue, item.place) < (stamp, queue, place) && begins::<S, O>(earlier, id)
        })
    });
    if let Some(begun) = begun.copied() {
        drop(queues[begun.queue].entries_mut().take(begun.place));
        drop(queues[queue].entries_mut().take(place));
    }
}
