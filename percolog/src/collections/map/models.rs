//! Every interleaving of two threads that change neighbouring entries, and of changes and lookups, within loom's bounds.
//!
//! Sections here are words that say since when a thread is inside, and time is a counter: what the domain's own models show of
//! barriers and clocks is not shown again. Keys and values are loom's cells, written when they are made and when they are dropped:
//! a walk that comes to what is destroyed, or to what it cannot see whole, is a race that loom reports. What no model here can
//! see: that all threads agree on the order of changes of different entries (loom's loads may be older than that), the allocator,
//! and panics.

use super::buckets::{Buckets, order_of_entry};
use super::list::{self, Inserted, Lack, Refused};
use super::node::{Entry, Node, PLAIN, Room, Spot};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{UnsafeCell, explore};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering as Compared;
use core::ptr::NonNull;
use loom::sync::Arc;
use loom::thread;
use std::sync::Mutex;

/// A number that is written when it is made, and when it is dropped.
struct Cell(UnsafeCell<u32>);

const GONE: u32 = u32::MAX;

impl Cell {
    fn new(number: u32) -> Self {
        Self(UnsafeCell::new(number))
    }

    fn get(&self) -> u32 {
        // SAFETY: loom fails if somebody writes meanwhile.
        let number = self.0.with(|number| unsafe { *number });
        assert_ne!(number, GONE);
        number
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.0.with_mut(|number| unsafe { *number = GONE });
    }
}

type Item = Entry<Cell, Cell>;

/// A list, time, and two threads that can be in a section.
struct World {
    head: Node,
    buckets: Buckets,
    clock: AtomicU64,
    inside: [AtomicU64; 2],
    /// What was retired, and when.
    waiting: Mutex<Vec<(u64, NonNull<Item>)>>,
}

// SAFETY: nodes are `Sync`, and loom sees to it that their cells are not used by two.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl Room<Item> for World {
    type Owned = Box<Item>;

    fn insert(&self, entry: Item) -> Result<Box<Item>, (Item, Option<usize>)> {
        Ok(Box::new(entry))
    }

    fn into_raw(owned: Box<Item>) -> NonNull<Item> {
        NonNull::from(Box::leak(owned))
    }

    fn into_inner(owned: Box<Item>) -> Item {
        *owned
    }

    unsafe fn retire(&self, entry: NonNull<Item>) {
        let now = self.clock.fetch_add(1, Ordering::AcqRel);
        self.waiting.lock().expect("no panics").push((now, entry));
    }

    unsafe fn destroy(entry: NonNull<Item>) {
        // SAFETY: made by `into_raw`, and nobody else has it.
        drop(unsafe { Box::from_raw(entry.as_ptr()) });
    }
}

fn by_hash(one: &Cell, other: &Cell) -> Compared {
    if one.get() == other.get() {
        Compared::Equal
    } else {
        Compared::Less
    }
}

impl World {
    fn new(keys: &[u32]) -> Arc<Self> {
        let world = Self {
            head: Node::head(),
            buckets: Buckets::new(0),
            clock: AtomicU64::new(1),
            inside: core::array::from_fn(|_| AtomicU64::new(0)),
            waiting: Mutex::default(),
        };
        for key in keys {
            assert_eq!(world.add(*key, 10 * key, false), Ok(false));
        }
        Arc::new(world)
    }

    fn head(&self) -> Spot {
        Spot::from(&self.head)
    }

    /// Runs `f` in a section, and destroys what can be destroyed. Every access is an update, so that each sees the last one: what a
    /// fence would do.
    fn section<R>(&self, thread: usize, f: impl FnOnce() -> R) -> R {
        let now = self.clock.fetch_add(0, Ordering::AcqRel);
        self.inside[thread].swap(now, Ordering::AcqRel);
        let result = f();
        self.inside[thread].swap(0, Ordering::AcqRel);
        let mut waiting = core::mem::take(&mut *self.waiting.lock().expect("no panics"));
        waiting.retain(|(retired, entry)| {
            let is_over = self.inside.iter().all(|since| {
                let since = since.fetch_add(0, Ordering::AcqRel);
                since == 0 || since > *retired
            });
            if is_over {
                // SAFETY: nobody has it, which loom checks.
                unsafe { Self::destroy(*entry) };
            }
            !is_over
        });
        self.waiting.lock().expect("no panics").extend(waiting);
        result
    }

    fn add(&self, key: u32, value: u32, replace: bool) -> Result<bool, ()> {
        let item = (Cell::new(key), Cell::new(value));
        // SAFETY: in a section, or before there are threads.
        let added = unsafe {
            list::insert(
                self,
                (self.head(), PLAIN),
                item,
                replace,
                &mut 0,
                |one, other| one.get().cmp(&other.get()),
            )
        };
        self.settle(added)
    }

    /// Retires what was replaced; whether anything was.
    fn settle(&self, added: Result<Inserted<Cell, Cell>, Refused<Cell, Cell>>) -> Result<bool, ()> {
        let added = added.map_err(|refused| assert!(matches!(refused.lack, Lack::Exists(_))))?;
        if let Some(replaced) = added.replaced {
            // SAFETY: taken out for this.
            unsafe { self.retire(replaced) };
        }
        Ok(added.replaced.is_some())
    }

    fn look(&self, key: u32) -> Option<u32> {
        // SAFETY: in a section, or when all threads have ended.
        unsafe {
            let position = list::find(self.head(), PLAIN, &mut 0, |at| {
                list::entry::<Cell, Cell>(at).key.get().cmp(&key)
            });
            position
                .found
                .then(|| position.entry::<Cell, Cell>().value.get())
        }
    }

    fn delete(&self, key: u32) -> Option<u32> {
        // SAFETY: in a section.
        unsafe {
            let compare = |other: &Cell| other.get().cmp(&key);
            let removed = list::remove::<Cell, Cell>(self.head(), PLAIN, compare, |_| true)?;
            let value = removed.as_ref().value.get();
            self.retire(removed);
            Some(value)
        }
    }

    fn replace_locked(&self, key: u32, value: u32) -> bool {
        let compare = |other: &Cell| other.get().cmp(&key);
        // SAFETY: in a section.
        unsafe {
            let Some(locked) = list::lock::<Cell, Cell>(self.head(), PLAIN, compare) else {
                return false;
            };
            let fresh = Box::new(Entry::new(PLAIN, Cell::new(key), Cell::new(value)));
            locked.replace(self, self.head(), fresh);
            true
        }
    }

    fn modify(&self, key: u32, value: u32) -> bool {
        let compare = |other: &Cell| other.get().cmp(&key);
        // SAFETY: in a section.
        unsafe {
            let locked = list::lock::<Cell, Cell>(self.head(), PLAIN, compare);
            locked.is_some_and(|locked| {
                let cell = &locked.entry().value.0;
                // SAFETY: under the lock, and nobody looks here without.
                cell.with_mut(|number| *number = value);
                true
            })
        }
    }

    /// Adds to the map.
    fn add_hashed(&self, hash: u64, key: u32) -> Result<bool, ()> {
        let item = (Cell::new(key), Cell::new(10 * key));
        // SAFETY: in a section, or before there are threads.
        let added = unsafe {
            let start = self.buckets.start_to_add(self.head(), hash);
            let place = (start, order_of_entry(hash));
            list::insert(self, place, item, false, &mut 0, by_hash)
        };
        self.settle(added)
    }

    fn look_hashed(&self, hash: u64, key: u32) -> Option<u32> {
        let start = self.buckets.start(self.head(), hash);
        // SAFETY: in a section, or when all threads have ended.
        unsafe {
            let position =
                list::find(start, order_of_entry(hash), &mut 0, |at| {
                    match list::entry::<Cell, Cell>(at).key.get() == key {
                        true => Compared::Equal,
                        false => Compared::Less,
                    }
                });
            position
                .found
                .then(|| position.entry::<Cell, Cell>().value.get())
        }
    }

    /// When all threads have ended.
    fn keys(&self) -> Vec<u32> {
        let mut keys = Vec::new();
        let mut at = self.head();
        // SAFETY: nobody changes anything.
        while let Some((next, is_entry)) = unsafe { list::next(at) } {
            if is_entry {
                // SAFETY: as above.
                keys.push(unsafe { list::entry::<Cell, Cell>(next) }.key.get());
            }
            at = next;
        }
        keys
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: nobody else uses it.
        unsafe { list::destroy::<Cell, Cell, Self>(&self.head) };
        for (_, entry) in self.waiting.get_mut().expect("no panics").drain(..) {
            // SAFETY: as above.
            unsafe { Self::destroy(entry) };
        }
    }
}

/// What two threads come to, each in a section of its own.
fn both<A: 'static, B: 'static>(
    world: &Arc<World>,
    first: impl FnOnce(&World) -> A + 'static,
    second: impl FnOnce(&World) -> B + 'static,
) -> (A, B) {
    let one = thread::spawn({
        let world = world.clone();
        move || world.section(0, || first(&world))
    });
    let other = thread::spawn({
        let world = world.clone();
        move || world.section(1, || second(&world))
    });
    let joined = (one.join(), other.join());
    (
        joined.0.expect("no thread of a model panics"),
        joined.1.expect("no thread of a model panics"),
    )
}

#[test]
fn neighbours_are_both_added() {
    explore(|| {
        let world = World::new(&[]);
        let added = both(&world, |w| w.add(1, 10, false), |w| w.add(2, 20, false));
        assert_eq!(added, (Ok(false), Ok(false)));
        assert_eq!(world.keys(), [1, 2]);
    });
}

#[test]
fn of_two_that_add_one_key_one_succeeds() {
    explore(|| {
        let world = World::new(&[]);
        let (one, other) = both(&world, |w| w.add(1, 10, false), |w| w.add(1, 11, false));
        assert!(one.is_ok() != other.is_ok());
        assert_eq!(world.look(1), Some(if one.is_ok() { 10 } else { 11 }));
        assert_eq!(world.keys(), [1]);
    });
}

/// The node that the new one is linked behind is just being taken out.
#[test]
fn what_is_added_behind_a_deleted_entry_is_there() {
    explore(|| {
        let world = World::new(&[1, 3]);
        let done = both(&world, |w| w.add(2, 20, false), |w| w.delete(1));
        assert_eq!(done, (Ok(false), Some(10)));
        assert_eq!(world.keys(), [2, 3]);
    });
}

/// The node in front of it is just becoming another one.
#[test]
fn what_is_deleted_behind_an_added_entry_is_gone() {
    explore(|| {
        let world = World::new(&[2]);
        let done = both(&world, |w| w.add(1, 10, false), |w| w.delete(2));
        assert_eq!(done, (Ok(false), Some(20)));
        assert_eq!(world.keys(), [1]);
    });
}

#[test]
fn neighbours_are_both_deleted() {
    explore(|| {
        let world = World::new(&[1, 2, 3]);
        let deleted = both(&world, |w| w.delete(1), |w| w.delete(2));
        assert_eq!(deleted, (Some(10), Some(20)));
        assert_eq!(world.keys(), [3]);
    });
}

#[test]
fn an_entry_is_deleted_once() {
    explore(|| {
        let world = World::new(&[1]);
        let (one, other) = both(&world, |w| w.delete(1), |w| w.delete(1));
        assert!(one.is_some() != other.is_some());
        assert!(world.keys().is_empty());
    });
}

#[test]
fn a_lookup_finds_what_is_there_while_all_in_front_of_it_is_deleted() {
    explore(|| {
        let world = World::new(&[1, 2, 3]);
        let (found, deleted) = both(
            &world,
            |w| (w.look(3), w.look(2)),
            |w| (w.delete(1), w.delete(2)),
        );
        assert_eq!(found.0, Some(30));
        assert!(matches!(found.1, None | Some(20)));
        assert_eq!(deleted, (Some(10), Some(20)));
    });
}

#[test]
fn a_lookup_finds_the_old_value_or_the_new_one() {
    explore(|| {
        let world = World::new(&[1]);
        let (found, replaced) = both(&world, |w| [w.look(1), w.look(1)], |w| w.add(1, 11, true));
        assert_eq!(replaced, Ok(true));
        assert!(found == [Some(10); 2] || found == [Some(11); 2] || found == [Some(10), Some(11)]);
        assert_eq!(world.keys(), [1]);
    });
}

#[test]
fn what_is_replaced_or_deleted_leaves_its_neighbour_alone() {
    explore(|| {
        let world = World::new(&[1, 2]);
        let done = both(&world, |w| w.replace_locked(2, 21), |w| w.delete(1));
        assert_eq!(done, (true, Some(10)));
        assert_eq!((world.keys(), world.look(2)), (alloc::vec![2], Some(21)));
    });
}

/// What is written under the lock is seen by who deletes the entry, or the entry is gone.
#[test]
fn who_has_an_entry_excludes_who_deletes_it() {
    explore(|| {
        let world = World::new(&[1, 2]);
        let (modified, deleted) = both(&world, |w| w.modify(2, 21), |w| w.delete(2));
        assert_eq!(deleted, Some(if modified { 21 } else { 20 }));
        assert_eq!(world.keys(), [1]);
    });
}

/// Whoever comes second changes what the first one has left.
#[test]
fn one_entry_is_replaced_and_deleted() {
    explore(|| {
        let world = World::new(&[1]);
        let (replaced, deleted) = both(&world, |w| w.replace_locked(1, 11), |w| w.delete(1));
        assert_eq!(deleted, Some(if replaced { 11 } else { 10 }));
        assert!(world.keys().is_empty());
    });
}

const IN_1: u64 = 0b01;
const IN_3: u64 = 0b11;

/// Both link bucket 1, and what either adds there is found from it and from the head.
#[test]
fn a_bucket_is_linked_once() {
    explore(|| {
        let world = World::new(&[]);
        let added = both(&world, |w| w.add_hashed(IN_1, 1), |w| w.add_hashed(IN_3, 3));
        assert_eq!(added, (Ok(false), Ok(false)));
        assert_eq!(world.keys(), [1, 3]);
        assert_eq!(world.look_hashed(IN_1, 1), Some(10));
        assert_eq!(world.look_hashed(IN_3, 3), Some(30));
    });
}

/// Entries that were there before a bucket was split are found while it is, and from the bucket that is new.
#[test]
fn a_lookup_finds_what_is_there_while_its_bucket_is_linked() {
    explore(|| {
        let world = World::new(&[]);
        assert_eq!(world.add_hashed(IN_3, 3), Ok(false));
        world.buckets.grow(2);
        let (found, added) = both(
            &world,
            |w| w.look_hashed(IN_3, 3),
            |w| w.add_hashed(IN_3, 7),
        );
        assert_eq!((found, added), (Some(30), Ok(false)));
        assert_eq!(world.keys(), [3, 7]);
        assert_eq!(world.look_hashed(IN_3, 3), Some(30));
    });
}

/// What lies where the bucket's sentinel comes is deleted meanwhile.
#[test]
fn a_bucket_is_linked_beside_what_is_deleted() {
    explore(|| {
        let world = World::new(&[]);
        assert_eq!(world.add_hashed(0, 8), Ok(false));
        let (added, deleted) = both(
            &world,
            |w| w.add_hashed(IN_1, 1),
            |w| {
                let start = w.buckets.start(w.head(), 0);
                // SAFETY: in a section.
                unsafe {
                    let removed = list::remove::<Cell, Cell>(
                        start,
                        order_of_entry(0),
                        |key| by_hash(key, &Cell::new(8)),
                        |_| true,
                    );
                    removed.is_some_and(|removed| {
                        w.retire(removed);
                        true
                    })
                }
            },
        );
        assert_eq!((added, deleted), (Ok(false), true));
        assert_eq!(world.keys(), [1]);
        assert_eq!(world.look_hashed(IN_1, 1), Some(10));
    });
}
