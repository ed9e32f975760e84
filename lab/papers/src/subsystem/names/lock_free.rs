//! Generation and count in one word.

use super::{Lookup, Reference};
use crate::subsystem::{Entry, SharedObject};
use std::sync::atomic::{AtomicU64, Ordering};

/// The upper half of a word is the generation, the lower half the count.
///
/// There are at most 2³² identities, and so never as many references at once. A generation that has gone
/// through its 2³² values would be taken for the one that a lookup has read only if that lookup had waited all
/// the time.
#[derive(Debug, Default)]
pub struct LockFree {
    word: AtomicU64,
}

const GENERATION: u64 = 1 << 32;

fn count(word: u64) -> u64 {
    word % GENERATION
}

fn generation(word: u64) -> u64 {
    word / GENERATION
}

impl SharedObject for LockFree {
    type Arrival = Lookup;
    type Departure = Reference;
    type View = u64;

    fn life(_: Entry) -> (Lookup, Reference) {
        (Lookup, Reference)
    }

    fn enter(&self, Lookup: Lookup) {
        // Relaxed, here and below: there is one word, so its order of modification is all the order there is, and a
        // count publishes nothing.
        let mut seen = self.word.load(Ordering::Relaxed);
        'lookup: loop {
            let looked_up = generation(seen);
            // Only the count may have changed since.
            while generation(seen) == looked_up {
                match self.word.compare_exchange_weak(
                    seen,
                    seen + 1,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => break 'lookup,
                    Err(now) => seen = now,
                }
            }
        }
    }

    fn leave(&self, Reference: Reference) {
        self.word.fetch_sub(1, Ordering::Relaxed);
    }

    fn read(&self, _: u64) -> u64 {
        count(self.word.fetch_add(GENERATION, Ordering::Relaxed))
    }

    fn view(&self) -> u64 {
        count(self.word.load(Ordering::Relaxed))
    }

    fn expected(entries: &[Entry]) -> u64 {
        entries.len() as u64
    }
}
