//! `PerCoreList`: items are neither lost nor doubled, and an empty answer is true.
#![cfg(not(percolog_loom))]

use crate::common::machine::{Machine, be_moved, stand_on};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::PerCoreList;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// The last two are in the second and third table of places.
const SLOTS: [u32; 5] = [0, 1, 2, 64, 200];

fn list() -> PerCoreList<u32, Machine> {
    PerCoreList::new_in(Machine::exact(&SLOTS))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Pop,
    PopNewest,
    PopOwn,
    TakeAll,
    Look,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        6 => Just(Step::Push),
        3 => Just(Step::Pop),
        2 => Just(Step::PopNewest),
        1 => Just(Step::PopOwn),
        1 => Just(Step::TakeAll),
        2 => Just(Step::Look),
    ];
    prop::collection::vec((0..SLOTS.len(), step), 0..120)
}

/// The plain structure: a queue for each slot.
#[derive(Default)]
struct Model(BTreeMap<u32, VecDeque<u32>>);

impl Model {
    fn own(&mut self, slot: u32) -> &mut VecDeque<u32> {
        self.0.entry(slot).or_default()
    }

    /// The oldest of the first list behind a slot that has any.
    fn steal(&mut self, slot: u32) -> Option<u32> {
        let behind = self.0.range(slot + 1..).map(|(slot, _)| *slot);
        let before = self.0.range(..=slot).map(|(slot, _)| *slot);
        let all: Vec<u32> = behind.chain(before).collect();
        all.into_iter()
            .find_map(|victim| self.own(victim).pop_front())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(300) as u32))]

    #[test]
    fn one_thread_finds_what_the_plain_structure_has(steps in steps()) {
        let (list, mut model) = (list(), Model::default());
        for (number, (slot, step)) in steps.into_iter().enumerate() {
            let (number, slot) = (number as u32, SLOTS[slot]);
            stand_on(slot);
            match step {
                Step::Push => {
                    list.push(number);
                    model.own(slot).push_back(number);
                }
                Step::Pop => {
                    let expected = model.own(slot).pop_front().or_else(|| model.steal(slot));
                    prop_assert_eq!(list.pop(), expected);
                }
                Step::PopNewest => {
                    let expected = model.own(slot).pop_back().or_else(|| model.steal(slot));
                    prop_assert_eq!(list.pop_newest(), expected);
                }
                Step::PopOwn => prop_assert_eq!(list.pop_own(), model.own(slot).pop_front()),
                Step::TakeAll => {
                    let expected: Vec<u32> = std::mem::take(&mut model.0)
                        .into_values()
                        .flatten()
                        .collect();
                    prop_assert_eq!(list.take_all(), expected);
                }
                Step::Look => {
                    let length: usize = model.0.values().map(VecDeque::len).sum();
                    prop_assert_eq!(list.len(), length);
                    prop_assert_eq!(list.estimate_len(), length);
                    prop_assert_eq!(list.is_empty(), length == 0);
                }
            }
        }
    }
}

#[test]
fn every_item_comes_out_once() {
    const THREADS: usize = 4;
    let each = share(20_000);
    let mut chance = fastrand::Rng::with_seed(seed());
    let list = &list();
    let mut popped: Vec<u32> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut chance = chance.fork();
                scope.spawn(move || {
                    stand_on(SLOTS[thread]);
                    be_moved(chance.u64(..));
                    let mut popped = Vec::new();
                    for number in 0..each {
                        list.push((thread * each + number) as u32);
                        match chance.u8(..64) {
                            0 => popped.extend(list.take_all()),
                            1..30 => popped.extend(list.pop()),
                            30..60 => popped.extend(list.pop_newest()),
                            _ => popped.extend(list.pop_own()),
                        }
                    }
                    popped
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    popped.extend(list.take_all());
    popped.sort_unstable();
    assert!(popped.into_iter().eq(0..(THREADS * each) as u32));
    assert!(list.is_empty());
}

/// Everybody pops after having pushed: at no moment are there more pops under way than items, so none of them may find nothing.
#[test]
fn who_pushed_before_finds_something() {
    let seed = seed();
    let list = &list();
    thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                be_moved(seed.wrapping_add(thread));
                for number in 0..share(20_000) {
                    list.push(number as u32);
                    assert!(list.pop().is_some());
                }
            });
        }
    });
    assert!(list.is_empty());
}

/// One item is always there, and wanders: it is put down on another core before it is taken from the one where it was.
#[test]
fn what_wanders_is_never_absent() {
    let list = &list();
    let (done, looks, wrong) = (
        &AtomicBool::new(false),
        &AtomicUsize::new(0),
        &AtomicUsize::new(0),
    );
    stand_on(SLOTS[0]);
    list.push(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let is_right = !list.is_empty() && (1..=2).contains(&list.len());
                    wrong.fetch_add(usize::from(!is_right), Ordering::Relaxed);
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (turns, least) = (share(30_000), share(1000));
        let mut turn = 0;
        while turn < turns || looks.load(Ordering::Relaxed) < least {
            stand_on(SLOTS[(turn + 1) % SLOTS.len()]);
            list.push(0);
            stand_on(SLOTS[turn % SLOTS.len()]);
            wrong.fetch_add(usize::from(list.pop_own().is_none()), Ordering::Relaxed);
            turn += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
}

/// What a thread left behind when it ended is popped by others; what nobody pops is dropped with the list.
#[test]
fn items_outlive_their_threads_and_are_dropped_once() {
    let item = Arc::new(());
    let list = PerCoreList::new();
    let together = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                together.wait();
                (0..100).for_each(|_| list.push(item.clone()));
            });
        }
    });
    assert_eq!(Arc::strong_count(&item), 401);
    (0..150).for_each(|_| drop(list.pop().expect("there are more")));
    assert_eq!(list.len(), 250);
    drop(list.take_all().split_off(100));
    assert_eq!(Arc::strong_count(&item), 1);
    (&list).extend([item.clone(), item.clone()]);
    assert_eq!(Arc::strong_count(&item), 3);
    assert_eq!(format!("{list:?}"), "PerCoreList { estimate_len: 2, .. }");
    drop(list);
    assert_eq!(Arc::strong_count(&item), 1);
}
