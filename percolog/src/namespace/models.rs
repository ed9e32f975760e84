//! Every interleaving of lookups, insertions, removals and growth, within loom's bounds.
//!
//! Sections here are words that say since when a thread is inside, and time is a counter: what the domain's own models show of
//! barriers and clocks is not shown again. Values are loom's cells, written when they are made and when they are dropped, so
//! a lookup whose value is dropped or replaced under it is found. What no model here can see: the allocator, and panics.

use super::InsertReason;
use super::table::{Table, Time};
use super::trie::Trie;
use crate::cpu::CoreId;
use crate::reclaim::Period;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{UnsafeCell, explore};
use core::cell::Cell;
use loom::sync::Arc;
use loom::thread;

loom::thread_local! {
    static SLOT: Cell<u32> = Cell::new(0);
}

fn stand_on(slot: u32) {
    SLOT.with(|mine| mine.set(slot));
}

/// Time, and two threads that can be in a section.
struct World {
    clock: AtomicU64,
    inside: [AtomicU64; 2],
}

impl World {
    fn new() -> Self {
        Self {
            clock: AtomicU64::new(1),
            inside: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Runs `f` in a section. Every access is an update, so that each sees the last one: what a fence would do.
    fn section<R>(&self, reader: usize, f: impl FnOnce() -> R) -> R {
        let now = self.clock.fetch_add(0, Ordering::AcqRel);
        self.inside[reader].swap(now, Ordering::AcqRel);
        let result = f();
        self.inside[reader].swap(0, Ordering::AcqRel);
        result
    }
}

impl Time for World {
    fn slot(&self) -> CoreId {
        SLOT.with(|mine| CoreId::new(mine.get()))
    }

    fn begin(&self) -> Period {
        Period {
            stamp: self.clock.fetch_add(1, Ordering::AcqRel),
            ticket: 0,
        }
    }

    fn is_over(&self, period: Period, _look: bool) -> bool {
        self.inside.iter().all(|reader| {
            let since = reader.fetch_add(0, Ordering::AcqRel);
            since == 0 || since > period.stamp
        })
    }

    fn worth_a_look(&self) -> usize {
        1
    }
}

/// A value that is written when it is made, and when it is dropped.
struct Value(UnsafeCell<u32>);

const GONE: u32 = u32::MAX;

impl Value {
    fn new(number: u32) -> Self {
        Self(UnsafeCell::new(number))
    }

    fn number(&self) -> u32 {
        // SAFETY: loom fails if somebody writes meanwhile.
        self.0.with(|number| unsafe { *number })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.0.with_mut(|number| unsafe { *number = GONE });
    }
}

type Subject = Table<Value>;

fn world(limit: u32) -> (Arc<World>, Arc<Subject>) {
    (Arc::new(World::new()), Arc::new(Table::new(limit)))
}

fn insert(table: &Subject, world: &World, number: u32) -> Result<(u32, u32), InsertReason> {
    table
        .insert(world, Value::new(number))
        .map_err(|(_, reason)| reason)
}

fn remove(table: &Subject, world: &World, (index, generation): (u32, u32)) -> bool {
    match table.unlink(index, generation) {
        Some(entry) => {
            table.retire(world, index, entry);
            true
        }
        None => false,
    }
}

fn read(table: &Subject, (index, generation): (u32, u32)) -> Option<u32> {
    let beginning = table.beginning();
    // SAFETY: called in a section; the beginning is the table's.
    unsafe {
        table
            .get_from(beginning, index, generation)
            .map(|entry| entry.value().number())
    }
}

fn spawn(
    slot: u32,
    (world, table): (&Arc<World>, &Arc<Subject>),
    f: impl FnOnce(&World, &Subject) + Send + 'static,
) -> thread::JoinHandle<()> {
    let (world, table) = (world.clone(), table.clone());
    thread::spawn(move || {
        stand_on(slot);
        f(&world, &table);
    })
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no thread of a model panics");
    }
}

/// Whoever looks up an id finds its value, while the trie grows above it and beside it.
#[test]
fn growth_against_lookups() {
    explore(|| {
        let (world, table) = world(16);
        let id = insert(&table, &world, 7).unwrap();
        let reader = spawn(0, (&world, &table), move |world, table| {
            world.section(0, || assert_eq!(read(table, id), Some(7)));
        });
        let grower = spawn(1, (&world, &table), |_, table| {
            table.trie.make(9).unwrap();
        });
        join([reader, grower]);
        assert_eq!(read(&table, id), Some(7));
    });
}

/// Two that make the trie higher, and hang something below it, lose nothing of each other's.
#[test]
fn growth_against_growth() {
    explore(|| {
        let trie: Arc<Trie<u32>> = Arc::new(Trie::new());
        trie.make(0).unwrap();
        trie.entry(0).next.store(77, Ordering::Relaxed);
        let threads = [3, 5].map(|index| {
            let trie = trie.clone();
            thread::spawn(move || {
                trie.make(index).unwrap();
                trie.entry(index).next.store(index, Ordering::Relaxed);
            })
        });
        join(threads);
        for (index, expected) in [(0, 77), (3, 3), (5, 5)] {
            assert_eq!(trie.entry(index).next.load(Ordering::Relaxed), expected);
        }
    });
}

/// Whoever has guessed an id finds nothing, or the whole value.
#[test]
fn what_is_found_was_written() {
    explore(|| {
        let (world, table) = world(2);
        let reader = spawn(0, (&world, &table), |world, table| {
            world.section(0, || assert!(matches!(read(table, (0, 3)), None | Some(7))));
        });
        let writer = spawn(1, (&world, &table), |world, table| {
            assert_eq!(insert(table, world, 7), Ok((0, 3)));
        });
        join([reader, writer]);
    });
}

/// Two slots that take ids at once get different ones.
#[test]
fn insertions_on_two_slots() {
    explore(|| {
        let (world, table) = world(4);
        let threads = [0, 1].map(|slot| {
            spawn(slot, (&world, &table), move |world, table| {
                let id = insert(table, world, slot).unwrap();
                world.section(slot as usize, || assert_eq!(read(table, id), Some(slot)));
            })
        });
        join(threads);
        assert_eq!(table.totals().inserted, 2);
    });
}

/// A section that has found a value has it until it ends, while the value is removed, dropped, and its place used again; and under
/// the id it never finds another's.
#[test]
fn removal_and_reuse_against_lookups() {
    explore(|| {
        let (world, table) = world(1);
        let id = insert(&table, &world, 7).unwrap();
        let reader = spawn(0, (&world, &table), move |world, table| {
            world.section(0, || {
                if let Some(entry) = table.get(id.0, id.1) {
                    thread::yield_now();
                    // SAFETY: in a section.
                    assert_eq!(unsafe { entry.value().number() }, 7);
                }
                assert!(matches!(read(table, id), None | Some(7)));
            });
        });
        let writer = spawn(1, (&world, &table), move |world, table| {
            assert!(remove(table, world, id));
            // There is one id: either the section is in the way, or it is used again.
            if let Ok(other) = insert(table, world, 8) {
                assert_ne!(other, id);
                world.section(1, || assert_eq!(read(table, other), Some(8)));
            }
        });
        join([reader, writer]);
        assert_eq!(read(&table, id), None);
    });
}

/// Of two that remove one id one does.
#[test]
fn two_removers() {
    explore(|| {
        let (world, table) = world(2);
        let id = insert(&table, &world, 7).unwrap();
        let removed = Arc::new(AtomicU64::new(0));
        let threads = [0, 1].map(|slot| {
            let removed = removed.clone();
            spawn(slot, (&world, &table), move |world, table| {
                removed.fetch_add(u64::from(remove(table, world, id)), Ordering::Relaxed);
            })
        });
        join(threads);
        assert_eq!(removed.load(Ordering::Relaxed), 1);
        assert_eq!(table.totals().removed, 1);
    });
}

/// Nobody is told that no id is left while one is free: not while another slot gives some back, or takes some.
#[test]
fn free_ids_are_found_on_other_slots() {
    explore(|| {
        // Without destructors: whose value is just being dropped has an id.
        let (world, table) = (Arc::new(World::new()), Arc::new(Table::<u32>::new(2)));
        let turn = |world: &World, table: &Table<u32>| {
            let (index, generation) = table.insert(world, 7).expect("there is one for each");
            let entry = table.unlink(index, generation).expect("it is there");
            table.retire(world, index, entry);
        };
        // Both ids are on slot 0, and one waits.
        turn(&world, &table);
        let threads = [0, 1].map(|slot| {
            let (world, table) = (world.clone(), table.clone());
            thread::spawn(move || {
                stand_on(slot);
                turn(&world, &table);
            })
        });
        join(threads);
        table.collect(&*world);
        assert_eq!(table.totals().free, 2);
    });
}

/// An extent and single ids, taken and given back at once: nobody gets what another has, and what is free again is joined.
#[test]
fn extents_against_single_ids() {
    explore(|| {
        let (world, table) = world(4);
        let threads = [
            spawn(0, (&world, &table), |world, table| {
                let (base, generation) = table.insert_extent(world, 2, Value::new).unwrap();
                world.section(0, || {
                    assert_eq!(read(table, (base, generation)), Some(0));
                    assert_eq!(read(table, (base + 1, generation)), Some(1));
                });
                for offset in 0..2 {
                    assert!(remove(table, world, (base + offset, generation)));
                }
            }),
            spawn(1, (&world, &table), |world, table| {
                let id = insert(table, world, 9).unwrap();
                world.section(1, || assert_eq!(read(table, id), Some(9)));
                assert!(remove(table, world, id));
            }),
        ];
        join(threads);
        assert!(table.insert_extent(&*world, 4, Value::new).is_ok());
    });
}
