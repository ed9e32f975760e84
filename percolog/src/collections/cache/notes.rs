//! What each thread notes for itself: which items it has used, and what it has done.
//!
//! A hit stores to no line that others write. Items have a mark that says that they were used since the hand of CLOCK came by; a
//! hit that finds it set has nothing to say. Another one notes the item's hash in a ring of its own thread, over the oldest note if need
//! be. Whoever is about to evict goes through the rings of all threads, and sets the marks of what it finds there.
//!
//! A note can be lost, or come too late: the item is evicted, or marked, a revolution too early or too late. Nothing else depends on it.

use crate::cpu::PerCore;
use crate::cpu::lease::Who;
use crate::lock::NodeLock;
use crate::sync::Isolated;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::global::AtomicU64 as Count;

/// So many notes a thread keeps.
pub(super) const NOTES: usize = if cfg!(percolog_loom) { 2 } else { 64 };

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Hits,
    Misses,
    Sets,
    Deletes,
    Evictions,
    Expirations,
    Rejections,
}

const KINDS: usize = Kind::Rejections as usize + 1;

/// A thread's own, written by it.
struct Own {
    counts: [Count; KINDS],
    /// How many items it has put in since it last went through the rings.
    inserted: Count,
    /// How many notes there have been.
    noted: AtomicU64,
    notes: [AtomicU64; NOTES],
}

/// What a thread has.
pub(super) struct Slot {
    own: Own,
    /// How many of its notes have been looked at; under the lock of [`Slots`].
    seen: Isolated<Count>,
}

impl Slot {
    fn new() -> Self {
        Self {
            own: Own {
                counts: [const { Count::new(0) }; KINDS],
                inserted: Count::new(0),
                noted: AtomicU64::new(0),
                notes: core::array::from_fn(|_| AtomicU64::new(0)),
            },
            seen: Isolated::new(Count::new(0)),
        }
    }
}

/// All threads'.
pub(super) struct Slots {
    slots: PerCore<Slot>,
    /// One at a time goes through the rings.
    reading: NodeLock,
    /// How many rings had something new the last time.
    busy: Count,
}

/// A slot, and whether the caller is the only one who writes there.
#[derive(Clone, Copy)]
pub(super) struct Mine<'a> {
    slot: &'a Slot,
    alone: bool,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            slots: PerCore::new(),
            reading: NodeLock::new(),
            busy: Count::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn of(&self, who: Who) -> Mine<'_> {
        Mine {
            slot: self.slots.get_or_make(who.place(), Slot::new),
            alone: matches!(who, Who::Leased(_)),
        }
    }

    /// A sum of all threads.
    pub(super) fn total(&self, kind: Kind) -> u64 {
        self.slots
            .iter()
            // Relaxed: what has finished for the caller is seen by coherence.
            .map(|(_, slot)| slot.own.counts[kind as usize].load(Ordering::Relaxed))
            .fold(0, u64::wrapping_add)
    }

    /// How much is asked of the allocator.
    pub(super) fn memory(&self) -> usize {
        self.slots.memory()
    }

    /// Whether the caller, who has put in one more item, is to go through the rings: about once for as many items as there are rings
    /// with something new, so that each item pays for one of them.
    pub(super) fn is_due(&self, mine: Mine<'_>) -> bool {
        let inserted = &mine.slot.own.inserted;
        // Relaxed, all: hints; and no two threads write the first one, unless they have no lease.
        let count = inserted.load(Ordering::Relaxed) + 1;
        let due = count >= self.busy.load(Ordering::Relaxed);
        inserted.store(if due { 0 } else { count }, Ordering::Relaxed);
        due
    }

    /// Calls `f` with each note that nobody has looked at. Does nothing if somebody else is at it.
    pub(super) fn read(&self, mut f: impl FnMut(u64)) {
        let Ok(_guard) = self.reading.try_lock() else {
            return;
        };
        let mut busy = 0;
        for (_, slot) in self.slots.iter() {
            // Acquire pairs with the Release in `note`: notes that are counted are seen, or later ones in their place.
            let noted = slot.own.noted.load(Ordering::Acquire);
            // Relaxed, both: under the lock.
            let seen = slot.seen.load(Ordering::Relaxed);
            if noted == seen {
                continue;
            }
            slot.seen.store(noted, Ordering::Relaxed);
            busy += 1;
            let new = noted.wrapping_sub(seen).min(NOTES as u64);
            for at in 1..=new {
                let note = &slot.own.notes[noted.wrapping_sub(at) as usize % NOTES];
                // Relaxed: any note that was ever made there will do.
                f(note.load(Ordering::Relaxed));
            }
        }
        // Relaxed: a hint. Who reads it does so for each item put in, so it is written only if it changes.
        if self.busy.load(Ordering::Relaxed) != busy {
            self.busy.store(busy, Ordering::Relaxed);
        }
    }
}

impl Mine<'_> {
    /// An item was put in; perhaps in place of one that had expired.
    pub(super) fn put(self, expired: bool) {
        self.count(Kind::Sets);
        if expired {
            self.count(Kind::Expirations);
        }
    }

    #[inline(always)]
    pub(super) fn count(self, kind: Kind) {
        let count = &self.slot.own.counts[kind as usize];
        // Relaxed, all three: a sum. The holder of a lease is the only one who writes, and the next holder sees what
        // the last one wrote.
        if self.alone {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that an item with this hash was used.
    #[inline(always)]
    pub(super) fn note(self, hash: u64) {
        let own = &self.slot.own;
        // Relaxed: written by this thread, or by others who share the slot; then a note may be lost.
        let noted = own.noted.load(Ordering::Relaxed);
        own.notes[noted as usize % NOTES].store(hash, Ordering::Relaxed);
        // Release pairs with the Acquire in `read`.
        own.noted.store(noted.wrapping_add(1), Ordering::Release);
    }
}
