//! What each policy does at the limit.

use crate::limits::{Push, Pushes, deferring, panic_of, refusal, stay};
use percolog::cpu::{self, CoreId};
use percolog::oplog::{FullReason, Policy};

#[test]
fn merging_keeps_queues_short() {
    stay();
    let log: Pushes = deferring().limit(10).build(Vec::new());
    for number in 0..1000 {
        log.queue(Push(number));
        assert!(log.stats().pending <= 10);
    }
    let stats = log.stats();
    assert_eq!(
        stats.updater_merges, 99,
        "one for each 10 updates but the last"
    );
    assert_eq!(stats.longest_updater_merge, 10);
    assert!(log.synchronize().iter().copied().eq(0..1000));
}

#[test]
fn the_limit_is_128_unless_said_otherwise() {
    stay();
    let log: Pushes = deferring().build(Vec::new());
    for number in 0..128 {
        log.try_queue(Push(number)).expect("below the limit");
    }
    assert_eq!(refusal(&log), FullReason::Limit);
    assert_eq!(log.stats().updater_merges, 0);
    log.queue(Push(128));
    assert_eq!((log.stats().updater_merges, log.stats().pending), (1, 1));
}

#[test]
fn many_at_once_merge_once_a_limit() {
    stay();
    let log: Pushes = deferring().build(Vec::new());
    log.extend((0..1280).map(Push));
    assert!(log.stats().updater_merges <= 10, "{:?}", log.stats());
    // Where the limit is no multiple of what is queued at a time, too.
    let odd: Pushes = deferring().limit(100).build(Vec::new());
    odd.extend((0..1000).map(Push));
    assert!(odd.stats().updater_merges <= 10, "{:?}", odd.stats());
    assert!(odd.synchronize().iter().copied().eq(0..1000));
    assert!(log.synchronize().iter().copied().eq(0..1280));
}

#[test]
fn growing_never_merges() {
    stay();
    let log: Pushes = deferring().limit(4).policy(Policy::Grow).build(Vec::new());
    for number in 0..1000 {
        if number % 2 == 0 {
            log.queue(Push(number));
        } else {
            log.try_queue(Push(number)).expect("grows");
        }
    }
    log.extend((1000..1100).map(Push));
    assert_eq!((log.stats().merges, log.stats().pending), (0, 1100));
    assert!(log.synchronize().iter().copied().eq(0..1100));
}

#[test]
fn full_is_full() {
    stay();
    let log: Pushes = deferring().limit(4).policy(Policy::Full).build(Vec::new());
    log.extend((0..4).map(Push));
    assert_eq!(refusal(&log), FullReason::Limit);
    assert!(panic_of(|| log.queue(Push(4))).contains("limit"));
    assert!(panic_of(|| log.extend([Push(4)])).contains("limit"));
    assert!(!log.is_poisoned(), "nothing has happened to the structure");
    assert_eq!(*log.synchronize(), [0, 1, 2, 3]);
    log.queue(Push(4));
    // Another slot has room of its own.
    cpu::bind(CoreId::new(1));
    log.extend((5..8).map(Push));
    assert_eq!(*log.synchronize(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(log.stats().updater_merges, 0);
}

#[test]
fn what_is_discarded_is_counted() {
    stay();
    let log: Pushes = deferring()
        .limit(4)
        .policy(Policy::Discard)
        .build(Vec::new());
    log.extend((0..10).map(Push));
    log.queue(Push(10));
    assert_eq!(refusal(&log), FullReason::Limit);
    assert_eq!((log.stats().discarded, log.stats().pending), (7, 4));
    assert_eq!(*log.synchronize(), [0, 1, 2, 3]);
    log.queue(Push(11));
    assert_eq!(*log.synchronize(), [0, 1, 2, 3, 11]);
    assert_eq!(log.stats().discarded, 7);
}

#[test]
fn at_the_limit_it_is_merged_or_while_somebody_has_the_object_discarded() {
    stay();
    let log: Pushes = deferring()
        .limit(4)
        .policy(Policy::MergeOrDiscard)
        .build(Vec::new());
    (0..5).for_each(|number| log.queue(Push(number)));
    let stats = log.stats();
    assert_eq!(
        (stats.updater_merges, stats.executed, stats.pending),
        (1, 4, 1)
    );
    assert_eq!(stats.discarded, 0);
    let guard = log.synchronize();
    assert_eq!(*guard, [0, 1, 2, 3, 4]);
    // Room for four; neither the holder nor anybody else waits for the guard.
    (5..11).for_each(|number| log.queue(Push(number)));
    assert_eq!(refusal(&log), FullReason::Limit);
    assert_eq!((log.stats().discarded, log.stats().pending), (2, 4));
    drop(guard);
    log.queue(Push(11));
    assert_eq!(log.stats().updater_merges, 2);
    assert_eq!(*log.synchronize(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 11]);
}
