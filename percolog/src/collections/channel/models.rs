//! Every interleaving of a channel's ends, within loom's bounds. Segments have two events here.

use super::{Receiver, bounded, unbounded};
use crate::engine::models::{explore, join};
use alloc::vec::Vec;
use loom::sync::Arc;
use loom::thread;

/// An event whose memory is loom's, so that a leak and a second drop are errors.
type Event = Arc<u8>;

fn event(number: u8) -> Event {
    Arc::new(number)
}

fn numbers(receiver: &mut Receiver<Event>, into: &mut Vec<u8>) {
    receiver.drain(|event| into.push(*event));
}

/// A sender that goes through three segments, beside looks: what is found is whole, in order, and comes once. The first segment is
/// reused in some interleavings.
#[test]
fn what_is_sent_is_taken_in_order() {
    explore(|| {
        let (sender, mut receiver) = unbounded();
        let sends = thread::spawn(move || {
            for number in 0..5 {
                sender.send(event(number)).expect("the receiver is there");
            }
        });
        let mut found = Vec::new();
        numbers(&mut receiver, &mut found);
        numbers(&mut receiver, &mut found);
        join(sends);
        numbers(&mut receiver, &mut found);
        assert_eq!(found, [0, 1, 2, 3, 4]);
        assert!(receiver.is_disconnected());
    });
}

/// The segment that has been left is reused while the receiver takes what is behind it. With a bound the sender is told of each event
/// that is taken, also of the last one of a segment that has not been left.
#[test]
fn a_segment_is_not_reused_before_it_is_left() {
    for capacity in [8, usize::MAX] {
        explore(move || {
            let (sender, mut receiver) = bounded(capacity);
            for number in 0..4 {
                sender.send(event(number)).expect("the receiver is there");
            }
            let sends = thread::spawn(move || {
                for number in 4..6 {
                    sender.send(event(number)).expect("the receiver is there");
                }
            });
            let mut found = Vec::new();
            while let Some(event) = receiver.try_next() {
                found.push(*event);
            }
            join(sends);
            numbers(&mut receiver, &mut found);
            assert_eq!(found, [0, 1, 2, 3, 4, 5]);
        });
    }
}

/// A sender is cloned and both end, while the receiver looks: it does not find an end before the last event.
#[test]
fn senders_come_and_go() {
    explore(|| {
        let (sender, mut receiver) = unbounded();
        let sends = thread::spawn(move || {
            let second = sender.clone();
            drop(sender);
            second.send(event(1)).expect("the receiver is there");
        });
        let mut found = Vec::new();
        let ended = receiver.is_disconnected();
        numbers(&mut receiver, &mut found);
        assert!(!ended || found == [1]);
        join(sends);
        numbers(&mut receiver, &mut found);
        assert_eq!(found, [1]);
        assert!(receiver.is_disconnected());
    });
}

/// The receiver goes while two senders, of which it may not have found one, send: nothing leaks, and nothing is dropped twice.
#[test]
fn the_receiver_goes_while_events_come() {
    explore(|| {
        let (sender, mut receiver) = unbounded();
        sender.send(event(0)).expect("the receiver is there");
        let sends = thread::spawn(move || {
            let second = sender.clone();
            let _ = second.send(event(1));
            let _ = sender.send(event(2));
        });
        drop(receiver.try_next());
        drop(receiver);
        join(sends);
    });
}

/// A receiver that sleeps is woken by an event, and by the end of the last sender.
#[test]
fn a_receiver_that_sleeps_is_woken() {
    explore(|| {
        let (sender, mut receiver) = unbounded();
        let sends = thread::spawn(move || {
            sender.send(event(1)).expect("the receiver is there");
            sender
        });
        assert_eq!(receiver.wait_next().as_deref(), Some(&1));
        let sender = join(sends);
        let ends = thread::spawn(move || drop(sender));
        assert!(receiver.wait_next().is_none());
        join(ends);
    });
}

/// A sender that waits for room is woken when the receiver takes what it has seen, though it does not look again.
#[test]
fn a_sender_that_waits_for_room_is_woken() {
    explore(|| {
        let (sender, mut receiver) = bounded(1);
        sender.send(event(0)).expect("the receiver is there");
        let sends = thread::spawn(move || {
            sender.send(event(1)).expect("the receiver is there");
        });
        assert_eq!(receiver.try_next().as_deref(), Some(&0));
        join(sends);
        assert_eq!(receiver.try_next().as_deref(), Some(&1));
    });
}

/// Or, if it filled its queue after the receiver had looked, when the receiver looks again.
#[test]
fn a_sender_that_waits_for_room_is_woken_by_a_look() {
    explore(|| {
        let (sender, mut receiver) = bounded(2);
        sender.send(event(0)).expect("the receiver is there");
        let sends = thread::spawn(move || {
            for number in 1..3 {
                sender.send(event(number)).expect("the receiver is there");
            }
        });
        let mut found = Vec::new();
        for _ in 0..2 {
            found.extend(receiver.try_next().map(|event| *event));
        }
        join(sends);
        numbers(&mut receiver, &mut found);
        assert_eq!(found, [0, 1, 2]);
    });
}

/// And by the end of the receiver.
#[test]
fn a_sender_that_waits_for_room_learns_that_nobody_makes_any() {
    explore(|| {
        let (sender, receiver) = bounded(1);
        sender.send(event(0)).expect("there is room");
        let sends = thread::spawn(move || {
            // This one may find the room that the receiver's end has made.
            let _ = sender.send(event(1));
            assert!(sender.send(event(2)).is_err());
        });
        drop(receiver);
        join(sends);
    });
}
