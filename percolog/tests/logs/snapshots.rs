//! Views of deferred structures.
#![cfg(not(percolog_loom))]

use crate::common::share::share;
use percolog::collections::Snapshots;
use percolog::ldu::{Bag, Deferred, Entry};
use percolog::oplog::{Drain, DrainThread};
use percolog::oplog::{Logged, Operation, SynchronizeError};
use percolog::reclaim::Domain;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Adds, or panics.
struct Add(u64);

impl Operation<Vec<u64>> for Add {
    fn exec(self, all: &mut Vec<u64>) {
        assert_ne!(self.0, 13, "nobody adds 13");
        all.push(self.0);
    }
}

type Log = Logged<Vec<u64>, Add>;

#[test]
fn a_view_is_made_when_something_may_have_changed_and_not_else() {
    static DOMAIN: Domain = Domain::new();
    let made = Arc::new(AtomicUsize::new(0));
    let latest = Snapshots::new(&DOMAIN, Log::default(), {
        let made = Arc::clone(&made);
        move |all: &Vec<u64>| {
            made.fetch_add(1, Ordering::Relaxed);
            all.clone()
        }
    });
    let made = || made.load(Ordering::Relaxed);
    assert_eq!(made(), 1);
    latest.refresh();
    assert_eq!(made(), 1);
    latest.source().queue(Add(1));
    assert_eq!(latest.read(Vec::len), 0);
    latest.refresh();
    assert_eq!((latest.read(Vec::len), made()), (1, 2));
    latest.refresh();
    assert_eq!(made(), 2);
    // What others have merged is new as well, and what was changed through a guard.
    latest.source().queue(Add(2));
    assert_eq!(latest.source().read().len(), 2);
    latest.refresh();
    assert_eq!((latest.read(Vec::len), made()), (2, 3));
    latest.source().synchronize().clear();
    latest.refresh();
    assert_eq!((latest.read(Vec::len), made()), (0, 4));
    assert!(latest.into_source().into_inner().is_empty());
}

#[test]
fn a_bound_is_kept_whatever_it_takes() {
    static DOMAIN: Domain = Domain::new();
    let latest = Snapshots::new(&DOMAIN, Log::default(), Vec::clone);
    let section = DOMAIN.enter();
    for number in 0..10 {
        latest.source().queue(Add(number));
        assert_eq!(latest.latest(&section).len() as u64, number);
        assert_eq!(
            latest.latest_within(&section, Duration::MAX).len() as u64,
            number
        );
        let view = latest.latest_within(&section, Duration::ZERO);
        assert_eq!(view.len() as u64, number + 1);
    }
    thread::sleep(Duration::from_millis(2));
    assert!(latest.age() >= Duration::from_millis(2));
    latest.source().queue(Add(10));
    assert_eq!(
        latest
            .latest_within(&section, Duration::from_millis(1))
            .len(),
        11
    );
}

#[test]
fn who_has_the_structure_is_not_waited_for_unless_asked_to() {
    static DOMAIN: Domain = Domain::new();
    let latest = Snapshots::new(&DOMAIN, Log::default(), Vec::clone);
    latest.source().queue(Add(1));
    let guard = latest.source().synchronize();
    assert!(matches!(latest.try_refresh(), Err(SynchronizeError::Held)));
    assert!(!latest.drain(usize::MAX).finished);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(latest.try_refresh(), Err(SynchronizeError::Busy)));
            assert_eq!(latest.read(Vec::len), 0);
        });
    });
    drop(guard);
    assert!(latest.drain(usize::MAX).finished);
    assert_eq!(latest.read(Vec::len), 1);
}

#[test]
fn the_last_view_survives_panics() {
    static DOMAIN: Domain = Domain::new();
    let fails = Arc::new(AtomicBool::new(false));
    let latest = Snapshots::new(&DOMAIN, Log::default(), {
        let fails = Arc::clone(&fails);
        move |all: &Vec<u64>| {
            assert!(!fails.load(Ordering::Relaxed), "no view");
            all.clone()
        }
    });
    latest.source().queue(Add(1));
    latest.refresh();
    fails.store(true, Ordering::Relaxed);
    latest.source().queue(Add(2));
    // The making of a view changes nothing, so its panic poisons nothing.
    assert!(catch_unwind(AssertUnwindSafe(|| latest.refresh())).is_err());
    assert!(!latest.drain(usize::MAX).finished);
    assert_eq!(latest.read(Vec::clone), [1]);
    fails.store(false, Ordering::Relaxed);
    latest.refresh();
    assert_eq!(latest.read(Vec::clone), [1, 2]);
    latest.source().queue(Add(13));
    assert!(catch_unwind(AssertUnwindSafe(|| latest.refresh())).is_err());
    assert!(matches!(
        latest.try_refresh(),
        Err(SynchronizeError::Poisoned(()))
    ));
    assert!(!latest.drain(usize::MAX).finished);
    assert_eq!(latest.read(Vec::clone), [1, 2]);
    latest.source().clear_poison();
    latest.source().queue(Add(3));
    latest.refresh();
    assert_eq!(latest.read(Vec::clone), [1, 2, 3]);
}

#[test]
fn containers_have_views_too_and_a_timer_keeps_them_young() {
    static DOMAIN: Domain = Domain::new();
    let latest = Arc::new(Snapshots::new(
        &DOMAIN,
        Deferred::new(Bag::new()),
        |bag: &Bag<u32>| bag.iter().sum::<u32>(),
    ));
    let timer = DrainThread::every(Duration::from_millis(1)).unwrap();
    timer.add(&latest);
    let entries: Vec<_> = (1..=10).map(Entry::new).collect();
    for entry in &entries {
        latest.source().insert(entry).unwrap();
    }
    while latest.read(|sum| *sum) != 55 {
        thread::yield_now();
    }
    latest.source().remove(&entries[9]).unwrap();
    while latest.read(|sum| *sum) != 45 {
        thread::yield_now();
    }
}

/// Numbers that are added in order by one thread: a view is some beginning of them.
#[test]
fn no_reader_goes_back_and_what_was_there_before_a_refresh_is_seen() {
    static DOMAIN: Domain = Domain::new();
    let latest = Snapshots::new(&DOMAIN, Log::default(), Vec::clone);
    // So many have been queued.
    let queued = AtomicU64::new(0);
    let last = share(2000) as u64;
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..last {
                // Thirteen is nobody's.
                latest.source().queue(Add(number + 100));
                queued.store(number + 1, Ordering::SeqCst);
            }
        });
        for refreshes in [true, true, false] {
            let (latest, queued) = (&latest, &queued);
            scope.spawn(move || {
                let mut seen = 0;
                while seen < last {
                    let before = queued.load(Ordering::SeqCst);
                    if refreshes {
                        latest.refresh();
                    } else {
                        thread::yield_now();
                    }
                    let section = DOMAIN.enter();
                    let view = latest.latest(&section);
                    let found = view.len() as u64;
                    assert!(found >= seen, "a reader went from {seen} back to {found}");
                    assert!(!refreshes || found >= before);
                    assert!(view.iter().copied().eq(100..100 + found));
                    seen = found;
                }
            });
        }
    });
}
