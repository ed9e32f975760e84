//! What only the inside can show.

use super::shelf::BATCH;
use super::table::{Table, Time};
use super::trie::Trie;
use crate::cpu::CoreId;
use crate::reclaim::Period;
use crate::sync::atomic::Ordering;
use core::cell::Cell;
use std::vec::Vec;

/// Slots, and when what was removed becomes quiescent, as the test says.
struct Scripted {
    slot: Cell<u32>,
    quiescent: Cell<bool>,
    looks: Cell<usize>,
}

impl Scripted {
    fn new() -> Self {
        Self {
            slot: Cell::new(0),
            quiescent: Cell::new(true),
            looks: Cell::new(0),
        }
    }
}

impl Time for Scripted {
    fn slot(&self) -> CoreId {
        CoreId::new(self.slot.get())
    }

    fn begin(&self) -> Period {
        Period::START
    }

    fn is_over(&self, _period: Period, look: bool) -> bool {
        self.looks.set(self.looks.get() + usize::from(look));
        self.quiescent.get() && look
    }

    fn worth_a_look(&self) -> usize {
        4 * BATCH
    }
}

fn remove<T>(table: &Table<T>, time: &Scripted, id: (u32, u32)) -> bool {
    table.unlink(id.0, id.1).is_some_and(|entry| {
        table.retire(time, id.0, entry);
        true
    })
}

fn insert(table: &Table<u32>, time: &Scripted, value: u32) -> Option<(u32, u32)> {
    table.insert(time, value).ok()
}

#[test]
fn a_trie_grows_to_the_last_index() {
    let trie: Trie<[u8; 3]> = Trie::new();
    assert!(trie.find(0).is_none());
    let indices = [0, 1, 511, 512, 262_143, 262_144, 1 << 27, u32::MAX - 64];
    for index in indices {
        assert!(trie.make(index).is_ok());
        trie.entry(index).next.store(index, Ordering::Relaxed);
        // What was made before is still there.
        for earlier in indices.iter().take_while(|earlier| **earlier <= index) {
            assert_eq!(trie.entry(*earlier).next.load(Ordering::Relaxed), *earlier);
        }
    }
    assert!(trie.find(1 << 20).is_none());
    assert!(trie.chunk(u32::MAX).is_none());
    let memory = trie.memory();
    assert!(trie.make(1).is_ok());
    assert_eq!(trie.memory(), memory);
}

#[test]
fn an_index_is_used_no_more_when_its_generations_are_used_up() {
    // On the slot, and on its way from there to the stock.
    for is_free_on_the_slot in [true, false] {
        let (time, table) = (Scripted::new(), Table::new(1));
        let first = insert(&table, &time, 1).expect("there is one");
        assert!(remove(&table, &time, first));
        table.collect(&time);
        table.word(0).store(u32::MAX - 1, Ordering::Relaxed);
        let last = insert(&table, &time, 2).expect("it has one generation left");
        assert_eq!(last, (0, u32::MAX));
        assert!(remove(&table, &time, last));
        if is_free_on_the_slot {
            table.collect(&time);
            assert_eq!(insert(&table, &time, 3), None);
        }
        // Nor by an extent.
        assert!(table.insert_extent(&time, 1, |_| 4).is_err());
        assert_eq!(insert(&table, &time, 3), None);
        assert_eq!(table.totals().worn, 1);
        assert!(table.get(0, u32::MAX).is_none());
    }
}

#[test]
fn looks_at_threads_are_rare_and_stop_when_nothing_waits() {
    let (time, table) = (Scripted::new(), Table::new(1 << 20));
    time.quiescent.set(false);
    let all: Vec<_> = (0..100 * BATCH as u32)
        .map(|value| insert(&table, &time, value).expect("there are enough"))
        .collect();
    for id in &all {
        assert!(remove(&table, &time, *id));
    }
    assert_eq!(table.totals().unusable, 100 * BATCH);
    let stalled = time.looks.get();
    assert!(stalled <= 100 / 4 + 1, "{stalled} looks in vain");
    // What has piled up goes away when the section does.
    time.quiescent.set(true);
    for _ in 0..16 * BATCH {
        let id = insert(&table, &time, 0).expect("there are enough");
        assert!(remove(&table, &time, id));
    }
    assert!(table.totals().unusable < 16 * BATCH, "{:?}", table.totals());
}

#[test]
fn what_one_slot_frees_another_uses() {
    let (time, table) = (Scripted::new(), Table::new(1 << 20));
    for value in 0..200_000 {
        time.slot.set(0);
        let id = insert(&table, &time, value).expect("there are enough");
        time.slot.set(1);
        assert!(remove(&table, &time, id));
    }
    let given_out = table.totals().given_out as usize;
    assert!(given_out < 32 * BATCH, "{given_out} ids for one at a time");
}

#[test]
fn a_slot_that_is_left_is_helped_before_memory_is_taken() {
    let (time, table) = (Scripted::new(), Table::new(1 << 20));
    time.slot.set(5);
    let left: Vec<_> = (0..10_000)
        .map(|value| insert(&table, &time, value).expect("there are enough"))
        .collect();
    time.quiescent.set(false);
    for id in left {
        assert!(remove(&table, &time, id));
    }
    // As when others have looked: nobody comes to this slot any more.
    let (borrowed, memory) = (Borrowed, table.memory());
    let all: Vec<_> = (0..8_900)
        .filter_map(|_| table.insert(&borrowed, 0).ok())
        .collect();
    assert_eq!(all.len(), 8_900);
    // A shelf, and at most a leaf or two.
    assert!(
        table.memory() < memory + 30_000,
        "{memory} {}",
        table.memory()
    );
}

/// On another slot, where one knows without a look.
struct Borrowed;

impl Time for Borrowed {
    fn slot(&self) -> CoreId {
        CoreId::new(1)
    }

    fn begin(&self) -> Period {
        Period::START
    }

    fn is_over(&self, _period: Period, _look: bool) -> bool {
        true
    }

    fn worth_a_look(&self) -> usize {
        BATCH
    }
}

#[test]
fn extents_that_come_and_go_take_no_more_memory() {
    let (time, table) = (Scripted::new(), Table::new(1 << 24));
    for (round, count) in (0..1000).zip([100, 7, 700].into_iter().cycle()) {
        let (base, generation) = table
            .insert_extent(&time, count, |offset| offset)
            .expect("there are enough");
        // Here, and on a slot where nothing is inserted.
        time.slot.set(round / 100 % 2);
        for index in base..base + count {
            assert!(remove(&table, &time, (index, generation)));
        }
        time.slot.set(0);
    }
    let given_out = table.totals().given_out as usize;
    assert!(given_out < 400 * BATCH, "{given_out} ids for 700 at a time");
    // What is free can be had as one again.
    table.collect(&time);
    let (free, given_out) = (table.totals().free, table.totals().given_out);
    assert_eq!(free, given_out as usize);
}

#[test]
fn slots_that_are_left_are_searched_before_extents_take_much_memory() {
    let (time, table) = (Scripted::new(), Table::new(1 << 24));
    for slot in 0..100 {
        time.slot.set(slot);
        let (base, generation) = table
            .insert_extent(&time, 4 * BATCH as u32, |offset| offset)
            .expect("there are enough");
        for index in base..base + 4 * BATCH as u32 {
            assert!(remove(&table, &time, (index, generation)));
        }
    }
    let given_out = table.totals().given_out as usize;
    assert!(given_out < 130 * BATCH, "{given_out} ids for 256 at a time");
}

/// What is removed after a stamp was taken, and before the batch has it, waits for a later one: here by the grace period's own code,
/// as it could be by another thread on the slot.
#[test]
fn what_is_removed_while_a_stamp_is_taken_waits_for_the_next_one() {
    struct Interrupted<'t> {
        table: &'t Table<u32>,
        removed_meanwhile: Cell<Option<(u32, u32)>>,
        stamps: Cell<u64>,
        over: Cell<u64>,
    }
    impl Time for Interrupted<'_> {
        fn slot(&self) -> CoreId {
            CoreId::new(0)
        }

        fn begin(&self) -> Period {
            let stamp = self.stamps.replace(self.stamps.get() + 1);
            if let Some((index, generation)) = self.removed_meanwhile.take() {
                let entry = self.table.unlink(index, generation).expect("it is there");
                self.table.retire(self, index, entry);
            }
            Period { stamp, ticket: 0 }
        }

        fn is_over(&self, period: Period, _look: bool) -> bool {
            period.stamp < self.over.get()
        }

        fn worth_a_look(&self) -> usize {
            BATCH
        }
    }
    let table = Table::new(64);
    let time = Interrupted {
        table: &table,
        removed_meanwhile: Cell::new(None),
        stamps: Cell::new(0),
        over: Cell::new(0),
    };
    let ids = [1, 2, 3].map(|value| table.insert(&time, value).expect("there are enough"));
    for (index, generation) in &ids[..2] {
        let entry = table.unlink(*index, *generation).expect("it is there");
        table.retire(&time, *index, entry);
    }
    time.removed_meanwhile.set(Some(ids[2]));
    assert_eq!(table.collect(&time), 0);
    assert_eq!(table.totals().unusable, 3);
    time.over.set(1);
    assert_eq!(table.collect(&time), 2, "those removed before the stamp");
    time.over.set(2);
    assert_eq!(table.collect(&time), 1);
}
