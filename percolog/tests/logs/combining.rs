//! Operations that make up one operation, or none, and operations whose order does not matter.
#![cfg(all(feature = "std", not(percolog_loom)))]

use percolog::cpu::CoreId;
use percolog::oplog::{Absorb, Combined, Logged, LoggedBuilder, Mode, Operation};
use percolog::testing::Environment;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crate::common::seed::seed;

/// On whichever slot the test says, with a clock that counts how often it is asked.
#[derive(Clone, Default)]
struct Told(Arc<(AtomicU32, AtomicU64)>);

impl Told {
    fn go_to(&self, slot: u32) {
        // Relaxed: one thread.
        self.0.0.store(slot, Ordering::Relaxed);
    }

    fn stamps(&self) -> u64 {
        // Relaxed: one thread.
        self.0.1.load(Ordering::Relaxed)
    }
}

impl Environment for Told {
    fn slot(&self) -> CoreId {
        // Relaxed: one thread.
        CoreId::new(self.0.0.load(Ordering::Relaxed))
    }

    fn stamp(&self) -> u64 {
        // Relaxed: one thread.
        self.0.1.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// What a table of sessions is told: each number is opened and closed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Open(u64, u64),
    Touch(u64, u64),
    Close(u64),
    /// Opened, touched and closed: nothing.
    Note(u64),
}

/// The latest touch of each session, and all notes.
type Table = (BTreeMap<u64, u64>, Vec<u64>);

impl Edit {
    fn number(&self) -> Option<u64> {
        match *self {
            Self::Open(number, _) | Self::Touch(number, _) | Self::Close(number) => Some(number),
            Self::Note(_) => None,
        }
    }
}

impl Operation<Table> for Edit {
    const ABSORBS: bool = true;

    fn exec(self, (sessions, notes): &mut Table) {
        match self {
            Self::Open(number, at) => {
                sessions.insert(number, at);
            }
            Self::Touch(number, at) => {
                if let Some(touched) = sessions.get_mut(&number) {
                    *touched = at.max(*touched);
                }
            }
            Self::Close(number) => {
                sessions.remove(&number);
            }
            Self::Note(note) => notes.push(note),
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        // Two keys have one hash.
        self.number()
            .map_or(Absorb::Never, |number| Absorb::Combine(number / 2))
    }

    fn combine(&mut self, later: Self) -> Combined<Self> {
        if self.number() != later.number() {
            return Combined::Apart(later);
        }
        match (&mut *self, later) {
            (Self::Open(..), Self::Close(_)) => return Combined::Nothing,
            (Self::Open(_, touched) | Self::Touch(_, touched), Self::Touch(_, at)) => {
                *touched = at.max(*touched);
            }
            (Self::Touch(..), Self::Close(_)) => *self = later,
            (Self::Close(_), Self::Touch(..)) => {}
            (earlier, later) => unreachable!("{earlier:?}, then {later:?}"),
        }
        Combined::One
    }
}

fn table<E: Environment>(environment: E) -> Logged<Table, Edit, E> {
    LoggedBuilder::new()
        .mode(Mode::Deferring)
        .limit(1 << 20)
        .build_in(Table::default(), environment)
}

#[test]
fn what_is_taken_in_takes_no_stamp_and_no_place() {
    let told = Told::default();
    let table = table(told.clone());
    for number in [2, 3] {
        table.queue(Edit::Open(number, 1));
    }
    let before = (told.stamps(), table.memory_usage());
    for at in 2..1000 {
        table.queue(Edit::Touch(2, at));
        table.queue(Edit::Touch(3, at + 1000));
    }
    assert_eq!((told.stamps(), table.memory_usage()), before);
    table.queue(Edit::Close(2));
    assert_eq!(told.stamps(), before.0);
    assert_eq!(table.synchronize().0, BTreeMap::from([(3, 1999)]));
    let stats = table.stats();
    assert_eq!((stats.executed, stats.absorbed), (1, 2 * 998 + 2));
}

#[test]
fn what_is_nothing_leaves_room() {
    let told = Told::default();
    let table = table(told);
    let add = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            table.queue(Edit::Open(number, 0));
            table.queue(Edit::Note(number));
            table.queue(Edit::Touch(number, 1));
            table.queue(Edit::Close(number));
        }
    };
    for _ in 0..2 {
        add(0..100);
        table.synchronize().1.clear();
    }
    add(0..100);
    let before = table.memory_usage();
    for _ in 0..100 {
        table.synchronize().1.clear();
        add(0..100);
    }
    assert_eq!(table.memory_usage(), before);
    assert_eq!(*table.synchronize(), (BTreeMap::new(), (0..100).collect()));
}

/// Wherever operations are queued, those that are not combined are executed in order, and the others have their effect.
#[test]
fn combining_changes_nothing_but_the_number_executed() {
    let mut random = fastrand::Rng::with_seed(seed());
    for round in 0..200 {
        let told = Told::default();
        let table = LoggedBuilder::new()
            .mode(Mode::Deferring)
            .limit(1 << 20)
            .absorb_while_merging(round % 2 == 0)
            .build_in(Table::default(), told.clone());
        let (mut expected, mut open, mut opened) = (Table::default(), Vec::new(), 0);
        for at in 0..random.u64(1..200) {
            told.go_to(random.u32(0..3));
            let edit = match random.u8(0..8) {
                0 | 1 => {
                    opened += 1;
                    open.push(opened);
                    Edit::Open(opened, at)
                }
                2..=4 if opened > 0 => Edit::Touch(random.u64(1..=opened), at),
                5 | 6 if !open.is_empty() => {
                    Edit::Close(open.swap_remove(random.usize(..open.len())))
                }
                _ => Edit::Note(at),
            };
            table.queue(edit);
            edit.exec(&mut expected);
            if random.u8(0..50) == 0 {
                assert_eq!(*table.synchronize(), expected);
            }
        }
        assert_eq!(*table.synchronize(), expected);
    }
}

#[test]
fn what_was_queued_on_different_slots_is_combined_by_the_merge() {
    let told = Told::default();
    let table = table(told.clone());
    let queue = |slot, edit| {
        told.go_to(slot);
        table.queue(edit);
    };
    // The one that is combined lies before or behind the other one in the order of slots.
    for (first, second) in [(0, 1), (1, 0)] {
        queue(first, Edit::Open(2, 0));
        queue(first, Edit::Open(3, 0));
        queue(second, Edit::Touch(2, 1));
        queue(second, Edit::Close(3));
        let before = table.stats().executed;
        assert_eq!(table.synchronize().0, BTreeMap::from([(2, 1)]));
        assert_eq!(table.stats().executed - before, 1);
        table.synchronize().0.clear();
    }
}

/// Each of them once, whatever absorbs.
#[test]
fn threads_lose_nothing() {
    const THREADS: u64 = 4;
    const SESSIONS: u64 = 2000;
    let table: Logged<Table, Edit> = LoggedBuilder::new()
        .mode(Mode::Deferring)
        .limit(64)
        .build(Table::default());
    let (stop, latest) = (AtomicUsize::new(0), AtomicU64::new(0));
    table.queue(Edit::Open(0, 0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (table, stop, latest) = (&table, &stop, &latest);
            scope.spawn(move || {
                for session in 0..SESSIONS {
                    let number = session * THREADS + thread;
                    if number != 0 {
                        table.queue(Edit::Open(number, 0));
                    }
                    latest.store(number, Ordering::Release);
                    for at in 1..4 {
                        table.queue(Edit::Touch(number, at));
                        // What another thread has opened, and may have closed.
                        table.queue(Edit::Touch(latest.load(Ordering::Acquire), at));
                    }
                    if session % 8 != 0 {
                        table.queue(Edit::Close(number));
                    }
                    table.queue(Edit::Note(number));
                }
                stop.fetch_add(1, Ordering::Relaxed);
            });
        }
        while stop.load(Ordering::Relaxed) != THREADS as usize {
            let table = table.synchronize();
            assert!(table.0.values().all(|touched| *touched < 4));
        }
    });
    let (sessions, notes) = &*table.synchronize();
    let left = (0..SESSIONS * THREADS).filter(|number| (number / THREADS).is_multiple_of(8));
    assert!(sessions.keys().copied().eq(left));
    assert!(sessions.values().all(|touched| *touched == 3));
    for thread in 0..THREADS {
        let of_it = notes.iter().filter(|note| **note % THREADS == thread);
        assert!(
            of_it
                .copied()
                .eq((0..SESSIONS).map(|session| session * THREADS + thread))
        );
    }
}

/// So many more, in any order.
struct More(u64);

impl Operation<(u64, u64)> for More {
    const ORDERED: bool = false;

    fn exec(self, (sum, count): &mut (u64, u64)) {
        *sum += self.0;
        *count += 1;
    }
}

#[test]
fn what_is_not_ordered_takes_no_stamps() {
    let told = Told::default();
    let sum = LoggedBuilder::new()
        .mode(Mode::Deferring)
        .limit(1 << 20)
        .build_in((0, 0), told.clone());
    let before = told.stamps();
    for number in 0..1000 {
        told.go_to(number as u32 % 3);
        sum.queue(More(number));
        assert!(sum.try_queue(More(0)).is_ok());
    }
    assert_eq!(told.stamps(), before);
    assert_eq!(*sum.synchronize(), (1000 * 999 / 2, 2000));
    // Also bit by bit.
    (0..100).for_each(|_| sum.queue(More(1)));
    while !sum.drain(7).finished {}
    assert_eq!(sum.synchronize().1, 2100);
}

/// Panics when it takes a certain number in.
struct Fragile(u64);

impl Operation<u64> for Fragile {
    const ABSORBS: bool = true;

    fn exec(self, sum: &mut u64) {
        *sum += self.0;
    }

    fn absorb(&self) -> Absorb<'_> {
        Absorb::Combine(0)
    }

    fn combine(&mut self, later: Self) -> Combined<Self> {
        assert!(later.0 != 13, "13 is not taken in");
        self.0 += later.0;
        Combined::One
    }
}

#[test]
fn a_panic_while_combining_loses_the_later_one_alone() {
    let told = Told::default();
    let sum = LoggedBuilder::new()
        .mode(Mode::Deferring)
        .build_in(0, told.clone());
    sum.queue(Fragile(1));
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| sum.queue(Fragile(13))));
    assert!(panicked.is_err() && !sum.is_poisoned());
    sum.queue(Fragile(2));
    assert_eq!(*sum.synchronize(), 3);

    // In a merge it poisons, as any panic there.
    sum.queue(Fragile(4));
    told.go_to(1);
    sum.queue(Fragile(13));
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| drop(sum.synchronize())));
    assert!(panicked.is_err() && sum.is_poisoned());
    sum.clear_poison();
    sum.queue(Fragile(8));
    assert_eq!(*sum.synchronize(), 3 + 4 + 8);
}
