//! What handles do, and what they cost.

use crate::common::share::share;
use percolog::collections::Registry;
use percolog::cpu::{self, CoreId};
use percolog::oplog::token_pair;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

/// What comes and goes on one core before anybody lists is never executed, and never brings a core to its limit.
#[test]
fn what_goes_where_it_came_is_never_executed() {
    cpu::bind(CoreId::new(3));
    let registry = Registry::new();
    let stays = registry.register(0);
    for number in 1..=1000 {
        drop(registry.register(number));
    }
    let stats = registry.stats();
    assert_eq!((stats.merges, stats.absorbed, stats.pending), (0, 2000, 1));
    assert_eq!(registry.len(), 1);
    assert_eq!(registry.stats().executed, 1);
    drop(stays);
    assert!(registry.is_empty());
}

/// Many entries at once: the core's index finds each, whatever order they go in.
#[test]
fn whatever_order_entries_go_in_they_cancel() {
    cpu::bind(CoreId::new(3));
    let registry = Registry::new();
    let mut handles: Vec<_> = (0..100).map(|number| registry.register(number)).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut handles);
    drop(handles);
    let stats = registry.stats();
    assert_eq!((stats.absorbed, stats.pending), (200, 0));
}

#[test]
fn handles_may_be_dropped_while_a_listing_is_held_however_many() {
    let registry = Registry::new();
    let handles: Vec<_> = (0..3000).map(|number| registry.register(number)).collect();
    assert_eq!(registry.len(), 3000);
    let list = registry.list();
    // More than any limit of a core's queue.
    drop(handles);
    let late: Vec<_> = (0..3000).map(|number| registry.register(number)).collect();
    assert_eq!(list.len(), 3000);
    assert_eq!(list.iter().count(), 3000);
    drop(list);
    assert_eq!(registry.len(), 3000);
    drop(late);
    assert!(registry.is_empty());
}

/// An entry is shown to whoever hears of it, until it is gone; numbers are nobody else's.
#[test]
fn a_listing_shows_what_it_must_and_nothing_that_is_gone() {
    let rounds = share(3_000) as u64;
    let registry = &Registry::new();
    let gone = &AtomicU64::new(0);
    let (hand_over, receives) = mpsc::sync_channel(8);
    thread::scope(|scope| {
        scope.spawn(move || {
            for round in 1..=rounds {
                let handle = registry.register(round);
                hand_over.send((round, handle)).expect("somebody listens");
            }
        });
        // Entries end on another thread than they began on.
        scope.spawn(move || {
            for (round, handle) in receives {
                assert_eq!(registry.list().get(handle.id()), Some(&round));
                drop(handle);
                gone.store(round, Ordering::Release);
            }
        });
        while gone.load(Ordering::Acquire) < rounds {
            let before = gone.load(Ordering::Acquire);
            let list = registry.list();
            assert!(list.iter().all(|(_, round)| *round > before));
            assert_eq!(list.iter().count(), list.len());
            // The channel's, one at each end, and two that are in nobody's hands any more.
            assert!(list.len() <= 12, "{}", list.len());
        }
    });
    assert!(registry.is_empty());
}

#[test]
fn a_removal_that_comes_first_removes_nothing_now_or_later() {
    let registry = Registry::new();
    let (birth, death) = token_pair();
    registry.unregister(death);
    registry.register_as(birth, 1);
    assert_eq!(registry.len(), 1);
}

#[test]
fn values_that_are_left_go_with_the_registry() {
    let counted = Arc::new(());
    let registry = Arc::new(Registry::new());
    let merged = Registry::register_in(registry.clone(), counted.clone());
    assert_eq!(registry.len(), 1);
    let (birth, _) = token_pair();
    registry.register_as(birth, counted.clone());
    drop(registry);
    assert_eq!(Arc::strong_count(&counted), 3);
    // The handle was the registry's last owner.
    drop(merged);
    assert_eq!(Arc::strong_count(&counted), 1);
}
