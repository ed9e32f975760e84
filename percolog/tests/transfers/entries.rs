//! What containers without stamps move: insertions and removals of entries that one thread uses, and of entries that all do.

use percolog::ldu::{Deferred, DeferredBuilder, Entry, Fifo, Sorted, Stamped, Variant};

use super::collections::{Collection, KEYS, between, first_after, key, sustained};
use super::{FEW_CORES, SHARED_LINE, breaks, keeps, keeps_on};

/// The slot's line, the mark, and the entry, which who has looked at it has written to: that is how it leaves the log. The links in the
/// log are read then as well, so that writing the next one takes an upgrade.
const AFTER_A_READ: f64 = 6.0;

/// Whether a use is an insertion: each thread inserts all its entries, then removes them all, and so on.
fn inserts(number: u64) -> bool {
    (number / KEYS).is_multiple_of(2)
}

/// What is there after so many uses by each thread.
fn expected(threads: usize, uses: u64) -> Vec<u64> {
    let mut there = [false; KEYS as usize];
    for number in 0..uses {
        there[(number % KEYS) as usize] = inserts(number);
    }
    (0..threads as u64 * KEYS)
        .filter(|key| there[(key % KEYS) as usize])
        .collect()
}

/// Entries of which each thread has its own.
struct Own<const GLOBAL: bool> {
    container: Deferred<Sorted<u64>>,
    entries: Vec<Entry<u64>>,
}

impl<const GLOBAL: bool> Collection for Own<GLOBAL> {
    fn new(threads: usize) -> Self {
        let builder = if GLOBAL {
            // The list is everybody's: it must have room for what all have.
            let limit = 2 * threads * KEYS as usize;
            DeferredBuilder::new().variant(Variant::Global).limit(limit)
        } else {
            DeferredBuilder::new()
        };
        let container = builder.build(Sorted::new());
        percolog_roi::label(&container, "Deferred");
        Self {
            container,
            entries: (0..threads as u64 * KEYS).map(Entry::new).collect(),
        }
    }

    fn make_use(&self, thread: usize, number: u64) {
        let entry = &self.entries[key(thread, number, KEYS) as usize];
        let outcome = if inserts(number) {
            self.container.insert(entry)
        } else {
            self.container.remove(entry)
        };
        outcome.expect("nobody else has the entry");
    }

    fn collect(&self) {
        drop(self.container.synchronize());
    }

    fn check(&self, threads: usize, uses: u64) {
        let guard = self.container.synchronize();
        assert!(guard.iter().copied().eq(expected(threads, uses)));
    }
}

type PerCore = Own<false>;
type Global = Own<true>;

/// The same in a queue with stamps.
struct Line {
    fifo: Fifo<u64>,
    entries: Vec<Entry<Stamped<u64>>>,
}

impl Collection for Line {
    fn new(threads: usize) -> Self {
        let fifo = Fifo::new();
        percolog_roi::label(&fifo, "Fifo");
        Self {
            fifo,
            entries: (0..threads as u64 * KEYS)
                .map(|item| Entry::new(Stamped::new(item)))
                .collect(),
        }
    }

    fn make_use(&self, thread: usize, number: u64) {
        let entry = &self.entries[key(thread, number, KEYS) as usize];
        let outcome = if inserts(number) {
            self.fifo.push(entry)
        } else {
            self.fifo.remove(entry)
        };
        outcome.expect("nobody else has the entry");
    }

    fn collect(&self) {
        drop(self.fifo.synchronize());
    }

    fn check(&self, threads: usize, uses: u64) {
        let mut guard = self.fifo.synchronize();
        let mut left: Vec<_> = std::iter::from_fn(|| guard.pop().map(|entry| **entry)).collect();
        left.sort_unstable();
        assert_eq!(left, expected(threads, uses));
    }
}

/// Entries that all threads use: each goes from one to the other.
struct Shared {
    container: Deferred<Sorted<u64>>,
    entries: Vec<Entry<u64>>,
}

impl Collection for Shared {
    fn new(_threads: usize) -> Self {
        Self {
            container: Deferred::new(Sorted::new()),
            entries: (0..KEYS).map(Entry::new).collect(),
        }
    }

    fn make_use(&self, _thread: usize, number: u64) {
        let entry = &self.entries[(number % KEYS) as usize];
        // Whether somebody else has it is what this is about.
        let _ = if inserts(number) {
            self.container.insert(entry)
        } else {
            self.container.remove(entry)
        };
    }

    fn collect(&self) {
        drop(self.container.synchronize());
    }

    fn check(&self, _threads: usize, _uses: u64) {
        let there = self.container.synchronize().len();
        let linked = self.entries.iter().filter(|entry| entry.is_linked());
        assert_eq!(there, linked.count());
    }
}

#[test]
fn own_entries_between_reads() {
    keeps(between::<PerCore>, 0.0);
}

#[test]
fn own_entries_sustained() {
    keeps(sustained::<PerCore>, 0.0);
}

#[test]
fn own_entries_after_a_read() {
    keeps(first_after::<PerCore>, AFTER_A_READ);
}

/// What cancels in the common list does not touch the list.
#[test]
fn own_entries_with_a_common_list_between_reads() {
    keeps_on(FEW_CORES, between::<Global>, 0.0);
}

#[test]
fn own_entries_in_a_queue_between_reads() {
    keeps(between::<Line>, 0.0);
}

#[test]
fn own_entries_in_a_queue_sustained() {
    keeps(sustained::<Line>, 0.0);
}

#[test]
fn shared_entries_between_reads() {
    breaks(between::<Shared>, 0.0, SHARED_LINE);
}
