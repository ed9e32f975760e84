//! Every interleaving of lookups, sets, evictions and deletes, within loom's bounds.
//!
//! Sections here are words that say since when a thread is inside, and time is a counter: what the domain's own models show of
//! barriers and clocks is not shown again. Values are loom's cells, written when they are made and when they are dropped, so
//! a lookup whose value is destroyed under it is found; so is a lock that two wait for in a circle. Lists have room for one or two
//! items, a ring for two notes. What no model here can see: the slab, panics, and statistics.

use super::core::{Condition, Core, Gone, Put, Unfit};
use super::lists::Lists;
use super::notes::Slots;
use super::table::{FOR_EVER, Node, REPLACED, Table};
use super::time::FrozenTime;
use crate::cpu::lease::Who;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{UnsafeCell, explore};
use alloc::boxed::Box;
use core::ptr::NonNull;
use loom::sync::Arc;
use loom::thread;

/// A value that is written when it is made, and when it is dropped.
struct Value(UnsafeCell<u32>);

const GONE: u32 = u32::MAX;

impl Value {
    fn new(number: u32) -> Self {
        let value = Self(UnsafeCell::new(0));
        // SAFETY: nobody else has it.
        value.0.with_mut(|place| unsafe { *place = number });
        value
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

type Items = Core<u8, Value>;

/// A cache, time, and two threads that can be in a section.
struct World {
    clock: AtomicU64,
    inside: [AtomicU64; 2],
    items: Items,
}

/// Keys below 4 have one chain, the others another one. In each, pairs of keys have the same hash.
fn hash(key: u8) -> u64 {
    u64::from(key >> 2 & 1) << 63 | u64::from(key >> 1 & 1) << 1 | 1
}

impl World {
    /// With room for so many items.
    fn new(room: usize) -> Arc<Self> {
        Arc::new(Self {
            clock: AtomicU64::new(1),
            inside: core::array::from_fn(|_| AtomicU64::new(0)),
            items: Core {
                table: Table::new(1).expect("there is memory"),
                lists: Lists::new(1, room, 1).expect("there is memory"),
                slots: Slots::new(),
            },
        })
    }

    /// Runs `f` in a section. Every access is an update, so that each sees the last one: what a fence would do.
    fn section<R>(&self, reader: usize, f: impl FnOnce() -> R) -> R {
        let now = self.clock.fetch_add(0, Ordering::AcqRel);
        self.inside[reader].swap(now, Ordering::AcqRel);
        let result = f();
        self.inside[reader].swap(0, Ordering::AcqRel);
        result
    }

    /// Destroys what was taken out, unless it can be seen; then it is leaked.
    fn retire(&self, gone: &mut Gone<u8, Value>) {
        while let Some(node) = gone.pop() {
            let stamp = self.clock.fetch_add(1, Ordering::AcqRel);
            let is_over = self.inside.iter().all(|reader| {
                let since = reader.fetch_add(0, Ordering::AcqRel);
                since == 0 || since > stamp
            });
            if is_over {
                // SAFETY: from a box, taken out, and seen by nobody.
                drop(unsafe { Box::from_raw(node.as_ptr()) });
            }
        }
    }

    fn put(
        &self,
        thread: usize,
        key: u8,
        number: u32,
        condition: Condition<NonNull<Node<u8, Value>>>,
    ) -> Result<u64, Unfit> {
        let value = Value::new(number);
        let node = Box::into_raw(Box::new(Node::new(hash(key), key, value, 1, FOR_EVER)));
        let node = NonNull::new(node).expect("a box is somewhere");
        loop {
            let mut gone = Gone::new();
            let who = Who::Leased(thread);
            let put = self.section(thread, || {
                // SAFETY: in a section; the node is ours.
                unsafe {
                    let items = &self.items;
                    items.put(who, node, condition, &FrozenTime, &mut gone)
                }
            });
            self.retire(&mut gone);
            match put {
                Ok(Put::Done(version)) => return Ok(version),
                Ok(Put::More) => {}
                Ok(Put::Overtaken) => {
                    // SAFETY: not linked.
                    drop(unsafe { Box::from_raw(node.as_ptr()) });
                    return Ok(REPLACED);
                }
                Err(unfit) => {
                    // SAFETY: not linked.
                    drop(unsafe { Box::from_raw(node.as_ptr()) });
                    return Err(unfit);
                }
            }
        }
    }

    fn set(&self, thread: usize, key: u8, number: u32) -> u64 {
        let set = self.put(thread, key, number, Condition::Always);
        set.expect("it has no condition")
    }

    fn get(&self, thread: usize, key: u8) -> Option<u32> {
        self.section(thread, || {
            let who = Who::Leased(thread);
            // SAFETY: in a section.
            unsafe {
                let found = self
                    .items
                    .hit(who, hash(key), &FrozenTime, |other| *other == key);
                found.map(|node| node.as_ref().value.number())
            }
        })
    }

    fn delete(&self, thread: usize, key: u8) -> bool {
        let mut gone = Gone::new();
        let deleted = self.section(thread, || {
            let (who, is_key) = (Who::Leased(thread), |other: &u8| *other == key);
            // SAFETY: in a section.
            unsafe {
                let items = &self.items;
                items.remove(who, hash(key), &FrozenTime, is_key, &mut gone)
            }
        });
        self.retire(&mut gone);
        deleted
    }

    /// What the lists say is what is there; then everything is dropped.
    fn check(&self, keys: &[u8]) {
        let there = keys.iter().filter(|key| self.get(0, **key).is_some());
        let count = there.count();
        assert_eq!(self.items.lists.items(), count);
        assert_eq!(self.items.lists.bytes(), count);
        assert!(count <= self.items.lists.share);
        let mut from = Some(0);
        while let Some(place) = from {
            let mut gone = Gone::new();
            from = self.items.clear(0, place, &mut gone);
            self.retire(&mut gone);
        }
        assert_eq!((self.items.lists.items(), self.items.lists.bytes()), (0, 0));
    }
}

fn both<A: 'static, B: 'static>(
    world: &Arc<World>,
    first: impl FnOnce(&World) -> A + 'static,
    second: impl FnOnce(&World) -> B + 'static,
) -> (A, B) {
    let first = thread::spawn({
        let world = world.clone();
        move || first(&world)
    });
    let second = thread::spawn({
        let world = world.clone();
        move || second(&world)
    });
    (
        first.join().expect("no thread of a model panics"),
        second.join().expect("no thread of a model panics"),
    )
}

/// What a lookup has found is not destroyed under it, and it finds what was there.
#[test]
fn lookups_against_eviction() {
    explore(|| {
        let world = World::new(1);
        world.set(0, 0, 1);
        let (seen, _) = both(&world, |world| world.get(0, 0), |world| world.set(1, 4, 2));
        assert!(matches!(seen, None | Some(1)));
        assert_eq!((world.get(0, 0), world.get(0, 4)), (None, Some(2)));
        world.check(&[0, 4]);
    });
}

/// An item that is replaced is never missed, nor one behind an item that is replaced or taken out.
#[test]
fn lookups_against_sets_and_deletes() {
    for (first, second) in [(0, 2), (2, 0)] {
        explore(move || {
            let world = World::new(2);
            world.set(0, first, 1);
            world.set(0, second, 1);
            let (seen, _) = both(
                &world,
                |world| [world.get(0, 0), world.get(0, 0)],
                |world| {
                    world.delete(1, 2);
                    world.set(1, 0, 2);
                },
            );
            let [before, after] = seen.map(|number| number.expect("it is there"));
            assert!(1 <= before && before <= after && after <= 2);
            world.check(&[0, 2]);
        });
    }
}

/// Both are there, one after the other.
#[test]
fn sets_of_one_key() {
    for there in [true, false] {
        explore(move || {
            let world = World::new(1);
            if there {
                world.set(0, 0, 1);
            }
            let (one, other) = both(
                &world,
                |world| world.set(0, 0, 2),
                |world| world.set(1, 0, 3),
            );
            assert_ne!(one, other);
            let last = if one > other { 2 } else { 3 };
            assert_eq!(world.get(0, 0), Some(last));
            world.check(&[0]);
        });
    }
}

/// A set is overtaken only by another set: one that changes a certain item comes before it, or not at all.
#[test]
fn sets_against_changes_of_one_item() {
    explore(|| {
        let world = World::new(1);
        let version = world.set(0, 0, 1);
        both(
            &world,
            |world| world.set(0, 0, 2),
            move |world| world.put(1, 0, 3, Condition::Version(version)).is_ok(),
        );
        assert_eq!(world.get(0, 0), Some(2));
        world.check(&[0]);
    });
}

/// Of two that add one succeeds.
#[test]
fn additions_of_one_key() {
    explore(|| {
        let world = World::new(1);
        let (one, other) = both(
            &world,
            |world| world.put(0, 0, 2, Condition::Absent),
            |world| world.put(1, 0, 3, Condition::Absent),
        );
        assert_eq!(
            (one.is_ok(), other.err()),
            (other.is_err(), one.is_ok().then_some(Unfit::Present))
        );
        world.check(&[0]);
    });
}

/// One item is evicted and deleted, or evicted and replaced: once, and the sums are right.
#[test]
fn eviction_against_deletes_and_sets() {
    for replaced in [false, true] {
        explore(move || {
            let world = World::new(1);
            world.set(0, 0, 1);
            both(
                &world,
                move |world| {
                    if replaced {
                        world.set(0, 0, 2);
                    } else {
                        world.delete(0, 0);
                    }
                },
                |world| world.set(1, 4, 3),
            );
            if !replaced {
                assert_eq!((world.get(0, 0), world.get(0, 4)), (None, Some(3)));
            }
            world.check(&[0, 4]);
        });
    }
}

/// Two threads make room at once, each in the other's chain.
#[test]
fn evictions_from_each_others_chains() {
    explore(|| {
        let world = World::new(2);
        world.set(0, 0, 1);
        world.set(0, 4, 1);
        both(
            &world,
            |world| world.set(0, 1, 2),
            |world| world.set(1, 5, 3),
        );
        world.check(&[0, 1, 4, 5]);
    });
}

/// What is noted is read, or a later note in its place; never what was not noted.
#[test]
fn notes_against_who_reads_them() {
    explore(|| {
        let world = World::new(1);
        let read = |world: &World| {
            let mut notes = alloc::vec::Vec::new();
            world.items.slots.read(|note| notes.push(note));
            notes
        };
        let (_, first) = both(
            &world,
            |world| {
                for hash in [3, 5, 7] {
                    world.items.slots.of(Who::Leased(0)).note(hash);
                }
            },
            read,
        );
        assert!(first.iter().all(|note| [3, 5, 7].contains(note)));
        let rest = read(&world);
        assert!(first.contains(&7) || rest.contains(&7));
        assert!(read(&world).is_empty());
    });
}
