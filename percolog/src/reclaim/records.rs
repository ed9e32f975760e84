//! A record for each thread: two numbers that others read, and what only its holder touches.
//!
//! Records never move and are never freed while the domain lives. One is *taken* by a thread for as
//! long as that lives, or by an owned section; and it is *active*, so that scans look at it, from its
//! first section until it has been idle for long. The two are independent: a record that is given
//! back stays active until it has been idle, and one that is taken may be idle.

use core::array;
use core::cell::Cell;
use core::ptr;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::queue::Queue;
use crate::cpu::lease::take_bit;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::global::AtomicU64 as Count;
use crate::sync::{Isolated, UnsafeCell};

/// Records in the first table; each further table doubles what is there.
#[cfg(not(percolog_loom))]
const FIRST: usize = 16;
#[cfg(percolog_loom)]
const FIRST: usize = 4;

/// Tables: more records than any Linux has threads.
#[cfg(not(percolog_loom))]
const TABLES: usize = 20;
#[cfg(percolog_loom)]
const TABLES: usize = 1;

/// What a scan reads, and the holder writes at every section. Alone on its line.
#[derive(Debug)]
pub(super) struct Entered {
    /// The stamp at which the holder's last section began, and whether it is still inside: see
    /// [`inside`] and [`outside`].
    pub(super) word: AtomicU64,
    /// Not zero while scans pass over the record; its holder looks at it in every section.
    pub(super) parked: AtomicU32,
    /// How many sections of the holder are nested, in units of [`SECTION`], and [`LAST_GIVES_BACK`]. Only the holder uses it.
    pub(super) depth: Cell<usize>,
}

/// One section, in [`Entered::depth`].
pub(super) const SECTION: usize = 2;

/// In [`Entered::depth`]: the end of the outermost section gives the record back.
pub(super) const LAST_GIVES_BACK: usize = 1;

impl Entered {
    /// How many sections of the holder, who asks, are nested.
    #[inline(always)]
    pub(super) fn nested(&self) -> usize {
        self.depth.get() / SECTION
    }
}

/// In a section that began at `stamp`.
#[inline(always)]
pub(super) const fn inside(stamp: u64) -> u64 {
    stamp << 1 | 1
}

/// Whether the word says that its holder is in a section.
#[inline(always)]
pub(super) const fn is_inside(word: u64) -> bool {
    word & 1 != 0
}

/// The word of a holder that has left the section that the word stands for.
#[inline(always)]
pub(super) const fn outside(word: u64) -> u64 {
    word & !1
}

/// The stamp at which the section began that the word stands for.
#[inline(always)]
pub(super) const fn stamp_of(word: u64) -> u64 {
    word >> 1
}

/// What only the holder of a record writes; statistics are read by others.
pub(super) struct Private {
    /// Used by the holder alone, and by whoever drops the domain.
    pub(super) queue: UnsafeCell<Queue>,
    /// Objects retired since the holder last tried to find quiescence.
    pub(super) since_attempt: Cell<usize>,
    /// How many that must be before it tries again.
    pub(super) target: Cell<usize>,
    /// Up to where the holder has seen everything to be quiescent. Only without the second
    /// optimization is this not the domain's number.
    pub(super) known: Cell<u64>,
    /// Bytes retired since the cap was last looked at.
    pub(super) unchecked_bytes: Cell<usize>,
    /// The holder is destroying an object, which may retire others.
    pub(super) destroying: Cell<bool>,
    pub(super) counts: Counts,
}

/// Written by the holder with plain additions, read by anyone. No part of the algorithm, so no model
/// checker needs to see them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) retired: Count,
    pub(super) retired_bytes: Count,
    pub(super) destroyed: Count,
    pub(super) destroyed_bytes: Count,
    pub(super) scans: Count,
    pub(super) failed_scans: Count,
    pub(super) borrowed: Count,
    pub(super) lines_read: Count,
    pub(super) panics: Count,
    pub(super) refused: Count,
    pub(super) beyond_cap: Count,
}

/// Adds to a number that only the caller writes.
#[inline(always)]
pub(super) fn add(count: &Count, amount: u64) {
    // Relaxed: one writer at a time (a record's holders are ordered by taking it); readers only want
    // a number.
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(amount),
        Ordering::Relaxed,
    );
}

/// See the [module](self).
pub(super) struct Record {
    pub(super) entered: Isolated<Entered>,
    pub(super) private: Isolated<Private>,
    /// Its number in the domain.
    pub(super) index: usize,
    /// Which thread holds it: see `threads`. Zero for an owned section.
    pub(super) holder: AtomicU64,
    /// The process that took it: see `cpu::process`.
    pub(super) generation: AtomicU64,
}

// SAFETY: the cells and the queue are used by the record's holder alone, of which there is one at a
// time: taking a record acquires what giving it back released. (Dropping the domain comes after all
// use of it.) Everything else is atomic. What is in the queue may be destroyed on any thread.
unsafe impl Sync for Record {}
// SAFETY: as above.
unsafe impl Send for Record {}

impl Record {
    fn new(index: usize, target: usize) -> Self {
        Self {
            entered: Isolated::new(Entered {
                word: AtomicU64::new(0),
                // Not active yet: the first section makes it so.
                parked: AtomicU32::new(1),
                depth: Cell::new(0),
            }),
            private: Isolated::new(Private {
                queue: UnsafeCell::new(Queue::new()),
                since_attempt: Cell::new(0),
                target: Cell::new(target),
                known: Cell::new(0),
                unchecked_bytes: Cell::new(0),
                destroying: Cell::new(false),
                counts: Counts::default(),
            }),
            index,
            holder: AtomicU64::new(0),
            generation: AtomicU64::new(0),
        }
    }

    /// Uses the queue. `f` runs no code of users.
    ///
    /// # Safety
    /// The caller holds the record, or nobody else can use it.
    pub(super) unsafe fn with_queue<R>(&self, f: impl FnOnce(&mut Queue) -> R) -> R {
        // SAFETY: one holder at a time, and no `f` comes back here: it runs none of the users' code.
        self.private
            .queue
            .with_mut(|queue| f(unsafe { &mut *queue }))
    }
}

/// A part of all records.
struct Table {
    /// A bit for each record that scans look at.
    active: Box<[AtomicU64]>,
    /// A bit for each record that is held.
    taken: Box<[AtomicU64]>,
    /// For each record, up to where it is known to have left its sections. Written by scans, read by
    /// scans, and packed: eight records a line.
    clear: Box<[AtomicU64]>,
    records: Box<[Record]>,
}

/// All records of a domain.
pub(super) struct Records {
    tables: [AtomicPtr<Table>; TABLES],
}

const fn table_length(table: usize) -> usize {
    if table == 0 {
        FIRST
    } else {
        FIRST << (table - 1)
    }
}

/// The number of the first record of a table.
const fn table_start(table: usize) -> usize {
    if table == 0 { 0 } else { FIRST << (table - 1) }
}

/// The table a record is in.
const fn table_of(index: usize) -> usize {
    if index < FIRST {
        0
    } else {
        (index / FIRST).ilog2() as usize + 1
    }
}

impl Records {
    pub(super) fn new() -> Self {
        Self {
            tables: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    fn table(&self, table: usize) -> Option<&Table> {
        // Acquire pairs with the Release that published the table. Tables live as long as `self`.
        let table = self.tables.get(table)?.load(Ordering::Acquire);
        // SAFETY: published tables come from `Box::into_raw`, and are freed when `self` is dropped.
        unsafe { table.as_ref() }
    }

    fn make_table(&self, table: usize, target: impl Fn(usize) -> usize) -> &Table {
        let length = table_length(table);
        let words = || -> Box<[AtomicU64]> {
            let words: Vec<AtomicU64> = (0..length.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect();
            words.into_boxed_slice()
        };
        let start = table_start(table);
        let fresh = Box::into_raw(Box::new(Table {
            active: words(),
            taken: words(),
            clear: (0..length).map(|_| AtomicU64::new(0)).collect(),
            records: (start..start + length)
                .map(|index| Record::new(index, target(index)))
                .collect(),
        }));
        // Release publishes the table to the Acquire in `table`; on failure Acquire does the same for
        // the table that won.
        match self.tables[table].compare_exchange(
            ptr::null_mut(),
            fresh,
            Ordering::Release,
            Ordering::Acquire,
        ) {
            // SAFETY: just published, freed when `self` is dropped.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: `fresh` was not published; the winner is.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*winner
                }
            }
        }
    }

    /// Takes the free record with the smallest number, from `hint` on if that one is free. Lock-free
    /// but for the allocator. `target` is what a record's first target is.
    ///
    /// # Panics
    /// If millions of records are in use: more than there can be threads.
    pub(super) fn take(&self, hint: usize, target: impl Fn(usize) -> usize) -> &Record {
        for at in 0..TABLES.min(table_of(hint) + 1) {
            if self.table(at).is_none() {
                self.make_table(at, &target);
            }
        }
        if let Some(record) = self.take_this(hint) {
            return record;
        }
        for at in 0..TABLES {
            let table = match self.table(at) {
                Some(table) => table,
                None => self.make_table(at, &target),
            };
            for (word_at, word) in table.taken.iter().enumerate() {
                if let Some(free) = take_bit(word, table.records.len() - word_at * 64) {
                    return &table.records[word_at * 64 + free];
                }
            }
        }
        panic!("more sections are open at once than any system has threads")
    }

    /// Takes this record, if it exists and is free.
    fn take_this(&self, index: usize) -> Option<&Record> {
        let table = self.table(table_of(index))?;
        let at = index - table_start(table_of(index));
        let bit = 1 << (at % 64);
        // Acquire as in `take_bit`.
        let taken = table.taken[at / 64].fetch_or(bit, Ordering::Acquire);
        (taken & bit == 0).then(|| &table.records[at])
    }

    /// Gives a record back. The caller holds it, has left all its sections, and does not use it again.
    pub(super) fn give_back(&self, record: &Record) {
        let (table, at) = self.place(record.index);
        // Release pairs with the Acquires in `take_bit` and `take_this`: the new holder continues where the last one stopped.
        table.taken[at / 64].fetch_and(!(1 << (at % 64)), Ordering::Release);
    }

    fn place(&self, index: usize) -> (&Table, usize) {
        let number = table_of(index);
        match self.table(number) {
            Some(table) => (table, index - table_start(number)),
            None => unreachable!("the number of a record that exists"),
        }
    }

    /// The record with this number, which exists.
    pub(super) fn get(&self, index: usize) -> &Record {
        let (table, at) = self.place(index);
        &table.records[at]
    }

    /// Up to where the record is known to have left its sections.
    pub(super) fn clear(&self, record: &Record) -> &AtomicU64 {
        let (table, at) = self.place(record.index);
        &table.clear[at]
    }

    /// Makes scans look at the record.
    pub(super) fn activate(&self, record: &Record) {
        let (table, at) = self.place(record.index);
        // Release pairs with the Acquire in `active`; what orders it against a scan is the caller's
        // fence.
        table.active[at / 64].fetch_or(1 << (at % 64), Ordering::AcqRel);
    }

    /// Lets scans pass over the record.
    pub(super) fn deactivate(&self, record: &Record) {
        let (table, at) = self.place(record.index);
        // Release pairs with the Acquire in `active`: a scan that passes over the record sees what
        // the caller saw, the record's last exit among it.
        table.active[at / 64].fetch_and(!(1 << (at % 64)), Ordering::AcqRel);
    }

    /// The records that scans look at, from number `start` on and then from zero.
    pub(super) fn active_from(&self, start: usize) -> impl Iterator<Item = &Record> {
        self.active(start, usize::MAX).chain(self.active(0, start))
    }

    fn active(&self, from: usize, to: usize) -> impl Iterator<Item = &Record> {
        (0..TABLES)
            .map_while(|number| self.table(number).map(|table| (number, table)))
            .filter(move |(number, table)| {
                let start = table_start(*number);
                start + table.records.len() > from && start < to
            })
            .flat_map(move |(number, table)| {
                let start = table_start(number);
                table.active.iter().enumerate().flat_map(move |(at, word)| {
                    let first = start + at * 64;
                    let mut bits = if first + 64 > from && first < to {
                        // Acquire pairs with the Release in `activate` and `deactivate`.
                        word.load(Ordering::Acquire)
                    } else {
                        0
                    };
                    core::iter::from_fn(move || {
                        while bits != 0 {
                            let bit = bits.trailing_zeros() as usize;
                            bits &= bits - 1;
                            if (from..to).contains(&(first + bit)) {
                                return Some(&table.records[at * 64 + bit]);
                            }
                        }
                        None
                    })
                })
            })
    }

    /// All records that there have ever been.
    pub(super) fn all(&self) -> impl Iterator<Item = &Record> {
        (0..TABLES)
            .map_while(|number| self.table(number))
            .flat_map(|table| table.records.iter())
    }

    /// How many records scans look at.
    pub(super) fn active_count(&self) -> usize {
        (0..TABLES)
            .map_while(|number| self.table(number))
            .flat_map(|table| table.active.iter())
            // A number for people, and for the target: Relaxed.
            .map(|word| word.load(Ordering::Relaxed).count_ones() as usize)
            .sum()
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        for table in &self.tables {
            let table = table.load(Ordering::Acquire);
            if !table.is_null() {
                // SAFETY: published by `make_table`, from `Box::into_raw`; nobody uses it any more.
                drop(unsafe { Box::from_raw(table) });
            }
        }
    }
}

#[cfg(all(test, not(percolog_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_one_place() {
        let mut next = 0;
        for table in 0..TABLES {
            assert_eq!(table_start(table), next);
            for index in [next, next + table_length(table) - 1] {
                assert_eq!(table_of(index), table);
            }
            next += table_length(table);
        }
    }

    #[test]
    fn records_are_taken_smallest_first_and_scanned_in_a_circle() {
        let records = Records::new();
        let taken: Vec<&Record> = (0..200).map(|_| records.take(0, |_| 1)).collect();
        for (index, record) in taken.iter().enumerate() {
            assert_eq!(record.index, index);
            if index % 3 == 0 {
                records.activate(record);
            }
        }
        assert_eq!(records.active_count(), 67);
        let order: Vec<usize> = records
            .active_from(100)
            .map(|record| record.index)
            .collect();
        let expected: Vec<usize> = (100..200).chain(0..100).filter(|at| at % 3 == 0).collect();
        assert_eq!(order, expected);
        records.deactivate(taken[102]);
        assert_eq!(records.active_count(), 66);
        records.give_back(taken[70]);
        records.give_back(taken[7]);
        assert_eq!(records.take(70, |_| 1).index, 70);
        assert_eq!(records.take(70, |_| 1).index, 7);
        assert_eq!(records.take(0, |_| 1).index, 200);
    }
}
