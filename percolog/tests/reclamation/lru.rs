//! `Lru`: the order is exactly that of the last touches, and what is lost is counted.
#![cfg(not(percolog_loom))]

use crate::common::history::{is_linearizable, record, together};
use crate::common::machine::{Machine, be_moved, stand_on};
use crate::common::model::{Act, Model, Sequential};
use crate::common::seed::seed;
use crate::common::share::share;
use percolog::collections::{Lru, LruBuilder};
use percolog::oplog::Mode;
use proptest::prelude::*;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

type Hashing = BuildHasherDefault<DefaultHasher>;

const SLOTS: [u32; 4] = [0, 1, 2, 64];

fn build<K: std::hash::Hash + Eq + Send>(builder: LruBuilder) -> Lru<K, Hashing, Machine> {
    builder.build_in(Hashing::default(), Machine::exact(&SLOTS))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Touch(u8),
    Insert(u8),
    Remove(u8),
    Evict,
    EvictMany(usize),
    EvictBeyond(usize),
    Drain(usize),
    Look(u8),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        10 => (0..10u8).prop_map(Step::Touch),
        5 => (0..10u8).prop_map(Step::Insert),
        2 => (0..10u8).prop_map(Step::Remove),
        1 => Just(Step::Evict),
        1 => (0..4usize).prop_map(Step::EvictMany),
        1 => (0..8usize).prop_map(Step::EvictBeyond),
        1 => (0..8usize).prop_map(Step::Drain),
        1 => (0..10u8).prop_map(Step::Look),
    ];
    prop::collection::vec((0..SLOTS.len(), step), 0..150)
}

/// The plain structure: keys in order, the one touched longest ago first.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plain(Vec<u8>);

impl Plain {
    fn remove(&mut self, key: u8) -> bool {
        let before = self.0.len();
        self.0.retain(|other| *other != key);
        self.0.len() < before
    }

    fn insert(&mut self, key: u8) {
        self.remove(key);
        self.0.push(key);
    }

    fn touch(&mut self, key: u8) {
        if self.remove(key) {
            self.0.push(key);
        }
    }

    fn evict(&mut self, keys: usize) -> Vec<u8> {
        self.0.drain(..keys.min(self.0.len())).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(400) as u32))]

    #[test]
    fn one_thread_finds_the_order_of_the_plain_structure(
        steps in steps(),
        limit in 1..12usize,
        lossless: bool,
    ) {
        let mode = [Mode::Adaptive, Mode::Deferring, Mode::Restless][limit % 3];
        let builder = LruBuilder::new().limit(limit).mode(mode);
        let (lru, mut plain) = (build(if lossless { builder.lossless() } else { builder }), Plain::default());
        for (slot, step) in steps {
            stand_on(SLOTS[slot]);
            match step {
                Step::Touch(key) => {
                    lru.touch(key);
                    plain.touch(key);
                }
                Step::Insert(key) => {
                    lru.insert(key);
                    plain.insert(key);
                }
                Step::Remove(key) => {
                    lru.remove(key);
                    plain.remove(key);
                }
                Step::Evict => prop_assert_eq!(lru.evict(), plain.evict(1).pop()),
                Step::EvictMany(keys) => prop_assert_eq!(lru.evict_many(keys), plain.evict(keys)),
                Step::EvictBeyond(keys) => {
                    let beyond = plain.0.len().saturating_sub(keys);
                    prop_assert_eq!(lru.evict_beyond(keys), plain.evict(beyond));
                }
                Step::Drain(budget) => drop(lru.drain(budget)),
                Step::Look(key) => {
                    prop_assert_eq!(lru.contains(&key), plain.0.contains(&key));
                    prop_assert_eq!((lru.len(), lru.is_empty()), (plain.0.len(), plain.0.is_empty()));
                }
            }
        }
        prop_assert_eq!(lru.order(), plain.0);
        // Nobody else has it.
        prop_assert_eq!(lru.stats().discarded, 0);
    }
}

#[derive(Clone, Debug)]
enum Update {
    Touch(u8),
    Insert(u8),
    Remove(u8),
    /// With the answer.
    Evict(Option<u8>),
}

struct Recency;

/// In no order: an eviction had another answer here.
const IMPOSSIBLE: u8 = u8::MAX;

impl Model for Recency {
    type State = Vec<u8>;
    type Update = Update;
    fn apply(update: &Update, state: &mut Vec<u8>) {
        let mut plain = Plain(std::mem::take(state));
        match update {
            Update::Touch(key) => plain.touch(*key),
            Update::Insert(key) => plain.insert(*key),
            Update::Remove(key) => drop(plain.remove(*key)),
            Update::Evict(key) => {
                if plain.evict(1).pop() != *key {
                    plain.insert(IMPOSSIBLE);
                }
            }
        }
        *state = plain.0;
    }
}

/// Lossless, so that each touch is to be found in the order; and limits so small that most operations merge.
#[test]
fn touches_and_evictions_are_linearizable() {
    const THREADS: usize = 3;
    let mut chance = fastrand::Rng::with_seed(seed());
    for window in 0..share(150) {
        let mode = [Mode::Adaptive, Mode::Deferring, Mode::Restless][chance.usize(0..3)];
        let builder = LruBuilder::new()
            .limit(chance.usize(1..=4))
            .lossless()
            .mode(mode);
        let lru = &build(builder);
        (0..3).for_each(|key| lru.insert(key));
        let mut history = Vec::new();
        record(0, &mut history, || Some(Act::Start(lru.order())));
        history.extend(together(THREADS, &mut chance, |process, chance, mine| {
            stand_on(SLOTS[process]);
            be_moved(chance.u64(..));
            for _ in 0..4 {
                let key = chance.u8(..4);
                record(process, mine, || match chance.u8(..10) {
                    0..4 => {
                        lru.touch(key);
                        Some(Act::Update(Update::Touch(key)))
                    }
                    4..6 => {
                        lru.insert(key);
                        Some(Act::Update(Update::Insert(key)))
                    }
                    6 => {
                        lru.remove(key);
                        Some(Act::Update(Update::Remove(key)))
                    }
                    7 | 8 => Some(Act::Update(Update::Evict(lru.evict()))),
                    _ => Some(Act::Read(lru.order())),
                });
            }
        }));
        record(0, &mut history, || Some(Act::Read(lru.order())));
        assert!(
            is_linearizable::<Sequential<Recency>>(&history),
            "window {window} has no explanation: {history:#?}"
        );
    }
}

/// Threads take turns, so there is one right order, which is known: whoever touches next has heard of all touches before.
#[test]
fn the_order_of_touches_on_different_cores_is_kept() {
    const KEYS: usize = 20;
    let seed = seed();
    let turns = share(6000);
    let lru = &build(LruBuilder::new());
    let mut plain = Plain::default();
    for key in 0..KEYS as u8 {
        lru.insert(key);
        plain.insert(key);
    }
    let mut chance = fastrand::Rng::with_seed(seed);
    let keys: Vec<u8> = (0..turns).map(|_| chance.u8(..KEYS as u8)).collect();
    let turn = &AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..3 {
            let keys = &keys;
            scope.spawn(move || {
                be_moved(seed.wrapping_add(thread as u64));
                for number in (thread..turns).step_by(3) {
                    while turn.load(Ordering::Acquire) != number {
                        thread::yield_now();
                    }
                    lru.touch(keys[number]);
                    turn.store(number + 1, Ordering::Release);
                }
            });
        }
    });
    keys.iter().for_each(|key| plain.touch(*key));
    assert_eq!(lru.order(), plain.0);
    assert_eq!(lru.stats().discarded, 0);
}

/// Fewer keys than a queue has places: nobody ever has to merge, however often they are touched.
#[test]
fn touches_of_few_keys_are_absorbed() {
    const KEYS: u64 = 127;
    let lru = build(LruBuilder::new().mode(Mode::Deferring));
    (0..KEYS).for_each(|key| lru.insert(key));
    assert_eq!(lru.len() as u64, KEYS);
    let before = lru.stats();
    for turn in 0..50 * KEYS {
        lru.touch(turn * 7 % KEYS);
    }
    let after = lru.stats();
    assert_eq!(after.merges, before.merges);
    assert_eq!(after.pending as u64, KEYS);
    let expected: Vec<u64> = (0..KEYS).map(|turn| turn * 7 % KEYS).collect();
    assert_eq!(lru.order(), expected);
    assert_eq!(lru.stats().executed - before.executed, KEYS);
}

#[test]
fn a_late_touch_puts_nothing_in() {
    let lru = build(LruBuilder::new());
    stand_on(0);
    (0..3).for_each(|key| lru.insert(key));
    assert_eq!(lru.evict(), Some(0));
    stand_on(1);
    lru.touch(0);
    lru.remove(1);
    stand_on(2);
    lru.touch(1);
    assert_eq!(lru.order(), [2]);
}

/// A key that keeps whoever clones it busy until it is told to go on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Slow(u32);

static IS_CLONING: AtomicBool = AtomicBool::new(false);
static MAY_GO_ON: AtomicBool = AtomicBool::new(false);

impl Clone for Slow {
    fn clone(&self) -> Self {
        IS_CLONING.store(true, Ordering::Release);
        while !MAY_GO_ON.load(Ordering::Acquire) {
            thread::yield_now();
        }
        Self(self.0)
    }
}

/// While somebody reads the order, touches fill their queue and are then discarded, without waiting, or kept, if none may be lost.
#[test]
fn a_touch_beyond_the_limit_is_discarded_while_somebody_reads_and_counted() {
    const KEYS: u32 = 8;
    for (builder, discarded) in [
        (LruBuilder::new().limit(4), 4),
        (LruBuilder::new().limit(4).lossless(), 0),
    ] {
        IS_CLONING.store(false, Ordering::Release);
        MAY_GO_ON.store(false, Ordering::Release);
        let lru = &build(builder);
        stand_on(0);
        (0..KEYS).for_each(|key| lru.insert(Slow(key)));
        assert_eq!(lru.len(), KEYS as usize);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                stand_on(1);
                lru.order().len()
            });
            while !IS_CLONING.load(Ordering::Acquire) {
                thread::yield_now();
            }
            (0..KEYS).for_each(|key| lru.touch(Slow(KEYS - 1 - key)));
            assert_eq!(lru.stats().discarded, discarded);
            let inserter = scope.spawn(|| {
                // The queue that is full.
                stand_on(0);
                lru.insert(Slow(KEYS));
            });
            MAY_GO_ON.store(true, Ordering::Release);
            assert_eq!(reader.join().expect("no panic"), KEYS as usize);
            inserter.join().expect("no panic");
        });
        let order: Vec<u32> = lru.order().into_iter().map(|key| key.0).collect();
        let expected: &[u32] = if discarded == 0 {
            &[7, 6, 5, 4, 3, 2, 1, 0, 8]
        } else {
            &[0, 1, 2, 3, 7, 6, 5, 4, 8]
        };
        assert_eq!(order, expected);
        assert_eq!(lru.stats().discarded, discarded);
    }
}

/// Nothing that was inserted is lost, however many touches are.
#[test]
fn inserts_are_never_discarded() {
    let seed = seed();
    let each = share(3000);
    let lru = &build(LruBuilder::new().limit(2));
    let evicted: Vec<usize> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                scope.spawn(move || {
                    stand_on(SLOTS[thread]);
                    be_moved(seed.wrapping_add(thread as u64));
                    let mut evicted = Vec::new();
                    for number in 0..each {
                        lru.insert(thread * each + number);
                        lru.touch(thread * each + number / 2);
                        if number % 8 == 0 {
                            evicted.extend(lru.evict_many(4));
                        }
                    }
                    evicted
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    let mut all = evicted;
    all.extend(lru.order());
    all.sort_unstable();
    assert!(all.into_iter().eq(0..4 * each));
}
