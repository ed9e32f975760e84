//! A table of sessions beside a plain one: on slots that are told, and on threads.

use crate::common::machine::{Machine, stand_on};
use crate::common::share::share;
use percolog::collections::{DefaultHashBuilder, Sessions};
use percolog::oplog::{LoggedBuilder, Mode};
use percolog::testing::Environment;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

const SLOTS: [u32; 5] = [0, 1, 2, 1024, 1025];

fn sessions<V: Send, E: Environment>(
    limits: LoggedBuilder,
    environment: E,
) -> Sessions<u64, V, u64, DefaultHashBuilder, E> {
    Sessions::build_in(limits, DefaultHashBuilder::new(), environment)
}

fn deferring() -> LoggedBuilder {
    LoggedBuilder::new().mode(Mode::Deferring)
}

/// All of it, in order.
fn all<V: Send + Clone, E: Environment>(
    sessions: &Sessions<u64, V, u64, DefaultHashBuilder, E>,
) -> BTreeMap<u64, (V, u64)> {
    let list = sessions.list();
    let all: BTreeMap<_, _> = list
        .iter()
        .map(|(key, value, touched)| (*key, (value.clone(), touched)))
        .collect();
    assert_eq!((all.len(), all.is_empty()), (list.len(), list.is_empty()));
    for (key, (_, touched)) in &all {
        assert_eq!(list.get(key).map(|(_, touched)| touched), Some(*touched));
    }
    all
}

#[derive(Debug, Clone)]
enum Step {
    Open,
    /// One that was opened, and may have been closed.
    Touch(prop::sample::Index, u64),
    /// One that is open.
    Close(prop::sample::Index),
    /// And open it again, on the same slot.
    Again(prop::sample::Index),
    /// A slot to go to.
    Go(usize),
    Expire(u64),
    List,
    /// Out of a listing.
    Take(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => Just(Step::Open),
        8 => (at(), 0..100_u64).prop_map(|(at, time)| Step::Touch(at, time)),
        4 => at().prop_map(Step::Close),
        1 => at().prop_map(Step::Again),
        4 => (0..SLOTS.len()).prop_map(Step::Go),
        1 => (0..50_u64).prop_map(Step::Expire),
        1 => Just(Step::List),
        1 => at().prop_map(Step::Take),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: share(300) as u32, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn they_agree_with_a_plain_table(
        steps in prop::collection::vec(step(), 0..300),
        limit in 1..20_usize,
        mode in prop::sample::select(vec![Mode::Adaptive, Mode::Eager, Mode::Deferring, Mode::Restless]),
        across: bool,
    ) {
        let limits = LoggedBuilder::new().limit(limit).mode(mode).absorb_while_merging(across);
        let sessions = sessions(limits, Machine::exact(&SLOTS));
        let counted = Arc::new(());
        let (mut plain, mut opened) = (BTreeMap::new(), 0);
        stand_on(0);
        for step in steps {
            let open = |plain: &BTreeMap<u64, u64>, at: prop::sample::Index| {
                (!plain.is_empty()).then(|| *plain.keys().nth(at.index(plain.len())).expect("there"))
            };
            match step {
                Step::Open => {
                    opened += 1;
                    sessions.open(opened, counted.clone(), 10);
                    plain.insert(opened, 10);
                }
                Step::Touch(at, time) if opened != 0 => {
                    let key = 1 + at.index(opened as usize) as u64;
                    sessions.touch(key, time);
                    plain.entry(key).and_modify(|touched| *touched = time.max(*touched));
                }
                Step::Close(at) => if let Some(key) = open(&plain, at) {
                    sessions.close(key);
                    plain.remove(&key);
                },
                Step::Again(at) => if let Some(key) = open(&plain, at) {
                    prop_assert_eq!(sessions.len(), plain.len());
                    sessions.close(key);
                    sessions.open(key, counted.clone(), 20);
                    plain.insert(key, 20);
                    // Others hear of it.
                    prop_assert_eq!(sessions.len(), plain.len());
                },
                Step::Go(slot) => stand_on(SLOTS[slot]),
                Step::Expire(before) => {
                    let expired = sessions.expire(before);
                    let mut keys: Vec<u64> = expired.iter().map(|(key, _)| *key).collect();
                    keys.sort_unstable();
                    let old = plain.iter().filter(|(_, touched)| **touched < before);
                    prop_assert_eq!(keys, old.map(|(key, _)| *key).collect::<Vec<_>>());
                    plain.retain(|_, touched| *touched >= before);
                }
                Step::Take(at) => if let Some(key) = open(&plain, at) {
                    let mut list = sessions.list();
                    prop_assert!(list.take(&key).is_some() && list.take(&key).is_none());
                    plain.remove(&key);
                },
                _ => {
                    let touched = all(&sessions).into_iter().map(|(key, (_, touched))| (key, touched));
                    prop_assert_eq!(touched.collect::<BTreeMap<_, _>>(), plain.clone());
                    prop_assert_eq!(Arc::strong_count(&counted), 1 + plain.len());
                }
            }
        }
        prop_assert_eq!(sessions.len(), plain.len());
        prop_assert_eq!(Arc::strong_count(&counted), 1 + plain.len());
        drop(sessions);
        prop_assert_eq!(Arc::strong_count(&counted), 1);
    }
}

#[test]
fn what_is_opened_touched_and_closed_on_one_slot_is_never_executed() {
    let sessions = sessions(deferring(), Machine::exact(&SLOTS));
    stand_on(1);
    for key in 0..1000 {
        sessions.open(key, "value", 0);
        (1..50).for_each(|time| sessions.touch(key, time));
        sessions.close(key);
    }
    assert!(sessions.is_empty());
    let stats = sessions.stats();
    assert_eq!((stats.executed, stats.absorbed), (0, 1000 * 51));
}

#[test]
fn closing_takes_pending_touches_out() {
    let sessions = sessions(deferring(), Machine::exact(&SLOTS));
    stand_on(1);
    (0..100).for_each(|key| sessions.open(key, "value", 0));
    assert_eq!(sessions.len(), 100);
    let before = sessions.stats().executed;
    for key in 0..100 {
        sessions.touch(key, 1);
        sessions.close(key);
    }
    assert!(sessions.is_empty());
    assert_eq!(sessions.stats().executed - before, 100);
}

#[test]
fn threads_that_touch_each_others_sessions() {
    const THREADS: u64 = 4;
    let sessions: Sessions<u64, u64, u64> = Sessions::new();
    let (running, latest) = (AtomicUsize::new(THREADS as usize), AtomicU64::new(0));
    sessions.open(0, 0, 0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (sessions, running, latest) = (&sessions, &running, &latest);
            scope.spawn(move || {
                for turn in 1..=share(3000) as u64 {
                    let key = turn * THREADS + thread;
                    sessions.open(key, key, turn);
                    latest.store(key, Ordering::Release);
                    for _ in 0..4 {
                        sessions.touch(latest.load(Ordering::Acquire), turn);
                    }
                    if turn % 4 != 0 {
                        sessions.close(key);
                    }
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while running.load(Ordering::Relaxed) != 0 {
            for (key, value, touched) in sessions.list().iter() {
                assert!(key == value && touched >= key / THREADS);
            }
            thread::yield_now();
        }
    });
    let left = (0..=share(3000) as u64).flat_map(|turn| {
        let threads = (turn != 0 && turn % 4 == 0).then_some(0..THREADS);
        threads
            .into_iter()
            .flatten()
            .map(move |thread| turn * THREADS + thread)
    });
    let all = all(&sessions);
    assert!(all.keys().copied().eq([0].into_iter().chain(left)));
    assert_eq!(sessions.expire(u64::MAX).len(), all.len());
    assert!(sessions.is_empty());
}

/// Panics when it is dropped, if it is told to.
struct Value(bool, #[allow(dead_code, reason = "counted")] Arc<()>);

impl Drop for Value {
    fn drop(&mut self) {
        assert!(!self.0, "a destructor panics");
    }
}

#[test]
fn a_destructor_that_panics_in_a_merge_poisons_and_loses_nothing_else() {
    let sessions = sessions(deferring(), Machine::exact(&SLOTS));
    let counted = Arc::new(());
    stand_on(0);
    for key in 0..10 {
        sessions.open(key, Value(key == 3, counted.clone()), key);
    }
    assert_eq!(sessions.len(), 10);
    (0..5).for_each(|key| sessions.close(key));
    let listed = catch_unwind(AssertUnwindSafe(|| sessions.len()));
    assert!(listed.is_err() && sessions.is_poisoned());
    // Updates go on.
    sessions.close(9);
    sessions.clear_poison();
    assert_eq!(sessions.len(), 4);
    drop(sessions);
    assert_eq!(Arc::strong_count(&counted), 1);
}
