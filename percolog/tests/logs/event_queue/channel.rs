//! Channels: each sender's order, capacity, ends, and events that are dropped once.

use crate::common::alive::Alive;
use crate::common::seed::seed;
use crate::common::share::share;
use crate::common::storm::{fails, maybe_fail};
use percolog::collections::channel::{self, SendError, TrySendError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

#[test]
fn every_event_is_delivered_once_and_each_senders_in_its_order() {
    const SENDERS: u64 = 3;
    for (capacity, each) in [(usize::MAX, 40_000), (64, 40_000), (3, 4_000)] {
        let each = share(each) as u64;
        let (sender, mut receiver) = channel::bounded(capacity);
        thread::scope(|scope| {
            for number in 0..SENDERS {
                let sender = sender.clone();
                scope.spawn(move || {
                    for event in 0..each {
                        let sent = sender.send((number, Box::new(event)));
                        sent.expect("the receiver is there");
                        if event % 64 == 0 {
                            thread::yield_now();
                        }
                    }
                });
            }
            drop(sender);
            let mut next = [0; SENDERS as usize];
            while let Some((sender, event)) = receiver.wait_next() {
                let next = &mut next[sender as usize];
                assert_eq!(*event, *next, "of sender {sender}");
                *next += 1;
            }
            assert_eq!(next, [each; SENDERS as usize]);
        });
        assert!(receiver.is_disconnected());
    }
}

#[test]
fn one_look_serves_all_senders() {
    let (first, mut receiver) = channel::unbounded();
    let second = first.clone();
    for event in 0..200 {
        first.send(event).expect("the receiver is there");
    }
    second.send(1000).expect("the receiver is there");
    let mut order = Vec::new();
    // However many come meanwhile, a sender's turn comes with the next look.
    receiver.drain(|event| {
        order.push(event);
        first.send(event + 1000).expect("the receiver is there");
    });
    assert_eq!(order.len(), 201);
    assert!(order.contains(&1000));
    assert_eq!(receiver.drain_batch(&mut order), 201);
}

#[test]
fn a_channel_takes_as_many_events_of_each_sender_as_its_capacity() {
    for capacity in [0, 1, 2, 63, 64, 65, 200] {
        let (sender, mut receiver) = channel::bounded(capacity);
        let capacity = capacity.max(1);
        let other = sender.clone();
        for round in 0..500_usize {
            let mut sent = 0;
            while sender.try_send(round).is_ok() {
                sent += 1;
            }
            assert_eq!(sent, if round == 0 { capacity } else { 1 });
            assert_eq!(sender.try_send(7), Err(TrySendError::Full(7)));
            let oldest = (round + 1).saturating_sub(capacity);
            assert_eq!(receiver.try_next(), Some(oldest));
        }
        assert_eq!(
            other.try_send(7),
            Ok(()),
            "another sender has room of its own"
        );
    }
}

/// In lock-step: a sender that waits goes on as soon as there is room for one, though more of its events have been found.
#[test]
fn a_sender_that_waits_goes_on_when_one_event_is_taken() {
    let (sender, mut receiver) = channel::bounded(4);
    let (has_sent, hears) = mpsc::channel();
    let rounds = share(1000);
    thread::scope(|scope| {
        scope.spawn(move || {
            for event in 0..rounds {
                sender.send(event).expect("the receiver is there");
                has_sent.send(event).expect("somebody listens");
            }
        });
        for event in 0..rounds {
            assert_eq!(hears.recv(), Ok(event));
            if event >= 3 && event + 1 < rounds {
                if event % 32 == 0 {
                    // Long enough to be asleep.
                    thread::sleep(Duration::from_millis(1));
                }
                assert_eq!(receiver.try_next(), Some(event - 3));
            }
        }
    });
}

#[test]
fn a_sleeping_receiver_is_woken_by_each_event_and_by_the_end() {
    let (sender, mut receiver) = channel::unbounded();
    let (seen, hears) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            while let Some(event) = receiver.wait_next() {
                seen.send(event).expect("somebody listens");
            }
        });
        for round in 0..share(3_000) {
            for _ in 0..round % 512 {
                std::hint::spin_loop();
            }
            if round % 64 == 0 {
                // Long enough to be asleep.
                thread::sleep(Duration::from_micros(200));
            }
            sender.send(round).expect("the receiver is there");
            assert_eq!(hears.recv(), Ok(round));
        }
        thread::sleep(Duration::from_millis(1));
        drop(sender);
        assert!(hears.recv().is_err(), "the receiver's thread has ended");
    });
}

#[test]
fn waiting_ends_when_its_time_has_passed_and_not_with_an_event_there() {
    let (sender, mut receiver) = channel::unbounded();
    assert_eq!(receiver.wait_next_for(Duration::ZERO), None);
    assert_eq!(receiver.wait_drain_for(Duration::from_millis(1), drop), 0);
    assert!(!receiver.is_disconnected());
    for event in 1..=4 {
        sender.send(event).expect("the receiver is there");
    }
    assert_eq!(receiver.wait_next_for(Duration::ZERO), Some(1));
    assert_eq!(receiver.wait_next_for(Duration::MAX), Some(2));
    let mut rest = Vec::new();
    assert_eq!(
        receiver.wait_drain_for(Duration::MAX, |event| rest.push(event)),
        2
    );
    assert_eq!(rest, [3, 4]);
    drop(sender);
    assert_eq!(receiver.wait_next_for(Duration::MAX), None);
    assert_eq!(receiver.wait_drain_for(Duration::MAX, drop), 0);
    assert!(receiver.is_disconnected());
}

/// What a thread has sent is delivered after the thread has ended, before the end is reported.
#[test]
fn the_events_of_senders_that_are_gone_are_delivered() {
    let (sender, mut receiver) = channel::unbounded();
    for thread in 0..share(200) {
        let sender = sender.clone();
        let sends = thread::spawn(move || {
            for event in 0..thread {
                sender.send((thread, event)).expect("the receiver is there");
            }
        });
        if thread % 2 == 0 {
            sends.join().expect("the receiver is there");
        }
    }
    drop(sender);
    let mut count = 0;
    while receiver.wait_next().is_some() {
        count += 1;
    }
    assert_eq!(count, (0..share(200)).sum::<usize>());
}

#[test]
fn a_sender_learns_that_the_receiver_is_gone() {
    let (sender, receiver) = channel::bounded(1);
    assert_eq!(sender.send(1), Ok(()));
    assert!(!sender.is_disconnected());
    let (has_sent, hears) = mpsc::channel();
    thread::scope(|scope| {
        let waits = scope.spawn({
            let sender = sender.clone();
            move || {
                assert_eq!(sender.send(2), Ok(()));
                has_sent.send(()).expect("somebody listens");
                // The first may find the room that the receiver's end makes.
                let _ = sender.send(3);
                sender.send(4)
            }
        });
        assert_eq!(hears.recv(), Ok(()));
        // Most likely it waits by then.
        thread::sleep(Duration::from_millis(1));
        drop(receiver);
        assert_eq!(waits.join().expect("it returns"), Err(SendError(4)));
    });
    assert!(sender.is_disconnected());
    assert_eq!(sender.try_send(4), Err(TrySendError::Disconnected(4)));
    assert_eq!(sender.clone().send(5), Err(SendError(5)));
}

#[test]
fn events_that_are_not_delivered_are_dropped_once() {
    for sent in [0, 1, 63, 64, 65, 128, 129, 500] {
        for taken in [0, 1, 64, 65, 127, 400] {
            for sender_first in [true, false] {
                let alive = Alive::default();
                let (sender, mut receiver) = channel::unbounded();
                for number in 0..sent {
                    let sent = sender.send(alive.value(number));
                    assert!(sent.is_ok());
                }
                for number in 0..taken.min(sent) {
                    let event = receiver.try_next().expect("it was sent");
                    assert_eq!(event.number(), number);
                }
                assert_eq!(alive.count() as u64, sent.saturating_sub(taken));
                if sender_first {
                    drop(sender);
                    assert_eq!(alive.count() as u64, sent.saturating_sub(taken));
                    drop(receiver);
                } else {
                    drop(receiver);
                    assert_eq!(alive.count(), 0);
                    drop(sender);
                }
                assert_eq!(alive.count(), 0);
            }
        }
    }
}

/// An event whose destructor panics.
struct Fails(#[allow(dead_code, reason = "it is counted")] Arc<()>);

impl Drop for Fails {
    fn drop(&mut self) {
        if !thread::panicking() {
            std::panic::resume_unwind(Box::new("as asked"));
        }
    }
}

#[test]
fn a_destructor_that_panics_leaves_no_event_behind() {
    let counted = Arc::new(());
    let (sender, receiver) = channel::unbounded();
    let other = sender.clone();
    for sender in [&sender, &other] {
        for _ in 0..100 {
            assert!(sender.send(Fails(counted.clone())).is_ok());
        }
    }
    drop(sender);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(receiver)));
    assert!(dropped.is_err(), "the first panic goes on");
    drop(other);
    assert_eq!(Arc::strong_count(&counted), 1);
}

/// Threads that come and go, deliveries that panic, a receiver that goes at any time.
#[test]
fn a_storm_loses_nothing_and_drops_everything_once() {
    let mut chance = fastrand::Rng::with_seed(seed());
    for _ in 0..share(80) {
        let alive = &Alive::default();
        let capacity = [1, 2, 70, usize::MAX][chance.usize(..4)];
        let (sender, mut receiver) = channel::bounded(capacity);
        let stays = chance.bool();
        thread::scope(|scope| {
            for _ in 0..3 {
                let (mut sender, mut chance) = (sender.clone(), chance.fork());
                scope.spawn(move || {
                    for number in 0..1000 {
                        if sender.send(alive.value(number)).is_err() {
                            return;
                        }
                        if chance.u8(..) == 0 {
                            // Its events so far are those of a sender that is gone.
                            sender = sender.clone();
                        }
                    }
                });
            }
            drop(sender);
            let mut calls = if stays {
                usize::MAX
            } else {
                chance.usize(..200)
            };
            let mut delivered = 0;
            while calls != 0 && !receiver.is_disconnected() {
                calls -= 1;
                let mut deliver = |number: u64| {
                    assert!(number < 1000);
                    delivered += 1;
                    maybe_fail(&mut chance);
                };
                fails(|| match calls % 3 {
                    0 => receiver.drain(|event| deliver(event.number())),
                    1 => receiver.wait_drain_for(Duration::from_millis(1), |event| {
                        deliver(event.number());
                    }),
                    _ => receiver.try_next().map_or(0, |event| {
                        deliver(event.number());
                        1
                    }),
                });
            }
            drop(receiver);
            assert!(!stays || delivered == 3000, "{delivered} of 3000");
        });
        assert_eq!(alive.count(), 0);
    }
}
